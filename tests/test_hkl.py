"""Hierarchical kernel learning against brute force over all nodes, explicit sums, and its own certificate."""

import json
import os
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hgk import arrays
from hgk.bench.methods import METHODS, Effort
from hgk.bench.peers.hkl import HKLRegressor
from hgk.bench.peers.hkl.active import ROOT_WEIGHT, ActiveSet, Design, FeatureBlock
from hgk.bench.peers.hkl.bases import Gaussians, Polynomials
from hgk.bench.peers.hkl.certificate import Bounds
from hgk.bench.peers.hkl.grid import ROOT, Hull, child, degree, parents
from hgk.bench.peers.hkl.reduced import ByFeatures, ByRows, zeta

DATA = Path(os.environ.get("HGK_DATA_HOME", "no data folder"))


def rows(n=60, d=3, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    y = X[:, 0] + 2 * X[:, 0] * X[:, 1] + 0.2 * np.random.default_rng(seed + 1).normal(size=n)
    return torch.from_numpy(X), torch.from_numpy((y - y.mean()) / y.std())


def design(name, X, beta=2.0):
    if name == "polynomial":
        return Design(Polynomials.of(X, 2), X.shape[1], beta, 0.0)
    return Design(Gaussians.of(X, 2.0, 1e-2), X.shape[1], beta, 0.0)


def all_nodes(d, levels):
    grids = product(range(levels + 1), repeat=d)
    return [tuple((i, level) for i, level in enumerate(w) if level) for w in grids]


def under(v, w):
    """v ∈ A(w)."""
    return all(dict(w).get(column, 0) >= level for column, level in v)


def features(F, shape, node):
    block = FeatureBlock.of(F, shape, ROOT, None)
    for k in range(len(node)):
        block = FeatureBlock.of(F, shape, node[: k + 1], block)
    return block.features


@pytest.mark.parametrize("name", ["polynomial", "gaussian"])
def test_base_kernels_are_centred_and_of_unit_trace(name):
    X, _ = rows(200)
    basis = design(name, X).basis
    F = basis(X)
    torch.testing.assert_close(F.mean(0), torch.zeros(F.shape[1], dtype=F.dtype), atol=1e-10, rtol=0)
    torch.testing.assert_close(F.square().mean(0), basis.layout.size, atol=1e-8, rtol=0)
    for i in range(3):
        for level in range(1, basis.levels + 1):
            share = basis.layout.size[(basis.layout.column == i) & (basis.layout.level == level)].sum()
            assert 0.97 < share < 1 + 1e-9


def test_polynomials_of_normal_columns_are_those_of_hermite_and_are_orthonormal():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(200_000, 1)))
    F = Polynomials.of(x, 3)(x)
    torch.testing.assert_close(F.T @ F / len(x), torch.eye(3, dtype=F.dtype), atol=1e-9, rtol=0)
    u = x[:, 0]
    hermite = torch.stack([u, (u**2 - 1) / 2**0.5, (u**3 - 3 * u) / 6**0.5], 1)
    assert (F - hermite).square().mean(0).max() < 1e-3


def test_columns_with_few_values_have_no_polynomials_beyond_them():
    x = torch.tensor([[0.0, 3.0], [1.0, 3.0], [1.0, 3.0], [0.0, 3.0], [1.0, 3.0]], dtype=torch.float64)
    F = Polynomials.of(x, 3)(x)  # by degree, then by column
    assert F[:, 0].abs().min() > 0.5
    assert not F[:, 1:].any()


def test_gaussian_components_add_up_to_the_centred_kernel():
    X = rows(150)[0][:, :1]
    F = Gaussians.of(X, 1.0, 1e-9)(X)
    u = X / X.std(0, correction=0)
    K = torch.exp(-((u - u.T) ** 2))
    K = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
    torch.testing.assert_close(F @ F.T, K / K.diagonal().mean(), atol=1e-5, rtol=0)


def test_sources_are_the_minimal_nodes_outside_the_hull():
    hull = Hull(3, 2)
    everything = all_nodes(3, 2)
    rng = np.random.default_rng(0)
    hull.add([ROOT])
    for _ in range(12):
        hull.add([sorted(hull.sources)[rng.integers(len(hull.sources))]])
        outside = [w for w in everything if w not in hull.index]
        assert hull.sources == {
            w for w in outside if all(v == w or v not in outside for v in everything if under(v, w))
        }
    assert parents(((0, 2), (1, 1))) == [((0, 1), (1, 1)), ((0, 2),)]
    assert child(((1, 1),), 0) == ((0, 1), (1, 1))


