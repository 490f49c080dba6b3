"""Partitions and the machine in leaves: routing, exact functions without single rows, copies and files."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import hgk
from hgk import HGKClassifier, HGKRegressor, StoppedEarlyWarning
from hgk.arrays import blocks, memory, row_products
from hgk.cli.explain import row_explained
from hgk.events import LeavesChosen, LeavesGrown, LeavesJudged, last
from hgk.insight import contributions, given_rows, influence, regions
from hgk.kernels import HierarchicalKernel, two_layers
from hgk.learners.default import KINDS, division, leaves
from hgk.learners.default.effort import LearningEffort
from hgk.learners.default.leaves import (
    Handed,
    HandingTree,
    LeafPlan,
    best_share,
    holds,
    left_out_error,
    one_by_one,
    trained,
)
from hgk.machines import (
    Exact,
    InLeaves,
    MeanOfMachines,
    OnCentres,
    Rows,
    Sampled,
    partition,
    principal_direction,
    random_direction,
    train,
)
from hgk.machines.partition import signs
from hgk.progress import Progress
from hgk.report import report
from hgk.storable import Malformed
from hgk.storage.codec import DocumentReader, DocumentWriter
from tasks import default_settings

D = 4
KERNEL = HierarchicalKernel.of(two_layers(D, 3, rng=0), np.full((3, D), 1.3), np.array([0.9, 0.7, 0.5]), gamma=0.8)


def rows_of(n=60, seed=0, repeated=True):
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.uniform(-1, 1, (n, D)))
    Y = torch.stack([torch.sin(3 * X[:, 0]), X[:, 1] * X[:, 2]], 1) + 0.1 * torch.from_numpy(
        rng.standard_normal((n, 2))
    )
    count = torch.from_numpy(rng.integers(1, 4, n).astype(float)) if repeated else torch.ones(n, dtype=torch.float64)
    weight = count * torch.from_numpy(rng.uniform(0.5, 2, n)) if repeated else count.clone()
    return Rows(X, Y, weight, count)


def in_leaves(rows, size=20, seed=0, index=None):
    """Leaves whose kernels, widths and c differ."""
    parts = partition(rows.X, torch.ones(D), size, np.random.default_rng(seed), index=index)
    factors = torch.linspace(0.8, 1.2, len(parts), dtype=torch.float64)
    W = tuple(torch.stack([f * w for f in factors]) for w in KERNEL.W)
    gammas, cs = 0.8 * factors, 0.05 * factors
    alpha = torch.zeros_like(rows.Y)
    machine = InLeaves(KERNEL, 0.01, rows.X, alpha, partition=parts, W=W, gammas=gammas, cs=cs)
    for leaf in range(len(parts)):
        alpha[parts.rows(leaf)] = refit(machine, rows[parts.rows(leaf)], leaf).alpha
    return machine


def refit(machine, mine, leaf):
    """The leaf's machine on some rows, at the same c = nλ."""
    return train(machine.kernel_of(leaf), mine, float(machine.cs[leaf]) / float(mine.weight.sum()))


def without(rows, i):
    """Without one repetition of row i."""
    m = rows.repetitions.clone()
    weight = rows.weight.clone()
    weight[i] *= (m[i] - 1) / m[i]
    m[i] -= 1
    kept = (m > 0).nonzero()[:, 0]
    return replace(rows, weight=weight, count=m)[kept]


def brute(machine, rows, x, left_out_error):
    """f at one row, after some training rows have left their leaf."""
    (leaf,) = machine.partition.route(x[None]).tolist()
    members = machine.partition.rows(leaf)
    mine, places = rows[members], [int((members == i).nonzero()[0, 0]) for i in left_out_error if i in members]
    for place in sorted(places, reverse=True):
        mine = without(mine, place)
    return refit(machine, mine, leaf)(x[None])[0]


# ------------------------------------------------------------------------------------------------------- partitions


@pytest.mark.parametrize("size", [-1, 0, 1, 3, 9])
def test_blocks_cover_all_rows(size):
    assert [i for block in blocks(7, size) for i in range(7)[block]] == list(range(7))


