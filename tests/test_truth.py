"""No silent wrong answers, as a user would meet them: repeated rows, failed refits, headlines, budgets, intervals.

Tables as people write them are in test_truth_tables.py, files in test_truth_files.py, the formulas behind repeated rows
in test_repetitions.py.
"""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, mean_pinball_loss
from sklearn.preprocessing import OneHotEncoder

from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor, arrays
from hgk.solvers import Cholesky

# ------------------------------------------------------------------------- few distinct rows, noisy labels


def titanic(n=891, seed=0):
    """Sex and class, and who survived, with about the shares of the historical table."""
    rng = np.random.default_rng(seed)
    sex, ticket = rng.integers(0, 2, n), rng.choice(3, n, p=[0.24, 0.21, 0.55])
    share = np.array([[0.37, 0.16, 0.14], [0.97, 0.92, 0.5]])[sex, ticket]
    frame = pd.DataFrame({"sex": np.array(["man", "woman"])[sex], "ticket": np.array(["1st", "2nd", "3rd"])[ticket]})
    return frame, np.where(rng.random(n) < share, "yes", "no")


def cells(frame, y, positive):
    """The distinct rows, how often each label was positive there, and how many rows there were."""
    found = frame.assign(y=y == positive).groupby(list(frame.columns))["y"].agg(["mean", "size"]).reset_index()
    return found[list(frame.columns)], found["mean"].to_numpy(), found["size"].to_numpy()


@pytest.mark.parametrize("loss", ["least_squares", "logistic"])
def test_probabilities_of_cells_are_their_frequencies(loss):
    X, y = titanic()
    model = HGKClassifier(loss=loss, random_state=0).fit(X, y)
    distinct, share, size = cells(X, y, "yes")
    p = model.predict_proba(distinct)[:, 1]
    assert (np.abs(p - share) < 2 * np.sqrt(share * (1 - share) / size) + 0.01).all()
    clear = np.abs(share - 0.5) > 0.1
    assert np.array_equal((model.predict(distinct) == "yes")[clear], (share > 0.5)[clear])


def test_a_column_of_noise_is_no_help():
    X, y = titanic()
    noisy = X.assign(noise=np.random.default_rng(1).standard_normal(len(X)))
    said = HGKClassifier(random_state=0).fit(noisy[:400], y[:400]).predict(noisy[400:])
    alone = HGKClassifier(random_state=0).fit(X[:400], y[:400]).predict(X[400:])
    assert accuracy_score(y[400:], alone) > accuracy_score(y[400:], said) - 0.02


@pytest.mark.parametrize("model", [HGKClassifier(random_state=0), HGKClassifier("plain", random_state=0)])
def test_the_only_cell_has_its_majority_and_frequency(model):
    with pytest.warns(UserWarning, match="Constant columns"):
        model.fit(np.ones((300, 1)), np.repeat(["no", "yes"], [200, 100]))
    assert model.predict([[1.0]]) == ["no"]
    np.testing.assert_allclose(model.predict_proba([[1.0]]), [[2 / 3, 1 / 3]], atol=0.02)


def test_one_category_with_three_probabilities():
    rng = np.random.default_rng(0)
    c = rng.integers(0, 3, 600)
    y = rng.random(600) < np.array([0.8, 0.5, 0.2])[c]
    X, new = pd.DataFrame({"c": np.array(list("abc"))[c]}), pd.DataFrame({"c": list("abc")})
    share = [y[c == k].mean() for k in range(3)]
    # slopes are those of the rows set aside, three in five here
    np.testing.assert_allclose(HGKClassifier(random_state=0).fit(X, y).predict_proba(new)[:, 1], share, atol=0.05)
    np.testing.assert_allclose(HGKRegressor(random_state=0).fit(X, y.astype(float)).predict(new), share, atol=0.03)
    middle = HGKQuantileRegressor(quantiles=[0.1, 0.9], random_state=0).fit(X, 10.0 * c + rng.uniform(0, 1, 600))
    assert (np.abs(middle.predict(new) - [[10 * k + 0.1, 10 * k + 0.9] for k in range(3)]) < 0.3).all()


def test_two_columns_of_four_levels():
    rng = np.random.default_rng(0)
    k = rng.integers(0, 4, (2000, 2))
    y = rng.random(2000) < rng.uniform(0.05, 0.95, (4, 4))[k[:, 0], k[:, 1]]
    X = pd.DataFrame(np.array(list("abcd"))[k], columns=["u", "v"])
    distinct, share, size = cells(X, y, True)
    p = HGKClassifier(random_state=0).fit(X, y).predict_proba(distinct)[:, 1]
    assert (np.abs(p - share) < 2 * np.sqrt(share * (1 - share) / size) + 0.01).all()