def test_weights_turn_the_quadratic_form_into_the_squared_norm():
    nodes = all_nodes(3, 1)
    ancestors = torch.tensor([[float(under(v, w)) for w in nodes] for v in nodes], dtype=torch.float64)
    d = torch.tensor([2.0 ** degree(w) for w in nodes], dtype=torch.float64)
    norms = torch.rand(len(nodes), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    omega = sum(d[v] * (ancestors[v] @ norms**2).sqrt() for v in range(len(nodes)))
    best = d * (ancestors @ norms**2).sqrt()
    z = zeta(best / best.sum(), d, ancestors)
    torch.testing.assert_close((norms**2 / z).sum(), omega**2)
    for seed in range(20):
        other = torch.rand(len(nodes), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert (norms**2 / zeta(other / other.sum(), d, ancestors)).sum() >= omega**2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["polynomial", "gaussian"])
def test_bounds_by_products_equal_explicit_sums_over_all_descendants(name, dtype, monkeypatch):
    monkeypatch.setattr(arrays.tiling, "TILE", 1)  # the smallest tiles: several of them
    X, _ = rows(40)
    shape = design(name, X)
    F = shape.basis(X)
    alpha = torch.from_numpy(np.random.default_rng(3).normal(size=40))
    everything = all_nodes(3, shape.basis.levels)
    a = {w: float((features(F, shape, w).T @ alpha).square().sum()) for w in everything}
    hull = Hull(3, shape.basis.levels)
    hull.add([ROOT, ((0, 1),), ((1, 1),), ((0, 1), (1, 1))])
    found = Bounds(F.to(dtype), shape.basis, 3, shape.beta)(hull, alpha)
    assert set(found) == hull.sources
    for t, value in found.items():
        explicit = 0.0
        for w in everything:
            if under(t, w):
                explicit += a[w] / sum(shape.beta ** degree(v) for v in everything if under(t, v) and under(v, w)) ** 2
        assert value == pytest.approx(explicit, rel=1e-4 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("name", ["polynomial", "gaussian"])
def test_the_necessary_condition_correlates_every_source_with_alpha(name):
    X, y = rows()
    shape = replace(design(name, X), truncation=1e-3)
    F = shape.basis(X)
    active = ActiveSet(F, y, shape, torch.float64, 6, 1e-4)
    active.solve(1e-3, float("inf"))
    alpha = torch.from_numpy(np.random.default_rng(0).normal(size=len(y)))
    found = active._necessary(alpha)
    assert set(found) == active.hull.sources
    for t, value in found.items():
        explicit = (features(F, shape, t).T @ alpha).square().sum() / shape.weight(t) ** 2
        assert value == pytest.approx(float(explicit), rel=1e-9, abs=1e-12)


def test_ridge_by_features_equals_ridge_by_rows():
    rng = np.random.default_rng(0)
    Phi, y = torch.from_numpy(rng.normal(size=(30, 12))), torch.from_numpy(rng.normal(size=30))
    z = torch.from_numpy(rng.uniform(0.1, 2, 12))
    node = torch.arange(12)
    one = ByFeatures(30, node, Phi.T @ Phi, Phi.T @ y, float(y @ y))(z, 0.7)
    other = ByRows(30, node, Phi, y)(z, 0.7)
    torch.testing.assert_close(one, other)
    beta = one[0]
    torch.testing.assert_close(Phi.T @ (Phi @ beta - y) + 0.7 * beta / z, torch.zeros(12, dtype=z.dtype))


def brute_force(F, y, shape, lam):
    """The problem over all nodes by a general method for smooth functions, the norms smoothed by next to nothing."""
    everything = all_nodes(shape.columns, shape.basis.levels)
    blocks = [features(F, shape, w) for w in everything]
    Phi = torch.cat(blocks, 1)
    Phi, y = Phi - Phi.mean(0), y - y.mean()
    node = torch.repeat_interleave(torch.arange(len(blocks)), torch.tensor([b.shape[1] for b in blocks]))
    ancestors = torch.tensor([[float(under(v, w)) for w in everything] for v in everything], dtype=torch.float64)
    d = torch.tensor([shape.weight(w) for w in everything], dtype=torch.float64)

    def objective(beta, smooth):
        norms = torch.zeros(len(d), dtype=beta.dtype).index_add(0, node, beta**2)
        omega = (d * (ancestors @ norms + smooth).sqrt()).sum()
        return (y - Phi @ beta).square().sum() / (2 * len(y)) + lam / 2 * omega**2

    def with_gradient(values, smooth):
        beta = torch.tensor(values, requires_grad=True)
        value = objective(beta, smooth)
        value.backward()
        return value.item(), beta.grad.numpy()

    start = np.zeros(Phi.shape[1])
    for smooth in (1e-4, 1e-6, 1e-8, 1e-10):
        options = {"maxiter": 5000, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
        start = minimize(with_gradient, start, (smooth,), "L-BFGS-B", jac=True, options=options).x
    beta = torch.from_numpy(start)
    return float(objective(beta, 0.0)), Phi @ beta


@pytest.mark.parametrize("lam", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("name", ["polynomial", "gaussian"])
def test_the_active_set_finds_the_optimum_over_all_nodes(name, lam):
    X, y = rows()
    shape = design(name, X)
    F = shape.basis(X)
    tol = 1e-5
    found = ActiveSet(F, y, shape, torch.float64, 1000, tol).solve(lam, float("inf"), certify=True)
    optimum, fitted = brute_force(F, y, shape, lam)
    assert found.gap <= tol * found.primal
    assert found.primal - found.gap <= optimum * (1 + 1e-9)  # the certificate is a lower bound
    assert found.primal <= optimum * (1 + 2 * tol)
    # strong convexity of the loss: ‖f - f*‖²/2n is at most the gap, for both
    assert (found(F, shape) - y.mean() - fitted).square().mean() <= 8 * tol * optimum


def test_the_certificate_holds_when_the_hull_is_cut_short():
    X, y = rows()
    shape = design("polynomial", X)
    F = shape.basis(X)
    short = ActiveSet(F, y, shape, torch.float64, 3, 1e-4).solve(1e-3, float("inf"), certify=True)
    optimum, _ = brute_force(F, y, shape, 1e-3)
    assert len(short.nodes) == 3
    assert short.primal - optimum > 1e-3  # it is far from the optimum, and says so
    assert short.gap >= short.primal - optimum


def test_dropping_idle_nodes_leaves_a_hull_and_the_solution():
    X, y = rows()
    shape = design("polynomial", X)
    active = ActiveSet(shape.basis(X), y, shape, torch.float64, 1000, 1e-4)
    before = active.solve(1e-2, float("inf"), certify=True)
    below = active._reduced(1e-2).below
    assert active._drop_idle(below)
    assert len(active.hull) < len(before.nodes)
    assert all(p in active.hull.index for node in active.hull.nodes for p in parents(node))
    after = active.solve(1e-2, 0)
    assert after.primal == pytest.approx(before.primal, rel=1e-3)


def test_zeta_eta_and_norms_belong_together():
    X, y = rows(80)
    model = HKLRegressor("polynomial", lam=1e-3, tol=1e-6, beta=2.0).fit(X.numpy(), y.numpy())
    pairs = list(zip(model.nodes_, model.norms_, strict=True))
    below = np.array([sum(norm**2 for w, norm in pairs if under(v, w)) for v in model.nodes_])
    d = np.array([ROOT_WEIGHT if v == ROOT else 2.0 ** degree(v) for v in model.nodes_])
    best = d * np.sqrt(below)
    np.testing.assert_allclose(model.eta_, best / best.sum(), atol=2e-3)
    inverse = [sum(d[i] ** 2 / model.eta_[i] for i, v in enumerate(model.nodes_) if under(v, w)) for w in model.nodes_]
    np.testing.assert_allclose(1 / model.zeta_, inverse, rtol=1e-9)
    assert model.converged_


@pytest.mark.parametrize("basis", ["polynomial", "gaussian"])
def test_a_planted_interaction_without_main_effects_is_found_and_other_columns_are_not(basis):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 8))
    y = X[:, 2] * X[:, 5] + 0.05 * rng.normal(size=300)
    model = HKLRegressor(basis, random_state=0).fit(X, y)
    strongest = model.nodes_[int(np.argmax(model.norms_))]
    assert {column for column, _ in strongest} == {2, 5}
    assert model.feature_importances_[[2, 5]].sum() > 0.95
    Z = rng.uniform(-1, 1, (500, 8))
    assert np.mean((model.predict(Z) - Z[:, 2] * Z[:, 5]) ** 2) < 0.02 * np.var(Z[:, 2] * Z[:, 5])


def test_the_sufficient_condition_finds_what_no_main_effect_announces():
    X = np.array(list(product([-1.0, 1.0], repeat=5)))
    y = X[:, 1] * X[:, 3]  # uncorrelated with every column
    model = HKLRegressor(degree=1, lam=1e-4, tol=1e-3).fit(X, y)
    assert model.nodes_[int(np.argmax(model.norms_))] == ((1, 1), (3, 1))
    assert model.converged_
    np.testing.assert_allclose(model.feature_importances_[[0, 2, 4]], 0, atol=1e-6)
    assert np.mean((model.predict(X) - y) ** 2) < 0.05


def test_folds_choose_lam_with_the_smallest_risk_and_the_seed_repeats_it():
    X, y = rows(120)
    model = HKLRegressor(random_state=3).fit(X.numpy(), y.numpy())
    assert model.lam_ == model.lams_[np.argmin(model.cv_risks_)]
    again = clone(model).fit(X.numpy(), y.numpy())
    np.testing.assert_array_equal(model.predict(X.numpy()), again.predict(X.numpy()))


def test_predictions_scale_with_the_labels_and_stay_in_their_range():
    X, y = (a.numpy() for a in rows(100))
    one = HKLRegressor(random_state=0).fit(X, y)
    other = HKLRegressor(random_state=0).fit(10 * X + 3, 1000 * y - 5)
    np.testing.assert_allclose(other.predict(10 * X + 3), 1000 * one.predict(X) - 5, rtol=1e-6, atol=1e-2)
    t = one.predict(50 * X)
    assert y.min() <= t.min() <= t.max() <= y.max()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"basis": "sine"}, "basis='sine' is unknown; use one of 'polynomial', 'gaussian'."),
        ({"dtype": "half"}, "dtype='half' is unknown; use one of 'float32', 'float64'."),
        ({"degree": 0}, "degree=0 was given; a whole number ≥ 1 is expected."),
        ({"max_nodes": 1.5}, "max_nodes=1.5 was given; a whole number ≥ 2 is expected."),
        ({"width": -1}, "width=-1 was given; a finite number > 0 is expected."),
        ({"beta": 0}, "beta=0 was given; a finite number > 0 is expected."),
        ({"tol": float("nan")}, "tol=nan was given; a finite number > 0 is expected."),
        ({"lam": "small"}, "lam='small' was given; a finite number > 0, or None to choose it, is expected."),
    ],
)
def test_wrong_parameters_are_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match="^" + sentence.replace("(", r"\(").replace(")", r"\)")):
        HKLRegressor(**wrong).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize("name", ["bank-32nh", "bank-32nm", "pumadyn-32nm"])