@pytest.mark.parametrize("columns", [0, 1, 2, 7, 64])
def test_products_of_rows_are_the_same_for_equal_rows(columns):
    X, a = torch.randn(50, columns, dtype=torch.float64), torch.randn(columns, dtype=torch.float64)
    t = row_products(X, a)
    torch.testing.assert_close(t, X @ a)
    assert torch.equal(row_products(torch.cat([X[7:8], X]), a)[[0]], t[[7]])
    assert torch.equal(row_products(X, a.expand(50, -1)), t)


def test_signs_are_tosses_of_a_coin():
    """Balanced, other ones for another seed, and independent of their neighbours."""
    one, other = (signs(torch.arange(40_000), seed) for seed in (1, 2))
    assert torch.equal(one.abs(), torch.ones(40_000))
    for products in (one, one * other, one[1:] * one[:-1], one[8:] * one[:-8]):
        assert abs(float(products.double().mean())) < 4 / 200


def test_directions_are_those_of_the_covariance():
    """The principal one is its leading eigenvector; random ones have it, for rows that are filled up as well."""
    Z = torch.randn(2, 60, D, dtype=torch.float64) * torch.tensor([8.0, 2.0, 1.0, 0.5])
    there = torch.arange(60) < torch.tensor([[60], [35]])
    Z = (Z - (Z * there[..., None]).sum(1, keepdim=True) / there.sum(1)[:, None, None]) * there[..., None]
    numbers = torch.arange(120).reshape(2, 60)
    draws = torch.stack([random_direction(Sampled(Z, numbers, there, seed)) for seed in range(4000)])
    principal = principal_direction(Sampled(Z, numbers, there, 0))
    for b in range(2):
        covariance = Z[b].T @ Z[b]
        assert float((draws[:, b].T @ draws[:, b] / 4000 - covariance).norm() / covariance.norm()) < 0.1
        leading = torch.linalg.eigh(covariance).eigenvectors[:, -1]
        assert float((leading @ principal[b] / principal[b].norm()).abs()) > 1 - 1e-9


@pytest.mark.parametrize("direction", [principal_direction, random_direction])
def test_leaves_are_disjoint_balanced_and_found_again(direction):
    X = rows_of(1000).X
    parts = partition(X, torch.ones(D), 100, np.random.default_rng(0), direction)
    assert sorted(parts.order.tolist()) == list(range(1000))
    assert len(parts) == 16
    assert 50 <= int(parts.sizes.min()) <= int(parts.sizes.max()) <= 100
    torch.testing.assert_close(parts.route(X), parts.leaf_of_rows(1000))
    # one by one and in single precision, but for rows that rounding moves over a border
    assert [int(parts.route(x[None])) for x in X[:50]] == parts.leaf_of_rows(1000)[:50].tolist()
    assert float((parts.route(X.float()) == parts.leaf_of_rows(1000)).double().mean()) > 0.999


def test_a_leaf_is_where_all_its_half_spaces_meet():
    X = rows_of(300).X
    parts = partition(X, torch.tensor([1.0, 2.0, 0.0, 1.0]), 40, np.random.default_rng(1))
    assert bool((parts.directions[:, 2] == 0).all())  # a column that does not matter splits nothing
    sides = parts.thresholds >= X @ parts.directions.T
    for number, (start, stop) in enumerate(parts.spans):
        left, _ = parts.children[number].tolist()
        middle = parts.spans[left][1] if left >= 0 else -left
        rows = parts.order[parts.ends[start] : parts.ends[stop]]
        assert sides[rows, number].sum() == parts.ends[middle] - parts.ends[start]
        assert abs(int(parts.ends[middle] - parts.ends[start]) * 2 - len(rows)) <= 1
        assert torch.equal(parts.members(number), rows)
    assert all(torch.equal(parts.members(-1 - leaf), parts.rows(leaf)) for leaf in range(len(parts)))
    assert len(parts.members(parts.top)) == 300


def test_equal_rows_stay_together_and_too_many_of_them_are_sampled():
    X = torch.zeros(400, D, dtype=torch.float64)
    X[:100] = rows_of(100).X
    parts = partition(X, torch.ones(D), 50, np.random.default_rng(0))
    leaf = parts.route(X)
    assert len(leaf[100:].unique()) == 1
    assert int(parts.sizes.max()) == 50
    assert int((parts.leaf_of_rows(400)[100:] >= 0).sum()) <= 50
    constant = partition(X[100:], torch.ones(D), 50, np.random.default_rng(0))
    assert (len(constant), len(constant.order)) == (1, 50)


