"""Labels of few values: the columns, their mean, and everything that is made of a machine with levels."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import hgk
import hgk.estimators.base
import hgk.learners.gradients
import hgk.targets.few_values
from hgk import HGKClassifier, HGKRegressor
from hgk.insight import contributions, influence
from hgk.kernels import HierarchicalKernel, MeanKernel, isotropic
from hgk.learners.gradients import Judge, LeaveOneOutGradients, _crossed, by_levels, judge_lams
from hgk.machines.base import Rows, average, leave_two_out_average, loo_average, proportions, train, train_on_mean
from hgk.progress import Progress
from hgk.search.selection import Task
from hgk.solvers.path import held_out_path
from hgk.storage import ModelFileError, describe
from hgk.targets.few_values import POWERS, POWERS_FOR_TWO, Levels

VALUES = torch.tensor([-1.0, -0.2, 0.1, 1.0], dtype=torch.float64)
TWO = torch.tensor([-1.0, 1.0], dtype=torch.float64)


def gaussian(width: float) -> HierarchicalKernel:
    tree = isotropic(2)
    return HierarchicalKernel(tree, (tree.mask.double(),)).with_gamma(width)


def graded_rows(n: int = 60, seed: int = 0, values: torch.Tensor = VALUES) -> Rows:
    """Grades that depend on where a row lies, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    grade = ((X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0) + (rng.random(n) < 0.1)) % len(values)
    Y, weight = values[torch.from_numpy(grade)][:, None], torch.from_numpy(rng.uniform(0.5, 2, n))
    return Rows(torch.from_numpy(X), Y, weight)


def test_few_values_are_levels_and_many_or_rare_ones_are_not():
    assert torch.equal(Levels.of(VALUES.repeat(20)[:, None]).values, VALUES)
    assert Levels.of(VALUES.repeat(20)[:-1, None]) is None  # 79 rows of 4 values
    assert Levels.of(VALUES[:1].repeat(100)[:, None]) is None
    assert Levels.of(torch.arange(41.0).repeat(100)[:, None]) is None
    assert Levels.of(torch.arange(40.0).repeat(100)[:, None]) is not None
    assert Levels.of(VALUES.repeat(20)[:, None].repeat(1, 2)) is None


def test_the_mean_of_levels_is_that_of_the_powers():
    levels, rng = Levels(VALUES, 3.0), np.random.default_rng(0)
    f = rng.uniform(-1.3, 1.3, (7, 4))
    q = np.clip((1 + f) / 2, 0, 1) ** 3
    expected = [sum(q[i, k] * float(VALUES[k]) for k in range(4)) / q[i].sum() for i in range(7)]
    t = levels(torch.from_numpy(f))
    assert t.shape == (7, 1)
    np.testing.assert_allclose(t[:, 0], expected)
    np.testing.assert_allclose(levels(torch.from_numpy(f.T.copy()), 0)[0], expected)


def test_two_values_have_one_column_and_what_two_would_say():
    rows = graded_rows(values=TWO)
    levels = Levels.of(rows.Y)
    assert torch.equal(levels.columns(rows.Y), rows.Y)
    assert torch.equal(levels.labels(rows.Y), rows.Y)
    f = torch.linspace(-1.2, 1.2, 13, dtype=torch.float64)[:, None]
    for power in POWERS_FOR_TWO:
        q = np.clip((1 + f.numpy()) / 2, 0, 1)
        expected = (q**power - (1 - q) ** power) / (q**power + (1 - q) ** power)
        t = Levels(TWO, power)(f)
        np.testing.assert_allclose(t, expected, atol=1e-15)
        assert bool((t.diff(dim=0) >= 0).all())
        assert torch.equal(Levels(TWO, power)(f.T, 0), t.T)
    torch.testing.assert_close(Levels(TWO)(f), f.clamp(-1, 1))
    sure = Levels(TWO, 1.3)(f)
    assert bool((sure.abs() >= f.clamp(-1, 1).abs() - 1e-12).all())


