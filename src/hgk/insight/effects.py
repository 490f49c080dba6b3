"""What the model predicts as one column moves: E_x f(z, x_rest) over rows x, partial dependence on a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hgk.insight.fitted import Estimator, cell, column_names, require_model, training_of

# Rows that effects are averaged over, points per curve, and single rows whose curves are kept.
SAMPLE, CURVE_POINTS, CURVES = 100, 21, 20
MOST_LEVELS = 12


@dataclass(frozen=True)
class Effect:
    """Predictions as one column moves: ``mean`` (outputs x points), ``curves`` (outputs x rows x points).

    ``labels`` are the categories of a categorical column, else None. The last point is "missing" where the column
    has missing cells; ``grid`` is NaN there. ``rows`` is how many rows the mean is over.
    """

    column: int
    name: str
    grid: np.ndarray
    labels: list[str] | None
    mean: np.ndarray
    curves: np.ndarray
    rows: int
    is_probability: bool


def effect(model: Estimator, column: int, X: Any = None, rows: int = SAMPLE, points: int = CURVE_POINTS) -> Effect:
    """Partial dependence on one column, exact where there are at most ``rows`` rows.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import effect
    >>> model = HGKRegressor("plain").fit(*make_friedman1(30, random_state=0))
    >>> effect(model, 3, points=7).mean.shape
    (1, 7)
    """
    require_model(model)
    if X is None:
        table, weight = training_of(model).table, training_of(model).rows.weight.numpy()
    else:
        table = model.table(X)
        weight = np.ones(len(table))
    sample = np.random.default_rng(0).permutation(len(table))[:rows]
    grid, labels = _grid(model, table[:, column], column, points)
    moved = np.repeat(table[sample], len(grid), axis=0)
    moved[:, column] = np.tile(grid, len(sample))
    curves = model.model_.responses(moved).reshape(len(sample), len(grid), -1).transpose(2, 0, 1)
    mean = np.average(curves, axis=1, weights=weight[sample])
    classes, name = model.model_.target.classes, column_names(model)[column]
    return Effect(column, name, grid, labels, mean, curves[:, :CURVES], len(sample), classes)


def _grid(model: Estimator, x: np.ndarray, column: int, points: int) -> tuple[np.ndarray, list[str] | None]:
    """Where a column is asked: its values or categories if they are few, else evenly between its 1 % and 99 %."""
    present = x[~np.isnan(x)]
    missing = [np.nan] if len(present) < len(x) or not len(present) else []
    levels = model.model_.inputs.reader.levels[column]
    if levels is not None:
        counts = np.bincount(present[present >= 0].astype(int), minlength=max(1, len(levels)))
        kept = np.sort(np.argsort(-counts, kind="stable")[: min(MOST_LEVELS, len(levels))]).astype(float)
        return np.array([*kept, *missing]), [*(cell(model, column, c) for c in kept), *(["missing"] if missing else [])]
    values = np.unique(present)
    if len(values) > points:
        low, high = np.quantile(present, [0.01, 0.99])
        values = np.linspace(low, high, points)
    return np.array([*np.unique(values), *missing]), None
