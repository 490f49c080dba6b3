"""How often intervals hold the label.

The interval at row i from the others: quantiles over j of f^(-i,-j)(x_i) ∓ e_j σ^(-i,-j)(x_i), with the scores
e_j = ρ |y_j - f^(-i,-j)(x_j)| / σ^(-i,-j)(x_j), as in :mod:`hgk.intervals`. The functions without two rows come in
closed form from the factors of the machines, as leave-one-out predictions do: kernels and c = nλ stay fixed. Where
there are so many rows that ``predict_interval`` takes f and σ for the functions without single rows, f^(-i)(x_i) and
σ^(-i)(x_i) do here, of all rows.
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
from hgk.intervals import (
    ADAPTIVE,
    JACKKNIFE,
    Adapted,
    adapted,
    interval_bounds,
    intervals,
    jackknife,
    relative_weights,
    window,
    within,
)
from hgk.machines import Rows
from hgk.model import Model

# Rows whose intervals are checked, where functions without two of them are needed; and new ones.
COVERED = 600
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ASKED, FIFTHS = 0.9, 5


@dataclass(frozen=True)
class CoveredPart:
    """A fifth of the rows: from which prediction or width to which, and how often their intervals hold the label.

    ``width`` is the median width of the intervals.
    """

    low: float
    high: float
    covered: float
    rows: int
    width: float


@dataclass(frozen=True)
class Coverage:
    """How often intervals hold the label, by the coverage asked for; widths in the unit of the labels.

    Over all training rows that is at least the coverage asked for, nearly by construction: a row is as likely as any
    other to be among those with the largest residuals, and these are enlarged to those of rows that the kernel has not
    seen. ``parts`` says whether it holds from the smallest predictions to the largest, at the coverage ``asked``, and
    ``by_width`` from the narrowest intervals to the widest; ``new`` whether it holds for rows that the kernel was not
    learned from. ``spread`` says whether a machine on the size of residuals was clearly better than a constant.
    """

    levels: np.ndarray
    covered: np.ndarray
    width: np.ndarray
    rows: int
    asked: float
    parts: list[CoveredPart]
    by_width: list[CoveredPart]
    method: str
    spread: bool
    new: np.ndarray | None = None
    new_rows: int = 0


def has_intervals(model: Estimator) -> bool:
    """Whether there are functions without single rows, of numbers."""
    return not model.model_.target.classes and model.machine_.held_out is None


def interval_coverage(
    model: HGKRegressor, new: NewRows | None = None, levels: Sequence[float] = LEVELS, method: str = ADAPTIVE
) -> Coverage:
    """The intervals that ``predict_interval`` would give for each training row, had the row not been there.

    Of the first output; kernels, λ and γ stay fixed. On at most 600 rows where functions without two rows are needed.

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
    with threads_for(len(rows)):
        left = _by_scores if method == ADAPTIVE and len(rows) > JACKKNIFE else _by_two
        index, t, ends = left(fitted, levels, method)
    asked_rows = rows[index]
    y, share = asked_rows.Y[:, 0], asked_rows.weight / asked_rows.weight.sum()
    inside = ((ends[..., 0] <= y) & (y <= ends[..., 1])).double().numpy()
    low, high = np.moveaxis(within(_first_in_unit(fitted, ends), interval_bounds(fitted, None)[:1]), -1, 0)
    asked = levels.index(ASKED) if ASKED in levels else len(levels) - 1
    width, weight = high - low, asked_rows.weight.numpy()
    predicted = _first_in_unit(fitted, t)
    told = Coverage(
        np.array(levels), inside @ share.numpy(), np.median(width, 1), len(index), levels[asked],
        parts=_fifths(predicted, inside[asked], width[asked], weight),
        by_width=_fifths(width[asked], inside[asked], width[asked], weight),
        method=method, spread=method == ADAPTIVE and adapted(fitted)[0].spread is not None,
    )  # fmt: skip
    return told if new is None or not len(new.X) else _with_new(told, model, new)


