"""Explanations add up: to predictions, to kernels, and to refits."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, make_friedman1

from hgk import (
    Adam,
    CompactModelError,
    HGKClassifier,
    HGKRegressor,
    HierarchicalKernel,
    arrays,
    compose,
    inhomogeneous,
    isotropic,
    load,
    save,
    two_layers,
    with_kinds,
)
from hgk.events import Chosen, last
from hgk.insight import contributions, given_rows, influence, node_terms, plain_remark
from tasks import quickly


def friedman(n=80):
    return make_friedman1(n, n_features=6, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def models():
    X, y = friedman()
    Z, labels = load_iris(return_X_y=True)
    return {
        "default": (HGKRegressor(random_state=0).fit(X, y), X),
        "plain": (HGKRegressor("plain", random_state=0).fit(X, y), X),
        "outputs": (HGKRegressor("plain", random_state=0).fit(X, np.column_stack([y, y**2])), X),
        "deep": (
            HGKRegressor(
                architecture=compose([two_layers(6, 2), two_layers(6, 3)]), optimiser=Adam(steps=2), random_state=0
            ).fit(X, y),
            X,
        ),
        "classes": (HGKClassifier("plain", random_state=0).fit(Z[::3], labels[::3]), Z[::3]),
        "two classes": (HGKClassifier("plain", random_state=0).fit(X, y > 14), X),
    }


NAMES = ["default", "plain", "outputs", "deep", "classes", "two classes"]


def said(model, X):
    t = model.predict(X) if isinstance(model, HGKRegressor) else model.decision_function(X)
    return t.reshape(len(X), -1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 5, None])
def test_base_contributions_and_rest_are_the_prediction(models, name, k):
    model, X = models[name]
    found = contributions(model, X, k)
    total = found.base + found.contribution.sum(-1) + found.rest
    np.testing.assert_allclose(total, found.value, rtol=1e-9, atol=1e-9)
    low, high = (-1, 1) if isinstance(model, HGKClassifier) else model.model_.target.in_unit(np.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(np.clip(total, low, high), said(model, X), rtol=1e-9, atol=1e-9)
    if k is None:
        np.testing.assert_allclose(found.rest, 0, atol=1e-8)
        assert (np.sort(found.rows, -1) == np.arange(found.rows.shape[-1])).all()


def test_a_contribution_is_alpha_times_the_kernel_and_the_largest_come_first(models):
    model, X = models["plain"]
    found = contributions(model, X[:7], 4)
    terms = model.alpha_ * model.kernel_(X[:7], model.X_fit_) * model.model_.target.scale
    for x in range(7):
        order = np.argsort(-np.abs(terms[x]), kind="stable")[:4]
        assert found.rows[x, 0].tolist() == order.tolist()
        np.testing.assert_allclose(found.contribution[x, 0], terms[x, order], rtol=1e-9)
        np.testing.assert_allclose(
            found.similarity[x, 0], model.kernel_(X[x : x + 1], model.X_fit_)[0, order], rtol=1e-9
        )


@pytest.mark.parametrize("name", NAMES)
def test_nodes_add_up_to_the_logarithm_of_the_kernel(models, name):
    model, X = models[name]
    features = model.features(X)
    for _, kernel, rows, _ in model.machine_.terms:
        terms = node_terms(kernel, features[3], rows[:10])
        expected = -kernel.matrix(features[3:4], rows[:10]).log()[0]
        np.testing.assert_allclose(terms.sum(1), expected, rtol=1e-9, atol=1e-9)
        assert (terms >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_influence_equals_refits(models, name):
    """Every α solved for again without the row, kernels and c = nλ unchanged."""
    model, X = models[name]
    features, training = model.features(X), model.model_.training
    rows, machines = training.rows, model.machine_.parts_of()
    own, everywhere = influence(model), influence(model, X[:5])
    half = model.model_.target.scale
    for given in (0, 11, len(X) - 1):
        left_out, at = int(training.place[given]), torch.cat([features[:5], features[given : given + 1]])
        with_all, without = torch.zeros(6, len(half)), torch.zeros(6, len(half))
        for machine in machines:
            with_all += machine(at) / len(machines)
            for part in machine.parts:
                rest = part[part != left_out]
                A = machine.kernel.matrix(machine.X[rest]) + machine.lam * len(part) * torch.eye(len(rest))
                alpha = torch.linalg.solve(A, rows.Y[rest])
                without += machine.kernel.matrix(at, machine.X[rest]) @ alpha / len(machine.parts) / len(machines)
        change = (with_all.clamp(-1, 1) - without.clamp(-1, 1)).numpy() * half
        np.testing.assert_allclose(everywhere[:, given].reshape(5, -1), change[:5], atol=2e-5 * half.max())
        np.testing.assert_allclose(np.reshape(own[given], -1), change[5], atol=2e-5 * half.max())


def test_rows_without_weight_have_no_influence_and_copies_leave_together():
    X, y = friedman(40)
    X, y = np.vstack([X, X[:3]]), np.r_[y, y[:3]]
    weight = np.r_[np.ones(5), 0.0, np.ones(37)]
    model = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight)
    found = influence(model, X[:4])
    assert found.shape == (4, 43)
    assert (found[:, 5] == 0).all()
    assert np.array_equal(found[:, :3], found[:, 40:])
    assert influence(model)[5] == 0


def test_centres_are_rows_and_add_up_too(monkeypatch):
    monkeypatch.setattr(arrays.memory, "EXACT", 150)
    X, y = friedman(200)
    with quickly():
        model = HGKRegressor(random_state=0).fit(X, y)
    assert type(model.machine_.parts_of()[0]).__name__ == "OnCentres"
    found = contributions(model, X, 3)
    total = found.base + found.contribution.sum(-1) + found.rest
    np.testing.assert_allclose(np.clip(total[:, 0], y.min(), y.max()), model.predict(X), atol=1e-8)
    numbers = given_rows(model)
    np.testing.assert_allclose(model.features(X[numbers]), model.machine_.X)
    assert influence(model, X[:2]).shape == (2, 200)


def test_numbers_of_rows_are_those_of_the_table(models):
    model, X = models["plain"]
    assert np.array_equal(X[given_rows(model)], model.X_fit_)
    twice = HGKRegressor("plain", random_state=0).fit(np.vstack([X, X]), np.r_[friedman()[1], friedman()[1]])
    assert given_rows(twice).max() < len(X)  # the first of equal rows


def test_a_compact_model_explains_predictions_but_not_influences(models, tmp_path):
    pytest.importorskip("safetensors", reason="needs safetensors")
    model, X = models["plain"]
    save(model, tmp_path / "model.hgk", compact=True)
    compact = load(tmp_path / "model.hgk")
    np.testing.assert_array_equal(contributions(compact, X).contribution, contributions(model, X).contribution)
    with pytest.raises(CompactModelError, match="Influences need the training labels"):
        influence(compact)
    with pytest.raises(CompactModelError, match="The numbers of training rows need"):
        given_rows(compact)


@pytest.mark.parametrize("k", [0, -1, 2.5, "3"])
def test_another_number_of_rows_is_refused(models, k):
    model, X = models["plain"]
    with pytest.raises(ValueError, match="a whole number >= 1 is expected"):
        contributions(model, X, k)


def test_only_kernels_of_one_smooth_node_with_equal_weights_are_plain():
    equal, other = [[0.7, -0.7, 0.7]], [[0.7, 0.7, 0.8]]
    assert HierarchicalKernel.of(isotropic(3), [[1.0, 1.0, 1.0]]).is_plain
    assert HierarchicalKernel.of(inhomogeneous(3), equal, gamma=0.3).is_plain
    assert not HierarchicalKernel.of(inhomogeneous(3), other).is_plain
    assert not HierarchicalKernel.of(with_kinds(inhomogeneous(3), rough=[0]), equal).is_plain
    assert not HierarchicalKernel.of(two_layers(3, 2), np.ones((2, 3)), np.ones(2)).is_plain


def test_a_plain_kernel_is_said_to_tell_nothing_about_columns(models):
    assert plain_remark(models["default"][0]) is None
    assert plain_remark(models["deep"][0]) is None
    assert plain_remark(models["classes"][0]).startswith("the kernel is the plain Gaussian one")
    X, y = friedman()
    given = HierarchicalKernel.of(inhomogeneous(6), np.ones((1, 6)))
    assert plain_remark(HGKRegressor(kernel=given).fit(X, y)).startswith("the kernel is the plain Gaussian one")
    noise = np.random.default_rng(0).standard_normal(60)
    model = HGKRegressor(random_state=0).fit(X[:60], noise)
    assert last(model.history_, Chosen).candidates == ("plain",)
    assert plain_remark(model).startswith("the plain Gaussian kernel was as good as any learned one")
