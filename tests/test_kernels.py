"""The kernel: its identities, its naive twin, and finite differences of every weight."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.svm import SVC

from cases import ARCHITECTURES, D, random_kernel
from hgk import (
    Adam,
    GaussianProcessKernel,
    HGKRegressor,
    HierarchicalKernel,
    arrays,
    compose,
    grouped,
    inhomogeneous,
    isotropic,
    load,
    save,
    two_layers,
    with_kinds,
)
from hgk.kernels import BatchSweep, ColumnKind, Kernel, MeanKernel, NodeKind, Oblique, Rough, Smooth, pruned
from hgk.storable import storable
from reference import kernel_matrix, power

DOUBLE, SINGLE = 1e-13, 2e-6
each_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles so small that a few dozen rows need several, of uneven size."""
    monkeypatch.setattr(arrays.tiling, "TILE", 130)


def points(n, seed=0, d=D):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


@each_architecture
def test_equals_the_definition_pair_by_pair(architecture):
    kernel, X, Z = random_kernel(architecture), points(23), points(19, seed=1)
    np.testing.assert_allclose(kernel(X, Z), kernel_matrix(kernel, X, Z), atol=DOUBLE)
    np.testing.assert_allclose(kernel(X), kernel_matrix(kernel, X, X), atol=DOUBLE)


@each_architecture
def test_single_precision_stays_single_and_close(architecture):
    kernel, X, Z = random_kernel(architecture), points(23), points(19, seed=1)
    K = kernel(X.astype(np.float32), Z.astype(np.float32))
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, kernel_matrix(kernel, X, Z), atol=SINGLE)


@each_architecture
def test_symmetric_unit_diagonal_positive_definite_at_distinct_points(architecture):
    # Strict definiteness is the finite shadow of universality: it needs every column in some node.
    kernel, X = random_kernel(architecture), points(40)
    K = kernel(X)
    assert np.array_equal(K, K.T)
    assert np.array_equal(K.diagonal(), np.ones(40))
    smallest = np.linalg.eigvalsh(K)[0]
    assert smallest > 1e-12 if architecture.mask.any(0).all() else smallest > -DOUBLE * 40


@each_architecture
def test_values_lie_between_0_and_1_even_at_repeated_and_distant_points(architecture):
    X = np.vstack([points(10), points(10) + 1e-9, points(10) * 1e3])
    for dtype in (np.float32, np.float64):
        K = random_kernel(architecture)(X.astype(dtype), X.astype(dtype)[::-1])
        assert K.min() >= 0
        assert K.max() <= 1


def test_far_from_the_origin_the_rows_are_centred_first():
    kernel, X = random_kernel(two_layers(D, 3, 2)), points(20)
    np.testing.assert_allclose(kernel(X + 1e4), kernel(X), atol=1e-9)


def test_depth_1_is_the_ard_gaussian():
    v, X, Z = np.array([0.5, 1.0, 2.0, 0.1, 3.0]), points(20), points(30, seed=1)
    kernel = HierarchicalKernel.of(inhomogeneous(D), [v], gamma=0.7)
    # exp(-γ⁻² Σ v² Δ²) = exp(-½ Σ Δ²/ℓ²) with ℓ = γ / (√2 v)
    np.testing.assert_allclose(kernel(X, Z), RBF(0.7 / (np.sqrt(2) * v))(X, Z), atol=DOUBLE)


def test_product_formula():
    """exp(-2γ⁻² Σ w_i² (1 - k_i)) is the product of the kernels of the single children."""
    architecture = ARCHITECTURES["depth 3, uneven"]
    kernel, X = random_kernel(architecture), points(25)
    parts = [two_layers(D, 3, 2, rng=3), two_layers(D, 1, 4, rng=4)]
    factors, node = [], 0
    for i, part in enumerate(parts):
        nodes = slice(node, node + len(part.coordinates))
        W = kernel.W[0][nodes], kernel.W[1][nodes], kernel.W[2][i : i + 1]
        factors.append(HierarchicalKernel.of(compose([part]), *W, gamma=kernel.gamma)(X))
        node = nodes.stop
    np.testing.assert_allclose(kernel(X), factors[0] * factors[1], atol=DOUBLE)


