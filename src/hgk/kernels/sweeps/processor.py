"""The compiled twin of :class:`hgk.kernels.Sweep` on processors: K and K·α of trees of depth 1 and 2.

It takes rows in single precision, and nodes that are sums of squares or of absolute differences, and lays a tree out
for :mod:`hgk.kernels.sweeps.loops`. Products differ from those in double precision by some 10⁻⁶ of Σ |α_j| k(x, x_j).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.arrays import Buffers, blocks
from hgk.arrays.compiling import can_be_kept, kept_on_disk
from hgk.executor import Threads
from hgk.kernels.architecture import Architecture
from hgk.kernels.nodes.base import LOG2E, Weights
from hgk.kernels.nodes.oblique import Map
from hgk.kernels.sweeps import compiled

if TYPE_CHECKING:
    from hgk.kernels.hierarchical import HierarchicalKernel

# Pairs that are worth a thread, and rows at a time.
WORTH_A_THREAD = 2**18
ROWS_AT_ONCE = 256
# The maps of a tree without mapped nodes.
EMPTY = np.zeros((0, 1, 1), np.float32)


# Rows z from which the loops are taken unasked: with fewer, it takes longer to load them than to do without.
WORTH_LOADING = 1000


def takes(architecture: Architecture) -> bool:
    """Whether the loops take this tree."""
    twins = [members.kind.twin for members in architecture.members]
    known = all(twin is not None and twin.q in (1.0, 2.0) for twin in twins)
    return known and sum(twin.mapped for twin in twins if twin) <= 1 and architecture.depth <= 2


def suits(architecture: Architecture, X: torch.Tensor) -> bool:
    """The same on these rows."""
    return X.dtype == torch.float32 and X.device.type == "cpu" and takes(architecture)


_compiling: list[subprocess.Popen] = []
_COMPILE = """
import torch
from hgk.kernels import HierarchicalKernel, two_layers
from hgk.kernels.sweeps.processor import LoopSweep
X = torch.zeros(1, 1)
LoopSweep(HierarchicalKernel.of(two_layers(1, 1), [[1.0]], [1.0]), X, X).multiply(X)
"""


def at_hand() -> bool:
    """Whether products can begin: the loops are compiled, or kept on disk from another time.

    If not, a process of its own compiles them and keeps them on disk, which takes some seconds. Products take the plain
    sweep until then, and where nothing can be kept.
    """
    from hgk.kernels.sweeps import loops

    if loops.add_products.signatures:
        return True
    if _compiling:
        return _compiling[0].poll() is not None and kept_on_disk(loops.add_products)
    if kept_on_disk(loops.add_products):
        return True
    if can_be_kept(loops.add_products) and sys.executable:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with suppress(OSError):
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            _compiling.append(subprocess.Popen([sys.executable, "-c", _COMPILE], env=environment, **quiet))  # type: ignore
    return False


@dataclass(frozen=True)
class Fours:
    """Nodes that are sums over columns, four at a time, and for each group the columns that one of its nodes sees."""

    nodes: list[int]
    columns: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, architecture: Architecture, nodes: list[int]) -> Fours:
        sets = architecture.coordinates
        groups = [sorted({j for i in nodes[g : g + 4] for j in sets[i]}) for g in range(0, len(nodes), 4)]
        columns = np.array([j for group in groups for j in group], dtype=np.int64)
        return cls(nodes, columns, np.cumsum([0, *map(len, groups)]))

    @property
    def width(self) -> int:
        """Nodes, and those of weight 0 that fill the last group."""
        return 4 * (len(self.first) - 1)

    @cached_property
    def places(self) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
        """The places in W[0] of their weights, and in arrays of columns x 4."""
        at, group = range(len(self.columns)), np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        pairs = [(self.nodes[4 * g + k], j, c, k) for c, g, j in zip(at, group, self.columns.tolist(), strict=True)
                 for k in range(4) if 4 * g + k < len(self.nodes)]  # fmt: skip
        i, j, c, k = (
            torch.tensor(part, dtype=torch.int64) for part in (zip(*pairs, strict=True) if pairs else [()] * 4)
        )
        return (i, j), (c, k)

    def weights_of(self, V: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The columns, where those of a group begin, and -v² log₂e, columns x 4."""
        ours, theirs = self.places
        U = torch.zeros(len(self.columns), 4)
        U[theirs] = (-LOG2E * V[ours] ** 2).float()
        return self.columns, self.first, U.numpy()

    def add_slopes(self, grad: torch.Tensor, V: torch.Tensor, sums: np.ndarray) -> None:
        """∂J/∂v_ij = -2 v_ij Σ N_i δ."""
        ours, theirs = self.places
        grad[ours] -= 2 * V[ours] * torch.from_numpy(sums)[theirs]


