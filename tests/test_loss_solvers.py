"""Machines with other losses than least squares: against scikit-learn, scipy, repetitions and their certificate."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from cases import ARCHITECTURES, LOSSES, random_kernel, random_rows
from hgk.losses import BoxLoss, EpsilonInsensitive, Expectile, Hinge, LeastSquares, Logistic, Pinball, SquaredHinge
from hgk.solvers import BoxDual, Cholesky, Newton, Solution, Status
from hgk.solvers import box as box_module
from hgk.solvers import newton as newton_module
from hgk.solvers.box import _Box
from hgk.solvers.convex import product
from hgk.solvers.interior import interior

each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
KERNEL = random_kernel(ARCHITECTURES["depth 2, balanced"])
FINE = 1e-10  # relative gap asked for where solutions are compared; f is then right to its root


def solver_for(loss, tol=FINE):
    return BoxDual(tol) if isinstance(loss, BoxLoss) else Newton(tol)


def problem(loss, n=60, outputs=1, weighted=False, seed=0):
    rows = random_rows(n, outputs=outputs, weighted=weighted, seed=seed)
    Y = (rows.Y - rows.Y.mean()).sign() if loss.signs else rows.Y
    return KERNEL.matrix(rows.X), Y, rows.weight


def primal(loss, K, y, s, lam, alpha):
    t = K @ alpha
    return float(lam * alpha @ t + (s / s.sum()) @ loss.value(y, t))


def dual_reference(loss, K, y, s, lam):
    """max D over u by scipy, in the bounds of the domain: an independent, dense solver."""
    C = s / (2 * lam * s.sum())
    low, high = (x.clamp(-1e3, 1e3).numpy() for x in loss.domain(y))
    inner = 1e-12 * (high - low)  # the conjugate of the logistic loss has an infinite slope at the ends

    def value(split):  # u = p - q, p and q >= 0, so that the tube is linear
        u = torch.from_numpy(split[: len(y)] - split[len(y) :]).requires_grad_()
        tube = float(getattr(loss, "tube", 0.0))
        conjugate = u * y + tube * torch.from_numpy(split).reshape(2, -1).sum(0) if tube else loss.conjugate(y, u)
        alpha = -C * u
        D = 0.5 * alpha @ (K @ alpha) + (C * conjugate).sum()
        (g,) = torch.autograd.grad(D, u)
        extra = tube * C.numpy() if tube else 0.0
        return float(D.detach()), np.concatenate([g.numpy() + extra, -g.numpy() + extra])

    bounds = [(max(a, 0), max(b, 0)) for a, b in zip(low + inner, high - inner, strict=True)]
    bounds += [(max(-b, 0), max(-a, 0)) for a, b in zip(low + inner, high - inner, strict=True)]
    start = np.array([(a + min(b, a + 1)) / 2 for a, b in bounds])
    options = {"maxiter": 20000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
    found = minimize(value, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    return -found.fun * 2 * lam


@pytest.mark.parametrize("lam", [1e-3, 1e-1])
@each_loss
def test_agrees_with_a_dense_reference_of_the_dual(loss, lam):
    K, Y, s = problem(loss, 40, weighted=True)
    found = solver_for(loss).solve(solver_for(loss).prepare(K, s), Y, lam, loss)
    value, reference = primal(loss, K, Y[:, 0], s, lam, found.alpha[:, 0]), dual_reference(loss, K, Y[:, 0], s, lam)
    assert found.status is Status.SOLVED
    assert value == pytest.approx(reference, rel=1e-5)


@each_loss
def test_the_gap_is_primal_less_dual_and_no_other_point_is_better(loss):
    K, Y, s = problem(loss, weighted=True)
    lam = 1e-2
    found = solver_for(loss, 1e-6).solve(solver_for(loss).prepare(K, s), Y, lam, loss)
    alpha, y = found.alpha[:, 0], Y[:, 0]
    u = -alpha * 2 * lam * s.sum() / s
    low, high = loss.domain(y)
    assert bool(((u >= low - 1e-9) & (u <= high + 1e-9)).all())
    P = primal(loss, K, y, s, lam, alpha)
    D = -lam * alpha @ K @ alpha - (s / s.sum()) @ loss.conjugate(y, torch.minimum(torch.maximum(u, low), high))
    assert found.stats["gap"] == pytest.approx((P - float(D)) / P, abs=1e-12)
    assert found.stats["gap"] <= 1e-6
    rng = torch.Generator().manual_seed(0)
    for size in (1e-3, 1e-1):
        other = alpha + size * torch.randn(len(alpha), generator=rng, dtype=torch.float64)
        assert primal(loss, K, y, s, lam, other) >= P * (1 - 1e-6)


@each_loss
def test_many_lambda_on_a_badly_conditioned_matrix(loss):
    """Every row twice, a wide kernel: K has rank 30 at most of 60, and eigenvalues down to rounding."""
    rows = random_rows(30)
    X = torch.cat([rows.X, rows.X])
    K = random_kernel(ARCHITECTURES["depth 2, balanced"], gamma=5.0).matrix(X)
    Y = problem(loss, 60)[1]
    solver = solver_for(loss, 1e-6)
    state = solver.prepare(K)
    for lam in np.logspace(1, -7, 9):
        found = solver.solve(state, Y, lam, loss)
        assert found.status is Status.SOLVED, (lam, found.stats)
        assert found.stats["gap"] <= 1e-6


@each_loss
def test_a_path_gives_what_single_solves_give(loss):
    K, Y, s = problem(loss, weighted=True)
    solver, lams = solver_for(loss), [1e-3, 1e-1, 1e-2]
    state = solver.prepare(K, s)
    for lam, warm in zip(lams, solver.path(state, Y, lams, loss), strict=True):
        cold = solver.solve(state, Y, lam, loss)
        torch.testing.assert_close(K @ warm.alpha, K @ cold.alpha, rtol=0, atol=1e-4)
        again = solver.solve(state, Y, lam, loss, start=cold)
        assert again.stats["newton"] + again.stats.get("steps", 0) <= 1 + cold.stats["newton"] // 2
        # from a bad start too
        far = Solution(100 * torch.randn(60, 1, generator=torch.Generator().manual_seed(1)))
        bad = solver.solve(state, Y, lam, loss, start=far)
        torch.testing.assert_close(K @ bad.alpha, K @ cold.alpha, rtol=0, atol=1e-4)


SMOOTH = {name: loss for name, loss in LOSSES.items() if not isinstance(loss, BoxLoss)}
each_smooth = pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH.keys())


@pytest.mark.parametrize("lam", [1e-1, 1e-3])
@each_smooth
def test_conjugate_gradients_and_factorisations_find_the_same(loss, lam, monkeypatch):
    K, Y, s = problem(loss, outputs=3, weighted=True)
    state = Newton(1e-9).prepare(K, s)
    factored = Newton(1e-9).solve(state, Y, lam, loss)
    assert factored.stats["iterations"] == 0  # few rows
    monkeypatch.setattr(newton_module, "WORTH", (1e-9, 0.0))
    found = Newton(1e-9).solve(state, Y, lam, loss)
    assert found.status is Status.SOLVED
    assert found.stats["iterations"] > 0
    assert found.stats["factors"] == 0
    torch.testing.assert_close(K @ found.alpha, K @ factored.alpha, rtol=0, atol=1e-4)
    for k, gap in enumerate(found.stats["gaps"]):  # the certificate is of α and of K in double precision
        alpha, y = found.alpha[:, k], Y[:, k]
        P = primal(loss, K, y, s, lam, alpha)
        low, high = loss.domain(y)
        u = torch.minimum(torch.maximum(-alpha * 2 * lam * s.sum() / s, low), high)
        D = float(-lam * alpha @ K @ alpha - (s / s.sum()) @ loss.conjugate(y, u))
        assert gap == pytest.approx((P - D) / P, abs=1e-12)


@each_smooth
def test_what_is_too_stiff_for_single_precision_is_factored(loss, monkeypatch):
    """A wide kernel, every row twice, down to λ = 1e-9; conjugate gradients are given few steps, or very many."""
    X = random_rows(30).X.repeat(2, 1)
    K, Y = random_kernel(ARCHITECTURES["depth 2, balanced"], gamma=5.0).matrix(X), problem(loss, 60, outputs=2)[1]
    solver = Newton(1e-6)
    state, factors = solver.prepare(K), 0
    for worth in ((0.5, 0.0), (0.1, 0.0)):
        monkeypatch.setattr(newton_module, "WORTH", worth)
        for lam in (1e-3, 1e-6, 1e-9):
            found = solver.solve(state, Y, lam, loss)
            assert found.status is Status.SOLVED, (lam, found.stats)
            factors += found.stats["factors"]
    assert factors > 0


def test_many_rows_and_columns_need_no_factor_and_leave_one_by_one():
    rows = random_rows(700, outputs=6)
    Y = (rows.Y - rows.Y.mean(0)).sign()
    Y[:, 0] = 1.0  # soon through
    K = KERNEL.matrix(rows.X)
    found = Newton(1e-7).solve(Newton().prepare(K), Y, 1e-3, Logistic())
    assert found.status is Status.SOLVED
    assert found.stats["factors"] == 0
    alone = [Newton(1e-7).solve(Newton().prepare(K), Y[:, [k]], 1e-3, Logistic()) for k in range(6)]
    for k, one in enumerate(alone):
        torch.testing.assert_close(K @ found.alpha[:, [k]], K @ one.alpha, rtol=0, atol=1e-3)
    assert found.stats["iterations"] == sum(one.stats["iterations"] for one in alone)


def test_conjugate_gradients_keep_to_their_goal_and_their_steps():
    K, _, _ = problem(Hinge(), 80)
    rng = torch.Generator().manual_seed(0)
    root, right = torch.rand(2, 80, 4, generator=rng, dtype=torch.float64)
    right[:, 1] = 0
    goal, most = torch.tensor([1e-4, 1e-4, 1e-12, 1e-12]).double(), torch.tensor([100, 100, 100, 2])
    w, steps, left = newton_module.conjugate_gradients(K, root, right, goal, most)
    residual = right - w - root * (K @ (root * w))
    torch.testing.assert_close(left, (residual**2).sum(0), rtol=1e-6, atol=1e-15)
    A = torch.eye(80) + root.T[:, :, None] * K * root.T[:, None, :]
    lost = (residual.T * torch.linalg.solve(A, residual.T)).sum(1)  # (w - w*)ᵀ A (w - w*)
    assert bool((lost[:3] <= goal[:3]).all())
    assert float(left[3]) > 1e-12
    assert steps[1] == 0
    assert steps[3] == 2
    assert steps[0] < steps[2]
    assert bool((w[:, 1] == 0).all())


def rows_of_a_factor(n=150):
    """Φ with ΦΦᵀ = K: a linear machine on its rows is the kernel machine."""
    K, Y, _ = problem(Hinge(), n)
    K = K + 1e-6 * torch.eye(n)
    return K, Y, torch.linalg.cholesky(K).numpy()


@pytest.mark.parametrize("name", ["hinge", "squared hinge"])
def test_hinges_equal_linear_machines_on_the_rows_of_a_factor(name):
    K, Y, rows = rows_of_a_factor()
    lam, loss = 1e-2, LOSSES[name]
    # λ‖w‖² + (1/n) Σ L  =  2λ (½‖w‖² + C Σ L)
    peer = LinearSVC(
        C=1 / (2 * len(K) * lam), loss=name.replace(" ", "_"), fit_intercept=False, tol=1e-9, max_iter=10**6
    )
    expected = peer.fit(rows, Y[:, 0].numpy()).decision_function(rows)
    found = solver_for(loss).solve(solver_for(loss).prepare(K), Y, lam, loss)
    np.testing.assert_allclose((K @ found.alpha)[:, 0], expected, atol=1e-5)


def test_logistic_equals_logistic_regression_on_the_rows_of_a_factor():
    K, Y, rows = rows_of_a_factor()
    peer = LogisticRegression(C=1 / (2 * len(K) * 1e-2), fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = peer.fit(rows, Y[:, 0].numpy()).decision_function(rows)
    found = Newton().solve(Newton().prepare(K), Y, 1e-2, Logistic())
    np.testing.assert_allclose((K @ found.alpha)[:, 0], expected, atol=1e-6)


def test_expectile_in_the_middle_and_weighted_least_squares_are_least_squares():
    K, Y, s = problem(LeastSquares(), weighted=True)
    newton, peer = Newton(1e-14), Cholesky()
    expected = peer.solve(peer.prepare(K, s), Y, 2e-2).alpha
    found = newton.solve(newton.prepare(K, s), Y, 1e-2, Expectile(0.5))  # half the loss, half the λ
    torch.testing.assert_close(found.alpha, expected)
    w = torch.where(Y[:, 0] > 0, 3.0, 0.5)
    expected = peer.solve(peer.prepare(K, s * w), Y, 1e-2 * float(s.sum() / (s * w).sum())).alpha
    found = newton.solve(newton.prepare(K, s), Y, 1e-2, LeastSquares(3.0, 0.5))
    torch.testing.assert_close(found.alpha, expected)


def test_the_fraction_below_a_quantile_is_its_level():
    """Five levels at once, on fitted rows and on fresh ones; the spread of the noise depends on x."""
    x = torch.linspace(-1, 1, 1000, dtype=torch.float64)[:, None]
    noise = torch.randn(1000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y, old = torch.sin(3 * x) + (0.3 + 0.2 * x) * noise, torch.arange(0, 1000, 2)
    levels = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9], dtype=torch.float64)
    K = torch.exp(-((x - x.T) ** 2))
    found = BoxDual().solve(BoxDual().prepare(K[old][:, old]), y[old].expand(-1, 5), 1e-5, Pinball(levels))
    t = K[:, old] @ found.alpha
    error = (levels * (1 - levels) / 500).sqrt()
    for rows in (old, old + 1):
        below = (t[rows] > y[rows]).double().mean(0)
        assert bool(((below - levels).abs() < 2.5 * error).all()), below


def test_box_coefficients_are_sparse_and_bounded():
    K, Y, _ = problem(EpsilonInsensitive(), 100)
    found = BoxDual().solve(BoxDual().prepare(K), Y, 1e-3, EpsilonInsensitive(0.1)).alpha
    assert float(found.abs().max()) <= 1 / (2 * 100 * 1e-3)
    assert 20 < int((found == 0).sum()) < 100


@pytest.mark.parametrize("tube", [0.0, 0.05])
def test_a_newton_step_ends_at_the_minimum_over_free_coordinates_or_at_a_bound_and_never_climbs(tube):
    K, Y, _ = problem(Pinball(), 30)
    K, y = K + 0.1 * torch.eye(30), Y[:, 0]
    a = torch.linspace(-0.5, 0.5, 30, dtype=torch.float64)

    def value(a):
        return float(0.5 * a @ K @ a - a @ y + tube * a.abs().sum())

    for width in (100.0, 0.6):
        box = _Box(K, torch.full_like(y, -width), torch.full_like(y, width), tube, a.clone(), K @ a - y)
        before = value(box.a)
        for _ in range(40):
            box.newton()
            assert value(box.a) <= before + 1e-12
            before = value(box.a)
        assert bool(((box.a >= -width) & (box.a <= width)).all())
        torch.testing.assert_close(box.G, K @ box.a - y)
        F = box.free()
        assert F.any()
        torch.testing.assert_close((box.G + tube * box.a.sign())[F], torch.zeros(int(F.sum())).double())


def test_a_small_lambda_and_a_wide_kernel_are_finished_by_steps_for_all_coordinates():
    rows = random_rows(200)
    K = random_kernel(ARCHITECTURES["depth 2, balanced"], gamma=4.0).matrix(rows.X)
    for loss in (Pinball(0.5), EpsilonInsensitive(0.02)):
        found = BoxDual(1e-8).solve(BoxDual().prepare(K), rows.Y, 1e-6, loss)
        assert found.status is Status.SOLVED
        assert found.stats["newton"] + found.stats["interior"] > 0


def test_a_row_of_zeros_and_labels_inside_the_tube():
    K, Y, _ = problem(Hinge())
    K[5] = K[:, 5] = 0
    found = BoxDual().solve(BoxDual().prepare(K), Y, 1e-2, Hinge())
    assert found.status is Status.SOLVED
    nothing = BoxDual().solve(BoxDual().prepare(K), 0.01 * Y, 1e-2, EpsilonInsensitive(0.1))
    assert nothing.status is Status.SOLVED
    assert float(nothing.alpha.abs().max()) == 0


def test_a_gap_that_is_left_is_said():
    K, Y, _ = problem(Hinge(), 200)
    short = BoxDual(1e-12, rounds=1, tries=1)
    found = short.solve(short.prepare(K), Y, 1e-7, Hinge())
    assert found.status is Status.GAP_LEFT
    assert found.stats["gap"] > 1e-12
    short = Newton(1e-12, most=1)
    found = short.solve(short.prepare(K), Y, 1e-5, Logistic())
    assert found.status is Status.GAP_LEFT
    assert found.stats["gap"] > 1e-12


def test_single_precision_in_single_precision_out():
    K, Y, _ = problem(Hinge())
    for loss in (Hinge(), SquaredHinge()):
        solver = solver_for(loss, 1e-5)
        found = solver.solve(solver.prepare(K.float()), Y.float(), 1e-2, loss)
        assert found.alpha.dtype == torch.float32
        assert found.status is Status.SOLVED


def test_what_cannot_be_solved_is_said_in_one_sentence():
    K, Y, _ = problem(Hinge())
    with pytest.raises(TypeError, match=r"BoxDual was given Logistic, which has no tube; hgk\.solvers\.choose finds"):
        BoxDual().solve(BoxDual().prepare(K), Y, 1e-2, Logistic())
    with pytest.raises(TypeError, match="Newton was given Hinge, which has no curvature"):
        Newton().solve(Newton().prepare(K), Y, 1e-2, Hinge())
    with pytest.raises(ValueError, match="finite regularisation > 0"):
        Newton().solve(Newton().prepare(K), Y, 0.0, Logistic())
    with pytest.raises(ValueError, match="takes -1 and 1"):
        BoxDual().solve(BoxDual().prepare(K), 2 * Y, 1e-2, Hinge())
    with pytest.raises(ValueError, match="leave out the rows"):
        BoxDual().prepare(K, torch.zeros(60))


def test_a_coordinate_is_not_its_own_partner():
    """Where one coordinate alone gains anything, and where there is only one."""
    from hgk.solvers.descent import descend_in_box

    y = np.array([-1.0, 0.2])
    for n in (1, 2):
        K, a = np.array([[1.0, 0.8], [0.8, 1.0]])[:n, :n].copy(), np.zeros(n)
        G = K @ a - y[:n]
        descend_in_box(K, np.full(n, -0.5), np.zeros(n), 0.0, a, G, 0.0, 100)
        assert a == pytest.approx([-0.5, 0.0][:n])
        assert K @ a - y[:n] == pytest.approx(G)


# ------------------------------------------------------------------------------- interior points, folds, floors


def box_problem(tube, n=40, width=2000.0, seed=0):
    """Nearly singular, with a box so large that descent is slow."""
    rows = random_rows(n, seed=seed)
    K = random_kernel(ARCHITECTURES["depth 2, balanced"], gamma=4.0).matrix(rows.X)
    share = torch.linspace(0.2, 1.0, n, dtype=torch.float64)
    return K, rows.Y[:, 0].contiguous(), -width * share, width * share.flip(0), tube


def naive_gap(K, y, low, high, tube, a):
    """The largest fall of the function linearised in its smooth part, over the ends of the box and 0."""
    G, total = K @ a - y, 0.0
    for g, b, bottom, top in zip(G.tolist(), a.tolist(), low.tolist(), high.tolist(), strict=True):
        total += max(g * (b - c) + tube * (abs(b) - abs(c)) for c in (bottom, top, 0.0, b))
    return total


@pytest.mark.parametrize("tube", [0.0, 0.05])
def test_interior_points_stay_inside_and_reach_the_gap_wanted_in_few_steps(tube):
    K, y, low, high, _ = data = box_problem(tube)
    first = naive_gap(*data, torch.zeros_like(y))
    values = []
    for start in (torch.zeros_like(y), 0.9 * high):
        for share in (1e-3, 1e-9):
            points, steps = interior(*data, start, share * first)
            a = points.inside
            assert bool(((a > low) & (a < high)).all())
            assert naive_gap(*data, a) <= share * first * (1 + 1e-9)
            assert 0 < steps < 40
        values.append(float(0.5 * a @ K @ a - a @ y + tube * a.abs().sum()))
    assert values[0] == pytest.approx(values[1], abs=2e-9 * first)
    loss = EpsilonInsensitive(tube)  # one value by another way: λ such that C = 1
    machine = BoxDual(1e-10).solve(BoxDual().prepare(K), y[:, None], 1 / (2 * len(y)), loss).alpha[:, 0]
    one = torch.ones_like(y)
    points, _ = interior(K, y, -one, one, tube, torch.zeros_like(y), 1e-10)
    torch.testing.assert_close(K @ points.inside, K @ machine, atol=1e-4, rtol=0)


BOXES = pytest.mark.parametrize("loss", [Hinge(), Pinball(0.3), EpsilonInsensitive(0.05)])


@BOXES
def test_machines_by_interior_points_have_their_certificate_and_margins_their_zeros(loss, monkeypatch):
    (K, Y, s), lam = problem(loss, 60), 1e-4
    K = K**0.2  # a much wider kernel
    monkeypatch.setattr(box_module, "SLOW", 1e9)  # at once
    monkeypatch.setattr(box_module, "STEPS_PER_COORDINATE", 1)
    found = BoxDual(1e-6).solve(BoxDual().prepare(K), Y, lam, loss)
    assert found.status is Status.SOLVED
    assert found.stats["interior"] > 0
    alpha, y = found.alpha[:, 0], Y[:, 0]
    value, C = primal(loss, K, y, s, lam, alpha), 1 / (2 * 60 * lam)
    dual = float(-lam * alpha @ K @ alpha - loss.conjugate(y, -alpha / C).mean())
    assert value - dual <= 2e-6 * value + 1e-12
    assert not loss.signs or bool((alpha == 0).any())  # interior points have none


@BOXES
def test_a_row_of_weight_0_is_a_row_left_out(loss):
    K, Y, weight = problem(loss, 60)
    weight = torch.ones(60).double() if weight is None else weight
    keep = torch.arange(60) % 3 > 0
    whole = BoxDual(1e-8).solve(BoxDual().prepare(K, torch.where(keep, weight, 0.0)), Y, 1e-3, loss)
    part = BoxDual(1e-8).solve(BoxDual().prepare(K[keep][:, keep], weight[keep]), Y[keep], 1e-3, loss)
    assert (whole.alpha[~keep] == 0).all()
    assert whole.status is Status.SOLVED
    torch.testing.assert_close(K @ whole.alpha, K[:, keep] @ part.alpha, atol=2e-3, rtol=0)


def test_a_floor_is_what_small_values_are_compared_with():
    K, Y, _ = problem(Hinge(), 60)
    state, gaps = BoxDual().prepare(K), {}
    for floor in (0.0, 1.0):
        found = BoxDual(1e-3, floor=floor).solve(state, Y, 1e-7, Hinge())
        t, C = K @ found.alpha, 1 / (2 * 60 * 1e-7)
        value = Hinge().value(Y, t)
        primal = float(1e-7 * (found.alpha * t).sum() + value.mean())
        gap = float((value + Hinge().conjugate(Y, -found.alpha / C) + found.alpha / C * t).mean())
        assert found.status is Status.SOLVED
        assert found.stats["gap"] == pytest.approx(gap / max(primal, floor), rel=1e-3, abs=1e-9)
        gaps[floor] = gap
    assert primal < 0.5
    assert gaps[0.0] <= 1e-3 * primal < gaps[1.0]


def test_products_read_the_rows_that_count_and_the_largest_is_the_first():
    from hgk.solvers.descent import _largest

    rng = np.random.default_rng(0)
    K = torch.from_numpy(rng.standard_normal((50, 50)))
    K = K + K.T
    for some in range(51):
        alpha = torch.from_numpy(rng.permutation(np.where(np.arange(50) < some, rng.standard_normal(50), 0.0)))
        torch.testing.assert_close(product(K, alpha), K @ alpha)
    for n in (1, 7, 8, 511, 512, 513, 1100):
        gain = rng.integers(0, n, n).astype(float)
        assert _largest(gain) == gain.argmax()


@pytest.mark.parametrize(
    "loss", [Hinge(), Pinball(0.5), Pinball(1e-6), EpsilonInsensitive(0.0), EpsilonInsensitive(1.0)]
)
def test_a_few_rows_at_any_lambda_end_with_a_true_certificate(loss):
    """Also with rows of weight 0, repeated rows and kernels of any size; the gap may vanish to the last bit."""
    for case in range(120):
        rng = np.random.default_rng(case)
        n = int(rng.integers(1, 13))
        X = rng.standard_normal((n, 2))
        X = X[rng.integers(n, size=n)] if case % 2 else X
        K = torch.from_numpy(np.exp(-((X[:, None] - X) ** 2).sum(2) / rng.choice([0.01, 1, 100, 1e4])))
        K, y = K * rng.choice([1, 1e4, 1e-4]), torch.from_numpy(rng.standard_normal(n))
        y = torch.where(y > 0, 1.0, -1.0).double() if loss.signs else y
        s = torch.ones(n, dtype=torch.float64)
        s[: n // 2] = case % 3 > 0
        lam, solver = 10 ** rng.uniform(-10, 3), BoxDual(1e-4)
        found = solver.solve(solver.prepare(K, s), y[:, None], lam, loss)
        value, C = primal(loss, K, y, s, lam, found.alpha[:, 0]), s / (2 * lam * s.sum())
        u = torch.where(s > 0, -found.alpha[:, 0] / torch.where(s > 0, C, 1.0), 0.0)
        low, high = loss.domain(y)
        inside = torch.minimum(torch.maximum(u, low), high)
        torch.testing.assert_close(u, inside, rtol=1e-9, atol=1e-9)
        a = found.alpha[:, 0]
        dual = -float(lam * a @ K @ a + ((s / s.sum()) * torch.where(s > 0, loss.conjugate(y, inside), 0.0)).sum())
        assert value - dual <= 1.01 * found.stats["gap"] * value + 1e-6 * max(1.0, abs(value)), (case, lam)


def test_rounding_ends_the_rounds():
    """A gap that cannot be reached at a tiny λ is said after a few rounds."""
    K, Y, _ = problem(EpsilonInsensitive(0.1), 30)
    K, Y = K.repeat(2, 2), Y.repeat(2, 1)
    found = BoxDual(1e-14).solve(BoxDual().prepare(K), Y, 1e-10, EpsilonInsensitive(0.1))
    assert found.stats["rounds"] < 60
    assert found.status is Status.GAP_LEFT
