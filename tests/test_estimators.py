"""The estimators: scikit-learn's habits, the two-phase idea, stopping, and sentences for bad input."""

import os
import pickle
import re
import signal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_friedman1
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hgk import (
    Algorithm1,
    HGKClassifier,
    HGKQuantileRegressor,
    HGKRegressor,
    HierarchicalKernel,
    StoppedEarlyWarning,
    arrays,
    inhomogeneous,
    isotropic,
    progress,
    two_layers,
)
from hgk.estimators.parameters import CONSTRAINTS, check
from hgk.events import ArchitectureChosen, GridChosen, Searched, of_kind
from hgk.learners import PRESETS
from hgk.machines import train
from hgk.progress import Progress
from hgk.search import search
from strategies import is_sentence

SHORT = Algorithm1(M=1, L=1, N1=10, N2=5, N3=2)


def friedman(n, d=6, seed=0, noise=0.1):
    return make_friedman1(n, n_features=d, noise=noise, random_state=seed)


@pytest.fixture(scope="module")
def fitted():
    X, y = friedman(150)
    return HGKRegressor("algorithm1", random_state=0).fit(X, y)


def test_learned_weights_beat_the_plain_gaussian_and_find_the_relevant_columns():
    X, y = friedman(400, d=10)
    optimiser = Algorithm1(M=6, L=6, N3=10)
    learned = [HGKRegressor(optimiser=optimiser, random_state=seed).fit(X[:200], y[:200]) for seed in range(3)]
    plain = HGKRegressor("plain", random_state=0).fit(X[:200], y[:200])
    *errors, error = [np.mean((m.predict(X[200:]) - y[200:]) ** 2) for m in (*learned, plain)]
    assert max(errors) < 0.7 * error
    # columns 5 to 9 are noise; over six seeds the others' share was between 0.54 and 0.91
    assert np.mean([m.exponent_shares_[:5].sum() for m in learned]) > 0.6
    np.testing.assert_allclose(plain.exponent_shares_, 0.1, atol=0.02)


def test_predictions_are_the_fitted_attributes_put_together(fitted):
    _X, y = friedman(150)
    Z = friedman(40, seed=1)[0]
    t = fitted.kernel_(Z, fitted.X_fit_) @ fitted.alpha_
    expected = np.clip(t, -1, 1) * (y.max() - y.min()) / 2 + (y.max() + y.min()) / 2
    np.testing.assert_allclose(fitted.predict(Z), expected, atol=1e-9)
    assert fitted.gamma_ == fitted.kernel_.gamma
    assert fitted.lam_ > 0
    assert fitted.alpha_.shape == (150,)


def test_predictions_stay_in_the_range_of_the_labels(fitted):
    y = friedman(150)[1]
    t = fitted.predict(np.random.default_rng(0).uniform(-5, 5, (300, 6)))
    assert t.min() >= y.min() - 1e-12
    assert t.max() <= y.max() + 1e-12


def test_leave_one_out_predictions_equal_refits_of_every_fold_machine(fitted):
    _X, y = friedman(150)
    target, training = fitted.model_.target, fitted.model_.training
    scaled, machine = target.encode(y), fitted.machine_
    loo = fitted.loo_predictions_
    for i in (0, 17, 149):
        row = int(training.place[i])
        t = []
        for part in machine.parts:
            rest = part[part != row]
            A = machine.kernel.matrix(machine.X[rest]) + machine.lam * len(part) * torch.eye(len(rest))
            alpha = torch.linalg.solve(A, training.rows.Y[rest])
            t.append(machine.kernel.matrix(machine.X[row : row + 1], machine.X[rest]) @ alpha)
        expected = target.out(torch.stack(t).mean(0).clamp(-1, 1).numpy())
        assert loo[i] == pytest.approx(float(expected[0]), abs=1e-6)
        assert float(training.rows.Y[row]) == pytest.approx(float(scaled[i, 0]))


def test_leave_one_out_predictions_come_in_the_order_of_the_rows_and_cover_repeated_and_weightless_ones():
    X, y = friedman(60)
    order = np.random.default_rng(0).permutation(60)
    model = HGKRegressor("plain", random_state=0)
    straight = clone(model).fit(X, y).loo_predictions_
    np.testing.assert_allclose(clone(model).fit(X[order], y[order]).loo_predictions_, straight[order], atol=1e-12)
    weight = np.r_[0.0, np.ones(59)]
    left_out = clone(model).fit(X, y, sample_weight=weight)
    assert left_out.loo_predictions_[0] == pytest.approx(left_out.predict(X[:1])[0])
    twice = clone(model).fit(np.vstack([X, X[:5]]), np.r_[y, y[:5]]).loo_predictions_
    np.testing.assert_allclose(twice[60:], twice[:5])


