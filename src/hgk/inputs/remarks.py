"""Sentences on columns that may not have been meant as they are taken: what was found, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hgk.inputs.numerals import INEXACT, Reading

# Rows from which a column that counts them is no coincidence.
FEWEST_COUNTED = 10
# Rows that are enough to tell most columns apart.
GLANCE = 1000


def how_to_convert(r: Reading) -> str:
    """How to say what a mark means that may mean two things."""
    if "','" in r.unclear:
        return (
            "convert it to float, after .str.replace(',', '') where commas mark thousands, or .str.replace(',', '.') "
            "where they mark decimals"
        )
    return "convert it to float, after .str.replace('.', '') where dots mark thousands"


def merged_remark(name: str) -> str:
    return (
        f"Column {name!r} holds whole numbers beyond 2^53 that differ and become the same float; leave it out, or give "
        "it as categories."
    )


def counting_remarks(columns: Sequence[np.ndarray], names: Sequence[str]) -> list[str]:
    """A sentence for each column that counts the rows, such as the index that a CSV was written with."""
    if len(columns) < 2:  # it is all there is
        return []
    return [
        f"Column {name!r} counts the rows; leave it out, unless their order means something that new rows have, too."
        for column, name in zip(columns, names, strict=True)
        if _counts(column, name)
    ]


def _counts(column: np.ndarray, name: str) -> bool:
    if column.dtype.kind != "f" or len(column) < FEWEST_COUNTED:
        return False
    if re.fullmatch(r"Unnamed: \d+", name):  # what pandas calls the column of an index; rows may have been left out
        return bool((np.diff(column) >= 1).all() and (column % 1 == 0).all())
    return column[0] in (0, 1) and all((np.diff(x) == 1).all() for x in (column[:FEWEST_COUNTED], column))


def precision_remarks(X: Any) -> list[str]:
    """A sentence for each column in which whole numbers merge when they become floats."""
    if hasattr(X, "columns"):
        columns = [(X[name], str(name)) for name in X.columns]
    else:
        columns = [(column, f"x{j}") for j, column in enumerate(X.T)] if X.dtype.kind in "iuO" else []
    return [merged_remark(name) for column, name in columns if _merges(column)]


def _merges(column: Any) -> bool:
    kind = str(column.dtype).lower()
    if kind.startswith(("int64", "uint64", "int128")):
        drop = getattr(column, "dropna", None) or getattr(column, "drop_nulls", None)
        cells = np.asarray(drop() if drop else column)
        large = cells[(cells >= INEXACT) | (cells <= -INEXACT)] if kind[0] == "i" else cells[cells >= INEXACT]
    elif kind.startswith("object"):
        large = np.array([v for v in column if isinstance(v, int) and abs(v) >= INEXACT], dtype=object)
    else:
        return False
    distinct = set(large.tolist())
    return len(distinct) > len({float(v) if abs(v) < 2**1000 else v for v in distinct})


def column_remarks(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """One sentence for constant columns and one for pairs of equal columns, if there are any."""
    constant = [j for j, x in enumerate(X.T) if _constant(_glance(x)) and _constant(x)]
    copies = _copies(X, [j for j in range(X.shape[1]) if j not in set(constant)])
    remarks = []
    if constant:
        remarks.append(
            f"Constant columns cannot help and get weight 0: {_listed(constant, names)}. Remove them to silence this."
        )
    if copies:
        remarks.append(
            "Some columns repeat others, so that importance is divided among the copies arbitrarily: "
            f"{_listed(copies, names)}. Remove them to silence this."
        )
    return remarks


def _glance(x: np.ndarray) -> np.ndarray:
    """A few of many rows: where these differ, the others need not be looked at."""
    return x[:: max(1, len(x) // GLANCE)]


def _constant(x: np.ndarray) -> bool:
    return bool(np.all((x == x[0]) | (np.isnan(x) & np.isnan(x[0]))))


def _copies(X: np.ndarray, columns: Sequence[int]) -> list[int]:
    """Those of these columns that repeat one before them."""
    alike: dict[bytes, list[int]] = {}
    for j in columns:
        alike.setdefault(_glance(X[:, j]).tobytes(), []).append(j)
    first: dict[bytes, int] = {}
    candidates = [j for group in alike.values() if len(group) > 1 for j in group]
    return sorted(j for j in candidates if first.setdefault(X[:, j].tobytes(), j) != j)


def _listed(columns: Sequence[int], names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[j] for j in columns[:most])
    return shown if len(columns) <= most else f"{shown} and {len(columns) - most} more"
