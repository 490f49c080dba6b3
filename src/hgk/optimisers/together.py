"""Runs of Adam on kernels of one tree, so many of them and so short that a step is taken by all at once.

Where a few long runs are recorded (:mod:`hgk.optimisers.recorded`), leaves have hundreds of a few steps each. All that
a step takes has an axis for the runs in front: batches, K, factors, ∂J/∂K, and θ with its moments. The criterion is
leave-one-out, with the formulas of :mod:`hgk.criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hgk.kernels import HierarchicalKernel, StackedSweep, Weights, bytes_of_sweep
from hgk.machines import Rows, StackedRows, padded
from hgk.optimisers.runs import logarithms, move, pace, weights_at
from hgk.solvers import inverse_factor, stacked_cholesky

if TYPE_CHECKING:
    from hgk.kernels import Architecture
    from hgk.optimisers.adam import Adam
    from hgk.progress import Progress

# nλ from which single precision is enough for G, as in LeaveOneOut.
SINGLE = 1e-3


@dataclass(frozen=True, eq=False)
class ShortRun:
    """A kernel that is to take some steps, and c = nλ of its batches.

    ``members`` are the numbers of the rows that it may see, ``batches`` those of the rows of every step.
    """

    kernel: HierarchicalKernel
    c: float
    members: torch.Tensor
    batches: Sequence[torch.Tensor]


def bytes_of_run(architecture: Architecture, batch: int) -> float:
    """About what a run takes in a step."""
    return bytes_of_sweep(architecture, batch**2) + 8 * 6 * batch**2


def run_stacked(
    asked: Sequence[ShortRun], rows: Rows, settings: Adam, progress: Progress
) -> list[tuple[HierarchicalKernel, float]]:
    """The kernels and c after all steps, each as alone; of ``settings`` the batch is that of every run."""
    stack = StackedRun(asked, rows, settings)
    stack.run(progress)
    return stack.results()


class StackedRun:
    """The parameters of all runs and their moments, where the rows are."""

    def __init__(self, asked: Sequence[ShortRun], rows: Rows, settings: Adam):
        self.asked, self.rows, self.settings, self.kernel = asked, rows, settings, asked[0].kernel
        device, depth = rows.X.device, self.kernel.architecture.depth
        W = [torch.stack(parts).to(device) for parts in zip(*(one.kernel.W for one in asked), strict=True)]
        free = [mask.to(device) for mask in self.kernel.architecture.free()[:depth]]
        self.start, self.live = logarithms(W[:depth], free)
        self._know_members()
        c = torch.tensor([one.c for one in asked], dtype=torch.float64, device=device)
        self.theta = [*(t.clone() for t in self.start), *W[depth:], (c / self.weight).log()]
        self.moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in self.theta]
        self.gammas = torch.tensor([one.kernel.gamma for one in asked], dtype=torch.float64, device=device)

    def _know_members(self) -> None:
        """The weight of a batch, and the variance of the labels, of every run."""
        index, there = padded([one.members for one in self.asked], self.rows.X.device)
        s, Y = self.rows.weight[index] * there, self.rows.Y[index]
        batch = torch.tensor([len(one.batches[0]) for one in self.asked], device=s.device)
        self.weight = batch * s.sum(1) / there.sum(1)
        share = (s / s.sum(1, keepdim=True))[..., None]
        self.variance = (share * (Y - (share * Y).sum(1, keepdim=True)) ** 2).sum((1, 2))

    def run(self, progress: Progress) -> None:
        for i, index in enumerate(zip(*(one.batches for one in self.asked), strict=True)):
            if progress.cut():
                return
            _, gradient = self.gradient(StackedRows.of(self.rows, index))
            move(self.theta, self.start, self.moments, gradient, pace(i, self.settings))

    def results(self) -> list[tuple[HierarchicalKernel, float]]:
        W = [w.cpu() for w in weights_at(self.theta, self.live)]
        c = (self.theta[-1].exp() * self.weight).tolist()
        return [(one.kernel.with_weights(tuple(w[b] for w in W)), c[b]) for b, one in enumerate(self.asked)]

    def gradient(self, batch: StackedRows) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """J of every run on its batch, and its derivative in θ, penalties included."""
        W, depth = weights_at(self.theta, self.live), len(self.live)
        sweep = StackedSweep(self.kernel.architecture, W, self.gammas, batch.present, batch.X)
        value, dK, dlog_lam = leave_one_out(sweep.matrix(), batch, self.theta[-1].exp())
        dW = sweep.backward(dK.to(batch.X))
        gradient = [w * dw for w, dw in zip(W[:depth], dW, strict=False)] + list(dW[depth:])
        self._penalise(gradient, W)
        return value, [*gradient, dlog_lam]

    def _penalise(self, gradient: list[torch.Tensor], W: Weights) -> None:
        """Of linear maps; log-weights are not pulled to their mean."""
        if not self.settings.map_penalty:
            return
        strength = self.settings.map_penalty * self.variance
        for members in (part for part in self.kernel.architecture.members if part.places):
            slopes: Callable[..., tuple[torch.Tensor, ...]] = torch.func.vmap(members.kind.penalty_slopes)
            for place, slope in zip(members.places, slopes(strength, *members.further(W)), strict=False):
                gradient[place] += slope


def leave_one_out(
    K: torch.Tensor, rows: StackedRows, lam: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """J, ∂J/∂K and ∂J/∂log λ of every set of rows; filled-up rows have residuals 0, and so no part in anything."""
    s, m, n = rows.weight[..., None], rows.repetitions[..., None], rows.total[:, None, None]
    c = n * lam[:, None, None]
    L, _ = stacked_cholesky(K, (c / s)[..., 0], rows.sizes)
    M = inverse_factor(L)
    alpha = M.mT @ (M @ rows.Y)
    M = M.float() if bool((c >= SINGLE).all()) else M
    G = M.mT @ M
    others = (1 - 1 / m) * s / c
    D = G.diagonal(dim1=1, dim2=2)[..., None].double() / m + others
    r = alpha / D
    slope = 2 * s * r**2 / (n * D)
    u, alpha = G @ (2 * s * r / (n * D)).to(G), alpha.to(G)
    root = G * (slope / m).sum(2).sqrt().to(G)[:, None]
    half = torch.cat([u, alpha], 2), torch.cat([alpha, u], 2)
    dK = torch.baddbmm(root @ root.mT, half[0], half[1].mT, alpha=-0.5)
    own = (dK.diagonal(dim1=1, dim2=2).double() / rows.weight).sum(1)
    return (s * r**2).sum((1, 2)) / n[:, 0, 0], dK, c[:, 0, 0] * own + (slope * others).sum((1, 2))
