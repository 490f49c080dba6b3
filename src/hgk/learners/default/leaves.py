"""Local weights: partitions into leaves, each with a kernel that was handed down to it.

From the top of a partition's tree down, every node takes its parent's kernel and c = nλ, and some leave-one-out steps
on its own rows; a leaf then chooses its width and c by leaving one out. What is decided, by rows that no gradient has
seen and on a few branches of the tree where rows are many:

    the size of leaves, and whether their kernels take steps at all
    the share p of the machine on all rows, f_0:      f = p f_0 + (1 - p) Σ_t f_t / T   for T partitions
    whether leaves are taken at all: if that is better; where f_0 is exact, by more than a standard error

With residuals r_0, and r_1, r_2 of two partitions, E r_1² = b + v and E r_1 r_2 = b, the mean of T partitions has the
error b + v/T, so that two say which p is best for any T:

    p² E r_0² + 2 p (1 - p) E r_0 r_1 + (1 - p)² (b + v/T)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hgk.arrays import accelerated
from hgk.criteria import invert
from hgk.events import LeavesGrown
from hgk.executor import Request
from hgk.kernels import HierarchicalKernel
from hgk.machines import (
    Direction,
    InLeaves,
    Machine,
    MeanOfMachines,
    Partition,
    Rows,
    partition,
    principal_direction,
    random_direction,
)
from hgk.optimisers import Adam
from hgk.optimisers.steps import Steps
from hgk.optimisers.together import ShortRun
from hgk.progress import Progress
from hgk.solvers.least_squares import cholesky

if TYPE_CHECKING:
    from hgk.executor import Executor
    from hgk.learners.default.settings import Settings
    from hgk.optimisers.runs import AdamRun

Fulfil = Callable[[Sequence[Request]], list]
# Factors by which a leaf may change its width and c, one after the other as long as that helps, and how often.
NARROWER, QUIETER, LEAF_TRIES = 0.8, 0.5, 2
# Rows of a leaf up to which it does, since every try takes a factor and its inverse.
TUNED = 1500
# Leaves that a device trains between two words about it.
ON_A_DEVICE = 256
# c below this drowns in the rounding of a kernel matrix in single precision.
LEAST_C = 1e-3
# Rounding that predictions of a leaf may have, in standard deviations of its labels; that of a product in Σ |α|; rows
# by which it is measured; and factors of c until that holds.
ROUNDING, UNIT, CHECKED, RAISE, RAISES = 0.01, 1e-6, 64, 4.0, 6


@dataclass(frozen=True)
class LeafPlan:
    """At most so many rows in a leaf, and steps of every node at this rate on batches of so many rows.

    ``c`` is that of all leaves, where λ was given; None lets each choose its own. Methods say what leaves are trained
    for, here least squares.
    """

    size: int
    steps: int
    rate: float
    batch: int
    c: float | None = None

    def clip(self, clip: float) -> float:
        """Of values, where those of least squares are clipped at ``clip``."""
        return clip

    def training(self, handed: Handed, rows: Rows, members: torch.Tensor, clip: float) -> Request:
        """What makes a leaf of these rows."""
        return TrainingOfLeaf(handed, rows, members, clip, self.c)

    def reads(self, target: Any) -> Any:
        """The target as values of leaves are read."""
        return target

    def machine(self, sums: InLeaves, leaves: Sequence[Leaf]) -> InLeaves:
        """Of these leaves, from their sums."""
        return sums

    def stands_in(self, rows: Rows, X: torch.Tensor, handed: Handed, rng: np.random.Generator) -> Machine | None:
        """What takes the place of leaves that a stop has left out; None for the machine on all rows."""
        return None

    def mean(self, whole: Machine, grown: Sequence[Machine], share: float) -> Machine:
        """Of partitions, and of the machine on all rows by its share."""
        others = (1 - share) / len(grown)
        return MeanOfMachines((whole, *grown), (share, *(others,) * len(grown)))


@dataclass(frozen=True, eq=False)
class Handed:
    """What a node hands down to its children."""

    kernel: HierarchicalKernel
    c: float


@dataclass(frozen=True, eq=False)
class Leaf:
    """A leaf's kernel with its width, c, coefficients, and the ridge that was added."""

    kernel: HierarchicalKernel
    c: float
    alpha: torch.Tensor
    ridge_added: float