def test_joint_permutation_of_columns_and_index_sets_changes_nothing():
    architecture, X = ARCHITECTURES["depth 2, random and overlapping"], points(20)
    order = np.random.default_rng(3).permutation(D)
    kernel = random_kernel(architecture)
    place = np.argsort(order)
    moved = type(architecture)(
        D, tuple(tuple(int(place[j]) for j in c) for c in architecture.coordinates), architecture.parents
    )
    np.testing.assert_allclose(
        HierarchicalKernel.of(moved, kernel.W[0][:, order], kernel.W[1], gamma=0.8)(X[:, order]), kernel(X), atol=DOUBLE
    )


@each_architecture
def test_scaling_columns_is_scaling_first_layer_weights(architecture):
    kernel, X = random_kernel(architecture), points(20)
    scale = np.array([0.5, 2.0, 10.0, 0.1, 3.0])
    q = torch.tensor([power(kind) for kind in architecture.kinds])[:, None]
    factor = torch.from_numpy(scale) ** (q / 2)  # v² |s Δ|^q = (v s^{q/2})² |Δ|^q
    rescaled = kernel.with_weights((kernel.W[0] * factor, *kernel.W[1:]))
    np.testing.assert_allclose(rescaled(X), kernel(X * scale), atol=10 * DOUBLE)


@each_architecture
def test_signs_of_the_weights_do_not_matter(architecture):
    if any(kind.further for kind in architecture.kinds):
        pytest.skip("the columns of an oblique node are mixed with their signs")
    kernel, X = random_kernel(architecture), points(12)
    assert np.array_equal(kernel.with_weights(tuple(w.abs() for w in kernel.W))(X), kernel(X))


@each_architecture
def test_gamma_free_exponent_serves_every_gamma(architecture):
    kernel, X = random_kernel(architecture), torch.from_numpy(points(15))
    S = kernel.exponent(X)
    for gamma in (0.3, 1.0, 4.0):
        torch.testing.assert_close(torch.exp(-S / gamma**2), kernel.with_gamma(gamma).matrix(X), rtol=0, atol=DOUBLE)


@each_architecture
def test_product_with_coefficients_equals_the_formed_matrix(architecture):
    kernel, X, Z = random_kernel(architecture), points(23), points(41, seed=1)
    alpha = np.random.default_rng(0).standard_normal((41, 3))
    t = kernel.multiply(*map(torch.from_numpy, (X, Z, alpha))).numpy()
    np.testing.assert_allclose(t, kernel(X, Z) @ alpha, atol=DOUBLE * 41)


@pytest.mark.parametrize("square", [True, False])
@each_architecture
def test_backward_sweep_equals_finite_differences(architecture, square):
    """The test that settles the paper's slips: every weight of every layer through depth 4."""
    kernel, X, Z = random_kernel(architecture), points(24), points(17, seed=1)
    X, Z = torch.from_numpy(X), None if square else torch.from_numpy(Z)
    G = torch.from_numpy(np.random.default_rng(5).standard_normal((24, 24 if square else 17)))  # not symmetric

    def J(W):
        return float((G * kernel.with_weights(W).matrix(X, Z)).sum())

    analytic, h = kernel.backward(G, X, Z), 1e-5
    for layer, mask in enumerate(architecture.free()):
        for index in map(tuple, mask.nonzero().tolist()):
            up, down = [w.clone() for w in kernel.W], [w.clone() for w in kernel.W]
            up[layer][index] += h
            down[layer][index] -= h
            numeric = (J(tuple(up)) - J(tuple(down))) / (2 * h)
            assert float(analytic[layer][index]) == pytest.approx(numeric, rel=1e-6, abs=1e-7)
        assert not analytic[layer][~mask].any()


