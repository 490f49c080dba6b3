"""The logistic loss of classes: its expansion, the solver, leaving rows out, the criterion, the machine, the choice."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import log_loss

import hgk
from hgk import HGKClassifier, HierarchicalKernel, isotropic
from hgk.criteria import LogisticLeaveOneOut
from hgk.events import ClassesJudged, LossesCompared, last
from hgk.insight import interval_coverage, scores
from hgk.logistic import Expansion, log_losses, log_probabilities, zero_or_one
from hgk.losses import LeastSquaresOrLogistic, Logistic
from hgk.machines import Exact, OfClasses, Rows, train_classes
from hgk.solvers import Newton
from hgk.solvers.classes import solve_classes
from hgk.targets import first_half
from tasks import default_settings

COLUMNS = [1, 2, 4]


def drawn(columns, n=30, seed=0):
    """Rows with weights and repetitions, and a kernel matrix."""
    rng = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=rng).double()
    number = (X[:, 0] + 0.5 * torch.randn(n, generator=rng)).mul(max(2, columns) / 3).round().long() % max(2, columns)
    Y = 2 * torch.nn.functional.one_hot(number, max(2, columns)).double() - 1
    weight, count = torch.rand(n, generator=rng).double() + 0.5, torch.randint(1, 4, (n,), generator=rng).double()
    return Rows(X, Y[:, 1:] if columns == 1 else Y, weight, count)


def kernel(gamma=1.5):
    return HierarchicalKernel.of(isotropic(2), [[1.0, 1.0]], gamma=gamma)


def without(rows, *left):
    """One repetition of each of these rows less."""
    weight = rows.weight.clone()
    for i in left:
        weight[i] -= rows.weight[i] / rows.repetitions[i]
    kept = weight > 1e-12
    return Rows(rows.X[kept], rows.Y[kept], weight[kept])


def refitted(rows, lam, *left):
    """At the same c = nλ."""
    fewer = without(rows, *left)
    return train_classes(kernel(), fewer, lam * float(rows.weight.sum() / fewer.weight.sum()))


# ---------------------------------------------------------------------------------------------------- expansion


@pytest.mark.parametrize("columns", COLUMNS)
def test_the_expansion_is_that_of_the_loss(columns):
    """Against automatic derivatives, at values of all sizes."""
    rows = drawn(columns, 12)
    y = zero_or_one(rows.Y)
    f = (torch.randn(12, columns).double() * torch.logspace(-1, 1.2, 12)[:, None]).requires_grad_()
    at = Expansion(f.detach(), y)
    (slope,) = torch.autograd.grad(log_losses(f, y).sum(), f, create_graph=True)
    torch.testing.assert_close(at.r, -slope.detach())
    v = torch.randn(12, columns).double()
    (along,) = torch.autograd.grad((slope * v).sum(), f)
    torch.testing.assert_close(at.curved(v), along, atol=1e-12, rtol=1e-7)
    step = 1e-6 * torch.eye(columns).double()
    steep = torch.stack([(Expansion(f.detach() + e, y).omega - Expansion(f.detach() - e, y).omega)[:, 0] for e in step])
    clear = at.omega[:, 0] > 1e-6
    torch.testing.assert_close(at.omega_slope[clear], steep.T[clear] / 2e-6, atol=1e-7, rtol=1e-4)


def test_two_columns_say_the_same_as_one():
    f, number = torch.randn(9, 1).double(), torch.arange(9) % 2
    both, y = torch.cat([-f, f], 1) / 2, torch.nn.functional.one_hot(number).double()
    torch.testing.assert_close(log_losses(f, number[:, None].double()), log_losses(both, y))
    torch.testing.assert_close(log_probabilities(f), log_probabilities(both))
    assert Expansion(both, y).omega == pytest.approx(2 * Expansion(f, number[:, None].double()).omega.numpy())


def test_a_row_that_is_certain_has_a_residual_without_rounding():
    at = Expansion(torch.tensor([[60.0, 0.0, 0.0]]).double(), torch.tensor([[1.0, 0.0, 0.0]]).double())
    assert float(at.r[0, 0]) == pytest.approx(2 * np.exp(-60.0), rel=1e-9)
    assert torch.isfinite(at.omega_slope).all()


# ------------------------------------------------------------------------------------------------------- solver


@pytest.mark.parametrize("lam", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("columns", COLUMNS)
def test_the_minimum_is_certified(columns, lam):
    """The gap is that of the dual, α = C r, and no direction descends."""
    rows = drawn(columns)
    K, y = kernel().matrix(rows.X), zero_or_one(rows.Y)
    solution = solve_classes(K, y, rows.weight, lam, tol=1e-10)
    assert 0 <= solution.gap + 1e-12 < 1e-9
    scale = float(solution.C.max())
    torch.testing.assert_close(solution.alpha / scale, solution.C * solution.at.r / scale, atol=1e-4, rtol=1e-3)

    def objective(alpha):
        f = K @ alpha
        return float(0.5 * (alpha * f).sum() + solution.C[:, 0] @ log_losses(f, y))

    for _ in range(5):
        step = 1e-3 * torch.randn(solution.alpha.shape).double() * solution.alpha.abs().mean()
        assert objective(solution.alpha) <= objective(solution.alpha + step) + 1e-12


def test_two_classes_are_those_of_the_solver_for_any_loss():
    rows = drawn(1)
    K = kernel().matrix(rows.X)
    solver = Newton(1e-12)
    other = solver.solve(solver.prepare(K, rows.weight), rows.Y, 1e-3, Logistic())
    solution = solve_classes(K, zero_or_one(rows.Y), rows.weight, 1e-3, tol=1e-12)
    torch.testing.assert_close(solution.alpha, other.alpha, atol=1e-4, rtol=1e-4)


def test_a_row_of_weight_two_is_a_row_given_twice_and_classes_may_lack():
    rows = drawn(4)
    K, y = kernel().matrix(rows.X), zero_or_one(rows.Y)
    y[:, 3] = 0.0
    y[y.sum(1) == 0, 0] = 1.0  # nobody is of the last class
    twice = torch.cat([torch.arange(30), torch.tensor([4])])
    weight = torch.ones(30).double()
    weight[4] = 2.0
    one = solve_classes(K, y, weight, 1e-2, tol=1e-12)
    two = solve_classes(K[twice][:, twice], y[twice], torch.ones(31).double(), 1e-2, tol=1e-12)
    torch.testing.assert_close(one.f, two.f[:30], atol=1e-5, rtol=1e-5)
    assert float(one.f[:, 3].max()) < float(one.f[:, :3].max(1).values.min())


@pytest.mark.parametrize("columns", [1, 3])
def test_weights_and_lam_of_any_size_are_solved(columns):
    rows = drawn(columns, 60)
    K, y = kernel().matrix(rows.X), zero_or_one(rows.Y)
    skewed = torch.where(rows.Y[:, 0] > 0, 1e3, 1e-4).double()
    for weight in (rows.weight, skewed):
        for lam in (1e-1, 1e-4, 1e-6):
            assert solve_classes(K, y, weight / weight.mean(), lam).gap < 1e-3


# -------------------------------------------------------------------------------------------------- leaving out


@pytest.mark.parametrize("columns", COLUMNS)
def test_leaving_out_is_near_refits(columns):
    """One Newton step takes away nearly all of what separates f(x_i) from f^(-i)(x_i), here and elsewhere."""
    rows, lam = drawn(columns), 0.03
    machine = train_classes(kernel(), rows, lam)
    X_new, index = torch.randn(5, 2).double(), torch.arange(0, 30, 4)
    values, elsewhere = machine.without_one(rows, index)
    refits = [refitted(rows, lam, i) for i in index.tolist()]
    there = torch.cat([refit(rows.X[i : i + 1]) for refit, i in zip(refits, index.tolist(), strict=True)])
    assert (values - there).square().mean() < 0.05 * (machine(rows.X[index]) - there).square().mean()
    new = torch.stack([refit(X_new) for refit in refits], 2)
    moved = (elsewhere(X_new) - new.transpose(0, 1)).square().mean()
    assert moved < 0.05 * (machine(X_new)[:, :, None] - new).square().mean()


@pytest.mark.parametrize("columns", COLUMNS)
def test_leaving_two_out_is_near_refits(columns):
    rows, lam, index = drawn(columns), 0.03, torch.tensor([2, 9, 17])
    machine = train_classes(kernel(), rows, lam)
    two, (one, _) = machine.leave_two_out(rows, index), machine.without_one(rows, index)
    whole = machine(rows.X[index])
    errors, before = [], []
    for a, i in enumerate(index.tolist()):
        torch.testing.assert_close(two[:, a, a], one[a])
        for b, j in enumerate(index.tolist()):
            if i != j:
                there = refitted(rows, lam, i, j)(rows.X[i : i + 1])[0]
                errors.append(float((two[:, a, b] - there).square().sum()))
                before.append(float((whole[a] - there).square().sum()))
    assert sum(errors) < 0.05 * sum(before)


def test_with_much_regularisation_leaving_out_is_exact():
    """There the loss is a parabola."""
    rows = drawn(1)
    machine = train_classes(kernel(), rows, 1e3)
    values, _ = machine.without_one(rows, torch.arange(5))
    there = torch.cat([refitted(rows, 1e3, i)(rows.X[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(values, there, rtol=1e-5, atol=1e-9)


# ---------------------------------------------------------------------------------------------------- criterion


@pytest.mark.parametrize("columns", COLUMNS)
def test_the_gradient_is_exact(columns):
    """In K and in log λ, with weights and repetitions, by finite differences."""
    rows, criterion, lam = drawn(columns), LogisticLeaveOneOut(), 0.02
    K = kernel().matrix(rows.X)

    def value(K, lam):
        return float(criterion(K, rows.Y, lam, rows.weight, rows.count).value)

    found, eps = criterion(K, rows.Y, lam, rows.weight, rows.count), 1e-5
    torch.testing.assert_close(found.dK, found.dK.T)
    for seed in range(3):
        E = torch.randn(30, 30, generator=torch.Generator().manual_seed(seed)).double()
        E = (E + E.T) * K
        slope = (value(K + eps * E, lam) - value(K - eps * E, lam)) / (2 * eps)
        assert float((found.dK * E).sum()) == pytest.approx(slope, rel=1e-5)
    slope = (value(K, lam * np.exp(eps)) - value(K, lam * np.exp(-eps))) / (2 * eps)
    assert float(found.dlog_lam) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("columns", COLUMNS)
def test_the_criterion_is_that_of_refits(columns):
    rows, lam = drawn(columns), 0.03
    there = torch.cat([refitted(rows, lam, i)(rows.X[i : i + 1]) for i in range(30)])
    share = rows.weight / rows.weight.sum()
    refits = float(share @ log_losses(there, zero_or_one(rows.Y)))
    trained = float(share @ log_losses(train_classes(kernel(), rows, lam)(rows.X), zero_or_one(rows.Y)))
    value = float(LogisticLeaveOneOut()(kernel().matrix(rows.X), rows.Y, lam, rows.weight, rows.count).value)
    assert abs(value - refits) < 0.1 * (refits - trained)


@pytest.mark.parametrize("columns", COLUMNS)
def test_single_precision_gives_nearly_the_same_gradient(columns):
    rows = drawn(columns)
    K, parts = kernel().matrix(rows.X), (rows.Y, 0.02, rows.weight, rows.count)
    one, two = LogisticLeaveOneOut(single=True)(K.float(), *parts), LogisticLeaveOneOut()(K, *parts)
    assert float(one.value) == pytest.approx(float(two.value), rel=1e-2)
    assert float((one.dK - two.dK).norm()) < 0.05 * float(two.dK.norm())


# ------------------------------------------------------------------------------------------------ the estimator


def noisy(n=300, classes=2, seed=0):
    """Probabilities are known: σ of a line, or softmax of several."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    scores = np.column_stack([np.zeros(n), 1.5 * X[:, 0] - X[:, 1]] if classes == 2 else [X[:, k] for k in range(3)])
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return X, np.array([rng.choice(classes, p=row) for row in p]), p


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["auto", "logistic"])
def test_probabilities_of_noisy_classes(loss, classes):
    X, y, _ = noisy(400, classes)
    X_new, y_new, p = noisy(2000, classes, 1)
    model = HGKClassifier(loss=loss, random_state=0).fit(X, y)
    probability = model.predict_proba(X_new)
    assert (probability.argmax(1) == model.predict(X_new)).all()
    np.testing.assert_allclose(probability.sum(1), 1.0)
    best = -np.log(p[np.arange(2000), y_new]).mean()
    assert log_loss(y_new, probability) < best + 0.06
    assert last(model.history_, ClassesJudged).log_loss == model.model_.error()["log_loss"]


