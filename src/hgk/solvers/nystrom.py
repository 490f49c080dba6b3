"""Nyström's machine: least squares over the span of M centres, the rows in blocks.

With centres z, K_MM = L Lᵀ and features φ(x) = L⁻¹ k_M(x), the functions are f = βᵀφ with ‖f‖ = ‖β‖, and

    min_β  λ‖β‖² + (1/n) Σ s_i (y_i - βᵀφ_i)²       (H + cI) β = Σ s_i φ_i y_i,   H = Σ s_i φ_i φ_iᵀ,   c = nλ
    α = L⁻ᵀ β                                       f = Σ_j α_j k(z_j, ·)
    r_i = (y_i - f(x_i)) / (1 - s_i φ_iᵀ (H + cI)⁻¹ φ_i)        leave-one-out residuals, centres fixed

Rows come in blocks K_bM and are forgotten; memory is M², time n M² for H and M³ per λ. Sums are in double
precision: H is multiplied by L⁻¹ from both sides, which would magnify the rounding of single-precision sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hgk.solvers.base import Solution, Status, check_lam
from hgk.solvers.least_squares import cholesky


@dataclass
class NystromState:
    """L, Σ s k_M k_Mᵀ, Σ s k_M yᵀ and n = Σ s over the rows so far."""

    L: torch.Tensor
    squares: torch.Tensor
    products: torch.Tensor
    n: float


# Added to the diagonal of K_MM (which is 1), so that blocks in single precision and nearly equal centres do no harm.
JITTER = 1e-5


class Nystrom:
    """``prepare(K_MM, outputs)``, ``add(state, K_bM, Y, s)`` for every block of rows, then ``solve`` for any λ."""

    def prepare(self, K: torch.Tensor, outputs: int) -> NystromState:
        K = K.double()
        L, _ = cholesky(K, JITTER)
        return NystromState(L, torch.zeros_like(K), K.new_zeros(len(K), outputs), 0.0)

    def add(self, state: NystromState, K: torch.Tensor, Y: torch.Tensor, sample_weight: torch.Tensor) -> None:
        """Count the rows of one block; ``K`` is block x M."""
        K, s = K.double(), sample_weight.double()[:, None]
        state.squares.addmm_((s * K).T, K)
        state.products.addmm_(K.T, s * Y.double())
        state.n += float(s.sum())

    def solve(self, state: NystromState, lams: Sequence[float]) -> list[Solution]:
        """α at each λ, from one H."""
        H, right = self.whitened(state)
        found = []
        for lam in lams:
            R, ridge = cholesky(H, state.n * check_lam(lam))
            alpha = torch.linalg.solve_triangular(state.L.T, torch.cholesky_solve(right, R), upper=True)
            found.append(Solution(alpha, Status.RIDGE_ADDED if ridge else Status.SOLVED, {"ridge_added": ridge}))
        return found

    def whitened(self, state: NystromState) -> tuple[torch.Tensor, torch.Tensor]:
        """H = L⁻¹ (Σ s k_M k_Mᵀ) L⁻ᵀ and L⁻¹ Σ s k_M yᵀ."""
        half = torch.linalg.solve_triangular(state.L, state.squares, upper=False)
        H = torch.linalg.solve_triangular(state.L, half.T, upper=False)
        return (H + H.T) / 2, torch.linalg.solve_triangular(state.L, state.products, upper=False)

    def influence(self, state: NystromState, lam: float) -> torch.Tensor:
        """B = L⁻ᵀ (H + cI)⁻¹ L⁻¹, so that k_M(x)ᵀ B k_M(x') = φ(x)ᵀ (H + cI)⁻¹ φ(x')."""
        H, _ = self.whitened(state)
        R, _ = cholesky(H, state.n * check_lam(lam))
        half = torch.linalg.solve_triangular(state.L, torch.eye(len(R), dtype=R.dtype, device=R.device), upper=False)
        return half.T @ torch.cholesky_solve(half, R)