def test_it_beats_ridge_regression_on_the_delve_sets(name):
    pandas = pytest.importorskip("pandas")
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the data folder; set HGK_DATA_HOME to it")
    table = pandas.read_parquet(path).sample(3000, random_state=0).to_numpy(dtype=float)
    X, y, Z, z = table[:1000, :-1], table[:1000, -1], table[1000:, :-1], table[1000:, -1]
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))).fit(X, y)
    # one λ for all three, between what cross-validation chooses on them: choosing it takes ten times as long
    model = HKLRegressor("polynomial", lam=3e-5, max_nodes=100).fit(X, y)
    assert np.mean((model.predict(Z) - z) ** 2) < 0.97 * np.mean((ridge.predict(Z) - z) ** 2)


def test_the_root_is_cheap_and_degree_costs():
    """Bach's weights: d = 0.1 at the root, β^degree elsewhere."""
    assert ROOT_WEIGHT == 0.1


def test_pairs_of_columns_are_counted_once():
    hull = Hull(4, 1)
    hull.add([ROOT, *(((i, 1),) for i in range(4))])
    assert hull.sources == {((i, 1), (j, 1)) for i, j in combinations(range(4), 2)}


@parametrize_with_checks([HKLRegressor(), HKLRegressor("gaussian", lam=1e-3)])
def test_every_scikit_learn_check(estimator, check):
    check(estimator)


