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
    ROUNDING,
    TUNED,
    UNIT,
    Handed,
    Leaf,
    StepsOfNode,
    TrainingOfLeaf,
    holds,
    one_by_one,
)
from hgk.machines import StackedRows, stacks
from hgk.optimisers import Adam
from hgk.optimisers.together import bytes_of_run, run_stacked
from hgk.solvers import inverse_factor, stacked_cholesky, stacked_solve


def learned_together(asked: Sequence[StepsOfNode]) -> list[Handed]:
    """What :meth:`HandingTree.learn` makes of each; nodes may be those of several trees over the same rows."""
    handed = [one.handed for one in asked]
    architectures = [one.kernel.architecture for one in handed]
    for architecture in dict.fromkeys(architectures):
        of_it = [i for i, other in enumerate(architectures) if other == architecture]
        learn = _learned_stacked if stackable(architecture) else _learned_by_turns
        for i, one in zip(of_it, learn([asked[i] for i in of_it]), strict=True):
            handed[i] = one
    return handed


def _learned_by_turns(asked: Sequence[StepsOfNode]) -> list[Handed]:
    return [one.alone() for one in asked]


def _learned_stacked(asked: Sequence[StepsOfNode]) -> list[Handed]:
    handed, (tree, plan) = [one.handed for one in asked], (asked[0].tree, asked[0].plan)
    settings = Adam(plan.steps, plan.batch, plan.rate, map_penalty=tree.map_penalty)
    sizes = [min(one.plan.batch, len(one.tree.parts.members(one.node))) for one in asked]
    architecture, device = handed[0].kernel.architecture, tree.rows.X.device
    for load in stacks(sizes, lambda size: bytes_of_run(architecture, size), device):
        runs = {i: asked[i].tree.short_run_of(asked[i].node, asked[i].handed, plan) for i in load}
        due = {i: run for i, run in runs.items() if run is not None}
        results = run_stacked(list(due.values()), tree.rows, settings, tree.progress) if due else []
        for i, (kernel, c) in zip(due, results, strict=True):
            handed[i] = Handed(kernel, c)
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
        alpha = stacked_solve(L, self.rows.Y)
        safe, gammas, leaves = self.safe(alpha), (self.gammas * factor).tolist(), list[Leaf]()
        for b, (one, kernel, gamma) in enumerate(zip(self.asked, self.kernels, gammas, strict=True)):
            kernel = kernel if gamma == kernel.gamma else kernel.with_gamma(gamma)
            leaf = Leaf(kernel, float(c[b]), alpha[b, : len(one.members)], 0.0)
            sound = not ridges[b] and (one.c is not None or safe[b] or holds(leaf, one.rows[one.members]))
            leaves.append(leaf if sound else one.alone())
        return leaves

    def safe(self, alpha: torch.Tensor) -> list[bool]:
        """Whether coefficients are so small that rounding does no harm, the first thing that :func:`holds` asks."""
        there, many = self.rows.present[..., None], self.rows.present.sum(1)[:, None, None]
        mean = self.rows.Y.sum(1, keepdim=True) / many  # filled-up rows have labels 0
        variance = ((self.rows.Y - mean) ** 2 * there).sum(1, keepdim=True) / (many - 1)
        rounding = (UNIT * alpha.abs().sum(1).amax(1)) ** 2
        return (rounding <= ROUNDING**2 * variance.mean((1, 2))).tolist()

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
