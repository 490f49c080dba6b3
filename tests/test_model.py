"""The fitted model: its methods against the estimator's, and against brute force on small fits."""

import copy
import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, make_friedman1

import hgk
from hgk import CompactModelError, HGKClassifier, HGKQuantileRegressor, HGKRegressor
from hgk import model as models
from hgk.events import ASIDE, BY_FOLDS, ArchitectureChosen, Chosen, GridChosen, Optimism
from hgk.intervals import intervals
from hgk.machines import Rows, train, weighted_quantile
from hgk.model import Model
from hgk.storable import Malformed
from hgk.storage.files import in_single
from hgk.targets import FewValues

CLOSE = 1e-7


def table(n=40, seed=0):
    """Rows of which some were given several times, some with other weights, two with none."""
    X, y = make_friedman1(n, n_features=5, noise=1.0, random_state=seed)
    X, y = np.vstack([X, X[:6], X[:3]]), np.r_[y, y[:6], y[:3]]
    weight = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    weight[[10, 20]] = 0
    return X, y, weight


@functools.cache
def fitted():
    X, y, weight = table()
    return HGKRegressor("plain", random_state=0).fit(X, y, weight), X, y


def model_with(labels, lam=1e-5, outputs=None):
    """A model of one machine on all distinct rows, with repetitions, and labels made of the regression's."""
    known = fitted()[0].model_
    rows = replace(known.training.rows, Y=labels(known.training.rows.Y))
    target = known.target if outputs is None else outputs(known.target, rows)
    columns = replace(rows, Y=target.expand(rows.Y))
    machine = train(known.machine.kernel, columns, lam)
    return Model.of(known.inputs, target, machine, (), replace(known.training, rows=rows))


@functools.cache
def of_numbers():
    return model_with(lambda Y: (2 * Y).clamp(-1, 1))  # so that functions overshoot


@functools.cache
def of_few_values():
    def few(numbers, rows):
        (target,) = FewValues.options(numbers, rows.Y, 1e9)
        return replace(target, power=1.5)

    return model_with(lambda Y: (2 * Y).round() / 2, outputs=few)


@functools.cache
def of_classes():
    X, y = load_iris(return_X_y=True)
    return HGKClassifier("plain", random_state=0).fit(X[::3], y[::3]), X[::3], y[::3]


@functools.cache
def of_quantiles():
    X, y, weight = table()
    model = HGKQuantileRegressor("plain", quantiles=[0.2, 0.5, 0.8], lam=1e-2, random_state=0)
    return model.fit(X, y, weight), X, y


EXACT = {"numbers": of_numbers, "few values": of_few_values}
each_exact = pytest.mark.parametrize("make", EXACT.values(), ids=EXACT.keys())
FITS = {"numbers": fitted, "classes": of_classes, "quantiles": of_quantiles}
each_fit = pytest.mark.parametrize("make", FITS.values(), ids=FITS.keys())


def refit(model, *left_out):
    """f, clipped, of all rows but one repetition of each of these; c stays."""
    rows, machine = model.columns(model.training.rows), model.machine
    s, c = rows.weight.clone(), float(rows.weight.sum()) * machine.lam
    for i in set(left_out):
        s[i] -= float(rows.weight[i] / rows.repetitions[i])
    kept = s > 1e-9
    A = machine.kernel.matrix(rows.X[kept]) + c * torch.diag(1 / s[kept])
    alpha = torch.linalg.solve(A, rows.Y[kept])
    return lambda X: (machine.kernel.matrix(X, rows.X[kept]) @ alpha).clamp(-1, 1)


# -------------------------------------------------------------------------------------------------- predictions


