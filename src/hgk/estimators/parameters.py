"""What the estimators' parameters may be: a table of constraints, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.utils import check_random_state

from hgk.kernels import Architecture, Kernel
from hgk.learners import PRESETS
from hgk.losses import Loss
from hgk.optimisers import Adam, Algorithm1


@dataclass(frozen=True)
class Constraint:
    """Which values a parameter takes, and the end of the sentence for others."""

    holds: Callable[[Any], bool]
    expected: str
    error: type[Exception] = ValueError

    def check(self, name: str, value: Any) -> None:
        if not self.holds(value):
            raise self.error(f"{name}={value!r} {self.expected}")


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def between(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: is_number(value) and low < value < high


def optional(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def instance(*kinds: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def is_seed(value: Any) -> bool:
    try:
        check_random_state(value)
    except ValueError:
        return False
    return True


def is_classes_weight(value: Any) -> bool:
    return value is None or isinstance(value, Mapping) or (isinstance(value, str) and value == "balanced")


CONSTRAINTS: dict[str, Constraint] = {
    "kernel": Constraint(
        optional(instance(Kernel)),
        "was given; a HierarchicalKernel, such as the kernel_ of a fitted estimator is expected, or None.",
        TypeError,
    ),
    "architecture": Constraint(
        optional(instance(Architecture, list, tuple)),
        "was given; an Architecture or a list of them is expected, or None.",
        TypeError,
    ),
    "groups": Constraint(
        optional(instance(Mapping)),
        "was given; a mapping such as {'body': ['age', 'bmi']} is expected, or None.",
        TypeError,
    ),
    "optimiser": Constraint(
        optional(instance(Algorithm1, Adam)),
        "was given; an Algorithm1, such as Algorithm1(M=5), or an Adam is expected, or None.",
        TypeError,
    ),
    "callback": Constraint(optional(callable), "was given; a function of one event is expected, or None.", TypeError),
    "n_jobs": Constraint(
        optional(lambda value: isinstance(value, Integral) and value != 0),
        "was given; a whole number such as 2, or -1 for all, is expected.",
    ),
    "random_state": Constraint(
        is_seed, "was given; a whole number from 0 to 2**32 - 1 is expected, or a RandomState, or None."
    ),
    "time_budget": Constraint(
        optional(lambda value: is_number(value) and value > 0),
        "was given; a number of seconds > 0 is expected, or None.",
    ),
    "lam": Constraint(
        optional(between(0, float("inf"))), "was given; a finite number > 0 is expected, or None to choose it."
    ),
    "loss": Constraint(
        instance(str, Loss), "was given; a name such as 'least_squares' or a loss of hgk.losses is expected.", TypeError
    ),
    "tau": Constraint(is_number, "was given; a number in (0, 1) is expected.", TypeError),
    "tube": Constraint(is_number, "was given; a number in [0, 1) is expected.", TypeError),
    "multi_class": Constraint(
        lambda value: value in ("ovr", "ava"),
        "is unknown; use 'ovr' (one against the rest) or 'ava' (all against all).",
    ),
    "class_weight": Constraint(
        is_classes_weight, "was given; a dict of classes to weights, 'balanced' or None is expected."
    ),
}


def check(parameters: Mapping[str, Any]) -> None:
    """Raise an error of one sentence for the first parameter that is not allowed, alone or in combination."""
    preset = parameters["preset"]
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(f"preset={preset!r} is unknown; use one of {', '.join(map(repr, PRESETS))}.")
    for name, constraint in CONSTRAINTS.items():
        if name in parameters:
            constraint.check(name, parameters[name])
    for shape in _listed(parameters["architecture"]):
        if not isinstance(shape, Architecture):
            raise TypeError(f"architecture holds {shape!r}; Architectures such as two_layers(d, 8) are expected.")
    for refusal in _together(preset, {name: value for name, value in parameters.items() if value is not None}):
        raise ValueError(refusal)


def _listed(architecture: Any) -> Sequence[Any]:
    return architecture if isinstance(architecture, list | tuple) else ()


def _together(preset: str, given: Mapping[str, Any]) -> Iterator[str]:
    """What parameters that were given do not allow beside them."""
    shapes = [name for name in ("kernel", "architecture", "groups") if name in given]
    if "kernel" in given and "optimiser" in given:
        yield "kernel and optimiser were given together; a given kernel keeps its weights, so give one."
    if len(shapes) > 1:
        yield f"{' and '.join(shapes)} were given together; each fixes the kernel's shape, so give one."
    other = "kernel" in given or "optimiser" in given or len(_listed(given.get("architecture"))) > 1
    if "time_budget" in given and (preset != "default" or other):
        yield (
            "time_budget was given; it is kept by the preset 'default' with its own optimiser and at most one "
            "architecture, so leave it out or leave out the rest."
        )
    shaping = [*shapes, *(["optimiser"] if "optimiser" in given else [])]
    if preset == "plain" and shaping:
        yield (
            f"preset='plain' was given with {' and '.join(shaping)}; the plain preset has its own kernel and learns no "
            "weights, so leave one of them out."
        )