@each_architecture
def test_single_precision_gradient_is_close(architecture):
    kernel, X, Z = random_kernel(architecture), torch.from_numpy(points(24)), torch.from_numpy(points(17, seed=1))
    G = torch.from_numpy(np.random.default_rng(5).standard_normal((24, 17)))
    for single, double in zip(kernel.backward(G.float(), X.float(), Z.float()), kernel.backward(G, X, Z), strict=True):
        torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-4)


@each_architecture
def test_relevance_is_a_distribution_and_ignores_columns_without_weight(architecture):
    kernel = random_kernel(architecture)
    W = [w.clone() for w in kernel.W]
    W[0][:, 3] = 0.0
    relevance = kernel.with_weights(tuple(W)).relevance(torch.from_numpy(points(50)))
    assert relevance.sum() == pytest.approx(1)
    assert relevance[3] == 0
    assert (relevance >= 0).all()


def test_relevance_at_depth_1_is_the_share_of_the_mean_exponent():
    kernel, X = random_kernel(inhomogeneous(D)), points(60)
    S = [np.mean((float(kernel.W[0][0, j]) * (X[:, None, j] - X[None, :, j])) ** 2) for j in range(D)]
    np.testing.assert_allclose(kernel.relevance(torch.from_numpy(X)), S / np.sum(S), rtol=1e-10)


@pytest.mark.parametrize("name", ["depth 2, balanced", "smooth and rough", "depth 3, uneven", "depth 4"])
def test_relevance_equals_its_definition(name):
    """Shares passed down the tree by mean terms 2 w² (1 - k) and v² |x - x'|^q, pair by pair."""
    architecture, X = ARCHITECTURES[name], points(12)
    kernel = random_kernel(architecture)

    def value(layer, node, x, z):
        if layer == 1:
            q = power(architecture.kinds[node])
            terms = [float(kernel.W[0][node, j]) ** 2 * abs(x[j] - z[j]) ** q for j in range(D)]
        else:
            family = architecture.children(layer, node)
            terms = [2 * float(kernel.W[layer - 1][i]) ** 2 * (1 - value(layer - 1, i, x, z)[0]) for i in family]
        return np.exp(-sum(terms)), terms

    def share(layer, node):
        means = np.mean([value(layer, node, x, z)[1] for x in X for z in X], axis=0)
        means /= means.sum()
        if layer == 1:
            return means
        family = architecture.children(layer, node)
        return sum(m * share(layer - 1, i) for m, i in zip(means, family, strict=True))

    np.testing.assert_allclose(kernel.relevance(torch.from_numpy(X)), share(architecture.depth, 0), rtol=1e-8)


def test_prints_as_a_tree():
    kernel = HierarchicalKernel.of(grouped({"body": [0, 1]}, 3), [[1, 2, 0], [0, 0, 0.5]], [0.25, 4], gamma=2)
    assert str(kernel).splitlines() == [
        "hierarchical Gaussian kernel: depth 2, gamma 2, 3 columns",
        "├─ 0.25 · body: x1 2  x0 1",
        "└─ 4 · rest: x2 0.5",
    ]
    deep = str(random_kernel(ARCHITECTURES["depth 4"])).splitlines()
    assert len(deep) == 1 + ARCHITECTURES["depth 4"].n_weights - int(ARCHITECTURES["depth 4"].mask.sum())


def test_the_adapter_takes_a_mean_of_kernels_with_all_their_weights():
    trees = ARCHITECTURES["depth 2, balanced"], ARCHITECTURES["all kinds"]
    mean = MeanKernel.of([random_kernel(tree, seed) for seed, tree in enumerate(trees)], [3.0, 1.0])
    adapter, X = GaussianProcessKernel(mean), points(9)
    K, gradient = adapter(X, eval_gradient=True)
    np.testing.assert_allclose(K, mean(X))
    assert gradient.shape[2] == len(adapter.theta) == sum(len(GaussianProcessKernel(k).theta) for k in mean.kernels)
    for place in (0, len(adapter.theta) - 1):
        step = np.zeros(len(adapter.theta))
        step[place] = 1e-5
        up, down = (adapter.clone_with_theta(adapter.theta + sign * step)(X) for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, :, place], (up - down) / 2e-5, rtol=1e-5, atol=1e-9)
    assert adapter == adapter.clone_with_theta(adapter.theta)
    assert adapter != adapter.clone_with_theta(adapter.theta + step)


