"""The interface of node kinds: what a first-layer node computes, and all that the rest of the house asks about it.

A kind is a small frozen dataclass that the architecture holds for each of its nodes. Equal kinds share one worker,
which computes all their exponents S_i over pairs of rows, and ∂J/∂W from N_i = -∂J/∂S_i:

    Tiles     any tile of pairs of two sets of rows X, Z
    Batch     the pairs of one batch of rows, laid out by shift (:mod:`hgk.kernels.sweeps.batch`)
    Stacked   the pairs of many kernels of one tree at once (:mod:`hgk.kernels.sweeps.stacked`)

A kind of your own is a subclass of :class:`NodeKind`, or of :class:`hgk.kernels.nodes.ColumnKind` if S_i is a sum over
columns; nothing else needs to know of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hgk.arrays import Buffers

Weights = tuple[torch.Tensor, ...]
Pair = tuple[slice, slice]
# Number of an array of W, place in it, and the derivative of K by that weight.
Derivative = tuple[int, tuple[int, ...], torch.Tensor]

LOG2E = 1 / math.log(2)


@dataclass(frozen=True)
class Twin:
    """How the compiled sweeps compute a kind: S_i = Σ_j |y_j - y'_j|^q.

    Here y_j = v_ij^(2/q) x_j, or y = x A_i where rows are ``mapped``.
    """

    q: float = 2.0
    mapped: bool = False


class NodeKind(ABC):
    """What a first-layer node computes from the columns that it sees.

    Every node has a weight v_ij for each of its columns, which optimisers move on a logarithmic scale. A kind may have
    ``further`` weights for each column; these move on a linear scale.

    Attributes
    ----------
    further : tuple of tuple of int
        The shape of what each further array of weights holds per column; the array is nodes x columns x this.
    twin : Twin or None
        The kind's compiled twin; a tree with a kind that has none is computed by the plain sweeps.
    """

    @property
    def further(self) -> tuple[tuple[int, ...], ...]:
        return ()

    @property
    def twin(self) -> Twin | None:
        return None

    # ---------------------------------------------------------------- formulas

    @abstractmethod
    def tiles(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers) -> Tiles:
        """The worker for tiles of pairs of X and Z, which are centred."""

    def batch(self, members: Members, W: Weights, X: torch.Tensor, buffers: Buffers) -> Batch:
        """The worker for one batch of rows; by default it goes through tiles."""
        return Band(members, W, X, buffers)

    @property
    def stacked(self) -> type[Stacked] | None:
        """The worker for many kernels at once; None where there is none, so that they are taken one by one."""
        return None

    # ----------------------------------------------------------------- weights

    def typical(self, spread: np.ndarray) -> np.ndarray:
        """About the mean term of every column at v = 1, where ``spread`` is E (x_j - x'_j)²."""
        return spread

    def start(self, seen: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Starting values of the further weights; ``seen`` is nodes x columns, True where a node sees a column."""
        return [np.zeros((*seen.shape, *shape)) for shape in self.further]

    def penalty_slopes(self, strength: float, *further: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The gradient of a penalty of this strength on the further weights; () for none."""
        return ()

    def bounds(self, V: torch.Tensor, reach: torch.Tensor) -> torch.Tensor:
        """By how much S_i changes at most without column j, nodes x columns; inf if only whole nodes may go.

        ``reach`` is the range of every column.
        """
        return torch.full_like(V, torch.inf)

    # ------------------------------------------------------------------- words

    @property
    def name(self) -> str:
        """One word, for tables and colours."""
        return type(self).__name__.lower()

    def __str__(self) -> str:
        """The words for pictures: the name, and after a comma what else there is to say."""
        return self.name

    @property
    def remark(self) -> str:
        """What stands behind a node's label where a kernel is printed."""
        return f" ({self})"


@dataclass(frozen=True)
class Members:
    """The nodes of one kind in a tree, the columns that each sees, and the places of their further weights in W."""

    kind: NodeKind
    nodes: list[int]
    columns: list[list[int]]
    places: list[int]

    @cached_property
    def used(self) -> list[int]:
        """The columns that some node sees."""
        return sorted({j for columns in self.columns for j in columns})

    @cached_property
    def block(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The place in W[0] of these nodes on the columns used."""
        return torch.tensor(self.nodes)[:, None], torch.tensor(self.used)

    def further(self, W: Weights) -> list[torch.Tensor]:
        """Their further weights."""
        return [W[place] for place in self.places]

    def among(self, nodes: Sequence[int]) -> list[int]:
        """Which of them are among these nodes, as places in arrays over the members."""
        return [k for k, i in enumerate(self.nodes) if i in nodes]


class Tiles(ABC):
    """The nodes of one kind on one pair of row sets; ``arrays`` is how many arrays of a tile's size it holds."""

    arrays = 0

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers):
        self.members, self.kind, self.X, self.Z, self.buffers = members, members.kind, X, Z, buffers
        self.nodes, self.index = members.nodes, dict(zip(members.nodes, members.columns, strict=True))
        self.set_weights(W)

    def changed(self, W: Weights) -> Tiles:
        """The same for other weights, which differ in one of the nodes."""
        other = copy(self)
        other.set_weights(W)
        return other

    @abstractmethod
    def set_weights(self, W: Weights) -> None:
        """Take these weights, and forget what was computed with others."""

    @abstractmethod
    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        """-S_i on one tile."""

    @abstractmethod
    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        """Add one tile's part of ∂J/∂W, given N_i of each of the nodes."""

    @abstractmethod
    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]:
        """-N ∘ ∂S_i/∂w over all pairs, one weight at a time."""

    @abstractmethod
    def column_terms(self, node: int) -> torch.Tensor:
        """The mean term of every column in S_i over pairs of rows of X."""


class Batch(ABC):
    """The nodes of one kind on the pairs (a, a + s mod n), s = 1 … h = ⌊n/2⌋, of n rows, a slab of rows a at a time.

    ``held`` is how many arrays over these pairs it holds.
    """

    held = 0

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, buffers: Buffers):
        self.members, self.nodes, self.W, self.buffers = members, members.nodes, W, buffers
        self.n, self.h = len(X), len(X) // 2

    @abstractmethod
    def fill(self, start: int, stop: int, out: torch.Tensor) -> None:
        """-S_i log₂e on one slab, nodes x pairs."""

    @abstractmethod
    def accumulate(self, start: int, stop: int, N: torch.Tensor, grads: Weights) -> None:
        """Add one slab's part of ∂J/∂W, given N, nodes x pairs."""

    def finish(self, grads: Weights) -> None:  # noqa: B027 (most kinds have nothing left to do)
        """Add what had to wait for all slabs."""


