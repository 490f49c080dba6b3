"""Factors of many matrices at once, some of them filled up to the size of the largest.

By blocks of columns k, so that most of the work is in products, which a device does best:

    L_kk L_kkᵀ = A_kk - L_k L_kᵀ,    L_rk = (A_rk - L_r L_kᵀ) L_kk⁻ᵀ     with the blocks L_k, L_r to the left of k
    L⁻¹ = M,    M_kk = L_kk⁻¹,       M_kl = -M_kk (L M)_kl               from the rows of M above
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hgk.arrays import blocks
from hgk.solvers.least_squares import cholesky

# Columns of a block.
BLOCK_COLUMNS = 128


def stacked_cholesky(K: torch.Tensor, c: torch.Tensor, sizes: Sequence[int]) -> tuple[torch.Tensor, list[float]]:
    """L with L Lᵀ = K + diag(c + ridge) and the ridges, as :func:`cholesky` gives them for rounded matrices K_b.

    K is B x n x n, c is B x n; K_b has ``sizes[b]`` rows, and is filled up with those of the unit matrix. A matrix that
    needs a ridge gets it on its own. The upper half of L is not defined.
    """
    A = K.to(torch.float64, copy=True)
    A.diagonal(dim1=1, dim2=2).add_(c)
    broken = _factor(A)
    pivots = A.diagonal(dim1=1, dim2=2).amin(1) ** 2
    least = torch.tensor(sizes, device=K.device) * torch.finfo(torch.float64).eps  # the diagonal of a kernel is 1
    ridges = [0.0] * len(K)
    for b in (broken | ~(pivots > least)).nonzero()[:, 0].tolist():  # NaN is not larger
        n = sizes[b]
        A[b] = torch.diag((1 + c[b]).sqrt())
        A[b, :n, :n], ridges[b] = cholesky(K[b, :n, :n], c[b, :n], rounded=True)
    return A, ridges


def _factor(A: torch.Tensor) -> torch.Tensor:
    """A becomes L; whether each has broken down."""
    broken = torch.zeros(len(A), dtype=torch.bool, device=A.device)
    for k in blocks(A.shape[1], BLOCK_COLUMNS):
        panel = A[:, k.start :, k] - A[:, k.start :, : k.start] @ A[:, k, : k.start].mT
        L, info = torch.linalg.cholesky_ex(panel[:, : k.stop - k.start])
        A[:, k, k] = L
        A[:, k.stop :, k] = torch.linalg.solve_triangular(L.mT, panel[:, len(L[0]) :], upper=True, left=False)
        broken |= info != 0
    return broken


def stacked_solve(L: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """(L Lᵀ)⁻¹ B, by blocks of rows: forwards with L_kk and the blocks to its left, backwards with those below it."""
    X, parts = B.clone(), list(blocks(L.shape[1], BLOCK_COLUMNS))
    for k in parts:
        right = X[:, k] - L[:, k, : k.start] @ X[:, : k.start]
        X[:, k] = torch.linalg.solve_triangular(L[:, k, k], right, upper=False)
    for k in reversed(parts):
        right = X[:, k] - L[:, k.stop :, k].mT @ X[:, k.stop :]
        X[:, k] = torch.linalg.solve_triangular(L[:, k, k].mT, right, upper=True)
    return X


def inverse_factor(L: torch.Tensor) -> torch.Tensor:
    """M = L⁻¹, so that the inverse is Mᵀ M."""
    M = torch.zeros_like(L)
    for k in blocks(L.shape[1], BLOCK_COLUMNS):
        unit = torch.eye(k.stop - k.start, dtype=L.dtype, device=L.device).expand(len(L), -1, -1)
        M[:, k, k] = torch.linalg.solve_triangular(L[:, k, k], unit, upper=False)
        M[:, k, : k.start] = M[:, k, k] @ (L[:, k, : k.start] @ M[:, : k.start, : k.start]).neg_()
    return M
