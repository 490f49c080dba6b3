"""Losses L(y, t) of a label y and a prediction t, convex in t, and what solvers ask of them.

With the residual r = t - y, the margin m = y t, and a₊ = max(0, a):

    Hinge                   (1 - m)₊                           y = ±1
    SquaredHinge            (1 - m)₊²                          y = ±1
    Logistic                log(1 + e⁻ᵐ)                       y = ±1
    Pinball(τ)              τ (-r)₊ + (1 - τ) r₊               its minimiser over t is the τ-quantile
    Expectile(τ)            τ (-r)₊² + (1 - τ) r₊²             the τ-expectile; τ = 1/2 is half of least squares
    EpsilonInsensitive(ε)   (|r| - ε)₊
    LeastSquares(a, b)      w r², w = a where y > 0, b else

The conjugate is L*(y, u) = sup_t u t - L(y, t), finite for u in ``domain``; Fenchel and Young say

    L(y, t) + L*(y, u) - u t >= 0,        with equality if and only if u is a subderivative of L(y, ·) at t.

Hinge, pinball and ε-insensitive are the support functions of a box [l, h] of subderivatives with a tube of half-width
ε around y (:class:`BoxLoss`): L = sup {u r - ε|u| : l <= u <= h}, and L* = u y + ε|u| there. The others
(:class:`SmoothLoss`) have a Lipschitz derivative.

τ and ε may be tensors with one number per column of y and t: quantile levels, side by side.

Estimators take a loss as an object, or by the name under which it was registered (:func:`register`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, TypeVar

import torch

from hgk.storable import storable

Level = float | torch.Tensor


class Loss(ABC):
    """A convex loss; all methods work entry by entry on tensors that broadcast.

    Examples
    --------
    >>> y, t = torch.tensor([1.0, -1.0]), torch.tensor([0.5, 0.5])
    >>> Hinge().value(y, t)
    tensor([0.5000, 1.5000])
    >>> Hinge().derivative(y, t)
    tensor([-1.,  1.])
    """

    signs: ClassVar[bool] = False  # whether the labels are -1 and 1
    # for :func:`register`: by what name, for which of TASKS and of which PARAMETERS estimators make it
    name: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def value(self, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def derivative(self, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """∂L/∂t, or a subderivative where there are several."""

    @abstractmethod
    def conjugate(self, y: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """L*(y, u), for u in the domain."""

    def domain(self, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The smallest and the largest u with a finite L*(y, u); the real line unless said otherwise."""
        edge = torch.full_like(y, torch.inf)
        return -edge, edge

    def clip(self, y: torch.Tensor) -> float:
        """M such that predictions clipped to [-M, M] are never worse, for labels as large as these."""
        return 1.0 if self.signs else float(y.abs().max())

    def column(self, k: int) -> Loss:
        """The loss of column k."""
        return self.columns([k])

    def columns(self, index: Sequence[int]) -> Loss:
        """The loss of these columns."""
        entries = {name: _entries(getattr(self, name), index) for name in self.parameters}
        return replace(self, **entries) if entries else self  # type: ignore[type-var]

    @property
    def levels(self) -> int:
        """How many columns a parameter has numbers for; 1 where it is a number itself."""
        return max((_count(getattr(self, name)) for name in self.parameters), default=1)

    def spread(self, Y: torch.Tensor) -> torch.Tensor:
        """A single column of labels once for every level; others as they are."""
        if self.levels > 1 and Y.shape[1] not in (1, self.levels):
            raise ValueError(
                f"{type(self).__name__} has {self.levels} levels and was given {Y.shape[1]} columns of labels; give "
                "one column, or one level."
            )
        return Y.expand(-1, self.levels) if self.levels > 1 else Y

    def check(self, y: torch.Tensor) -> None:
        """Raise ValueError unless the loss takes these labels."""
        if self.signs and not bool((y.abs() == 1).all()):
            other = float(y[y.abs() != 1].flatten()[0])
            raise ValueError(
                f"{type(self).__name__} was given the label {other:g}; it takes -1 and 1, so encode classes."
            )
        if not bool(y.isfinite().all()):
            raise ValueError(f"{type(self).__name__} was given labels that are not finite; remove or impute them.")

    def young(self, y: torch.Tensor, t: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """L(y, t) + L*(y, u) - u t, which is 0 at subderivatives u and positive elsewhere."""
        return self.value(y, t) + self.conjugate(y, u) - u * t


class BoxLoss(Loss):
    """L = sup {u r - ε|u| : l <= u <= h}; a subclass says what the box is."""

    tube: Level = 0.0

    @abstractmethod
    def domain(self, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

    def value(self, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        low, high = self.domain(y)
        r = t - y
        return high * (r - self.tube).clamp_min(0) - low * (-r - self.tube).clamp_min(0)

    def derivative(self, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        low, high = self.domain(y)
        r = t - y
        return torch.where(r > self.tube, high, 0.0) + torch.where(r < -self.tube, low, 0.0)

    def conjugate(self, y: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return u * y + self.tube * u.abs()


class SmoothLoss(Loss):
    """A loss with a Lipschitz derivative."""

    @abstractmethod
    def curvature(self, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """∂²L/∂t²; where the derivative has a kink, that of one side."""


# ------------------------------------------------------------------------------------------- by name

# Who asks for a loss of which task.
TASKS = {"numbers": "HGKRegressor", "classes": "HGKClassifier"}
# What estimators make losses of, and where it must lie.
PARAMETERS = {"tau": "(0, 1)", "tube": "[0, 1)"}
_NAMED: dict[str, type[Loss]] = {}

LossClass = TypeVar("LossClass", bound=type[Loss])


def register(cls: LossClass) -> LossClass:
    """Let estimators take a loss by its ``name``.

    The class declares its ``tasks`` and which ``parameters`` of an estimator it is made of.

    Examples
    --------
    >>> from hgk.losses import Hinge, named, register
    >>> register(Hinge) is Hinge  # or as a decorator of a class of your own
    True
    >>> named(Hinge.name, "classes")
    Hinge()
    """
    if not (cls.name and cls.tasks and set(cls.tasks) <= set(TASKS)):
        raise ValueError(
            f"{cls.__name__} was registered with name={cls.name!r}, tasks={cls.tasks!r}; a name and some of "
            f"{', '.join(map(repr, TASKS))} are expected."
        )
    _NAMED[cls.name] = cls
    return cls


def names(task: str) -> list[str]:
    """The names of the losses of a task, "numbers" or "classes".

    Examples
    --------
    >>> names("classes")
    ['least_squares', 'auto', 'hinge', 'squared_hinge', 'logistic']
    """
    return [name for name, cls in _NAMED.items() if task in cls.tasks]


def named(name: str, task: str, **parameters: Any) -> Loss:
    """The loss of this name, made of those of the estimator's ``parameters`` that it has.

    Examples
    --------
    >>> named("pinball", "numbers", tau=0.9, tube=0.1)
    Pinball(tau=0.9)
    """
    for key, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{key}={value!r} was given; a number in {PARAMETERS[key]} is expected.")
    if name not in names(task):
        elsewhere = [TASKS[other] for other in _NAMED[name].tasks] if name in _NAMED else []
        where = f"{name!r} is for {elsewhere[0]}; here" if elsewhere else f"loss={name!r} is unknown;"
        raise ValueError(f"{where} use one of {', '.join(map(repr, names(task)))}, or a loss of hgk.losses.")
    cls = _NAMED[name]
    return cls(**{key: float(parameters[key]) for key in cls.parameters if key in parameters})


def check_level(tau: Level) -> None:
    level = torch.as_tensor(tau)
    if not bool(((level > 0) & (level < 1)).all()):
        raise ValueError(f"tau={tau} was given; a level must lie strictly between 0 and 1 (0.5 is the middle).")


def _entries(parameter: Level, index: Sequence[int]) -> Level:
    """Those of these columns; a number where there is one."""
    if not isinstance(parameter, torch.Tensor) or not parameter.ndim:
        return parameter
    return float(parameter.flatten()[index[0]]) if len(index) == 1 else parameter.flatten()[list(index)]


def _count(parameter: Level) -> int:
    return parameter.numel() if isinstance(parameter, torch.Tensor) and parameter.ndim else 1


# ------------------------------------------------------------------------------------ losses of numbers


@register
@storable
@dataclass(frozen=True)
class LeastSquares(SmoothLoss):
    """w (y - t)² with w = ``above`` for positive labels and ``below`` for the others."""

    name, tasks = "least_squares", ("numbers", "classes")

    above: float = 1.0
    below: float = 1.0

    def __post_init__(self):
        if not (0 < self.above < float("inf") and 0 < self.below < float("inf")):
            raise ValueError(f"The weights {self.above} and {self.below} were given; both must be positive and finite.")

    @property
    def quadratic(self) -> bool:
        """Whether L = (y - t)², whose machine is a linear system."""
        return self.above == self.below == 1.0

    def weight(self, y):
        one = torch.ones_like(y)
        return torch.where(y > 0, self.above * one, self.below * one)

    def value(self, y, t):
        return self.weight(y) * (t - y) ** 2

    def derivative(self, y, t):
        return 2 * self.weight(y) * (t - y)

    def curvature(self, y, t):
        return 2 * self.weight(y) * torch.ones_like(t)

    def conjugate(self, y, u):
        return u * y + u**2 / (4 * self.weight(y))


@register
@storable
@dataclass(frozen=True)
class LeastSquaresOrLogistic(LeastSquares):
    """Of classes, whichever has the smaller log-loss on rows set aside; least squares, where nothing is compared."""

    name, tasks = "auto", ("classes",)  # type: ignore[assignment]

    def __post_init__(self):
        if not self.quadratic:
            raise ValueError(
                f"LeastSquaresOrLogistic was given the weights {self.above} and {self.below}; it has none, so give "
                "class_weight, or take LeastSquares."
            )


@register
@storable
@dataclass(frozen=True)
class Pinball(BoxLoss):
    """τ (y - t)₊ + (1 - τ)(t - y)₊: the τ-quantile."""

    name, tasks, parameters = "pinball", ("numbers",), ("tau",)

    tau: Level = 0.5

    def __post_init__(self):
        check_level(self.tau)

    def domain(self, y):
        zero = torch.zeros_like(y)
        return zero - self.tau, zero + (1 - self.tau)


@register
@storable
@dataclass(frozen=True)
class Expectile(SmoothLoss):
    """τ (y - t)₊² + (1 - τ)(t - y)₊²: the τ-expectile. At τ = 1/2 half of least squares, so λ there is λ/2 here."""

    name, tasks, parameters = "expectile", ("numbers",), ("tau",)

    tau: Level = 0.5

    def __post_init__(self):
        check_level(self.tau)

    def _side(self, r):
        """1 - τ where the prediction is above the label, else τ."""
        one = torch.ones_like(r)
        return torch.where(r > 0, one * (1 - self.tau), one * self.tau)

    def value(self, y, t):
        return self._side(t - y) * (t - y) ** 2

    def derivative(self, y, t):
        return 2 * self._side(t - y) * (t - y)

    def curvature(self, y, t):
        return 2 * self._side(t - y)

    def conjugate(self, y, u):
        return u * y + u**2 / (4 * self._side(u))


@register
@storable
@dataclass(frozen=True)
class EpsilonInsensitive(BoxLoss):
    """(|y - t| - ε)₊: the absolute deviation beyond a tube."""

    name, tasks, parameters = "epsilon_insensitive", ("numbers",), ("tube",)

    tube: Level = 0.1

    def __post_init__(self):
        if not bool((torch.as_tensor(self.tube) >= 0).all()):
            raise ValueError(f"tube={self.tube} was given; the half-width ε must be at least 0 (try 0.1).")

    def domain(self, y):
        return -torch.ones_like(y), torch.ones_like(y)


# ------------------------------------------------------------------------------------ losses of classes


@register
@storable
@dataclass(frozen=True)
class Hinge(BoxLoss):
    """(1 - y t)₊ for labels ±1: margins."""

    name, tasks = "hinge", ("classes",)
    signs = True

    def domain(self, y):
        return (-y).clamp_max(0), (-y).clamp_min(0)


@register
@storable
@dataclass(frozen=True)
class SquaredHinge(SmoothLoss):
    """(1 - y t)₊² for labels ±1."""

    name, tasks = "squared_hinge", ("classes",)
    signs = True

    def value(self, y, t):
        return (1 - y * t).clamp_min(0) ** 2

    def derivative(self, y, t):
        return -2 * y * (1 - y * t).clamp_min(0)

    def curvature(self, y, t):
        return 2.0 * (y * t < 1).to(t)

    def domain(self, y):
        zero, edge = torch.zeros_like(y), torch.full_like(y, torch.inf)
        return torch.where(y > 0, -edge, zero), torch.where(y > 0, zero, edge)

    def conjugate(self, y, u):
        return u * y + u**2 / 4


@register
@storable
@dataclass(frozen=True)
class Logistic(SmoothLoss):
    """log(1 + e^(-y t)) for labels ±1; at its minimiser P(y = 1) = 1 / (1 + e⁻ᵗ). It cannot be clipped."""

    name, tasks = "logistic", ("classes",)
    signs = True

    def value(self, y, t):
        return torch.nn.functional.softplus(-y * t)

    def derivative(self, y, t):
        return -y * torch.sigmoid(-y * t)

    def curvature(self, y, t):
        return torch.sigmoid(t) * torch.sigmoid(-t)

    def domain(self, y):
        return (-y).clamp_max(0), (-y).clamp_min(0)

    def conjugate(self, y, u):
        p = -u * y  # (1 - p) log(1 - p) + p log p
        return torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p)

    def clip(self, y):
        return float("inf")
