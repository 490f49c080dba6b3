"""Leaves that a device takes many at a time come to what each would come to alone; here on a processor."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk import HGKRegressor, StoppedEarlyWarning
from hgk.arrays import memory
from hgk.criteria import LeaveOneOut
from hgk.estimators.preparation import device_for
from hgk.events import LeavesChosen, LeavesGrown, last
from hgk.executor import SideBySide
from hgk.kernels import (
    HierarchicalKernel,
    Smooth,
    StackedSweep,
    Sweep,
    inhomogeneous,
    stackable,
    two_layers,
    with_kinds,
)
from hgk.learners import Default
from hgk.learners.default import KINDS, leaves_together
from hgk.learners.default.effort import LearningEffort
from hgk.learners.default.leaves import (
    Handed,
    HandingTree,
    LeafPlan,
    StepsOfNode,
    TrainingOfLeaf,
    left_out_error,
    one_by_one,
    trained,
)
from hgk.losses import LeastSquares, Logistic
from hgk.machines import InLeaves, Rows, StackedRows, padded, partition, stacks, train
from hgk.machines import stacked as stacked_rows
from hgk.optimisers import Adam
from hgk.optimisers.steps import Steps
from hgk.optimisers.together import ShortRun, leave_one_out, run_stacked
from hgk.progress import Progress
from hgk.solvers import inverse_factor, stacked_cholesky, stacked_solve
from hgk.solvers.least_squares import cholesky
from tasks import default_settings, numbers

D = 5
SIZES = [30, 33, 17]
TREE = with_kinds(two_layers(D, 4, 3), rough=[1], oblique=[0, 2], rank=2)


def kernels_of(tree, many=3):
    return [random_kernel(tree, seed=s, gamma=0.8 + 0.1 * s) for s in range(many)]


def learning(tree, seed=0):
    """A kernel whose weights optimisers move: they are positive."""
    kernel = random_kernel(tree, seed=seed)
    return kernel.with_weights([w.abs() if i < tree.depth else w for i, w in enumerate(kernel.W)])


def stack_of(kernels):
    W = tuple(map(torch.stack, zip(*(kernel.W for kernel in kernels), strict=True)))
    return W, torch.tensor([kernel.gamma for kernel in kernels], dtype=torch.float64)


def repeated(n, seed=0, outputs=2):
    """Rows that were given several times, with weights."""
    rows, rng = random_rows(n, outputs=outputs, seed=seed), np.random.default_rng(seed)
    count = torch.from_numpy(rng.integers(1, 4, n).astype(float))
    return Rows(rows.X, rows.Y, count * torch.from_numpy(rng.uniform(0.5, 2, n)), count)


def assert_near(ours, theirs, tolerance):
    """Relative to the largest entry."""
    assert float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-300)) <= tolerance


# ------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_stacked_kernels_and_their_gradients_are_the_plain_ones(name):
    tree = ARCHITECTURES[name]
    assert stackable(tree)
    kernels, sets = kernels_of(tree), [random_rows(n, seed=n).X + 3 for n in SIZES]
    _, present = padded([torch.arange(n) for n in SIZES], torch.device("cpu"))
    X = torch.stack([torch.nn.functional.pad(x, (0, 0, 0, 33 - len(x)), value=99.0) for x in sets])
    sweep = StackedSweep(tree, *stack_of(kernels), present, X)
    K, G = sweep.matrix(), torch.randn(3, 33, 33, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    G = (G + G.mT) * (present[:, None] & present[:, :, None])
    grads = sweep.backward(G)
    for b, (kernel, x) in enumerate(zip(kernels, sets, strict=True)):
        n, plain = len(x), Sweep(kernel, x)
        torch.testing.assert_close(K[b, :n, :n], plain.matrix(), rtol=0, atol=1e-12)
        assert torch.equal(K[b, n:], torch.eye(33, dtype=torch.float64)[n:])
        for ours, theirs in zip(grads, plain.backward(G[b, :n, :n]), strict=True):
            assert_near(ours[b], theirs, 1e-9)


@pytest.mark.parametrize("name", ["all kinds", "two exponents", "depth 3, uneven"])
def test_stacked_kernels_on_two_row_sets_and_in_single_precision(name):
    tree = ARCHITECTURES[name]
    kernels, rows = kernels_of(tree), random_rows(200, seed=1).X
    index = [torch.arange(n) + 40 for n in SIZES]
    places, present = padded(index, rows.device)
    X = torch.stack([rows[:20], rows[20:40], rows[10:30]])
    W, gammas = stack_of(kernels)
    K = StackedSweep(tree, W, gammas, present, X, rows[places]).matrix()
    single = StackedSweep(tree, W, gammas, present, X.float(), rows[places].float()).matrix()
    S = StackedSweep(tree, W, gammas, present, rows[places]).exponent()
    for b, (kernel, mine) in enumerate(zip(kernels, index, strict=True)):
        expected = kernel.matrix(X[b], rows[mine])
        torch.testing.assert_close(K[b, :, : len(mine)], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(single[b, :, : len(mine)].double(), expected, rtol=0, atol=1e-5)
        n = len(mine)
        torch.testing.assert_close(S[b, :n, :n], kernel.exponent(rows[mine]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [1, 3, 40])
def test_few_rows_of_many_columns_are_not_left_out(n):
    """Slabs of rows times columns have at least one row."""
    tree = with_kinds(two_layers(100, 3, 90), rough=[0, 2])
    rows, kernel = torch.randn(n + 50, 100, dtype=torch.float64), random_kernel(tree)
    X, Z = rows[:n], rows[n:]
    K = StackedSweep(tree, *stack_of([kernel]), torch.ones(1, 50, dtype=torch.bool), X[None], Z[None]).matrix()
    torch.testing.assert_close(K[0], kernel.matrix(X, Z), rtol=0, atol=1e-12)


@dataclass(frozen=True)
class ToyKind(Smooth):
    """A kind that nobody has said how to compute for many kernels."""

    stacked = None


def test_a_kind_without_a_stacked_worker_is_taken_one_by_one():
    toy = with_kinds(two_layers(D, 3, 2), kinds={1: ToyKind()})
    assert not stackable(toy)
    rows, tree = repeated(200), tree_of(repeated(200), 100)
    kernel = HierarchicalKernel(toy, tuple(mask.double() for mask in toy.free()))
    (alone,) = one_by_one([StepsOfNode(tree, -1, Handed(kernel, 0.5), LeafPlan(100, 2, 0.1, 50))])
    (learned,) = SideBySide().fulfil([StepsOfNode(tree, -1, Handed(kernel, 0.5), LeafPlan(100, 2, 0.1, 50))])
    (leaf,) = SideBySide().fulfil([TrainingOfLeaf(learned, rows, torch.arange(50), 1.0)])
    assert alone.c == learned.c
    assert not torch.equal(learned.kernel.W[0], kernel.W[0])
    assert torch.equal(leaf.alpha, trained(alone, rows[torch.arange(50)], 1.0).alpha)


# ------------------------------------------------------------------------------------------------------- factors


@pytest.mark.parametrize("n", [1, 20, 128, 129, 300])
def test_stacked_factors_are_those_of_each_matrix(n):
    """Filled up from 2/3 of n; the last matrix needs a ridge."""
    sizes = [n, -(-2 * n // 3), n]
    rows = random_rows(n)
    K = torch.eye(n, dtype=torch.float32).repeat(3, 1, 1)
    for b, size in enumerate(sizes):
        K[b, :size, :size] = random_kernel(inhomogeneous(D), seed=b).matrix(rows.X[:size]).float()
    K[2], c = 1.0, torch.full((3, n), 0.01, dtype=torch.float64)
    c[2] = 0.0
    L, ridges = stacked_cholesky(K, c, sizes)
    M = inverse_factor(L)
    for b, size in enumerate(sizes):
        expected, ridge = cholesky(K[b, :size, :size], c[b, :size], rounded=True)
        assert ridges[b] == ridge
        assert (ridge > 0) is (b == 2 and n > 1)
        torch.testing.assert_close(L[b, :size, :size].tril(), expected, rtol=1e-9, atol=1e-12)
        unit = torch.eye(n, dtype=torch.float64)
        torch.testing.assert_close(M[b] @ L[b].tril(), unit, rtol=0, atol=1e-8)
        assert torch.equal(M[b], M[b].tril())
        Y = torch.randn(size, 2, dtype=torch.float64)
        solved = stacked_solve(L[b : b + 1, :size, :size], Y[None])[0]
        torch.testing.assert_close(solved, torch.cholesky_solve(Y, expected), rtol=1e-6, atol=1e-8)
        assert not bool(M[b, size:, :size].any())


# --------------------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize("lam", [1e-6, 1e-2])
def test_the_stacked_criterion_is_leave_one_out(lam):
    """Single precision is for the larger λ alone."""
    rows, index = repeated(100), [torch.arange(n) for n in SIZES]
    batch, lams = StackedRows.of(rows, index), lam * torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    kernels = kernels_of(inhomogeneous(D))
    K = StackedSweep(inhomogeneous(D), *stack_of(kernels), batch.present, batch.X).matrix()
    value, dK, dlog_lam = leave_one_out(K, batch, lams)
    for b, mine in enumerate(index):
        n, one = len(mine), rows[mine]
        expected = LeaveOneOut()(K[b, :n, :n], one.Y, float(lams[b]), one.weight, one.count)
        assert float(value[b]) == pytest.approx(float(expected.value), rel=1e-5)
        assert_near(dK[b, :n, :n].double(), expected.dK, 1e-4 if lam > 1e-3 else 1e-8)
        assert not bool(dK[b, n:].any())
        assert float(dlog_lam[b]) == pytest.approx(float(expected.dlog_lam), rel=1e-3)


@pytest.mark.parametrize("tree", [TREE, inhomogeneous(D)], ids=["all kinds", "one node"])
@pytest.mark.parametrize("sizes", [[200, 90, 40, 23], [60]], ids=["several", "one"])
def test_steps_of_many_nodes_are_those_of_each(tree, sizes):
    rows, runs, alone, weights = repeated(300), [], [], []
    for b, n in enumerate(sizes):
        members, kernel, rng = torch.arange(n) + 10 * b, learning(tree, b), np.random.default_rng(b)
        mine, batch = rows[members], min(40, n)
        batches = [members[torch.from_numpy(mine.sample.draw(rng, batch))] for _ in range(4)]
        weights.append(batch * float(mine.weight.mean()))
        runs.append(ShortRun(kernel, 0.01 * (b + 1) * weights[-1], members, batches))
        settings, same = Adam(4, batch, 0.1, map_penalty=0.1), np.random.default_rng(b)
        alone.append(Steps(settings, kernel, mine, same, Progress(), lam=0.01 * (b + 1)).alone())
    results = run_stacked(runs, rows, settings, Progress())
    for (kernel, c), theirs, weight in zip(results, alone, weights, strict=True):
        assert theirs.step == 4
        assert c == pytest.approx(theirs.lam * weight, rel=1e-6)
        for w, v, start in zip(kernel.W, theirs.result().W, theirs.kernel.W, strict=True):
            assert w.device.type == "cpu"
            torch.testing.assert_close(w, v, rtol=0, atol=1e-4)
            assert not torch.allclose(v, start, rtol=2e-2, atol=2e-2)  # they have gone some way


def tree_of(rows, size=60, **more):
    parts = partition(rows.X, torch.ones(D), size, np.random.default_rng(0))
    return HandingTree(rows, parts, 0, 0.1, Progress(), **more)


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("few", [False, True], ids=["as many as there is room for", "one at a time"])
def test_kernels_are_handed_down_as_one_by_one(few, seen, monkeypatch):
    rows, loads = repeated(500, seed=1), []
    if few:
        monkeypatch.setattr(stacked_rows, "available_memory", lambda device: 0)
    take = run_stacked
    monkeypatch.setattr(
        leaves_together, "run_stacked", lambda asked, *more: loads.append(len(asked)) or take(asked, *more)
    )
    apart = torch.arange(500) % 5 > 0 if seen else None
    tree, plan = tree_of(rows, seen=apart), LeafPlan(60, 3, 0.1, 50)
    start, nodes = Handed(learning(TREE), 0.5), [-1 - leaf for leaf in range(len(tree.parts))]
    ours = tree.hand_down(start, nodes, plan, SideBySide().fulfil)
    assert (max(loads) == 1) is few
    theirs = tree.hand_down(start, nodes, plan, one_by_one)
    for node in nodes:
        assert ours[node].c == pytest.approx(theirs[node].c, rel=1e-4)
        for w, v in zip(ours[node].kernel.W, theirs[node].kernel.W, strict=True):
            torch.testing.assert_close(w, v, rtol=0, atol=1e-3)


def test_after_a_stop_kernels_are_handed_down_as_they_are():
    tree, start = tree_of(repeated(200)), Handed(random_kernel(TREE), 0.5)
    tree.progress.stopped = True
    plan = LeafPlan(60, 3, 0.1, 50)
    assert all(h is start for h in tree.hand_down(start, [-1, -2], plan, SideBySide().fulfil).values())


# -------------------------------------------------------------------------------------------------------- leaves


def leaves_of(gammas=(0.3, 2.0, 9.0, 1.0), c=None, cs=(0.5, 5.0, 0.001, 1e-6)):
    """Leaves that want other widths and c than they were given, in one direction and in the other."""
    rows, kernels = repeated(300, seed=2), kernels_of(TREE, 4)
    index = [torch.arange(a, b) for a, b in ((0, 90), (90, 170), (170, 265), (265, 300))]
    return [
        TrainingOfLeaf(Handed(kernel.with_gamma(gamma), before), rows, mine, 1.0, c)
        for kernel, gamma, before, mine in zip(kernels, gammas, cs, index, strict=True)
    ]


@pytest.mark.parametrize("clip", [0.2, 1.0])
def test_errors_of_leaving_one_out_are_those_of_each_leaf(clip):
    asked = [replace(one, clip=clip) for one in leaves_of()]
    which = torch.tensor([0, 3])
    factor, c = (torch.tensor(values, dtype=torch.float64) for values in ([0.8, 1.25], [0.5, 0.002]))
    errors = leaves_together.StackedLeaves(asked).error(which, factor, c).tolist()
    for b, place in enumerate(which.tolist()):
        one, rows = asked[place], asked[place].rows[asked[place].members]
        kernel = one.handed.kernel.with_gamma(one.handed.kernel.gamma * float(factor[b]))
        expected = left_out_error(kernel.matrix(rows.X.float()), rows, float(c[b]), clip)
        assert errors[b] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("given", [None, 0.3], ids=["c is chosen", "c is given"])
@pytest.mark.parametrize("few", [False, True], ids=["as many as there is room for", "one at a time"])
def test_leaves_choose_the_same_widths_and_c_and_have_the_same_machines(given, few, monkeypatch):
    if few:
        monkeypatch.setattr(stacked_rows, "available_memory", lambda device: 0)
    asked = leaves_of(c=given)
    ours, theirs = SideBySide().fulfil(asked), one_by_one(asked)
    moved = set()
    for one, other, before in zip(ours, theirs, asked, strict=True):
        assert one.kernel.gamma == pytest.approx(other.kernel.gamma, rel=1e-12)
        assert one.c == pytest.approx(other.c, rel=1e-12)
        assert one.ridge_added == other.ridge_added == 0
        assert_near(one.alpha, other.alpha, 1e-4)
        moved.add(round(other.kernel.gamma / before.handed.kernel.gamma, 3))
    assert len(moved) > 1  # not all have stayed, nor gone the same way


def test_large_leaves_keep_what_was_handed_down(monkeypatch):
    monkeypatch.setattr(leaves_together, "TUNED", 85)
    asked = leaves_of()
    for leaf, one in zip(SideBySide().fulfil(asked), asked, strict=True):
        if len(one.members) > 85:
            assert (leaf.kernel.gamma, leaf.c) == (one.handed.kernel.gamma, max(one.handed.c, 1e-3))
            K = one.handed.kernel.matrix(one.rows.X[one.members])
            rest = K @ leaf.alpha + leaf.c / one.rows.weight[one.members, None] * leaf.alpha - one.rows.Y[one.members]
            assert float(rest.abs().max()) < 1e-4


def test_a_leaf_that_needs_a_ridge_is_trained_alone():
    """Equal rows, and c below the rounding of their kernel matrix."""
    rows = random_rows(60)
    rows.X[:30] = rows.X[:1]
    index = [torch.arange(0, 30), torch.arange(30, 60)]
    asked = [TrainingOfLeaf(Handed(random_kernel(inhomogeneous(D)), 1.0), rows, mine, 1.0, 1e-18) for mine in index]
    ours, theirs = SideBySide().fulfil(asked), one_by_one(asked)
    assert ours[0].ridge_added == theirs[0].ridge_added > 0
    torch.testing.assert_close(ours[0].alpha, theirs[0].alpha)


def test_sets_of_one_load_are_alike_and_fit(monkeypatch):
    monkeypatch.setattr(stacked_rows, "available_memory", lambda device: 2 * 350)
    loads = stacks([10, 100, 99, 90, 50, 98, 7], lambda size: size, torch.device("cpu"))
    assert loads == [[1, 2, 5], [3], [4], [0], [6]]


# --------------------------------------------------------------------------------------------------- predictions


def in_leaves(rows, own=True, dtype=torch.float32):
    parts, kernel = partition(rows.X, torch.ones(D), 40, np.random.default_rng(0)), random_kernel(TREE)
    factors = torch.linspace(0.8, 1.2, len(parts), dtype=torch.float64)
    W = tuple(torch.stack([f * w for f in factors]) for w in kernel.W) if own else ()
    alpha = torch.from_numpy(np.random.default_rng(1).standard_normal(rows.Y.shape))
    return InLeaves(kernel, 0.01, rows.X.to(dtype), alpha, partition=parts, W=W, gammas=factors, cs=0.1 * factors)


@pytest.mark.parametrize("own", [False, True], ids=["one kernel", "a kernel for each"])
@pytest.mark.parametrize(("new", "memory_free"), [(1, 1e9), (7, 1e9), (500, 1e9), (500, 0)])
def test_predictions_of_many_leaves_are_those_of_each(own, new, memory_free, monkeypatch):
    monkeypatch.setattr(stacked_rows, "available_memory", lambda device: memory_free)
    monkeypatch.setattr("hgk.machines.leaves_stacked.AT_A_TIME", 16)
    machine, X = in_leaves(repeated(300), own), random_rows(new, seed=5).X
    expected = machine(X)
    monkeypatch.setattr("hgk.machines.leaves.accelerated", lambda x: True)
    ours = machine(X)
    assert ours.dtype == expected.dtype
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)


def test_a_stand_in_predicts_for_leaves_without_rows(monkeypatch):
    rows, X = repeated(300), random_rows(80, seed=5).X
    machine = in_leaves(rows)
    machine = replace(
        machine, partition=machine.partition.first_leaves(3), stand_in=train(random_kernel(TREE), rows, 0.1)
    )
    expected = machine(X)
    monkeypatch.setattr("hgk.machines.leaves.accelerated", lambda x: True)
    torch.testing.assert_close(machine(X), expected, rtol=0, atol=2e-5)


# ------------------------------------------------------------------------------------------------------ the whole


def bumpy(n, seed=0):
    """Fast where x0 is large, slow elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 3))
    return X, np.sin(2 + 40 * X[:, 0] ** 3) + X[:, 1] * (X[:, 2] > 0.5) + 0.3 * rng.standard_normal(n)