@each_fit
def test_predictions_are_the_estimators(make):
    estimator, X, _ = make()
    model, features = estimator.model_, estimator.features(X)
    t = model.values(features)
    torch.testing.assert_close(t, model.machine(features).clamp(-model.machine.clip, model.machine.clip))
    if isinstance(estimator, HGKClassifier):
        assert np.array_equal(model.predict(features), estimator.decision_function(X))
        assert np.array_equal(model.target.chosen(model.decoded(features)), estimator.predict(X))
        assert np.array_equal(model.responses(estimator.table(X)), estimator.predict_proba(X))
    else:
        assert np.array_equal(model.predict(features), estimator.predict(X))
        responses = model.responses(estimator.table(X))
        np.testing.assert_allclose(responses.reshape(estimator.predict(X).shape), estimator.predict(X))


def test_blocks_of_rows_do_not_matter(monkeypatch):
    estimator, X, _ = fitted()
    features = estimator.features(X)
    whole = estimator.model_.values(features)
    monkeypatch.setattr(models, "PREDICTED", 7)
    torch.testing.assert_close(estimator.model_.values(features), whole, rtol=0, atol=1e-14)


def test_importances_are_shares_of_kernels_by_column():
    model = fitted()[0].model_
    rows, owner = model.training.rows, model.inputs.encoder.owner
    shares = sum(share * kernel.shares(rows.X) for share, kernel, _, _ in model.machine.terms)
    by_column = np.array([[node[owner == j].sum() for j in range(5)] for node in shares])
    np.testing.assert_allclose(model.node_importances, by_column)
    assert model.node_importances.sum() == pytest.approx(1)


# ------------------------------------------------------------------------------------------------ rows as given


def test_rows_lie_where_they_were_given():
    estimator, X, y = fitted()
    training, weight = estimator.model_.training, table()[2]
    rows = training.rows
    assert (training.place < 0).tolist() == (weight == 0).tolist()
    for i in np.flatnonzero(training.place >= 0):
        assert np.array_equal(training.table[training.place[i]], X[i])
    for row, first in enumerate(training.first):
        same = [i for i in range(len(X)) if training.place[i] == row]
        assert first == min(same)
        assert float(rows.weight[row]) == pytest.approx(weight[same].sum())
        assert estimator.model_.target.out(rows.Y[row : row + 1].numpy()) == pytest.approx(
            np.average(y[same], weights=weight[same])
        )
    spread = training.as_given(np.arange(len(rows)) + 1.0, left_out=-7.0)
    assert spread.tolist() == [training.place[i] + 1.0 if weight[i] else -7.0 for i in range(len(X))]
    two = training.as_given(np.arange(2.0 * len(rows)).reshape(2, -1), axis=1)
    assert two.shape == (2, len(X))
    assert (two[:, weight == 0] == 0).all()


# ----------------------------------------------------------------------------------------------- rows not seen


@each_exact
def test_leave_one_out_values_are_refits_without_one_repetition(make):
    model = make()
    rows, t = model.training.rows, model.leave_one_out()
    assert (rows.repetitions > 1).any()
    assert (t.abs() <= 1).all()
    for i in range(0, len(rows), 3):
        torch.testing.assert_close(t[i], refit(model, i)(rows.X[i : i + 1])[0], rtol=0, atol=CLOSE)
    assert model.leave_one_out() is t  # kept


