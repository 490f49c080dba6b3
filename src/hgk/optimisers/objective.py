"""The paper's objective: the risk on D2 as a function of the weights, α, λ and γ held fixed.

R(W) = (1/n2) Σ_{j∈D2} s_j (y_j - clip(t_j))²,        t = K21 α,  K21 = k_{W,γ}(X2, X1)

∂R/∂K21 = g αᵀ,     g_j = (2 s_j / n2) (t_j - y_j) where |t_j| < M, else 0
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hgk.architectures import Weights
from hgk.kernels import HierarchicalKernel
from hgk.machines import Rows, clipped_risk


@dataclass(frozen=True, eq=False)
class Objective:
    """R(W) and its gradient for coefficients ``alpha`` on ``X1``."""

    kernel: HierarchicalKernel
    X1: torch.Tensor
    alpha: torch.Tensor
    D2: Rows
    clip: float

    def risk_of(self, t: torch.Tensor, rows: Rows | None = None) -> float:
        return clipped_risk(t, self.D2 if rows is None else rows, self.clip)

    def risk(self, W: Weights, rows: Rows | None = None) -> float:
        """R(W), on D2 or on other rows."""
        rows = self.D2 if rows is None else rows
        return clipped_risk(self.kernel.with_weights(W).multiply(rows.X, self.X1, self.alpha), rows, self.clip)

    def gradient(self, W: Weights) -> tuple[float, Weights]:
        """R(W) and ∂R/∂W."""
        kernel = self.kernel.with_weights(W)
        t = kernel.multiply(self.D2.X, self.X1, self.alpha)
        inside = t.abs() < self.clip
        g = 2 * (t - self.D2.Y) * inside * (self.D2.weight / self.D2.weight.sum())[:, None]
        return self.risk_of(t), kernel.backward(g @ self.alpha.T, self.D2.X, self.X1)