@pytest.mark.parametrize("values", [VALUES, TWO])
def test_labels_undo_columns(values):
    rows, levels = graded_rows(values=values), Levels(values)
    assert levels.columns(rows.Y).shape == (60, levels.outputs)
    assert torch.equal(levels.labels(levels.columns(rows.Y)), rows.Y)


def test_certain_columns_give_their_value_whatever_the_power():
    for power in POWERS:
        levels = Levels(VALUES, power)
        assert torch.equal(levels(levels.columns(VALUES[:, None])), VALUES[:, None])
        assert bool(levels(torch.full((1, 4), -1.0)).isfinite().all())
    f = torch.tensor([[-0.5, 0.9, 0.1, -1.0]], dtype=torch.float64)
    assert float(Levels(VALUES, 200.0)(f)) == pytest.approx(-0.2)  # the likeliest prevails
    p = (1 + f[0]) / 2
    assert float(Levels(VALUES)(f)) == pytest.approx(float(p @ VALUES / p.sum()))


def test_the_power_is_the_best_of_all_by_weighted_rows():
    rows, levels = graded_rows(200), Levels(VALUES)
    f = levels.columns(rows.Y) + torch.from_numpy(np.random.default_rng(1).normal(0, 0.6, (200, 4)))
    chosen = []
    for weight in (rows.weight, torch.where(rows.Y[:, 0] > 0, 1.0, 1e-6).double()):
        errors = [float(weight @ ((Levels(VALUES, s)(f) - rows.Y) ** 2)[:, 0]) for s in POWERS]
        found = levels.fitted(f, rows.Y, weight)
        assert found.power == POWERS[int(np.argmin(errors))]
        chosen.append(errors)
    assert chosen[0] != chosen[1]


def test_the_path_has_the_machines_of_every_lam():
    rows, trained = graded_rows(50), 35
    Y, K = Levels(VALUES).columns(rows.Y), gaussian(0.7).matrix(rows.X)
    lams = torch.logspace(0, -6, 9, dtype=torch.float64)
    risks, t = held_out_path(K, Y, rows.weight, trained, lams, 1.0)
    for i, lam in enumerate(lams):
        first = Rows(rows.X[:trained], Y[:trained], rows.weight[:trained])
        machine = train(gaussian(0.7), first, float(lam))
        expected = machine(rows.X[trained:]).clamp(-1, 1)
        torch.testing.assert_close(t[i], expected, rtol=1e-6, atol=1e-8)
        losses = ((expected - Y[trained:]) ** 2).sum(1)
        assert float(risks[i]) == pytest.approx(float(np.average(losses, weights=rows.weight[trained:])))
    for start in (0, 4, 8):
        some, at = held_out_path(K, Y, rows.weight, trained, lams, 1.0, start)
        known = some.isfinite()
        assert int(known.sum()) >= 2
        assert int(some.argmin()) == int(risks.argmin())
        torch.testing.assert_close(some[known], risks[known])
        torch.testing.assert_close(at[known], t[known])
    assert bool(held_out_path(K, Y, rows.weight, trained, lams, 1.0, 0)[0][-2:].isinf().all())  # not all are tried


def test_a_path_ends_where_the_matrix_is_no_longer_positive():
    rows = graded_rows(40)
    K, Y = gaussian(50.0).matrix(rows.X).float(), Levels(VALUES).columns(rows.Y).float()
    risks, _ = held_out_path(K, Y, rows.weight, 30, torch.tensor([1e-1, 1e-13]), 1.0)
    assert risks.isfinite().tolist() == [True, False]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("values", [VALUES, TWO])