def fitted(estimator, X, y, sample_weight=None, **changes):
    """By one kind of tree and few steps, beyond 1000 rows in leaves."""
    usual = {"effort": LearningEffort(1, 10, 201), "divided": 1000, "kinds": KINDS[2:3], "leaf_margin": -100.0}
    with default_settings(**usual | changes):
        return estimator.set_params(random_state=0).fit(X, y, sample_weight)


def as_on_a_device(monkeypatch):
    """Leaves go together, as they do where rows lie on an accelerator."""
    monkeypatch.setattr("hgk.learners.default.leaves.accelerated", lambda x: True)
    monkeypatch.setattr("hgk.machines.leaves.accelerated", lambda x: True)
    monkeypatch.setattr("hgk.estimators.base.executor_for", lambda *_: SideBySide())


@pytest.mark.parametrize("exact", [700, 10_000], ids=["beyond the exact machine", "beside it"])
def test_a_fit_whose_leaves_go_together_is_that_whose_leaves_go_one_by_one(exact, monkeypatch):
    monkeypatch.setattr(memory, "EXACT", exact)
    X, y = bumpy(1200)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    few = {"leaf_rows": (150, 300), "branch_rows": 400, "centres_beside": 50}
    one = fitted(HGKRegressor(), X, y, sample_weight=weight, **few)
    as_on_a_device(monkeypatch)
    other = fitted(HGKRegressor(), X, y, sample_weight=weight, **few)
    chosen = [last(model.history_, LeavesChosen) for model in (one, other)]
    assert chosen[0].taken
    assert (chosen[0].size, chosen[0].steps, chosen[0].share) == (chosen[1].size, chosen[1].steps, chosen[1].share)
    for mine, theirs in zip(leaves_in(one), leaves_in(other), strict=True):
        assert torch.equal(mine.partition.order, theirs.partition.order)
        torch.testing.assert_close(mine.gammas, theirs.gammas, rtol=1e-9, atol=0)
        torch.testing.assert_close(mine.cs, theirs.cs, rtol=1e-3, atol=0)
    X_new, _ = bumpy(300, seed=1)
    np.testing.assert_allclose(other.predict(X_new), one.predict(X_new), atol=1e-3 * np.ptp(y))
    np.testing.assert_allclose(other.loo_predictions_, one.loo_predictions_, atol=1e-3 * np.ptp(y))


