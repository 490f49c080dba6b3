"""Estimators with other losses: what they solve, what they promise, what they refuse."""

import copy
import functools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import log_loss

import hgk
from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor, arrays, losses
from hgk.events import LamChosen, last, of_kind
from hgk.insight import contributions, influence
from hgk.losses import BoxLoss, EpsilonInsensitive, Hinge, LeastSquares, Logistic, Loss, Pinball
from hgk.machines import weighted_quantile
from hgk.model import Model
from hgk.search import problems, races
from hgk.solvers import BoxDual
from hgk.storable import storable
from hgk.targets.calibration import Calibration
from tasks import quickly

LEVELS = [0.1, 0.5, 0.9]
# In and far outside the range of skewed rows.
FAR = np.linspace(-3, 3, 300)[:, None]
PAGE = (Path(__file__).parents[1] / "docs" / "losses.md").read_text()


def cancer(step=3):
    X, y = load_breast_cancer(return_X_y=True)
    return X[::step, :8], y[::step], X[1::step, :8], y[1::step]


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


def columns_at(model, X):
    """The clipped values of the machine at a table, one column per output."""
    return model.model_.values(model.features(X)).numpy()


def skewed(n, seed=0):
    """A label whose quantiles at x are known: x + (1.5 + x) e, e exponential."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return x[:, None], x + (1.5 + x) * rng.exponential(size=n)


# ------------------------------------------------------------------------------------------- what is solved


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_classifiers_learn_and_their_probabilities_are_worth_something(loss):
    X, y, X_new, y_new = cancer()
    model = HGKClassifier("plain", loss=loss, random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > 0.88
    probability = model.predict_proba(X_new)
    assert log_loss(y_new, probability) < 0.5 * log_loss(y_new, np.full(len(y_new), y.mean()))
    assert ((probability[:, 1] > 0.5) == (model.decision_function(X_new) > 0)).all()
    honest = model.loo_predictions_
    assert ((honest > 0) == (y == 1)).mean() > 0.88


def test_the_expectile_in_the_middle_is_least_squares_at_twice_its_lam():
    X, y, X_new, _ = diabetes()
    least, half = (
        HGKRegressor("plain", loss=loss, lam=lam, random_state=0).fit(X, y)
        for loss, lam in (("least_squares", 2e-3), ("expectile", 1e-3))
    )
    assert half.gamma_ == pytest.approx(least.gamma_)
    assert half.predict(X_new) == pytest.approx(least.predict(X_new), rel=1e-5)


def test_a_loss_object_is_the_loss_of_that_name():
    X, y, X_new, _ = diabetes()
    one = HGKRegressor("plain", loss="pinball", tau=0.8, lam=1e-3, random_state=0).fit(X, y)
    other = HGKRegressor("plain", loss=Pinball(0.8), lam=1e-3, random_state=0).fit(X, y)
    assert (one.predict(X_new) == other.predict(X_new)).all()
    exact = HGKRegressor("plain", loss=LeastSquares(), lam=1e-3, random_state=0).fit(X, y)
    assert exact.predict_interval(X_new[:2]).shape == (2, 2)  # least squares keeps its exact ways


@pytest.mark.parametrize("preset", ["default", "plain"])
def test_quantiles_do_not_cross_and_have_their_share_below(preset):
    n = 300 if preset == "plain" else 200
    X, y = skewed(n)
    X_new, y_new = skewed(2000, seed=1)
    model = HGKQuantileRegressor(preset, quantiles=LEVELS, random_state=0).fit(X, y)
    t = model.predict(X_new)
    assert (np.diff(t, axis=1) >= 0).all()
    for level, column in zip(LEVELS, t.T, strict=True):
        error = 4 * np.sqrt(level * (1 - level) * (1 / n + 1 / 2000))  # of the training and of the new rows
        assert (y_new <= column).mean() == pytest.approx(level, abs=error)
    truth = X_new + (1.5 + X_new) * -np.log(1 - np.array(LEVELS))
    assert np.mean(np.abs(t - truth), axis=0) == pytest.approx([0, 0, 0], abs=0.6)
    assert model.lams_.shape == (3,)
    assert 0 < model.score(X_new, y_new) < 1


def test_offsets_put_the_right_share_of_held_out_rows_below():
    X, y = skewed(300)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    model = HGKQuantileRegressor("plain", quantiles=[0.001, 0.2, 0.8], random_state=0).fit(X, y, weight)
    assert model.offsets_[0] == 0  # no row lies beyond that level
    raw = model.model_.leave_one_out()[:, 1:].numpy()
    shifted = raw + model.model_.target.offsets[1:]
    Y, s = (part.numpy() for part in (model.model_.training.rows.Y, model.model_.training.rows.weight))
    below, strictly = (
        ((shifted >= Y) * s[:, None]).sum(0) / s.sum(),
        ((shifted - 1e-12 > Y) * s[:, None]).sum(0) / s.sum(),
    )
    assert (below >= [0.2, 0.8]).all()
    assert (strictly <= [0.2, 0.8]).all()


def test_crossing_functions_are_put_in_order():
    X, y = skewed(40)
    model = HGKQuantileRegressor("plain", quantiles=[0.45, 0.5, 0.55], random_state=0).fit(X, y)
    raw = columns_at(model, FAR) + model.model_.target.offsets
    assert (np.diff(raw, axis=1) < 0).any()  # else this test tests nothing
    assert (np.diff(model.predict(FAR), axis=1) >= 0).all()


@pytest.mark.parametrize("loss", ["least_squares", "hinge"])
def test_class_weights_are_sample_weights(loss):
    X, y, X_new, _ = cancer()
    weighted = HGKClassifier("plain", loss=loss, lam=1e-3, class_weight={0: 2.5}, random_state=0).fit(X, y)
    by_rows = HGKClassifier("plain", loss=loss, lam=1e-3, random_state=0).fit(X, y, np.where(y == 0, 2.5, 1.0))
    assert weighted.decision_function(X_new) == pytest.approx(by_rows.decision_function(X_new))
    balanced = HGKClassifier("plain", loss=loss, lam=1e-3, class_weight="balanced", random_state=0).fit(X, y)
    rows = balanced.model_.training.rows
    total = [rows.weight[rows.Y[:, 0] == sign].sum() for sign in (-1, 1)]
    assert total[0] == pytest.approx(float(total[1]))
    assert (balanced.predict(X_new) == 0).sum() >= (by_rows.predict(X_new) == 0).sum() - 10


@pytest.mark.parametrize("loss", ["least_squares", "hinge", "logistic"])
def test_all_against_all(loss):
    X, y = load_iris(return_X_y=True)
    model = HGKClassifier("plain", loss=loss, multi_class="ava", random_state=0).fit(X[::2], y[::2])
    assert model.machine_.alpha.shape[1] == 3
    assert model.score(X[1::2], y[1::2]) > 0.9
    values = model.decision_function(X[1::2])
    assert values.shape == (75, 3)
    assert (model.classes_[values.argmax(1)] == model.predict(X[1::2])).all()
    assert (model.classes_[model.predict_proba(X[1::2]).argmax(1)] == model.predict(X[1::2])).all()
    pairs = columns_at(model, X[1::2])
    first = pairs[y[1::2] == 0]
    assert (first[:, :2] > 0).all()  # setosa wins both of its pairs
    number = model.model_.training.rows.Y.argmax(1)
    assert (model.machine_.alpha[number == 2, 0] == 0).all()  # class 2 has no part in 0 against 1


def test_two_classes_are_one_pair():
    X, y, X_new, _ = cancer()
    ava, ovr = (
        HGKClassifier("plain", loss="hinge", multi_class=how, lam=1e-3, random_state=0).fit(X, y)
        for how in ("ava", "ovr")
    )
    assert (ava.decision_function(X_new) == ovr.decision_function(X_new)).all()


# ------------------------------------------------------------------------------------------- honest values


def test_the_default_speaks_by_rows_that_its_kernels_have_not_seen():
    X, y, X_new, y_new = cancer(2)
    model = HGKClassifier(loss="hinge", random_state=0).fit(X, y)
    chosen, aside = last(model.history_, LamChosen), model.machine_.aside.bool()
    if chosen is None:  # the plain kernel alone, whose folds are all honest
        assert aside.all()
        return
    assert chosen.folds == 3
    assert abs(float(aside.double().mean()) - 0.6) < 0.02
    t, Y = model.model_.leave_one_out()[aside][:, 0], model.model_.training.rows.Y[aside][:, 0]
    assert float(torch.clamp(1 - Y * t.clamp(-1, 1), min=0).mean()) == pytest.approx(chosen.risk, rel=0.02)
    assert log_loss(y_new, model.predict_proba(X_new)) < 0.3


@pytest.mark.parametrize("loss", ["least_squares", "hinge"])
def test_thresholds_keep_the_false_alarm_rate(loss):
    X, y, X_new, y_new = cancer(2)
    model = HGKClassifier("plain", loss=loss, random_state=0).fit(X, y)
    honest, thresholds = model.loo_predictions_[y == 0], []
    for rate in (0.02, 0.1, 0.3):
        threshold = model.threshold_for(false_alarm_rate=rate)
        assert (honest > threshold).mean() <= rate
        by_hand = weighted_quantile(torch.from_numpy(honest), torch.ones(len(honest), dtype=torch.float64), 1 - rate)
        assert threshold == pytest.approx(float(by_hand))
        alarms = model.predict(X_new, threshold=threshold) == 1
        assert (alarms == (model.decision_function(X_new) > threshold)).all()
        assert alarms[y_new == 0].mean() < rate + 4 * np.sqrt(rate * (1 - rate) * 2 / (y_new == 0).sum())
        thresholds.append(threshold)
    assert thresholds == sorted(thresholds, reverse=True)


@pytest.mark.parametrize("fewer", [60, 400])
def test_a_budget_that_is_used_up_chooses_lam_on_few_rows_and_says_so(monkeypatch, fewer):
    monkeypatch.setattr(problems, "FEWER", fewer)
    monkeypatch.setattr(races, "FEWER", fewer)
    X, y, X_new, y_new = cancer()
    model = HGKClassifier(loss="logistic", random_state=0, time_budget=1e-3)
    if fewer < len(y):
        with pytest.warns(UserWarning, match="time_budget=0.001 was used up before λ was chosen on all rows"):
            model.fit(X, y)
        (said,) = of_kind(model.history_, LamChosen)
        assert said.cut
        assert said.lams == 1
    else:  # all rows are few, and there is nothing to warn of
        model.fit(X, y)
    assert model.lam_ < 0.09  # not the largest
    assert model.score(X_new, y_new) > 0.9


def test_a_gap_that_is_left_is_said(monkeypatch):
    X, y, *_ = cancer(6)
    monkeypatch.setattr(problems, "solver_for", lambda *_: BoxDual(1e-9, rounds=1, tries=1))
    with pytest.warns(UserWarning, match="a duality gap of .* more than was wanted"):
        HGKClassifier("plain", loss="hinge", lam=1e-7, random_state=0).fit(X, y)


def kept_aside(model, mask):
    """As if the kernel had been learned on the other rows; a copy."""
    known = model.model_
    machine = replace(known.machine, aside=torch.from_numpy(mask).double())
    other = copy.copy(model)
    other.restore(Model.of(known.inputs, known.target, machine, known.history, known.training), None)
    return other


def test_thresholds_and_probabilities_are_of_rows_kept_aside_and_of_their_weights():
    X, y, X_new, _ = cancer()
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = HGKClassifier("plain", loss="hinge", lam=1e-3, random_state=0).fit(X, y, weight)
    rows = model.model_.training.rows
    mask = np.arange(len(rows)) % 2 == 0
    t, Y, s = model.model_.leave_one_out().numpy(), rows.Y.numpy(), rows.weight.numpy()
    half = kept_aside(model, mask)
    for one, kept in ((model, mask | True), (half, mask)):
        first = kept & (Y[:, 0] < 0)
        scaled = torch.from_numpy(s[first])  # whole weights are repetitions
        for rate in (0.1, 0.2, 0.3, 0.5):
            by_hand = weighted_quantile(torch.from_numpy(t[first, 0]), scaled, 1 - rate)
            assert one.threshold_for(rate) == float(by_hand)
        expected = Calibration.of(t[kept], Y[kept], s[kept], s[kept].sum())
        assert one.predict_proba(X_new) == pytest.approx(expected.probabilities(columns_at(one, X_new)))
    assert (half.predict_proba(X_new) != model.predict_proba(X_new)).all()
    at = model.decision_function(X_new)[5]
    assert model.predict(X_new, threshold=at)[5] == 0  # above, not at
    assert model.predict(X_new, threshold=np.nextafter(at, -np.inf))[5] == 1


def test_offsets_are_of_rows_kept_aside():
    model, _ = quantile_model()
    rows, offsets = model.model_.training.rows, model.model_.target.offsets
    mask = np.arange(len(rows)) % 3 > 0
    half = kept_aside(model, mask).model_.target.offsets
    residuals = (rows.Y - model.model_.leave_one_out()).numpy()[mask]
    assert half == pytest.approx(np.quantile(residuals, LEVELS, axis=0, method="inverted_cdf").diagonal())
    assert (half != offsets).any()


def test_balanced_classes_have_the_same_sum_of_sample_weights():
    X, y, *_ = cancer(6)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = HGKClassifier("plain", loss="hinge", lam=1e-2, class_weight="balanced", random_state=0).fit(X, y, weight)
    rows = model.model_.training.rows
    total = [float(rows.weight[rows.Y[:, 0] == sign].sum()) for sign in (-1, 1)]
    assert total == pytest.approx([weight.sum() / 2] * 2)


def test_expectiles_increase_with_their_level():
    X, y, X_new, _ = diabetes()
    low, high = (
        HGKRegressor("plain", loss="expectile", tau=tau, lam=1e-3, random_state=0).fit(X, y).predict(X_new)
        for tau in (0.1, 0.9)
    )
    assert (low < high).mean() > 0.95


# --------------------------------------------------------------------------------- files, reasons, pages


@functools.cache
def quantile_model():
    X, y, X_new, _ = diabetes()
    return HGKQuantileRegressor("plain", quantiles=LEVELS, lam=1e-3, random_state=0).fit(X, y), X_new


@functools.cache
def pair_model():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = HGKClassifier("plain", loss="hinge", multi_class="ava", class_weight={"setosa": 2.0}, lam=1e-3)
    return model.fit(X[::2], names[::2]), X[1::2]


@functools.cache
def margin_model():
    X, y, X_new, _ = cancer()
    with quickly():
        return HGKClassifier(loss="squared_hinge", random_state=0).fit(X, y), X_new


@functools.cache
def object_model():
    X, y, X_new, _ = diabetes()
    return HGKRegressor("plain", loss=EpsilonInsensitive(0.05), lam=1e-3, random_state=0).fit(X, y), X_new


MODELS = {"quantiles": quantile_model, "pairs": pair_model, "margins": margin_model, "object": object_model}


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_file_brings_the_model_back(make, compact, tmp_path):
    model, X_new = make()
    path = tmp_path / "model.hgk"
    hgk.save(model, path, compact=compact)
    back = hgk.load(path)
    assert (back.predict(X_new) == model.predict(X_new)).all()
    assert back.get_params().keys() == model.get_params().keys()
    assert str(back.get_params()["loss"] if hasattr(back, "loss") else back.quantiles) == str(
        model.get_params()["loss"] if hasattr(model, "loss") else model.quantiles
    )
    if isinstance(model, HGKClassifier):
        assert (back.predict_proba(X_new) == model.predict_proba(X_new)).all()
    if compact:
        with pytest.raises(hgk.CompactModelError):
            _ = back.loo_predictions_
    else:
        assert np.array_equal(back.loo_predictions_, model.loo_predictions_, equal_nan=True)
        again = tmp_path / "again.hgk"
        hgk.save(back, again)
        assert again.read_bytes() == path.read_bytes()


class Absolute(BoxLoss):
    """|r|, twice the pinball loss at 1/2."""

    def domain(self, y):
        return -torch.ones_like(y), torch.ones_like(y)


@storable
@dataclass(frozen=True)
class Declared(Absolute):
    """The same, declared storable."""


def test_a_loss_of_ones_own_has_a_place_in_a_file_once_it_is_declared(tmp_path):
    X, y, X_new, _ = diabetes()
    model, declared = (
        HGKRegressor("plain", loss=loss, lam=1e-3, random_state=0).fit(X, y) for loss in (Absolute(), Declared())
    )
    half = HGKRegressor("plain", loss="pinball", lam=5e-4, random_state=0).fit(X, y)
    assert model.predict(X_new) == pytest.approx(half.predict(X_new), rel=1e-2)  # |r| is twice the pinball loss at 1/2
    with pytest.raises(hgk.ModelFileError, match=r"Absolute.*joblib"):
        hgk.save(model, tmp_path / "model.hgk")
    hgk.save(declared, tmp_path / "model.hgk")
    back = hgk.load(tmp_path / "model.hgk")
    assert back.loss == Declared()
    assert (back.predict(X_new) == model.predict(X_new)).all()


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_contributions_add_up_and_influence_is_refused(make):
    model, X_new = make()
    found = contributions(model, X_new[:5])
    assert found.base + found.contribution.sum(-1) + found.rest == pytest.approx(found.value)
    raw, (base, scale) = model.model_.values(model.features(X_new[:5])).numpy(), model.model_.target.unit()
    inside = np.abs(raw) < model.machine_.clip
    assert found.value[inside] == pytest.approx((base + scale * raw)[inside])
    with pytest.raises(ValueError, match=r"least squares.*loss='least_squares'"):
        influence(model)


def test_the_report_is_of_held_out_folds(tmp_path):
    from hgk.report import write_report

    model, _ = object_model()
    page = write_report(model, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "5-fold cross-validation" in page
    assert "Held-out predictions" in page
    assert "Leave-one-out" not in page
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        write_report(pair_model()[0], tmp_path / "pairs.html")
    with pytest.raises(TypeError, match=r"HGKQuantileRegressor was given.*HGKRegressor or HGKClassifier"):
        write_report(quantile_model()[0], tmp_path / "quantiles.html")


def test_the_command_line_takes_losses_and_quantiles(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    from typer.testing import CliRunner

    from hgk.cli import app

    X, y, *_ = diabetes()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(
        y=y, tall=np.where(y > 140, "yes", "no")
    )
    frame.to_csv(tmp_path / "t.csv", index=False)

    def call(*words):
        found = CliRunner().invoke(app, [str(word) for word in words])
        assert found.exit_code == 0, found.output
        return found.stdout

    common = "fit", tmp_path / "t.csv", "--preset", "plain", "--json", "--out"
    said = json.loads(call(*common, tmp_path / "h.hgk", "--target", "tall", "--drop", "y", "--loss", "hinge"))
    assert said["error"]["basis"] == "5-fold cross-validation"
    assert said["error"]["wrong"] < 0.4
    said = json.loads(
        call(*common, tmp_path / "q.hgk", "--target", "y", "--drop", "tall", "--quantiles", "0.1,0.5,0.9")
    )
    assert said["error"]["inside"] == pytest.approx(0.8, abs=0.1)
    call("predict", tmp_path / "q.hgk", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert list(pd.read_csv(tmp_path / "p.csv").columns) == ["quantile 0.1", "quantile 0.5", "quantile 0.9"]
    assert "Hinge" in call("info", tmp_path / "h.hgk")
    assert "quantile 0.5" in call("explain", tmp_path / "q.hgk", "--row", "0")


def test_the_code_of_the_page_about_losses_runs(monkeypatch):
    monkeypatch.setattr(losses, "_NAMED", dict(losses._NAMED))  # what the page registers is forgotten afterwards
    first, second, third, fourth = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    X, y, X_new, _ = cancer()
    names = {"X": X_new}
    exec(first, names)
    names["model"] = HGKClassifier("plain", loss="hinge", lam=1e-3, random_state=0).fit(X, y)
    exec(second.replace("0.01", "0.1"), names)
    exec(third, names)
    exec(fourth, names)
    by_object, by_name = (
        HGKRegressor("plain", loss=loss, lam=1e-4, random_state=0).fit(X, X[:, 1])
        for loss in (names["Huber"](), "huberised")
    )
    assert by_object.machine_.gap_left < 1e-5
    assert by_object.score(X_new, X_new[:, 1]) > 0.8
    assert (by_name.predict(X_new) == by_object.predict(X_new)).all()


# --------------------------------------------------------------------------------------------- bad input


class Concave(Loss):
    def value(self, y, t): ...
    def derivative(self, y, t): ...
    def conjugate(self, y, u): ...


REFUSED = {
    "margins for numbers": (HGKRegressor(loss="hinge"), ValueError, "'hinge' is for HGKClassifier; here use one of"),
    "margin object": (HGKRegressor(loss=Hinge()), ValueError, "takes the labels -1 and 1, so use HGKClassifier"),
    "quantiles of classes": (
        HGKClassifier(loss="pinball"),
        ValueError,
        "'pinball' is for HGKRegressor; here use one of",
    ),
    "regression object": (HGKClassifier(loss=Pinball(0.2)), ValueError, "a loss of regression, so use HGKRegressor"),
    "no such loss": (HGKRegressor(loss="huber"), ValueError, "loss='huber' is unknown; use one of 'least_squares'"),
    "no loss at all": (HGKRegressor(loss=3), TypeError, "loss=3 was given; a name such as"),
    "no solver": (
        HGKRegressor(loss=Concave()),
        TypeError,
        "No solver takes the loss Concave as asked: BoxDual needs tube, Newton needs curvature",
    ),
    "tau 0": (HGKRegressor(loss="pinball", tau=0.0), ValueError, "strictly between 0 and 1"),
    "tau 1": (HGKRegressor(loss="expectile", tau=1), ValueError, "strictly between 0 and 1"),
    "tau a word": (HGKRegressor(loss="expectile", tau="high"), TypeError, "tau='high' was given; a number"),
    "tube": (HGKRegressor(loss="epsilon_insensitive", tube=-1.0), ValueError, "half-width ε must be at least 0"),
    "levels": (HGKRegressor(loss=Pinball(torch.tensor([0.1, 0.9]))), ValueError, "2 levels.*use HGKQuantileRegressor"),
    "quantile 1": (HGKQuantileRegressor(quantiles=[0.5, 1.0]), ValueError, "levels must lie strictly between 0 and 1"),
    "crossing": (HGKQuantileRegressor(quantiles=[0.9, 0.1]), ValueError, r"never cross.*give \[0.1, 0.9\]"),
    "twice": (HGKQuantileRegressor(quantiles=[0.5, 0.5]), ValueError, r"levels must increase: give \[0.5\]"),
    "no quantile": (HGKQuantileRegressor(quantiles=[]), TypeError, "a number between 0 and 1 is expected"),
    "word": (HGKQuantileRegressor(quantiles="median"), TypeError, "quantiles='median' was given"),
    "multi_class": (HGKClassifier(multi_class="crammer"), ValueError, "'ovr' .* or 'ava'"),
    "class_weight": (HGKClassifier(class_weight="even"), ValueError, "class_weight='even' was given; a dict"),
    "unknown class": (HGKClassifier(class_weight={7: 1.0}), ValueError, "the class 7, which y does not have"),
    "negative": (HGKClassifier(class_weight={0: -1.0}), ValueError, "finite weights > 0"),
}


@pytest.mark.parametrize(("model", "kind", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_gets_one_sentence(model, kind, sentence):
    X, y, *_ = cancer(10)
    with pytest.raises(kind, match=sentence) as caught:
        model.fit(X, y)
    assert str(caught.value).rstrip(".").count(". ") == 0


def test_more_sentences(monkeypatch):
    X, y, *_ = cancer(10)
    model = HGKClassifier("plain", loss="hinge", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="false_alarm_rate=2 was given"):
        model.threshold_for(false_alarm_rate=2)
    with pytest.raises(ValueError, match="can be judged by so few"):
        model.threshold_for(false_alarm_rate=1e-6)
    three = HGKClassifier("plain", random_state=0).fit(*(part[::5] for part in load_iris(return_X_y=True)))
    with pytest.raises(ValueError, match="false alarms need two classes"):
        three.threshold_for()
    with pytest.raises(ValueError, match="with 3 classes; it needs two"):
        three.predict(load_iris().data, threshold=0.2)
    numbers = HGKRegressor("plain", loss="pinball", lam=1e-2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"use HGKQuantileRegressor\(quantiles=\[0.05, 0.95\]\)"):
        numbers.predict_interval(X)
    monkeypatch.setattr(arrays.memory, "EXACT", 20)
    with pytest.raises(ValueError, match=r"at most 20 rows, unless the default preset divides"):
        HGKClassifier("plain", loss=Logistic()).fit(X, y)