def test_leave_one_and_two_out_are_refits(shared, values):
    rows, levels, lam = graded_rows(24, values=values), Levels(values, 2.0), 1e-2
    kernels = [gaussian(0.6), gaussian(1.1)]

    def trained(some: Rows):
        some = replace(some, Y=levels.columns(some.Y))
        found = (
            train_on_mean(MeanKernel(tuple(kernels), (0.5, 0.5)), some, lam)
            if shared
            else [train(kernels[0], some, lam)]
        )
        return [replace(m, levels=levels) for m in found]

    machines, n = trained(rows), len(rows)
    X = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (5, 2)))
    some = torch.tensor([2, 7, 11])
    own, elsewhere = loo_average(machines, rows, 1.0, X, some)
    two = leave_two_out_average(machines, rows, 1.0, some)
    assert (own.shape, elsewhere.shape, two.shape) == ((3, 1), (1, 5, 3), (1, 3, 3))
    total = float(rows.weight.sum())

    def without(*out: int):
        keep = torch.tensor([i for i in range(n) if i not in out])
        part = rows[keep]
        scaled = replace(part, Y=levels.columns(part.Y))
        share = lam * total / float(part.weight.sum())  # c stays
        found = (
            train_on_mean(MeanKernel(tuple(kernels), (0.5, 0.5)), scaled, share)
            if shared
            else [train(kernels[0], scaled, share)]
        )
        return [replace(m, levels=levels) for m in found]

    for a, i in enumerate(some.tolist()):
        refit = without(i)
        torch.testing.assert_close(own[a : a + 1], average(refit, rows.X[i : i + 1], 1.0), rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(elsewhere[0, :, a : a + 1], average(refit, X, 1.0), rtol=1e-6, atol=1e-8)
        for b, j in enumerate(some.tolist()):
            expected = average(without(i, j), rows.X[i : i + 1], 1.0)
            torch.testing.assert_close(two[0, a : a + 1, b : b + 1], expected, rtol=1e-6, atol=1e-8)


def test_a_judge_of_many_outputs_says_what_krylov_spaces_say(monkeypatch):
    rows = graded_rows(400)
    rows = replace(rows, Y=torch.cat([Levels(VALUES).columns(rows.Y), rows.Y], 1))
    task = Task(rows, np.arange(400) % 5, np.geomspace(0.1, 1e-6, 10), 1.0, ("scaled", "scaled"))
    judge = replace(Judge.of(task, 0, np.random.default_rng(0)), complete=True)
    said = []
    for outputs in (3, 100):
        monkeypatch.setattr(hgk.learners.gradients, "OUTPUTS", outputs)
        said.append(judge(gaussian(0.7), task))
    known = said[1][0].isfinite()
    assert int(known.sum()) > 5
    torch.testing.assert_close(said[0][0][known], said[1][0][known], rtol=2e-2, atol=1e-4)
    assert len(judge_lams(task)) == said[0][0].shape[1]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order][:, [10, 13, 18, 20, 26, 28, 34, 36, 42, 44, 51, 53]], 10.0 * y[order]
    return X[:500], y[:500], X[500:900], y[500:900]


@pytest.fixture(scope="module")
def model(digits):
    X, y, _, _ = digits
    return HGKRegressor(random_state=0, time_budget=4).fit(X, y)


def test_digits_as_numbers_are_levels_and_predicted_better_so(digits, model, monkeypatch):
    X, y, X_new, y_new = digits
    levels = model.machines_[0].levels
    np.testing.assert_allclose(model._y_scaling.inverse(levels.values.numpy()[:, None])[:, 0], np.unique(y))
    (event,) = [e for e in model.history_ if e["stage"] == "levels"]
    assert event["taken"]
    assert event["level"] < event["number"]
    monkeypatch.setattr(hgk.learners.gradients.Levels, "of", lambda Y, given: None)
    number = HGKRegressor(random_state=0, time_budget=4).fit(X, y)
    assert number.machines_[0].levels is None
    errors = [np.mean((m.predict(X_new) - y_new) ** 2) for m in (model, number)]
    assert errors[0] < 0.9 * errors[1]  # budgets buy more or less on a busy machine
    assert model.predict(X_new).shape == (400,)
    assert model.alpha_.shape == (500, 10)


def test_the_error_that_a_fit_reports_is_that_of_the_label(digits, model):
    _, _, X_new, y_new = digits
    (event,) = [e for e in model.history_ if e["stage"] == "chosen"]
    scaled = model._y_scaling.half[0] ** 2
    error = np.mean((model.predict(X_new) - y_new) ** 2) / scaled
    assert 0.3 < event["risk"] / error < 3
    assert event["power"] == model.machines_[0].levels.power
    assert "wrong" not in event


