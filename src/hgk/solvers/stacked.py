"""Factors of many matrices at once, some of them filled up to the size of the largest."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hgk.solvers.least_squares import cholesky


def stacked_cholesky(K: torch.Tensor, c: torch.Tensor, sizes: Sequence[int]) -> tuple[torch.Tensor, list[float]]:
    """L with L Lᵀ = K + diag(c + ridge) and the ridges, as :func:`cholesky` gives them for rounded matrices K_b.

    K is B x n x n, c is B x n; K_b has ``sizes[b]`` rows, and is filled up with those of the unit matrix. A matrix that
    needs a ridge gets it on its own.
    """
    A = K.double()  # a copy, as K is in single precision
    A = A.clone() if A is K else A
    A.diagonal(dim1=1, dim2=2).add_(c)
    L, info = torch.linalg.cholesky_ex(A)
    pivots = L.diagonal(dim1=1, dim2=2).amin(1) ** 2
    least = torch.tensor(sizes, device=K.device) * torch.finfo(torch.float64).eps  # the diagonal of a kernel is 1
    ridges = [0.0] * len(K)
    for b in (~((info == 0) & (pivots > least))).nonzero()[:, 0].tolist():  # NaN is not larger
        n = sizes[b]
        L[b] = torch.diag((1 + c[b]).sqrt())
        L[b, :n, :n], ridges[b] = cholesky(K[b, :n, :n], c[b, :n], rounded=True)
    return L, ridges


def inverse_factor(L: torch.Tensor) -> torch.Tensor:
    """L⁻¹, so that the inverse is L⁻ᵀ L⁻¹."""
    unit = torch.eye(L.shape[1], dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(L, unit.expand_as(L), upper=False)
