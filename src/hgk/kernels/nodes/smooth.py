"""Smooth nodes, the paper's: S_i = Σ_j v_ij² (x_j - x'_j)²."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from hgk.arrays import Buffers
from hgk.kernels.nodes.base import Members, Pair, Stacked, Tiles, Twin, Weights, factors, mean_squares, squared_sums
from hgk.kernels.nodes.columns import ColumnKind, ColumnTiles
from hgk.storable import storable


@storable
@dataclass(frozen=True)
class Smooth(ColumnKind):
    """S_i = Σ_j v_ij² (x_j - x'_j)²: the inhomogeneous Gaussian kernel.

    Examples
    --------
    >>> from hgk.kernels import Smooth, two_layers
    >>> two_layers(6, 2).kinds == (Smooth(), Smooth())
    True
    """

    @property
    def twin(self) -> Twin:
        return Twin(2.0)

    @property
    def remark(self) -> str:
        return ""  # the paper's kind needs no word

    def delta(self, D: torch.Tensor) -> torch.Tensor:
        return D.mul_(D)

    def largest(self, reach: torch.Tensor) -> torch.Tensor:
        return reach**2

    def mean_delta(self, X: torch.Tensor) -> torch.Tensor:
        return mean_squares(X)

    def tiles(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers) -> Tiles:
        return ProductTiles(members, W, X, Z, buffers)

    @property
    def stacked(self) -> type[Stacked] | None:
        return StackedProducts


class ProductTiles(ColumnTiles):
    """Of every node by one matrix product of width |I_i| + 2."""

    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        if node not in self.factors:
            index = self.index[node]
            v2 = (self.V[node, index] ** 2).to(self.X)
            self.factors[node] = factors(self.X[:, index], self.Z[:, index], v2)
        left, right = self.factors[node]
        torch.mm(left[pair[0]], right[pair[1]].T, out=out)

    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        for i in self.nodes:
            index = self.index[i]
            sums = squared_sums(self.X[pair[0]][:, index], self.Z[pair[1]][:, index], N[i]).cpu()
            grads[0][i, index] -= 2 * self.V[i, index] * sums


class StackedProducts(Stacked):
    """The same for many kernels, node by node."""

    def fill(self, E: torch.Tensor) -> None:
        for i, index in zip(self.nodes, self.members.columns, strict=True):
            v2 = (self.W[0][:, i, index] ** 2).to(E)[:, None]
            left, right = factors(self.X[..., index], self.Z[..., index], v2)
            E[:, i] = left @ right.mT

    def accumulate(self, N: torch.Tensor, grads: Weights) -> None:
        for i, index in zip(self.nodes, self.members.columns, strict=True):
            sums = squared_sums(self.X[..., index], self.Z[..., index], N[:, i])
            grads[0][:, i, index] -= 2 * self.W[0][:, i, index] * sums
