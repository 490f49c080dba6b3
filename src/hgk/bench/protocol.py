"""The paper's protocol: splits, scaling, the error.

Split s of n rows: a permutation of 0..n-1 from ``default_rng(s)``; its first n_train rows train, the next ones, at
most 15,000, test. The training sizes are those of the paper's table.

    x_j  ->  2 (x_j - min_j) / (max_j - min_j) - 1        min, max over the training rows; a constant column is 0
    R    =   (1/n_test) Σ (y_i - clip(f(x_i)))²            clip to [-1, 1]

The paper scales with the range of all rows. Here the test rows have no say in the scaling of x, so that single test
cells may lie outside [-1, 1]. y is scaled by the range of all rows, as in the paper (:mod:`hgk.bench.datasets`): its
bounds are what predictions are clipped to, and errors stay comparable between splits. A missing or infinite cell
becomes the median of the column's training rows. Text becomes the number of its value among the sorted values of all
rows, as in files where text is coded already: a value that only test rows have moves the numbers of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # splits of numbers are made without it
    import pandas as pd

MOST_TEST_ROWS = 15_000
MOST_TRAINING_ROWS = 7000
# Of the paper's table; 7000 elsewhere.
TRAINING_ROWS = {
    "cpusmall": 6000,
    "cycle-power-plant": 6000,
    "satimage": 5000,
    "thyroid-ann": 5000,
    "updrs-motor": 5000,
}
# With the preset "quick".
QUICK_TRAINING_ROWS, QUICK_TEST_ROWS = 300, 1000


@dataclass(frozen=True)
class Split:
    """One split, scaled: what a method trains on, and what it is judged by."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def training_rows(name: str, n: int, quick: bool = False) -> int:
    """The paper's number of training rows; sets that are not the paper's keep a third of their rows for the test.

    >>> training_rows("satimage", 6435), training_rows("magic", 19020), training_rows("my-table", 600)
    (5000, 7000, 400)
    """
    most = QUICK_TRAINING_ROWS if quick else TRAINING_ROWS.get(name, MOST_TRAINING_ROWS)
    return most if name in TRAINING_ROWS and most < n else min(most, 2 * n // 3)


def split_rows(n: int, n_train: int, split: int, most: int = MOST_TEST_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the training and of the test rows.

    >>> train, test = split_rows(10, 6, split=0)
    >>> len(train), len(test), len(set(train) | set(test))
    (6, 4, 10)
    """
    order = np.random.default_rng(split).permutation(n)
    return order[:n_train], order[n_train : n_train + most]


def make_split(name: str, X: pd.DataFrame | np.ndarray, y: np.ndarray, split: int, quick: bool = False) -> Split:
    """Split number ``split`` of a data set (a table, or its ``as_numbers``), its columns as numbers in [-1, 1]."""
    n_train = training_rows(name, len(y), quick)
    train, test = split_rows(len(y), n_train, split, QUICK_TEST_ROWS if quick else MOST_TEST_ROWS)
    numbers = X if isinstance(X, np.ndarray) else as_numbers(X)
    inside, outside = to_cube(numbers[train], numbers[test])
    return Split(inside, y[train], outside, y[test])


def as_numbers(X: pd.DataFrame) -> np.ndarray:
    """Float columns; text and categories as the numbers of their sorted values; missing and infinite cells as NaN."""
    numbers = np.column_stack([_column(X.iloc[:, j]) for j in range(X.shape[1])])
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _column(column: pd.Series) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float, na_value=np.nan)
    codes = column.astype("category").cat.codes.to_numpy(dtype=float)
    return np.where(codes < 0, np.nan, codes)


def to_cube(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both scaled by the range of ``X``, missing cells filled by its medians.

    >>> inside, outside = to_cube(np.array([[1.0], [3.0]]), np.array([[2.0], [4.0], [np.nan]]))
    >>> inside.ravel().tolist(), outside.ravel().tolist()
    ([-1.0, 1.0], [0.0, 2.0, 0.0])
    """
    known = np.where(np.isnan(X).all(axis=0), 0.0, X)  # a column without a single value counts as constant
    middle = np.nanmedian(known, axis=0)
    low, high = np.nanmin(known, axis=0), np.nanmax(known, axis=0)
    width = np.where(high > low, high - low, 1.0)

    def scaled(Z: np.ndarray) -> np.ndarray:
        filled = np.where(np.isnan(Z), middle, Z)
        return np.where(high > low, 2 * (filled - low) / width - 1, 0.0)

    return scaled(X), scaled(X_test)


def clipped_error(t: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The mean squared error of the clipped prediction, and its standard error over the test rows.

    >>> clipped_error(np.array([3.0, 0.0]), np.array([1.0, 1.0]))
    (0.5, 0.35355339059327373)
    """
    losses = (np.clip(t, -1, 1) - y) ** 2
    return float(losses.mean()), float(losses.std() / len(losses) ** 0.5)
