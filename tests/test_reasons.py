"""Reasons by column: Shapley values against brute force, sums, and what they are called."""

import itertools
import sys
from math import factorial
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_friedman1

from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor
from hgk.insight import predictions_without, reasons
from hgk.insight.reasons import all_sets, in_order


@pytest.fixture(scope="module")
def model():
    X, y = make_friedman1(100, n_features=8, noise=0.5, random_state=0)
    return HGKRegressor("plain", random_state=0).fit(X, y), X


def brute(predict, x, background):
    """Over all sets of columns."""
    d = background.shape[1]
    v = {}
    for inside in itertools.product([False, True], repeat=d):
        moved = background.copy()
        for j in np.flatnonzero(inside):
            moved[:, j] = x[j]
        v[inside] = predict(moved).mean(0)
    phi = []
    for j in range(d):
        total = 0
        for inside in v:
            if not inside[j]:
                size, more = sum(inside), (*inside[:j], True, *inside[j + 1 :])
                total = total + factorial(size) * factorial(d - size - 1) / factorial(d) * (v[more] - v[inside])
        phi.append(total)
    return np.array(phi)


def test_with_eight_columns_they_are_those_of_brute_force(model):
    fitted, X = model
    found = reasons(fitted, X[:2], background=X[40:47])
    assert found.exact
    assert found.background == 7
    for x, phi in zip(X[:2], found.values, strict=True):
        np.testing.assert_allclose(phi, brute(fitted.predict, x, X[40:47]), atol=1e-9)
    np.testing.assert_allclose(found.base_values, fitted.predict(X[40:47]).mean(), rtol=1e-12)
    assert (found.errors == 0).all()


def test_of_classes_they_are_of_probabilities_or_log_odds():
    X, y = load_iris(return_X_y=True)
    fitted = HGKClassifier("plain", random_state=0).fit(X[::2], y[::2])
    found = reasons(fitted, X[1:3], background=X[3:60:7])
    assert found.values.shape == (2, 4, 3)
    np.testing.assert_allclose(found.values[0], brute(fitted.predict_proba, X[1], X[3:60:7]), atol=1e-9)
    np.testing.assert_allclose(found.base_values + found.values.sum(1), fitted.predict_proba(X[1:3]), atol=1e-9)
    np.testing.assert_allclose(found.values.sum(2), 0, atol=1e-9)  # probabilities sum to 1
    of_odds = reasons(fitted, X[1:3], of="log_odds")
    p = fitted.predict_proba(X[1:3])
    np.testing.assert_allclose(of_odds.base_values + of_odds.values.sum(1), np.log(p / (1 - p)), atol=1e-6)
    two = HGKClassifier("plain", random_state=0).fit(X, y == 1)
    found = reasons(two, X[:2])
    assert found.values.shape == (2, 4)
    np.testing.assert_allclose(found.base_values + found.values.sum(1), two.predict_proba(X[:2])[:, 1], atol=1e-9)


@pytest.mark.parametrize("exact", [True, False])
def test_without_a_background_they_sum_to_the_difference_from_the_mean_prediction(model, exact):
    fitted, X = model
    found = reasons(fitted, X[:3], exact=exact, background=20)
    assert found.background == 20
    np.testing.assert_allclose(found.base_values, fitted.predict(X).mean(), rtol=1e-12)
    np.testing.assert_allclose(found.base_values + found.values.sum(1), fitted.predict(X[:3]), rtol=1e-12)
    truth = reasons(fitted, X[:3], exact=True, background=100)
    assert (truth.errors == 0).all()
    z = (found.values - truth.values) / found.errors
    assert np.abs(z).max() < 5
    assert 0.3 < np.sqrt((z**2).mean()) < 1.8
    alone = reasons(fitted, X[1:2], exact=exact, background=20)
    np.testing.assert_allclose(alone.values[0], found.values[1], rtol=1e-9)


def test_orders_of_the_columns_are_exact_where_no_three_columns_interact():
    rng = np.random.default_rng(0)

    def v(inside, x, z):
        a, b, c, d, e = np.where(inside, x, z)
        return a * b + c**2 - d * e

    x, z = rng.standard_normal((2, 5))
    everything = all_sets(5)
    expected = everything.weights @ np.array([v(s, x, z) for s in everything.sets])
    for seed in range(5):
        design = in_order(np.random.default_rng(seed).permutation(5))
        np.testing.assert_allclose(design.weights @ np.array([v(s, x, z) for s in design.sets]), expected, atol=1e-12)


def test_many_columns_and_categories_and_missing_cells():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (150, 9)), columns=list("abcdefghi"))
    frame["town"] = rng.choice(["Ulm", "Bonn"], 150)
    frame.loc[::5, "a"] = np.nan
    y = 2 * (frame["town"] == "Ulm") + frame["a"].fillna(3) + frame["b"]
    fitted = HGKRegressor("plain", random_state=0).fit(frame, y)
    found = reasons(fitted, frame.iloc[:5])
    assert not found.exact
    assert found.values.shape == (5, 10)
    np.testing.assert_allclose(found.base_values + found.values.sum(1), fitted.predict(frame.iloc[:5]), rtol=1e-9)
    assert found.display_data[0, 9] == frame["town"][0]
    assert found.display_data[0, 0] == "–"
    assert np.isnan(found.data[0, 0])
    ulm, other = found.values[frame["town"][:5] == "Ulm", 9], found.values[frame["town"][:5] != "Ulm", 9]
    assert ulm.min() > other.max()
    assert np.abs(found.values[0]).argmax() == 0  # its missing cell counts as 3