def test_three_binary_columns_are_no_worse_than_logistic_regression():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (2000, 3)).astype(float)
    y = rng.random(2000) < 1 / (1 + np.exp(-(X @ [3.0, -3.0, 2.0] - 1)))
    straight = LogisticRegression().fit(X[:1000], y[:1000]).predict_proba(X[1000:])
    ours = HGKClassifier(random_state=0).fit(X[:1000], y[:1000]).predict_proba(X[1000:])
    assert log_loss(y[1000:], ours) < log_loss(y[1000:], straight) + 0.01


def test_ties_do_no_harm_where_most_rows_are_single():
    """A fifth of the rows repeat an earlier one with a label of their own; breaking the ties changes nothing much."""
    losses = np.zeros(2)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2300, 3))
        X[np.arange(0, 300, 5)] = X[np.arange(1, 300, 5)]
        y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(2300) > 0
        for i, Z in enumerate((X, X + 1e-6 * rng.standard_normal(X.shape))):
            model = HGKClassifier(random_state=0).fit(Z[:300], y[:300])
            losses[i] += log_loss(y[300:], model.predict_proba(X[300:]))
    assert losses[0] < 1.06 * losses[1]


def test_calibrated_probabilities_of_pairs():
    X, y = load_digits(n_class=6, return_X_y=True)
    X = X[:, X[::3].std(0) > 0]
    model = HGKClassifier("plain", loss="hinge", multi_class="ava", random_state=0).fit(X[::3], y[::3])
    p = model.predict_proba(X[1::3])
    assert np.array_equal(model.classes_[p.argmax(1)], model.predict(X[1::3]))
    assert log_loss(y[1::3], p) < 0.1
    assert abs(p.max(1).mean() - model.score(X[1::3], y[1::3])) < 0.05  # by votes it was 0.1


def test_coin_flips_in_few_cells_are_not_said_to_be_predictable():
    """Held-out repetitions must not mirror the others; 24 draws, a standard error of about 0.015."""
    wrong = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, 3, (150, 2)).astype(float), rng.integers(0, 2, 150)
        wrong.append(HGKClassifier("plain", random_state=0).fit(X, y).model_.error()["wrong"])
    assert 0.46 < np.mean(wrong) < 0.56


def test_relative_weights_of_any_size_and_class_weights_encode_alike():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(60), "rare": ["z"] * 58 + ["q"] * 2})
    y, w = frame["a"] + rng.standard_normal(60), rng.uniform(0.5, 1.5, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nothing of the rare value is learned
        said = [HGKRegressor("plain", random_state=0).fit(frame, y, w * unit).predict(frame) for unit in (1, 7.3, 1e20)]
        classes = [
            HGKClassifier("plain", class_weight=given, random_state=0).fit(frame, y > 0).decision_function(frame)
            for given in (None, {False: 100, True: 100})
        ]
    np.testing.assert_allclose(said[1], said[0], rtol=1e-6)
    np.testing.assert_allclose(said[2], said[0], rtol=1e-6)
    np.testing.assert_allclose(classes[1], classes[0], rtol=1e-6)


def test_weights_that_can_hardly_be_counts_are_remarked_on():
    rng = np.random.default_rng(0)
    X, y, weight = rng.integers(0, 3, (1000, 1)), rng.integers(0, 3, 1000), rng.integers(1000, 300_000, 1000)
    with pytest.warns(UserWarning, match="sample_weight has whole numbers, .* on average, which count as repetitions"):
        HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight)


# ------------------------------------------------------------------------------------------- a refit that fails


def interrupted(event):
    raise KeyboardInterrupt


FAILURES = {
    "memory": ({}, None, MemoryError),
    "Ctrl-C in a callback": ({"callback": interrupted}, None, KeyboardInterrupt),
    "bad labels": ({}, lambda y: np.where(y > y.mean(), np.nan, y), ValueError),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_refit_that_fails_leaves_the_model_as_it_was(failure, monkeypatch):
    changes, spoil, error = FAILURES[failure]
    X, y = make_friedman1(80, n_features=5, random_state=0)
    model = HGKRegressor("plain", random_state=0).fit(pd.DataFrame(X[:60], columns=list("abcde")), y[:60])
    new = pd.DataFrame(X[60:], columns=list("abcde"))
    before, said, loo = dict(vars(model)), model.predict(new), model.loo_predictions_
    model.set_params(**changes)
    if failure == "memory":
        monkeypatch.setenv("HGK_MEMORY", "1k")
    with pytest.raises(error):
        model.fit(1000 * X[:70] + 5, (spoil or (lambda y: 1000 * y))(y[:70]))
    monkeypatch.delenv("HGK_MEMORY", raising=False)
    assert set(vars(model)) == set(before)
    np.testing.assert_array_equal(model.predict(new), said)
    np.testing.assert_array_equal(model.loo_predictions_, loo)


def test_a_refit_with_one_class_keeps_the_names_of_the_classes():
    X, y = titanic(200)
    model = HGKClassifier("plain", random_state=0).fit(X, y)
    said = model.predict(X)
    with pytest.raises(ValueError, match="single class"):
        model.fit(X, np.full(200, "maybe"))
    assert list(model.classes_) == ["no", "yes"]
    assert np.array_equal(model.predict(X), said)


# ------------------------------------------------------------------------------------------------- the headline


def test_the_headline_is_the_error_on_rows_set_aside(tmp_path):
    typer = pytest.importorskip("typer.testing", reason="needs the extra cli")
    from hgk.cli import app

    X, y = load_diabetes(return_X_y=True)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]).assign(y=y)
    frame[:150].to_csv(tmp_path / "t.csv", index=False)

    def call(*words):
        found = typer.CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), "--target", "y", *words])
        assert found.exit_code == 0, found.output
        return found.stdout

    said = call("--out", str(tmp_path / "m.hgk"))
    first, *others = said.splitlines()
    assert first.startswith("on 90 rows set aside, which chose among kernels: a root mean squared error of ")
    assert any(line.startswith("leave-one-out, by a kernel and λ that have seen the row: ") for line in others)
    found = json.loads(call("--out", str(tmp_path / "m.hgk"), "--json"))
    assert found["error"]["basis"] == "rows set aside"
    assert f"R² {found['error']['r2']:.3f}" in first


