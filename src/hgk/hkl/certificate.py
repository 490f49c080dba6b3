"""The sufficient condition: nothing outside the hull matters, however many nodes there are.

For α of the problem on a hull J, with K_w = Π_i k_{i,w_i},

    Ω*(α)² ≤ max( Ω_J*(α)², max over the sources t of the complement of s_t ),
    s_t = Σ_{w ∈ D(t)} αᵀK_wα / (Σ_{v ∈ A(w) ∩ D(t)} d_v)².

The sums over exponentially many descendants are products. As d_v = Π_i β^{v_i},

    s_t = αᵀ (Π_i S_{i,t_i}) α,        S_{i,l} = Σ_{j ≥ l} k_{i,j} / (β^l + ... + β^j)²,        entry by entry.

A source t = s + e_i shares all factors but one with s ∈ J. With R_{i,l} = S_{i,l}/S_{i,l-1} and N_s = ααᵀ Π_i S_{i,s_i},

    N_{s+e_i} = N_s R_{i,s_i+1},        s_t = Σ over pairs of rows of N_s R_{i,t_i},

so that all s_t are a matrix product (nodes × pairs)(pairs × factors), in tiles of pairs; no n × n matrix is held.
"""

from __future__ import annotations

import torch

from hgk.arrays import tiles_of_pairs
from hgk.hkl.bases import Basis
from hgk.hkl.grid import Hull, Node, degree, parents

# Factors this close to 0 are moved there, which changes a product by as much and lets it be divided.
SMALLEST = 1e-6


def factor_weights(levels: int, beta: float) -> torch.Tensor:
    """1/(β^l + ... + β^j)², l from 0, j from 1; 0 for j < l. For l = 0 the constant's own term is 1."""
    powers = beta ** torch.arange(levels + 1, dtype=torch.float64)
    sums = torch.tensor([[powers[low : j + 1].sum() for j in range(1, levels + 1)] for low in range(levels + 1)])
    return torch.where(sums > 0, 1 / sums**2, 0.0).to(torch.float64)


def by_kernel(F: torch.Tensor, basis: Basis, columns: int) -> torch.Tensor:
    """Base features as (columns · levels) × n × rank, filled up with zeros."""
    group = basis.layout.column * basis.levels + basis.layout.level - 1
    counts = torch.bincount(group, minlength=columns * basis.levels)
    order = torch.argsort(group, stable=True)
    rank = torch.arange(len(group), device=F.device) - (counts.cumsum(0) - counts)[group[order]]
    out = F.new_zeros(columns * basis.levels, len(F), max(1, int(counts.max())))
    out[group[order], :, rank] = F.T[order]
    return out


class Bounds:
    """s_t of all sources of a hull, for base features F of the rows."""

    def __init__(self, F: torch.Tensor, basis: Basis, columns: int, beta: float):
        self.features = by_kernel(F, basis, columns)
        self.levels, self.columns = basis.levels, columns
        self.weights = factor_weights(basis.levels, beta).to(F)

    def __call__(self, hull: Hull, alpha: torch.Tensor) -> dict[Node, float]:
        """The bound of every source."""
        sources = sorted(hull.sources)
        if not sources:
            return {}
        ends = [self._step(hull, t) for t in sources]
        order, steps = self._order(hull)
        table = torch.zeros(len(hull), self.columns * self.levels, dtype=torch.float64, device=alpha.device)
        a = alpha.to(self.features)
        for r, c in tiles_of_pairs(len(alpha), len(hull) + 3 * self.columns * (self.levels + 1), a.device):
            first, R = self._factors(r, c)
            N = first.new_empty(len(hull), first.numel())
            N[0] = (first * a[r, None] * a[c]).reshape(-1)
            for places, before, factor in steps:
                N[places] = N[before] * R[factor]
            table += (N @ R.T).to(table) * (1 if r == c else 2)
        rows, factors = map(list, zip(*ends, strict=True))
        found = table[rows, factors].tolist()
        return dict(zip(sources, found, strict=True))

    def _step(self, hull: Hull, node: Node) -> tuple[int, int]:
        """The node's parent in its last column, and the factor that leads from it to the node."""
        column, level = node[-1]
        return hull.index[parents(node)[-1]], column * self.levels + level - 1

    def _order(self, hull: Hull):
        """Nodes degree by degree, with the places of their parents and their factors."""
        by_degree: dict[int, list[int]] = {}
        for place, node in enumerate(hull.nodes):
            by_degree.setdefault(degree(node), []).append(place)
        steps = []
        for k in sorted(by_degree)[1:]:
            ends = [self._step(hull, hull.nodes[place]) for place in by_degree[k]]
            steps.append((by_degree[k], [e[0] for e in ends], [e[1] for e in ends]))
        return by_degree, steps

    def _factors(self, r: slice, c: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Π_i S_{i,0} and all R_{i,l}, l ≥ 1, for a tile of pairs."""
        k = (self.features[:, r] @ self.features[:, c].mT).reshape(self.columns, self.levels, -1)
        S = self.weights @ k
        S[:, 0] += 1
        S[:, :-1] = torch.where(S[:, :-1].abs() < SMALLEST, SMALLEST, S[:, :-1])
        R = (S[:, 1:] / S[:, :-1]).reshape(self.columns * self.levels, -1)
        return S[:, 0].prod(0).reshape(r.stop - r.start, -1), R