def test_indicators_are_split_between_their_values():
    X = torch.from_numpy(np.random.default_rng(0).integers(2, size=(500, 3)).astype(float))
    parts = partition(X, torch.ones(3), 100, np.random.default_rng(0))
    for x in X.unique(dim=0):
        assert len(parts.leaf_of_rows(500)[(x == X).all(1)].unique()) == 1


def test_the_same_seed_gives_the_same_partition_and_another_one_another():
    X = rows_of(200).X
    one, two, other = (partition(X, torch.ones(D), 30, np.random.default_rng(s), random_direction) for s in (0, 0, 1))
    torch.testing.assert_close(one.directions, two.directions, rtol=0, atol=0)
    assert torch.equal(one.order, two.order)
    assert not torch.equal(one.order, other.order)


# ---------------------------------------------------------------------------------------------------- the machine


def test_one_leaf_is_the_machine_on_all_rows():
    rows = rows_of()
    machine, whole = in_leaves(rows, size=60), None
    whole = refit(machine, rows, 0)
    assert isinstance(whole, Exact)
    X = rows_of(30, seed=1).X
    torch.testing.assert_close(machine(X), whole(X))
    torch.testing.assert_close(machine.leave_one_out(rows), whole.leave_one_out(rows))
    index = torch.tensor([3, 20, 41])
    torch.testing.assert_close(machine.without_one(rows, index)[1](X), whole.without_one(rows, index)[1](X))
    torch.testing.assert_close(machine.leave_two_out(rows, index), whole.leave_two_out(rows, index))


def test_a_row_is_predicted_by_its_leaf():
    rows, X = rows_of(), rows_of(40, seed=1).X
    machine = in_leaves(rows)
    assert len(machine.partition) > 2
    expected = torch.stack([brute(machine, rows, x, []) for x in X])
    torch.testing.assert_close(machine(X), expected)
    c, K = machine.similarities(X)
    torch.testing.assert_close(c.sum(-1), expected)
    leaf = machine.partition.route(X)
    other = machine.partition.leaf_of_rows(len(rows))[None] != leaf[:, None]
    assert float(K[other].abs().max()) == 0
    assert K.shape == (40, 60)


def test_leaving_one_out_is_a_refit_of_its_leaf():
    rows, X = rows_of(), rows_of(12, seed=1).X
    machine, index = in_leaves(rows), torch.tensor([0, 7, 8, 30, 59])
    own, elsewhere = machine.without_one(rows, index)
    expected = torch.stack([brute(machine, rows, rows.X[i], [int(i)]) for i in index])
    torch.testing.assert_close(own, expected)
    torch.testing.assert_close(machine.leave_one_out(rows)[index], expected)
    there = torch.stack([torch.stack([brute(machine, rows, x, [int(i)]) for i in index], 1) for x in X], 1)
    torch.testing.assert_close(elsewhere(X), there)
    assert elsewhere(X[:0]).shape == (2, 0, 5)


def test_leaving_two_out_is_a_refit_of_their_leaves():
    rows = rows_of()
    machine = in_leaves(rows)
    index = torch.cat([machine.partition.rows(0)[:3], machine.partition.rows(1)[:2]])
    t = machine.leave_two_out(rows, index)
    for a, i in enumerate(index.tolist()):
        for b, j in enumerate(index.tolist()):
            torch.testing.assert_close(t[:, a, b], brute(machine, rows, rows.X[i], {i, j}))


def test_rows_that_no_leaf_has_are_predicted_and_leave_nothing_behind():
    rows = rows_of()
    machine = in_leaves(rows, index=torch.arange(0, 60, 2))
    odd = torch.arange(1, 60, 2)
    assert bool((machine.alpha[odd] == 0).all())
    torch.testing.assert_close(machine.leave_one_out(rows)[odd], machine(rows.X[odd]))
    index = torch.tensor([0, 1, 2, 3])
    t = machine.leave_two_out(rows, index)
    for a, i in enumerate(index.tolist()):
        for b, j in enumerate(index.tolist()):
            gone = {k for k in (i, j) if k % 2 == 0}
            torch.testing.assert_close(t[:, a, b], brute(machine, rows, rows.X[i], gone))


