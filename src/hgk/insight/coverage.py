"""How often intervals hold the label.

Jackknife+ at row i from the others: quantiles over j of f^(-i,-j)(x_i) ∓ ρ |y_j - f^(-i,-j)(x_j)|, with ρ the ratio by
which errors of rows that the kernel has not seen are larger. The functions without two rows come in closed form from
the factors of the machines, as leave-one-out predictions do: kernels and c = nλ stay fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.arrays import threads_for
from hgk.estimators import HGKRegressor
from hgk.insight.errors import NewRows
from hgk.insight.fitted import Estimator, require_model, training_of
from hgk.machines import Rows, weighted_quantile

# Rows whose intervals are checked.
COVERED = 600
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ASKED, FIFTHS = 0.9, 5


@dataclass(frozen=True)
class CoveredPart:
    """Rows with similar predictions, and how often their intervals hold the label."""

    low: float
    high: float
    covered: float
    rows: int


@dataclass(frozen=True)
class Coverage:
    """How often jackknife+ intervals hold the label, by the coverage asked for; widths in the unit of the labels.

    Over all training rows that is at least the coverage asked for, nearly by construction: a row is as likely as any
    other to be among those with the largest residuals, and these are enlarged to those of rows that the kernel has not
    seen. ``parts`` says whether it holds from the smallest predictions to the largest, at the coverage ``asked``;
    ``new`` whether it holds for rows that the kernel was not learned from.
    """

    levels: np.ndarray
    covered: np.ndarray
    width: np.ndarray
    rows: int
    asked: float
    parts: list[CoveredPart]
    new: np.ndarray | None = None
    new_rows: int = 0


def has_intervals(model: Estimator) -> bool:
    """Whether there are functions without single rows, of numbers."""
    return not model.model_.target.classes and model.machine_.held_out is None


def interval_coverage(model: HGKRegressor, new: NewRows | None = None, levels: Sequence[float] = LEVELS) -> Coverage:
    """The intervals that ``predict_interval`` would give for each training row, had the row not been there.

    Of the first output, on at most 600 rows; kernels, λ and γ stay fixed.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import interval_coverage
    >>> model = HGKRegressor("plain", random_state=0).fit(*make_friedman1(60, random_state=0))
    >>> bool(interval_coverage(model, levels=[0.8]).covered[0] > 0.75)
    True
    """
    require_model(model)
    if np.isinf(model.machine_.clip):
        raise ValueError(
            f"Coverage was asked of a {type(model).__name__} whose values are no labels; give an HGKRegressor, or fit "
            "with loss='least_squares'."
        )
    fitted, rows = model.model_, training_of(model).rows
    index = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(len(rows))[:COVERED]))
    with threads_for(len(rows)):
        t = fitted.leave_two_out(index)[0]
    asked_rows = rows[index]
    bounds = [loo_interval(t, asked_rows, level, fitted.optimism) for level in levels]
    low, high = (torch.stack(bound) for bound in zip(*bounds, strict=True))
    y, share = asked_rows.Y[:, 0], asked_rows.weight / asked_rows.weight.sum()
    inside = ((low <= y) & (y <= high)).double()
    width = float(fitted.target.scale[0]) * (high - low).median(1).values
    asked = levels.index(ASKED) if ASKED in levels else len(levels) - 1
    parts = _by_prediction(model, t.diagonal(), inside[asked].numpy(), asked_rows.weight.numpy())
    covered = (inside @ share).numpy()
    told = Coverage(np.array(levels), covered, width.numpy(), len(index), levels[asked], parts)
    return told if new is None or not len(new.X) else _with_new(told, model, new)


def _with_new(told: Coverage, model: HGKRegressor, new: NewRows) -> Coverage:
    fitted, X = model.model_, new.X[:COVERED]
    features = torch.from_numpy(fitted.inputs.encoder(X))
    low, high = np.moveaxis(fitted.intervals(features, told.levels.tolist())[:, :, 0], -1, 0)
    y = fitted.target.in_unit(new.Y[:COVERED])[:, 0]
    return replace(told, new=((low <= y) & (y <= high)).mean(1), new_rows=len(X))


def _by_prediction(model: HGKRegressor, t: torch.Tensor, inside: np.ndarray, weight: np.ndarray) -> list[CoveredPart]:
    """Fifths of the rows, by their leave-one-out predictions of the first output."""
    scaled = np.zeros((len(t), len(model.model_.target.scale)))
    scaled[:, 0] = t.numpy()
    values = model.model_.target.in_unit(scaled)[:, 0]
    fifths = [part for part in np.array_split(np.argsort(scaled[:, 0], kind="stable"), FIFTHS) if len(part)]
    return [
        CoveredPart(values[f].min(), values[f].max(), float(np.average(inside[f], weights=weight[f])), len(f))
        for f in fifths
    ]


def loo_interval(t: torch.Tensor, rows: Rows, level: float, optimism: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds at every row i from all others; ``t[i, j]`` = f^(-i,-j)(x_i), for the first output.

    Of row i itself all repetitions but one are among the others.
    """
    n = len(rows)
    r = optimism * (rows.Y[:, :1] - t).abs().T  # ρ times r[i, j] = |y_j - f^(-i,-j)(x_j)|
    weight = (rows.weight * (rows.size / float(rows.weight.sum()))).repeat(n, 1)
    weight.diagonal().mul_(1 - 1 / rows.repetitions)
    low = [-weighted_quantile(-(t[i] - r[i]), weight[i], level) for i in range(n)]
    high = [weighted_quantile(t[i] + r[i], weight[i], level) for i in range(n)]
    return torch.stack(low), torch.stack(high)
