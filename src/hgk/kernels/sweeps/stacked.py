"""Many kernels of one tree at once, each on rows of its own: the twin of :class:`hgk.kernels.Sweep` for accelerators.

What is small for one kernel fills a device if it is done for a hundred. Arrays have an axis for the kernels in front,

    E[b, i] = -S_i of kernel b over its pairs of rows,      above: log k = C_b (k_below - 1),  C_pi = 2 w_i²

and row sets of different sizes are filled up: filled-up rows are isolated, with k(x, x) = 1 and k(x, x') = 0 else, and
have no part in a gradient, where ∂J/∂K is 0.
"""

from __future__ import annotations

import torch

from hgk.kernels.architecture import Architecture
from hgk.kernels.nodes.base import Members, Stacked, Weights
from hgk.kernels.nodes.columns import StackedDistances
from hgk.kernels.nodes.smooth import StackedProducts
from hgk.kernels.sweeps import compiled

# Whose compiled twin is the one for sums over columns.
COMPILED = (StackedDistances, StackedProducts)


def worker(members: Members, X: torch.Tensor) -> type[Stacked]:
    """Who computes these nodes' exponents: the compiled twin where there is one and Triton runs."""
    plain, twin = members.kind.stacked, members.kind.twin
    assert plain is not None, "stackable was not asked"
    if plain in COMPILED and twin is not None and compiled.runs(X):
        return compiled.FusedColumns
    return plain


def stackable(architecture: Architecture) -> bool:
    """Whether every kind in the tree can be computed for many kernels at once."""
    return all(kind.stacked is not None for kind in architecture.kinds)


def bytes_of_sweep(architecture: Architecture, pairs: int, size: int = 4) -> float:
    """About what a sweep holds for each kernel, there and back; ``size`` is that of a number."""
    nodes = 1 + len(architecture.coordinates) + sum(map(len, architecture.parents))
    workers = [(members.kind.stacked, members) for members in architecture.members]
    held = max((worker.HELD for worker, _ in workers if worker is not None), default=2.0)
    beside = sum(worker.beside(members) for worker, members in workers if worker is not None)
    return size * pairs * (2 * nodes + held) + beside


class StackedSweep:
    """B kernels, with weights and widths of their own, on row sets (B, rows, columns).

    ``present``, (B, rows), says which rows of Z, and of X where Z is None, are not filled up.
    """

    def __init__(
        self,
        architecture: Architecture,
        W: Weights,
        gammas: torch.Tensor,
        present: torch.Tensor,
        X: torch.Tensor,
        Z: torch.Tensor | None = None,
    ):
        self.architecture, self.present, self.symmetric = architecture, present, Z is None
        self.W = tuple(w.to(X.device) for w in W)
        self.scale = (gammas**-2).to(X)[:, None, None]
        centre_of, there = X if Z is None else Z, present[..., None].to(X)
        centre = (centre_of * there).sum(1, keepdim=True) / there.sum(1, keepdim=True)
        rows = (centre_of - centre) * there
        self.X, self.Z = (rows, rows) if Z is None else (X - centre, rows)
        self.workers = [worker(members, self.X)(members, self.W, self.X, self.Z) for members in architecture.members]
        self.C = [self._edges(layer).to(X) for layer in range(1, architecture.depth)]

    def _edges(self, layer: int) -> torch.Tensor:
        """C: B x parents x children."""
        parents, w = list(self.architecture.parents[layer - 1]), self.W[layer]
        C = w.new_zeros(len(w), max(parents) + 1, len(parents))
        C[:, parents, list(range(len(parents)))] = 2 * w**2
        return C

    def exponent(self) -> torch.Tensor:
        """S without γ, B x rows x rows."""
        return self._log_kernel().neg_()

    def matrix(self) -> torch.Tensor:
        """K; of one row set, filled-up rows are isolated."""
        self.K = self._log_kernel().mul_(self.scale).exp_()
        return isolated(self.K, self.present) if self.symmetric else self.K

    def _log_kernel(self) -> torch.Tensor:
        shape = self.X.shape[1], self.Z.shape[1]
        E = self.X.new_empty(len(self.X), len(self.architecture.coordinates), *shape)
        for worker in self.workers:
            worker.fill(E)
        self.kernels: list[torch.Tensor] = []
        for C in self.C:
            self.kernels.append(E.clamp_(max=0.0).exp_().flatten(2))
            E = (C @ self.kernels[-1]).sub_(C.sum(2, keepdim=True)).unflatten(2, shape)
        top = E[:, 0]
        if self.symmetric:  # products round x·x' and x'·x differently
            top = (top + top.mT).mul_(0.5)
            top.diagonal(dim1=1, dim2=2).zero_()
        return top.clamp_(max=0.0)

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W, one array per layer, in float64; to be called once, after ``matrix``."""
        grads = tuple(torch.zeros_like(w) for w in self.W)
        N = (dJ_dK * self.K * self.scale).flatten(1)[:, None]
        for layer in range(len(self.kernels), 0, -1):
            C, parents = self.C[layer - 1], list(self.architecture.parents[layer - 1])
            whole = N.sum(2, dtype=torch.float64)[:, parents]
            N = self.kernels[layer - 1].mul_(C.mT @ N)
            # ∂J/∂w_i = -4 w_i (Σ N_p - ⟨N_p, k_i⟩), where N_i = 2 w_i² N_p ∘ k_i
            c = C.sum(1).double()
            inner = torch.where(c > 0, N.sum(2, dtype=torch.float64) / c, 0.0)
            grads[layer].sub_(4 * self.W[layer] * (whole - inner))
        N = N.unflatten(2, (self.X.shape[1], self.Z.shape[1]))
        for worker in self.workers:
            worker.accumulate(N, grads)
        return grads


def isolated(K: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """K, where filled-up rows have nothing to do with others; the diagonal is 1."""
    K.mul_(present[:, :, None] & present[:, None])
    K.diagonal(dim1=1, dim2=2).fill_(1.0)
    return K