def test_the_loss_is_chosen_and_told():
    X, y, _ = noisy(400)
    model = HGKClassifier(random_state=0).fit(X, y)
    said = last(model.history_, LossesCompared)
    assert said.logistic == isinstance(model.machine_, OfClasses)
    assert isinstance(HGKClassifier(loss="least_squares", random_state=0).fit(X, y).machine_, Exact)
    assert isinstance(HGKClassifier(loss="logistic", random_state=0).fit(X, y).machine_, OfClasses)
    assert isinstance(HGKClassifier(lam=1e-2, random_state=0).fit(X, y).machine_, Exact)  # λ is that of least squares


def test_everything_can_be_asked_of_a_logistic_model(tmp_path):
    from hgk.insight import contributions, influence

    X, y = load_iris(return_X_y=True)
    model = HGKClassifier(loss="logistic", random_state=0).fit(X[::2], y[::2])
    for compact in (False, True):
        hgk.save(model, tmp_path / "m.hgk", compact=compact)
        back = hgk.load(tmp_path / "m.hgk")
        assert (back.predict_proba(X) == model.predict_proba(X)).all()
    assert model.loo_predictions_.shape == (75, 3)
    assert (model.loo_predictions_.argmax(1) == y[::2]).mean() > 0.9
    told = contributions(model, X[:3])
    assert told.base + told.contribution.sum(-1) + told.rest == pytest.approx(told.value)
    assert len(influence(model)) == 75


