"""The active set: the problem on a hull that grows until nothing outside can matter.

    solve on the hull J                                                    -> η, β, α = (y - Φβ)/(nλ)
    necessary:   a source t with ‖Φ_tᵀα‖²/d_t² above the level would change the solution: add the largest
    sufficient:  otherwise, a source t whose bound s_t (see ``certificate``) is above the level: add the largest
    neither:     the duality gap of the problem over *all* nodes is below the tolerance

The level is the value of Ω*(α)² at which the gap is tol times the primal value. All correlations Φ_tᵀα are
one product: a source is a node of J times one base kernel of a column that the node does not use.
Φ and y are centred, so that the constant is free; α then sums to 0, and K_w need not be centred.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hgk.bench.peers.hkl.bases import Basis
from hgk.bench.peers.hkl.certificate import Bounds
from hgk.bench.peers.hkl.grid import ROOT, GridNode, Hull, degree
from hgk.bench.peers.hkl.reduced import ByFeatures, ByRows, Reduced, Ridge, solve, zeta

# d of the root, which weighs the norm of the whole function; Bach's choice.
ROOT_WEIGHT = 0.1
# Up to so many features the reduced problem is solved on the processor: its matrices are too small for more.
SMALL_PROBLEM = 1024
# A round adds this share of the hull, and at least so many nodes.
HULL_SHARE, FEWEST = 0.25, 8
# Weight of a new node, and of one that the last λ had dropped, relative to the mean weight.
FRESH, KEPT = 0.1, 1e-3
# Share of ‖f‖² below which a node may go when the hull is full.
IDLE = 1e-8


@dataclass(frozen=True)
class Design:
    """What defines the functions f_w: base features, weights, and the smallest size of a product feature."""

    basis: Basis
    columns: int
    beta: float
    truncation: float

    def weight(self, node: GridNode) -> float:
        return ROOT_WEIGHT if node == ROOT else self.beta ** degree(node)

    def base(self, column: int, level: int) -> torch.Tensor:
        layout = self.basis.layout
        return torch.nonzero((layout.column == column) & (layout.level == level))[:, 0]


@dataclass(frozen=True)
class FeatureBlock:
    """Φ_w on some rows, and the sizes of its features."""

    features: torch.Tensor
    sizes: torch.Tensor

    @classmethod
    def of(cls, F: torch.Tensor, design: Design, node: GridNode, before: FeatureBlock | None) -> FeatureBlock:
        """All products of features of ``before``, the node less its last column, and of that column; 1 for the root."""
        if before is None:
            return cls(F.new_ones(len(F), 1), F.new_ones(1))
        b = design.base(*node[-1])
        sizes = (before.sizes[:, None] * design.basis.layout.size[b]).reshape(-1)
        kept = sizes >= design.truncation
        features = (before.features[:, :, None] * F[:, None, b]).reshape(len(F), len(sizes))
        return cls(features[:, kept], sizes[kept])


@dataclass(frozen=True)
class HKLSolution:
    """A function b + Σ Φ_w β_w, the weights of its nodes, and how far from the optimum over all nodes it can be."""

    lam: float
    nodes: tuple[GridNode, ...]
    eta: torch.Tensor
    zeta: torch.Tensor
    beta: torch.Tensor
    node: torch.Tensor
    intercept: float
    primal: float
    gap: float  # infinite if the sufficient condition was not evaluated
    rounds: int

    def __call__(self, F: torch.Tensor, design: Design) -> torch.Tensor:
        blocks: dict[GridNode, FeatureBlock] = {}
        t = F.new_full((len(F),), self.intercept)
        for place, node in enumerate(self.nodes):
            blocks[node] = FeatureBlock.of(F, design, node, blocks.get(node[:-1]) if node else None)
            t += blocks[node].features @ self.beta[self.node == place]
        return t


class ActiveSet:
    """The problem on some rows and its hull, which the next λ starts from."""

    def __init__(self, F, y, design: Design, dtype: torch.dtype, max_nodes: int, tol: float):
        self.F, self.design, self.max_nodes, self.tol = F, design, max_nodes, tol
        self.mean = float(y.mean())
        self.y = y - self.mean
        self.bounds = Bounds(F.to(dtype), design.basis, design.columns, design.beta)
        self.hull = Hull(design.columns, design.basis.levels)
        self.Phi = F.new_empty(len(F), 0)
        self.sizes = F.new_empty(0)
        self.node = torch.empty(0, dtype=torch.long, device=F.device)
        self.G = F.new_empty(0, 0)
        self.indices = torch.empty(0, design.columns, dtype=torch.int16)  # nodes as full multi-indices
        self.ancestors = torch.empty(0, 0, dtype=torch.float64)
        self.eta = torch.empty(0, dtype=torch.float64)
        self._add([ROOT])

    # ------------------------------------------------------------------------------------------ the hull

    def _add(self, nodes: list[GridNode]) -> None:
        fresh = [FeatureBlock.of(self.F, self.design, node, self._block(node[:-1]) if node else None) for node in nodes]
        counts = torch.tensor([len(block.sizes) for block in fresh], device=self.F.device)
        place = torch.arange(len(self.hull), len(self.hull) + len(nodes), device=self.F.device)
        new = torch.cat([block.features for block in fresh], 1)
        centred = new - new.mean(0)
        cross = self.Phi.T @ centred  # one centred factor is enough
        self.G = torch.cat([torch.cat([self.G, cross], 1), torch.cat([cross.T, centred.T @ centred], 1)])
        self.Phi = torch.cat([self.Phi, new], 1)
        self.sizes = torch.cat([self.sizes, *(block.sizes for block in fresh)])
        self.node = torch.cat([self.node, place.repeat_interleave(counts)])
        indices = torch.zeros(len(nodes), self.design.columns, dtype=torch.int16)
        for row, node in zip(indices, nodes, strict=True):
            for column, level in node:
                row[column] = level
        self.indices = torch.cat([self.indices, indices])
        self.ancestors = _ancestors(self.ancestors, self.indices, len(nodes))
        share = torch.full((len(nodes),), FRESH / max(1, len(self.hull)), dtype=torch.float64)
        self.eta = _normalised(torch.cat([self.eta, share]))
        self.hull.add(nodes)

    def _block(self, node: GridNode) -> FeatureBlock:
        of_node = self.node == self.hull.index[node]
        return FeatureBlock(self.Phi[:, of_node], self.sizes[of_node])

    def _drop_idle(self, below: torch.Tensor) -> bool:
        """Leave nodes with next to nothing at or below them; their ancestors have no less, so a hull remains."""
        kept = (below > IDLE * below[0]).cpu()
        kept[0] = True
        if bool(kept.all()):
            return False
        features = kept.to(self.node.device)[self.node]
        self.Phi, self.sizes, self.G = self.Phi[:, features], self.sizes[features], self.G[features][:, features]
        self.node = (kept.cumsum(0) - 1).to(self.node.device)[self.node[features]]
        self.indices, self.ancestors = self.indices[kept], self.ancestors[kept][:, kept]
        self.eta = _normalised(self.eta[kept])
        nodes = [node for node, keep in zip(self.hull.nodes, kept.tolist(), strict=True) if keep]
        self.hull = Hull(self.design.columns, self.design.basis.levels)
        self.hull.add(nodes)
        return True

    # ------------------------------------------------------------------------------------- one value of λ

    def solve(self, lam: float, patience: float, certify: bool = False) -> HKLSolution:
        """Grow until the gap is below the tolerance or the hull is full.

        ``patience`` is the number of rounds by the sufficient condition in a row that may lower the objective by less
        than the tolerance; ``certify`` evaluates the gap even if these are used up.
        """
        self.eta = _normalised(self.eta.clamp(min=KEPT / len(self.eta)))
        rounds, idle, best, may_drop = 0, 0, float("inf"), True
        while True:
            rounds += 1
            reduced = self._reduced(lam)
            alpha, level = self._alpha(reduced, lam), self._level(reduced, lam)
            idle, best = (idle, best) if reduced.primal > (1 - self.tol) * best else (0, reduced.primal)
            room = min(self.max_nodes - len(self.hull), max(FEWEST, int(HULL_SHARE * len(self.hull))))
            values, outside = self._necessary(alpha), float("inf")
            if any(value > level for value in values.values()):
                if room <= 0:
                    if not (may_drop and self._drop_idle(reduced.below)):
                        break
                    may_drop, patience = False, 0
                    continue
            elif idle < patience or certify:
                values = self.bounds(self.hull, alpha)
                outside = max(values.values(), default=0.0)
                if outside <= level or room <= 0 or idle >= patience:
                    break
                idle += 1
            else:
                break
            self._add(_largest(values, level, room))
        if certify and outside == float("inf"):
            outside = max(self.bounds(self.hull, alpha).values(), default=0.0)
        return self._solution(lam, reduced, reduced.gap(lam, outside), rounds)

    def _ridge(self) -> Ridge:
        n, m = self.Phi.shape
        if m > n:
            return ByRows(n, self.node, self.Phi - self.Phi.mean(0), self.y)
        place = torch.device("cpu") if m <= SMALL_PROBLEM else self.F.device
        g = self.Phi.T @ self.y
        return ByFeatures(n, self.node.to(place), self.G.to(place), g.to(place), float(self.y @ self.y))

    def _weights(self) -> torch.Tensor:
        return torch.tensor([self.design.weight(node) for node in self.hull.nodes], dtype=torch.float64)

    def _reduced(self, lam: float) -> Reduced:
        ridge = self._ridge()
        d, ancestors, eta = (part.to(ridge.node.device) for part in (self._weights(), self.ancestors, self.eta))
        reduced = solve(ridge, d, ancestors, eta, lam, self.tol / 2)
        self.eta = reduced.eta.cpu()
        return reduced

    def _level(self, reduced: Reduced, lam: float) -> float:
        """Ω*² at which the gap is tol times the primal value."""
        slack = self.tol * reduced.primal - (reduced.primal - reduced.inner)
        return reduced.quadratic + max(0.0, slack) * 2 / lam

    def _alpha(self, reduced: Reduced, lam: float) -> torch.Tensor:
        residual = self.y - self.Phi @ reduced.beta.to(self.F.device)
        return (residual - residual.mean()) / (len(self.F) * lam)

    def _necessary(self, alpha: torch.Tensor) -> dict[GridNode, float]:
        """‖Φ_tᵀα‖²/d_t² of all sources."""
        layout, levels = self.design.basis.layout, self.design.basis.levels
        squares = ((self.Phi * alpha[:, None]).T @ self.F) ** 2
        squares = torch.where(self.sizes[:, None] * layout.size >= self.design.truncation, squares, 0.0)
        by_node = squares.new_zeros(len(self.hull), squares.shape[1]).index_add_(0, self.node, squares)
        table = squares.new_zeros(len(self.hull), self.design.columns * levels)
        sums = table.index_add_(1, layout.column * levels + layout.level - 1, by_node).tolist()
        values = {}
        for t in self.hull.sources:
            column, level = t[-1]
            square = sums[self.hull.index[t[:-1]]][column * levels + level - 1]
            values[t] = square / self.design.weight(t) ** 2
        return values

    def _solution(self, lam: float, reduced: Reduced, gap: float, rounds: int) -> HKLSolution:
        beta = reduced.beta.to(self.F.device)
        return HKLSolution(
            lam,
            tuple(self.hull.nodes),
            reduced.eta.cpu(),
            zeta(reduced.eta.cpu(), self._weights(), self.ancestors),
            beta,
            self.node,
            self.mean - float((self.Phi @ beta).mean()),
            reduced.primal,
            gap,
            rounds,
        )


def _ancestors(before: torch.Tensor, indices: torch.Tensor, new: int) -> torch.Tensor:
    """[v, w] is 1 where v ≤ w, grown by the last ``new`` rows of ``indices``; these are under no old node."""
    columns = (indices[:, None] <= indices[-new:]).all(2).double()
    return torch.cat([torch.cat([before, before.new_zeros(new, len(before))]), columns], 1)


def _normalised(eta: torch.Tensor) -> torch.Tensor:
    return eta / eta.sum()


def _largest(values: dict[GridNode, float], level: float, room: int) -> list[GridNode]:
    """At most ``room`` sources above the level, the largest first."""
    above = [t for t, value in values.items() if value > level]
    return sorted(above, key=lambda t: (-values[t], t))[:room]
