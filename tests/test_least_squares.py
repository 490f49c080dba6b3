"""The least-squares machine against scikit-learn, against repetition, and against brute-force refits."""

from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk import arrays
from hgk.kernels import HierarchicalKernel, MeanKernel
from hgk.machines import (
    Machine,
    MeanOfMachines,
    OnCentres,
    Rows,
    clipped_risk,
    exact,
    train,
    train_on_centres,
    weighted_quantile,
)
from hgk.progress import Progress
from hgk.solvers import Cholesky, Nystrom, Spectral, Status
from hgk.solvers.least_squares import MIXED, refined, solved_in_place
from hgk.solvers.nystrom import JITTER
from reference import held_out_residuals, machine

CLOSE = 1e-8
each_solver = pytest.mark.parametrize("solver", [Cholesky(), Spectral()], ids=["cholesky", "spectral"])
lams = pytest.mark.parametrize("lam", [1e-5, 1e-2, 1.0])
KERNEL = random_kernel(ARCHITECTURES["depth 2, balanced"])
OTHER = random_kernel(ARCHITECTURES["smooth and rough"], seed=1)
MEAN = MeanKernel((KERNEL, OTHER), (3.0, 1.0))


def problem(n=40, outputs=2, weighted=False):
    rows = random_rows(n, outputs=outputs, weighted=weighted)
    return KERNEL.matrix(rows.X), rows.Y, rows.weight