def test_frequencies_of_repeated_rows():
    """A table with four different x, each a few hundred times."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (1500, 2))
    y = rng.random(1500) < np.array([[0.1, 0.4], [0.6, 0.9]])[X[:, 0], X[:, 1]]
    cells = pd.DataFrame(X).assign(y=y).groupby([0, 1]).y.mean().to_numpy()
    for loss in ("auto", "logistic"):
        model = HGKClassifier(loss=loss, random_state=0).fit(X, y)
        found = model.predict_proba([[0, 0], [0, 1], [1, 0], [1, 1]])[:, 1]
        np.testing.assert_allclose(found, cells, atol=0.05)


def test_a_class_of_two_rows_and_skewed_weights():
    X, y = make_classification(240, 4, n_classes=3, n_informative=3, n_redundant=0, random_state=0)
    y[y == 2] = 1
    y[[3, 50]] = 2
    model = HGKClassifier(loss="logistic", random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (240, 3)
    weighted = HGKClassifier(loss="logistic", class_weight={0: 50.0}, random_state=0).fit(X, y)
    assert (weighted.predict(X) == 0).mean() > (model.predict(X) == 0).mean()


def test_a_budget_and_no_steps():
    X, y, _ = noisy(400)
    with default_settings(logistic_steps=(0, 100)):
        assert not last(HGKClassifier(random_state=0).fit(X, y).history_, LossesCompared).moved
    model = HGKClassifier(random_state=0, time_budget=1e-3).fit(X, y)
    assert model.predict_proba(X).shape == (400, 2)


# ------------------------------------------------------------------------------------ what is told, and of whom


def test_halves_divide_classes_and_repetitions():
    Y = torch.tensor([[1.0], [1.0], [-1.0], [-1.0], [1.0], [-1.0]]).double()
    count = torch.tensor([1.0, 1.0, 1.0, 1.0, 400.0, 300.0]).double()
    share = first_half(Rows(torch.zeros(6, 1), Y, count, count))
    assert share[:4].sum() == 2  # one of each class in each half
    assert share[0] + share[1] == 1
    assert ((share[4:] - 0.5).abs() < 0.1).all()
    assert ((share[4:] * count[4:]).round() == (share[4:] * count[4:])).all()


@pytest.mark.parametrize("bits", [0, 1, 2])
def test_the_error_told_of_repeated_rows_is_that_of_new_ones(bits):
    rng = np.random.default_rng(bits)

    def draw(n):
        X = rng.integers(0, 2, (n, bits)) if bits else np.zeros((n, 1))
        return X, rng.random(n) < 0.2 + 0.2 * X.sum(1)

    X, y = draw(1400)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Constant columns")
        model = HGKClassifier(loss="logistic", random_state=0).fit(X, y)
    X_new, y_new = draw(20_000)
    assert model.model_.error()["log_loss"] == pytest.approx(log_loss(y_new, model.predict_proba(X_new)), abs=0.06)


@pytest.mark.parametrize("loss", ["auto", "least_squares"])
def test_of_noise_nothing_is_claimed(loss):
    """Where the plain kernel's (λ, γ) are chosen anew, slopes of the old ones would claim certainty."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((40, 3)), np.arange(40) % 2
        model = HGKClassifier(loss=loss, random_state=seed).fit(X, y)
        p = model.predict_proba(rng.standard_normal((500, 3)))
        assert log_loss(np.arange(500) % 2, p) < 1.0


