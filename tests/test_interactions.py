"""Interactions: found where there are some, none where effects add up."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_friedman1

from hgk import HGKClassifier, HGKRegressor
from hgk.insight import interactions
from hgk.machines import train


def uniform(seed, n=200, d=4):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


@pytest.mark.parametrize("seed", range(3))
def test_a_product_is_found_and_is_all_of_the_labels(seed):
    X = uniform(seed)
    model = HGKRegressor("plain", random_state=0).fit(X, X[:, 0] * X[:, 1])
    found = interactions(model)
    assert {*map(frozenset, found.strongest)} == {frozenset((0, 1))}
    assert found.H[0] == pytest.approx(1, abs=0.15)
    assert found.mean[0] == pytest.approx(1, abs=4 * found.error[0])


@pytest.mark.parametrize("seed", range(3))
def test_either_or_is_found(seed):
    X = uniform(seed)
    model = HGKClassifier("plain", random_state=0).fit(X, X[:, 2] * X[:, 1] > 0)
    assert {*map(frozenset, interactions(model).strongest)} == {frozenset((1, 2))}


@pytest.mark.parametrize("seed", range(3))
def test_effects_that_add_up_show_none(seed):
    X, rng = uniform(seed), np.random.default_rng(seed)
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] + 0.3 * rng.standard_normal(len(X))
    found = interactions(HGKRegressor("plain", random_state=0).fit(X, y))
    assert len(found.pairs) == 3
    assert found.strongest == []
    assert (found.shown == 0).all()


def test_log_odds_that_add_up_show_none():
    X = uniform(0, 300)
    p = 1 / (1 + np.exp(-3 * X[:, 0] - 3 * X[:, 1]))
    model = HGKClassifier("plain", random_state=0).fit(X, np.random.default_rng(0).random(300) < p)
    assert interactions(model).strongest == []


def test_friedmans_product_is_the_strongest_for_a_learned_kernel():
    X, y = make_friedman1(200, random_state=0)
    found = interactions(HGKRegressor(random_state=0).fit(X, y))
    assert found.strongest[0] in [(0, 1), (1, 0)]


def test_categories_interact_as_whole_columns_and_columns_can_be_asked_for():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["Ulm", "Bonn", "Köln"], 200), "x": rng.uniform(-1, 1, 200)})
    frame["noise"] = rng.random(200)
    y = np.where(frame["town"] == "Ulm", 1, -1) * frame["x"]
    model = HGKRegressor("plain", random_state=0).fit(frame, y)
    assert {*map(frozenset, interactions(model).strongest)} == {frozenset((0, 1))}
    found = interactions(model, ["noise", "x"])
    assert found.names == ["noise", "x"]
    assert found.strongest == []


def test_they_are_second_differences_of_functions_without_the_row():
    """From the definition, with the background that is drawn."""
    X, y = make_friedman1(40, n_features=5, random_state=0)
    model = HGKRegressor("plain", random_state=0).fit(X, y)
    rows, kernel = model.model_.training.rows, model.machine_.kernel
    model.restore(replace(model.model_, machine=train(kernel, rows, model.lam_), memo={}), None)  # without folds
    found = interactions(model, range(3), rows=100)
    rng = np.random.default_rng(0)
    index = np.sort(rng.permutation(np.arange(40)))
    Z = rows.X[rng.choice(40, 10, p=np.full(40, 1 / 40))]
    unit = float(rows.Y.var(correction=0))
    f = [train(kernel, rows[torch.arange(40) != i], model.lam_ * 40 / 39) for i in index]

    def mean(i, columns):
        moved = Z.clone()
        moved[:, columns] = rows.X[i, columns]
        return float(f[i](moved).clamp(-1, 1).mean())

    at_row = np.array([float(f[i](rows.X[i : i + 1]).clamp(-1, 1)) for i in index])
    for p, (a, b) in enumerate(combinations(range(3), 2)):
        h = np.array([mean(i, [a, b]) - mean(i, [a]) - mean(i, [b]) + mean(i, []) for i in index])
        h -= h.mean()
        residual = rows.Y[:, 0].numpy() - at_row
        assert found.mean[p] == pytest.approx(np.mean((residual + h) ** 2 - residual**2) / unit, abs=1e-6)
        joint = np.array([mean(i, [a, b]) for i in index])
        assert found.H[p] == pytest.approx(np.sqrt(np.mean(h**2) / np.var(joint)), abs=1e-6)


def test_weights_are_repetitions():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    weighted = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight)
    repeated = HGKRegressor("plain", random_state=0).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    one, other = interactions(weighted, [0, 1, 3]), interactions(repeated, [0, 1, 3])
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-6)
    np.testing.assert_allclose(one.error, other.error, rtol=1e-6)


def test_a_single_column_has_no_pair():
    X = uniform(0, 60, 1)
    found = interactions(HGKRegressor("plain").fit(X, X[:, 0]))
    assert (found.pairs, found.strongest, found.names) == ([], [], ["x0"])