def test_another_machine_stands_in_for_leaves_without_rows():
    rows, X = rows_of(), rows_of(80, seed=1).X
    machine, whole = in_leaves(rows), train(KERNEL, rows, 1e-3)
    parts, gone = machine.partition, 1
    kept = torch.cat([parts.rows(leaf) for leaf in range(len(parts)) if leaf != gone])
    sizes = parts.sizes.clone()
    sizes[gone] = 0
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    cut = replace(machine, partition=replace(parts, order=kept, ends=ends), stand_in=whole)
    cut.check(D, rows)
    inside = parts.route(X) == gone
    torch.testing.assert_close(cut(X)[inside], whole(X[inside]))
    torch.testing.assert_close(cut(X)[~inside], machine(X[~inside]))
    lost = parts.rows(gone)
    torch.testing.assert_close(cut.leave_one_out(rows)[lost], whole.leave_one_out(rows)[lost])
    index = torch.cat([lost[:2], parts.rows(0)[:2]])
    own, elsewhere = cut.without_one(rows, index)
    torch.testing.assert_close(own[:2], whole.without_one(rows, lost[:2])[0])
    torch.testing.assert_close(own[2:], machine.without_one(rows, index[2:])[0])
    torch.testing.assert_close(elsewhere(X)[:, inside, :2], whole.without_one(rows, lost[:2])[1](X[inside]))
    torch.testing.assert_close(elsewhere(X)[:, inside, 2:], whole(X[inside]).T[:, :, None].expand(-1, -1, 2))
    two = cut.leave_two_out(rows, index)
    torch.testing.assert_close(two[:, :2, :2], whole.leave_two_out(rows, lost[:2]))
    with pytest.raises(Malformed, match="a leaf has no rows"):
        replace(cut, stand_in=None).check(D, rows)


def test_a_mean_by_proportions_is_the_mean_of_everything():
    rows, X = rows_of(), rows_of(20, seed=1).X
    one, other, index = train(KERNEL, rows, 1e-3), in_leaves(rows), torch.tensor([1, 5, 9])
    mean = MeanOfMachines((one, other), (1.0, 3.0))

    def weighted(values):
        return 0.25 * values(one) + 0.75 * values(other)

    torch.testing.assert_close(mean(X), weighted(lambda m: m(X)))
    torch.testing.assert_close(mean.leave_one_out(rows), weighted(lambda m: m.leave_one_out(rows)))
    torch.testing.assert_close(
        mean.without_one(rows, index)[1](X), weighted(lambda m: m.without_one(rows, index)[1](X))
    )
    torch.testing.assert_close(mean.leave_two_out(rows, index), weighted(lambda m: m.leave_two_out(rows, index)))
    torch.testing.assert_close(mean.similarities(X)[0].sum(-1), mean(X))
    assert mean.shares(rows.X).sum() == pytest.approx(1)
    single = mean.to(dtype=torch.float32)
    assert single.machines[0].X is single.machines[1].X
    apart = MeanOfMachines((train(KERNEL, rows[:20], 1e-3), other))
    assert len(apart.X) == 80
    assert apart.outputs == 2
    with pytest.raises(AttributeError, match="sum over different rows"):
        _ = apart.alpha
    torch.testing.assert_close(apart.similarities(X)[0].sum(-1), apart(X))


@pytest.mark.parametrize("lacking", [0, 12])
def test_functions_without_a_rows_own_are_those_without_one(lacking):
    """Also where some rows are in no leaf, and where a leaf has no rows and another machine stands in."""
    rows = rows_of()
    machine = in_leaves(rows, index=torch.arange(lacking, len(rows)))
    if lacking:
        parts = machine.partition
        emptied = replace(parts, order=parts.order[parts.ends[1] :], ends=(parts.ends - parts.ends[1]).clamp_min(0))
        machine = replace(machine, partition=emptied, stand_in=train(KERNEL, rows, 0.01))
    index = torch.tensor([0, 5, 13, 20, 41])
    X, place = torch.cat([rows.X[index] + 0.01, rows.X[:20]]), torch.arange(25) % 5
    expected = machine.without_one(rows, index)[1](X)[:, torch.arange(25), place].T
    np.testing.assert_allclose(machine.without_own(rows, index)(X, place).numpy(), expected.numpy(), atol=1e-9)


