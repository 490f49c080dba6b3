"""The least-squares machine α = (K + nλ S⁻¹)⁻¹ y, and its exact leave-one-out residuals.

With sample weights S = diag(s) the system is made symmetric in β = S^{-1/2} α:

    (K̃ + nλ I) β = S^{1/2} y,      K̃ = S^{1/2} K S^{1/2},      n = Σ s_i.

Two solvers share the formulas: :class:`Cholesky`, one factor per λ, and :class:`Spectral`, one
eigendecomposition (about 20 factors' worth) for any number of λ.

Let G = (K + nλ S⁻¹)⁻¹. The machine trained without row i, at the same c = nλ, leaves there the residual

    r_i = y_i - f^(-i)(x_i) = α_i / G_ii.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from hgk.arrays import blocks, recording
from hgk.losses import Loss
from hgk.solvers.base import SQUARED, Solution, Solver, Status, check_lam


@dataclass(frozen=True)
class Symmetrised:
    """K̃ and S^{1/2} (as a column)."""

    K: torch.Tensor
    root: torch.Tensor

    @property
    def n(self) -> float:
        return float((self.root**2).sum())


def symmetrise(K: torch.Tensor, sample_weight: torch.Tensor | None, overwrite: bool = False) -> Symmetrised:
    """K̃ = S^{1/2} K S^{1/2}, in the place of K if that may be overwritten.

    The weights must be positive: a row of weight 0 is to be left out before.
    """
    if sample_weight is None:
        return Symmetrised(K, K.new_ones(len(K), 1))
    if not bool((sample_weight > 0).all()):
        raise ValueError("Sample weights must be positive here; leave out the rows whose weight is 0.")
    root = sample_weight.to(K).sqrt()[:, None]
    return Symmetrised((K.mul_(root) if overwrite else root * K).mul_(root.T), root)


@dataclass(frozen=True)
class Factor:
    """(K̃ + cI)⁻¹ at one c = nλ: how to multiply by it, its diagonal, and columns of it."""

    multiply: Callable[[torch.Tensor], torch.Tensor]
    diagonal: Callable[[], torch.Tensor]
    columns: Callable[[torch.Tensor], torch.Tensor]
    ridge_added: float = 0.0


class DirectSolver(Solver):
    """Formulas common to both solvers; a subclass gives ``prepare`` and ``factor(state, c)``."""

    needs = ("quadratic",)

    @abstractmethod
    def factor(self, state, c: float) -> Factor: ...

    def solve(
        self, state, Y: torch.Tensor, lam: float, loss: Loss = SQUARED, start: Solution | None = None
    ) -> Solution:
        """α at λ, one column per output."""
        self.check(loss)
        return self._factored(state, Y, lam)[0]

    def loo(self, state, Y: torch.Tensor, lam: float) -> Solution:
        """The solution, and its leave-one-out residuals y_i - f^(-i)(x_i), one column per output."""
        solution, factor = self._factored(state, Y, lam)
        # r_i = α_i / G_ii, G_ii = s_i G̃_ii
        return replace(solution, residuals=solution.alpha / (state.system.root**2 * factor.diagonal()[:, None]))

    def _factored(self, state, Y: torch.Tensor, lam: float) -> tuple[Solution, Factor]:
        factor = self.factor(state, state.system.n * check_lam(lam))
        beta = factor.multiply(state.system.root * Y)
        status = Status.RIDGE_ADDED if factor.ridge_added else Status.SOLVED
        return Solution(state.system.root * beta, status, {"ridge_added": factor.ridge_added}), factor


@dataclass(frozen=True)
class CholeskyState:
    system: Symmetrised


# From so many rows a solution alone comes from a factor in single precision; below, a factor takes milliseconds.
MIXED = 2000


class Cholesky(DirectSolver):
    """One Cholesky factor per λ, n³/3 operations.

    For α alone the factor may be in single precision, at half the time and memory: conjugate gradients in double
    precision with it as preconditioner then need a few products (as in LAPACK's dsposv, which neither torch nor scipy
    offers). Where a dozen are not enough, the factor is taken in double precision.

    Examples
    --------
    >>> K, Y = torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([[1.0], [1.0]])
    >>> Cholesky().solve(Cholesky().prepare(K), Y, 0.25).alpha[:, 0]
    tensor([0.5000, 0.5000])
    """

    def solve(
        self, state: CholeskyState, Y: torch.Tensor, lam: float, loss: Loss = SQUARED, start: Solution | None = None
    ) -> Solution:
        """α at λ, one column per output."""
        self.check(loss)
        system = state.system
        if len(system.K) >= MIXED and system.K.dtype == torch.float64:
            beta = refined(system.K, system.n * check_lam(lam), system.root * Y)
            if beta is not None:
                return Solution(system.root * beta, Status.SOLVED, {"ridge_added": 0.0})
        return super().solve(state, Y, lam)

    def prepare(
        self, K: torch.Tensor, sample_weight: torch.Tensor | None = None, overwrite: bool = False
    ) -> CholeskyState:
        return CholeskyState(symmetrise(K, sample_weight, overwrite))

    def factor(self, state: CholeskyState, c: float) -> Factor:
        L, ridge = cholesky(state.system.K, c)
        inverse: list[torch.Tensor] = []

        def whole() -> torch.Tensor:  # computed when first asked for: it costs twice the factor
            if not inverse:
                inverse.append(torch.cholesky_inverse(L))
            return inverse[0]

        def columns(index: torch.Tensor) -> torch.Tensor:
            if 3 * len(index) > len(L):  # then the inverse costs less
                return whole() if len(index) == len(L) else whole()[:, index]
            unit = L.new_zeros(len(L), len(index))
            unit[index.to(L.device), torch.arange(len(index), device=L.device)] = 1.0
            return torch.cholesky_solve(unit, L)

        return Factor(
            multiply=lambda Y: torch.cholesky_solve(Y, L),
            diagonal=lambda: whole().diagonal(),
            columns=columns,
            ridge_added=ridge,
        )


def refined(K: torch.Tensor, c: float, B: torch.Tensor, tolerance: float = 1e-12, most: int = 12):
    """(K + cI)⁻¹ B to a relative residual of ``tolerance`` in every column, or None if that takes too long.

    The residual is the one that the recursion keeps; the true one may be larger by rounding, as with a factor in
    double precision.

    Conjugate gradients, one run per column, with the factor L Lᵀ of the matrix in single precision:

        z = (L Lᵀ)⁻¹ r      p ← z + (rᵀz / previous rᵀz) p      a = rᵀz / pᵀ(K + cI)p
        β ← β + a p         r ← r - a (K + cI) p
    """
    A = K.float()
    A.diagonal().add_(c)
    L, info = torch.linalg.cholesky_ex(A)
    del A
    scale = B.abs().amax(0).clamp_min(torch.finfo(B.dtype).tiny)
    if int(info) or not bool(scale.isfinite().all()):
        return None
    B = B / scale  # labels of any size: their squares neither overflow nor vanish
    beta, r, p, before = torch.zeros_like(B), B.clone(), torch.zeros_like(B), torch.ones_like(B[:1])
    goal = tolerance * B.norm(dim=0)
    for _ in range(most):
        if bool((r.norm(dim=0) <= goal).all()):
            return beta * scale
        # Two triangular solves; torch.cholesky_solve would copy L each time.
        z = torch.linalg.solve_triangular(L, r.float(), upper=False)
        z = torch.linalg.solve_triangular(L.mT, z, upper=True).double()
        now = (r * z).sum(0, keepdim=True)
        p = z + torch.where(before > 0, now / before, 0.0) * p
        Ap = torch.addmm(c * p, K, p)
        curvature = (p * Ap).sum(0, keepdim=True)
        a = torch.where(curvature > 0, now / curvature, 0.0)
        beta, r, before = beta + a * p, r - a * Ap, now
    return None


def solved_in_place(A: torch.Tensor, c: float, B: torch.Tensor, size: int = 4096) -> torch.Tensor | None:
    """(A + cI)⁻¹ B, where A, symmetric, is overwritten by its factor: one matrix in memory. None if it breaks down.

    By blocks of columns k, with the rows below and right of them as the rest:

        L_kk L_kkᵀ = A_kk      L_rk = A_rk L_kk⁻ᵀ      A_rr ← A_rr - L_rk L_rkᵀ  (its lower half)
    """
    n, unit = len(A), smallest_pivot(A)
    A.diagonal().add_(c)
    for k in blocks(n, size):
        L, info = torch.linalg.cholesky_ex(A[k, k])
        if int(info) or not float(L.diagonal().min()) ** 2 > unit:
            return None
        A[k, k] = L
        panel = torch.linalg.solve_triangular(L, A[k.stop :, k].mT, upper=False).mT.contiguous()
        A[k.stop :, k] = panel
        for j in blocks(len(panel), size):
            A[k.stop + j.start :, k.stop + j.start : k.stop + j.stop].addmm_(panel[j.start :], panel[j].T, alpha=-1)
    X = B.clone()
    for k in blocks(n, size):
        right = X[k] - A[k, : k.start] @ X[: k.start]
        X[k] = torch.linalg.solve_triangular(A[k, k], right, upper=False)
    for k in reversed(list(blocks(n, size))):
        right = X[k] - A[k.stop :, k].mT @ X[k.stop :]
        X[k] = torch.linalg.solve_triangular(A[k, k].mT, right, upper=True)
    return X


def smallest_pivot(K: torch.Tensor, dtype: torch.dtype | None = None) -> float:
    """n ε max K_ii: an eigenvalue or squared pivot below it is rounding, where K was computed in ``dtype``."""
    return len(K) * torch.finfo(dtype or K.dtype).eps * float(K.diagonal().max())


def cholesky(K: torch.Tensor, c: float | torch.Tensor, rounded: bool = False) -> tuple[torch.Tensor, float]:
    """L with L Lᵀ = K + (c + ridge) I, and the ridge; c may differ from row to row.

    If K is ``rounded``, that is, was computed in a lower precision than it deserves, L is in double precision all the
    same, and the precision of K decides what is rounding.

    The ridge is 0 unless the factorisation breaks down or has a pivot that is rounding; then it is ten
    times the size of such a pivot, and ten times more at each further try. It is returned, and ends up in
    ``Solution.stats``: nothing is added silently. While a graph is recorded nothing can be tried again: a factor that
    breaks down is NaN then.
    """
    working = torch.float64 if rounded else K.dtype
    if recording():
        A = K.to(working, copy=True)
        A.diagonal().add_(c)
        L, info = torch.linalg.cholesky_ex(A)
        return L.masked_fill(info != 0, torch.nan), 0.0
    unit = smallest_pivot(K)
    for ridge in (0.0, *(unit * 10**k for k in range(1, 7))):
        A = K.to(working, copy=True)
        A.diagonal().add_(c + ridge)
        L, info = torch.linalg.cholesky_ex(A)
        if int(info) == 0 and float(L.diagonal().min()) ** 2 > smallest_pivot(K, working):  # False for NaN
            return L, ridge
    raise ValueError(
        f"A {len(K)} x {len(K)} matrix that is not positive semi-definite was given (adding {ridge:.1e} to its "
        "diagonal did not help); a kernel matrix is expected, so check for NaN or an indefinite kernel."
    )


@dataclass(frozen=True)
class SpectralState:
    system: Symmetrised
    values: torch.Tensor
    vectors: torch.Tensor


class Spectral(DirectSolver):
    """K̃ = Q Λ Qᵀ once; then every λ costs two products with Q.

    Examples
    --------
    >>> K, Y = torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([[1.0], [1.0]])
    >>> [round(float(one.alpha[0]), 3) for one in Spectral().path(Spectral().prepare(K), Y, [0.25, 0.75])]
    [0.5, 0.333]
    """

    fewest_lams = 20

    def prepare(
        self, K: torch.Tensor, sample_weight: torch.Tensor | None = None, overwrite: bool = False
    ) -> SpectralState:
        system = symmetrise(K, sample_weight, overwrite)
        values, vectors = torch.linalg.eigh(system.K)
        return SpectralState(system, values, vectors)

    def factor(self, state: SpectralState, c: float) -> Factor:
        Q, unit = state.vectors, smallest_pivot(state.system.K)
        shifted = state.values + c
        if not float(shifted.min()) > -1e6 * unit:  # as far as the Cholesky solver goes
            raise ValueError(
                f"A {len(Q)} x {len(Q)} matrix with the eigenvalue {float(state.values.min()):.1e} was given; a kernel "
                "matrix is positive semi-definite, so check for NaN or an indefinite kernel."
            )
        ridge = 0.0 if float(shifted.min()) > unit else 10 * unit - float(shifted.min())
        inverse = 1 / (shifted + ridge)
        return Factor(
            multiply=lambda Y: Q @ (inverse[:, None] * (Q.T @ Y)),
            diagonal=lambda: (Q**2) @ inverse,
            columns=lambda index: (Q * inverse) @ Q[index].T,
            ridge_added=ridge,
        )
