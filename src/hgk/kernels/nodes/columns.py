"""Kinds whose exponent is a sum over columns:

    S_i = Σ_{j∈I_i} v_ij² δ(x_j - x'_j),      ∂J/∂v_ij = -2 v_ij Σ N_i ∘ δ(x_j - x'_j)

A kind defines δ, which is even, at least 0, and 0 at 0. The rest follows: the distances of one tile, columns x pairs,
serve all nodes by one product.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import cast

import torch

from hgk.arrays import Buffers, blocks
from hgk.kernels.nodes.base import (
    LOG2E,
    Batch,
    Derivative,
    Members,
    NodeKind,
    Pair,
    Stacked,
    Tiles,
    Weights,
    factors,
    squared_sums,
)

# Pairs of rows times columns whose distances are averaged at a time.
PAIRS = 2**20


class ColumnKind(NodeKind):
    """S_i = Σ_j v_ij² δ(x_j - x'_j).

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import torch
    >>> from hgk.kernels import ColumnKind, two_layers, with_kinds
    >>> from hgk.storable import storable
    >>> @storable
    ... @dataclass(frozen=True)
    ... class Bounded(ColumnKind):
    ...     def delta(self, D):
    ...         return D**2 / (1 + D**2)
    >>> print(*with_kinds(two_layers(6, 3), kinds={2: Bounded()}).kinds)
    smooth smooth bounded
    """

    @abstractmethod
    def delta(self, D: torch.Tensor) -> torch.Tensor:
        """δ of every difference; D may be overwritten."""

    def largest(self, reach: torch.Tensor) -> torch.Tensor:
        """The largest δ(t), |t| <= reach; by default not known, so that pruning takes whole nodes alone."""
        return torch.full_like(reach, torch.inf)

    def mean_delta(self, X: torch.Tensor) -> torch.Tensor:
        """E δ(x_j - x'_j) over pairs of rows, per column."""
        together = max(1, PAIRS // max(1, len(X) ** 2))
        parts = [
            self.delta(x[:, :, None] - x[:, None, :]).mean((1, 2), dtype=torch.float64) for x in X.T.split(together)
        ]
        return torch.cat(parts).cpu()

    def bounds(self, V: torch.Tensor, reach: torch.Tensor) -> torch.Tensor:
        return torch.where(V != 0, V**2 * self.largest(reach), 0.0)

    def tiles(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers) -> Tiles:
        return DistanceTiles(members, W, X, Z, buffers)

    def batch(self, members: Members, W: Weights, X: torch.Tensor, buffers: Buffers) -> Batch:
        return DistanceBatch(members, W, X, buffers)

    @property
    def stacked(self) -> type[Stacked] | None:
        return StackedDistances


class ColumnTiles(Tiles):
    """What is the same however the sum over columns is computed."""

    kind: ColumnKind

    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]:
        for j in self.index[node]:
            distance = self.kind.delta(self.X[:, None, j] - self.Z[None, :, j])
            yield 0, (node, j), -2 * float(self.V[node, j]) * N * distance

    def column_terms(self, node: int) -> torch.Tensor:
        return self.V[node] ** 2 * self.mean_distances

    @cached_property
    def mean_distances(self) -> torch.Tensor:
        """E δ(x_j - x'_j), per column; all nodes have the same."""
        return self.kind.mean_delta(self.X)

    def set_weights(self, W: Weights) -> None:
        self.V = W[0]
        self.factors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # made when first needed


class DistanceTiles(ColumnTiles):
    """By distances, which all nodes share.

    On a column of two values, g apart, δ(x - x') = δ(g) (x - x')² / g², so that indicators of categories go through
    products of rows at a fraction of the cost.
    """

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers):
        used = torch.tensor(members.used)
        gaps = _gaps(X[:, used], Z[:, used]).double().cpu()
        self.columns, self.two_valued = used[gaps < 0], used[gaps >= 0]
        gaps = gaps[gaps >= 0]
        self.scale = torch.where(gaps > 0, cast(ColumnKind, members.kind).delta(gaps.clone()) / gaps**2, 0.0)
        self.columns_of_X = X[:, self.columns].T.contiguous()
        self.columns_of_Z = self.columns_of_X if Z is X else Z[:, self.columns].T.contiguous()
        self.last: dict[str, object] = {}  # what the shared buffers hold; shared with changed copies, as they are
        self.arrays = len(self.columns) + len(members.nodes)
        super().__init__(members, W, X, Z, buffers)

    def set_weights(self, W: Weights) -> None:
        super().set_weights(W)
        self.V2 = (self.V[self.nodes][:, self.columns] ** 2).to(self.X)
        self.version = object()  # these weights, as opposed to a changed copy's

    def distances(self, pair: Pair) -> torch.Tensor:
        """δ(x_j - x'_j), columns x (rows · columns of the tile)."""
        x, z = self.columns_of_X[:, pair[0]], self.columns_of_Z[:, pair[1]]
        D = self.buffers.get(("distances", self.kind), (len(x), x.shape[1], z.shape[1]), x)
        if self.last.get("distances") != pair:
            D.copy_(self.kind.delta(torch.sub(x[:, :, None], z[:, None, :], out=D)))
            self.last["distances"] = pair
        return D.view(len(x), x.shape[1] * z.shape[1])

    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        S = self.buffers.get(("S", self.kind), (len(self.nodes), out.numel()), out)
        if self.last.get("S") != (self.version, pair):
            torch.mm(self.V2, self.distances(pair), out=S)
            self.last["S"] = self.version, pair
        torch.neg(S[self.nodes.index(node)].view(out.shape), out=out)
        if len(self.two_valued):
            left, right = self._two_valued_factors(node)
            out.addmm_(left[pair[0]], right[pair[1]].T)

    def _two_valued_factors(self, node: int) -> tuple[torch.Tensor, torch.Tensor]:
        if node not in self.factors:
            v2 = (self.V[node, self.two_valued] ** 2 * self.scale).to(self.X)
            self.factors[node] = factors(self.X[:, self.two_valued], self.Z[:, self.two_valued], v2)
        return self.factors[node]

    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        stacked = torch.stack([N[i].reshape(-1) for i in self.nodes])
        sums = (stacked @ self.distances(pair).T).double().cpu()
        place = torch.tensor(self.nodes)[:, None], self.columns
        grads[0][place] -= 2 * self.V[place] * sums
        x, z = self.X[pair[0]][:, self.two_valued], self.Z[pair[1]][:, self.two_valued]
        for i in self.nodes if len(self.two_valued) else ():
            grads[0][i, self.two_valued] -= 2 * self.V[i, self.two_valued] * self.scale * squared_sums(x, z, N[i]).cpu()


def _gaps(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    """How far apart the two values of each column are; 0 if it has one, -1 if more than two."""
    both = X if Z is X else torch.cat([X, Z])
    if not len(both):
        return both.new_zeros(both.shape[1])
    low, high = both.amin(0), both.amax(0)
    two = ((both == low) | (both == high)).all(0)
    return torch.where(two, high - low, -1.0)


class DistanceBatch(Batch):
    """δ(x_j - x'_j) of all columns, formed again on the way back; then one product for all nodes."""

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, buffers: Buffers):
        super().__init__(members, W, X, buffers)
        self.kind, self.held = cast(ColumnKind, members.kind), len(members.used)
        self.V2 = (-LOG2E * W[0][members.block] ** 2).to(X)
        self.columns = X.T[members.used].contiguous()
        self.doubled = torch.cat([self.columns, self.columns], 1)

    def distances(self, start: int, stop: int) -> torch.Tensor:
        """Of one slab, columns x pairs."""
        shape = self.held, stop - start, self.h
        ahead = self.doubled.as_strided(shape, (2 * self.n, 1, 1), start + 1)
        D = self.buffers.get(("distances",), shape, self.columns)
        torch.sub(ahead, self.columns[:, start:stop, None], out=D)
        return self.kind.delta(D).view(self.held, (stop - start) * self.h)

    def fill(self, start: int, stop: int, out: torch.Tensor) -> None:
        torch.mm(self.V2, self.distances(start, stop), out=out)

    def accumulate(self, start: int, stop: int, N: torch.Tensor, grads: Weights) -> None:
        sums = (N @ self.distances(start, stop).T).double().cpu()
        grads[0][self.members.block] -= 2 * self.W[0][self.members.block] * sums


class StackedDistances(Stacked):
    """δ(x_j - x'_j) of all columns for a slab of rows x, formed again on the way back; then one product."""

    HELD = 6.0  # a slab has as many entries as four of these arrays

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor):
        super().__init__(members, W, X, Z)
        self.V = W[0][self.block]
        self.columns_of_X, self.columns_of_Z = (rows[..., members.used].mT.contiguous() for rows in (X, Z))

    def slabs(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Rows x, and δ of these, B x columns x pairs."""
        kind, n = cast(ColumnKind, self.members.kind), self.X.shape[1]
        for rows in blocks(n, 4 * n // len(self.members.used)):
            D = self.columns_of_X[:, :, rows, None] - self.columns_of_Z[:, :, None]
            yield rows, kind.delta(D).flatten(2)

    def fill(self, E: torch.Tensor) -> None:
        V2 = (-(self.V**2)).to(E)
        for rows, D in self.slabs():
            E[:, self.nodes, rows] = (V2 @ D).view(len(V2), len(self.nodes), -1, E.shape[3])

    def accumulate(self, N: torch.Tensor, grads: Weights) -> None:
        for rows, D in self.slabs():
            sums = N[:, self.nodes, rows].flatten(2) @ D.mT
            grads[0][self.block] -= 2 * self.V * sums.double()