def test_importances_are_those_of_the_leaves():
    rows = rows_of(200)
    machine = in_leaves(rows)
    shares = machine.shares(rows.X)
    sizes = machine.partition.sizes
    leaves = [machine.kernel_of(k).shares(rows.X[machine.partition.rows(k)]) for k in range(len(sizes))]
    expected = sum(float(s) / 200 * share for s, share in zip(sizes, leaves, strict=True))
    np.testing.assert_allclose(shares, expected)


def test_a_file_holds_it_to_the_last_bit_and_refuses_what_does_not_fit():
    rows, X = rows_of(), rows_of(20, seed=1).X
    machine, encoder = in_leaves(rows), DocumentWriter()
    document = encoder(machine)
    again = DocumentReader(encoder.arrays)(document, InLeaves)
    assert torch.equal(again(X), machine(X))
    again.check(D, rows)
    changes = [
        ("cs", lambda a: -a), ("gammas", lambda a: a[1:]), ("partition.ends", lambda a: a[::-1].copy()),
        ("partition.children", lambda a: np.zeros_like(a)), ("partition.order", lambda a: a + 1),
        ("partition.thresholds", lambda a: a * np.nan), ("W.0", lambda a: a[:, :1]),
    ]  # fmt: skip
    for name, change in changes:
        arrays = encoder.arrays | {name: change(encoder.arrays[name])}
        with pytest.raises(Malformed):
            DocumentReader(arrays)(document, InLeaves).check(D, rows)


# ---------------------------------------------------------------------------------------------------- the learner


def bumpy(n, seed=0, noise=0.05):
    """Fast where x0 is large, slow elsewhere: no width is good everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 3))
    return X, np.sin(2 + 40 * X[:, 0] ** 3) + X[:, 1] * (X[:, 2] > 0.5) + noise * rng.standard_normal(n)


def test_kernels_are_handed_down_by_steps_of_every_node_on_the_way():
    rows = rows_of(400, repeated=False)
    parts = partition(rows.X, torch.ones(D), 60, np.random.default_rng(0))
    tree, plan = HandingTree(rows, parts, 0, 0.0, Progress()), LeafPlan(60, 2, 0.1, 50)
    start = Handed(KERNEL, 0.1)
    nodes = [-1 - leaf for leaf in range(len(parts))]
    known = tree.hand_down(start, nodes, plan, one_by_one)
    for node in nodes:
        path, handed = [node], start
        while path[-1] != tree.parts.top:
            path.append(tree.parent[path[-1]])
        for step in path[-2::-1]:  # all but the top, whose kernel was learned on all rows
            handed = tree.learn(step, handed, plan)
        assert known[node].c == handed.c
        for w, v in zip(known[node].kernel.W, handed.kernel.W, strict=True):
            assert torch.equal(w, v)
    assert tree.hand_down(start, nodes, replace(plan, steps=0), one_by_one)[nodes[0]] is start
    assert sorted(i for node in tree.leaves_of(200) for i in tree.parts.members(node).tolist()) == list(range(400))
    assert max(len(tree.parts.members(node)) for node in tree.leaves_of(200)) <= 200


def test_a_leafs_error_of_leaving_one_out_is_that_of_refits():
    rows = rows_of(30)
    K, c = KERNEL.matrix(rows.X), 0.07
    t = torch.stack([train(KERNEL, r, c / float(r.weight.sum()))(rows.X[i][None])[0]
                     for i in range(30) for r in [without(rows, i)]])  # fmt: skip
    expected = rows.mean(((t.clamp(-0.5, 0.5) - rows.Y) ** 2).sum(1))[0]
    assert left_out_error(K, rows, c, 0.5) == pytest.approx(expected, rel=1e-5)


def test_a_leaf_takes_a_width_and_c_that_are_no_worse_than_those_handed_down():
    rows = rows_of(300, repeated=False)
    for gamma in (0.2, 0.8, 4.0):
        handed = Handed(KERNEL.with_gamma(gamma), 0.5)
        leaf = trained(handed, rows, 1.0)
        before = left_out_error(handed.kernel.matrix(rows.X), rows, handed.c, 1.0)
        assert left_out_error(leaf.kernel.matrix(rows.X), rows, leaf.c, 1.0) <= before
        expected = train(leaf.kernel, rows, leaf.c / 300).alpha
        torch.testing.assert_close(leaf.alpha, expected, rtol=1e-3, atol=1e-4)  # its K is in single precision


def test_c_is_raised_where_predictions_in_single_precision_would_be_rounding_alone(monkeypatch):
    """A kernel that is nearly constant, and labels that want the smallest c: coefficients of some thousands cancel."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.uniform(-1, 1, (1200, D)))
    Y = torch.sin(3 * X[:, :1]) + 0.3 * torch.from_numpy(rng.standard_normal((1200, 1)))
    rows = Rows(X, Y, torch.ones(1200, dtype=torch.float64))
    flat = KERNEL.with_gamma(40.0)
    asked = trained(Handed(flat, 1e-3), rows, 9.0, given_c=1e-5)
    assert not holds(asked, rows)
    monkeypatch.setattr(leaves, "LEAST_C", 1e-5)
    monkeypatch.setattr(leaves, "TUNED", 0)
    leaf = trained(Handed(flat, 1e-5), rows, 9.0)
    assert leaf.c > 1e-5  # raised
    assert holds(leaf, rows)
    t = leaf.kernel.multiply(X.float(), X.float(), leaf.alpha.float(), often=True).double()
    assert float((t - (Y - leaf.c * leaf.alpha)).square().mean().sqrt()) < 0.03 * float(Y.std())
    assert holds(trained(Handed(KERNEL, 0.1), rows, 9.0), rows)


