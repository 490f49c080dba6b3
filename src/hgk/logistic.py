"""The logistic loss of classes, as a function of all values of a row.

    two classes, one value f        p = σ(f)            W = p (1 - p)
    several, a value for each       p = softmax(f)      W = diag(p) - p pᵀ

    L = -log p_y,      ∂L/∂f = -r,  r = y - p  for labels y of 0 and 1,      ∂²L/∂f² = W

The single number that says most about W is the curvature along the residual, since a row that leaves pushes values
along r:

    ω = rᵀ W r / rᵀ r,         for two classes W itself
    ∂ω/∂f = W (r² - 2 (pᵀr) r - 2 W r + 2 ω r) / rᵀ r        and (1 - 2p) W for two classes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn.functional import logsigmoid

# Below it ω is rounding against 1.
LEAST_CURVATURE = 1e-14


def zero_or_one(Y: torch.Tensor) -> torch.Tensor:
    """Labels of 0 and 1, one column per class (one for two classes), from ±1."""
    return (Y.double() + 1) / 2


def log_probabilities(f: torch.Tensor) -> torch.Tensor:
    """One column per class.

    Examples
    --------
    >>> log_probabilities(torch.zeros(1, 1)).exp().tolist()
    [[0.5, 0.5]]
    """
    return torch.cat([logsigmoid(-f), logsigmoid(f)], 1) if f.shape[1] == 1 else torch.log_softmax(f, 1)


def log_losses(f: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """L of every row."""
    if f.shape[1] == 1:
        return -torch.where(y > 0.5, logsigmoid(f), logsigmoid(-f))[:, 0]
    return -(y * torch.log_softmax(f, 1)).sum(1)


@dataclass(frozen=True, eq=False)
class Expansion:
    """L around the values f, up to its second derivatives; of rows with labels y of 0 and 1.

    Examples
    --------
    >>> at = Expansion(torch.zeros(1, 2).double(), torch.tensor([[1.0, 0.0]]).double())
    >>> at.r.tolist(), at.curved(at.r).tolist(), at.omega.tolist()
    ([[0.5, -0.5]], [[0.25, -0.25]], [[0.5]])
    """

    f: torch.Tensor
    y: torch.Tensor

    @cached_property
    def p(self) -> torch.Tensor:
        return self.f.sigmoid() if self.f.shape[1] == 1 else self.f.softmax(1)

    @cached_property
    def r(self) -> torch.Tensor:
        """y - p, where p is near y without the rounding of the difference."""
        if self.f.shape[1] == 1:
            return torch.where(self.y > 0.5, (-self.f).sigmoid(), -self.p)
        others = self.p * (1 - self.y)
        return self.y * others.sum(1, keepdim=True) - others

    def curved(self, V: torch.Tensor) -> torch.Tensor:
        """W v, row by row."""
        if self.f.shape[1] == 1:
            return self.p * (-self.f).sigmoid() * V
        return self.p * (V - (self.p * V).sum(1, keepdim=True))

    @cached_property
    def squared(self) -> torch.Tensor:
        """rᵀ r, a column."""
        return (self.r**2).sum(1, keepdim=True).clamp_min(1e-300)

    @cached_property
    def omega(self) -> torch.Tensor:
        """ω, a column."""
        if self.f.shape[1] == 1:
            return self.curved(torch.ones_like(self.f)).clamp_min(LEAST_CURVATURE)
        return ((self.r * self.curved(self.r)).sum(1, keepdim=True) / self.squared).clamp_min(LEAST_CURVATURE)

    @cached_property
    def omega_slope(self) -> torch.Tensor:
        """∂ω/∂f, a row for each row."""
        p, r, omega = self.p, self.r, self.omega
        if self.f.shape[1] == 1:
            return (1 - 2 * p) * omega
        inner = r**2 - 2 * (p * r).sum(1, keepdim=True) * r - 2 * self.curved(r) + 2 * omega * r
        return self.curved(inner) / self.squared