# Rows, their predictions, and their intervals at every level, (levels, rows, 2); scaled as the labels.
Left = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _by_scores(fitted: Model, levels: Sequence[float], method: str) -> Left:
    """Of all rows, whose scores stand in their own windows among many."""
    one, rows = adapted(fitted)[0], fitted.need_training("Coverage needs").rows
    t = fitted.target.decode(fitted.leave_one_out())[:, 0]
    sigma = torch.ones_like(t) if one.spread is None else one.spread.leave_one_out()
    widths = torch.stack([one.quantiles(one.u, relative_weights(rows), level) * sigma for level in levels])
    return torch.arange(len(rows)), t, torch.stack([t - widths, t + widths], -1)


def _by_two(fitted: Model, levels: Sequence[float], method: str) -> Left:
    rows = fitted.need_training("Coverage needs").rows
    index = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(len(rows))[:COVERED]))
    t = fitted.leave_two_out(index)[0]
    one = adapted(fitted)[0] if method == ADAPTIVE else None
    sigma = None if one is None or one.spread is None else one.spread.leave_two_out(rows.X[index], one.u[index], index)
    ends = []
    for level in levels:
        near = None if one is None else _near(one, index, window(relative_weights(rows), level))
        ends.append(torch.stack(loo_interval(t, rows[index], level, fitted.optimism, sigma, near), -1))
    return index, t.diagonal(), torch.stack(ends)


def _near(one: Adapted, index: torch.Tensor, share: float) -> torch.Tensor | None:
    return None if share == 1 else one.places[index].near(one.u[index], share)


def loo_interval(
    t: torch.Tensor,
    rows: Rows,
    level: float,
    optimism: float = 1.0,
    sigma: torch.Tensor | None = None,
    near: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds at every row i from all others; ``t[i, j]`` = f^(-i,-j)(x_i), for the first output, and so is ``sigma``.

    Of row i itself all repetitions but one are among the others. ``near[i, j]`` says that j is in the window of i.
    """
    r = optimism * (rows.Y[:, :1] - t).abs().T  # ρ times r[i, j] = |y_j - f^(-i,-j)(x_j)|
    sizes = r if sigma is None else r / sigma.T * sigma
    weight = relative_weights(rows).repeat(len(rows), 1)
    weight.diagonal().mul_(1 - 1 / rows.repetitions)
    if near is not None:
        weight.mul_(near)
    low, high = jackknife(t, sizes, [weight], [level])[0].unbind(-1)
    return low, high


def _first_in_unit(fitted: Model, values: torch.Tensor) -> np.ndarray:
    """Scaled values of the first output in the unit of the labels."""
    scaled = np.zeros((*values.shape, len(fitted.target.scale)))
    scaled[..., 0] = values.numpy()
    return fitted.target.in_unit(scaled)[..., 0]


def _with_new(told: Coverage, model: HGKRegressor, new: NewRows) -> Coverage:
    fitted, X = model.model_, new.X[:COVERED]
    features = torch.from_numpy(fitted.inputs.encoder(X))
    found = intervals(fitted, features, told.levels.tolist(), told.method, interval_bounds(fitted, None))
    low, high = np.moveaxis(found[:, :, 0], -1, 0)
    y = fitted.target.in_unit(new.Y[:COVERED])[:, 0]
    return replace(told, new=((low <= y) & (y <= high)).mean(1), new_rows=len(X))


def _fifths(values: np.ndarray, inside: np.ndarray, width: np.ndarray, weight: np.ndarray) -> list[CoveredPart]:
    """Of the rows, in the order of the values."""
    fifths = [part for part in np.array_split(np.argsort(values, kind="stable"), FIFTHS) if len(part)]
    return [
        CoveredPart(
            float(values[f].min()),
            float(values[f].max()),
            float(np.average(inside[f], weights=weight[f])),
            len(f),
            float(np.median(width[f])),
        )
        for f in fifths
    ]