def test_the_share_of_the_machine_on_all_rows_is_the_best_for_so_many_partitions():
    rng = np.random.default_rng(0)
    common, whole, *leaves = (torch.from_numpy(rng.standard_normal((20_000, 1))) for _ in range(10))
    r_0 = 0.7 * common + 0.5 * whole
    r = torch.stack([0.6 * common + 0.8 * one for one in leaves])
    weight = torch.ones(20_000, dtype=torch.float64)
    for partitions in (1, 2, 8):
        shares = np.linspace(0, 1, 101)
        errors = [float(((p * r_0 + (1 - p) * r[:partitions].mean(0)) ** 2).mean()) for p in shares]
        assert best_share(r_0, r[:2], weight, partitions) == pytest.approx(shares[int(np.argmin(errors))], abs=0.04)
    assert best_share(r_0, r_0.expand(2, -1, -1) + 0.0 * r[:2], weight, 2) in (0.0, 1.0)


def fitted(estimator, X, y, steps=10, **changes):
    """By the default learner with one kind of tree and few steps, beyond 1000 rows in leaves if these are better."""
    usual = {"effort": LearningEffort(1, steps, 201), "divided": 1000, "kinds": KINDS[2:3]}
    with default_settings(**usual | changes):
        return estimator.set_params(random_state=0).fit(X, y)


# Leaves alone beyond the exact machine, the same beside a machine on centres, and beside an exact machine.
WAYS = {"leaves": (700, 0.0), "leaves and centres": (700, 0.4), "leaves and all rows": (10_000, 0.4)}
SMALL = {"leaf_rows": (200,), "branch_rows": 400, "centres_beside": 50}


@pytest.fixture(scope="module", params=WAYS)
def divided_fit(request):
    X, y = bumpy(1500)
    exact, share = WAYS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "EXACT", exact)
        patch.setattr(division, "best_share", lambda *_: share)
        return fitted(HGKRegressor(), X, y, steps=30, leaf_margin=-100.0, **SMALL), X, y


