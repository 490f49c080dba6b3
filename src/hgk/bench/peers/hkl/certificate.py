"""The sufficient condition: nothing outside the hull matters, however many nodes there are.

For α of the problem on a hull J, with K_w = Π_i k_{i,w_i},

    Ω*(α)² ≤ max( Ω_J*(α)², max over the sources t of the complement of s_t ),
    s_t = Σ_{w ∈ D(t)} αᵀK_wα / (Σ_{v ∈ A(w) ∩ D(t)} d_v)².

The sums over exponentially many descendants are products. As d_v = Π_i β^{v_i},

    s_t = αᵀ (Π_i S_{i,t_i}) α,        S_{i,l} = Σ_{j ≥ l} k_{i,j} / (β^l + ... + β^j)²,        entry by entry.

A source t = s + e_i shares all factors but one with s ∈ J. With R_{i,l} = S_{i,l}/S_{i,l-1}, N_s = ααᵀ Π_i S_{i,s_i},

    N_{s+e_i} = N_s R_{i,s_i+1},        s_t = Σ over pairs of rows of N_s R_{i,t_i},

so that most s_t are entries of one matrix product (nodes × pairs)(pairs × columns), in tiles of pairs; no n × n matrix
is held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import torch

from hgk.arrays import tiles_of_pairs
from hgk.bench.peers.hkl.bases import Basis
from hgk.bench.peers.hkl.grid import GridNode, Hull, degree, parents

# Added to every factor: only a factor that is exactly 0 changes, and can then be divided by.
FACTOR_SHIFT = 1e-30


def factor_weights(levels: int, beta: float) -> torch.Tensor:
    """1/(β^l + ... + β^j)² for l and j from 0; 0 for j < l."""
    powers = [beta**j for j in range(levels + 1)]
    rows = [
        [0.0 if j < low else sum(powers[low : j + 1]) ** -2 for j in range(levels + 1)] for low in range(levels + 1)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def by_column(F: torch.Tensor, basis: Basis, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Base features and the constant as columns × n × features, filled up with zeros; and the features' levels."""
    column, level = basis.layout.column, basis.layout.level
    counts = torch.bincount(column, minlength=columns)
    order = torch.argsort(column, stable=True)
    rank = 1 + torch.arange(len(column), device=F.device) - (counts.cumsum(0) - counts)[column[order]]
    out = F.new_zeros(columns, len(F), 1 + int(counts.max()))
    levels = torch.zeros(columns, out.shape[2], dtype=torch.long, device=F.device)
    out[:, :, 0] = 1
    out[column[order], :, rank] = F.T[order]
    levels[column[order], rank] = level[order]
    return out, levels


class Bounds:
    """s_t of all sources of a hull, for base features F of the rows."""

    def __init__(self, F: torch.Tensor, basis: Basis, columns: int, beta: float):
        self.levels, self.columns = basis.levels, columns
        self.right, levels = by_column(F, basis, columns)
        weights = factor_weights(basis.levels, beta).to(F)[:, levels].transpose(0, 1)  # columns, l, features
        self.left = weights[:, :, None] * self.right[:, None]  # S_{i,l} = left[i, l] right[i]ᵀ

    def __call__(self, hull: Hull, alpha: torch.Tensor) -> dict[GridNode, float]:
        """The bound of every source."""
        sources = sorted(hull.sources)
        if not sources:
            return {}
        # A source's last column is new to the parent, or the parent's own: one product, and sums row by row.
        order = sorted(hull.nodes, key=degree)
        place = {node: row for row, node in enumerate(order)}
        new, higher = [t for t in sources if t[-1][1] == 1], [t for t in sources if t[-1][1] > 1]
        steps, last = list(self._steps(order, place, alpha.device)), self._from(higher, place, alpha.device)
        table = torch.zeros(len(order), self.columns, dtype=torch.float64, device=alpha.device)
        sums = torch.zeros(len(higher), dtype=torch.float64, device=alpha.device)
        a = alpha.to(self.right)
        held = len(order) + 2 * len(higher) + 2 * self.columns * (self.levels + 1)
        for r, c in tiles_of_pairs(len(alpha), held, a.device):
            first, R = self._factors(r, c)
            N = first.new_empty(len(order), first.numel())
            N[0] = (first * a[r, None] * a[c]).reshape(-1)
            for rows, (before, factor) in steps:
                torch.mul(N.index_select(0, before), R.index_select(0, factor), out=N[rows])
            times = 1 if r == c else 2
            table += (N @ R[:: self.levels].T).to(table) * times
            sums += torch.linalg.vecdot(N.index_select(0, last[0]), R.index_select(0, last[1])).to(sums) * times
        totals = table.tolist()
        values = {t: totals[place[t[:-1]]][t[-1][0]] for t in new}
        return values | dict(zip(higher, sums.tolist(), strict=True))

    def _from(self, nodes: list[GridNode], place: dict[GridNode, int], device) -> tuple[torch.Tensor, torch.Tensor]:
        """The place of each node's parent in its last column, and the factor that leads from it to the node."""
        before = [place[parents(node)[-1]] for node in nodes]
        factors = [column * self.levels + level - 1 for column, level in (node[-1] for node in nodes)]
        return (
            torch.tensor(before, dtype=torch.long, device=device),
            torch.tensor(factors, dtype=torch.long, device=device),
        )

    def _steps(self, order: list[GridNode], place: dict[GridNode, int], device):
        """Degree by degree: the nodes' rows, and where they come from."""
        ends = [degree(node) for node in order]
        for k in range(1, ends[-1] + 1):
            rows = slice(bisect_left(ends, k), bisect_right(ends, k))
            yield rows, self._from(order[rows], place, device)

    def _factors(self, r: slice, c: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Π_i S_{i,0} and all R_{i,l}, l ≥ 1, for a tile of pairs."""
        left, right = self.left[:, :, r].flatten(1, 2), self.right[:, c].mT
        S = torch.bmm(left, right).view(self.columns, self.levels + 1, -1).add_(FACTOR_SHIFT)
        R = (S[:, 1:] / S[:, :-1]).reshape(self.columns * self.levels, -1)
        return S[:, 0].prod(0).view(r.stop - r.start, -1), R
