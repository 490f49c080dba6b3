"""Many annealing chains on an accelerator, one step of all of them at a time (see :mod:`hgk.fused.moves`).

Chains differ in their trees, rows, numbers of steps and random numbers; what is shorter is filled up. Nothing waits for
the device until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hgk.architectures import Architecture, Weights

STRIP, TILE = 16, 64


@dataclass(frozen=True)
class Chain:
    """What one chain anneals: its tree, weights and E, rows of D2 and D1, α, labels, shares of D2's rows, and draws."""

    architecture: Architecture
    W: Weights
    E: torch.Tensor
    X2: torch.Tensor
    X1: torch.Tensor
    alpha: torch.Tensor
    y: torch.Tensor
    share: torch.Tensor
    gamma: float
    risk: float
    place: np.ndarray
    factor: np.ndarray
    uniform: np.ndarray


@dataclass(frozen=True)
class Moved:
    W: Weights
    risk: float
    accepted: int


def _columns(architecture: Architecture) -> list[tuple[int, int]]:
    """Node and column of every first-layer weight, in the order in which places are numbered."""
    return [(i, j) for i, columns in enumerate(architecture.coordinates) for j in sorted(columns)]


def _filled(parts: Sequence[torch.Tensor], *shape: int) -> torch.Tensor:
    """Stacked, each filled up by zeros."""
    out = parts[0].new_zeros(len(parts), *shape)
    for row, part in zip(out, parts, strict=True):
        row[tuple(slice(0, size) for size in part.shape)] = part
    return out


class Chains:
    """The chains' state on their device, and their steps."""

    def __init__(self, chains: Sequence[Chain], clip: float):
        self.chains, X = chains, chains[0].X1
        self.device, self.d = X.device, X.shape[1]
        self.n2 = -(-max(len(c.X2) for c in chains) // STRIP) * STRIP
        self.n1 = -(-max(len(c.X1) for c in chains) // TILE) * TILE
        self.length = max(len(c.place) for c in chains)
        trees = [c.architecture for c in chains]
        places = [_columns(tree) for tree in trees]
        self.nodes, self.weights = max(len(t.coordinates) for t in trees), max(map(len, places))
        self.E = X.new_zeros(len(chains), 2, self.n2, self.n1)
        for E, c in zip(self.E, chains, strict=True):
            E[0, : len(c.X2), : len(c.X1)] = c.E
        self.X2 = _filled([c.X2.T for c in chains], self.d, self.n2)
        self.X1 = _filled([c.X1.T for c in chains], self.d, self.n1)
        self.alpha = _filled([c.alpha for c in chains], self.n1)  # 0 where there is no row
        self.y, self.share = (_filled([getattr(c, part) for c in chains], self.n2) for part in ("y", "share"))
        firsts = [np.cumsum([0, *map(len, tree.coordinates)]) for tree in trees]
        self.first = self._whole(firsts, self.nodes + 1)
        self.column = self._whole([[j for _, j in place] for place in places], self.weights)
        self.node = self._whole([[i for i, _ in place] for place in places], self.weights)
        self.size = self._whole([len(place) for place in places])
        self.flat = self._whole([int(tree.depth == 1) for tree in trees])
        self.V = self._real([c.W[0][tuple(np.array(p).T)] for c, p in zip(chains, places, strict=True)], self.weights)
        self.W = self._real([c.W[1] if c.architecture.depth == 2 else torch.ones(1) for c in chains], self.nodes)
        self.place = self._whole([c.place for c in chains], self.length)
        self.factor = self._real([c.factor for c in chains], self.length)
        self.uniform = self._real([c.uniform for c in chains], self.length)
        self.steps = self._whole([len(c.place) for c in chains])
        self.scale = self._real([[c.gamma**-2] for c in chains], 1)
        self.risk, self.clip = self._real([[c.risk] for c in chains], 1), X.new_full((1,), clip)
        self.partial = X.new_zeros(len(chains), self.n2 // STRIP)
        self.current, self.accepted = torch.zeros_like(self.steps), torch.zeros_like(self.steps)

    def _whole(self, values: Sequence, width: int | None = None) -> torch.Tensor:
        array = np.zeros((len(values),) if width is None else (len(values), width), dtype=np.int32)
        for i, value in enumerate(values):
            if width is None:
                array[i] = value
            else:
                array[i, : len(value)] = value
        return torch.from_numpy(array).to(self.device)

    def _real(self, values: Sequence, width: int) -> torch.Tensor:
        parts = [torch.as_tensor(value, dtype=self.E.dtype) for value in values]
        return _filled(parts, width).to(self.device)

    def run(self, stopped: Callable[[], bool]) -> list[Moved]:
        """All steps of all chains; a wish to stop is granted every fifty."""
        from hgk.fused import moves

        strips, self.made = self.n2 // STRIP, 0
        sizes = self.weights, self.nodes, self.length, strips
        for i in range(self.length):
            moves.propose[(len(self.chains), strips)](
                self.E, self.current, self.X2, self.X1, self.alpha, self.y, self.share, self.first, self.column,
                self.node, self.size, self.flat, self.V, self.W, self.place, self.factor, self.steps, self.scale,
                self.partial, i, self.d, self.n2, self.n1, *sizes, self.clip, R=STRIP, B=TILE,
            )  # fmt: skip
            moves.decide[(len(self.chains),)](
                self.current, self.size, self.V, self.W, self.place, self.factor, self.uniform, self.steps,
                self.partial, self.risk, self.accepted, i, *sizes, WIDTH=1 << (strips - 1).bit_length(),
            )  # fmt: skip
            self.made += 1
            if i % 50 == 49 and stopped():
                break
        return [self._moved(c) for c in range(len(self.chains))]

    def _moved(self, c: int) -> Moved:
        chain = self.chains[c]
        W = [w.clone() for w in chain.W]
        place = tuple(np.array(_columns(chain.architecture)).T)
        W[0][place] = self.V[c, : len(place[0])].double().cpu()
        if chain.architecture.depth == 2:
            W[1] = self.W[c, : len(W[1])].double().cpu()
        return Moved(tuple(W), float(self.risk[c, 0]), int(self.accepted[c]))
