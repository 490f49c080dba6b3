"""Mini-batch Adam on bounded log-weights, by the exact gradient of a criterion on each batch.

The parameters θ are the logarithms of the weights v and w, the factors P and Q of the linear maps, and
log λ; γ = 1, since the top weights take its part. A step draws b fresh rows and takes

    ∂J/∂θ = w ∂J/∂w + penalty     by criterion -> ∂J/∂K -> backward sweep, no graph
    m ← β₁ m + (1-β₁) g,    s ← β₂ s + (1-β₂) g²,    θ ← θ - η_i m̂ / (√ŝ + ε)

with the one-cycle rate η_i: a rise over the first 30 % of the steps, then a cosine to 0.

Penalties, both as a share of var(y) so that they mean the same for every target:

    shrink · Σ_nodes Σ_j (θ_ij - mean_j θ_ij)² / number of weights       pulls a node's log-weights together
    map    · Σ_nodes ‖U_i‖² / number of entries                          pulls linear maps to the identity
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hgk.architectures import Architecture, Weights
from hgk.arrays import Buffers
from hgk.criteria import LeaveOneOut
from hgk.kernels import HierarchicalKernel
from hgk.machines import Rows
from hgk.pairs import BatchSweep
from hgk.progress import Progress

# Bounds of the logarithms relative to their starting values: e^-6 switches a column off.
LOWEST, HIGHEST = -6.0, 4.0
# Below 1e-7 the batch's nλ would drown in the rounding of a single-precision kernel matrix.
LAM_BOUNDS = math.log(1e-7), math.log(10.0)


@dataclass(frozen=True)
class Adam:
    """Mini-batch Adam.

    Parameters
    ----------
    steps, batch : int
        Number of steps, rows per step (at most all).
    rate : float
        The peak of the one-cycle rate.
    shrink, map_penalty : float
        Strengths of the penalties.
    """

    steps: int = 300
    batch: int = 1000
    rate: float = 0.1
    shrink: float = 0.0
    map_penalty: float = 0.0

    def learn(
        self, architecture: Architecture, rows: Rows, clip: float, rng: np.random.Generator, progress: Progress
    ) -> HierarchicalKernel:
        """The kernel at the end of the run."""
        kernel = HierarchicalKernel(architecture, architecture.start(rows.spread, rng))
        if architecture.tied:
            return kernel
        return Run(self, kernel, rows, rng, progress).run()


def one_cycle(i: int, steps: int, peak: float, rise: float = 0.3) -> float:
    """η_i for i = 0 … steps - 1."""
    x = (i + 0.5) / steps
    if x < rise:
        return peak * (0.1 + 0.9 * x / rise)
    return peak * 0.5 * (1 + math.cos(math.pi * (x - rise) / (1 - rise)))


class Run:
    """The parameters of one run and their moments."""

    def __init__(self, settings: Adam, kernel: HierarchicalKernel, rows: Rows, rng, progress: Progress, criterion=None):
        self.settings, self.kernel, self.rows, self.rng, self.progress = settings, kernel, rows, rng, progress
        self.criterion = criterion or LeaveOneOut(torch.float32)
        self.depth = kernel.architecture.depth
        self.masks = kernel.architecture.free()
        logs = [torch.where(w > 0, w.abs().clamp_min(1e-300).log(), 0.0) for w in kernel.W[: self.depth]]
        # A weight that starts at 0 (a constant column) stays there.
        self.live = [(w > 0) & m for w, m in zip(kernel.W[: self.depth], self.masks, strict=False)]
        self.start = logs
        log_lam = torch.tensor(math.log(1e-3), dtype=torch.float64)
        self.theta = [t.clone() for t in (*logs, *kernel.W[self.depth :], log_lam)]
        self.moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in self.theta]
        share = rows.weight / rows.weight.sum()
        self.variance = float((share[:, None] * (rows.Y - share @ rows.Y) ** 2).sum())
        self.step, self.buffers = 0, Buffers()

    @property
    def W(self) -> Weights:
        logs, maps = self.theta[: self.depth], self.theta[self.depth : -1]
        return (*(torch.where(live, t.exp(), 0.0) for t, live in zip(logs, self.live, strict=True)), *maps)

    @property
    def lam(self) -> float:
        return math.exp(float(self.theta[-1]))

    def run(self) -> HierarchicalKernel:
        while self.step < self.settings.steps and not self.progress.cut():
            self.advance()
        return self.kernel.with_weights(self.W)

    def advance(self) -> None:
        """One step on fresh rows."""
        n = len(self.rows)
        size = min(n, self.settings.batch)
        batch = self.rows[torch.from_numpy(self.rng.choice(n, size, replace=False)).to(self.rows.X.device)]
        value, gradient = self.gradient(batch)
        rate = one_cycle(self.step, self.settings.steps, self.settings.rate)
        self.step += 1
        self._update(gradient, rate)
        self.progress.report(stage="adam", step=self.step, criterion=value, lam=self.lam)

    def gradient(self, batch: Rows) -> tuple[float, list[torch.Tensor]]:
        """J on the batch, and its derivative in θ, penalties included."""
        W = self.W
        X = batch.X.float()
        sweep = BatchSweep(self.kernel.with_weights(W), X, self.buffers)
        found = self.criterion(sweep.matrix(), batch.Y, self.lam, batch.weight)
        dW = sweep.backward(found.dK.to(X))
        gradient = [w * dw for w, dw in zip(W[: self.depth], dW, strict=False)] + list(dW[self.depth :])
        self._penalise(gradient, W)
        return found.value, [*gradient, torch.tensor(found.dlog_lam, dtype=torch.float64)]

    def _penalise(self, gradient: list[torch.Tensor], W: Weights) -> None:
        if self.settings.shrink:
            live, theta = self.live[0], self.theta[0] - self.start[0]
            mean = (theta * live).sum(1, keepdim=True) / live.sum(1, keepdim=True).clamp_min(1)
            strength = 2 * self.settings.shrink * self.variance / max(1, int(live.sum()))
            gradient[0] += strength * (theta - mean) * live
        if self.settings.map_penalty and len(W) > self.depth:
            P, Q = W[self.depth :]
            strength = 2 * self.settings.map_penalty * self.variance / (len(P) * P.shape[1])
            # ∂‖PQᵀ‖²/∂P = 2 P QᵀQ
            gradient[self.depth] += strength * P @ (Q.transpose(1, 2) @ Q)
            gradient[self.depth + 1] += strength * Q @ (P.transpose(1, 2) @ P)

    def _update(self, gradient: list[torch.Tensor], rate: float, beta1: float = 0.9, beta2: float = 0.99) -> None:
        for t, g, (m, s) in zip(self.theta, gradient, self.moments, strict=True):
            m.mul_(beta1).add_(g, alpha=1 - beta1)
            s.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            scale = math.sqrt(1 - beta2**self.step) / (1 - beta1**self.step)
            t.sub_(rate * scale * m / (s.sqrt() + 1e-12))
        for t, start in zip(self.theta, self.start, strict=False):
            t.clamp_(start + LOWEST, start + HIGHEST)
        self.theta[-1].clamp_(*LAM_BOUNDS)