def leaves_in(model):
    return [part for part in model.machine_.parts_of() if isinstance(part, InLeaves)]


def test_a_stop_keeps_the_leaves_that_went_together(monkeypatch):
    monkeypatch.setattr(memory, "EXACT", 700)
    monkeypatch.setattr("hgk.learners.default.leaves.ON_A_DEVICE", 8)
    as_on_a_device(monkeypatch)
    X, y = bumpy(1600)
    stopped = HGKRegressor(callback=lambda event: isinstance(event, LeavesGrown))
    with pytest.warns(StoppedEarlyWarning):
        model = fitted(stopped, X, y, leaf_rows=(50,), branch_rows=400, centres_beside=50)
    (leaves,) = leaves_in(model)
    assert int((leaves.partition.sizes > 0).sum()) == last(model.history_, LeavesGrown).done == 8
    assert np.isfinite(model.predict(X)).all()


def test_other_losses_in_leaves_are_the_processors(monkeypatch):
    rows, learner = random_rows(300), Default()
    monkeypatch.setattr("hgk.estimators.preparation.device_of", lambda name: torch.device("meta"))
    monkeypatch.setattr(memory, "EXACT", 200)
    for loss, exact in ((LeastSquares(), True), (Logistic(), False)):
        assert (device_for("cuda", rows, numbers(), loss, learner).type == "meta") is exact
    monkeypatch.setattr(memory, "EXACT", 300)
    assert device_for("cuda", rows, numbers(), Logistic(), learner).type == "meta"