def test_noisy_grades_stay_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=400)), -2, 2)
    model = HGKRegressor(random_state=0, time_budget=2).fit(X, y)
    assert model.machines_[0].levels is None
    (event,) = [e for e in model.history_ if e["stage"] == "levels"]
    assert not event["taken"]


@pytest.fixture(scope="module")
def halves():
    """Two values, 3 and 8, of which a curve is the border."""
    X = np.random.default_rng(0).uniform(-1, 1, (1400, 3))
    y = np.where(X[:, 0] > np.sin(3 * X[:, 1]), 8.0, 3.0)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def two(halves):
    X, y, _, _ = halves
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hgk.learners.gradients, "SHARPENED", 600)
        return HGKRegressor(random_state=0, time_budget=3).fit(X, y)


def test_where_two_values_are_certain_the_power_makes_it_so(halves, two):
    _, _, X_new, y_new = halves
    levels = two.machines_[0].levels
    assert torch.equal(levels.values, TWO)
    (event,) = [e for e in two.history_ if e["stage"] == "chosen"]
    assert 1 < levels.power == event["power"]
    t = torch.from_numpy((two.predict(X_new) - 5.5) / 2.5)[:, None]
    plain = pickle.loads(pickle.dumps(two))
    plain.machines_ = [replace(m, levels=None) for m in two.machines_]
    f = torch.from_numpy((plain.predict(X_new) - 5.5) / 2.5)[:, None]
    torch.testing.assert_close(t, levels(f))
    assert np.mean((two.predict(X_new) - y_new) ** 2) < np.mean((plain.predict(X_new) - y_new) ** 2)
    assert two.alpha_.shape == (600,)
    assert not [e for e in two.history_ if e["stage"] == "levels"]  # there is nothing to compare


def test_all_that_is_made_of_a_model_of_two_values(halves, two, tmp_path):
    X, _, X_new, y_new = halves
    low, high = two.predict_interval(X_new, coverage=0.8).T
    assert ((low <= y_new) & (y_new <= high)).mean() > 0.75
    np.testing.assert_allclose(influence(two), two.predict(X) - two.loo_predictions_, atol=1e-9)
    found = contributions(two, X_new[:3], k=None)
    f = torch.from_numpy((found.value - 5.5) / 2.5).clamp(-1, 1)
    np.testing.assert_allclose(two._decode(two.machines_[0].levels(f).numpy()), two.predict(X_new[:3]))
    hgk.save(two, tmp_path / "two.hgk")
    assert (hgk.load(tmp_path / "two.hgk").predict(X_new) == two.predict(X_new)).all()