class Band(Batch):
    """By tiles: the pairs of a slab lie in a band over rows a and rows a + 1 … a + h, which is all that is formed."""

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, buffers: Buffers):
        super().__init__(members, W, X, buffers)
        self.X = torch.cat([X, X])
        self._prepare()

    def _prepare(self) -> None:
        self.tiles = self.members.kind.tiles(self.members, self.W, self.X, self.X, self.buffers)

    def band(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Memory for nodes x rows of the slab x rows that they meet, and its pairs as a view."""
        rows, width = stop - start, stop - start + self.h - 1
        band = self.buffers.get(("band",), (len(self.nodes), rows, width), self.X)
        return band, band.as_strided((len(band), rows, self.h), (rows * width, width + 1, 1))

    def fill(self, start: int, stop: int, out: torch.Tensor) -> None:
        band, pairs = self.band(start, stop)
        for i, E in zip(self.nodes, band, strict=True):
            self.tiles.fill((slice(start, stop), slice(start + 1, stop + self.h)), i, E)
        torch.mul(pairs.clamp(max=0.0), LOG2E, out=out.view(pairs.shape))

    def accumulate(self, start: int, stop: int, N: torch.Tensor, grads: Weights) -> None:
        pair = slice(start, stop), slice(start + 1, stop + self.h)
        self.tiles.accumulate(pair, dict(zip(self.nodes, self.spread(start, stop, N), strict=True)), grads)

    def spread(self, start: int, stop: int, N: torch.Tensor) -> torch.Tensor:
        """N in the band, 0 beside the pairs."""
        band, pairs = self.band(start, stop)
        band.zero_()
        pairs.copy_(N.view(pairs.shape))
        return band


class Stacked(ABC):
    """The nodes of one kind in B kernels of one tree, each on a pair of row sets of its own.

    Arrays of W have an axis for the kernels in front, and lie where the rows lie. X and Z, (B, rows, columns), are
    centred. ``HELD`` is how many arrays over pairs it holds for each kernel, beside those it is given.
    """

    HELD = 2.0

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor):
        self.members, self.nodes, self.W, self.X, self.Z = members, members.nodes, W, X, Z

    @classmethod
    def beside(cls, members: Members) -> float:
        """Bytes that it holds for each kernel beside arrays over pairs."""
        return 0.0

    @property
    def block(self) -> tuple[slice, torch.Tensor, torch.Tensor]:
        """The place in W[0] of these nodes on the columns used."""
        return slice(None), *self.members.block

    @abstractmethod
    def fill(self, E: torch.Tensor) -> None:
        """-S_i into E[:, i], for E of shape (B, nodes of the tree, rows of X, rows of Z)."""

    @abstractmethod
    def accumulate(self, N: torch.Tensor, grads: Weights) -> None:
        """Add ∂J/∂W, given N_i as N[:, i]."""


# ---------------------------------------------------------------------------------- squared distances by products


def factors(x: torch.Tensor, z: torch.Tensor, v2: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two factors of width p + 2 whose product is -Σ v² (x - x')²:

    [2 v² x, -Σ v² x², 1] · [x', 1, -Σ v² x'²]ᵀ
    """
    xv, zv = x * v2, z * v2
    left = torch.cat([2 * xv, -(x * xv).sum(-1, keepdim=True), torch.ones_like(x[..., :1])], -1)
    return left, torch.cat([z, torch.ones_like(z[..., :1]), -(z * zv).sum(-1, keepdim=True)], -1)


def squared_sums(x: torch.Tensor, z: torch.Tensor, N: torch.Tensor) -> torch.Tensor:
    """Σ N (x_j - x'_j)² = Σ_a x_aj² ρ_a - 2 x_jᵀ N x'_j + Σ_b x'_bj² κ_b, for all columns by one product."""
    p = x.shape[-1]
    product = N @ torch.cat([z, z**2, torch.ones_like(z[..., :1])], -1)
    terms = x**2 * product[..., 2 * p :] - 2 * x * product[..., :p] + product[..., p : 2 * p]
    return terms.sum(-2, dtype=torch.float64)


def mean_squares(X: torch.Tensor) -> torch.Tensor:
    """E (x_j - x'_j)² over pairs of rows, per column."""
    return 2 * X.double().var(0, correction=0).cpu()
