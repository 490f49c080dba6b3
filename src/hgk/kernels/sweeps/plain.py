"""The formulas of a kernel of any depth on tiles of pairs, forwards and backwards (:mod:`hgk.kernels.hierarchical`)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING

import torch

from hgk.arrays import Buffers, tiles
from hgk.kernels.nodes.base import Pair, Weights

if TYPE_CHECKING:
    from hgk.kernels.hierarchical import HierarchicalKernel


class Sweep:
    """One kernel on one pair of row sets: the formulas above, for any tile of pairs.

    The rows are centred first, because ‖v x‖² + ‖v x'‖² - 2⟨v x, v x'⟩ cancels when they lie far from 0.
    """

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, Z: torch.Tensor | None = None):
        self.architecture, self.W, self.gamma = kernel.architecture, kernel.W, kernel.gamma
        self.symmetric = Z is None
        centre = (X if Z is None else Z).mean(0)
        self.X = X - centre
        self.Z = self.X if Z is None else Z - centre
        self.edges = [w.tolist() for w in self.W[1 : self.architecture.depth]]
        self.buffers = Buffers()
        members = self.architecture.members
        self.workers = [m.kind.tiles(m, self.W, self.X, self.Z, self.buffers) for m in members]
        self.worker_of = {i: worker for worker in self.workers for i in worker.nodes}

    def tiles(self, backward: bool = False) -> Iterator[Pair]:
        """Tiles of all pairs, sized by how many arrays are held at once."""
        held = self.architecture.depth + max(worker.arrays for worker in self.workers)
        held += len(self.worker_of) if backward else 0
        return tiles(len(self.X), len(self.Z), self.symmetric, held, self.X.device)

    def changed(self, layer: int, index: tuple[int, ...], value: float) -> Sweep:
        """The sweep of the kernel in which ``W[layer][index]`` is ``value``; the rest is shared."""
        other = copy(self)
        W = list(self.W)
        W[layer] = W[layer].clone()
        W[layer][index] = value
        other.W = tuple(W)
        if layer == 0:
            affected = self.worker_of[index[0]]
            other.workers = [worker.changed(other.W) if worker is affected else worker for worker in self.workers]
            other.worker_of = {i: worker for worker in other.workers for i in worker.nodes}
        else:
            other.edges = [list(edges) for edges in self.edges]
            other.edges[layer - 1][index[0]] = value
        return other

    def log_kernel(self, pair: Pair, layer: int = 0, node: int = 0, keep: bool = False) -> torch.Tensor:
        """log k_p = -S_p of one node on one tile; without γ, and by default of the top node.

        The result lies in a buffer that the next call uses again. With ``keep`` every node has a buffer
        of its own, and those below hold k_i afterwards.
        """
        layer = layer or self.architecture.depth
        E = self.buffer(pair, (layer, node if keep else 0))
        if layer == 1:
            self.worker_of[node].fill(pair, node, E)
        else:
            family = self.architecture.children(layer, node)
            w2 = [2 * self.edges[layer - 2][i] ** 2 for i in family]
            E.fill_(-sum(w2))
            for i, weight in zip(family, w2, strict=True):
                E.add_(self.log_kernel(pair, layer - 1, i, keep).exp_(), alpha=weight)
        return E.clamp_(max=0.0)

    def buffer(self, pair: Pair, key: tuple[int, int]) -> torch.Tensor:
        """A tile to write into."""
        rows, columns = (s.stop - s.start for s in pair)
        return self.buffers.get(key, (rows, columns), self.X)

    def exponent(self) -> torch.Tensor:
        """S over all pairs."""
        S = self.X.new_empty(len(self.X), len(self.Z))
        for r, c in self.tiles():
            E = self.log_kernel((r, c))
            if self.symmetric:  # the product rounds x·x' and x'·x differently
                S[c, r] = (E.add_(E.T.clone()).mul_(0.5) if r == c else E).T.neg()
            torch.neg(E, out=S[r, c])
        return S.fill_diagonal_(0.0) if self.symmetric else S

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        return self.exponent().mul_(-(self.gamma**-2)).exp_()

    def multiply(self, alpha: torch.Tensor) -> torch.Tensor:
        """K alpha, tile by tile."""
        t = self.X.new_zeros(len(self.X), alpha.shape[1])
        for r, c in self.tiles():
            t[r].addmm_(self.log_kernel((r, c)).mul_(self.gamma**-2).exp_(), alpha[c])
        return t

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W over all pairs."""
        grads = tuple(torch.zeros_like(w) for w in self.W)
        for r, c in self.tiles(backward=True):
            G = dJ_dK[r, c]
            if self.symmetric and r != c:
                G = G + dJ_dK[c, r].T
            self.accumulate((r, c), G, grads)
        return grads

    def kernels(self, pair: Pair) -> tuple[torch.Tensor, list[list[torch.Tensor]]]:
        """log k of the top node, and k of every node below, per layer, on one tile."""
        top = self.log_kernel(pair, keep=True)
        sizes = map(len, self.architecture.parents)
        return top, [[self.buffer(pair, (layer, i)) for i in range(n)] for layer, n in enumerate(sizes, start=1)]

    def descend(self, pair: Pair, dJ_dK: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor, torch.Tensor | None]]:
        """Top-down: (layer, i, N_parent, k_i) for each edge, then (0, i, N_i, None) for each first-layer node."""
        depth, parents = self.architecture.depth, self.architecture.parents
        E, kernels = self.kernels(pair)
        above = [E.mul_(self.gamma**-2).exp_().mul_(dJ_dK).mul_(self.gamma**-2)]
        for layer in range(depth - 1, 0, -1):
            N = []
            for i, p in enumerate(parents[layer - 1]):
                k = kernels[layer - 1][i]
                yield layer, i, above[p], k
                N.append(k.mul_(above[p]).mul_(2 * self.edges[layer - 1][i] ** 2))
            above = N
        for i, N_i in enumerate(above):
            yield 0, i, N_i, None

    def accumulate(self, pair: Pair, dJ_dK: torch.Tensor, grads: Weights) -> None:
        """Add one tile's part of ∂J/∂W to ``grads``."""
        parent, total, first_layer = None, 0.0, {}
        for layer, i, N, k in self.descend(pair, dJ_dK):
            if k is None:
                first_layer[i] = N
                continue
            if N is not parent:
                parent, total = N, float(N.sum())
            # Σ N (1 - k) = Σ N - ⟨N, k⟩
            grads[layer][i] -= 4 * self.edges[layer - 1][i] * (total - float(torch.dot(N.view(-1), k.view(-1))))
        for worker in self.workers:
            worker.accumulate(pair, first_layer, grads)
