"""Nyström's machine: least squares over the span of M centres, the rows in blocks.

With centres z, K_MM = L Lᵀ and features φ(x) = L⁻¹ k_M(x), the functions are f = βᵀφ with ‖f‖ = ‖β‖, and

    min_β  λ‖β‖² + (1/n) Σ s_i (y_i - βᵀφ_i)²       (H + cI) β = Σ s_i φ_i y_i,   H = Σ s_i φ_i φ_iᵀ,   c = nλ
    α = L⁻ᵀ β                                       f = Σ_j α_j k(z_j, ·)
    r_i = (y_i - f(x_i)) / (1 - s_i φ_iᵀ (H + cI)⁻¹ φ_i)        leave-one-out residuals, centres fixed

Rows may come in blocks K_bM and are forgotten; memory is M², time n M² for H and M³ per λ. Sums are in double
precision: H is multiplied by L⁻¹ from both sides, which would magnify the rounding of single-precision sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hgk.losses import Loss
from hgk.solvers.base import SQUARED, Solution, Solver, Status, check_lam
from hgk.solvers.least_squares import cholesky


@dataclass
class NystromState:
    """L, Σ s k_M k_Mᵀ, Σ s k_M yᵀ and n = Σ s over the rows so far; and s k_M of the rows whose labels are to come."""

    L: torch.Tensor
    squares: torch.Tensor
    products: torch.Tensor | None = None
    n: float = 0.0
    weighted: torch.Tensor | None = None


# Added to the diagonal of K_MM (which is 1), so that blocks in single precision and nearly equal centres do no harm.
JITTER = 1e-5


class Nystrom(Solver):
    """Least squares on centres, with all rows at once or block by block.

    All rows at once: ``prepare(K_nM, weight, centres=K_MM)``, then ``solve(state, Y, lam)``. Block by block:
    ``prepare(K_MM)``, ``add(state, K_bM, Y, weight)`` for every block, then ``solve(state, None, lam)``, since the
    labels came with the rows.

    Examples
    --------
    >>> x = torch.linspace(-1, 1, 9, dtype=torch.float64)
    >>> K = torch.exp(-((x[:, None] - x) ** 2))
    >>> solver = Nystrom()
    >>> at_once = solver.solve(solver.prepare(K[:, ::2], centres=K[::2, ::2]), x[:, None], 0.1)
    >>> state = solver.prepare(K[::2, ::2])
    >>> for block in (slice(0, 4), slice(4, 9)):
    ...     solver.add(state, K[block, ::2], x[block, None], torch.ones(9)[block])
    >>> torch.allclose(at_once.alpha, solver.solve(state, None, 0.1).alpha)
    True
    """

    needs = ("quadratic",)
    centres = True

    def prepare(
        self, K: torch.Tensor, sample_weight: torch.Tensor | None = None, centres: torch.Tensor | None = None
    ) -> NystromState:
        """With ``centres``, K is that of rows and centres; without, that of the centres, and the rows are to come."""
        K_MM = (K if centres is None else centres).double()
        state = NystromState(cholesky(K_MM, JITTER)[0], torch.zeros_like(K_MM))
        if centres is not None:
            weight = torch.ones(len(K), device=K.device) if sample_weight is None else sample_weight
            state.weighted = self._count(state, K, weight)
        return state

    def add(self, state: NystromState, K: torch.Tensor, Y: torch.Tensor, sample_weight: torch.Tensor) -> None:
        """Count the rows of one block; ``K`` is block x M."""
        if state.products is None:
            state.products = state.L.new_zeros(len(state.L), Y.shape[1])
        self._count(state, K, sample_weight)
        state.products.addmm_(K.double().T, sample_weight.double()[:, None] * Y.double())

    def _count(self, state: NystromState, K: torch.Tensor, sample_weight: torch.Tensor) -> torch.Tensor:
        """s k_M of the rows, counted in Σ s k_M k_Mᵀ and n."""
        K, s = K.double(), sample_weight.double()[:, None]
        weighted = s * K
        state.squares.addmm_(weighted.T, K)
        state.n += float(s.sum())
        return weighted

    def solve(self, state, Y, lam, loss=SQUARED, start=None):
        """α at λ; ``Y`` is None where the labels came with the rows."""
        return self.path(state, Y, [lam], loss)[0]

    def path(
        self, state: NystromState, Y: torch.Tensor | None, lams: Sequence[float], loss: Loss = SQUARED
    ) -> list[Solution]:
        """α at each λ, from one H."""
        self.check(loss)
        H, right, solutions = self.whitened(state), self._right(state, Y), []
        for lam in lams:
            R, ridge = cholesky(H, state.n * check_lam(lam))
            alpha = torch.linalg.solve_triangular(state.L.T, torch.cholesky_solve(right, R), upper=True)
            solutions.append(Solution(alpha, Status.RIDGE_ADDED if ridge else Status.SOLVED, {"ridge_added": ridge}))
        return solutions

    def whitened(self, state: NystromState) -> torch.Tensor:
        """H = L⁻¹ (Σ s k_M k_Mᵀ) L⁻ᵀ."""
        half = torch.linalg.solve_triangular(state.L, state.squares, upper=False)
        H = torch.linalg.solve_triangular(state.L, half.T, upper=False)
        return (H + H.T) / 2

    def _right(self, state: NystromState, Y: torch.Tensor | None) -> torch.Tensor:
        """L⁻¹ Σ s k_M yᵀ."""
        products = state.products if Y is None or state.weighted is None else state.weighted.T @ Y.double()
        if products is None:
            raise ValueError(
                "Nystrom has no labels to solve for; give them to solve, or to add with each block of rows."
            )
        return torch.linalg.solve_triangular(state.L, products, upper=False)

    def influence(self, state: NystromState, lam: float) -> torch.Tensor:
        """B = L⁻ᵀ (H + cI)⁻¹ L⁻¹, so that k_M(x)ᵀ B k_M(x') = φ(x)ᵀ (H + cI)⁻¹ φ(x')."""
        R, _ = cholesky(self.whitened(state), state.n * check_lam(lam))
        half = torch.linalg.solve_triangular(state.L, torch.eye(len(R), dtype=R.dtype, device=R.device), upper=False)
        return half.T @ torch.cholesky_solve(half, R)