class LoopLayout:
    """Where a tree's nodes and columns lie: nodes that are sums of squares, mapped ones, sums of distances."""

    def __init__(self, architecture: Architecture):
        twins = [kind.twin for kind in architecture.kinds]
        self.flat = architecture.depth == 1
        self.squares = Fours.of(architecture, [i for i, t in enumerate(twins) if t and t.q == 2 and not t.mapped])
        self.distances = Fours.of(architecture, [i for i, t in enumerate(twins) if t and t.q == 1])
        self.mapping = compiled.mapped(architecture)
        self.mapped = self.mapping.nodes if self.mapping is not None else []
        self.used = np.array(self.mapping.used if self.mapping is not None else [], dtype=np.int64)
        first = self.squares.width, self.squares.width + len(self.mapped)
        self.order = [*self.squares.nodes, *self.mapped, *self.distances.nodes]
        self.places = [  # of these nodes among those of the loops
            *range(len(self.squares.nodes)),
            *range(*first),
            *range(first[1], first[1] + len(self.distances.nodes)),
        ]
        self.nodes = first[1] + self.distances.width

    def maps_of(self, W: Weights) -> tuple[np.ndarray, ...]:
        """v, P and Q of the mapped nodes on the columns that they use."""
        further = [EMPTY, EMPTY] if self.mapping is None else self.mapping.further(W)
        # in the order of their axes, as the loops were compiled for
        arrays = W[0].numpy()[self.mapped], *map(np.asarray, further)
        return tuple(np.ascontiguousarray(w[:, self.used], dtype=np.float32) for w in arrays)

    def weights_of(self, W: Weights) -> tuple:
        """What the loops take, from ``maps`` to ``edges``."""
        edges = np.zeros(0 if self.flat else self.nodes, np.float32)
        if not self.flat:
            edges[self.places] = 2 * LOG2E * W[1].numpy()[self.order] ** 2
        maps = len(self.mapped), len(self.used)
        return maps, self.squares.weights_of(W[0]), self.distances.weights_of(W[0]), edges


def mapped_rows(rows: torch.Tensor, used: np.ndarray, maps: tuple[np.ndarray, ...]) -> np.ndarray:
    """Columns x rows, with the columns of mapped nodes below."""
    from hgk.kernels.sweeps import loops  # numba is loaded when first needed

    return loops.with_maps(_columns(rows), used, *maps)


@lru_cache(maxsize=64)
def loop_layout(architecture: Architecture) -> LoopLayout:
    return LoopLayout(architecture)