@each_exact
def test_functions_without_one_row_are_refits_and_decoded(make):
    model = make()
    rows, index = model.training.rows, torch.tensor([0, 7, 20])
    X = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (60, rows.X.shape[1])))
    values, elsewhere = model.without_one(index)
    t = elsewhere(X)
    assert bool((model.machine.without_one(model.columns(rows), index)[1](X).abs() > 1).any())  # some are clipped
    assert t.shape == (1, 60, 3)
    for place, i in enumerate(index.tolist()):
        function = refit(model, i)
        expected = model.target.decode(function(rows.X[i : i + 1]))
        torch.testing.assert_close(values[place : place + 1], expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(t[:, :, place].T, model.target.decode(function(X)), rtol=0, atol=1e-6)
    torch.testing.assert_close(values, model.target.decode(model.leave_one_out())[index])


@each_exact
def test_functions_without_two_rows_are_refits_and_decoded(make):
    model = make()
    rows, index = model.training.rows, torch.arange(0, len(model.training.rows), 3)
    t = model.leave_two_out(index)
    assert bool((model.machine.leave_two_out(model.columns(rows), index).abs() > 1).any())  # some are clipped
    for a, i in enumerate(index.tolist()):
        for b, j in enumerate(index.tolist()):
            expected = model.target.decode(refit(model, i, j)(rows.X[i : i + 1]))[0]
            torch.testing.assert_close(t[:, a, b], expected, rtol=0, atol=1e-6)


@each_fit
def test_leave_one_out_predictions_come_as_the_rows_were_given(make):
    estimator, X, _ = make()
    model, training = estimator.model_, estimator.model_.training
    said = model.target.out(model.calibrated.decode(model.leave_one_out()).numpy())
    ordinary = model.predict(estimator.features(X))
    for i, place in enumerate(training.place):
        np.testing.assert_allclose(estimator.loo_predictions_[i], said[place] if place >= 0 else ordinary[i])
    assert np.array_equal(model.leave_one_out_predictions(), estimator.loo_predictions_)


def test_values_of_held_out_rows_are_the_machines_own():
    model = of_quantiles()[0].model_
    torch.testing.assert_close(model.leave_one_out(), model.machine.held_out.clamp(-1, 1))


def test_the_most_honest_rows_were_kept_from_the_kernel_too():
    model = of_quantiles()[0].model_
    n, rows = len(model.training.rows), model.training.rows
    share = torch.from_numpy(np.random.default_rng(0).choice([0.0, 0.5, 1.0], n))
    held_out = model.machine.held_out.clone()
    held_out[3] = torch.nan  # a fit that was stopped early
    share[3] = 1.0
    machine = replace(model.machine, aside=share, held_out=held_out)
    kept, t = replace(model, machine=machine, memo={}).unseen()
    index = [i for i in range(n) if share[i] > 0 and i != 3]
    assert torch.equal(kept.X, rows.X[index])
    torch.testing.assert_close(kept.weight, (share * rows.weight)[index])
    torch.testing.assert_close(kept.repetitions, (share * rows.repetitions)[index])
    torch.testing.assert_close(t, model.leave_one_out()[index])
    none = replace(model.machine, aside=torch.zeros(n, dtype=torch.float64))  # then all rows that are known
    everything, _ = replace(model, machine=none, memo={}).unseen()
    torch.testing.assert_close(everything.weight, rows.weight)


def test_the_way_to_probabilities_comes_from_rows_not_seen_and_stays():
    estimator, X, _ = of_classes()
    model = estimator.model_
    rows, t = model.unseen()
    assert model.target.calibration is None
    assert model.calibrated.calibration == model.target.fitted(t, rows).calibration
    assert model.calibrated is model.calibrated
    known = replace(model, target=model.calibrated, memo={})
    assert known.calibrated is known.target  # nothing is left to learn
    assert not known.memo
    np.testing.assert_array_equal(known.responses(estimator.table(X)), model.responses(estimator.table(X)))


# --------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("ratio", [None, 0.8, 1.5])
@each_exact
def test_intervals_are_quantiles_of_functions_without_a_row(make, ratio):
    """The (1 - level)-quantile of f^(-i)(x) - ρ|r_i| and the level-quantile of f^(-i)(x) + ρ|r_i|."""
    model = make()
    model = replace(model, history=(Optimism(ratio=ratio),))
    rows = model.training.rows
    rho = max(1.0, ratio or 1.0)
    assert model.optimism == rho
    X = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (5, rows.X.shape[1])))
    values, elsewhere = model.without_one(torch.arange(len(rows)))
    r, t = rho * (rows.Y - values).abs()[:, 0], elsewhere(X)[0]
    weight = rows.weight * (rows.size / float(rows.weight.sum()))
    found = intervals(model, X, [0.5, 0.9], "jackknife+")
    assert found.shape == (2, 5, 1, 2)
    for level, bounds in zip((0.5, 0.9), found, strict=True):
        for x in range(5):
            low = -weighted_quantile((r - t[x])[None], weight, level)
            high = weighted_quantile((r + t[x])[None], weight, level)
            expected = model.target.in_unit(np.array([[float(low)], [float(high)]]))[:, 0]
            np.testing.assert_allclose(bounds[x, 0], expected, rtol=1e-9)