def test_the_method_of_the_comparison_says_what_it_chose():
    X, y = (a.numpy() for a in rows(80))
    fitted = METHODS["HKL"].fit(X, y / abs(y).max(), 0, Effort(threads=1, quick=True))
    assert np.mean((fitted.predict(X) - y / abs(y).max()) ** 2) < 0.2 * np.var(y / abs(y).max())
    assert json.loads(json.dumps(fitted.chosen)) == fitted.chosen
    assert {0, 1} <= set(fitted.chosen["columns"])


def test_the_method_of_the_comparison_takes_the_basis_with_the_smaller_error():
    X = np.random.default_rng(0).uniform(-1, 1, (120, 3))
    for y, basis in ((X[:, 0] ** 3 - X[:, 1] / 2, "polynomial"), (np.sin(5 * X[:, 0]) * X[:, 1], "gaussian")):
        fitted = METHODS["HKL"].fit(X, y, 0, Effort(threads=1, quick=True))
        risks = fitted.chosen["risks"]
        assert fitted.chosen["basis"] == basis == min(risks, key=risks.get)
        alone = HKLRegressor(basis, max_nodes=50, random_state=0).fit(X, y)
        assert risks[basis] == alone.cv_risks_.min()
        np.testing.assert_array_equal(fitted.predict(X), alone.predict(X))