def test_where_leaves_are_better_on_rows_set_aside_they_are_taken(divided_fit):
    model, _, y = divided_fit
    chosen = last(model.history_, LeavesChosen)
    assert chosen.taken
    machine = model.machine_
    leaves = [part for part in machine.parts_of() if isinstance(part, InLeaves)]
    assert len(leaves) == chosen.partitions
    X_new, y_new = bumpy(2000, seed=1)
    assert model.model_.error()["risk"] == chosen.risk
    assert 0.4 < chosen.risk / np.mean(((model.predict(X_new) - y_new) / np.ptp(y) * 2) ** 2) < 2.5
    assert "partitions of the rows into leaves" in chosen.words


def test_everything_can_be_asked_of_a_model_in_leaves(divided_fit, tmp_path):
    model, _, y = divided_fit
    X_new, y_new = bumpy(400, seed=1)
    low, high = model.predict_interval(X_new, 0.9).T
    assert 0.8 < ((low < y_new) & (y_new < high)).mean() < 0.99
    assert model.loo_predictions_.shape == y.shape
    assert model.exponent_shares_.sum() == pytest.approx(1)
    sums = contributions(model, X_new[:5], k=None)
    np.testing.assert_allclose(sums.base + sums.contribution.sum(-1)[:, 0], model.predict(X_new[:5]), atol=1e-3)
    assert sums.rows.shape[-1] == len(given_rows(model)) == len(model.machine_.X)
    training = model.model_.training
    features = training.rows.X[training.place[given_rows(model)]]
    torch.testing.assert_close(model.machine_.X.double(), features, rtol=1e-6, atol=1e-6)
    assert influence(model, X_new[:2]).shape == (2, len(y))
    explained = row_explained(model, X_new[:1], 3, terms=True, notes=[])
    assert explained["rows"][0]["rows"][0]["row"] is not None
    assert explained["terms"]["outputs"][0]["rows"][0]["row"] is not None
    np.testing.assert_allclose(model.predict(X_new[:1]), model.predict(X_new)[:1], atol=1e-4)
    hgk.save(model, tmp_path / "m.hgk")
    again = hgk.load(tmp_path / "m.hgk")
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))
    np.testing.assert_array_equal(again.loo_predictions_, model.loo_predictions_)
    hgk.save(model, tmp_path / "c.hgk", compact=True, single=True)
    np.testing.assert_allclose(hgk.load(tmp_path / "c.hgk").predict(X_new), model.predict(X_new), atol=1e-3)
    assert "leaves" in hgk.storage.describe(tmp_path / "m.hgk")["summary"]["leaves"]
    assert "The model is the mean of" in report(model)


def test_regions_tell_where_which_column_matters(divided_fit):
    model, _, y = divided_fit
    top, *others = regions(model)
    assert (top.depth, top.start, top.stop) == (0, 0, len(y))
    for depth in {region.depth for region in others}:
        level = [region for region in others if region.depth == depth]
        assert all(one.stop <= two.start for one, two in itertools.pairwise(level))
        assert all(sum(region.columns.values()) == pytest.approx(1) for region in level)
    children = [region for region in others if region.depth == 1]
    assert sum(region.rows for region in children) == top.rows
    mean = sum(region.rows * region.error for region in children) / top.rows
    assert mean == pytest.approx(top.error)
    t = (model.loo_predictions_ - y) / np.ptp(y) * 2
    assert top.error == pytest.approx(np.mean(t**2), rel=1e-6)
    assert sum(top.mixes.values()) == pytest.approx(1)


def test_the_order_of_rows_changes_nothing_but_rounding(divided_fit):
    model, X, y = divided_fit
    chosen, order = last(model.history_, LeavesChosen), np.random.default_rng(0).permutation(len(y))
    exact = isinstance(model.machine_.parts_of()[0], Exact)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "EXACT", 10_000 if exact else 700)
        # with an exact machine the share is half way to one half
        patch.setattr(division, "best_share", lambda *_: 2 * chosen.share - 0.5 if exact else chosen.share)
        other = fitted(HGKRegressor(), X[order], y[order], steps=30, leaf_margin=-100.0, **SMALL)
    np.testing.assert_allclose(other.predict(X[:50]), model.predict(X[:50]), atol=1e-9)