@lams
@each_solver
def test_agrees_with_kernel_ridge_at_alpha_n_lambda(solver, lam):
    K, Y, _ = problem()
    expected = KernelRidge(alpha=40 * lam, kernel="precomputed").fit(K.numpy(), Y.numpy()).dual_coef_
    np.testing.assert_allclose(solver.solve(solver.prepare(K), Y, lam).alpha, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@lams
@each_solver
def test_leave_one_out_equals_refits(solver, lam, weighted):
    K, Y, s = problem(weighted=weighted)
    found = solver.loo(solver.prepare(K, s), Y, lam)
    residuals = found.residuals
    torch.testing.assert_close(found.alpha, solver.solve(solver.prepare(K, s), Y, lam).alpha)
    brute = [
        held_out_residuals(K.numpy(), Y.numpy(), float(s.sum()) * lam, s.numpy(), np.array([i]))[0] for i in range(40)
    ]
    np.testing.assert_allclose(residuals, brute, atol=CLOSE)


@each_solver
def test_a_singular_matrix_is_solved_and_what_was_added_is_reported(solver):
    rows = random_rows(20)
    X = torch.cat([rows.X, rows.X])  # every row twice: rank 20 of 40
    Y = torch.cat([rows.Y, rows.Y])
    solution = solver.solve(solver.prepare(KERNEL.matrix(X)), Y, 0.0)
    assert solution.status is Status.RIDGE_ADDED
    assert 0 < solution.stats["ridge_added"] < 1e-6
    torch.testing.assert_close(KERNEL.matrix(X) @ solution.alpha, Y, rtol=0, atol=1e-4)
    regular = solver.solve(solver.prepare(KERNEL.matrix(X)), Y, 1e-3)
    assert regular.status is Status.SOLVED
    assert regular.stats["ridge_added"] == 0.0


@pytest.mark.parametrize("seed", range(20))
@each_solver
def test_a_pivot_that_is_rounding_counts_as_singular(solver, seed):
    """A row twice with two labels: rounding may let the factorisation pass, with coefficients of 1e15."""
    rows = random_rows(30, seed=seed)
    X, Y = torch.cat([rows.X, rows.X[:1]]), torch.cat([rows.Y, rows.Y[:1] + 1])
    found = solver.solve(solver.prepare(KERNEL.matrix(X)), Y, 0.0)
    assert found.status is Status.RIDGE_ADDED
    assert float(found.alpha.abs().max()) < 1e14
    assert solver.loo(solver.prepare(KERNEL.matrix(X)), Y, 0.0).stats["ridge_added"] > 0


@each_solver
def test_a_tiny_positive_pivot_counts_as_rounding(solver):
    K, Y = torch.diag(torch.tensor([1.0, 1e-17], dtype=torch.float64)), torch.ones(2, 1, dtype=torch.float64)
    found = solver.solve(solver.prepare(K), Y, 0.0)
    assert found.status is Status.RIDGE_ADDED
    assert float(found.alpha.abs().max()) < 1e16


@each_solver
def test_an_indefinite_matrix_is_refused(solver):
    K, Y, _ = problem()
    with pytest.raises(ValueError, match="positive semi-definite"):
        solver.solve(solver.prepare(-K), Y, 1e-3)


def test_negative_lambda_and_weights_of_zero_are_refused():
    K, Y, s = problem()
    with pytest.raises(ValueError, match=r"lam=-0\.1"):
        Cholesky().solve(Cholesky().prepare(K), Y, -0.1)
    with pytest.raises(ValueError, match="Sample weights must be positive"):
        Cholesky().prepare(K, s * 0)


def test_training_a_machine_uses_the_weights():
    rows = random_rows(30, weighted=True)
    K, s = KERNEL.matrix(rows.X).numpy(), rows.weight.numpy()
    expected = machine(K, rows.Y.numpy(), s.sum() * 1e-3, s)
    np.testing.assert_allclose(train(KERNEL, rows, 1e-3).alpha, expected, atol=CLOSE)


def test_averaged_machine_is_the_mean_of_its_parts_and_so_are_its_leave_one_out_predictions():
    rows = random_rows(30, weighted=True)
    parts = [torch.arange(0, 20), torch.arange(10, 30)]
    together = train(KERNEL, rows, 1e-3, [(part, rows.weight[part]) for part in parts])
    singles = [train(KERNEL, rows[part], 1e-3) for part in parts]
    X = random_rows(15, seed=7).X
    expected = torch.stack([m(X) for m in singles]).mean(0)
    torch.testing.assert_close(together(X), expected, rtol=0, atol=CLOSE)

    loo = together.leave_one_out(rows)
    for i in (3, 15, 27):  # in the first part, in both, in the second
        t = []
        for part in parts:
            c = float(rows.weight[part].sum()) * 1e-3
            rest = part[part != i]
            A = KERNEL.matrix(rows.X[rest]) + c * torch.diag(1 / rows.weight[rest])
            t.append(KERNEL.matrix(rows.X[i : i + 1], rows.X[rest]) @ torch.linalg.solve(A, rows.Y[rest]))
        assert float(loo[i]) == pytest.approx(float(torch.stack(t).mean()), abs=CLOSE)
    assert isinstance(together, Machine)


def machines_of_every_kind(rows):
    parts = [torch.arange(0, 30), torch.arange(10, 40)]
    centres, out = torch.arange(0, 40, 3), torch.arange(0, 40, 4)
    return {
        "one part": train(KERNEL, rows, 1e-3),
        "two parts": train(KERNEL, rows, 1e-3, [(part, rows.weight[part]) for part in parts]),
        "centres": train_on_centres(KERNEL, rows, [1e-3], centres, out, 1.0, Progress()),
        "mean": train(MEAN, rows, 1e-3),
    }


KINDS = ["one part", "two parts", "centres", "mean"]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_without_a_row_equal_refits(kind):
    """f^(-i) at other points, c and the centres kept as they are."""
    rows, X = random_rows(40, outputs=2, weighted=True), random_rows(7, seed=3).X
    machine = machines_of_every_kind(rows)[kind]
    index = torch.tensor([3, 15, 37])
    values, elsewhere = machine.without_one(rows, index)
    t = elsewhere(X)
    for place, i in enumerate(index.tolist()):
        refit = without(machine, rows, i)
        torch.testing.assert_close(values[place], refit(rows.X[i : i + 1])[0], rtol=0, atol=1e-4)
        torch.testing.assert_close(t[:, :, place].T, refit(X), rtol=0, atol=1e-4)
    torch.testing.assert_close(machine.leave_one_out(rows)[index], values)
    assert elsewhere(X[:0]).shape == (2, 0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_without_two_rows_equal_refits(kind):
    rows = random_rows(40, outputs=2, weighted=True)
    machine = machines_of_every_kind(rows)[kind]
    index = torch.tensor([3, 15, 20, 37])  # in the first part, in both, in both, in the second
    t = machine.leave_two_out(rows, index)
    for a, i in enumerate(index.tolist()):
        for b, j in enumerate(index.tolist()):
            expected = without(machine, rows, i, j)(rows.X[i : i + 1])[0]
            torch.testing.assert_close(t[:, a, b], expected, rtol=0, atol=1e-4)
    other = machines_of_every_kind(rows)["one part"]
    mean = (t + other.leave_two_out(rows, index)) / 2
    torch.testing.assert_close(MeanOfMachines((machine, other)).leave_two_out(rows, index), mean)


def without(machine, rows, *left_out):
    """The machine's function from all rows but these, from the definition."""
    if isinstance(machine, OnCentres):
        K, k = KERNEL.matrix(machine.X), KERNEL.matrix(rows.X, machine.X)
        s = rows.weight.clone()
        s[list(left_out)] = 0
        c = float(rows.weight.sum()) * machine.lam
        A = k.T @ (s[:, None] * k) + c * (K + JITTER * torch.eye(len(K), dtype=K.dtype))
        alpha = torch.linalg.solve(A, k.T @ (s[:, None] * rows.Y))
        return lambda X: KERNEL.matrix(X, machine.X) @ alpha

    def function(X):
        t = []
        for part in machine.parts:
            c, rest = float(rows.weight[part].sum()) * machine.lam, part[~torch.isin(part, torch.tensor(left_out))]
            A = machine.kernel.matrix(rows.X[rest]) + c * torch.diag(1 / rows.weight[rest])
            t.append(machine.kernel.matrix(X, rows.X[rest]) @ torch.linalg.solve(A, rows.Y[rest]))
        return torch.stack(t).mean(0)

    return function


def test_the_mean_of_kernels_is_their_mean(monkeypatch):
    X, Z, alpha = random_rows(50).X, random_rows(9, seed=1).X, random_rows(9, outputs=2, seed=2).Y
    expected = 0.75 * KERNEL.matrix(X, Z) + 0.25 * OTHER.matrix(X, Z)
    torch.testing.assert_close(MEAN.matrix(X, Z), expected)
    torch.testing.assert_close(MEAN.multiply(X, Z, alpha), expected @ alpha)
    whole = MEAN.matrix(X)
    torch.testing.assert_close(whole, 0.75 * KERNEL.matrix(X) + 0.25 * OTHER.matrix(X))
    monkeypatch.setattr(arrays.memory, "LARGE", 20)
    monkeypatch.setattr("hgk.kernels.mean.BLOCK", 7)
    torch.testing.assert_close(MEAN.matrix(X), whole)
    torch.testing.assert_close(MEAN.matrix(X, Z), expected)


def test_a_machine_on_a_mean_of_kernels_is_one_function_in_an_average():
    rows, X, index = random_rows(40, outputs=2, weighted=True), random_rows(9, seed=2).X, torch.tensor([1, 8, 30])
    together, alone = train(MEAN, rows, 1e-3), train(OTHER, rows, 1e-2)
    c = float(rows.weight.sum()) * 1e-3
    alpha = torch.linalg.solve(MEAN.matrix(rows.X) + c * torch.diag(1 / rows.weight), rows.Y)
    torch.testing.assert_close(together(X), MEAN.matrix(X, rows.X) @ alpha)
    both = together, alone
    values, elsewhere = zip(*(machine.without_one(rows, index) for machine in both), strict=True)
    for order in (both, both[::-1]):
        mean = MeanOfMachines(order)
        torch.testing.assert_close(mean(X), (together(X) + alone(X)) / 2)
        # shares 3 and 1 of the mean, in a half of the function
        shares = sorted(share for share, *_ in mean.terms)
        assert shares == pytest.approx([0.125, 0.375, 0.5])
        found, there = mean.without_one(rows, index)
        torch.testing.assert_close(found, torch.stack(values).mean(0))
        torch.testing.assert_close(there(X), torch.stack([function(X) for function in elsewhere]).mean(0))
        two = (together.leave_two_out(rows, index) + alone.leave_two_out(rows, index)) / 2
        torch.testing.assert_close(mean.leave_two_out(rows, index), two)
    assert MeanKernel.of([KERNEL], [2.0]) is KERNEL


@pytest.mark.parametrize("kind", [*KINDS, "a mean of machines"])
def test_a_function_is_the_sum_of_its_terms(kind):
    """f = Σ p Σ_j α_j k(x_j, ·), and the shares p of every machine in it sum to 1."""
    rows, X = random_rows(40, outputs=2, weighted=True), random_rows(9, seed=2).X
    machines = machines_of_every_kind(rows)
    machine = machines.get(kind) or MeanOfMachines((machines["mean"], machines["two parts"]))
    t = sum(share * kernel.matrix(X, Z) @ alpha for share, kernel, Z, alpha in machine.terms)
    torch.testing.assert_close(machine(X), t)
    assert sum(share for share, *_ in machine.terms) == pytest.approx(1.0)
    assert machine.outputs == len(machine.lams) == 2


def test_a_mean_of_machines_has_the_mean_of_their_kernels_and_the_geometric_mean_of_their_lams():
    rows = random_rows(40, outputs=2)
    first, second = train(MEAN, rows, 1e-3), train(OTHER, rows, 1e-1)
    mean = MeanOfMachines((first, second))
    K = (MEAN.matrix(rows.X) + OTHER.matrix(rows.X)) / 2
    torch.testing.assert_close(mean.kernel.matrix(rows.X), K)
    assert mean.lam == pytest.approx(1e-2)
    assert torch.equal(mean.alpha, torch.stack([first.alpha, second.alpha]))
    assert mean.outputs == 2
    assert mean.parts_of() == [first, second]


def test_machines_that_move_share_what_they_shared():
    rows = random_rows(40)
    mean = MeanOfMachines((train(KERNEL, rows, 1e-3), train(OTHER, rows, 1e-3)))
    there = mean.to(torch.device("meta"))
    assert there.machines[0].X is there.machines[1].X
    assert {part.device.type for machine in there.machines for part in (machine.X, machine.alpha)} == {"meta"}
    assert mean.to(rows.X.device).X is rows.X
    single = mean.to(dtype=torch.float32)
    assert {machine.X.dtype for machine in single.machines} == {torch.float32}
    assert {machine.alpha.dtype for machine in single.machines} == {torch.float64}


def test_the_machine_on_a_mean_has_no_larger_regularised_risk_than_the_machines_have_in_the_mean():
    rows, lam = random_rows(60), 1e-3

    def objective(kernel, alpha):
        K = kernel.matrix(rows.X)
        return float(lam * (alpha * (K @ alpha)).sum() + ((rows.Y - K @ alpha) ** 2).mean())

    own = [objective(kernel, train(kernel, rows, lam).alpha) for kernel in (KERNEL, OTHER)]
    assert objective(MEAN, train(MEAN, rows, lam).alpha) <= 0.75 * own[0] + 0.25 * own[1]


def test_weights_of_any_size_and_steep_kernels_are_solved_as_in_double_precision(monkeypatch):
    """Single precision is asked for where it would do harm: c is large because of the weights, or K cancels."""
    rows = random_rows(60)
    steep = HierarchicalKernel(OTHER.architecture, (1e-3 * OTHER.W[0], 300 * OTHER.W[1]))
    for mean, weight, lam in ((MEAN, 1e6, 1e-9), (MeanKernel((steep, steep), (1.0, 1.0)), 1.0, 1e-5)):
        monkeypatch.setattr(exact, "WORTH_IT", 61)
        double = train(mean, rows, lam)
        monkeypatch.setattr(exact, "WORTH_IT", 60)
        heavy = replace(rows, weight=weight * rows.weight)
        assert not exact.single_suffices(mean, heavy, lam)
        found = train(mean, heavy, lam)
        torch.testing.assert_close(found.alpha, double.alpha)
        assert found.ridge_added == double.ridge_added


@pytest.mark.parametrize(("narrow", "steep"), [(1.0, 1.0), (0.3, 3.0), (0.1, 10.0), (0.03, 30.0)])
def test_the_rounding_of_single_precision_grows_with_the_largest_exponent(narrow, steep):
    """Its norm against what is asked of c; columns in [-1, 1], nodes that cancel the more the steeper they are."""
    X = random_rows(400).X
    kernel = random_kernel(ARCHITECTURES["depth 2, balanced"])
    kernel = kernel.with_weights((narrow * kernel.W[0], steep * kernel.W[1]))
    rounding = kernel.matrix(X.float()).double() - kernel.matrix(X)
    unit = max(1.0, kernel.largest_exponent) * 2.0**-23 * 400**0.5
    assert 0.05 * unit < float(torch.linalg.matrix_norm(rounding, 2)) < 2 * unit


def test_a_single_precision_that_needs_a_ridge_is_not_taken(monkeypatch):
    rows = random_rows(60)
    monkeypatch.setattr(exact, "WORTH_IT", 60)
    expected = train(MEAN, rows, 1e-2).alpha
    solve, asked = exact._solve, []

    def needy(mean, rows, lam, parts=None, dtype=None):
        asked.append(dtype)
        alpha, ridge = solve(mean, rows, lam, parts)
        return alpha + (dtype is not None), 1e-6 if dtype is not None else ridge

    monkeypatch.setattr(exact, "_solve", needy)
    torch.testing.assert_close(train(MEAN, rows, 1e-2).alpha, expected, rtol=1e-3, atol=1e-3)
    assert asked == [torch.float32, None]


def test_the_mean_is_computed_in_single_precision_where_that_is_far_below_the_ridge(monkeypatch):
    rows, X = random_rows(60), random_rows(20, seed=5).X
    for lam in (1e-2, 1e-8):
        monkeypatch.setattr(exact, "WORTH_IT", 61)
        double = train(MEAN, rows, lam)
        monkeypatch.setattr(exact, "WORTH_IT", 60)
        found = train(MEAN, rows, lam)
        single = lam == 1e-2  # c = 0.6 and 6e-7, the rounding 1e-6
        assert torch.equal(found.alpha, double.alpha) == (not single)
        torch.testing.assert_close(found(X), double(X), rtol=0, atol=1e-5)
        assert found.alpha.dtype == torch.float64


def test_centres_at_all_rows_are_the_exact_machine_and_blocks_do_not_matter():
    rows = random_rows(60, outputs=2, weighted=True)
    X = random_rows(20, seed=5).X
    expected = train(KERNEL, rows, 1e-2)
    everything = torch.arange(60)
    whole = train_on_centres(KERNEL, rows, [1e-2], everything, torch.arange(5), 1.0, Progress())
    torch.testing.assert_close(whole(X), expected(X), rtol=0, atol=1e-3)  # the jitter, and blocks in single precision
    solver, K = Nystrom(), KERNEL.matrix(rows.X, rows.X[:20])
    one, many = (solver.prepare(KERNEL.matrix(rows.X[:20])) for _ in "ab")
    solver.add(one, K, rows.Y, rows.weight)
    for block in torch.arange(60).split(7):
        solver.add(many, K[block], rows.Y[block], rows.weight[block])
    torch.testing.assert_close(solver.solve(one, None, 1e-2).alpha, solver.solve(many, None, 1e-2).alpha)
    at_once = solver.prepare(K, rows.weight, centres=KERNEL.matrix(rows.X[:20]))
    torch.testing.assert_close(solver.solve(at_once, rows.Y, 1e-2).alpha, solver.solve(many, None, 1e-2).alpha)
    with pytest.raises(ValueError, match="Nystrom has no labels to solve for"):
        solver.solve(at_once, None, 1e-2)


def test_on_centres_lam_is_the_best_for_the_rows_held_out():
    rows = random_rows(200)
    centres, out = torch.arange(0, 200, 4), torch.arange(0, 200, 3)
    rest = torch.tensor([i for i in range(200) if i % 3])
    lams = [1e-6, 1e-3, 1e-1, 10.0]
    risks = [_risk(rows, rest, out, centres, lam) for lam in lams]
    chosen = train_on_centres(KERNEL, rows, lams, centres, out, 1.0, Progress())
    assert chosen.lam == lams[int(np.argmin(risks))]


def _risk(rows, rest, out, centres, lam):
    solver, Z = Nystrom(), rows.X[centres]
    state = solver.prepare(KERNEL.matrix(Z))
    solver.add(state, KERNEL.matrix(rows.X[rest], Z), rows.Y[rest], rows.weight[rest])
    return clipped_risk(KERNEL.matrix(rows.X[out], Z) @ solver.solve(state, None, lam).alpha, rows[out], 1.0)


def test_weighted_quantiles_are_those_of_repeated_values():
    values = torch.tensor([[3.0, 1.0, 2.0, 5.0, 4.0]])
    assert float(weighted_quantile(values, torch.ones(5), 0.5)) == 3.0  # the ⌈0.5 · 6⌉ = 3rd smallest
    assert float(weighted_quantile(values, torch.ones(5), 0.9)) == float("inf")  # the 6th of 5
    weight = torch.tensor([1.0, 2.0, 1.0, 3.0, 1.0])
    repeated = torch.repeat_interleave(values[0], weight.long())[None]
    for level in (0.1, 0.3, 0.5, 0.8):
        expected = weighted_quantile(repeated, torch.ones(8), level)
        assert float(weighted_quantile(values, weight, level)) == float(expected)


@pytest.mark.parametrize("c", [1e-3, 0.1, 10.0])
def test_a_factor_in_single_precision_gives_the_solution_in_double(c):
    K, Y, _ = problem(n=300, outputs=3)
    Y[:, 1] = 0.0  # nothing to do in this column
    solution = torch.linalg.solve(K + c * torch.eye(300, dtype=torch.float64), Y)
    torch.testing.assert_close(refined(K, c, Y), solution, rtol=1e-8, atol=1e-10)


def test_the_refinement_says_when_single_precision_is_not_enough():
    rows = random_rows(300)
    K = KERNEL.with_gamma(100.0).matrix(rows.X)  # nearly constant: most eigenvalues are rounding
    assert refined(K, 1e-12, rows.Y) is None
    assert refined(K, 0.1, rows.Y) is not None
    assert refined(K, 0.1, rows.Y, most=1) is None


@pytest.mark.parametrize("size", [1e-200, 1e160])
def test_the_refinement_takes_labels_of_any_size_and_refuses_infinite_ones(size):
    K, Y, _ = problem(n=100)
    torch.testing.assert_close(refined(K, 0.1, Y * size) / size, refined(K, 0.1, Y), rtol=1e-10, atol=1e-12)
    Y[3, 0] = torch.inf
    assert refined(K, 0.1, Y) is None


def test_every_column_is_refined_to_its_own_size():
    K, Y, _ = problem(n=300)
    Y[:, 1] *= 1e-9
    solution = torch.linalg.solve(K + 0.01 * torch.eye(300, dtype=torch.float64), Y)
    torch.testing.assert_close(refined(K, 0.01, Y)[:, 1] * 1e9, solution[:, 1] * 1e9, rtol=1e-8, atol=1e-9)


def test_conjugate_gradients_need_few_products():
    """Adding (L Lᵀ)⁻¹ r again and again, without conjugate directions, does not get there in 60."""
    rows = random_rows(600)
    K = KERNEL.with_gamma(3.0).matrix(rows.X)
    assert refined(K, 3e-4, rows.Y, most=8) is not None


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1e-6), (100.0, 1e-10)])
def test_many_rows_solve_the_same_system(gamma, lam):
    """In the second case the factor in single precision breaks down, and the one in double precision is taken."""
    rows = random_rows(MIXED, weighted=True)
    K, Y, s = KERNEL.with_gamma(gamma).matrix(rows.X), rows.Y, rows.weight
    assert (refined(K, float(s.sum()) * lam, Y) is None) == (lam == 1e-10)
    solved = Cholesky().solve(Cholesky().prepare(K, s), Y, lam)
    c = float(s.sum()) * lam + solved.stats["ridge_added"]
    residual = K @ solved.alpha + c * solved.alpha / s[:, None] - Y
    assert float(residual.norm() / Y.norm()) < 1e-5