@pytest.mark.parametrize("wrap", [lambda kernel: kernel, GaussianProcessKernel], ids=["itself", "adapter"])
def test_works_in_svc(wrap):
    X = points(80)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    kernel = random_kernel(two_layers(D, 3, 3))
    direct = SVC(kernel=wrap(kernel), C=10).fit(X, y)
    precomputed = SVC(kernel="precomputed", C=10).fit(kernel(X), y)
    Z = points(30, seed=9)
    np.testing.assert_allclose(direct.decision_function(Z), precomputed.decision_function(kernel(Z, X)), atol=1e-9)


@each_architecture
def test_gaussian_process_gradient_equals_finite_differences(architecture):
    adapter, X = GaussianProcessKernel(random_kernel(architecture)), points(12)
    K, gradient = adapter(X, eval_gradient=True)
    theta, h = adapter.theta, 1e-6
    assert gradient.shape == (12, 12, sum(int(m.sum()) for m in architecture.free()[: architecture.depth]))
    np.testing.assert_array_equal(K, adapter(X))
    for i in range(len(theta)):
        step = h * np.eye(len(theta))[i]
        numeric = (adapter.clone_with_theta(theta + step)(X) - adapter.clone_with_theta(theta - step)(X)) / (2 * h)
        np.testing.assert_allclose(gradient[:, :, i], numeric, atol=1e-8)


def test_gaussian_process_learns_weights():
    X, y = make_friedman1(80, n_features=6, random_state=0)
    adapter = GaussianProcessKernel(HierarchicalKernel.of(inhomogeneous(6), [np.ones(6)]), weight_bounds=(1e-30, 1e5))
    process = GaussianProcessRegressor(adapter, alpha=1e-2, normalize_y=True).fit(X, y)
    assert process.log_marginal_likelihood_value_ > process.log_marginal_likelihood(adapter.theta) + 1
    learned = np.exp(process.kernel_.theta)
    assert learned[5] < 0.1 * learned[3]  # the sixth column is noise, the fourth the strongest
    fixed = GaussianProcessKernel(adapter.kernel, weight_bounds="fixed")
    assert len(GaussianProcessRegressor(fixed, alpha=1e-2).fit(X, y).kernel_.theta) == 0


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: two_layers(4, 3, 9), "coordinates_per_node=9"),
        (lambda: two_layers(4, 0), "nodes=0 were given; whole numbers >= 1"),
        (lambda: two_layers(4, 2.5), "nodes=2.5 were given"),
        (lambda: two_layers(4, 3, scheme="fancy"), "'balanced' or 'random'"),
        (lambda: type(isotropic(2))(3, ((0, 3),)), "indices from 0 to 2"),
        (lambda: type(isotropic(2))(3, ((),)), "non-empty set"),
        (lambda: type(isotropic(2))(3, ((0,), (1,))), "exactly one top node"),
        (lambda: grouped({"a": ["age"]}, ["sex", "bmi"]), "names such as sex, bmi"),
        (lambda: grouped({"a": [7]}, 3), "indices from 0 to 2"),
        (lambda: grouped({"a": [1.7]}, 3), "names the column 1.7"),
        (lambda: grouped({"a": "age"}, ["age", "sex"]), "a list of columns is expected"),
        (lambda: HierarchicalKernel(two_layers(3, 2, 1), (torch.ones(2, 3), torch.ones(2))), "outside the nodes"),
        (lambda: compose([isotropic(3), two_layers(3, 2)]), "same depth"),
        (lambda: HierarchicalKernel.of(isotropic(2), [[1.0, 1.0]], gamma=-1), "must be positive"),
        (lambda: HierarchicalKernel.of(isotropic(2), [[1.0]]).matrix(torch.ones(2, 2)), "this architecture needs"),
        (lambda: random_kernel(isotropic(2))(np.ones((3, 4))), "rows with 2 columns"),
    ],
)
def test_bad_input_gets_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


