"""The paper's objective: the risk on D2 as a function of the weights, α, λ and γ held fixed.

R(W) = (1/n2) Σ_{j∈D2} s_j L(y_j, clip(t_j)),        t = K21 α,  K21 = k_{W,γ}(X2, X1)

∂R/∂K21 = g αᵀ,     g_j = (s_j / n2) ∂L/∂t(y_j, t_j) where |t_j| < M, else 0

L is (y - t)², or the loss of the problem, whose levels lie in main memory. Several outputs are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hgk.architectures import Weights
from hgk.kernels import HierarchicalKernel
from hgk.machines import Rows
from hgk.problems import MAIN, Problem


@dataclass(frozen=True, eq=False)
class Objective:
    """R(W) and its gradient for coefficients ``alpha`` on ``X1``; the rows' labels are columns of the problem."""

    kernel: HierarchicalKernel
    X1: torch.Tensor
    alpha: torch.Tensor
    D2: Rows
    clip: float
    problem: Problem | None = None

    def losses(self, t: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Of every row."""
        if self.problem is None:
            return ((t.clamp(-self.clip, self.clip) - rows.Y) ** 2).sum(1)
        return self.problem.losses(rows.Y.to(MAIN), t.to(MAIN)).sum(1).to(t)

    def risk_of(self, t: torch.Tensor, rows: Rows | None = None) -> float:
        rows = self.D2 if rows is None else rows
        return float((self.losses(t, rows) * rows.weight).sum() / rows.weight.sum())

    def risk(self, W: Weights, rows: Rows | None = None) -> float:
        """R(W), on D2 or on other rows."""
        rows = self.D2 if rows is None else rows
        return self.risk_of(self.kernel.with_weights(W).multiply(rows.X, self.X1, self.alpha), rows)

    def gradient(self, W: Weights) -> tuple[float, Weights]:
        """R(W) and ∂R/∂W."""
        kernel = self.kernel.with_weights(W)
        t = kernel.multiply(self.D2.X, self.X1, self.alpha)
        if self.problem is None:
            slopes = 2 * (t - self.D2.Y) * (t.abs() < self.clip)
        else:
            slopes = self.problem.slopes(self.D2.Y.to(MAIN), t.to(MAIN)).to(t)
        g = slopes * (self.D2.weight / self.D2.weight.sum())[:, None]
        return self.risk_of(t), kernel.backward(g @ self.alpha.T, self.D2.X, self.X1)


@dataclass(frozen=True, eq=False)
class Risk:
    """A wish for R(W) on some rows."""

    objective: Objective
    W: Weights
    rows: Rows


def risks_all(wishes: Sequence[Risk]) -> list[float]:
    return [wish.objective.risk(wish.W, wish.rows) for wish in wishes]