def test_intervals_are_the_estimators():
    estimator, X, _ = fitted()
    for method in ("adaptive", "jackknife+"):
        both = intervals(estimator.model_, estimator.features(X), [0.9, 0.5], method)
        np.testing.assert_array_equal(both[0, :, 0], estimator.predict_interval(X, method=method))
        np.testing.assert_array_equal(both[1, :, 0], estimator.predict_interval(X, 0.5, method=method))
    with pytest.raises(ValueError, match="exact for least squares alone"):
        intervals(of_quantiles()[0].model_, estimator.features(X), [0.9])


# ------------------------------------------------------------------------------------------------------- errors


def test_a_recorded_error_is_told_in_the_unit_of_the_labels():
    estimator, _, _ = fitted()
    model, grid = estimator.model_, estimator.history_[-1]
    told = model.error()
    rows = model.training.rows
    share = rows.weight / rows.weight.sum()
    variance = float(share @ (rows.Y[:, 0] - share @ rows.Y[:, 0]) ** 2)
    assert (told["basis"], told["rows"], told["risk"]) == (BY_FOLDS, grid.rows, grid.risk)
    assert told["r2"] == pytest.approx(1 - grid.risk / variance)
    assert told["rmse"] == pytest.approx(float(model.target.scaling.half[0]) * math.sqrt(grid.risk))
    assert told["wrong"] is told["pinball"] is told["inside"] is None
    chosen = Chosen(candidates=("x",), rows=12, risk=0.25)
    aside = replace(model, history=(*model.history, chosen)).error()
    assert (aside["basis"], aside["rows"], aside["risk"]) == (ASIDE, 12, 0.25)
    tree = replace(model, history=(*model.history, ArchitectureChosen(risk=0.2))).error()
    assert (tree["basis"], tree["rows"], tree["risk"]) == (BY_FOLDS, None, 0.2)


@pytest.mark.parametrize(
    "history",
    [
        (),
        (GridChosen(risk=None, gamma=1.0, lam=1.0, products=3),),
        (GridChosen(risk=math.inf, gamma=1.0, lam=1.0, products=3),),
        (GridChosen(risk=0.5, gamma=1.0, lam=1.0),),  # not of cross-validation
    ],
)
def test_an_error_that_is_not_known_is_not_told(history):
    assert replace(fitted()[0].model_, history=history).error() is None


def test_wrong_classes_are_told_of_classes_alone():
    estimator, _, _ = of_classes()
    told = estimator.model_.error()
    assert told["wrong"] == estimator.history_[-1].wrong
    assert told["rmse"] is None
    grid = replace(fitted()[0].history_[-1], wrong=0.3)
    assert replace(fitted()[0].model_, history=(grid,)).error()["wrong"] is None


def test_an_error_of_held_out_folds_is_measured():
    estimator, _, _ = of_quantiles()
    model = estimator.model_
    rows, t = model.unseen()
    said = model.target.out(model.target.decode(t).numpy())
    y, s = model.target.scaling.inverse(rows.Y.numpy()), rows.weight.numpy()[:, None]
    losses = np.maximum(model.target.levels * (y - said), (model.target.levels - 1) * (y - said)).mean(1, keepdims=True)
    told = model.error()
    assert (told["basis"], told["rows"]) == (BY_FOLDS, round(rows.given))
    assert told["pinball"] == pytest.approx(float((losses * s).sum() / s.sum()))
    half = torch.arange(len(rows)) % 2 == 0
    aside = replace(model.machine, aside=half.double())
    assert replace(model, machine=aside, memo={}).error()["basis"] == ASIDE