def test_no_group_is_lost_to_the_name_of_the_rest():
    assert grouped({"rest": [0], "other rest": [1]}, 3).coordinates == ((0,), (1,), (2,))


def test_gaussian_processes_get_double_precision_from_single():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    adapter = GaussianProcessKernel(HierarchicalKernel.of(inhomogeneous(5), [np.ones(5)]), weight_bounds="fixed")
    GaussianProcessRegressor(adapter, alpha=1e-8).fit(X.astype(np.float32), y)
    assert adapter(X.astype(np.float32)).dtype == np.float64


def test_balanced_index_sets_use_all_columns_equally_often():
    for d, nodes, size in ((16, 8, 4), (7, 5, 3), (3, 4, 3), (10, 3, 2)):
        counts = two_layers(d, nodes, size, rng=0).mask.sum(0)
        assert int(counts.max() - counts.min()) <= 1
        assert int(counts.sum()) == nodes * size


def test_a_kernel_matrix_too_large_for_memory_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(arrays.memory, "available_memory", lambda *device: 10_000)
    with pytest.raises(MemoryError, match=r"100 x 100 entries needs .* use at most about 35 rows"):
        random_kernel(isotropic(D))(points(100))


@pytest.mark.parametrize("name", ["rough, depth 1", "smooth and rough", "two exponents", "all kinds, depth 3"])
def test_columns_of_one_or_two_values_take_another_way_to_the_same_kernel_and_gradient(name):
    kernel = random_kernel(ARCHITECTURES[name])
    rng = np.random.default_rng(0)
    X, Z = (torch.from_numpy(rng.uniform(-1, 1, (n, D))) for n in (12, 9))
    for rows in (X, Z):
        rows[:, 0] = torch.where(rows[:, 0] > 0, 0.7, 0.1)
        rows[:, 1] = 2.0
        rows[:, 3] = torch.where(rows[:, 3] > 0, 1.5, -0.5)
    bent = X.clone()
    bent[0] += 1e-9 * torch.arange(1, D + 1)  # now no column has two values
    assert float((kernel.matrix(X, Z) - kernel.matrix(bent, Z)).abs().max()) < 1e-4
    np.testing.assert_allclose(kernel.matrix(X, Z), kernel_matrix(kernel, X.numpy(), Z.numpy()), atol=1e-12)
    dK = torch.from_numpy(rng.standard_normal((12, 9)))
    for ours, theirs in zip(kernel.backward(dK, X, Z), kernel.backward(dK, bent, Z), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


# ----------------------------------------------------------------------------------- kinds of one's own


@storable
@dataclass(frozen=True)
class Periodic(ColumnKind):
    """S_i = Σ_j v_ij² (1 - cos(x_j - x'_j))."""

    def delta(self, D):
        return 1 - torch.cos(D)

    def largest(self, reach):
        return 1 - torch.cos(reach.clamp(max=math.pi))


@storable
@dataclass(frozen=True)
class Tilted(Oblique):
    """Oblique nodes whose batches go through tiles."""

    twin = None
    batch = NodeKind.batch


def periodic_matrix(kernel, X, Z):
    """Pair by pair, of a tree of depth 2 with smooth and periodic nodes."""

    def exponent(i, x, z):
        terms = 1 - np.cos(x - z) if kernel.architecture.kinds[i] == Periodic() else (x - z) ** 2
        return float(kernel.W[0][i].numpy() ** 2 @ terms)

    def value(x, z):
        S = sum(2 * float(w) ** 2 * (1 - math.exp(-exponent(i, x, z))) for i, w in enumerate(kernel.W[1]))
        return math.exp(-S / kernel.gamma**2)

    return np.array([[value(x, z) for z in Z] for x in X])


MIXED = with_kinds(two_layers(D, 4, 3), kinds={1: Periodic(), 2: Periodic()})


def test_a_kind_of_ones_own_has_its_values_and_gradient_in_both_sweeps():
    kernel, X, Z = random_kernel(MIXED), 3 * points(24), 3 * points(17, seed=1)
    j = MIXED.coordinates[1][0]
    for table in (X, Z):  # a column of two values takes another way
        table[:, j] = np.where(table[:, j] > 0, 0.5, -1.0)
    np.testing.assert_allclose(kernel(X, Z), periodic_matrix(kernel, X, Z), atol=DOUBLE)
    rows, h = torch.from_numpy(X), 1e-5
    G = torch.from_numpy(np.random.default_rng(5).standard_normal((24, 24)))
    G = G + G.T
    batch = BatchSweep(kernel, rows)
    torch.testing.assert_close(batch.matrix(), kernel.matrix(rows), rtol=0, atol=1e-12)
    gradients = kernel.backward(G, rows), batch.backward(G)
    for layer, mask in enumerate(MIXED.free()):
        for index in map(tuple, mask.nonzero().tolist()):
            up, down = [w.clone() for w in kernel.W], [w.clone() for w in kernel.W]
            up[layer][index] += h
            down[layer][index] -= h
            J = [float((G * kernel.with_weights(tuple(W)).matrix(rows)).sum()) for W in (up, down)]
            for gradient in gradients:
                assert float(gradient[layer][index]) == pytest.approx((J[0] - J[1]) / (2 * h), rel=1e-5, abs=1e-6)


def test_a_kind_of_ones_own_is_pruned_printed_weighed_and_learned_by_gaussian_processes():
    kernel, X = random_kernel(MIXED), 3 * points(30)
    W = [w.clone() for w in kernel.W]
    W[0][1, MIXED.coordinates[1][0]] = W[1][2] = 1e-4
    kernel, rows = kernel.with_weights(tuple(W)), torch.from_numpy(X)
    smaller = pruned(kernel, rows, 1e-3)
    assert smaller.architecture.kinds == (Smooth(), Periodic(), Smooth())
    assert smaller.architecture.coordinates[1] == MIXED.coordinates[1][1:]
    assert float((smaller.matrix(rows).log() - kernel.matrix(rows).log()).abs().max()) <= 1e-3
    assert [" (periodic): " in line for line in str(kernel).splitlines()[1:]] == [False, True, True, False]
    np.testing.assert_allclose(kernel.shares(rows).sum(), 1)
    adapter, h = GaussianProcessKernel(kernel), 1e-6
    _, gradient = adapter(X, eval_gradient=True)
    theta = adapter.theta
    for i, step in enumerate(h * np.eye(len(theta))):
        numeric = (adapter.clone_with_theta(theta + step)(X) - adapter.clone_with_theta(theta - step)(X)) / (2 * h)
        np.testing.assert_allclose(gradient[:, :, i], numeric, atol=1e-8)


@pytest.mark.parametrize("optimiser", [None, Adam(steps=10, batch=40)], ids=["default", "adam"])
def test_a_kind_of_ones_own_is_fitted_saved_and_loaded(optimiser, tmp_path):
    pytest.importorskip("safetensors", reason="needs safetensors")
    X = 3 * points(60)
    y = np.cos(X[:, 0]) + 0.1 * X[:, 1]
    model = HGKRegressor(architecture=MIXED, optimiser=optimiser, random_state=0).fit(X, y)
    kernels = [kernel for _, kernel in model.kernel_.terms]
    assert all(Periodic() in kernel.architecture.kinds for kernel in kernels)
    save(model, tmp_path / "model.hgk")
    again = load(tmp_path / "model.hgk")
    assert [k.architecture for _, k in again.kernel_.terms] == [kernel.architecture for kernel in kernels]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("n", [2, 40, 41])
def test_batches_of_a_kind_without_a_batch_of_its_own_go_through_tiles(n):
    trees = [with_kinds(two_layers(D, 3, 3), kinds=dict.fromkeys((0, 2), kind)) for kind in (Tilted(2), Oblique(2))]
    ours, theirs = (random_kernel(tree) for tree in trees)
    X, G = torch.from_numpy(points(n)), torch.ones(n, n, dtype=torch.float64)
    sweeps = BatchSweep(ours, X), BatchSweep(theirs, X)
    torch.testing.assert_close(sweeps[0].matrix(), sweeps[1].matrix(), rtol=0, atol=1e-12)
    for mine, yours in zip(sweeps[0].backward(G), sweeps[1].backward(G), strict=True):
        torch.testing.assert_close(mine, yours, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Rough(2.0), "leave the node smooth"),
        (lambda: Oblique(0), "rank 1 or more"),
        (lambda: with_kinds(two_layers(4, 2), rough=[0], oblique=[0]), "each with one kind"),
        (lambda: with_kinds(two_layers(4, 2), rough=[2]), "nodes from 0 to 1"),
        (lambda: type(isotropic(2))(3, ((0, 1),), kinds=(Smooth(), Rough())), "1 first-layer nodes need one each"),
        (lambda: type(isotropic(2))(3, ((0, 1),), kinds=("rough",)), "such as Smooth"),
    ],
)
def test_wrong_kinds_get_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


