"""What the model predicts as one column moves, or two.

Partial dependence: E_x f(z, x_rest) over rows x, on a sample of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hgk.insight.fitted import Estimator, cell, column_names, require_model, training_of

# Rows that effects are averaged over, points per curve, and single rows whose curves are kept.
SAMPLE, CURVE_POINTS, CURVES = 100, 21, 20
MOST_LEVELS = 12
# Rows and points of each column for two columns.
JOINT_SAMPLE, JOINT_POINTS = 50, 9


@dataclass(frozen=True)
class Effect:
    """Predictions as one column moves: ``mean`` (outputs x points), ``curves`` (outputs x rows x points).

    ``labels`` are the categories of a categorical column, from the one with the smallest prediction to the largest (of
    the first output), else None. The last point is "missing" where the column has missing cells; ``grid`` is NaN there.
    ``rows`` is how many rows the mean is over.
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
    table, weight = _table(model, X)
    sample = np.random.default_rng(0).permutation(len(table))[:rows]
    grid, labels = _grid(model, table[:, column], column, points)
    curves = _moved(model, table[sample], [column], grid[:, None])
    mean = np.average(curves, axis=1, weights=weight[sample])
    if labels is not None:
        order = _in_order(mean[0], grid)
        grid, labels, mean, curves = grid[order], [labels[p] for p in order], mean[:, order], curves[:, :, order]
    classes, name = model.model_.target.classes, column_names(model)[column]
    return Effect(column, name, grid, labels, mean, curves[:, :CURVES], len(sample), classes)


@dataclass(frozen=True)
class JointEffect:
    """Predictions as two columns move: ``mean`` (outputs x points of the first x points of the second).

    ``columns``, ``names``, ``grids`` and ``labels`` are of each of the two, as in :class:`Effect`; ``beyond`` is by how
    much ``mean`` differs from the sum of the effects of the single columns, both about their means on the grid.
    """

    columns: tuple[int, int]
    names: tuple[str, str]
    grids: tuple[np.ndarray, np.ndarray]
    labels: tuple[list[str] | None, list[str] | None]
    mean: np.ndarray
    rows: int
    is_probability: bool

    @property
    def beyond(self) -> np.ndarray:
        of_first, of_second = self.mean.mean(2, keepdims=True), self.mean.mean(1, keepdims=True)
        return self.mean - of_first - of_second + self.mean.mean((1, 2), keepdims=True)


def joint_effect(
    model: Estimator, first: int, second: int, X: Any = None, rows: int = JOINT_SAMPLE, points: int = JOINT_POINTS
) -> JointEffect:
    """Partial dependence on two columns, exact where there are at most ``rows`` rows.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import joint_effect
    >>> model = HGKRegressor("plain").fit(*make_friedman1(30, random_state=0))
    >>> joint_effect(model, 0, 1, points=5).mean.shape
    (1, 5, 5)
    """
    require_model(model)
    table, weight = _table(model, X)
    sample = np.random.default_rng(0).permutation(len(table))[:rows]
    (one, ones), (two, twos) = (_grid(model, table[:, j], j, points) for j in (first, second))
    cells = np.column_stack([np.repeat(one, len(two)), np.tile(two, len(one))])
    curves = _moved(model, table[sample], [first, second], cells)
    mean = np.average(curves, axis=1, weights=weight[sample]).reshape(-1, len(one), len(two))
    if ones is not None:
        order = _in_order(mean[0].mean(1), one)
        one, ones, mean = one[order], [ones[p] for p in order], mean[:, order]
    if twos is not None:
        order = _in_order(mean[0].mean(0), two)
        two, twos, mean = two[order], [twos[p] for p in order], mean[:, :, order]
    names = column_names(model)[first], column_names(model)[second]
    classes = model.model_.target.classes
    return JointEffect((first, second), names, (one, two), (ones, twos), mean, len(sample), classes)


def _table(model: Estimator, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows to average over, and their weights."""
    if X is None:
        return training_of(model).table, training_of(model).rows.weight.numpy()
    table = model.table(X)
    return table, np.ones(len(table))


def _moved(model: Estimator, rows: np.ndarray, columns: list[int], cells: np.ndarray) -> np.ndarray:
    """Predictions of every row with every line of cells in these columns, (outputs, rows, lines)."""
    moved = np.repeat(rows, len(cells), axis=0)
    moved[:, columns] = np.tile(cells, (len(rows), 1))
    return model.model_.responses(moved).reshape(len(rows), len(cells), -1).transpose(2, 0, 1)


def _in_order(mean: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Categories from the smallest mean to the largest; missing cells stay last."""
    return np.lexsort((mean, np.isnan(grid)))


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
