"""Gradient descent with the Armijo-Goldstein line search.

W_{i+1} = W_i - η ∇R(W_i),      η = η₀ 2^{-k} with the smallest k such that
R(W_{i+1}) ≤ R(W_i) - c η ‖∇R(W_i)‖²,     c = 10⁻⁴
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from hgk.executor import side_by_side
from hgk.kernels import Weights
from hgk.kernels.sweeps.compiled.chains import Slopes
from hgk.optimisers.objective import Objective, OnObjective
from hgk.progress import Progress

SLOPE = 1e-4
HALVINGS = 30
# A local minimum, to the precision that the risk deserves: no step found, or the last one gained less.
LITTLE_GAIN = 1e-5
# Columns of a node beyond which chains descend one by one: side by side its exponents are formed for every four.
WIDEST_NODE = 64


@dataclass
class Descent:
    W: Weights
    risk: float
    at_minimum: bool
    steps: list[dict] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class At:
    """What the rule asks for: R(W), or R(W) and ∂R/∂W."""

    W: Weights
    gradient: bool = False


Rule = Generator[At, Any, Descent]


def descend(objective: Objective, W: Weights, steps: int, progress: Progress | None = None) -> Descent:
    """At most ``steps`` steps; every one satisfies the Armijo condition and is recorded."""

    def fulfil(asked: dict[int, At]) -> dict[int, Any]:
        return {c: objective.gradient(at.W) if at.gradient else objective.risk(at.W) for c, at in asked.items()}

    return side_by_side([rule_of(W, steps, progress)], fulfil)[0]


@dataclass(frozen=True, eq=False)
class Descending(OnObjective):
    """A descent: at most ``steps`` from W."""

    objective: Objective
    W: Weights
    steps: int
    progress: Progress | None = None

    held = 1

    @property
    def fits(self) -> bool:
        narrow = max(map(len, self.objective.kernel.architecture.coordinates)) <= WIDEST_NODE
        return narrow and super().fits

    def plainly(self) -> Descent:
        return descend(self.objective, self.W, self.steps, self.progress)

    @classmethod
    def chained(cls, requests):
        """Risks and gradients that the rules ask for are found in turns, one for all that have not ended."""
        slopes = Slopes([request.objective.chain(request.W) for request in requests])

        def fulfil(asked: dict[int, At]) -> dict[int, Any]:
            risks = {c: at.W for c, at in asked.items() if not at.gradient}
            gradients = {c: at.W for c, at in asked.items() if at.gradient}
            values, pairs = slopes.at(risks, gradients)
            return {**values, **pairs}

        return side_by_side([rule_of(request.W, request.steps, request.progress) for request in requests], fulfil)


def rule_of(W: Weights, steps: int, progress: Progress | None = None) -> Rule:
    """The rule as a generator, which asks for risks and gradients and is sent them."""
    result = Descent(W, (yield At(W)), at_minimum=False)
    eta = None
    for _ in range(steps):
        risk, gradient = yield At(result.W, gradient=True)
        slope = float(sum((g**2).sum() for g in gradient))
        if eta is None:  # first try: a tenth of the weights' own length
            length = float(sum((w**2).sum() for w in result.W))
            eta = 0.1 * (length / slope) ** 0.5 if slope > 0 else 0.0
        step = yield from _backtrack(result.W, risk, gradient, slope, eta)
        if step is None:
            result.at_minimum = True
            break
        result.W, result.risk, taken = step
        result.steps.append({"before": risk, "after": result.risk, "eta": taken, "slope": slope})
        eta = 2 * taken
        if risk - result.risk < LITTLE_GAIN * risk:
            result.at_minimum = True
            break
        if progress is not None and progress.cut():
            break
    return result


def _backtrack(
    W: Weights, risk: float, gradient: Weights, slope: float, eta: float
) -> Generator[At, float, tuple[Weights, float, float] | None]:
    if slope == 0.0:
        return None
    for _ in range(HALVINGS):
        trial = tuple(w - eta * g for w, g in zip(W, gradient, strict=True))
        after = yield At(trial)
        if after <= risk - SLOPE * eta * slope:
            return trial, after, eta
        eta /= 2
    return None
