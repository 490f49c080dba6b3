"""From decision values to probabilities.

With g(t) = a t for t > 0 and b t for t < 0, a, b > 0, and for least squares, whose values estimate 2 P - 1, with
q = (1 + t) / 2 in [ε, 1 - ε] and a power s > 0 (otherwise s = 0):

    two classes     log (p / (1 - p)) = g(t) + s log (q / (1 - q))
    more            p_k proportional to q_k^s exp(g(t_k))

a = b = 0 and s = 1 leave the estimate as it is, which is right where rows repeat and values are cell frequencies. Both
terms increase in t through 0, so that the most probable class is the one with the largest value. With values t of rows
that a machine has not seen, in which a row's label has a part only through the weights,

    a, b, s  minimise  Σ_i s_i (-log p_y(t_i)) + Σ_θ (θ - 1 - log θ),        θ = a, b, s

Each slope has the prior of a Gamma distribution with its mode at 1, which weighs as much as one row: values of the
logistic loss are log-odds already, and few rows without an error do not claim certainty. Many may, far from the border.
ε = 1/(n + 2) for n rows.

Where all classes are against all, f_kl > 0 speaks for k and f_lk = -f_kl. Were the pair probabilities σ(a f_kl) those
of one distribution, p_k / (p_k + p_l), then p_l / p_k = exp(-a f_kl), and 1 / p_k = 1 + Σ_l p_l / p_k gives (Price,
Knerr, Personnaz and Dreyfus, 1994)

    pairs           p_k proportional to 1 / (1 + Σ_l exp(-a f_kl))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hgk.logistic import log_probabilities
from hgk.storable import expect, storable

# Rows that the prior of a slope weighs; logarithms of slopes that a search may come to on its way.
PRIOR, STEEPEST = 1.0, 12.0


@storable
@dataclass(frozen=True)
class Calibration:
    """The slopes a and b, the power s, and ε."""

    above: float
    below: float
    power: float = 0.0
    least: float = 0.0

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(parts["above"] > 0 and parts["below"] > 0, "the calibration does not increase")
        power, least = parts.get("power", 0.0), parts.get("least", 0.0)
        expect(0 <= power < math.inf and (0 < least < 0.5 or not power), "the calibration's power does not fit")

    @classmethod
    def of(
        cls, t: np.ndarray, Y: np.ndarray, weight: np.ndarray, size: float | None = None, estimates: bool = False
    ) -> Calibration:
        """From values t and labels ±1, one column per class (one for two classes).

        ``size`` is the number of rows that the weights amount to, by default (Σ s)² / Σ s². ``estimates`` says that t
        estimates 2 P - 1.
        """
        size = float(weight.sum() ** 2 / (weight**2).sum()) if size is None else size
        values, least = torch.from_numpy(t), 1 / (size + 2)

        def at(slopes: torch.Tensor) -> Calibration:
            above, below, *power = slopes
            return cls(above, below, power[0] if power else 0.0, least)

        start = [0.0, 0.0, 0.0] if estimates else [0.0, 0.0]
        above, below, *power = _fitted(lambda slopes: at(slopes).log(values), start, Y, weight, size)
        return cls(above, below, power[0] if power else 0.0, least)

    def log(self, t: torch.Tensor) -> torch.Tensor:
        """Log-probabilities, one column per class."""
        g = torch.where(t > 0, self.above * t, self.below * t)
        log_q, log_rest = ((((1 + sign * t) / 2).clamp(self.least, 1 - self.least)).log() for sign in (1, -1))
        if t.shape[1] == 1:
            g = g + self.power * (log_q - log_rest) if self.least else g
            return log_probabilities(g)
        return log_probabilities(g + self.power * log_q if self.least else g)

    def probabilities(self, t: np.ndarray) -> np.ndarray:
        return self.log(torch.from_numpy(t)).exp().numpy()


def pairs_of(classes: int) -> torch.Tensor:
    """All a < b, one pair per row."""
    return torch.combinations(torch.arange(classes))


@storable
@dataclass(frozen=True)
class Coupling:
    """The slope a of all pairs; t has a column for each, in the order of :func:`pairs_of`."""

    slope: float

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(0 < parts["slope"] < math.inf, "the calibration does not increase")

    @classmethod
    def of(cls, t: np.ndarray, Y: np.ndarray, weight: np.ndarray, size: float) -> Coupling:
        values, classes = torch.from_numpy(t), Y.shape[1]
        return cls(*_fitted(lambda slope: cls(slope[0]).log(values, classes), [1.0], Y, weight, size))  # type: ignore

    def log(self, t: torch.Tensor, classes: int) -> torch.Tensor:
        """Log-probabilities, one column per class."""
        first, second = pairs_of(classes).T
        f = (self.slope * t).clamp(-50, 50)
        beaten = t.new_ones(len(t), classes).index_add(1, first, (-f).exp()).index_add(1, second, f.exp())
        return torch.log_softmax(-beaten.log(), 1)


def _fitted(
    log: Callable[[torch.Tensor], torch.Tensor], start: list[float], Y: np.ndarray, weight: np.ndarray, size: float
) -> list[float]:
    """Slopes whose logarithms, from ``start`` by LBFGS, minimise the formula above over n, for labels ±1."""
    share = torch.from_numpy(weight / weight.sum())
    column = torch.from_numpy(Y.argmax(1) if Y.shape[1] > 1 else (Y[:, 0] > 0).astype(int))[:, None]
    theta = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([theta], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        slopes = theta.clamp(-STEEPEST, STEEPEST).exp()
        prior = PRIOR * (slopes - 1 - slopes.log()).sum()
        value = -(share @ log(slopes).gather(1, column)[:, 0]) + prior / size
        value.backward()
        return value

    optimiser.step(loss)
    return theta.detach().clamp(-STEEPEST, STEEPEST).exp().tolist()
