"""Runs of Adam on kernels of one tree, so many of them and so short that a step is taken by all at once.

Where a few long runs are recorded (:mod:`hgk.optimisers.recorded`), leaves have hundreds of a few steps each. All that
a step takes has an axis for the runs in front: batches, K, factors, ∂J/∂K, and θ with its moments. The criterion is
leave-one-out, with the formulas of :mod:`hgk.criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from hgk.kernels import StackedSweep, Weights, bytes_of_sweep
from hgk.machines import Rows, StackedRows
from hgk.optimisers.runs import AdamRun, move, pace, weights_at
from hgk.solvers import inverse_factor, stacked_cholesky

if TYPE_CHECKING:
    from hgk.kernels import Architecture
    from hgk.optimisers.steps import Steps

# nλ from which single precision is enough for G, as in LeaveOneOut.
SINGLE = 1e-3


def bytes_of_run(architecture: Architecture, batch: int) -> float:
    """About what a run takes in a step."""
    return bytes_of_sweep(architecture, batch**2) + 8 * 6 * batch**2


def run_stacked(asked: Sequence[Steps]) -> list[AdamRun]:
    """All steps of runs that differ in their rows, weights, λ and batches' sizes alone; nothing is watched."""
    stack = StackedRun([request.begin() for request in asked])
    stack.run()
    return stack.runs


class StackedRun:
    """The parameters of all runs and their moments, where the rows are."""

    def __init__(self, runs: list[AdamRun]):
        self.runs, (first, *_) = runs, runs
        self.settings, self.kernel, self.rows = first.settings, first.kernel, _joined([run.rows for run in runs])
        device = self.rows.X.device
        self.theta, self.start, self.live = (
            [torch.stack(parts).to(device) for parts in zip(*each, strict=True)]
            for each in ([run.theta for run in runs], [run.start for run in runs], [run.live for run in runs])
        )
        self.moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in self.theta]
        self.gammas = torch.tensor([run.kernel.gamma for run in runs], dtype=torch.float64, device=device)
        self.variance = torch.tensor([run.variance for run in runs], dtype=torch.float64, device=device)

    def run(self) -> None:
        steps = self.settings.steps
        starts = torch.tensor([0, *(len(run.rows) for run in self.runs)]).cumsum(0).tolist()
        drawn = [[torch.from_numpy(run.draw()) for _ in range(steps)] for run in self.runs]
        batches = [[start + part for part in mine] for start, mine in zip(starts, drawn, strict=False)]
        found = list[torch.Tensor]()
        for i, index in enumerate(zip(*batches, strict=True)):
            if self.runs[0].progress.cut():
                break
            value, gradient = self.gradient(StackedRows.of(self.rows, index))
            move(self.theta, self.start, self.moments, gradient, pace(i, self.settings))
            found.append(value.cpu())
        theta = [t.cpu() for t in self.theta]
        for b, run in enumerate(self.runs):
            run.theta, run.step, run.values = [t[b] for t in theta], len(found), [float(value[b]) for value in found]

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


def _joined(rows: Sequence[Rows]) -> Rows:
    """One below the other."""
    parts = zip(*((part.X, part.Y, part.weight, part.repetitions) for part in rows), strict=True)
    X, Y, weight, count = (torch.cat(tensors) for tensors in parts)
    return Rows(X, Y, weight, count)