def metric(kernel: HierarchicalKernel, X: torch.Tensor) -> torch.Tensor:
    """What columns are multiplied by, such that their variances are their shares of the exponent."""
    seen = X[:: max(1, len(X) // 500)].double().cpu()
    deviation = seen.std(0)
    share = torch.from_numpy(kernel.relevance(seen))
    return torch.where(deviation > 0, (share / deviation.clamp_min(1e-300) ** 2).sqrt(), 0.0)


def direction_of(number: int) -> Direction:
    """The first partition goes by principal directions, the others by random ones."""
    return random_direction if number else principal_direction


class HandingTree:
    """A partition's tree, along which kernels are handed down.

    Nodes are those of the partition: splits, and leaf l as -1 - l. ``seen`` says on which rows steps are made.
    """

    def __init__(
        self,
        rows: Rows,
        parts: Partition,
        seed: int,
        map_penalty: float,
        progress: Progress,
        seen: torch.Tensor | None = None,
    ):
        self.rows, self.parts, self.seed, self.map_penalty, self.progress = rows, parts, seed, map_penalty, progress
        self.seen = seen
        self.parent = {child: i for i, pair in enumerate(parts.children.tolist()) for child in pair}

    def leaves_of(self, size: int) -> list[int]:
        """The largest nodes of at most ``size`` rows, and leaves that are larger, from left to right."""
        waiting, leaves = [self.parts.top], list[int]()
        while waiting:
            node = waiting.pop()
            if node < 0 or len(self.parts.members(node)) <= size:
                leaves.append(node)
            else:
                waiting += reversed(self.parts.children[node].tolist())
        return leaves

    def hand_down(self, handed: Handed, nodes: Sequence[int], plan: LeafPlan, fulfil: Fulfil) -> dict[int, Handed]:
        """The kernels of these nodes, level by level, from that of the top."""
        return hand_down([(self, handed, nodes)], plan, fulfil)[0]

    def levels_to(self, nodes: Sequence[int]) -> list[list[int]]:
        """The nodes on the way from the top to these, below the top, level by level."""
        depth = {self.parts.top: 0}
        for node in nodes:
            way = [node]
            while way[-1] not in depth:
                way.append(self.parent[way[-1]])
            for place, passed in enumerate(reversed(way)):
                depth[passed] = depth[way[-1]] + place
        levels: list[list[int]] = [[] for _ in range(max(depth.values()))]
        for node in sorted(depth.keys() - {self.parts.top}):
            levels[depth[node] - 1].append(node)
        return levels

    def learn(self, node: int, handed: Handed, plan: LeafPlan) -> Handed:
        """Some steps on rows of the node."""
        steps = self.steps_of(node, handed, plan)
        return handed if steps is None else handed_on(steps.alone())

    def sample_of(self, node: int, handed: Handed, plan: LeafPlan) -> tuple[torch.Tensor, np.random.Generator] | None:
        """The rows that steps are made on, as many as will be drawn; None for nothing to learn, or no time."""
        rng, members = np.random.default_rng([self.seed, node + len(self.parts)]), self.parts.members(node)
        members = members if self.seen is None else members[self.seen[members]]
        if self.progress.cut() or len(members) < 2 or handed.kernel.architecture.tied:
            return None
        many = plan.steps * min(plan.batch, len(members))
        if len(members) > many:
            members = members[torch.from_numpy(np.sort(self.rows.sample_of(members).draw(rng, many)))]
        return members, rng

    def steps_of(self, node: int, handed: Handed, plan: LeafPlan) -> Steps | None:
        """These steps."""
        if (drawn := self.sample_of(node, handed, plan)) is None:
            return None
        mine, batch = self.rows[drawn[0]], min(plan.batch, len(drawn[0]))
        settings = Adam(plan.steps, batch, plan.rate, map_penalty=self.map_penalty)
        weight = batch * float(mine.weight.mean())  # of a batch
        return Steps(settings, handed.kernel, mine, drawn[1], Progress(), lam=handed.c / weight, often=True)

    def short_run_of(self, node: int, handed: Handed, plan: LeafPlan) -> ShortRun | None:
        """The same steps, to be taken together with those of other nodes."""
        if (drawn := self.sample_of(node, handed, plan)) is None:
            return None
        members, rng = drawn
        sample, batch = self.rows.sample_of(members), min(plan.batch, len(members))
        batches = [members[torch.from_numpy(sample.draw(rng, batch))] for _ in range(plan.steps)]
        return ShortRun(handed.kernel, handed.c, members, batches)


def hand_down(
    asked: Sequence[tuple[HandingTree, Handed, Sequence[int]]], plan: LeafPlan, fulfil: Fulfil
) -> list[dict[int, Handed]]:
    """The kernels of nodes of several trees, level by level, from those of their tops."""
    if not plan.steps:
        return [dict.fromkeys(nodes, handed) for _, handed, nodes in asked]
    known = [{tree.parts.top: handed} for tree, handed, _ in asked]
    for levels in zip_longest(*(tree.levels_to(nodes) for tree, _, nodes in asked), fillvalue=[]):
        places = [(t, node) for t, level in enumerate(levels) for node in level]
        trees = [asked[t][0] for t, _ in places]
        steps = [
            StepsOfNode(tree, node, known[t][tree.parent[node]], plan)
            for tree, (t, node) in zip(trees, places, strict=True)
        ]
        for (t, node), handed in zip(places, fulfil(steps), strict=True):
            known[t][node] = handed
    return [{node: of_tree[node] for node in nodes} for of_tree, (_, _, nodes) in zip(known, asked, strict=True)]


def handed_on(run: AdamRun) -> Handed:
    """What a node has made of what was handed down to it."""
    return Handed(run.result(), run.lam * run.settings.batch * float(run.rows.weight.mean()))


@dataclass(frozen=True, eq=False)
class StepsOfNode(Request):
    """What :meth:`HandingTree.learn` says, of nodes that have kernels of one tree."""

    tree: HandingTree
    node: int
    handed: Handed
    plan: LeafPlan

    def alone(self) -> Handed:
        return self.tree.learn(self.node, self.handed, self.plan)

    @classmethod
    def together(cls, requests):
        from hgk.learners.default.leaves_together import learned_together  # which takes what is defined here

        return learned_together(requests)


def one_by_one(requests: Sequence[Request]) -> list:
    return [request.alone() for request in requests]


# ----------------------------------------------------------------------------------------------------------- leaves


def trained(handed: Handed, rows: Rows, clip: float, given_c: float | None = None) -> Leaf:
    """The exact machine of a leaf; its width and c by leaving one out, starting from those that were handed down."""
    S, c = handed.kernel.exponent(rows.X.float(), often=True), max(handed.c, LEAST_C) if given_c is None else given_c

    def at(factor: float) -> torch.Tensor:
        return torch.mul(S, -((handed.kernel.gamma * factor) ** -2)).exp_()

    tries = LEAF_TRIES if len(rows) <= TUNED else 0
    factor = downhill(lambda factor: left_out_error(at(factor), rows, c, clip), 1.0, NARROWER, tries)
    K = at(factor)
    if given_c is None:
        c = max(LEAST_C, downhill(lambda c: left_out_error(K, rows, c, clip), c, QUIETER, tries))
    kernel = handed.kernel.with_gamma(handed.kernel.gamma * factor)
    leaf = _solved(kernel, K, rows, c)
    for _ in range(RAISES if given_c is None else 0):
        if holds(leaf, rows):
            break
        leaf = _solved(kernel, K, rows, leaf.c * RAISE)
    return leaf


def _solved(kernel: HierarchicalKernel, K: torch.Tensor, rows: Rows, c: float) -> Leaf:
    L, ridge = cholesky(K, c / rows.weight, rounded=True)
    if ridge:  # c is below the rounding of single precision
        L, ridge = cholesky(kernel.matrix(rows.X.double()), c / rows.weight)
    return Leaf(kernel, c, torch.cholesky_solve(rows.Y, L), ridge)


def holds(leaf: Leaf, rows: Rows) -> bool:
    """Whether predictions in single precision are those that the coefficients stand for, f(x_i) = y_i - c α_i / s_i.

    Where c is small, coefficients are large and cancel; what they sum to may then be rounding alone. Up to a hundredth
    of the labels' deviation, or a tenth of the residuals', does no harm.
    """
    allowed = ROUNDING**2 * float(rows.Y.var(0).mean())
    if (UNIT * float(leaf.alpha.abs().sum(0).max())) ** 2 <= allowed:
        return True
    part = torch.arange(0, len(rows), -(-len(rows) // CHECKED))
    some, residual = rows[part], (leaf.c / rows.weight[part, None] + leaf.ridge_added) * leaf.alpha[part]
    t = leaf.kernel.multiply(some.X.float(), rows.X.float(), leaf.alpha.float(), often=True).double()
    rounding = float((t - (some.Y - residual)).square().mean())
    return rounding <= allowed + float(residual.square().mean()) / 100


@dataclass(frozen=True, eq=False)
class TrainingOfLeaf(Request):
    """What :func:`trained` says, of leaves that have kernels of one tree."""

    handed: Handed
    rows: Rows
    members: torch.Tensor
    clip: float
    c: float | None = None

    def alone(self) -> Leaf:
        return trained(self.handed, self.rows[self.members], self.clip, self.c)

    @classmethod
    def together(cls, requests):
        from hgk.learners.default.leaves_together import trained_together  # which takes what is defined here

        return trained_together(requests)


def downhill(value: Callable[[float], float], start: float, factor: float, tries: int) -> float:
    """Downhill from ``start`` by factors, in the one direction or in the other."""
    place, best = start, value(start) if tries else 0.0
    for change in (factor, 1 / factor):
        for _ in range(tries):
            option = value(place * change)
            if not option < best:
                break
            place, best = place * change, option
        if place != start:
            break
    return place


def left_out_error(K: torch.Tensor, rows: Rows, c: float, clip: float) -> float:
    """The error of clipped predictions of rows that were left out (see :mod:`hgk.criteria`)."""
    s, m = rows.weight[:, None], rows.repetitions[:, None]
    inverse = invert(K, rows.Y, c / float(s.sum()), rows.weight, torch.float32 if c > 1e-2 else torch.float64)
    D = inverse.G.diagonal()[:, None].double() / m + (1 - 1 / m) * s / c
    t = (rows.Y - inverse.alpha / D).clamp(-clip, clip)
    return float((s * (t - rows.Y) ** 2).sum() / s.sum())


# ---------------------------------------------------------------------------------------------------------- judging


@dataclass(frozen=True, eq=False)
class Judgement:
    """A plan on the rows set aside that were judged: predictions of two partitions, and their leaves."""

    plan: LeafPlan
    t: torch.Tensor  # (2, rows, outputs), clipped
    leaves: list[tuple[Handed, torch.Tensor]]  # with their rows
    seconds: float  # of one worker, for every row that leaves were made of


@dataclass(frozen=True, eq=False)
class Branch:
    """A part of the rows that is divided twice, and the rows set aside that fall into it."""

    number: int
    trees: tuple[HandingTree, HandingTree]
    out: torch.Tensor


class LeafTrial:
    """Leaves of two partitions, grown on rows that are not set aside; where rows are many, in some branches alone."""

    def __init__(
        self,
        rows: Rows,
        rest: torch.Tensor,
        out: torch.Tensor,
        kernels: Sequence[Handed],
        smallest: int,
        largest: int,
        rng: np.random.Generator,
        settings: Settings,
        progress: Progress,
        clip: float,
        directions: Callable[[int], Direction] = direction_of,
    ):
        self.rows, self.kernels, self.settings, self.clip = rows, [*kernels, *kernels][:2], settings, clip
        self.rest = rest
        self.scales = [metric(handed.kernel, rows.X) for handed in self.kernels]
        X = rows.X
        whole = partition(X, self.scales[0], largest, rng, index=rest)
        self.tree = HandingTree(rows, whole, int(rng.integers(2**32)), settings.map_penalty, progress)
        leaf, numbers = whole.route(rows.X[out]).cpu(), rng.permutation(len(whole))[: settings.branches]
        self.known: dict[tuple[int, int], list[dict[int, Handed]]] = {}
        self.branches = []
        for number in sorted(numbers.tolist()):
            members = whole.rows(number)
            parts = [
                partition(X, scale, smallest, rng, directions(t), index=members) for t, scale in enumerate(self.scales)
            ]
            seeds = rng.integers(2**32, size=2).tolist()
            trees = [HandingTree(rows, p, s, settings.map_penalty, progress) for p, s in zip(parts, seeds, strict=True)]
            self.branches.append(Branch(number, (trees[0], trees[1]), out[leaf == number]))

    @cached_property
    def index(self) -> torch.Tensor:
        """The rows set aside that are judged."""
        return torch.cat([branch.out for branch in self.branches])

    def judge(self, plan: LeafPlan, executor: Executor) -> Judgement:
        begun, trees = time.monotonic(), [branch.trees[t] for t in range(2) for branch in self.branches]
        known, clip = self.handed_to(trees, plan, executor), plan.clip(self.clip)
        asked = [
            plan.training(below[node], self.rows, tree.parts.members(node), self.clip)
            for tree, below in zip(trees, known, strict=True)
            for node in below
        ]
        grown = iter(executor.fulfil(asked))
        made = [[(node, next(grown)) for node in below] for below in known]
        outs = [branch.out for branch in self.branches] * 2
        jobs = [partial(self._predicted, *parts) for parts in zip(trees, made, outs, strict=True)]
        t = torch.cat(executor.run(jobs)).reshape(2, len(self.index), -1).clamp(-clip, clip)
        grown_rows = sum(len(tree.parts.order) for tree in trees)
        seconds = (time.monotonic() - begun) * min(executor.workers, len(asked)) / grown_rows
        leaf_rows = [
            (leaf, tree.parts.members(node)) for tree, its in zip(trees, made, strict=True) for node, leaf in its
        ]
        return Judgement(plan, t, [(Handed(leaf.kernel, leaf.c), members) for leaf, members in leaf_rows], seconds)

    def handed_to(self, trees: Sequence[HandingTree], plan: LeafPlan, executor: Executor) -> list[dict[int, Handed]]:
        """The kernels of the leaves of each tree; the same for all plans of this size with so many steps."""
        if (plan.size, plan.steps) not in self.known:
            nodes = [-1 - branch.number for branch in self.branches]
            tops = hand_down([(self.tree, handed, nodes) for handed in self.kernels], plan, executor.fulfil)
            handed = [tops[t][node] for t in range(2) for node in nodes]
            leaves = [tree.leaves_of(plan.size) for tree in trees]
            asked = list(zip(trees, handed, leaves, strict=True))
            self.known[plan.size, plan.steps] = hand_down(asked, plan, executor.fulfil)
        return self.known[plan.size, plan.steps]

    def criterion(self, judgement: Judgement, executor: Executor) -> float:
        """The error of leaving one out in some leaves, which flatters: their kernels have seen the rows."""
        size = max(len(members) for _, members in judgement.leaves)
        many = max(executor.workers, 2**15 // size)
        looked_at = judgement.leaves[:: -(-len(judgement.leaves) // many)]

        def error(handed: Handed, members: torch.Tensor) -> float:
            rows = self.rows[members]
            return left_out_error(handed.kernel.matrix(rows.X.float()), rows, handed.c, self.clip)

        return float(np.mean(executor.run([partial(error, *leaf) for leaf in looked_at])))

    def _predicted(self, tree: HandingTree, leaves: Sequence[tuple[int, Leaf]], out: torch.Tensor) -> torch.Tensor:
        """Of the rows set aside, by the leaves of these nodes."""
        leaf_of, t = tree.parts.route(self.rows.X[out]).cpu(), self.rows.Y.new_zeros(len(out), self.rows.Y.shape[1])
        for node, leaf in leaves:
            start, stop = tree.parts.span(node)
            mine = ((leaf_of >= start) & (leaf_of < stop)).nonzero()[:, 0]
            if len(mine):
                X, Z = self.rows.X[out[mine]].float(), self.rows.X[tree.parts.members(node)].float()
                t[mine] = leaf.kernel.multiply(X, Z, leaf.alpha.float(), often=True).to(t)
        return t


def best_share(r_0: torch.Tensor, r: torch.Tensor, weight: torch.Tensor, partitions: int) -> float:
    """p of the formula above, for residuals r_0 of the machine on all rows and r of two partitions, in [0, 1]."""
    s = weight / weight.sum()

    def mean(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(s @ (a * b).sum(1))

    b = mean(r[0], r[1])
    spread = max(0.0, (mean(r[0], r[0]) + mean(r[1], r[1])) / 2 - b)
    leaves, cross, whole = b + spread / partitions, mean(r_0, r.mean(0)), mean(r_0, r_0)
    curvature = whole + leaves - 2 * cross
    return min(1.0, max(0.0, (leaves - cross) / curvature)) if curvature > 0 else 0.0


# ---------------------------------------------------------------------------------------------------------- growing


def grow(
    rows: Rows,
    X: torch.Tensor,
    handed: Handed,
    plan: LeafPlan,
    number: int,
    rng: np.random.Generator,
    settings: Settings,
    executor: Executor,
    progress: Progress,
    clip: float,
    stand_in: Callable[[], Machine],
) -> InLeaves | None:
    """A partition of all rows; after a stop another machine stands in for leaves without one, None if all are.

    ``X`` are the rows that the machine keeps, in the precision that it computes in.
    """
    parts = partition(rows.X, metric(handed.kernel, rows.X), plan.size, rng, direction_of(number))
    tree = HandingTree(rows, parts, int(rng.integers(2**32)), settings.map_penalty, progress)
    nodes = [-1 - leaf for leaf in range(len(parts))]
    known = tree.hand_down(handed, nodes, plan, executor.fulfil)
    leaves: list[Leaf] = []
    at_once = ON_A_DEVICE if accelerated(rows.X) else 8 * executor.workers
    for start in range(0, len(nodes), at_once):
        if progress.cut():
            break
        due = nodes[start : start + at_once]
        leaves += executor.fulfil([plan.training(known[node], rows, tree.parts.members(node), clip) for node in due])
        progress.report(LeavesGrown(partition=number, done=len(leaves), of=len(nodes)))
    if not leaves:
        return None
    other = stand_in() if len(leaves) < len(nodes) else None
    return plan.machine(assembled(rows, X, parts, leaves, handed, other), leaves)


def assembled(
    rows: Rows, X: torch.Tensor, parts: Partition, leaves: Sequence[Leaf], handed: Handed, stand_in: Machine | None
) -> InLeaves:
    """The machine of leaves, of which the last may be lacking."""
    lacking = len(parts) - len(leaves)
    parts = parts.first_leaves(len(leaves))
    alpha = torch.zeros_like(rows.Y)
    for number, leaf in enumerate(leaves):
        alpha[parts.rows(number)] = leaf.alpha
    kernels = [leaf.kernel for leaf in leaves] + [handed.kernel] * lacking
    cs = torch.tensor([leaf.c for leaf in leaves] + [handed.c] * lacking, dtype=torch.float64)
    gammas = torch.tensor([kernel.gamma for kernel in kernels], dtype=torch.float64)
    moved = any(w is not v for kernel in kernels for w, v in zip(kernel.W, handed.kernel.W, strict=True))
    W = tuple(torch.stack(arrays) for arrays in zip(*(kernel.W for kernel in kernels), strict=True)) if moved else ()
    lam = float(cs.log().mean().exp()) / float(rows.weight.sum())
    ridge = max((leaf.ridge_added for leaf in leaves), default=0.0)
    sums = handed.kernel, lam, X, alpha, ridge
    return InLeaves(*sums, partition=parts, W=W, gammas=gammas, cs=cs, stand_in=stand_in)