def test_a_second_fit_forgets_the_first():
    X, y = friedman(60)
    model = HGKRegressor("plain", random_state=0)
    first = model.fit(X, y).loo_predictions_
    assert not np.array_equal(model.fit(X[:, ::-1], -y).loo_predictions_, first)
    assert model.fit(X[:50], y[:50]).loo_predictions_.shape == (50,)


def test_row_order_does_not_matter_and_weights_are_repetitions():
    X, y = friedman(60)
    order = np.random.default_rng(0).permutation(60)
    weight = np.random.default_rng(1).integers(0, 3, 60)
    model = HGKRegressor(optimiser=SHORT, random_state=0)
    Z = friedman(20, seed=1)[0]
    base = clone(model).fit(X, y).predict(Z)
    assert np.array_equal(clone(model).fit(X[order], y[order]).predict(Z), base)
    weighted = clone(model).fit(X, y, sample_weight=weight).predict(Z)
    repeated = clone(model).fit(X.repeat(weight, 0), y.repeat(weight)).predict(Z)
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)
    assert np.abs(weighted - base).max() > 1e-3


@pytest.mark.parametrize("factor", [1e-5, 1 / 60, 1000.0])
def test_multiplying_all_weights_changes_nothing(factor):
    X, y = friedman(60)
    weight = np.random.default_rng(1).uniform(0.5, 2, 60)
    model = HGKRegressor("plain", random_state=0)
    base = clone(model).fit(X, y, sample_weight=weight)
    scaled = clone(model).fit(X, y, sample_weight=factor * weight)
    np.testing.assert_allclose(scaled.predict(X), base.predict(X), rtol=1e-5)
    assert scaled.lam_ == pytest.approx(base.lam_)


def test_the_same_random_state_gives_the_same_model_and_another_another():
    X, y = friedman(80)
    one, two, other = (HGKRegressor(optimiser=SHORT, random_state=s).fit(X, y).predict(X) for s in (3, 3, 4))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_units_of_the_columns_do_not_matter():
    X, y = friedman(80)
    factor, shift = np.array([1e-6, 1, 10, 1e5, 3, 1]), np.array([0, 1e3, -5, 1e9, 0, 1])
    model = HGKRegressor(optimiser=SHORT, random_state=0)
    base, moved = clone(model).fit(X, y), clone(model).fit(X * factor + shift, 1e4 * y - 3)
    np.testing.assert_allclose((moved.predict(X * factor + shift) + 3) / 1e4, base.predict(X), atol=1e-4)
    np.testing.assert_allclose(moved.kernel_(X * factor), base.kernel_(X), atol=1e-6)


def test_two_phases_weights_from_one_chunk_machine_on_another():
    """Learn on 150 rows, hand the kernel over, train on 600 others: better than either alone."""
    X, y = friedman(1150, d=10)
    small, large, test = slice(0, 150), slice(150, 750), slice(750, None)
    first = HGKRegressor(optimiser=Algorithm1(M=4, L=6), random_state=0).fit(X[small], y[small])
    second = HGKRegressor(kernel=first.kernel_, random_state=0).fit(X[large], y[large])
    plain = HGKRegressor("plain", random_state=0).fit(X[large], y[large])
    error = {m: np.mean((m.predict(X[test]) - y[test]) ** 2) for m in (first, second, plain)}
    assert error[second] < min(error[first], error[plain])
    # the weights are kept, up to the width γ, which is chosen anew
    np.testing.assert_allclose(second.kernel_.W[0], first.kernel_.W[0], rtol=1e-9)
    np.testing.assert_allclose(second.kernel_.W[1], first.kernel_.W[1], rtol=1e-9)


def test_a_kernel_is_not_handed_to_columns_of_other_names():
    X, y = friedman(60)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    kernel = HGKRegressor(optimiser=SHORT, random_state=0).fit(frame, y).kernel_
    HGKRegressor(kernel=kernel, random_state=0).fit(frame[:40], y[:40])
    with pytest.raises(ValueError, match="same columns in the same order"):
        HGKRegressor(kernel=kernel, random_state=0).fit(frame[list("fedcba")], y)


