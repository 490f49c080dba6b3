"""Labels of few values: the columns, their mean, and everything that is made of a model with a column for each."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import hgk
import hgk.learners.default.judge
import hgk.targets.few_values
from hgk import HGKClassifier, HGKRegressor
from hgk.events import Chosen, Judged, Refined, last, of_kind
from hgk.executor import Threads
from hgk.kernels import HierarchicalKernel, MeanKernel, isotropic
from hgk.learners import Default, Settings
from hgk.learners.default.judge import Judge, judge_lams
from hgk.learners.default.learner import Fit, _crossed
from hgk.machines import Rows, train
from hgk.model import Model, Training
from hgk.progress import Progress
from hgk.solvers import CholeskyPath
from hgk.storage import ModelFileError, describe
from hgk.targets import FewValues, Numbers
from hgk.targets.few_values import POWERS, POWERS_FOR_TWO
from reference import held_out_path
from tasks import default_settings, numbers, quickly, task_of

VALUES = torch.tensor([-1.0, -0.2, 0.1, 1.0], dtype=torch.float64)
TWO = torch.tensor([-1.0, 1.0], dtype=torch.float64)


def few(values: torch.Tensor, power: float = 1.0) -> FewValues:
    return FewValues(numbers(), values, power)


def options(Y: torch.Tensor) -> list:
    """How labels that were given once each may be refined."""
    return numbers(Y.shape[1]).refinements(Y, len(Y))


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


def test_few_values_have_columns_and_many_or_rare_ones_have_not():
    (refinement,) = options(VALUES.repeat(20)[:, None])
    assert torch.equal(refinement.values, VALUES)
    assert not options(VALUES.repeat(20)[:-1, None])  # 79 rows of 4 values
    assert not options(VALUES[:1].repeat(100)[:, None])
    assert not options(torch.arange(41.0).repeat(100)[:, None])
    assert options(torch.arange(40.0).repeat(100)[:, None])
    assert not options(VALUES.repeat(20)[:, None].repeat(1, 2))


def test_the_mean_of_values_is_that_of_the_powers():
    target, rng = few(VALUES, 3.0), np.random.default_rng(0)
    f = rng.uniform(-1.3, 1.3, (7, 4))
    q = np.clip((1 + f) / 2, 0, 1) ** 3
    expected = [sum(q[i, k] * float(VALUES[k]) for k in range(4)) / q[i].sum() for i in range(7)]
    t = target.decode(torch.from_numpy(f))
    assert t.shape == (7, 1)
    np.testing.assert_allclose(t[:, 0], expected)
    np.testing.assert_allclose(target.decode(torch.from_numpy(f.T.copy()), 0)[0], expected)


def test_two_values_have_one_column_and_what_two_would_say():
    rows = graded_rows(values=TWO)
    (target,) = options(rows.Y)
    assert torch.equal(target.expand(rows.Y), rows.Y)
    assert torch.equal(target.contract(rows.Y), rows.Y)
    f = torch.linspace(-1.2, 1.2, 13, dtype=torch.float64)[:, None]
    for power in POWERS_FOR_TWO:
        q = np.clip((1 + f.numpy()) / 2, 0, 1)
        expected = (q**power - (1 - q) ** power) / (q**power + (1 - q) ** power)
        t = few(TWO, power).decode(f)
        np.testing.assert_allclose(t, expected, atol=1e-15)
        assert bool((t.diff(dim=0) >= 0).all())
        assert torch.equal(few(TWO, power).decode(f.T, 0), t.T)
    torch.testing.assert_close(few(TWO).decode(f), f.clamp(-1, 1))
    sure = few(TWO, 1.3).decode(f)
    assert bool((sure.abs() >= f.clamp(-1, 1).abs() - 1e-12).all())


@pytest.mark.parametrize("values", [VALUES, TWO])
def test_labels_undo_columns(values):
    rows, target = graded_rows(values=values), few(values)
    assert target.expand(rows.Y).shape == (60, target.outputs)
    assert torch.equal(target.contract(target.expand(rows.Y)), rows.Y)


def test_certain_columns_give_their_value_whatever_the_power():
    for power in POWERS:
        target = few(VALUES, power)
        assert torch.equal(target.decode(target.expand(VALUES[:, None])), VALUES[:, None])
        assert bool(target.decode(torch.full((1, 4), -1.0)).isfinite().all())
    f = torch.tensor([[-0.5, 0.9, 0.1, -1.0]], dtype=torch.float64)
    assert float(few(VALUES, 200.0).decode(f)) == pytest.approx(-0.2)  # the likeliest prevails
    p = (1 + f[0]) / 2
    assert float(few(VALUES).decode(f)) == pytest.approx(float(p @ VALUES / p.sum()))


def test_the_power_is_the_best_of_all_by_weighted_rows():
    rows, target = graded_rows(200), few(VALUES)
    f = target.expand(rows.Y) + torch.from_numpy(np.random.default_rng(1).normal(0, 0.6, (200, 4)))
    chosen = []
    for weight in (rows.weight, torch.where(rows.Y[:, 0] > 0, 1.0, 1e-6).double()):
        errors = [float(weight @ ((few(VALUES, s).decode(f) - rows.Y) ** 2)[:, 0]) for s in POWERS]
        sharpened = target.sharpened(f, replace(rows, Y=target.expand(rows.Y), weight=weight))
        assert sharpened.power == POWERS[int(np.argmin(errors))]
        chosen.append(errors)
    assert chosen[0] != chosen[1]


def test_the_path_has_the_machines_of_every_lam():
    rows, trained = graded_rows(50), 35
    Y, K = few(VALUES).expand(rows.Y), gaussian(0.7).matrix(rows.X)
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
    K, Y = gaussian(50.0).matrix(rows.X).float(), few(VALUES).expand(rows.Y).float()
    risks, _ = held_out_path(K, Y, rows.weight, 30, torch.tensor([1e-1, 1e-13]), 1.0)
    assert risks.isfinite().tolist() == [True, False]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("values", [VALUES, TWO])
def test_leave_one_and_two_out_are_refits(shared, values):
    rows, target, lam = graded_rows(24, values=values), few(values, 2.0), 1e-2
    kernels = [gaussian(0.6), gaussian(1.1)]
    kernel, total = MeanKernel(tuple(kernels), (0.5, 0.5)) if shared else kernels[0], float(rows.weight.sum())

    def trained(part: Rows) -> Model:
        """At the c of all rows."""
        columns = replace(part, Y=target.expand(part.Y))
        machine = train(kernel, columns, lam * total / float(part.weight.sum()))
        none = np.empty((0, 0))
        training = Training(part, none, np.arange(len(part)), none)
        return Model(None, target, machine, none, training=training)

    def without(*out: int) -> Model:
        return trained(rows[torch.tensor([i for i in range(len(rows)) if i not in out])])

    model, X = trained(rows), torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (5, 2)))
    index = torch.tensor([2, 7, 11])
    own, elsewhere = model.without_one(index)
    at, two = elsewhere(X), model.leave_two_out(index)
    assert (own.shape, at.shape, two.shape) == ((3, 1), (1, 5, 3), (1, 3, 3))
    close = {"rtol": 1e-6, "atol": 1e-8}
    np.testing.assert_allclose(target.decode(model.leave_one_out())[index], own, **close)
    for a, i in enumerate(index.tolist()):
        x, refit = rows.X[i : i + 1], without(i)
        np.testing.assert_allclose(own[a : a + 1], refit.decoded(x), **close)
        np.testing.assert_allclose(at[0, :, a : a + 1], refit.decoded(X), **close)
        for b, j in enumerate(index.tolist()):
            np.testing.assert_allclose(two[0, a : a + 1, b : b + 1], without(i, j).decoded(x), **close)


def test_a_judge_of_many_outputs_says_what_krylov_spaces_say():
    rows = graded_rows(400)
    rows = replace(rows, Y=torch.cat([few(VALUES).expand(rows.Y), rows.Y], 1))
    task = task_of(rows, np.geomspace(0.1, 1e-6, 10))
    said = []
    for outputs in (3, 100):
        judge = Judge.of(task, 0, np.random.default_rng(0), Settings(outputs=outputs))
        said.append(replace(judge, complete=True)(gaussian(0.7), task))
    known = said[1][0].isfinite()
    assert int(known.sum()) > 5
    torch.testing.assert_close(said[0][0][known], said[1][0][known], rtol=2e-2, atol=1e-4)
    assert len(judge_lams(task, Settings())) == said[0][0].shape[1]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order][:, [10, 13, 18, 20, 26, 28, 34, 36, 42, 44, 51, 53]], 10.0 * y[order]
    return X[:500], y[:500], X[500:900], y[500:900]


@pytest.fixture(scope="module")
def model(digits):
    X, y, _, _ = digits
    with quickly():
        return HGKRegressor(random_state=0).fit(X, y)


def test_digits_as_numbers_have_columns_and_are_predicted_better_so(digits, model, monkeypatch):
    X, y, X_new, y_new = digits
    target = model.model_.target
    assert isinstance(target, FewValues)
    np.testing.assert_allclose(target.values_out, np.unique(y))
    (event,) = of_kind(model.history_, Refined)
    assert event.taken
    assert event.values == 10
    assert event.level < event.number
    monkeypatch.setattr(Numbers, "refinements", lambda *_: [])
    with quickly():
        number = HGKRegressor(random_state=0).fit(X, y)
    assert isinstance(number.model_.target, Numbers)
    errors = [np.mean((m.predict(X_new) - y_new) ** 2) for m in (model, number)]
    assert errors[0] < 0.9 * errors[1]
    assert model.predict(X_new).shape == (400,)
    assert model.alpha_.shape == (500, 10)


def test_the_error_that_a_fit_reports_is_that_of_the_label(digits, model):
    _, _, X_new, y_new = digits
    chosen, target = last(model.history_, Chosen), model.model_.target
    error = np.mean((model.predict(X_new) - y_new) ** 2) / target.numbers.scaling.half[0] ** 2
    assert 0.3 < chosen.risk / error < 3
    assert chosen.power == target.power
    assert chosen.wrong is None


def test_noisy_grades_stay_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=400)), -2, 2)
    with quickly():
        model = HGKRegressor(random_state=0).fit(X, y)
    assert isinstance(model.model_.target, Numbers)
    (event,) = of_kind(model.history_, Refined)
    assert not event.taken


@pytest.fixture(scope="module")
def halves():
    """Two values, 3 and 8, of which a curve is the border."""
    X = np.random.default_rng(0).uniform(-1, 1, (1400, 3))
    y = np.where(X[:, 0] > np.sin(3 * X[:, 1]), 8.0, 3.0)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def two(halves):
    X, y, _, _ = halves
    with quickly(sharpened=600):
        return HGKRegressor(random_state=0).fit(X, y)


def test_where_two_values_are_certain_the_power_makes_it_so(halves, two):
    _, _, X_new, y_new = halves
    target = two.model_.target
    assert torch.equal(target.values, TWO)
    assert 1 < target.power == last(two.history_, Chosen).power
    t = torch.from_numpy((two.predict(X_new) - 5.5) / 2.5)[:, None]
    plain = replace(two.model_, target=target.numbers).predict(two.features(X_new))
    f = torch.from_numpy((plain - 5.5) / 2.5)[:, None]
    torch.testing.assert_close(t, target.decode(f))
    assert np.mean((two.predict(X_new) - y_new) ** 2) < np.mean((plain - y_new) ** 2)
    assert two.alpha_.shape == (600,)
    assert not of_kind(two.history_, Refined)  # there is nothing to compare


def test_all_that_is_made_of_a_model_of_two_values(halves, two, tmp_path):
    _, _, X_new, y_new = halves
    low, high = two.predict_interval(X_new, coverage=0.8).T
    assert ((low <= y_new) & (y_new <= high)).mean() > 0.75
    hgk.save(two, tmp_path / "two.hgk")
    assert (hgk.load(tmp_path / "two.hgk").predict(X_new) == two.predict(X_new)).all()


def test_explanations_of_two_values_are_before_their_power(halves, two):
    from hgk.insight import contributions, influence

    X, _, X_new, _ = halves
    np.testing.assert_allclose(influence(two), two.predict(X) - two.loo_predictions_, atol=1e-9)
    sums, target = contributions(two, X_new[:3], k=None), two.model_.target
    f = torch.from_numpy((sums.value - 5.5) / 2.5).clamp(-1, 1)
    np.testing.assert_allclose(target.out(target.decode(f).numpy()), two.predict(X_new[:3]))


def test_the_outputs_of_two_values_are_one_prediction(halves, two, tmp_path, call):
    assert two.model_.target.columns == ["prediction before its power"]
    # a row in doubt: others may lie outside the two values before they are clipped
    row = int(np.abs(two.predict(halves[2]) - 5.5).argmin())
    hgk.save(two, tmp_path / "two.hgk")
    np.savetxt(tmp_path / "new.csv", halves[2], delimiter=",", header="x0,x1,x2", comments="")
    explain = "explain", tmp_path / "two.hgk", "--data", tmp_path / "new.csv", "--row", row, "--terms"
    code, out, _ = call(*explain, "--json")
    assert code == 0
    said = json.loads(out)
    terms = said["terms"]
    power, (output,) = terms["power"], terms["outputs"]
    assert terms["values"] == [3.0, 8.0]
    odds = (output["value"] - 3) / (8 - output["value"])
    assert said["prediction"] == pytest.approx(3 + 5 * odds**power / (1 + odds**power))
    words = f"the prediction below, moved to the nearer of 3 and 8 by the power {power:g} of its odds"
    assert words in " ".join(call(*explain)[1].split())


def test_the_report_of_two_values_sums_over_no_columns(two, tmp_path):
    from hgk.report import write_report

    write_report(two, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "summed over columns" not in text
    assert "before their power" in text


def test_two_values_of_few_rows_have_no_power(halves):
    with quickly():
        model = HGKRegressor(random_state=0).fit(*halves[:2])
    assert isinstance(model.model_.target, Numbers)


def test_a_power_takes_no_time(halves, monkeypatch):
    monkeypatch.setattr(Fit, "_time_to_compare", lambda *_: False)
    X, y, X_new, _ = halves
    with quickly(sharpened=600):
        column = HGKRegressor(random_state=0).fit(X, y[:, None])
    assert column.model_.target.power > 1
    assert column.predict(X_new).shape == (800, 1)


def test_a_power_of_1_leaves_the_machine_of_the_labels(halves, monkeypatch):
    """Also of labels that rounding keeps from ±1: (K + c I) α is Y."""
    X, y, _, _ = halves
    monkeypatch.setattr(hgk.targets.few_values, "POWERS_FOR_TWO", (1.0,))
    with quickly(sharpened=600):
        model = HGKRegressor(random_state=0).fit(X, np.where(y > 5, 1.0, np.nextafter(1.0, 2)))
    machine, rows = model.machine_, model.model_.training.rows
    assert isinstance(model.model_.target, Numbers)
    assert not bool((rows.Y.abs() == 1).all())
    K = machine.kernel.matrix(rows.X)
    torch.testing.assert_close(K @ machine.alpha + 600 * machine.lam * machine.alpha, rows.Y)


def test_columns_of_values_are_for_least_squares_on_one_label_and_never_for_classes(digits, halves):
    X, y, _, _ = digits
    with quickly(sharpened=600):
        models = [
            HGKClassifier(random_state=0).fit(*halves[:2]),
            HGKRegressor("plain").fit(*halves[:2]),
            HGKClassifier(random_state=0).fit(X[:300], y[:300]),
            HGKRegressor(random_state=0).fit(X[:300], np.column_stack([y, y])[:300]),
            HGKRegressor("plain").fit(X[:300], y[:300]),
        ]
    assert not any(isinstance(model.model_.target, FewValues) for model in models)


def test_what_is_handed_on_is_what_the_judges_say_of_the_plain_kernel(digits):
    X, y, _, _ = digits
    noisy = np.clip(np.round((X[:, 0] - 8) / 4 + np.random.default_rng(0).normal(size=500)), -2, 2) / 2
    for labels, taken in ((y / 45 - 1, True), (noisy, False)):
        rows = Rows(torch.from_numpy(X), torch.from_numpy(labels)[:, None], torch.ones(500, dtype=torch.float64))
        task = task_of(rows, np.geomspace(0.1, 1e-6, 10))
        fit = Fit(Default(), task, np.random.default_rng(1), Progress(), Threads(2, inner=1))
        verdicts = fit.refine()
        assert (fit.task.refinement is not None) == taken
        assert fit.task.rows.Y.shape == (500, 10 if taken else 1)
        for verdict, judge in zip(verdicts, fit.judges.values(), strict=True):
            risks, predictions = judge(verdict.kernel, fit.task)
            torch.testing.assert_close(verdict.risks, risks)
            torch.testing.assert_close(verdict.predictions, predictions)


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
    assert not of_kind(model.history_, Refined)
    task = task_of(Rows(*map(torch.from_numpy, (X, y[:, None] / 45 - 1, np.ones(500)))), np.geomspace(0.1, 1e-6, 10))
    for budget, enough in ((None, True), (60.0, True), (0.05, False)):
        fit = Fit(Default(budget=budget), task, np.random.default_rng(0), Progress(), Threads())
        assert fit._time_to_compare() == enough


def test_labels_that_differ_by_rounding_are_one_value():
    Y = torch.tensor([0.3, 0.1 + 0.2, 0.5, 1.0], dtype=torch.float64).repeat(20)[:, None]
    (target,) = options(Y)
    assert len(target.values) == 3
    assert target.expand(Y)[:4].argmax(1).tolist() == [0, 0, 1, 2]


def test_lam_below_the_rounding_of_the_matrix_gets_a_ridge():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    y = np.digitize(X[:, 0], [-0.5, 0, 0.5]).astype(float)
    with quickly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that something was added to a diagonal
        model = HGKRegressor(random_state=0, lam=1e-10).fit(X, y)
        classes = HGKClassifier(random_state=0, lam=1e-10).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < 0.1
    (plain,) = [event for event in of_kind(classes.history_, Judged) if event.candidate == "plain"]
    assert plain.wrong < 0.3


def test_a_path_that_starts_below_the_rounding_finds_its_way():
    rows = graded_rows(40)
    K, Y = gaussian(3.0).matrix(rows.X).float(), few(VALUES).expand(rows.Y).float()
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
    Y = torch.cat([few(VALUES).expand(rows.Y), rows.Y], 1)
    rows = Rows(rows.X, Y, torch.full((1200,), weight, dtype=torch.float64))
    task, settings = task_of(rows, np.geomspace(0.1, 1e-6, 10)), Settings()
    starts = []
    solve = CholeskyPath.solve

    def spy(*given, near, **more):
        starts.append(near)
        return solve(*given, near=near, **more)

    monkeypatch.setattr(CholeskyPath, "solve", spy)
    judge = Judge.of(task, 0, np.random.default_rng(0), settings)
    judge(gaussian(0.7), task, 1200, c=0.5)
    lams = judge_lams(task, settings)
    assert np.abs(np.log(1200 * lams / 0.5)).argmin() == np.abs(np.log(lams / starts[0])).argmin()
    assert len(starts) == 1


def test_plain_alone_with_many_outputs_stays_as_judged(digits):
    """Where a grid over all folds would be too much."""
    X, y, _, _ = digits
    with default_settings(kinds=()):
        whole = HGKRegressor(random_state=0).fit(X, y)
    with default_settings(kinds=(), grid=0.0):
        judged = HGKRegressor(random_state=0).fit(X, y)
    assert len(judged.machine_.parts) == 1
    assert len(whole.machine_.parts) == 5
    assert isinstance(judged.model_.target, FewValues)


def test_a_label_given_as_a_column_has_one_output(digits, tmp_path):
    from hgk.report import write_report

    X, y, X_new, _ = digits
    with quickly():
        model = HGKRegressor(random_state=0).fit(X, y[:, None])
    assert isinstance(model.model_.target, FewValues)
    assert model.predict(X_new).shape == (400, 1)
    assert model.model_.target.predictions == ["prediction 0"]
    write_report(model, tmp_path / "report.html")
    assert "summed over columns" in (tmp_path / "report.html").read_text()


def test_a_file_keeps_values_and_their_power(digits, model, tmp_path):
    _, _, X_new, _ = digits
    for compact in (False, True):
        path = tmp_path / f"{compact}.hgk"
        hgk.save(model, path, compact=compact)
        loaded = hgk.load(path)
        assert (loaded.predict(X_new) == model.predict(X_new)).all()
        assert loaded.model_.target.power == model.model_.target.power
        assert loaded.alpha_.shape == model.alpha_.shape
    assert describe(tmp_path / "False.hgk")["summary"]["outputs"] == 1
    twin = pickle.loads(pickle.dumps(model))
    assert (twin.predict(X_new) == model.predict(X_new)).all()


def altered(model, **changes):
    """The same estimator, whose target has other values or another power."""
    twin, target = pickle.loads(pickle.dumps(model)), model.model_.target
    twin.restore(replace(model.model_, target=changes.get("target") or replace(target, **changes)), None)
    return twin


@pytest.mark.parametrize(
    "changes",
    [
        lambda old: {"values": old.values[:-1]},
        lambda old: {"values": old.values.flip(0)},
        lambda old: {"power": 0.0},
        lambda old: {"values": old.values[:1]},
        lambda old: {"target": old.numbers},
    ],
)
def test_a_file_whose_values_do_not_fit_is_refused(model, tmp_path, changes):
    path = tmp_path / "altered.hgk"
    hgk.save(altered(model, **changes(model.model_.target)), path)
    with pytest.raises(ModelFileError, match=r"values of the label|power of the labels|outputs do not fit"):
        hgk.load(path)


def test_a_file_of_one_value_is_refused(two, tmp_path):
    hgk.save(altered(two, values=TWO[:1], power=1.2), tmp_path / "altered.hgk")
    with pytest.raises(ModelFileError, match="values of the label"):
        hgk.load(tmp_path / "altered.hgk")


def test_explanations_have_an_output_for_each_value(digits, model):
    from hgk.insight import contributions, influence

    _, _, X_new, _ = digits
    sums, target = contributions(model, X_new[:3], k=None), model.model_.target
    assert sums.value.shape == (3, 10)
    t = target.decode(torch.from_numpy(sums.value).clamp(-1, 1))
    np.testing.assert_allclose(target.out(t.numpy()), model.predict(X_new[:3]))
    own = influence(model)
    assert own.shape == (500,)
    half = target.numbers.scaling.half[0]
    expected = model.predict(digits[0]) - model.loo_predictions_
    np.testing.assert_allclose(own, expected, atol=1e-9 * half)


def test_intervals_of_few_values_cover(digits, model):
    _, _, X_new, y_new = digits
    low, high = model.predict_interval(X_new, coverage=0.8).T
    assert ((low <= y_new) & (y_new <= high)).mean() > 0.7
    assert np.median(high - low) < 60  # of a range of 90


def test_a_report_of_few_values_is_in_the_unit_of_the_label(model):
    from hgk.insight.errors import ASIDE, LOO, PLAIN_SVM, THIS_MODEL, scores

    errors = {(score.method, score.basis): score for score in scores(model, compare=False)}
    (event,) = of_kind(model.history_, Refined)
    assert errors[PLAIN_SVM, ASIDE].risk == event.number
    assert errors[THIS_MODEL, ASIDE].risk < event.number
    fitted, rows = model.model_, model.model_.training.rows
    t = fitted.target.decode(fitted.leave_one_out())
    loo = float(rows.weight @ ((t - rows.Y) ** 2)[:, 0] / rows.weight.sum())
    assert errors[THIS_MODEL, LOO].risk == pytest.approx(loo)