@pytest.mark.parametrize("loss", ["least_squares", "pinball"])
def test_the_error_of_a_model_is_near_that_of_new_rows(loss):
    X, y = make_friedman1(700, n_features=5, noise=2.0, random_state=0)
    model = HGKRegressor(loss=loss, random_state=0).fit(X[:300], y[:300])
    new = np.mean((model.predict(X[300:]) - y[300:]) ** 2) ** 0.5
    assert model.model_.error()["rmse"] == pytest.approx(new, rel=0.15)


# --------------------------------------------------------------------------------------------- budgets and memory


def test_a_budget_may_cost_accuracy_but_not_sanity():
    X, y = make_friedman1(1100, n_features=8, noise=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may or may not have been cut
        model = HGKQuantileRegressor(time_budget=0.5, random_state=0).fit(X[:600], y[:600])
    constant = mean_pinball_loss(y[600:], np.full(500, np.median(y[:600])))
    assert mean_pinball_loss(y[600:], model.predict(X[600:])) < 0.5 * constant


def test_the_limit_of_memory_counts_what_a_fit_has_taken(monkeypatch):
    monkeypatch.setenv("HGK_MEMORY", "400M")
    with arrays.counted_memory():
        before = arrays.available_memory()
        held = torch.ones(100 * 2**20 // 8, dtype=torch.float64)
        assert before - arrays.available_memory() == pytest.approx(held.nbytes, rel=0.2)
    assert arrays.available_memory() > before  # nothing is counted outside


def test_a_kernel_matrix_is_weighted_in_its_own_place():
    K = torch.eye(50, dtype=torch.float64)
    state = Cholesky().prepare(K, torch.full((50,), 4.0, dtype=torch.float64), overwrite=True)
    assert state.system.K.data_ptr() == K.data_ptr()
    torch.testing.assert_close(K, 4 * torch.eye(50, dtype=torch.float64))


# ----------------------------------------------------------------------------------------------------- intervals


def test_intervals_cover_as_asked_with_few_rows():
    """Over 12 draws of 60 rows the standard error of the mean coverage is about 0.015 at 0.9 and 0.02 at 0.5."""
    covered = {0.5: [], 0.9: []}
    for seed in range(12):
        X, y = make_friedman1(360, n_features=8, noise=2.0, random_state=seed)
        model = HGKRegressor(random_state=0).fit(X[:60], y[:60])
        for level, found in covered.items():
            low, high = model.predict_interval(X[60:], level).T
            found.append(((low <= y[60:]) & (y[60:] <= high)).mean())
    assert np.mean(covered[0.9]) > 0.885
    assert np.mean(covered[0.5]) > 0.475
    assert np.mean(covered[0.5]) < 0.6


def test_the_optimism_of_a_learned_kernel_is_measured_and_that_of_the_plain_one_is_none():
    X, y = make_friedman1(80, n_features=8, noise=2.0, random_state=0)
    learned, plain = (HGKRegressor(preset, random_state=0).fit(X, y) for preset in ("default", "plain"))
    assert learned.model_.optimism > 1
    assert plain.model_.optimism == 1


def test_one_hot_columns_and_categories_say_the_same():
    """Indicators given as numbers, or a column of texts: both have the frequencies of the cells."""
    X, y = titanic(400)
    numbers = OneHotEncoder(sparse_output=False).fit_transform(X)
    one, two = HGKClassifier(random_state=0).fit(X, y), HGKClassifier(random_state=0).fit(numbers, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(numbers), atol=0.08)