def test_the_outputs_of_two_values_are_one_prediction(halves, two, tmp_path):
    from hgk.cli.models import _outputs, _power_said, _row_explained
    from hgk.report import write_report

    assert _outputs(two) == ["prediction before its power"]
    # a row in doubt: others may lie outside the two values before they are clipped
    row = int(np.abs(two.predict(halves[2]) - 5.5).argmin())
    said = _row_explained(two, halves[2][row : row + 1], 3)
    power = said["power"]
    assert said["values"] == [3.0, 8.0]
    odds = (said["outputs"][0]["value"] - 3) / (8 - said["outputs"][0]["value"])
    assert said["prediction"] == pytest.approx(3 + 5 * odds**power / (1 + odds**power))
    assert _power_said(said["values"], power) == (
        f"the prediction below, moved to the nearer of 3 and 8 by the power {power:g} of its odds"
    )
    write_report(two, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "summed over columns" not in text
    assert "before their power" in text


def test_two_values_of_few_rows_have_no_power(halves):
    assert HGKRegressor(random_state=0, time_budget=1).fit(*halves[:2]).machines_[0].levels is None


def test_a_power_takes_no_time(halves, monkeypatch):
    monkeypatch.setattr(hgk.learners.gradients, "SHARPENED", 600)
    monkeypatch.setattr(hgk.learners.gradients.LeaveOneOutGradients, "_time_to_compare", lambda *_: False)
    X, y, X_new, _ = halves
    column = HGKRegressor(random_state=0, time_budget=1).fit(X, y[:, None])
    assert column.machines_[0].levels.power > 1
    assert column.predict(X_new).shape == (800, 1)


def test_a_power_of_1_leaves_the_machine_of_the_labels(halves, monkeypatch):
    """Also of labels that rounding keeps from ±1: (K + c I) α is Y."""
    X, y, _, _ = halves
    monkeypatch.setattr(hgk.learners.gradients, "SHARPENED", 600)
    monkeypatch.setattr(hgk.targets.few_values, "POWERS_FOR_TWO", (1.0,))
    model = HGKRegressor(random_state=0, time_budget=2).fit(X, np.where(y > 5, 1.0, np.nextafter(1.0, 2)))
    first, rows = model.machines_[0], model._rows
    assert first.levels is None
    assert not bool((rows.Y.abs() == 1).all())
    K = sum(p * m.kernel.matrix(rows.X) for p, m in zip(proportions(model.machines_), model.machines_, strict=True))
    torch.testing.assert_close(K @ first.alpha + 600 * first.lam * first.alpha, rows.Y)


def test_levels_are_for_least_squares_on_one_label_and_never_for_classes(digits, halves, monkeypatch):
    X, y, _, _ = digits
    monkeypatch.setattr(hgk.learners.gradients, "SHARPENED", 600)
    assert HGKClassifier(random_state=0, time_budget=1).fit(*halves[:2]).machines_[0].levels is None
    assert HGKRegressor("plain").fit(*halves[:2]).machines_[0].levels is None
    assert HGKClassifier(random_state=0, time_budget=1).fit(X[:300], y[:300]).machines_[0].levels is None
    two = HGKRegressor(random_state=0, time_budget=1).fit(X[:300], np.column_stack([y, y])[:300])
    assert two.machines_[0].levels is None
    assert HGKRegressor("plain").fit(X[:300], y[:300]).machines_[0].levels is None


def test_what_is_handed_on_is_what_the_judges_say_of_the_plain_kernel(digits):
    X, y, _, _ = digits
    noisy = np.clip(np.round((X[:, 0] - 8) / 4 + np.random.default_rng(0).normal(size=500)), -2, 2) / 2
    for labels, taken in ((y / 45 - 1, True), (noisy, False)):
        rows = Rows(torch.from_numpy(X), torch.from_numpy(labels)[:, None], torch.ones(500, dtype=torch.float64))
        task = Task(rows, np.arange(500) % 5, np.geomspace(0.1, 1e-6, 10), 1.0, ("scaled",) * X.shape[1], None, True)
        judges = {fold: Judge.of(task, fold, np.random.default_rng(0)) for fold in (0, 1)}
        found, judged = by_levels(task, judges, np.random.default_rng(1), Progress(), 2)
        assert (found.levels is not None) == taken
        assert found.rows.Y.shape == (500, 10 if taken else 1)
        for run, judge in zip(judged, judges.values(), strict=True):
            risks, predictions = judge(run.kernel, found)
            torch.testing.assert_close(run.risks, risks)
            torch.testing.assert_close(run.predictions, predictions)


def test_options_are_compared_on_rows_that_did_not_choose_them():
    """Many options of pure noise win on the rows that choose them, and not on the others."""
    rng = np.random.default_rng(0)
    y, share = torch.from_numpy(rng.normal(size=(100, 1))), torch.full((100,), 0.01, dtype=torch.float64)
    noise = torch.from_numpy(rng.normal(0, 0.3, (7, 16, 100, 1)))
    chosen = float(((noise - y) ** 2)[..., 0].mean(-1).min())
    crossed = _crossed(noise, y, share)
    assert chosen < float((y**2).mean()) < crossed
    losses = ((noise - y) ** 2)[..., 0].flatten(0, 1).numpy()
    one, other = losses[losses[:, 1::2].mean(1).argmin(), ::2], losses[losses[:, ::2].mean(1).argmin(), 1::2]
    assert crossed == pytest.approx(np.concatenate([one, other]).mean())


def test_a_small_budget_goes_without_the_comparison(digits):
    X, y, _, _ = digits
    model = HGKRegressor(random_state=0, time_budget=0.05).fit(X, y)
    assert not [e for e in model.history_ if e["stage"] == "levels"]
    assert LeaveOneOutGradients(budget=1.0)._time_to_compare({}) is True


def test_labels_that_differ_by_rounding_are_one_value():
    Y = torch.tensor([0.3, 0.1 + 0.2, 0.5, 1.0], dtype=torch.float64).repeat(20)[:, None]
    levels = Levels.of(Y)
    assert len(levels.values) == 3
    assert levels.columns(Y)[:4].argmax(1).tolist() == [0, 0, 1, 2]


def test_lam_below_the_rounding_of_the_matrix_gets_a_ridge():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    y = np.digitize(X[:, 0], [-0.5, 0, 0.5]).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that something was added to a diagonal
        model = HGKRegressor(random_state=0, time_budget=1, lam=1e-10).fit(X, y)
        classes = HGKClassifier(random_state=0, time_budget=1, lam=1e-10).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < 0.1
    (plain,) = [e for e in classes.history_ if e["stage"] == "candidate" and e["candidate"] == "plain"]
    assert plain["wrong"] < 0.3


def test_a_path_that_starts_below_the_rounding_finds_its_way():
    rows = graded_rows(40)
    K, Y = gaussian(3.0).matrix(rows.X).float(), Levels(VALUES).columns(rows.Y).float()
    lams = torch.tensor([1e0, 1e-1, 1e-2, 1e-9, 1e-12, 1e-15], dtype=torch.float64)
    whole, _ = held_out_path(K, Y, rows.weight, 30, lams, 1.0)
    assert int(whole.isinf().sum()) >= 2
    risks, _ = held_out_path(K, Y, rows.weight, 30, lams, 1.0, 5)
    assert int(risks.argmin()) == int(whole.argmin())
    only, t = held_out_path(K, Y, rows.weight, 30, lams[5:], 1.0)
    assert bool(only.isfinite().all())
    assert bool((t != 0).any())


@pytest.mark.parametrize("weight", [1.0, 1e-4, 50.0])
def test_the_judges_path_starts_at_the_noise_that_was_learned(weight, monkeypatch):
    """Weights that are all the same change nothing."""
    rows = graded_rows(1200)
    Y = torch.cat([Levels(VALUES).columns(rows.Y), rows.Y], 1)
    rows = Rows(rows.X, Y, torch.full((1200,), weight, dtype=torch.float64))
    task = Task(rows, np.arange(1200) % 5, np.geomspace(0.1, 1e-6, 10), 1.0, ("scaled", "scaled"))
    starts = []
    path = hgk.learners.gradients.held_out_path

    def spy(*given):
        starts.append(given[-1])
        return path(*given)

    monkeypatch.setattr(hgk.learners.gradients, "held_out_path", spy)
    judge = Judge.of(task, 0, np.random.default_rng(0))
    judge(gaussian(0.7), task, 1200, c=0.5)
    lams = judge_lams(task)
    assert starts == [int(np.abs(np.log(1200 * lams / 0.5)).argmin())]


def test_plain_alone_with_many_outputs_stays_as_judged(digits, monkeypatch):
    """Where a grid over all folds would be too much."""
    X, y, _, _ = digits
    monkeypatch.setattr(hgk.learners.gradients.LeaveOneOutGradients, "candidates", lambda *_: [])
    whole = HGKRegressor(random_state=0).fit(X, y)
    monkeypatch.setattr(hgk.learners.gradients, "GRID", 0.0)
    judged = HGKRegressor(random_state=0).fit(X, y)
    assert len(judged.machines_[0].parts) == 1
    assert len(whole.machines_[0].parts) == 5
    assert judged.machines_[0].levels is not None


def test_a_label_given_as_a_column_has_one_output(digits, tmp_path):
    from hgk.insight import findings
    from hgk.report import write_report

    X, y, X_new, _ = digits
    model = HGKRegressor(random_state=0, time_budget=3).fit(X, y[:, None])
    assert model.machines_[0].levels is not None
    assert model.predict(X_new).shape == (400, 1)
    assert findings.output_names(model) == ["output 0"]
    write_report(model, tmp_path / "report.html")
    assert "summed over columns" in (tmp_path / "report.html").read_text()


def test_a_file_keeps_levels(digits, model, tmp_path):
    _, _, X_new, _ = digits
    for compact in (False, True):
        path = tmp_path / f"{compact}.hgk"
        hgk.save(model, path, compact=compact)
        loaded = hgk.load(path)
        assert (loaded.predict(X_new) == model.predict(X_new)).all()
        assert loaded.machines_[0].levels.power == model.machines_[0].levels.power
        assert loaded.alpha_.shape == model.alpha_.shape
    assert describe(tmp_path / "False.hgk")["summary"]["outputs"] == 1
    twin = pickle.loads(pickle.dumps(model))
    assert (twin.predict(X_new) == model.predict(X_new)).all()


@pytest.mark.parametrize(
    "levels",
    [
        lambda old: Levels(old.values[:-1], old.power),
        lambda old: Levels(old.values.flip(0), old.power),
        lambda old: Levels(old.values, 0.0),
        lambda old: Levels(old.values[:1], old.power),
        lambda old: None,
    ],
)
def test_a_file_whose_levels_do_not_fit_is_refused(model, tmp_path, levels):
    twin = pickle.loads(pickle.dumps(model))
    twin.machines_ = [replace(m, levels=levels(m.levels)) for m in twin.machines_]
    path = tmp_path / "altered.hgk"
    hgk.save(twin, path)
    with pytest.raises(ModelFileError, match="fit"):
        hgk.load(path)


def test_a_file_of_one_value_is_refused(two, tmp_path):
    twin = pickle.loads(pickle.dumps(two))
    twin.machines_ = [replace(m, levels=Levels(TWO[:1], 1.2)) for m in twin.machines_]
    hgk.save(twin, tmp_path / "altered.hgk")
    with pytest.raises(ModelFileError, match="fit"):
        hgk.load(tmp_path / "altered.hgk")


def test_explanations_have_an_output_for_each_value(digits, model):
    _, _, X_new, _ = digits
    found = contributions(model, X_new[:3], k=None)
    assert found.value.shape == (3, 10)
    t = model.machines_[0].levels(torch.from_numpy(found.value).clamp(-1, 1))
    np.testing.assert_allclose(model._decode(t.numpy()), model.predict(X_new[:3]))
    own = influence(model)
    assert own.shape == (500,)
    half = model._y_scaling.half[0]
    expected = model.predict(digits[0]) - model.loo_predictions_
    np.testing.assert_allclose(own, expected, atol=1e-9 * half)


def test_intervals_of_levels_cover(digits, model):
    _, _, X_new, y_new = digits
    low, high = model.predict_interval(X_new, coverage=0.8).T
    assert ((low <= y_new) & (y_new <= high)).mean() > 0.7
    assert np.median(high - low) < 60  # of a range of 90


def test_a_report_of_levels_is_in_the_unit_of_the_label(model, tmp_path):
    from hgk.insight import findings

    errors = {(s.method, s.basis): s for s in findings.errors(model, compare=False)}
    (event,) = [e for e in model.history_ if e["stage"] == "levels"]
    assert errors[findings.SVM, findings.ASIDE].risk == event["number"]
    assert errors[findings.OURS, findings.ASIDE].risk < event["number"]
    rows = model._rows
    loo = float(rows.weight @ ((model._loo_of_rows() - rows.Y) ** 2)[:, 0] / rows.weight.sum())
    assert errors[findings.OURS, findings.LOO].risk == pytest.approx(loo)
