"""Oblique nodes: S_i = ‖(x - x') A_i‖², A_i = diag(v_i) (I + U_i), U_i = P_i Q_iᵀ of low rank.

A smooth node on mapped rows. With C = Σ N_i (x - x')ᵀ(x - x'), and the chain rule,

    ∂J/∂A = -2 C A,   ∂J/∂U = diag(v) ∂J/∂A,   ∂J/∂v = rows of ∂J/∂A ∘ (I + U),   ∂J/∂P = ∂J/∂U Q,   ∂J/∂Q = ∂J/∂Uᵀ P

At the start Q = 0, so that U = 0, and the entries of P are N(0, 1/|I_i|).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch

from hgk.arrays import Buffers
from hgk.kernels.nodes.base import (
    LOG2E,
    Band,
    Batch,
    Derivative,
    Members,
    NodeKind,
    Pair,
    Stacked,
    Tiles,
    Twin,
    Weights,
    factors,
    mean_squares,
)
from hgk.storable import storable


@storable
@dataclass(frozen=True)
class Oblique(NodeKind):
    """S_i = ‖(x - x') diag(v_i) (I + P_i Q_iᵀ)‖²: a Gaussian along directions that are learned.

    Parameters
    ----------
    rank : int, default=8
        Columns of P_i and Q_i.

    Examples
    --------
    >>> from hgk.kernels import Oblique, inhomogeneous, with_kinds
    >>> tree = with_kinds(inhomogeneous(5), kinds={0: Oblique(rank=2)})
    >>> [tuple(mask.shape) for mask in tree.free()]
    [(1, 5), (1, 5, 2), (1, 5, 2)]
    """

    rank: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.rank, Integral) or self.rank < 1:
            raise ValueError(f"rank={self.rank!r} was given; an oblique node needs a map of rank 1 or more.")

    @property
    def further(self) -> tuple[tuple[int, ...], ...]:
        """P and Q."""
        return (self.rank,), (self.rank,)

    @property
    def twin(self) -> Twin:
        return Twin(2.0, mapped=True)

    def start(self, seen: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        P = seen[:, :, None] * rng.standard_normal((*seen.shape, self.rank)) / np.sqrt(seen.sum(1)[:, None, None])
        return [P, np.zeros_like(P)]

    def penalty_slopes(self, strength: float, *further: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Of strength · Σ_i ‖U_i‖² / number of nodes and columns: ∂‖PQᵀ‖²/∂P = 2 P QᵀQ."""
        P, Q = further
        per_entry = 2 * strength / (len(P) * P.shape[1])
        return per_entry * P @ (Q.mT @ Q), per_entry * Q @ (P.mT @ P)

    def tiles(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers) -> Tiles:
        return MapTiles(members, W, X, Z, buffers)

    def batch(self, members: Members, W: Weights, X: torch.Tensor, buffers: Buffers) -> Batch:
        return MapBatch(members, W, X, buffers)

    @property
    def stacked(self) -> type[Stacked] | None:
        return StackedMaps


class Map:
    """A = diag(v) (I + P Qᵀ) of one node, or of several in arrays with more dimensions."""

    def __init__(self, v: torch.Tensor, P: torch.Tensor, Q: torch.Tensor):
        self.v, self.P, self.Q = v[..., None], P, Q
        self.stretch = torch.eye(P.shape[-2], dtype=P.dtype, device=P.device) + P @ Q.mT  # I + U
        self.A = self.v * self.stretch

    def backward(self, dA: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """∂J/∂v, ∂J/∂P and ∂J/∂Q from ∂J/∂A."""
        dU = self.v * dA
        return (dA * self.stretch).sum(-1), dU @ self.Q, dU.mT @ self.P


class MapTiles(Tiles):
    """By products of mapped rows."""

    def set_weights(self, W: Weights) -> None:
        P, Q = self.members.further(W)
        self.maps = {i: Map(W[0][i, c], P[k, c], Q[k, c]) for k, (i, c) in enumerate(self.index.items())}
        self.factors = {}
        for i, index in self.index.items():
            A = self.maps[i].A.to(self.X)
            self.factors[i] = factors(self.X[:, index] @ A, self.Z[:, index] @ A, 1.0)

    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        left, right = self.factors[node]
        torch.mm(left[pair[0]], right[pair[1]].T, out=out)

    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        """C = Xᵀ diag(ρ) X + X'ᵀ diag(κ) X' - Xᵀ N X' - (Xᵀ N X')ᵀ."""
        dP, dQ = self.members.further(grads)
        for k, (i, index) in enumerate(self.index.items()):
            x, z = self.X[pair[0]][:, index], self.Z[pair[1]][:, index]
            product = N[i] @ torch.cat([z, z.new_ones(len(z), 1)], 1)
            cross = x.T @ product[:, :-1]
            C = x.T @ (product[:, -1:] * x) + z.T @ (N[i].sum(0)[:, None] * z) - cross - cross.T
            parts = self.maps[i].backward(-2 * C.double().cpu() @ self.maps[i].A)
            for out, part in zip((grads[0][i], dP[k], dQ[k]), parts, strict=True):
                out[index] += part

    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]:
        index, k, (at_P, at_Q) = self.index[node], self.nodes.index(node), self.members.places
        here = self.maps[node]
        v, P, Q, stretch = (part.to(N) for part in (here.v[:, 0], here.P, here.Q, here.stretch))
        D = self.X[:, None, index] - self.Z[None, :, index]
        DA = D @ here.A.to(N)
        for a, j in enumerate(index):
            yield 0, (node, j), -2 * N * D[..., a] * (DA @ stretch[a])
            for r in range(P.shape[1]):
                yield at_P, (k, j, r), -2 * N * v[a] * D[..., a] * (DA @ Q[:, r])
                yield at_Q, (k, j, r), -2 * N * ((D * v) @ P[:, r]) * DA[..., a]

    def column_terms(self, node: int) -> torch.Tensor:
        """‖A_j‖² E (x_j - x'_j)²."""
        squares, terms = mean_squares(self.X), torch.zeros(self.X.shape[1], dtype=torch.float64)
        terms[self.index[node]] = (self.maps[node].A ** 2).sum(1) * squares[self.index[node]]
        return terms


class MapBatch(Band):
    """All nodes at once by products of mapped rows; C is summed over the slabs."""

    def _prepare(self) -> None:
        used = self.members.used
        self.map = Map(self.W[0][self.members.block], *(w[:, used] for w in self.members.further(self.W)))
        self.X = self.X[:, used]
        self.Y = self.X @ self.map.A.to(self.X)
        self.squares = (self.Y**2).sum(2)
        self.C = torch.zeros_like(self.map.A)

    def fill(self, start: int, stop: int, out: torch.Tensor) -> None:
        band, pairs = self.band(start, stop)
        torch.bmm(self.Y[:, start:stop], self.Y[:, start + 1 : stop + self.h].mT, out=band)
        ahead = self.squares.as_strided(pairs.shape, (2 * self.n, 1, 1), self.squares.storage_offset() + start + 1)
        E = torch.mul(pairs, 2, out=out.view(pairs.shape))
        E.sub_(ahead).sub_(self.squares[:, start:stop, None]).clamp_(max=0.0).mul_(LOG2E)

    def accumulate(self, start: int, stop: int, N: torch.Tensor, grads: Weights) -> None:
        band = self.spread(start, stop, N)
        x, z = self.X[start:stop], self.X[start + 1 : stop + self.h]
        cross = x.T @ (band @ z)
        within = x.T @ (band.sum(2)[:, :, None] * x) + z.T @ (band.sum(1)[:, :, None] * z)
        self.C += (within - cross - cross.mT).double().cpu()

    def finish(self, grads: Weights) -> None:
        dv, dP, dQ = self.map.backward(-2 * self.C @ self.map.A)
        grads[0][self.members.block] += dv
        for grad, part in zip(self.members.further(grads), (dP, dQ), strict=True):
            grad[:, self.members.used] += part


class StackedMaps(Stacked):
    """The same for many kernels."""

    @classmethod
    def beside(cls, members: Members) -> float:
        """A, C and what the chain rule makes of them."""
        return 8 * 8 * len(members.nodes) * len(members.used) ** 2

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor):
        super().__init__(members, W, X, Z)
        self.map = Map(W[0][self.block], *(w[:, :, members.used] for w in members.further(W)))
        self.x, self.z = (rows[:, None, :, members.used] for rows in (X, Z))

    def fill(self, E: torch.Tensor) -> None:
        A = self.map.A.to(E)
        left, right = factors(self.x @ A, self.z @ A, 1.0)
        E[:, self.nodes] = left @ right.mT

    def accumulate(self, N: torch.Tensor, grads: Weights) -> None:
        x, z, N = self.x, self.z, N[:, self.nodes]
        cross = x.mT @ (N @ z)
        within = x.mT @ (N.sum(3)[..., None] * x) + z.mT @ (N.sum(2)[..., None] * z)
        C = (within - cross - cross.mT).double()
        dv, dP, dQ = self.map.backward(-2 * C @ self.map.A)
        grads[0][self.block] += dv
        for grad, part in zip(self.members.further(grads), (dP, dQ), strict=True):
            grad[:, :, self.members.used] += part
