"""Gradient descent with the Armijo-Goldstein line search.

W_{i+1} = W_i - η ∇R(W_i),      η = η₀ 2^{-k} with the smallest k such that
R(W_{i+1}) ≤ R(W_i) - c η ‖∇R(W_i)‖²,     c = 10⁻⁴
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hgk.architectures import Weights
from hgk.optimisers.objective import Objective
from hgk.progress import Progress

SLOPE = 1e-4
HALVINGS = 30
# A local minimum, to the precision that the risk deserves: no step found, or the last one gained less.
LITTLE = 1e-5


@dataclass
class Descent:
    W: Weights
    risk: float
    at_minimum: bool
    steps: list[dict] = field(default_factory=list)


def descend(objective: Objective, W: Weights, steps: int, progress=None) -> Descent:
    """At most ``steps`` steps; every one satisfies the Armijo condition and is recorded."""
    result = Descent(W, objective.risk(W), at_minimum=False)
    eta = None
    for _ in range(steps):
        risk, gradient = objective.gradient(result.W)
        slope = float(sum((g**2).sum() for g in gradient))
        if eta is None:  # first try: a tenth of the weights' own length
            length = float(sum((w**2).sum() for w in result.W))
            eta = 0.1 * (length / slope) ** 0.5 if slope > 0 else 0.0
        found = _backtrack(objective, result.W, risk, gradient, slope, eta)
        if found is None:
            result.at_minimum = True
            break
        result.W, result.risk, taken = found
        result.steps.append({"before": risk, "after": result.risk, "eta": taken, "slope": slope})
        eta = 2 * taken
        if risk - result.risk < LITTLE * risk:
            result.at_minimum = True
            break
        if progress is not None and progress.cut():
            break
    return result


def _backtrack(objective: Objective, W: Weights, risk: float, gradient: Weights, slope: float, eta: float):
    if slope == 0.0:
        return None
    for _ in range(HALVINGS):
        trial = tuple(w - eta * g for w, g in zip(W, gradient, strict=True))
        after = objective.risk(trial)
        if after <= risk - SLOPE * eta * slope:
            return trial, after, eta
        eta /= 2
    return None


@dataclass(frozen=True)
class Descending:
    """A wish for descent: at most ``steps`` from W."""

    objective: Objective
    W: Weights
    steps: int
    progress: Progress


def descend_all(wishes: Sequence[Descending]) -> list[Descent]:
    return [descend(wish.objective, wish.W, wish.steps, wish.progress) for wish in wishes]
