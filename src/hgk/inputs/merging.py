"""Equal rows as one row with a weight.

Rows with the same x and the same y are merged into one whose weight is the sum of theirs, rows of weight 0 are left
out, and the others are put into lexicographic order. So a whole weight is exactly a number of repetitions, and no
result depends on the order in which the rows came. How often a row was given is kept: folds divide repetitions, and
leave-one-out leaves one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hgk.inputs.pieces import taken


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
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    order, new = _sorted([*X.T, *y.T], kept)
    first = np.minimum.reduceat(order, np.flatnonzero(new)) if len(order) else order
    place = np.full(len(X), -1)
    place[order] = np.cumsum(new) - 1
    total, times = (
        np.bincount(place[kept], weights=values, minlength=len(first))
        for values in (weight[kept], None if count is None else count[kept])
    )
    return Merged(taken(X, first), taken(y, first), total, times.astype(float), place)


def _sorted(columns: Sequence[np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """These rows in lexicographic order, and whether each differs from the one before it.

    The order by the first j columns divides the rows into groups of rows that agree in them. Column j + 1 orders each
    group; groups of one row are left alone, so that columns of different numbers leave little to do for the others.
    """
    order, new = rows.copy(), np.zeros(len(rows), dtype=bool)
    new[:1] = True
    tied = np.arange(len(rows))  # where in the order there is a group of several rows
    for column in columns:
        new_group = new[tied]
        tied = tied[~(new_group & np.append(new_group[1:], True))]
        if not len(tied):
            break
        _order_groups(column, order, new, tied)
    return order, new


def _order_groups(column: np.ndarray, order: np.ndarray, new: np.ndarray, tied: np.ndarray) -> None:
    """Order every group by this column, and mark where new groups begin."""
    x, begins = column[order[tied]], new[tied]
    varied = _differ(x) & ~begins[1:]
    if not varied.any():
        return
    group = np.cumsum(begins) - 1
    mixed = np.zeros(group[-1] + 1, dtype=bool)
    mixed[group[1:][varied]] = True
    if not mixed.all():
        chosen = mixed[group]
        tied, x, group = tied[chosen], x[chosen], group[chosen]
    by_group = _by_group(group, x)
    order[tied] = order[tied[by_group]]
    new[tied[1:]] |= _differ(x[by_group])


def _by_group(group: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The order by group and then by x; rows that are equal in both come in any order."""
    by_x = np.argsort(x)
    if group[0] == group[-1]:
        return by_x
    # one sort by a whole number is faster than a stable one
    rank = np.empty(len(x), dtype=np.int64)
    rank[by_x] = np.cumsum(np.append(False, _differ(x[by_x])))
    return np.argsort(group * (rank[by_x[-1]] + 1) + rank)


def _differ(x: np.ndarray) -> np.ndarray:
    """Whether each number differs from the one before; NaN does not differ from NaN."""
    before, after = x[:-1], x[1:]
    return (before != after) & ((before == before) | (after == after))
