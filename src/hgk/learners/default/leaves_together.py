"""Leaves on an accelerator: many take their steps and are trained at once, to what each would come to alone.

A device does one small thing after another no faster than a processor can ask for them; a hundred leaves keep it busy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from hgk.kernels import StackedSweep, bytes_of_sweep, isolated, stackable
from hgk.learners.default.leaves import (
    LEAF_TRIES,
    LEAST_C,
    NARROWER,
    QUIETER,
    TUNED,
    Handed,
    Leaf,
    StepsOfNode,
    TrainingOfLeaf,
    handed_on,
    holds,
    one_by_one,
)
from hgk.machines import StackedRows, stacks
from hgk.optimisers.steps import Steps
from hgk.optimisers.together import bytes_of_run, run_stacked
from hgk.solvers import inverse_factor, stacked_cholesky


def learned_together(asked: Sequence[StepsOfNode]) -> list[Handed]:
    """What :meth:`HandingTree.learn` makes of each."""
    tree, architecture = asked[0].tree, asked[0].handed.kernel.architecture
    run_all = run_stacked if stackable(architecture) else Steps.together
    sizes = [min(one.plan.batch, len(one.tree.parts.members(one.node))) for one in asked]
    handed = [one.handed for one in asked]
    for load in stacks(sizes, lambda size: bytes_of_run(architecture, size), tree.rows.X.device):
        steps = {i: asked[i].tree.steps_of(asked[i].node, asked[i].handed, asked[i].plan) for i in load}
        known = {i: one for i, one in steps.items() if one is not None}
        for i, run in zip(known, run_all(list(known.values())) if known else [], strict=True):
            handed[i] = handed_on(run)
    return handed


def trained_together(asked: Sequence[TrainingOfLeaf]) -> list[Leaf]:
    """What :func:`trained` makes of each."""
    architecture, device = asked[0].handed.kernel.architecture, asked[0].rows.X.device
    if not stackable(architecture):
        return one_by_one(asked)

    def need(size: int) -> float:
        return bytes_of_sweep(architecture, size**2) + 8 * 5 * size**2

    leaves: dict[int, Leaf] = {}
    for load in stacks([len(one.members) for one in asked], need, device):
        leaves |= zip(load, StackedLeaves([asked[i] for i in load]).trained(), strict=True)
    return [leaves[i] for i in range(len(asked))]


class StackedLeaves:
    """Leaves of much the same size, with their exponents S."""

    def __init__(self, asked: Sequence[TrainingOfLeaf]):
        self.asked = asked
        self.rows = StackedRows.of(asked[0].rows, [one.members for one in asked])
        self.kernels = [one.handed.kernel for one in asked]
        self.gammas = torch.tensor([kernel.gamma for kernel in self.kernels], dtype=torch.float64)
        W = tuple(torch.stack(parts) for parts in zip(*(kernel.W for kernel in self.kernels), strict=True))
        present, X = self.rows.present, self.rows.X
        self.S = StackedSweep(self.kernels[0].architecture, W, self.gammas.to(X.device), present, X).exponent()
        self.tuned = torch.tensor([len(one.members) <= TUNED for one in asked])

    def trained(self) -> list[Leaf]:
        """As each would be alone; alone where a ridge is needed, or another c."""
        given = [one.c for one in self.asked]
        cs = [max(one.handed.c, LEAST_C) if c is None else c for one, c in zip(self.asked, given, strict=True)]
        c = torch.tensor(cs, dtype=torch.float64)
        every, free = torch.ones_like(c), torch.tensor([one is None for one in given])
        factor = smallest(lambda which, factor: self.error(which, factor, c[which]), every, NARROWER, self.tuned)
        tried = smallest(lambda which, c: self.error(which, factor[which], c), c, QUIETER, self.tuned & free)
        c = torch.where(free, tried.clamp_min(LEAST_C), c)
        L, ridges = self.factored(torch.arange(len(c)), factor, c)
        alpha, gammas = torch.cholesky_solve(self.rows.Y, L), (self.gammas * factor).tolist()
        leaves = []
        for b, one in enumerate(self.asked):
            leaf = Leaf(self.kernels[b].with_gamma(gammas[b]), float(c[b]), alpha[b, : len(one.members)], 0.0)
            sound = not ridges[b] and (one.c is not None or holds(leaf, one.rows[one.members]))
            leaves.append(leaf if sound else one.alone())
        return leaves

    def factored(self, which: torch.Tensor, factor: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
        """Cholesky's factors of K + c S⁻¹ of some of the leaves, and what had to be added to their diagonals."""
        K = self.S[which] if len(which) < len(self.S) else self.S.clone()
        scale = -((self.gammas[which] * factor) ** -2)
        K = isolated(K.mul_(scale.to(K)[:, None, None]).exp_(), self.rows.present[which])
        shift = c.to(K.device)[:, None] / self.rows.weight[which]
        return stacked_cholesky(K, shift, [self.rows.sizes[b] for b in which.tolist()])

    def error(self, which: torch.Tensor, factor: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """What :func:`left_out_error` says of some of the leaves; of G no more than the diagonal is needed."""
        rows, clip = self.rows, self.asked[0].clip
        M = inverse_factor(self.factored(which, factor, c)[0])
        s, m, Y = rows.weight[which, :, None], rows.repetitions[which, :, None], rows.Y[which]
        alpha = M.mT @ (M @ Y)
        D = M.square_().sum(1)[..., None] / m + (1 - 1 / m) * s / c.to(M.device)[:, None, None]
        t = (Y - alpha / D).clamp(-clip, clip)
        return ((s * (t - Y) ** 2).sum((1, 2)) / rows.total[which]).cpu()


def smallest(
    value: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], start: torch.Tensor, factor: float, going: torch.Tensor
) -> torch.Tensor:
    """Downhill from each ``start`` by factors, in the one direction or in the other, for those that are ``going``.

    ``value(which, places)`` is that of some of them.
    """
    place, best, moved = start.clone(), torch.zeros_like(start), torch.zeros_like(going)
    if len(which := going.nonzero()[:, 0]):
        best[which] = value(which, place[which])
    for change in (factor, 1 / factor):
        on = going & ~moved
        for _ in range(LEAF_TRIES):
            which = on.nonzero()[:, 0]
            if not len(which):
                break
            option = value(which, place[which] * change)
            better = option < best[which]
            on[which[~better]] = False
            which = which[better]
            place[which], best[which], moved[which] = place[which] * change, option[better], True
    return place