# ------------------------------------------------------------------------------------------------------- copies


@each_fit
def test_a_compact_model_predicts_and_says_what_it_lacks(make):
    estimator, X, _ = make()
    model, features = estimator.model_, estimator.features(X)
    small = model.compact()
    assert np.array_equal(small.predict(features), model.predict(features))
    assert np.array_equal(small.responses(estimator.table(X)), model.responses(estimator.table(X)))
    small.check()
    asked = (
        small.leave_one_out,
        small.leave_one_out_predictions,
        small.unseen,
        lambda: small.without_one(torch.arange(2)),
        lambda: small.leave_two_out(torch.arange(2)),
        lambda: intervals(small, features, [0.9]),
    )
    for ask in asked:
        with pytest.raises(CompactModelError, match=r"need.* the training labels.*without compact\.$"):
            ask()


def test_rows_in_single_precision_change_predictions_by_what_is_told():
    estimator, X, _ = fitted()
    model, features = estimator.model_, estimator.features(X)
    rounded, change = in_single(model)
    assert rounded.machine.X.dtype == torch.float32
    assert 0 < change < 1e-4
    there = replace(rounded, machine=rounded.machine.to(dtype=torch.float64))
    assert np.abs(there.decoded(model.machine.X) - model.decoded(model.machine.X)).max() == pytest.approx(change)
    assert np.abs(there.decoded(features) - model.decoded(features)).max() < 10 * change


def test_the_estimator_computes_where_it_is_told_and_shares_what_is_known():
    estimator = copy.copy(fitted()[0])
    t = estimator.model_.leave_one_out()
    estimator.set_params(device="auto")
    assert estimator.model_.device == "auto"
    assert estimator.model_.leave_one_out() is t


@each_fit
def test_a_file_holds_the_model(make, tmp_path):
    estimator, X, _ = make()
    hgk.save(estimator, tmp_path / "model.hgk")
    model, back = estimator.model_, hgk.load(tmp_path / "model.hgk").model_
    assert not back.memo
    assert type(back.target) is type(model.target)
    assert type(back.machine) is type(model.machine)
    assert back.history == model.history
    assert np.array_equal(back.responses(estimator.table(X)), model.responses(estimator.table(X)))
    assert "loo" not in back.memo  # the way to probabilities was in the file
    assert back.error() == model.error()


MISFITS = {
    "importances": lambda m: replace(m, node_importances=m.node_importances[:, 1:]),
    "table": lambda m: replace(m, training=replace(m.training, table=m.training.table[1:])),
    "place": lambda m: replace(m, training=replace(m.training, place=m.training.place + len(m.training.rows))),
    "left out": lambda m: replace(m, training=replace(m.training, left_out=m.training.left_out[:1])),
    "rows": lambda m: replace(m, training=replace(m.training, rows=m.training.rows[slice(1, None)])),
    "labels": lambda m: replace(m, training=replace(m.training, rows=twice(m.training.rows))),
    "outputs": lambda m: replace(m, target=replace(m.target, single=False, scaling=twice_scaled(m.target.scaling))),
    "machine": lambda m: replace(m, machine=replace(m.machine, alpha=m.machine.alpha[1:])),
    "parts": lambda m: replace(m, machine=replace(m.machine, parts=(torch.tensor([0, 0]),))),
    "lam": lambda m: replace(m, machine=replace(m.machine, lam=0.0)),
}


def twice(rows):
    return Rows(rows.X, torch.cat([rows.Y, rows.Y], 1), rows.weight, rows.count)


def twice_scaled(scaling):
    return replace(scaling, middle=np.repeat(scaling.middle, 2), half=np.repeat(scaling.half, 2))


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS.keys())
def test_parts_that_do_not_fit_each_other_are_refused(misfit):
    model = fitted()[0].model_
    model.check()
    with pytest.raises(Malformed):
        misfit(model).check()