# ---------------------------------------------------------------------------------- the mean of kernels


def test_a_mean_of_kernels_is_a_kernel():
    one, other = random_kernel(two_layers(D, 3, 2), gamma=0.5), random_kernel(ARCHITECTURES["all kinds"], 1, gamma=2.0)
    mean = MeanKernel.of([one, other], [3.0, 1.0])
    assert isinstance(mean, Kernel)
    assert MeanKernel.of([one], [3.0]) is one
    X, Z, rng = points(30), points(20, seed=1), np.random.default_rng(0)
    np.testing.assert_allclose(mean(X, Z), 0.75 * one(X, Z) + 0.25 * other(X, Z), atol=DOUBLE)
    alpha = rng.standard_normal((20, 2))
    rows = torch.from_numpy(X)
    product = mean.multiply(rows, *map(torch.from_numpy, (Z, alpha)))
    np.testing.assert_allclose(product, mean(X, Z) @ alpha, atol=1e-12)
    shares = mean.shares(rows)
    np.testing.assert_allclose(shares[:3], 0.75 * one.shares(rows))
    assert shares.shape == (7, D)
    assert shares.sum() == pytest.approx(1)
    assert mean.relevance(rows).shape == (D,)
    assert mean.gamma == pytest.approx(1.0)
    assert mean.with_gamma(3.0).gamma == pytest.approx(3.0)
    assert [kernel.gamma for _, kernel in mean.with_gamma(3.0).terms] == pytest.approx([1.5, 6.0])
    assert mean.largest_exponent == max(one.largest_exponent, other.largest_exponent)
    assert [share for share, _ in mean.terms] == [0.75, 0.25]
    assert mean.d == D
    assert not mean.is_plain
    assert str(mean).splitlines()[1] == "0.75 · hierarchical Gaussian kernel: depth 2, gamma 0.5, 5 columns"
    assert repr(mean) == "<MeanKernel kernels=2 d=5 gamma=1>"


def test_a_mean_of_kernels_takes_tables_and_names_columns():
    mean = MeanKernel.of([random_kernel(inhomogeneous(2), seed) for seed in (0, 1)], [1.0, 1.0])
    named = mean.with_inputs(lambda table: np.column_stack([table["a"], table["b"]]), ("a", "b"))
    X = points(9, d=2)
    np.testing.assert_array_equal(named({"a": X[:, 0], "b": X[:, 1]}), mean(X))
    assert "  b " in str(named)


@pytest.mark.parametrize(
    ("kernels", "proportions", "sentence"),
    [
        ([3, 3], (1.0,), "one for each kernel"),
        ([3, 3], (1.0, -1.0), "numbers >= 0"),
        ([3, 3], (0.0, 0.0), "not all 0"),
        ([3, 4], (1.0, 1.0), "the same columns"),
    ],
)
def test_a_mean_of_what_does_not_fit_is_refused(kernels, proportions, sentence):
    with pytest.raises(ValueError, match=sentence):
        MeanKernel.of([random_kernel(inhomogeneous(d)) for d in kernels], proportions)
