"""The compiled twin of :class:`hgk.kernels.Sweep` on processors: K and K·α of trees of depth 1 and 2.

It takes rows in single precision, and nodes that are sums of squares or of absolute differences, and lays a tree out
for :mod:`hgk.kernels.sweeps.loops`. Products differ from those in double precision by some 10⁻⁶ of Σ |α_j| k(x, x_j).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.arrays import Buffers, blocks
from hgk.executor import Threads
from hgk.kernels.architecture import Architecture
from hgk.kernels.nodes.base import LOG2E, Weights
from hgk.kernels.nodes.oblique import Map
from hgk.kernels.sweeps import compiled

if TYPE_CHECKING:
    from hgk.kernels.hierarchical import HierarchicalKernel

# Pairs that are worth a thread.
WORTH_A_THREAD = 2**18
# The maps of a tree without mapped nodes.
EMPTY = np.zeros((0, 1, 1), np.float32)


def suits(architecture: Architecture, X: torch.Tensor) -> bool:
    """Whether the loops take this tree on these rows."""
    twins = [members.kind.twin for members in architecture.members]
    known = all(twin is not None and twin.q in (1.0, 2.0) for twin in twins)
    known = known and sum(twin.mapped for twin in twins if twin) <= 1
    return known and architecture.depth <= 2 and X.dtype == torch.float32 and X.device.type == "cpu"


class LoopLayout:
    """Where a tree's nodes and columns lie: smooth nodes, then mapped ones, then rough ones."""

    def __init__(self, architecture: Architecture):
        sets, twins = architecture.coordinates, [kind.twin for kind in architecture.kinds]
        self.flat = architecture.depth == 1
        self.smooth = [i for i, twin in enumerate(twins) if twin and twin.q == 2 and not twin.mapped]
        self.rough = [i for i, twin in enumerate(twins) if twin and twin.q == 1]
        self.mapping = compiled.mapped(architecture)
        self.mapped = self.mapping.nodes if self.mapping is not None else []
        self.used = np.array(self.mapping.used if self.mapping is not None else [], dtype=np.int64)
        self.order = [*self.smooth, *self.mapped, *self.rough]
        # which rows of the loops' Y a node takes: all columns come first, then those of the mapped nodes
        d, p = architecture.d, len(self.used)
        places = [list(sets[i]) for i in self.smooth]
        places += [list(range(d + i * p, d + (i + 1) * p)) for i in range(len(self.mapped))]
        self.places, self.first = _joined(places), np.cumsum([0, *map(len, places)])
        self.raw = _joined([*places[: len(self.smooth)], *([*self.used] for _ in self.mapped)])  # before the maps
        # the smooth nodes' weights, as places in W[0], in the order of ``places``
        self.weights = np.array([i * d + j for i in self.smooth for j in sets[i]], dtype=np.int64)
        self.columns = _joined([sorted({j for i in self.rough for j in sets[i]})])
        self.groups = -(-len(self.rough) // 4)

    def weights_of(self, W: Weights) -> tuple[np.ndarray, ...]:
        """What the loops take, from ``used`` to ``edges``."""
        V, further = W[0].numpy(), [EMPTY, EMPTY] if self.mapping is None else self.mapping.further(W)
        # in the order of their axes, as the loops were compiled for
        v, P, Q = (
            np.ascontiguousarray(w[:, self.used], dtype=np.float32) for w in (V[self.mapped], *map(np.asarray, further))
        )
        u = np.ones(len(self.places), np.float32)
        u[: len(self.weights)] = V.reshape(-1)[self.weights] ** 2
        rough = np.zeros((4 * self.groups, len(self.columns)), np.float32)
        rough[: len(self.rough)] = -LOG2E * V[self.rough][:, self.columns] ** 2
        groups = np.ascontiguousarray(rough.reshape(self.groups, 4, len(self.columns)).swapaxes(1, 2))
        if self.flat:
            return self.used, v, P, Q, self.places, self.first, u, self.columns, groups, np.zeros(0, np.float32)
        edges = np.zeros(len(self.smooth) + len(self.mapped) + 4 * self.groups, np.float32)
        edges[: len(self.order)] = 2 * LOG2E * W[1].numpy()[self.order] ** 2
        return self.used, v, P, Q, self.places, self.first, u, self.columns, groups, edges


def _joined(parts: list[list[int]]) -> np.ndarray:
    return np.array([place for part in parts for place in part], dtype=np.int64)


@lru_cache(maxsize=64)
def loop_layout(architecture: Architecture) -> LoopLayout:
    return LoopLayout(architecture)


class LoopSweep:
    """One kernel on one pair of row sets."""

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, Z: torch.Tensor | None = None):
        layout = loop_layout(kernel.architecture)
        self.gamma, self.symmetric = kernel.gamma, Z is None
        centre = (X if Z is None else Z).mean(0)
        self.X = X - centre
        self.Z = self.X if Z is None else Z - centre
        self.weights = layout.weights_of(kernel.W)

    def multiply(self, alpha: torch.Tensor) -> torch.Tensor:
        """K alpha, block by block."""
        from hgk.kernels.sweeps import loops  # numba is loaded when first needed

        Z, weights = _columns(self.Z), alpha.to(self.Z.dtype).T.contiguous().numpy()
        t, scale = np.zeros((len(self.X), len(weights))), np.float32(self.gamma**-2)

        def fill(rows: slice) -> None:
            loops.add_products(_columns(self.X[rows]), Z, *self.weights, scale, weights, t[rows])

        self._share(fill)
        return torch.from_numpy(t).to(self.X)

    def exponent(self) -> torch.Tensor:
        """S over all pairs."""
        from hgk.kernels.sweeps import loops

        Z, S = _columns(self.Z), self.X.new_zeros(len(self.X), len(self.Z))

        def fill(rows: slice) -> None:
            offset = rows.start if self.symmetric else -1
            loops.fill_exponents(_columns(self.X[rows]), Z, *self.weights, offset, S[rows].numpy())

        self._share(fill)
        return S.add_(S.T.clone()) if self.symmetric else S

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        return self.exponent().mul_(-(self.gamma**-2)).exp_()

    def _share(self, fill: Callable[[slice], None]) -> None:
        """Rows x by as many threads as there is work for; of a symmetric matrix the last have the fewest pairs."""
        n, pairs = len(self.X), len(self.X) * len(self.Z)
        workers = max(1, min(torch.get_num_threads(), pairs // WORTH_A_THREAD))
        if workers == 1:
            fill(slice(0, n))
        else:
            Threads(workers, inner=1).run([partial(fill, part) for part in blocks(n, -(-n // (4 * workers)))])


class LoopBatchSweep:
    """The compiled twin of :class:`hgk.kernels.BatchSweep`."""

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, buffers: Buffers | None = None):
        self.layout, self.kernel = loop_layout(kernel.architecture), kernel
        self.rows = X - X.mean(0)
        self.X, self.weights = _columns(self.rows), self.layout.weights_of(kernel.W)
        n, nodes = len(X), len(self.weights[-1])
        buffers = Buffers() if buffers is None else buffers
        self.kernels = buffers.get(("kernels",), (nodes * (n * (n - 1) // 2),), X).numpy()

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        from hgk.kernels.sweeps import loops

        n = len(self.rows)
        K = self.rows.new_zeros(n, n)
        scale = np.float32(self.kernel.gamma**-2)
        loops.fill_batch(self.X, *self.weights, scale, K.numpy(), self.kernels)
        self.K = K.add_(K.T.clone()).fill_diagonal_(1.0)
        return self.K

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W from the symmetric ∂J/∂K, one array per layer, in float64."""
        from hgk.kernels.sweeps import loops

        layout, W, X = self.layout, self.kernel.W, self.rows
        N = torch.mul(dJ_dK, self.K).mul_(2 * self.kernel.gamma**-2)
        products, groups = len(layout.first) - 1, layout.groups
        inner, rho = np.zeros(products + 4 * groups), X.new_zeros(products, len(X))
        M, sums = X.new_zeros(len(layout.raw), len(X)), np.zeros((groups, len(layout.columns), 4))
        edges = self.weights[-1] / np.float32(LOG2E)
        loops.add_slopes(
            self.X, layout.raw, layout.first, layout.columns, groups, edges, N.numpy(), self.kernels, inner,
            rho.numpy(), M.numpy(), sums,
        )  # fmt: skip
        grads = tuple(torch.zeros_like(w) for w in W)
        if not layout.flat:
            grads[1][layout.order] = -4 * W[1][layout.order] * torch.from_numpy(inner[: len(layout.order)])
        self._add_smooth(grads, rho, M)
        self._add_mapped(grads, rho[len(layout.smooth) :], M[len(layout.weights) :])
        place = torch.tensor(layout.rough)[:, None], torch.from_numpy(layout.columns)
        if layout.rough:
            by_node = torch.from_numpy(sums).swapaxes(1, 2).reshape(4 * groups, -1)[: len(layout.rough)]
            grads[0][place] -= 2 * W[0][place] * by_node
        return grads

    def _add_smooth(self, grads: Weights, rho: torch.Tensor, M: torch.Tensor) -> None:
        for k, i in enumerate(self.layout.smooth):
            mine = slice(*self.layout.first[k : k + 2])
            columns = self.layout.raw[mine]
            x = self.rows.T[columns].double()
            sums = x**2 @ rho[k].double() - 2 * (x * M[mine]).sum(1)
            grads[0][i, columns] -= 2 * self.kernel.W[0][i, columns] * sums

    def _add_mapped(self, grads: Weights, rho: torch.Tensor, M: torch.Tensor) -> None:
        """By C, see :mod:`hgk.kernels.nodes.oblique`."""
        mapping, W = self.layout.mapping, self.kernel.W
        if mapping is None:
            return
        used, x = mapping.used, self.rows[:, self.layout.used]
        maps = Map(W[0][mapping.block], *(w[:, used] for w in mapping.further(W)))
        cross = x.T @ M.view(len(rho), len(used), len(x)).mT
        C = (x.T @ (rho[:, :, None] * x) - cross - cross.mT).double()
        dv, dP, dQ = maps.backward(-2 * C @ maps.A)
        grads[0][mapping.block] += dv
        for grad, part in zip(mapping.further(grads), (dP, dQ), strict=True):
            grad[:, used] += part


def _columns(rows: torch.Tensor) -> np.ndarray:
    return rows.T.contiguous().numpy()