class LoopSweep:
    """One kernel on one pair of row sets."""

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, Z: torch.Tensor | None = None):
        self.layout, self.gamma, self.symmetric = loop_layout(kernel.architecture), kernel.gamma, Z is None
        self.centre = (X if Z is None else Z).mean(0)
        self.X = X
        self.maps, self.weights = self.layout.maps_of(kernel.W), self.layout.weights_of(kernel.W)
        self.other = self._mapped(X if Z is None else Z)

    def on(self, X: torch.Tensor) -> LoopSweep:
        """The sweep of other rows x; what was made of the rows z is shared."""
        other = copy(self)
        other.X, other.symmetric = X, False
        return other

    def _mapped(self, rows: torch.Tensor) -> np.ndarray:
        """Rows as the loops take them: centred, and below their columns those of the mapped nodes."""
        return mapped_rows(rows - self.centre, self.layout.used, self.maps)

    def multiply(self, alpha: torch.Tensor) -> torch.Tensor:
        """K alpha, block by block."""
        from hgk.kernels.sweeps import loops

        weights = alpha.to(self.X.dtype).T.contiguous().numpy()
        t, scale = np.zeros((len(self.X), len(weights))), np.float32(self.gamma**-2)

        def fill(rows: slice) -> None:
            loops.add_products(self._mapped(self.X[rows]), self.other, *self.weights, scale, weights, t[rows])

        self._share(fill)
        return torch.from_numpy(t).to(self.X)

    def exponent(self) -> torch.Tensor:
        """S over all pairs."""
        return self._filled(0.0, diagonal=0.0)

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        return self._filled(self.gamma**-2, diagonal=1.0)

    def _filled(self, scale: float, diagonal: float) -> torch.Tensor:
        from hgk.kernels.sweeps import loops

        out = self.X.new_zeros(len(self.X), self.other.shape[1])

        def fill(rows: slice) -> None:
            offset, part = rows.start if self.symmetric else -1, out[rows]
            loops.fill(self._mapped(self.X[rows]), self.other, *self.weights, np.float32(scale), offset, part.numpy())
            if self.symmetric:
                part[:, rows] += part[:, rows].T.clone()
                out[rows.stop :, rows] = part[:, rows.stop :].T

        self._share(fill)
        return out.fill_diagonal_(diagonal) if self.symmetric else out

    def _share(self, fill: Callable[[slice], None]) -> None:
        """Rows x by as many threads as there is work for; of a symmetric matrix the last have the fewest pairs."""
        n, pairs = len(self.X), len(self.X) * self.other.shape[1]
        workers = max(1, min(torch.get_num_threads(), pairs // WORTH_A_THREAD))
        size = ROWS_AT_ONCE if workers == 1 else min(ROWS_AT_ONCE, -(-n // (4 * workers)))
        parts = list(blocks(n, size))
        if workers == 1:
            for part in parts:
                fill(part)
        else:
            Threads(workers, inner=1).run([partial(fill, part) for part in parts])


class LoopBatchSweep:
    """The compiled twin of :class:`hgk.kernels.BatchSweep`."""

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, buffers: Buffers | None = None):
        self.layout, self.kernel = loop_layout(kernel.architecture), kernel
        self.rows = X - X.mean(0)
        self.weights = self.layout.weights_of(kernel.W)
        n, nodes = len(X), len(self.weights[-1])
        buffers = Buffers() if buffers is None else buffers
        self.kernels = buffers.get(("kernels",), (nodes * (n * (n - 1) // 2),), X).numpy()

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        from hgk.kernels.sweeps import loops

        n = len(self.rows)
        K = self.rows.new_zeros(n, n)
        scale = np.float32(self.kernel.gamma**-2)
        self.Y = mapped_rows(self.rows, self.layout.used, self.layout.maps_of(self.kernel.W))
        loops.fill_batch(self.Y, *self.weights, scale, K.numpy(), self.kernels)
        self.K = K.add_(K.T.clone()).fill_diagonal_(1.0)
        return self.K

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W from the symmetric ∂J/∂K, one array per layer, in float64."""
        from hgk.kernels.sweeps import loops

        layout, W, X = self.layout, self.kernel.W, self.rows
        N = torch.mul(dJ_dK, self.K).mul_(2 * self.kernel.gamma**-2)
        *weights, edges = self.weights
        inner, rho = np.zeros(max(1, len(edges))), X.new_zeros(len(layout.mapped), len(X))
        M = X.new_zeros(len(layout.mapped), len(layout.used), len(X))
        sums = [np.zeros((len(fours.columns), 4)) for fours in (layout.squares, layout.distances)]
        loops.add_slopes(
            self.Y, layout.used, *weights, edges / np.float32(LOG2E), N.numpy(), self.kernels,
            inner, rho.numpy(), M.numpy(), *sums,
        )  # fmt: skip
        grads = tuple(torch.zeros_like(w) for w in W)
        if not layout.flat:
            grads[1][layout.order] = -4 * W[1][layout.order] * torch.from_numpy(inner)[layout.places]
        layout.squares.add_slopes(grads[0], W[0], sums[0])
        layout.distances.add_slopes(grads[0], W[0], sums[1])
        self._add_mapped(grads, rho, M)
        return grads

    def _add_mapped(self, grads: Weights, rho: torch.Tensor, M: torch.Tensor) -> None:
        """By C, see :mod:`hgk.kernels.nodes.oblique`."""
        mapping, W = self.layout.mapping, self.kernel.W
        if mapping is None:
            return
        used, x = mapping.used, self.rows[:, self.layout.used]
        maps = Map(W[0][mapping.block], *(w[:, used] for w in mapping.further(W)))
        cross = x.T @ M.mT
        C = (x.T @ (rho[:, :, None] * x) - cross - cross.mT).double()
        dv, dP, dQ = maps.backward(-2 * C @ maps.A)
        grads[0][mapping.block] += dv
        for grad, part in zip(mapping.further(grads), (dP, dQ), strict=True):
            grad[:, used] += part


def _columns(rows: torch.Tensor) -> np.ndarray:
    return rows.T.contiguous().numpy()