def test_log_odds_have_slopes_alone():
    X, y, _ = noisy(400)
    for loss in ("auto", "logistic"):
        model = HGKClassifier(loss=loss, random_state=0).fit(X, y)
        if isinstance(model.machine_, OfClasses):
            assert not model.model_.target.estimates
            assert model.model_.target.calibration.power == 0
            (first, *_) = scores(model, compare=False)
            assert first.risk < 1.0  # of 2p - 1 and labels ±1


def test_a_gap_of_rounding_and_labels_that_are_no_classes(tmp_path):
    X, y, _ = noisy(120, 3)
    model = HGKClassifier(loss="logistic", lam=1e3, random_state=0).fit(X, y)
    assert model.machine_.gap_left >= 0
    hgk.save(model, tmp_path / "m.hgk")
    assert (hgk.load(tmp_path / "m.hgk").predict_proba(X) == model.predict_proba(X)).all()
    with pytest.raises(ValueError, match="labels other than -1 and 1"):
        LogisticLeaveOneOut()(torch.eye(3).double(), torch.rand(3, 1), 0.1, torch.ones(3))
    with pytest.raises(ValueError, match="whose values are no labels"):
        interval_coverage(model)
    with pytest.raises(ValueError, match="it has none, so give"):
        LeastSquaresOrLogistic(above=3.0)
