"""Equal rows as one row with a weight.

Rows with the same x and the same y are merged into one whose weight is the sum of theirs, rows of weight 0 are left
out, and the others are put into lexicographic order. So a whole weight is exactly a number of repetitions, and no
result depends on the order in which the rows came. How often a row was given is kept: folds divide repetitions, and
leave-one-out leaves one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Merged:
    """Distinct rows, their weights, how often each was given, and for each given row the distinct one it went to (-1:
    weight 0).
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    count: np.ndarray
    place: np.ndarray


def merge_rows(X: np.ndarray, y: np.ndarray, weight: np.ndarray, count: np.ndarray | None = None) -> Merged:
    """Merge equal rows; ``y`` is (n, k). Missing cells equal each other. Without ``count`` each was given once.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.inputs import merge_rows
    >>> merged = merge_rows(np.array([[2.0], [1.0], [2.0]]), np.zeros((3, 1)), np.ones(3))
    >>> merged.X[:, 0].tolist(), merged.weight.tolist(), merged.place.tolist()
    ([1.0, 2.0], [1.0, 2.0], [1, 0, 1])
    """
    kept = np.flatnonzero(weight > 0)
    table = np.column_stack([X[kept], y[kept]])
    # NaN is not equal to itself; infinity cannot occur in checked data, and takes its place
    distinct, place = np.unique(np.where(np.isnan(table), np.inf, table), axis=0, return_inverse=True)
    distinct, place = np.where(np.isinf(distinct), np.nan, distinct), place.reshape(-1)
    everywhere = np.full(len(X), -1)
    everywhere[kept] = place
    total, times = (
        np.bincount(place, weights=values, minlength=len(distinct))
        for values in (weight[kept], None if count is None else count[kept])
    )
    d = X.shape[1]
    return Merged(distinct[:, :d].copy(), distinct[:, d:].copy(), total, times.astype(float), everywhere)