def test_leaves_that_are_no_better_are_not_taken():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 3))
    y = X[:, 0] + 3 * rng.standard_normal(1500)
    model = fitted(HGKRegressor(), X, y, steps=5, leaf_shares=(0.03,))
    assert not last(model.history_, LeavesChosen).taken
    assert not isinstance(model.machine_, MeanOfMachines)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_in_leaves_have_probabilities_from_rows_set_aside(monkeypatch, classes):
    monkeypatch.setattr(memory, "EXACT", 700)
    X, y = bumpy(1600, noise=0.0)
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    model = fitted(HGKClassifier(), X[:1200], labels[:1200], leaf_rows=(200,), branch_rows=400, centres_beside=50)
    assert last(model.history_, LeavesChosen).taken
    probability = model.predict_proba(X[1200:])
    np.testing.assert_allclose(probability.sum(1), 1)
    assert model.score(X[1200:], labels[1200:]) > 0.85
    truth = (labels[1200:, None] == model.classes_) @ np.arange(classes)
    assert -np.log(probability[np.arange(400), truth]).mean() < 0.45
    leaves = [part for part in model.machine_.parts_of() if isinstance(part, InLeaves)]
    assert leaves[0].X.dtype == torch.float32
    assert int(leaves[0].partition.sizes.max()) <= 200


def test_a_fit_that_is_stopped_keeps_the_leaves_that_are_through(monkeypatch):
    monkeypatch.setattr(memory, "EXACT", 700)
    X, y = bumpy(1600)
    stopped = HGKRegressor(callback=lambda event: isinstance(event, LeavesGrown))
    with pytest.warns(StoppedEarlyWarning):
        model = fitted(stopped, X, y, leaf_rows=(50,), branch_rows=400, centres_beside=50)
    (leaves,) = [part for part in model.machine_.parts_of() if isinstance(part, InLeaves)]
    grown = last(model.history_, LeavesGrown)
    assert 0 < int((leaves.partition.sizes > 0).sum()) == grown.done < grown.of
    assert leaves.stand_in is not None
    told = last(model.history_, LeavesChosen)
    assert told.stopped
    assert told.partitions == 1
    assert "stopped before all leaves were grown" in told.words
    assert model.model_.error() is None  # what was judged is not what was grown
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.loo_predictions_).all()


def test_a_given_lam_is_that_of_every_leaf(monkeypatch):
    monkeypatch.setattr(memory, "EXACT", 700)
    X, y = bumpy(1200)
    model = fitted(HGKRegressor(lam=1e-4), X, y, leaf_rows=(200,), branch_rows=400, centres_beside=50)
    leaves = [part for part in model.machine_.parts_of() if isinstance(part, InLeaves)]
    assert leaves
    for part in leaves:
        np.testing.assert_allclose(part.cs, 1e-4 * 1200)
    assert model.lam_ == pytest.approx(1e-4)


@pytest.mark.parametrize("event", [LeavesJudged, LeavesChosen])
def test_a_stop_before_any_leaf_leaves_no_word_of_leaves(monkeypatch, event):
    monkeypatch.setattr(memory, "EXACT", 700)
    X, y = bumpy(1200)
    stopped = HGKRegressor(callback=lambda told: isinstance(told, event))
    with pytest.warns(StoppedEarlyWarning):
        model = fitted(stopped, X, y, **SMALL)
    assert isinstance(model.machine_, OnCentres)
    told = last(model.history_, LeavesChosen)
    assert told is None or (told.stopped and not told.taken)
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert 0.3 < model.model_.error()["rmse"] / error < 5


def test_weights_of_rows_change_no_scale():
    """c = λ Σ s is that of heavier rows, if all are."""
    rows = rows_of(300, repeated=False)
    parts = partition(rows.X, torch.ones(D), 100, np.random.default_rng(0))
    plan, cs = LeafPlan(100, 5, 0.2, 50), []
    for times in (1.0, 30.0):
        heavier = replace(rows, weight=times * rows.weight)
        tree = HandingTree(heavier, parts, 0, 0.0, Progress())
        cs.append(tree.learn(-1, Handed(KERNEL, 0.1 * times), plan).c)
    assert cs[1] / 30 == pytest.approx(cs[0], rel=1e-3)
