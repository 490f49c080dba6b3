"""From a user's table to numbers the machine likes, and back.

    x  ->  [-1, 1]^d by each column's range          y  ->  [-1, 1] by its range, or ±1 codes of the classes

Equal rows (same x, same y) are merged into one whose weight is their sum, rows of weight 0 are left out,
and the rows are put into lexicographic order. So a weight is exactly a number of repetitions, and no
result depends on the order in which the rows came.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scaling:
    """u = (x - middle) / half, column by column; a constant column becomes 0."""

    middle: np.ndarray
    half: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> Scaling:
        low, high = x.min(0), x.max(0)
        # halved before they are added: the range of float64 columns may exceed the largest float64
        return cls(low / 2 + high / 2, high / 2 - low / 2)

    @property
    def factor(self) -> np.ndarray:
        """du/dx; 0 for constant columns, and for those whose range has no reciprocal."""
        return np.divide(1.0, self.half, out=np.zeros_like(self.half), where=self.half > 1e-300)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        # so far outside the range a kernel is 0; without the bound its square would overflow
        with np.errstate(over="ignore"):
            return np.clip((x - self.middle) * self.factor, -1e9, 1e9)

    def inverse(self, u: np.ndarray) -> np.ndarray:
        return u * self.half + self.middle


@dataclass(frozen=True)
class Merged:
    """Distinct rows, their weights, and for each given row the distinct one it went to (-1: weight 0)."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    place: np.ndarray


def merge_rows(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Merged:
    """Merge equal rows; ``y`` is (n, k)."""
    kept = np.flatnonzero(weight > 0)
    table = np.column_stack([X[kept], y[kept]])
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    everywhere = np.full(len(X), -1)
    everywhere[kept] = place.reshape(-1)
    d = X.shape[1]
    total = np.bincount(place.reshape(-1), weights=weight[kept], minlength=len(distinct))
    return Merged(distinct[:, :d].copy(), distinct[:, d:].copy(), total, everywhere)


def refuse_dates(X) -> None:
    """Dates would be taken for nanoseconds."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    for name, kind in zip(X.columns, dtypes, strict=True):
        if str(kind).lower().startswith(("datetime", "date", "time", "duration", "period")):
            raise ValueError(
                f"Column {name!r} holds dates ({kind}); turn it into numbers, such as a year, a day of the week or "
                "days since an event, or leave it out."
            )


def column_remarks(X: np.ndarray, names: list[str]) -> list[str]:
    """One sentence for constant columns and one for pairs of equal columns, if there are any."""
    constant = np.flatnonzero(X.min(0) == X.max(0))
    remarks = []
    if len(constant):
        remarks.append(
            f"Constant columns cannot help and get weight 0: {_listed(constant, names)}. Remove them to silence this."
        )
    first: dict[bytes, int] = {}
    copies = [j for j in range(X.shape[1]) if first.setdefault(X[:, j].tobytes(), j) != j]
    copies = [j for j in copies if j not in set(constant)]
    if copies:
        remarks.append(
            f"Columns that repeat others share their relevance with them at will: {_listed(copies, names)}. "
            "Remove them to silence this."
        )
    return remarks


def _listed(columns, names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[j] for j in columns[:most])
    return shown if len(columns) <= most else f"{shown} and {len(columns) - most} more"