@pytest.mark.parametrize("size", [1, 7, 16, 50, 64])
def test_solving_in_place_is_solving(size):
    """By blocks that divide the rows, or do not, or hold all of them."""
    A = torch.randn(50, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    A, B = A @ A.T, torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.linalg.solve(A + 0.3 * torch.eye(50, dtype=torch.float64), B)
    work = A.clone()
    torch.testing.assert_close(solved_in_place(work, 0.3, B, size), expected, rtol=1e-9, atol=1e-9)
    factor = torch.linalg.cholesky(A + 0.3 * torch.eye(50, dtype=torch.float64))
    torch.testing.assert_close(work.tril(), factor, rtol=1e-10, atol=1e-10)


def test_solving_in_place_says_when_it_breaks_down():
    assert solved_in_place(-torch.eye(5, dtype=torch.float64), 0.5, torch.ones(5, 1, dtype=torch.float64), 2) is None
    ones = torch.ones(6, 6, dtype=torch.float64)
    assert solved_in_place(ones, 0.0, torch.ones(6, 1, dtype=torch.float64), 4) is None


def test_large_machines_are_machines(monkeypatch):
    rows, kernel = random_rows(90, outputs=2, weighted=True), random_kernel(ARCHITECTURES["all kinds"])
    expected = train(kernel, rows, 1e-3)
    monkeypatch.setattr(arrays.memory, "LARGE", 50)
    found = train(kernel, rows, 1e-3)
    torch.testing.assert_close(found.alpha, expected.alpha, rtol=1e-9, atol=1e-9)
    twice = Rows(rows.X[[*range(90), 0]], rows.Y[[*range(90), 0]], rows.weight[[*range(90), 0]])
    singular = train(kernel, twice, 1e-30)
    assert singular.ridge_added > 0
    assert bool(singular.alpha.isfinite().all())


def test_a_large_machine_that_is_tried_again_has_one_matrix_at_a_time(monkeypatch):
    rows, made = random_rows(30), []
    whole, solved = type(KERNEL).matrix, exact.solved_in_place

    def matrix(kernel, X):
        assert not made or made[-1]() is None  # the last one is gone
        K = whole(kernel, X)
        made.append(ref(K))
        return K

    monkeypatch.setattr(type(KERNEL), "matrix", matrix)
    monkeypatch.setattr(exact, "solved_in_place", lambda K, *rest: solved(K, *rest) if len(made) > 2 else None)
    monkeypatch.setattr(arrays.memory, "LARGE", 20)
    assert train(KERNEL, rows, 1e-3).ridge_added > 0
    assert len(made) == 3


@pytest.mark.parametrize("free", [1e9, 4e9, 6e9, 8e9, 24e9, 80e9, 149e9])
def test_what_is_called_exact_on_a_device_fits_there(free, monkeypatch):
    monkeypatch.setattr(arrays.memory, "available_memory", lambda device: free)
    n = arrays.exact_rows(torch.device("cuda"))
    for rows in range(arrays.memory.EXACT + 1, n + 1, 97):
        arrays.require_memory(rows, rows, arrays.matrices_to_factor(rows), torch.float64, "A machine")
    assert n == arrays.memory.EXACT or n >= 0.8 * (free / (3 * 8)) ** 0.5
