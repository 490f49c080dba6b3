"""The forward and backward sweep over one batch of rows: the fast twin of :class:`hgk.kernels.Sweep`.

A batch's kernel matrix is symmetric, so every unordered pair is computed once. The pairs are laid out by shift,

    E[a, s - 1] = value of the pair (a, a + s mod n),      s = 1 … h = ⌊n/2⌋,

because then the differences of one column over all pairs are *contiguous* differences of two copies of it. (For
even n the last shift meets every pair twice and counts half.) In this layout

    first layer     S_i = Σ_j v_ij² δ(x_j - x'_j)      one product V² · D for all nodes of one kind
    above           log k = C (k_below - 1)            one product,  C_pi = 2 w_i² for the children i of p
    backwards       N_below = k ∘ Cᵀ N                 ∂J/∂v = -2 v ∘ (N Dᵀ)

a dozen operations on whole arrays instead of one per node. Differences cancel nothing, so single precision is safe
(oblique nodes go through products of centred rows). A slab of rows a is done at a time, so that its arrays stay in
cache; the differences are formed again on the way back, which is cheaper than reading them from memory. Exponentials
are powers of two: log₂e is folded into the weights, and exp2 takes a third of exp's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from hgk.arrays import Buffers
from hgk.kernels.nodes.base import LOG2E, Batch, Weights
from hgk.kernels.sweeps import compiled, processor
from hgk.kernels.sweeps.compiled.sweep import FusedSweep
from hgk.kernels.sweeps.processor import LoopBatchSweep

if TYPE_CHECKING:
    from hgk.kernels.hierarchical import HierarchicalKernel

# Differences (columns x pairs) held at once: 4 MiB in single precision.
SLAB = 2**20


def shifted(M: torch.Tensor) -> torch.Tensor:
    """E[a, s - 1] = M[a, a + s mod n], as a view of two copies of M side by side."""
    n = len(M)
    return torch.cat([M, M], 1).as_strided((n, n // 2), (2 * n + 1, 1), 1)


def unshifted(E: torch.Tensor) -> torch.Tensor:
    """The symmetric n x n matrix with zero diagonal whose entries are E: the inverse of ``shifted``."""
    n, h = E.shape
    doubled = E.new_zeros(n, 2 * n)
    view = doubled.as_strided(E.shape, (2 * n + 1, 1), 1)
    view.copy_(E)
    if n % 2 == 0:
        view[:, h - 1] *= 0.5
    M = doubled[:, :n] + doubled[:, n:]
    return M + M.T


def batch_sweep(
    kernel: HierarchicalKernel, X: torch.Tensor, buffers: Buffers | None = None, often: bool = False
) -> BatchSweep | LoopBatchSweep | FusedSweep:
    """K and its gradient on a batch of rows: by compiled code on an accelerator, or where very many batches follow."""
    if compiled.suits(kernel.architecture, X):
        return compiled.sweep(kernel.architecture, kernel.W, kernel.gamma, X)
    if often and processor.suits(kernel.architecture, X):
        return LoopBatchSweep(kernel, X, buffers)
    return BatchSweep(kernel, X, buffers)


class BatchSweep:
    """K = exp(-γ⁻² S) of a batch of rows, and ∂J/∂W from ∂J/∂K; to be used once each, in this order."""

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, buffers: Buffers | None = None):
        self.architecture, self.W, self.gamma = kernel.architecture, kernel.W, kernel.gamma
        self.buffers = Buffers() if buffers is None else buffers
        self.X = X - X.mean(0)
        self.n, self.h = len(X), len(X) // 2
        members = self.architecture.members
        self.workers = [m.kind.batch(m, self.W, self.X, self.buffers) for m in members]
        self.order = [i for m in members for i in m.nodes]  # of the nodes in arrays over pairs, kind by kind
        widest = max([len(self.order), *(worker.held for worker in self.workers)])
        size = max(1, SLAB // max(1, widest * self.h))
        self.slabs = [(a, min(a + size, self.n)) for a in range(0, self.n, size)]
        self.C = [self._edges(layer).to(X) for layer in range(1, self.architecture.depth)]

    def _edges(self, layer: int) -> torch.Tensor:
        """C: parents x children, 2 w_i² where i is a child of p."""
        parents = list(self.architecture.parents[layer - 1])
        children = self.order if layer == 1 else range(len(parents))
        C = torch.zeros(max(parents) + 1, len(parents), dtype=torch.float64)
        for place, i in enumerate(children):
            C[parents[i], place] = 2 * self.W[layer][i] ** 2
        return C

    # ------------------------------------------------------------------------------------ forward

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        top = self.buffers.get(("top",), (self.n, self.h), self.X)
        self.kernels = []
        for number, (start, stop) in enumerate(self.slabs):
            k = self._first_layer(number, start, stop)
            layers = []
            for C in self.C:
                layers.append(k.exp2_())
                k = torch.mm(C, k).sub_(C.sum(1, keepdim=True)).mul_(LOG2E)
            self.kernels.append(layers)
            top[start:stop] = k.view(stop - start, self.h)
        self.K = top.mul_(self.gamma**-2).exp2_()
        K = unshifted(self.K)
        K.diagonal().fill_(1.0)
        return K

    def _first_layer(self, number: int, start: int, stop: int) -> torch.Tensor:
        """-S_i log₂e of every node on one slab, nodes x pairs."""
        E = self.buffers.get(("E", number), (len(self.order), (stop - start) * self.h), self.X)
        for worker, part in self._parts(E):
            worker.fill(start, stop, part)
        return E

    def _parts(self, arrays: torch.Tensor) -> Iterator[tuple[Batch, torch.Tensor]]:
        """Every kind's part of an array over nodes and pairs."""
        yield from zip(self.workers, arrays.split([len(worker.nodes) for worker in self.workers]), strict=True)

    # ----------------------------------------------------------------------------------- backward

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W from the symmetric ∂J/∂K, one array per layer, in float64."""
        grads = tuple(torch.zeros_like(w) for w in self.W)
        N = shifted(dJ_dK) * self.K * (2 * self.gamma**-2)
        if self.n % 2 == 0:
            N[:, -1] *= 0.5
        for (start, stop), layers in zip(self.slabs, self.kernels, strict=True):
            below = self._descend(N[start:stop].reshape(1, -1), layers, grads)
            for worker, N_i in self._parts(below):
                worker.accumulate(start, stop, N_i, grads)
        for worker in self.workers:
            worker.finish(grads)
        return grads

    def _descend(self, N: torch.Tensor, layers: list[torch.Tensor], grads: Weights) -> torch.Tensor:
        """∂J/∂w of every edge on one slab, and N of the first layer; the kernels' memory is used for N."""
        for layer in range(len(layers), 0, -1):
            k, C = layers[layer - 1], self.C[layer - 1]
            # ∂J/∂w_i = -4 w_i Σ N_p (1 - k_i) = -4 w_i (Σ N_p - ⟨N_p, k_i⟩)
            inner = (N.sum(1, keepdim=True) - N @ k.T).double().cpu()
            parents = torch.tensor(self.architecture.parents[layer - 1])
            order = torch.tensor(self.order) if layer == 1 else torch.arange(len(parents))
            grads[layer][order] -= 4 * self.W[layer][order] * inner[parents[order], torch.arange(len(order))]
            N = k.mul_(torch.mm(C.T, N))
        return N
