"""Mini-batch Adam on bounded log-weights, by the exact gradient of a criterion on each batch.

The parameters θ are the logarithms of the weights v and w, the factors P and Q of the linear maps, and
log λ; γ = 1, since the top weights take its part. A step draws b fresh rows and takes

    ∂J/∂θ = w ∂J/∂w + penalty     by criterion -> ∂J/∂K -> backward sweep, no graph
    m ← β₁ m + (1-β₁) g,    s ← β₂ s + (1-β₂) g²,    θ ← θ - η_i m̂ / (√ŝ + ε)

with the one-cycle rate η_i: a rise over the first 30 % of the steps, then a cosine to 0.

Early stopping: at every tenth of the run, and at most every ten steps, a machine on one fixed batch predicts rows
that no gradient has seen. The run ends when these predictions have become worse than the best before by two standard
errors, twice in a row; and it returns the weights of an earlier check if they were better by more than a standard
error.

Penalties, both as a share of var(y) so that they mean the same for every target:

    shrink · Σ_nodes Σ_j (θ_ij - mean_j θ_ij)² / number of weights       pulls a node's log-weights together
    map    · Σ_nodes ‖U_i‖² / number of entries                          pulls linear maps to the identity
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.arrays import Buffers
from hgk.criteria import LeaveOneOut
from hgk.events import Step, Watched
from hgk.kernels import HierarchicalKernel, Weights, batch_sweep
from hgk.machines import Rows
from hgk.solvers.least_squares import cholesky

if TYPE_CHECKING:
    from hgk.optimisers.adam import Adam
    from hgk.optimisers.steps import Steps

# Bounds of the logarithms relative to their starting values: e^-6 switches a column off.
LOWEST, HIGHEST = -6.0, 4.0
BETA1, BETA2 = 0.9, 0.99
# Below 1e-7 the batch's nλ would drown in the rounding of a single-precision kernel matrix.
LAM_BOUNDS = math.log(1e-7), math.log(10.0)


def one_cycle(i: int, steps: int, peak: float, rise: float = 0.3) -> float:
    """η_i for i = 0 … steps - 1."""
    x = (i + 0.5) / steps
    if x < rise:
        return peak * (0.1 + 0.9 * x / rise)
    return peak * 0.5 * (1 + math.cos(math.pi * (x - rise) / (1 - rise)))


def pace(i: int, settings: Adam) -> float:
    """η_i √(1-β₂^(i+1)) / (1-β₁^(i+1)): the step along m / √s, whose moments start at 0."""
    start = math.sqrt(1 - BETA2 ** (i + 1)) / (1 - BETA1 ** (i + 1))
    return one_cycle(i, settings.steps, settings.rate) * start


def logarithms(
    W: Sequence[torch.Tensor], free: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """θ of the layers, and which weights move: one that starts at 0 (a constant column) stays there."""
    logs = [torch.where(w > 0, w.abs().clamp_min(1e-300).log(), 0.0) for w in W]
    return logs, [(w > 0) & mask for w, mask in zip(W, free, strict=True)]


def weights_at(theta: Sequence[torch.Tensor], live: Sequence[torch.Tensor]) -> Weights:
    """W at θ, the logarithms of the layers, then linear maps, then log λ; of one run, or of several stacked."""
    logs, maps = theta[: len(live)], theta[len(live) : -1]
    return (*(torch.where(mask, t.exp(), 0.0) for t, mask in zip(logs, live, strict=True)), *maps)


def move(
    theta: Sequence[torch.Tensor],
    starts: Sequence[torch.Tensor],
    moments: Sequence[tuple[torch.Tensor, torch.Tensor]],
    gradient: Sequence[torch.Tensor],
    pace: float | torch.Tensor,
) -> None:
    """One step of θ and its moments, within bounds; of one run, or of several stacked."""
    for t, g, (m, s) in zip(theta, gradient, moments, strict=True):
        m.mul_(BETA1).add_(g, alpha=1 - BETA1)
        s.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        t.sub_(pace * m / (s.sqrt() + 1e-12))
    for t, start in zip(theta, starts, strict=False):
        t.clamp_(start + LOWEST, start + HIGHEST)
    theta[-1].clamp_(*LAM_BOUNDS)


class Watch:
    """The error of a machine on one fixed batch on rows that no gradient has seen, check by check."""

    def __init__(self, batch: Rows, rows: Rows, clip: float, often: bool = False):
        self.batch, self.rows, self.clip, self.often = batch, rows, clip, often
        self.checks: list[tuple[torch.Tensor, Weights]] = []

    def __call__(self, kernel: HierarchicalKernel, W: Weights, lam: float) -> float:
        X, s = self.batch.X.float(), self.batch.weight
        kernel = kernel.with_weights(W)
        L, _ = cholesky(batch_sweep(kernel, X, often=self.often).matrix(), float(s.sum()) * lam / s, rounded=True)
        alpha = torch.cholesky_solve(self.batch.Y, L)
        t = (
            kernel.multiply(self.rows.X.float(), X, alpha.float(), often=self.often)
            .double()
            .clamp(-self.clip, self.clip)
        )
        self.checks.append((((t - self.rows.Y) ** 2).sum(1), W))
        return self.risk(self.checks[-1][0])

    def risk(self, losses: torch.Tensor) -> float:
        return self.rows.mean(losses)[0]

    def excess(self, losses: torch.Tensor) -> float:
        """How much worse than the best check, in standard errors of the difference."""
        more, error = self.rows.mean(losses - min((check for check, _ in self.checks), key=self.risk))
        return more / error if error > 0 else 0.0

    def hopeless(self) -> bool:
        return len(self.checks) > 2 and all(self.excess(losses) > 2 for losses, _ in self.checks[-2:])

    def best(self, W: Weights) -> Weights:
        """The last weights, unless earlier ones were clearly better."""
        if not self.checks or self.excess(self.checks[-1][0]) <= 1:
            return W
        return min(self.checks, key=lambda check: self.risk(check[0]))[1]


class AdamRun:
    """The parameters of one run and their moments."""

    def __init__(self, asked: Steps):
        self.settings, self.kernel, self.rows = settings, kernel, rows = asked.settings, asked.kernel, asked.rows
        self.rng, self.progress, self.often = asked.rng, asked.progress, asked.often
        self.criterion = settings.criterion or LeaveOneOut(single=True)
        self.watch = None if asked.watched is None else Watch(self._batch(), asked.watched, asked.clip, asked.often)
        self.values: list[float] = []
        self.depth = kernel.architecture.depth
        logs, self.live = logarithms(kernel.W[: self.depth], kernel.architecture.free()[: self.depth])
        self.start = logs
        log_lam = torch.tensor(math.log(asked.lam), dtype=torch.float64)
        self.theta = [t.clone() for t in (*logs, *kernel.W[self.depth :], log_lam)]
        self.moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in self.theta]
        self.free = max(1, int(self.live[0].sum()))  # weights of the first layer
        share = rows.weight / rows.weight.sum()
        self.variance = float((share[:, None] * (rows.Y - share @ rows.Y) ** 2).sum())
        self.step, self.buffers = 0, Buffers()

    @property
    def W(self) -> Weights:
        return self.weights

    @property
    def weights(self) -> Weights:
        """W where θ lies."""
        return weights_at(self.theta, self.live)

    @property
    def lam(self) -> float:
        return math.exp(float(self.theta[-1]))

    def run(self) -> HierarchicalKernel:
        while self.proceed():
            pass
        return self.result()

    def proceed(self) -> bool:
        """One step, if there is one to take, and a check where it is due; whether to go on."""
        if self.step >= self.settings.steps or self.progress.cut():
            return False
        self.advance()
        return not (self.due and self.check())

    def result(self) -> HierarchicalKernel:
        """The kernel at the end, or an earlier one that was clearly better on the rows watched."""
        return self.kernel.with_weights(self.W if self.watch is None else self.watch.best(self.W))

    def check(self) -> bool:
        """Watch; whether going on is hopeless."""
        if self.watch is None:
            return False
        self.progress.report(Watched(step=self.step, risk=self.watch(self.kernel, self.W, self.lam)))
        return self.watch.hopeless()

    @property
    def due(self) -> bool:
        """A check: at every tenth of the run, at most every ten steps."""
        return self.step % max(10, self.settings.steps // 10) == 0 or self.step == self.settings.steps

    @property
    def recent(self) -> float:
        """The mean criterion of the last ten steps."""
        return float(np.mean(self.values[-10:])) if self.values else float("nan")

    def draw(self) -> np.ndarray:
        """Numbers of fresh rows."""
        return self.rows.sample.draw(self.rng, min(len(self.rows), self.settings.batch))

    def _batch(self) -> Rows:
        """Fresh rows."""
        return self.rows[torch.from_numpy(self.draw()).to(self.rows.X.device)]

    def advance(self) -> None:
        """One step on fresh rows."""
        value, gradient = self.gradient(self._batch())
        self._update(gradient, pace(self.step, self.settings))
        self.step += 1
        self._tell(float(value), self.lam)

    def _tell(self, value: float, lam: float) -> None:
        self.values.append(value)
        self.progress.report(Step(step=len(self.values), criterion=value, lam=lam))

    def gradient(self, batch: Rows) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """J on the batch, and its derivative in θ, penalties included."""
        W = self.weights
        X = batch.X.float()
        sweep = self._sweep(W, X)
        evaluation = self.criterion(sweep.matrix(), batch.Y, self.theta[-1].exp(), batch.weight, batch.count)
        dW = [dw.to(w.device) for w, dw in zip(W, sweep.backward(evaluation.dK.to(X)), strict=True)]
        gradient = [w * dw for w, dw in zip(W[: self.depth], dW, strict=False)] + dW[self.depth :]
        self._penalise(gradient, W)
        return evaluation.value, [*gradient, evaluation.dlog_lam.to(self.theta[-1])]

    def _sweep(self, W: Weights, X: torch.Tensor):
        return batch_sweep(self.kernel.with_weights(W), X, self.buffers, self.often)

    def _penalise(self, gradient: list[torch.Tensor], W: Weights) -> None:
        if self.settings.shrink:
            live, theta = self.live[0], self.theta[0] - self.start[0]
            mean = (theta * live).sum(1, keepdim=True) / live.sum(1, keepdim=True).clamp_min(1)
            strength = 2 * self.settings.shrink * self.variance / self.free
            gradient[0] += strength * (theta - mean) * live
        if self.settings.map_penalty:
            strength = self.settings.map_penalty * self.variance
            for members in self.kernel.architecture.members:
                slopes = members.kind.penalty_slopes(strength, *members.further(W))
                for place, slope in zip(members.places, slopes, strict=False):
                    gradient[place] += slope

    def _update(self, gradient: list[torch.Tensor], pace: float | torch.Tensor) -> None:
        move(self.theta, self.start, self.moments, gradient, pace)