def test_learning_curve_falls_towards_the_bayes_risk():
    """y = sin(4 x_1) + noise of variance 1/4: the risk falls and comes within 5 % of the Bayes risk."""
    rng = np.random.default_rng(0)

    def draw(n):
        X = rng.uniform(-1, 1, (n, 2))
        return X, np.sin(4 * X[:, 0]) + 0.5 * rng.choice([-1, 1], n)

    X, y = draw(20_000)
    risks = []
    for n in (50, 200, 1600):
        model = HGKRegressor(architecture=two_layers(2, 2), optimiser=SHORT, random_state=0).fit(*draw(n))
        risks.append(np.mean((model.predict(X) - y) ** 2))
    assert risks[0] > risks[1] > risks[2] > 0.24
    assert risks[2] < 0.25 * 1.05


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_classifiers_on_real_data(load):
    X, y = load(return_X_y=True)
    names = np.array(["a", "b", "ccc"])[y]
    model = HGKClassifier(random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.92
    p = model.predict_proba(X[1::2])
    assert p.shape == (len(X[1::2]), len(np.unique(y)))
    np.testing.assert_allclose(p.sum(1), 1)
    assert p.min() >= 0
    assert np.array_equal(model.classes_[p.argmax(1)], model.predict(X[1::2]))
    assert model.decision_function(X).shape == ((len(X),) if len(model.classes_) == 2 else (len(X), 3))
    assert model.loo_predictions_.shape == model.decision_function(X[::2]).shape


def test_probabilities_are_close_to_the_truth():
    """P(1 | x) = (1 + sin 3x)/2, known: the least-squares function estimates it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 1))
    p = (1 + np.sin(3 * X[:, 0])) / 2
    model = HGKClassifier("plain", random_state=0).fit(X, rng.random(1500) < p)
    assert np.abs((model.decision_function(X) + 1) / 2 - p).mean() < 0.08
    assert np.abs(model.predict_proba(X)[:, 1] - p).mean() < 0.08
    assert model.classes_.dtype == bool


def test_several_outputs_share_the_kernel():
    X, y = friedman(100)
    Y = np.column_stack([y, -2 * y + 1])
    model = HGKRegressor("plain", random_state=0).fit(X, Y)
    t = model.predict(X[:30])
    assert t.shape == (30, 2)
    np.testing.assert_allclose(t[:, 1], -2 * t[:, 0] + 1, atol=1e-8)
    assert model.loo_predictions_.shape == (100, 2)


def test_data_frames_names_and_groups():
    X, y = friedman(80)
    names = ["temperature", "age", "größe", "x y", "b", "c"]
    frame = pd.DataFrame(X, columns=names)
    groups = {"pair": ["temperature", "age"], "others": ["größe", "x y", "b"]}
    model = HGKRegressor(groups=groups, optimiser=SHORT, random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == names
    assert model.kernel_.architecture.coordinates == ((0, 1), (2, 3, 4), (5,))
    assert all(word in str(model.kernel_) for word in ("pair", "others", "rest", "temperature", "x y"))
    by_index = HGKRegressor(groups={"pair": [0, 1], "others": [2, 3, 4]}, optimiser=SHORT, random_state=0).fit(X, y)
    np.testing.assert_allclose(by_index.predict(X), model.predict(frame))
    polars = HGKRegressor(groups=groups, optimiser=SHORT, random_state=0).fit(pl.DataFrame(X, schema=names), y)
    np.testing.assert_allclose(polars.predict(pl.DataFrame(X, schema=names)), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_in_pipelines_searches_and_cross_validation():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), HGKClassifier(optimiser=SHORT, random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.9
    assert cross_val_predict(pipeline, X, y, cv=3, method="predict_proba").shape == (150, 3)
    grid = {"hgkclassifier__lam": [1e-4, 1e-2], "hgkclassifier__optimiser": [SHORT, Algorithm1(M=1, L=1)]}
    search = GridSearchCV(pipeline, grid, cv=3)
    assert search.fit(X, y).best_score_ > 0.9


def test_pickle_and_clone(fitted):
    X = friedman(20, seed=2)[0]
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    handed_over = clone(HGKRegressor(kernel=fitted.kernel_, optimiser=SHORT))
    assert isinstance(handed_over.kernel, HierarchicalKernel)
    assert handed_over.optimiser == SHORT


def test_several_architectures_are_chosen_by_the_papers_protocol():
    X, y = friedman(90)
    shapes = [inhomogeneous(6), two_layers(6, 3)]
    model = HGKRegressor(architecture=shapes, optimiser=SHORT, random_state=0).fit(X, y)
    machines, rows = model.machine_.machines, model.model_.training.rows
    assert len(machines) == 5
    assert isinstance(model.history_[-1], ArchitectureChosen)
    t = np.mean([m(torch.from_numpy(model.model_.inputs(X))).numpy() for m in machines], axis=0)
    np.testing.assert_allclose(model.predict(X), model.model_.target.out(np.clip(t, -1, 1)))
    assert np.corrcoef(model.loo_predictions_, y)[0, 1] > 0.7
    mean = np.mean([m.kernel.relevance(rows.X) for m in machines], axis=0)
    np.testing.assert_allclose(model.exponent_shares_, mean)
    np.testing.assert_allclose(model.kernel_(X), np.mean([m.kernel.matrix(model.features(X)) for m in machines], 0))
    assert model.alpha_.shape == (5, 90)
    assert model.lam_ == pytest.approx(np.exp(np.mean(np.log([m.lam for m in machines]))))


def test_folds_of_a_classifier_hold_every_class():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [95, 5])
    model = HGKClassifier("plain", random_state=0).fit(rng.uniform(size=(100, 3)), labels)
    for part in model.machine_.parts:
        assert int((model.model_.training.rows.Y[part] > 0).sum()) == 4


def test_the_paper_preset_is_the_papers_protocol():
    paper = PRESETS["paper"]
    assert paper.optimiser == Algorithm1.paper()
    shapes = paper.architectures(20, np.random.default_rng(0))
    assert [a.depth for a in shapes] == [1, 2, 2, 2, 2, 2, 2]
    assert [len(a.coordinates) for a in shapes] == [1, 4, 6, 8, 10, 12, 16]


def test_verbose_prints_and_the_callback_sees_every_event(capsys):
    events = []
    X, y = friedman(60)
    model = HGKRegressor(optimiser=SHORT, random_state=0, verbose=1, callback=events.append).fit(X, y)
    assert tuple(events) == model.history_
    assert len(capsys.readouterr().out.splitlines()) == len(events) > 2


def test_a_callback_can_stop_the_fit():
    X, y = friedman(60)
    with pytest.warns(StoppedEarlyWarning, match="best weights found so far"):
        model = HGKRegressor(optimiser=Algorithm1(M=50), callback=lambda e: True, random_state=0).fit(X, y)
    assert len(model.history_) < 10
    assert model.score(X, y) > 0.5


def test_a_wish_to_stop_that_cut_nothing_is_not_mentioned():
    X, y = friedman(60)
    model = HGKRegressor("plain", callback=lambda e: isinstance(e, GridChosen), random_state=0).fit(X, y)  # no warning
    assert [type(event) for event in model.history_] == [GridChosen]


@pytest.fixture
def fresh(monkeypatch):
    """No Ctrl-C was pressed lately, and one comes soon after another however slow the machine."""
    monkeypatch.setattr(Progress, "last_press", float("-inf"))
    monkeypatch.setattr(progress, "IMPATIENT", 600.0)


@pytest.mark.usefixtures("fresh")
def test_ctrl_c_leaves_a_loop_of_fits():
    """Two presses within three seconds end a cross-validation, not just one of its fits."""
    X, y = friedman(60)

    def press(event):
        if isinstance(event, GridChosen):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        cross_val_score(HGKRegressor("plain", callback=press), X, y, cv=20)


@pytest.mark.usefixtures("fresh")
def test_ctrl_c_keeps_the_best_weights_and_a_second_one_interrupts(capsys):
    X, y = friedman(80)
    calls = []

    def press(event):
        calls.append(event)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    long = Algorithm1(M=10_000)
    with pytest.warns(StoppedEarlyWarning):
        model = HGKRegressor(optimiser=long, callback=press, random_state=0).fit(X, y)
    searched = of_kind(calls, Searched)
    assert searched[-1].best_D3 == min(event.risk_D3 for event in searched)
    assert "press Ctrl-C again" in capsys.readouterr().err
    assert model.score(X, y) > 0.5
    assert signal.getsignal(signal.SIGINT) is before

    def press_twice(event):
        os.kill(os.getpid(), signal.SIGINT)

    Progress.last_press = float("-inf")  # so that it is the second of this fit
    with pytest.raises(KeyboardInterrupt):
        HGKRegressor(optimiser=long, callback=press_twice, random_state=0).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is before


X, Y = friedman(30)
LABELS = (Y.mean() < Y).astype(int)


@pytest.mark.parametrize(
    ("model", "X", "y", "error", "sentence"),
    [
        (HGKRegressor(), np.where(X > 0.9, np.inf, X), Y, ValueError, "contains infinity"),
        (HGKRegressor(), X, np.where(np.arange(30) == 3, np.nan, Y), ValueError, "contains NaN"),
        (HGKRegressor(), X[:1], Y[:1], ValueError, "1 sample"),
        (HGKRegressor(), X[[0, 0, 0]], Y[[0, 0, 0]], ValueError, "at least 2 different rows"),
        (HGKRegressor(), X[:, 0], Y, ValueError, "Expected 2D array"),
        (HGKRegressor(), X, Y[:20], ValueError, "inconsistent numbers of samples"),
        (HGKRegressor(), X, Y[:, None, None], ValueError, "dim 3"),
        (HGKClassifier(), X, np.ones(30), ValueError, "single class .* at least two classes"),
        (HGKClassifier(), X, np.column_stack([LABELS, LABELS]), ValueError, "1d array"),
        (HGKClassifier(), X, Y, ValueError, "continuous"),
        (
            HGKRegressor("papre"),
            X,
            Y,
            ValueError,
            "preset='papre' is unknown; use one of 'default', 'algorithm1', 'paper', 'plain'",
        ),
        (HGKRegressor(lam=-1), X, Y, ValueError, "lam=-1 was given; a finite number > 0"),
        (HGKRegressor(lam=np.nan), X, Y, ValueError, "lam=nan was given"),
        (HGKRegressor(kernel="rbf"), X, Y, TypeError, "kernel='rbf' was given; a HierarchicalKernel"),
        (HGKRegressor(optimiser="sgd"), X, Y, TypeError, "optimiser='sgd' was given; an Algorithm1"),
        (HGKRegressor(architecture=isotropic(4)), X, Y, ValueError, "for 4 columns .* data of 6 columns"),
        (HGKRegressor(architecture=[]), X, Y, ValueError, "at least one Architecture"),
        (HGKRegressor(architecture="two_layers"), X, Y, TypeError, "architecture='two_layers' was given"),
        (HGKRegressor(architecture=[1, 2]), X, Y, TypeError, "architecture holds 1"),
        (HGKRegressor(callback="x"), X, Y, TypeError, "callback='x' was given"),
        (HGKRegressor(["default"]), X, Y, ValueError, "is unknown; use one of"),
        (HGKRegressor(lam=True), X, Y, ValueError, "lam=True was given"),
        (HGKRegressor(time_budget=0), X, Y, ValueError, "time_budget=0 was given; a number of seconds > 0"),
        (HGKRegressor("plain", time_budget=3), X, Y, ValueError, "kept by the preset 'default'"),
        (HGKRegressor("plain", groups={"a": [0]}), X, Y, ValueError, "plain preset has its own kernel"),
        (HGKRegressor(groups={"a": [True]}), X, Y, ValueError, "names the column True"),
        (HGKRegressor(groups={"a": []}), X, Y, ValueError, "Group 'a' was given as"),
        (HGKRegressor(), pd.DataFrame({"day": pd.to_timedelta(range(30), "D")}), Y, ValueError, "durations"),
        (HGKRegressor(groups={"a": [0, 9]}), X, Y, ValueError, "names the column 9"),
        (HGKRegressor(groups={"a": [0]}, architecture=isotropic(6)), X, Y, ValueError, "given together"),
    ],
)
def test_bad_input_gets_a_sentence(model, X, y, error, sentence):
    with pytest.raises(error, match=sentence):
        model.fit(X, y)


ESTIMATORS = (HGKRegressor, HGKClassifier, HGKQuantileRegressor)
# Refused for reasons that depend on the data or on other parameters, or taken as they are.
CHECKED_ELSEWHERE = {"preset", "device", "verbose", "quantiles"}


def test_every_parameter_has_a_constraint_and_every_constraint_a_parameter():
    known = {name for estimator in ESTIMATORS for name in estimator().get_params()}
    assert set(CONSTRAINTS) == known - CHECKED_ELSEWHERE


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_refused_by_name_in_one_sentence_and_defaults_are_allowed(estimator):
    defaults = estimator().get_params()
    check(defaults)
    for name in set(defaults) & set(CONSTRAINTS):
        odd = object()
        with pytest.raises((ValueError, TypeError)) as caught:
            check(defaults | {name: odd})
        text = str(caught.value)
        assert text.startswith(f"{name}={odd!r} ")
        assert re.search("expected|use", text)
        assert is_sentence(text)


def test_a_given_kernel_and_an_optimiser_contradict(fitted):
    with pytest.raises(ValueError, match="keeps its weights"):
        HGKRegressor(kernel=fitted.kernel_, optimiser=SHORT).fit(X, Y)


def test_weights_that_leave_nothing_get_a_sentence():
    with pytest.raises(ValueError, match="at least one non-zero"):
        HGKRegressor().fit(X, Y, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="single class"):
        HGKClassifier().fit(X, LABELS, sample_weight=LABELS)


def test_constant_and_repeated_columns_are_named():
    table = np.column_stack([X, np.full(30, 7.0), X[:, 2]])
    with pytest.warns(UserWarning, match="Remove them") as caught:
        model = HGKRegressor(optimiser=SHORT, random_state=0).fit(table, Y)
    text = " ".join(str(w.message) for w in caught)
    assert "weight 0: x6." in text
    assert "arbitrarily: x7." in text
    assert model.exponent_shares_[6] == 0
    assert np.isfinite(model.predict(table)).all()


def test_a_table_too_large_for_memory_is_refused_before_the_work(monkeypatch):
    events = []
    monkeypatch.setattr(
        arrays.memory, "available_memory", lambda *device: 8 * 30**2 * 2
    )  # D1 would fit, all rows do not
    with pytest.raises(MemoryError, match="use at most about"):
        HGKRegressor("algorithm1", callback=events.append).fit(X, Y)
    assert events == []


@pytest.mark.parametrize("work", ["search", "train", "loo"])
def test_every_large_allocation_is_guarded(monkeypatch, work):
    model = HGKRegressor("plain", random_state=0).fit(X, Y)
    rows, machine = model.model_.training.rows, model.machine_
    monkeypatch.setattr(arrays.memory, "available_memory", lambda *device: 8 * 30**2 * 1.5)
    works = {
        "search": lambda: search(machine.kernel, rows, np.arange(30) % 5, np.array([0.1]), 1.0),
        "train": lambda: train(machine.kernel, rows, 0.1),
        "loo": lambda: model.loo_predictions_,
    }
    with pytest.raises(MemoryError, match="use at most about"):
        works[work]()


def test_a_system_that_tells_nothing_about_its_memory_is_trusted(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(arrays.memory, "_available", lambda: None)
    monkeypatch.setattr(arrays.memory, "_control_group", lambda: None)
    assert arrays.available_memory() > 2**50


def test_small_fits_use_one_thread_and_give_the_others_back():
    before = torch.get_num_threads()
    inside = []
    HGKRegressor("plain", callback=lambda e: inside.append(torch.get_num_threads())).fit(X, Y)
    assert set(inside) == {1}
    assert torch.get_num_threads() == before


def test_a_numerically_singular_machine_says_what_was_added():
    X, y = friedman(60)
    clump = np.vstack([X[:30], X[:30] + 1e-13])
    with pytest.warns(UserWarning, match="was added to its diagonal"):
        HGKRegressor("plain", lam=1e-18, random_state=0).fit(clump, y)


def test_a_constant_target_is_predicted():
    assert np.array_equal(HGKRegressor(random_state=0).fit(X, np.full(30, 3.5)).predict(X), np.full(30, 3.5))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 11, 13])
def test_a_handful_of_rows_is_enough(n):
    assert np.isfinite(HGKRegressor(random_state=0).fit(X[:n], Y[:n]).predict(X)).all()
    many = HGKRegressor(random_state=0).fit(X[:n], X[:n] ** 2)  # more outputs than one Krylov space is good for
    assert np.isfinite(many.predict(X)).all()
    labels = np.arange(n) % 2
    assert set(HGKClassifier(random_state=0).fit(X[:n], labels).predict(X)) <= {0, 1}


def test_a_point_far_outside_and_a_vanishing_lambda_give_numbers():
    model = HGKRegressor("plain", random_state=0).fit(X, Y)
    assert np.isfinite(model.predict(np.full((1, 6), 1e308))).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may say that the matrix is singular
        assert np.isfinite(HGKRegressor("plain", lam=1e-50, random_state=0).fit(X, Y).predict(X)).all()


@pytest.mark.parametrize("scale", [1e-280, 1e300])
def test_extreme_units_neither_overflow_nor_underflow(scale):
    model = HGKRegressor("plain", random_state=0)
    base = clone(model).fit(X, Y).predict(X)
    np.testing.assert_allclose(clone(model).fit(X * scale, Y).predict(X * scale), base, rtol=1e-6)