def test_several_outputs_and_quantiles(model):
    _, X = model
    y = make_friedman1(100, n_features=8, noise=0.5, random_state=0)[1]
    for fitted in (
        HGKRegressor("plain", random_state=0).fit(X, np.column_stack([y, y**2])),
        HGKQuantileRegressor("plain", quantiles=[0.2, 0.8], random_state=0).fit(X, y),
    ):
        found = reasons(fitted, X[:2], background=10)
        assert found.values.shape == (2, 8, 2)
        np.testing.assert_allclose(found.base_values + found.values.sum(1), fitted.predict(X[:2]), rtol=1e-9)


def test_a_row_like_its_background_has_no_reasons():
    X, y = make_friedman1(80, n_features=6, random_state=0)
    fitted = HGKRegressor("plain", random_state=0).fit(np.delete(X, 5, 1), y)
    alike = X[:1, :5].repeat(3, axis=0)
    found = reasons(fitted, X[:1, :5], background=alike)
    np.testing.assert_allclose(found.values, 0, atol=1e-12)


def test_training_rows_are_explained_by_functions_that_have_not_seen_them(model):
    fitted, X = model
    found = reasons(fitted, rows=[5, 0, 5], background=X[:9])
    total = found.base_values + found.values.sum(1)
    np.testing.assert_allclose(total, fitted.loo_predictions_[[5, 0, 5]], rtol=1e-9)
    np.testing.assert_array_equal(found.data, X[[5, 0, 5]])
    np.testing.assert_allclose(found.values[0], found.values[2], rtol=1e-12)


def test_compact_and_compressed_models_have_reasons_too(model):
    fitted, X = model
    small = fitted.compress(0.5)
    found = reasons(small, X[:2])
    np.testing.assert_allclose(found.base_values + found.values.sum(1), small.predict(X[:2]), rtol=1e-9)


def test_they_have_the_shape_that_plots_of_shap_take(model, monkeypatch):
    fitted, X = model
    found = reasons(fitted, X[:2], background=5)
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="which is not installed; pip install shap"):
        found.to_shap()
    shap = ModuleType("shap")
    shap.Explanation = lambda **given: given
    monkeypatch.setitem(sys.modules, "shap", shap)
    given = found.to_shap()
    assert given["values"].shape == given["data"].shape == given["display_data"].shape == (2, 8)
    assert given["base_values"].shape == (2,)
    assert given["feature_names"] == [f"x{j}" for j in range(8)]
    assert given["output_names"] is None


def test_predictions_without_rows_are_those_of_refits():
    X, y = make_friedman1(40, n_features=4 + 1, random_state=0)
    fitted = HGKRegressor("plain", random_state=0).fit(X, y)
    without = predictions_without(fitted, X[:2])
    assert without.values.shape == (2, 40, 1)
    np.testing.assert_allclose(without.now[:, 0], fitted.predict(X[:2]), rtol=1e-12)
    first = fitted.model_.training.first
    loo = [without.values[i, np.flatnonzero(first == i)[0], 0] for i in range(2)]
    np.testing.assert_allclose(loo, fitted.loo_predictions_[:2], rtol=1e-8)
    labels = np.digitize(y, [12, 17])
    classes = HGKClassifier("plain", random_state=0).fit(X, labels)
    without = predictions_without(classes, X[:2])
    np.testing.assert_allclose(without.now, classes.predict_proba(X[:2]), rtol=1e-9)
    np.testing.assert_allclose(without.values.sum(2), 1, rtol=1e-9)


def test_what_cannot_be_explained_gets_one_sentence(model):
    fitted, X = model
    with pytest.raises(ValueError, match="Both or none of X and rows were given"):
        reasons(fitted)
    with pytest.raises(ValueError, match="of='logits' was given"):
        reasons(fitted, X, of="logits")
    with pytest.raises(ValueError, match="of='log_odds' was given to a regression"):
        reasons(fitted, X, of="log_odds")
    with pytest.raises(ValueError, match="exact=2 was given"):
        reasons(fitted, X, exact=2)
    with pytest.raises(ValueError, match="background=0 was given; a table"):
        reasons(fitted, X, background=0)
    with pytest.raises(ValueError, match=r"rows=\[100\] was given; numbers of training rows from 0 to 99"):
        reasons(fitted, rows=[100])
    many = np.random.default_rng(0).random((30, 20))
    wide = HGKRegressor("plain").fit(many, many[:, 0])
    with pytest.raises(ValueError, match="exact=True was given for 20 columns"):
        reasons(wide, many, exact=True)
