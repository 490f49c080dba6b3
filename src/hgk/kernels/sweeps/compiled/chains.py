"""Many chains on an accelerator, side by side: their risks, their descents, their annealing.

A chain is the risk of one machine on other rows as a function of its kernel's weights (formulas and kernels in
``slopes`` and ``moves``). Chains differ in their trees, rows and numbers of steps; what is shorter is filled up. An
array of all chains is brought to the device at once, because a step of all of them takes hardly longer than a transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import torch

from hgk.kernels.architecture import Architecture
from hgk.kernels.nodes.base import Weights

STRIP, CHAIN_TILE = 16, 64
# Columns of a node that a gradient takes together, and its tiles: 160 registers in double precision, no spilling.
CHUNK, GRADIENT_TILE = 4, 32
# Arrays sent together begin at multiples of so many numbers: kernels are compiled anew for other alignments.
APART = 16
# Length beyond which annealing makes no edge longer (:mod:`hgk.optimisers.annealing`).
LONGEST_EDGE = 1e3

Draws = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Chain:
    """A smooth tree of depth 1 or 2, its weights and γ; D2's and D1's rows, α; D2's labels and sample weights; M."""

    architecture: Architecture
    W: Weights
    X2: torch.Tensor
    X1: torch.Tensor
    alpha: torch.Tensor
    y: torch.Tensor
    weight: torch.Tensor
    gamma: float
    clip: float


@dataclass(frozen=True)
class Moved:
    W: Weights
    risk: float
    accepted: int


@dataclass(frozen=True)
class Places:
    """Node and column of every first-layer weight, node by node; where a node's begin; where all weights lie in W."""

    node: np.ndarray
    column: np.ndarray
    first: np.ndarray
    weights: np.ndarray
    edges: np.ndarray
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def chunks(self) -> tuple[np.ndarray, np.ndarray]:
        """Node and first weight of every CHUNK weights of a node."""
        ends = zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True)
        pairs = [(i, p) for i, (first, end) in enumerate(ends) for p in range(first, end, CHUNK)]
        node, first = np.array(pairs).T
        return node, first

    @cached_property
    def sizes(self) -> list[int]:
        """Entries of the arrays of W."""
        return [prod(shape) for shape in self.shapes]


@lru_cache(maxsize=1024)
def places_in(tree: Architecture) -> Places:
    """The weights in the order in which annealing numbers them."""
    nodes = len(tree.coordinates)
    node, column = np.array([(i, j) for i, columns in enumerate(tree.coordinates) for j in sorted(columns)]).T
    first = np.cumsum([0, *map(len, tree.coordinates)])
    flat = tree.depth == 1
    edges, shapes = np.arange(0 if flat else nodes), ((nodes, tree.d), (nodes,))
    return Places(node, column, first, node * tree.d + column, nodes * tree.d + edges, shapes[: tree.depth])


def _filled(parts: Sequence[np.ndarray], width: int, by: int = 0) -> np.ndarray:
    """chains x width."""
    out = np.full((len(parts), width), by, dtype=parts[0].dtype)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out


