"""The problem on given nodes, min over f_w of (1/2n) ‖y - Σ f_w‖² + (λ/2) Ω(f)², Ω(f) = Σ_v d_v ‖f_{D(v)}‖.

With f_w = Φ_w β_w, ‖f_w‖ = ‖β_w‖, and Cauchy's inequality in the form (Σ_v d_v t_v)² = min_η Σ_v d_v² t_v²/η_v over
η > 0, Σ η_v = 1,

    Ω(f)² = min_η Σ_w ‖β_w‖²/ζ_w,        1/ζ_w = Σ_{v ∈ A(w)} d_v²/η_v,

so that for fixed η the problem is ridge regression with the kernel Σ_w ζ_w K_w:

    B(η) = min over β of (1/2n)‖y - Φβ‖² + (λ/2) Σ_w ‖β_w‖²/ζ_w,

a convex function of η with -∂B/∂η_v = (λ/2) h_v, h_v = d_v² ‖f_{D(v)}‖²/η_v². The best η for fixed f is

    η_v ∝ d_v ‖f_{D(v)}‖ = η_v √h_v;

alternating both decreases B. The dual variable of β is α = (y - Φβ)/(nλ), its value

    D(α) = B(η) - (λ/2)(Ω*(α)² - Σ_v η_v h_v),        Ω*(α)² = max_η Σ_w ζ_w(η) ‖Φ_wᵀα‖² ≤ max_v h_v,

and the gap is (1/2n)‖y - Φβ‖² + (λ/2) Ω(f)² - D(α), with the bound max_v h_v for Ω*².
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch

# Smallest weight of a node: far below what matters, far above what underflows.
FLOOR = 1e-14


def zeta(eta: torch.Tensor, d: torch.Tensor, ancestors: torch.Tensor) -> torch.Tensor:
    """1/ζ_w = Σ_{v ∈ A(w)} d_v²/η_v; ``ancestors[v, w]`` is 1 where v ∈ A(w)."""
    return 1 / (ancestors.T @ (d**2 / eta))


class Ridge(ABC):
    """Ridge regression on features Φ that belong to nodes; Φ and y are centred."""

    n: int
    node: torch.Tensor  # the node of every feature

    @abstractmethod
    def __call__(self, z: torch.Tensor, c: float) -> tuple[torch.Tensor, torch.Tensor]:
        """argmin of ‖y - Φβ‖² + c Σ β²/z, and ‖y - Φβ‖² there."""


@dataclass(frozen=True)
class ByFeatures(Ridge):
    """From G = ΦᵀΦ, g = Φᵀy and yᵀy: (z^½ G z^½ + c) z^{-½} β = z^½ g."""

    n: int
    node: torch.Tensor
    G: torch.Tensor
    g: torch.Tensor
    yy: float

    def __call__(self, z, c):
        root = z.sqrt()
        beta = root * _solve(root[:, None] * self.G * root, c, root * self.g)
        return beta, (self.yy - 2 * beta @ self.g + beta @ (self.G @ beta)).clamp(min=0)


@dataclass(frozen=True)
class ByRows(Ridge):
    """From Φ, where it has more columns than rows: (Φ z Φᵀ + c) a = y, β = z Φᵀa."""

    n: int
    node: torch.Tensor
    Phi: torch.Tensor
    y: torch.Tensor

    def __call__(self, z, c):
        a = _solve((self.Phi * z) @ self.Phi.T, c, self.y)
        return z * (self.Phi.T @ a), c**2 * (a @ a)


def _solve(K: torch.Tensor, c: float, y: torch.Tensor) -> torch.Tensor:
    K.diagonal().add_(c)
    return torch.cholesky_solve(y[:, None], torch.linalg.cholesky(K))[:, 0]


@dataclass(frozen=True)
class Reduced:
    """A pair (η, β), its values, and Ω*² as far as these nodes go."""

    eta: torch.Tensor
    beta: torch.Tensor
    below: torch.Tensor  # ‖f_{D(v)}‖²
    primal: float
    inner: float  # B(η)
    quadratic: float  # Σ η_v h_v
    level: float  # max h_v
    steps: int = 0

    def gap(self, lam: float, level: float | None = None) -> float:
        """The duality gap if Ω*² is at most ``level``."""
        level = self.level if level is None else max(level, self.level)
        return max(0.0, self.primal - self.inner + lam / 2 * (level - self.quadratic))


def solve(
    ridge: Ridge,
    d: torch.Tensor,
    ancestors: torch.Tensor,
    eta: torch.Tensor,
    lam: float,
    tol: float,
    max_steps: int = 300,
) -> Reduced:
    """Alternate until the gap is below ``tol`` times the primal value."""
    for step in range(max_steps + 1):
        state, h = _evaluate(ridge, d, ancestors, eta, lam)
        if state.gap(lam) <= tol * state.primal or step == max_steps:
            break
        eta = eta * h.sqrt()
        eta = (eta / eta.sum()).clamp(min=FLOOR)
    return replace(state, steps=step)


def _evaluate(ridge: Ridge, d, ancestors, eta, lam: float) -> tuple[Reduced, torch.Tensor]:
    beta, residual = ridge(zeta(eta, d, ancestors)[ridge.node], ridge.n * lam)
    norms = torch.zeros_like(eta).index_add_(0, ridge.node, beta**2)
    below = ancestors @ norms
    h = d**2 * below / eta**2
    omega = (d * below.sqrt()).sum()
    loss, squared, quadratic, level = torch.stack([residual / (2 * ridge.n), omega**2, eta @ h, h.max()]).tolist()
    return Reduced(eta, beta, below, loss + lam / 2 * squared, loss + lam / 2 * quadratic, quadratic, level), h
