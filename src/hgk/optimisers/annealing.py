"""Simulated annealing with the paper's acceptance rule, one weight at a time.

In step i of N one weight, drawn uniformly, is multiplied by e^ξ, ξ ~ N(0, 1/4), which changes the risk
R by Δ. The change is kept if Δ < 0, or with a uniform r if

    r < 0.5 exp(-(100 i/√N) Δ/R).

A weight that does not matter drifts, since it is multiplied in every other step. If a node's v all drift towards 0 its
edge w may drift to any size, and 2 w² (1 - k_c) is then rounding: at w = 10⁸ K was not positive definite. An edge is
not made longer than ``LONGEST_EDGE``; there 1 - k_c is linear in v², and nothing is lost that a larger v would not
give.

A step costs one pass over the n2 x n1 block. The exponent S_top of the current weights is kept; with c
the child of the top node on whose branch the weight lies, and primes for the changed weight,

    S_top' = S_top + 2 w_c'² (1 - k_c') - 2 w_c² (1 - k_c)

so that only the changed branch is evaluated, in row blocks that stay in cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from hgk.arrays import row_blocks
from hgk.kernels import Architecture, Pair, Sweep, Weights
from hgk.kernels.sweeps.compiled.chains import LONGEST_EDGE, Moves
from hgk.optimisers.objective import Objective, OnObjective
from hgk.progress import Progress

MOVE = 0.5

# (tile, its -S_top, where to write the new one) -> the new one
Update = Callable[[Pair, torch.Tensor, torch.Tensor], torch.Tensor]


def accepts(delta: float, risk: float, i: int, N: int, r: float) -> bool:
    """The paper's rule."""
    return delta < 0 or r < 0.5 * math.exp(-min(700.0, 100 * i / math.sqrt(N) * delta / max(risk, 1e-300)))


def too_long(edge: bool, before: float, after: float) -> bool:
    return edge and abs(after) > max(LONGEST_EDGE, abs(before))


def places_of(architecture: Architecture) -> list[tuple[int, tuple[int, ...]]]:
    """Every weight: its array and its place there; first those of the first layer, node by node."""
    places: list[tuple[int, tuple[int, ...]]] = [
        (0, (int(i), int(j))) for i, j in architecture.free()[0].nonzero().tolist()
    ]
    for layer, parents in enumerate(architecture.parents, start=1):
        places += [(layer, (i,)) for i in range(len(parents))]
    return places


def draws(places: int, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every step: the weight's number, e^ξ, and r; drawn step by step, as they are used."""
    place, factor, r = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps)
    for i in range(steps):
        place[i], factor[i], r[i] = rng.integers(places), math.exp(MOVE * rng.standard_normal()), rng.random()
    return place, factor, r


@dataclass
class Annealed:
    W: Weights
    risk: float
    accepted: int
    steps: int


@dataclass(frozen=True)
class Annealing(OnObjective):
    """Annealing: ``steps`` from W."""

    objective: Objective
    W: Weights
    steps: int
    rng: np.random.Generator
    progress: Progress

    held = 2  # E as it was and E as proposed

    def plainly(self) -> Annealed:
        return anneal(self.objective, self.W, self.steps, self.rng, self.progress)

    @classmethod
    def chained(cls, requests):
        drawn = [draws(len(places_of(r.objective.kernel.architecture)), r.steps, r.rng) for r in requests]
        chains = Moves([request.objective.chain(request.W) for request in requests], drawn)
        ends = chains.run(lambda: any(request.progress.cut() for request in requests))
        return [
            Annealed(end.W, end.risk, end.accepted, min(request.steps, chains.made))
            for request, end in zip(requests, ends, strict=True)
        ]


def anneal(objective: Objective, W: Weights, steps: int, rng: np.random.Generator, progress=None) -> Annealed:
    """``steps`` annealing steps from W; returns the last accepted weights, as the paper does.

    The further weights of some kinds of nodes are not the paper's and stay as they are.
    """
    block, places = ExponentBlock(objective, W), places_of(objective.kernel.architecture)
    accepted = i = 0
    for i, (place, factor, r) in enumerate(zip(*draws(len(places), steps, rng), strict=True), start=1):
        layer, index = places[place]
        before = float(block.sweep.W[layer][index])
        if not too_long(layer > 0, before, before * factor):
            risk = block.propose(layer, index, before * factor)
            if accepts(risk - block.risk, block.risk, i, steps, r):
                block.accept()
                accepted += 1
        if progress is not None and progress.cut():
            break
    return Annealed(block.sweep.W, block.risk, accepted, i)


class ExponentBlock:
    """-S_top on D2 x D1 for the current weights, and for one proposed change of a single weight."""

    def __init__(self, objective: Objective, W: Weights):
        self.objective = objective
        kernel = objective.kernel.with_weights(W)
        self.sweep = self.trial = Sweep(kernel, objective.D2.X, objective.X1)
        self.n1 = len(objective.X1)
        self.rows = row_blocks(len(objective.D2), self.n1)
        self.current = -kernel.exponent(objective.D2.X, objective.X1)
        self.proposed = torch.empty_like(self.current)
        self.t = torch.empty_like(objective.D2.Y)
        self.risk = self._risk(lambda pair, E, out: out.copy_(E))

    def propose(self, layer: int, index: tuple[int, ...], value: float) -> float:
        """The risk with ``W[layer][index] = value``; :meth:`accept` keeps the change."""
        self.trial = self.sweep.changed(layer, index, value)
        if self.sweep.architecture.depth == 1:  # the only node is the changed one
            self.new_risk = self._risk(lambda pair, E, out: out.copy_(self.trial.log_kernel(pair)))
        else:
            self.new_risk = self._risk(self._branch_update(layer, index[0]))
        return self.new_risk

    def accept(self) -> None:
        self.sweep, self.risk = self.trial, self.new_risk
        self.current, self.proposed = self.proposed, self.current

    def _risk(self, update: Update) -> float:
        """Fill ``proposed`` block by block and predict with each block while it is in cache."""
        scale = self.objective.kernel.gamma**-2
        for r in self.rows:
            pair = r, slice(0, self.n1)
            E = update(pair, self.current[r], self.proposed[r]).clamp_(max=0.0)
            K = torch.mul(E, scale, out=self.sweep.buffer(pair, (0, 0))).exp_()
            torch.mm(K, self.objective.alpha, out=self.t[r])
        return self.objective.risk_of(self.t)

    def _branch_update(self, layer: int, node: int) -> Update:
        """Depth > 1: the branch below the top node that holds the weight, before and after."""
        architecture = self.sweep.architecture
        top = architecture.depth - 1
        for level in range(max(layer, 1), top):
            node = architecture.parents[level - 1][node]
        old, new = (2 * sweep.edges[top - 1][node] ** 2 for sweep in (self.sweep, self.trial))

        def update(pair: Pair, E: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            k = self.sweep.log_kernel(pair, top, node).exp_()
            if layer == top:  # only w_c has changed
                return torch.add(E, k.sub_(1.0), alpha=new - old, out=out)
            torch.sub(E, k, alpha=new, out=out)
            return out.add_(self.trial.log_kernel(pair, top, node).exp_(), alpha=new)

        return update