def _sent(arrays: Sequence[np.ndarray], dtype: torch.dtype, device: torch.device) -> list[torch.Tensor]:
    """All arrays in one transfer."""
    starts = np.cumsum([0, *(-(-array.size // APART) * APART for array in arrays)])
    together = torch.zeros(int(starts[-1]), dtype=dtype)
    for start, array in zip(starts, arrays, strict=False):
        together[start : start + array.size] = torch.from_numpy(array.reshape(-1))
    there = together.to(device)
    return [there[s : s + a.size].view(a.shape) for s, a in zip(starts, arrays, strict=False)]


def _stacked(parts: Sequence[torch.Tensor], places: torch.Tensor) -> torch.Tensor:
    """chains x rows (x columns); the place after the last row is one of zeros."""
    return torch.cat([*parts, parts[0].new_zeros(1, *parts[0].shape[1:])])[places]


def _row_places(lengths: torch.Tensor, total: int, size: int) -> torch.Tensor:
    """Where each chain's rows lie among all of them, one chain after the other; ``total`` where there is none."""
    row, lengths = torch.arange(size, device=lengths.device), lengths.long()
    begins = lengths.cumsum(0) - lengths
    return torch.where(row < lengths[:, None], begins[:, None] + row, total)


class Chains:
    """The chains' rows and weights on their device, filled up, and their risks."""

    def __init__(self, chains: Sequence[Chain]):
        self.chains, X = chains, chains[0].X1
        self.device, self.dtype, self.d = X.device, X.dtype, X.shape[1]
        self.places = [places_in(chain.architecture) for chain in chains]
        self.weights = max(len(p.column) for p in self.places)
        self.nodes = max(len(p.first) - 1 for p in self.places)
        self._trees()
        self._rows()
        self.strips = self.n2 // STRIP
        self.slope, self.partial = X.new_zeros(len(chains), self.n2), X.new_zeros(len(chains), self.strips)
        self.V, self.W = X.new_empty(len(chains), self.weights), X.new_empty(len(chains), self.nodes)
        self.set([chain.W for chain in chains])

    def _trees(self) -> None:
        places, lengths = self.places, [(len(c.X2), len(c.X1)) for c in self.chains]
        trees = [
            _filled([p.first for p in places], self.nodes + 1),
            _filled([p.column for p in places], self.weights),
            _filled([p.node for p in places], self.weights),
            np.array([len(p.column) for p in places]),
            np.array([len(p.first) - 1 for p in places]),
            np.array([int(len(p.shapes) == 1) for p in places]),
            *np.array(lengths).T,
            np.ones(len(places), dtype=np.int64),
        ]
        whole = _sent(trees, torch.int32, self.device)
        self.first, self.column, self.node, self.size, self.count, self.flat, self.rows2, self.rows1, self.all = whole
        numbers = np.array([(c.gamma**-2, c.clip) for c in self.chains]).T
        self.scale, self.clip = _sent(list(numbers), self.dtype, self.device)
        begins = np.cumsum([0, *(sum(p.sizes) for p in places)])
        self.entries = nowhere = int(begins[-1])
        weights = _filled([b + p.weights for b, p in zip(begins, places, strict=False)], self.weights, nowhere)
        edges = _filled([b + p.edges for b, p in zip(begins, places, strict=False)], self.nodes, nowhere)
        self.slot = torch.from_numpy(np.hstack([weights, edges]))

    def _rows(self) -> None:
        chains = self.chains
        total2, total1 = sum(len(c.X2) for c in chains), sum(len(c.X1) for c in chains)
        self.n2 = -(-max(len(c.X2) for c in chains) // STRIP) * STRIP
        self.n1 = -(-max(len(c.X1) for c in chains) // CHAIN_TILE) * CHAIN_TILE
        there = _row_places(self.rows2, total2, self.n2), _row_places(self.rows1, total1, self.n1)
        self.X2 = _stacked([c.X2 for c in chains], there[0]).mT.contiguous()
        self.X1 = _stacked([c.X1 for c in chains], there[1]).mT.contiguous()
        self.alpha = _stacked([c.alpha for c in chains], there[1]).to(self.dtype)  # 0 where there is no row
        self.y, weight = (_stacked([getattr(c, part) for c in chains], there[0]) for part in ("y", "weight"))
        self.share = (weight / weight.sum(1, keepdim=True)).to(self.dtype)
        self.y = self.y.to(self.dtype)

    # ----------------------------------------------------------------------------------------------- weights

    def set(self, Ws: Sequence[Weights]) -> None:
        """Every chain's weights, from now on."""
        theta = self.packed(Ws).to(self.device)
        self.V.copy_(theta[:, : self.weights])
        self.W.copy_(theta[:, self.weights :])

    def packed(self, Ws: Sequence[Weights]) -> torch.Tensor:
        """chains x (first-layer weights, edges), in main memory."""
        return torch.cat([*(w.reshape(-1) for W in Ws for w in W), torch.zeros(1, dtype=torch.float64)])[self.slot]

    def unpacked(self, theta: torch.Tensor) -> list[Weights]:
        """The inverse, 0 outside the nodes' index sets."""
        entries = theta.new_zeros(self.entries + 1)
        entries[self.slot] = theta
        parts = iter(entries[:-1].split([size for p in self.places for size in p.sizes]))
        return [tuple(next(parts).view(shape) for shape in p.shapes) for p in self.places]

    # ------------------------------------------------------------------------------------------------- risks

    def risks(self) -> list[float]:
        """At the weights as they are."""
        self._evaluate(self.all)
        return self.partial.sum(1, dtype=torch.float64).tolist()

    def _evaluate(self, wanted: torch.Tensor, kept: torch.Tensor | None = None, keep: str = "", copies: int = 1):
        """Parts of the risks and g of the chains that are wanted; E or P is kept in every ``copies``-th block."""
        from hgk.kernels.sweeps.compiled import slopes

        slopes.risks[(self.strips, len(self.chains))](
            self.X2, self.X1, self.alpha, self.y, self.share, self.rows2, self.rows1, self.first, self.column,
            self.count, self.flat, self.V, self.W, self.scale, self.clip, wanted,
            self.partial if kept is None else kept, self.slope, self.partial,
            self.d, self.n2, self.n1, self.weights, self.nodes, self.strips, copies, KEEP=keep, R=STRIP, B=CHAIN_TILE,
        )  # fmt: skip


class Slopes(Chains):
    """Risks and gradients of chains that descend, each at weights of its own choice."""

    def __init__(self, chains: Sequence[Chain]):
        super().__init__(chains)
        self.P = self.X1.new_empty(len(chains), self.n2, self.n1)
        self.sums = self.X1.new_zeros(len(chains), self.strips, self.weights + self.nodes)
        chunks = [p.chunks for p in self.places]
        self.chunks = max(len(node) for node, _ in chunks)
        parts = [_filled(part, self.chunks, -1) for part in zip(*chunks, strict=True)]
        self.chunk_node, self.chunk_first = _sent(parts, torch.int32, self.device)
        self.Ws = [chain.W for chain in chains]
        self.known = [False] * len(chains)  # whether P is that of these weights

    def at(
        self, risks: Mapping[int, Weights], gradients: Mapping[int, Weights]
    ) -> tuple[dict[int, float], dict[int, tuple[float, Weights]]]:
        """R(W) of some chains, R(W) and ∂R/∂W of others, by their numbers.

        A gradient where the chain's last risk was asked for is the way back alone.
        """
        anew = [c for c, W in {**risks, **gradients}.items() if not (self.known[c] and self.Ws[c] is W)]
        for c, W in {**risks, **gradients}.items():
            self.Ws[c], self.known[c] = W, True
        there, back = (np.isin(np.arange(len(self.Ws)), list(asked)).astype(int) for asked in (anew, gradients))
        there_too, back_too = _sent([there, back], torch.int32, self.device)
        if anew:
            self.set(self.Ws)
            self._evaluate(there_too, self.P, "P")
        if gradients:
            self._back(back_too)
        parts = torch.cat([self.partial[:, :, None], self.sums], 2)
        sums = parts.sum(1, dtype=torch.float64).cpu()  # the only wait
        risk, slopes = sums[:, 0].tolist(), self._gradients(sums[:, 1:]) if gradients else []
        return {c: risk[c] for c in risks}, {c: (risk[c], slopes[c]) for c in gradients}

    def _gradients(self, sums: torch.Tensor) -> list[Weights]:
        """∂R/∂v = -2 v Σ…, ∂R/∂w = -4 w Σ…"""
        gradient = sums * self.packed(self.Ws)
        gradient[:, : self.weights] *= -2
        gradient[:, self.weights :] *= -4
        return self.unpacked(gradient)

    def _back(self, wanted: torch.Tensor) -> None:
        from hgk.kernels.sweeps.compiled import slopes

        slopes.sums[(self.chunks, self.strips, len(self.chains))](
            self.X2, self.X1, self.rows2, self.rows1, self.first, self.column, self.chunk_node, self.chunk_first,
            self.flat, self.V, self.W, wanted, self.P, self.slope, self.sums,
            self.d, self.n2, self.n1, self.weights, self.nodes, self.strips, self.chunks,
            R=STRIP, B=GRADIENT_TILE, CHUNK=CHUNK,
        )  # fmt: skip


class Moves(Chains):
    """Chains that anneal, each with its own draws; nothing waits for the device until the end."""

    def __init__(self, chains: Sequence[Chain], draws: Sequence[Draws]):
        super().__init__(chains)
        lengths = [len(place) for place, _, _ in draws]
        self.length = max(lengths)
        place = _filled([place for place, _, _ in draws], self.length)
        self.place, self.steps = _sent([place, np.array(lengths)], torch.int32, self.device)
        numbers = [_filled(part, self.length) for part in list(zip(*draws, strict=True))[1:]]
        self.factor, self.uniform = _sent(numbers, self.dtype, self.device)
        self.E = self.X1.new_empty(len(chains), 2, self.n2, self.n1)
        self._evaluate(self.all, self.E, "E", copies=2)
        self.risk = self.partial.sum(1)
        self.current, self.accepted = torch.zeros_like(self.steps), torch.zeros_like(self.steps)

    def run(self, stopped: Callable[[], bool]) -> list[Moved]:
        """All steps of all chains; a wish to stop is granted every fifty."""
        from hgk.kernels.sweeps.compiled import moves

        self.made = 0
        sizes = self.weights, self.nodes, self.length, self.strips
        for i in range(self.length):
            moves.propose[(len(self.chains), self.strips)](
                self.E, self.current, self.X2, self.X1, self.alpha, self.y, self.share, self.rows2, self.rows1,
                self.first, self.column, self.node, self.size, self.flat, self.V, self.W, self.scale, self.clip,
                self.place, self.factor, self.steps, self.partial, i, self.d, self.n2, self.n1, *sizes,
                R=STRIP, B=CHAIN_TILE,
            )  # fmt: skip
            moves.decide[(len(self.chains),)](
                self.current, self.size, self.V, self.W, self.place, self.factor, self.uniform, self.steps,
                self.partial, self.risk, self.accepted, i, *sizes, WIDTH=1 << (self.strips - 1).bit_length(),
            )  # fmt: skip
            self.made += 1
            if i % 50 == 49 and stopped():
                break
        return self._moved()

    def _moved(self) -> list[Moved]:
        ends = torch.cat([self.V, self.W, self.risk[:, None], self.accepted[:, None]], 1).double().cpu()
        Ws = self.unpacked(ends[:, :-2])
        numbers = ends[:, -2:].tolist()
        return [
            Moved(tuple(w.clone() for w in W), risk, int(accepted))
            for W, (risk, accepted) in zip(Ws, numbers, strict=True)
        ]
