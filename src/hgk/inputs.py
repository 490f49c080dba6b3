"""From a user's table to numbers the machine likes, and back.

    table  --read-->  numbers, categories as codes, missing cells as NaN
           --merge--> distinct rows and their weights
           --encode-> features, each about [-1, 1]

A numeric column becomes a scaled copy and a rank copy (its weighted distribution function on the training
rows), and the weights choose; the scaled copy bends logarithmically beyond three robust deviations, so
that heavy tails do not squash the bulk. Where asked for it also becomes steps, b_k(x) rising from 0 to 1
between two quantiles: rough nodes on these learn a monotone warp of the column. A categorical column becomes
one indicator per frequent category; rare and unseen ones have none. A column with missing cells gets an
indicator of them; the cells themselves sit at the column's middle.

Equal rows (same x, same y) are merged into one whose weight is their sum, rows of weight 0 are left out,
and the rows are put into lexicographic order. So a whole weight is exactly a number of repetitions, and no
result depends on the order in which the rows came. How often a row was given is kept: folds divide repetitions,
and leave-one-out leaves one of them. Every statistic below is weighted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

# Categories with an indicator of their own, per column, by weight.
MOST_CATEGORIES = 30
# Knots that a rank copy keeps of its column's distribution function.
KNOTS = 512
# The largest number that a kernel takes as it is: squares of it, times weights, must be numbers.
LARGEST = 1e100
# Steps of all columns together, and of one column.
ALL_STEPS, MOST_STEPS = 96, 16


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
        """Finite u become finite x, infinite ones stay so, also where the column was constant."""
        most = np.finfo(float).max
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isinf(u), u, np.clip(u * self.half + self.middle, -most, most))


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
    """Merge equal rows; ``y`` is (n, k). Missing cells equal each other. Without ``count`` each was given once."""
    kept = np.flatnonzero(weight > 0)
    table = np.column_stack([X[kept], y[kept]])
    # NaN is not equal to itself; infinity cannot occur in checked data, and takes its place
    distinct, place = np.unique(np.where(np.isnan(table), np.inf, table), axis=0, return_inverse=True)
    distinct = np.where(np.isinf(distinct), np.nan, distinct)
    everywhere = np.full(len(X), -1)
    everywhere[kept] = place.reshape(-1)
    d = X.shape[1]
    total, times = (
        np.bincount(place.reshape(-1), weights=values, minlength=len(distinct))
        for values in (weight[kept], None if count is None else count[kept])
    )
    return Merged(distinct[:, :d].copy(), distinct[:, d:].copy(), total, times.astype(float), everywhere)


# ---------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Reader:
    """Columns of a table as numbers; ``levels[j]`` are the categories of column j, None where it is numeric."""

    names: tuple[str, ...]
    levels: tuple[tuple[Any, ...] | None, ...]

    @classmethod
    def of(cls, columns: Sequence[np.ndarray], names: Sequence[str]) -> Reader:
        """Numeric columns are float arrays, categorical ones object arrays with None for missing cells."""
        levels = [
            None if column.dtype != object else tuple(sorted({v for v in column if v is not None}, key=_level_key))
            for column in columns
        ]
        return cls(tuple(names), tuple(levels))

    def __call__(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Numbers, or codes 0, 1, ... of categories; NaN for missing cells, -1 for unseen categories."""
        return np.column_stack(
            [self._column(c, name, levels) for c, name, levels in zip(columns, self.names, self.levels, strict=True)]
        )

    def _column(self, column: np.ndarray, name: str, levels: tuple[Any, ...] | None) -> np.ndarray:
        if levels is None:
            return column if column.dtype != object else _numbers_of_texts(column, name)
        code = {level: float(i) for i, level in enumerate(levels)}
        if column.dtype != object:
            return np.array([np.nan if v != v else _code_of_number(v, code) for v in column.tolist()], dtype=float)
        return np.array([np.nan if v is None else code.get(v, -1.0) for v in column], dtype=float)


def _level_key(level: Any) -> tuple[str, Any]:
    return type(level).__name__, level


def _numbers_of_texts(column: np.ndarray, name: str) -> np.ndarray:
    """Texts that are numbers, in a column that was numeric when the model was fitted."""
    try:
        return np.array([np.nan if cell is None else float(cell) for cell in column], dtype=float)
    except ValueError as error:
        # a decimal comma is odd only if nothing else is: one stray text makes texts of a table's whole column
        odd = [i for i, cell in enumerate(column) if not (cell is None or _is_number(cell))]
        bad = next((i for i in odd if not _is_number(str(column[i]).replace(",", ".", 1))), odd[0])
        raise ValueError(
            f"Column {name!r} holds text such as {column[bad]!r} (row {bad}, counted from 0) but was numeric when the "
            "model was fitted; give numbers in it."
        ) from error


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _code_of_number(value: float, code: dict[Any, float]) -> float:
    """Of a number where texts were learned: 7 is found as "7", as "7.0" or, if there is no such text, as a truth."""
    names = [str(value)] + ([str(int(value)), {0.0: "False", 1.0: "True"}.get(value)] if value % 1 == 0 else [])
    return next((code[name] for name in names if name in code), -1.0)


def is_missing(value: Any) -> bool:
    """None, NaN of any type, and pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def _as_objects(column: np.ndarray) -> np.ndarray:
    """Cells as Python objects, missing ones as None."""
    out = np.empty(len(column), dtype=object)
    out[:] = [None if is_missing(v) else v.item() if isinstance(v, np.generic) else v for v in column]
    return out


def as_float(value: Any, name: str) -> float:
    """A number, or a text of one, as a float; one that is too large for a float is refused."""
    try:
        return float(value)
    except OverflowError as error:
        digits = len(str(abs(int(value)))) if abs(value) < 10**4000 else "thousands of"
        raise ValueError(
            f"Column {name!r} holds a number of {digits} digits, too large for a float; divide it, or leave it out."
        ) from error


def columns_of(table: Any) -> tuple[list[np.ndarray], list[str]]:
    """The columns of a pandas or polars frame: float arrays, or object arrays where they are categorical."""
    names = [str(c) for c in table.columns]
    return [_read_column(table[c], str(c)) for c in table.columns], names


def _read_column(column: Any, name: str) -> np.ndarray:
    kind = str(column.dtype).lower()
    if kind.startswith(("datetime", "date", "time", "duration", "period")):
        raise ValueError(
            f"Column {name!r} holds dates ({column.dtype}); turn it into numbers, such as a year, a day of the week or "
            "days since an event, or leave it out."
        )
    if kind.startswith("complex"):
        raise ValueError(
            f"Complex data not supported: column {name!r} holds complex numbers; give their real and imaginary parts."
        )
    if kind.startswith(("categor", "enum")):  # whatever they are, numbers too, they were meant as categories
        cells = _as_objects(np.asarray(column.to_numpy(), dtype=object))
        # whole numbers come as floats where cells are missing
        return _texts(np.array([int(v) if isinstance(v, float) and v % 1 == 0 else v for v in cells], dtype=object))
    if kind.startswith(("list", "struct", "array", "binary")):
        raise _no_cells(name, f"is of type {_cut(str(column.dtype))}")
    if any(word in kind for word in ("object", "str", "utf8")):
        return _object_column(np.asarray(column.to_numpy(), dtype=object), name)
    if kind in ("bool", "boolean"):
        return _object_to_float(np.asarray(column.to_numpy(), dtype=object), name)
    try:
        values = column.to_numpy(dtype=float, na_value=np.nan) if hasattr(column, "array") else column.to_numpy()
        return np.asarray(values, dtype=float).reshape(len(column))
    except (TypeError, ValueError) as error:
        raise _no_cells(name, f"is of type {_cut(str(column.dtype))}") from error


def _object_column(cells: np.ndarray, name: str) -> np.ndarray:
    """An object column is numeric if all its cells are numbers, else categorical."""
    cells = _as_objects(cells)
    present = [v for v in cells if v is not None]
    if present and all(isinstance(v, Real | Decimal) for v in present):
        return _object_to_float(cells, name)
    odd = next((v for v in present if not isinstance(v, str | Real | Decimal)), None)
    if odd is not None:
        raise _no_cells(name, f"holds {_cut(repr(odd))}")
    return _texts(cells)


def _no_cells(name: str, what: str) -> TypeError:
    return TypeError(
        f"Column {name!r} {what}; a cell's argument must be a string or a number, or a missing value, so turn it into "
        "these."
    )


def _texts(cells: np.ndarray) -> np.ndarray:
    """One type per column, so that categories can be sorted and compared."""
    return np.array([None if v is None else str(v) for v in cells], dtype=object)


def _cut(text: str, most: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _object_to_float(cells: np.ndarray, name: str) -> np.ndarray:
    return np.array([np.nan if is_missing(v) else as_float(v, name) for v in cells], dtype=float)


@dataclass(frozen=True)
class Inputs:
    """The way from a table to features, as a function."""

    reader: Reader
    encoder: Encoder

    def __call__(self, X: Any) -> np.ndarray:
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != len(self.reader.names):
            raise ValueError(
                f"A table of shape {shape} was given; rows with the {len(self.reader.names)} columns that the kernel "
                "was learned on are expected, so give these."
            )
        table = self.reader(split(X)[0])
        if np.isinf(table).any():
            raise ValueError("The rows given to a kernel contain infinity; replace it by a number or a missing value.")
        return self.encoder(table)


def split(X: Any) -> tuple[list[np.ndarray], list[str]]:
    """The columns of a table and their names; an array's columns are x0, x1, ..."""
    if hasattr(X, "columns"):
        return columns_of(X)
    X = np.asarray(X)
    names = [f"x{j}" for j in range(X.shape[1])]
    if X.dtype.kind in "OUS":
        return [_object_column(column.astype(object), name) for column, name in zip(X.T, names, strict=True)], names
    return [np.asarray(column, dtype=float) for column in X.T], names


def is_mixed(X: Any) -> bool:
    """Whether a table has columns that are not plain numbers."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return not all(re.match(r"u?int\d|float\d|bool", str(kind).lower()) for kind in X.dtypes)
    return isinstance(X, np.ndarray) and X.dtype.kind in "USO" and X.ndim == 2


# --------------------------------------------------------------------------------------------- encoding


@dataclass(frozen=True)
class Feature:
    """One feature: the column it comes from, its name, and what it is a copy of."""

    column: int
    name: str
    kind: str  # "scaled", "rank", "step", "category" or "missing"


@dataclass(frozen=True)
class Encoder:
    """Features of distinct rows; statistics weighted by the rows' weights."""

    columns: tuple[Any, ...]
    features: tuple[Feature, ...] = field(default=())

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        weight: np.ndarray,
        reader: Reader,
        ranks: bool = True,
        robust: bool = True,
        steps: bool = False,
    ) -> Encoder:
        varied = sum(
            levels is None and len(np.unique(x[~np.isnan(x)])) > 2 for levels, x in zip(reader.levels, X.T, strict=True)
        )
        each = min(MOST_STEPS, ALL_STEPS // max(1, varied)) if steps else 0
        columns = tuple(
            Numeric.of(X[:, j], weight, name, ranks, robust, each)
            if levels is None
            else Category.of(X[:, j], weight, name, levels)
            for j, (name, levels) in enumerate(zip(reader.names, reader.levels, strict=True))
        )
        return cls(columns, tuple(Feature(j, name, kind) for j, c in enumerate(columns) for name, kind in c.names))

    @classmethod
    def identity(cls, reader: Reader) -> Encoder:
        """Every column as it is."""
        columns = tuple(Unchanged(((name, "scaled"),)) for name in reader.names)
        return cls(columns, tuple(Feature(j, name, "scaled") for j, name in enumerate(reader.names)))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([c(X[:, j]) for j, c in enumerate(self.columns)])

    @property
    def owner(self) -> np.ndarray:
        """The column of every feature."""
        return np.array([f.column for f in self.features])


@dataclass(frozen=True)
class Unchanged:
    """A column as it is."""

    names: tuple[tuple[str, str], ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if np.isnan(x).any():
            raise ValueError(
                f"Column {self.names[0][0]!r} has missing cells, and the kernel given takes columns as they are; fill "
                "them, or give a kernel that an estimator has learned."
            )
        if np.abs(x).max(initial=0) > LARGEST:
            raise ValueError(
                f"Column {self.names[0][0]!r} holds {x[np.abs(x).argmax()]:g}, and the kernel given takes columns as "
                f"they are, up to {LARGEST:g}; divide it, or give a kernel that an estimator has learned."
            )
        return x[:, None]


@dataclass(frozen=True)
class Numeric:
    """A scaled copy, a rank copy and steps (if the column has more than two values), an indicator of missing cells."""

    names: tuple[tuple[str, str], ...]
    middle: float
    half: float
    knots: np.ndarray
    heights: np.ndarray
    ranks: bool
    missing: bool
    bend: bool
    steps: np.ndarray  # where they begin and end, one more than there are

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray, name: str, ranks: bool, robust: bool, steps: int = 0) -> Numeric:
        present = ~np.isnan(x)
        values, place = np.unique(x[present], return_inverse=True)
        mass = np.bincount(place, weights=weight[present], minlength=len(values))
        if not len(values):  # nothing but missing cells
            values, mass = np.zeros(1), np.array([1.0])
        if values[-1] / 2 - values[0] / 2 < 1e-300:  # a range without a reciprocal counts as none
            values, mass = values[:1], mass.sum(keepdims=True)
        below = np.cumsum(mass)
        heights = (below - mass / 2) / below[-1]  # the weighted distribution function, at its jumps' middles
        middle, half = _centre(values, mass, heights, robust)
        use_ranks = ranks and len(values) > 2
        ends = np.empty(0)
        if steps > 1 and len(values) > 2:
            # A value that many rows share counts for one step at most, so that the others get theirs.
            capped = np.cumsum(np.minimum(mass, mass.sum() / steps))
            place = np.searchsorted(capped / capped[-1], np.linspace(0, 1, steps + 1) - 1e-12)
            ends = np.unique(values[place.clip(0, len(values) - 1)])
        if len(values) > KNOTS:
            spaced = np.searchsorted(heights, np.linspace(0, 1, KNOTS)).clip(0, len(values) - 1)
            kept = np.array(sorted({0, len(values) - 1, *spaced.tolist()}))
            values, heights = values[kept], heights[kept]
        missing = bool((~present).any())
        names = [(name, "scaled")]
        names += [(f"{name} (rank)", "rank")] if use_ranks else []
        names += [(f"{name} > {low:.3g}", "step") for low in ends[:-1]]
        names += [(f"{name} missing", "missing")] if missing else []
        return cls(tuple(names), middle, half, values, 2 * heights - 1, use_ranks, missing, robust, ends)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        present = ~np.isnan(x)
        filled = np.where(present, x, self.middle)
        with np.errstate(over="ignore"):  # far outside a kernel is 0; its square must not overflow
            u = np.clip((filled - self.middle) / self.half, -1e9, 1e9) if self.half > 0 else np.zeros_like(filled)
        if self.bend:  # beyond three robust deviations (|u| = 1) logarithmic; strictly increasing all the way
            u = np.where(np.abs(u) > 1, np.sign(u) * (1 + np.log(np.maximum(np.abs(u), 1))), u)
        out = [u]
        if self.ranks:
            out.append(np.where(present, np.interp(filled, self.knots, self.heights), 0.0))
        for low, high in pairwise(self.steps):
            out.append(_rise(filled, low, high) - 0.5)
        if self.missing:
            out.append(np.where(present, -0.5, 0.5))
        return np.column_stack(out)


def _rise(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """From 0 at ``low`` to 1 at ``high``; halved, since the difference of two floats need not be one."""
    width = high / 2 - low / 2
    if not width > 0:  # neighbours among the smallest floats
        return (x > low).astype(float)
    with np.errstate(over="ignore"):
        return np.clip((x / 2 - low / 2) / width, 0, 1)


def _centre(values: np.ndarray, mass: np.ndarray, heights: np.ndarray, robust: bool) -> tuple[float, float]:
    """Middle and half width: the whole range if it is short, else three robust deviations about the median."""
    low, high = values[0], values[-1]
    if not robust:
        return low / 2 + high / 2, high / 2 - low / 2
    quartiles = np.interp([0.25, 0.5, 0.75], heights, values)
    share = mass / mass.sum()
    with np.errstate(over="ignore"):  # a deviation beyond the largest float is not a short one
        deviation = (quartiles[2] / 2 - quartiles[0] / 2) * 2 / 1.349
        if deviation <= 0:  # more than half the rows have the same value
            exponent = np.frexp(high / 2 - low / 2)[1]  # squares of what is divided by this are numbers
            apart = np.ldexp(values / 2 - share @ values / 2, -exponent)
            deviation = np.ldexp(np.sqrt(share @ apart**2), exponent + 1)
        if not 3 * deviation < high / 2 - low / 2:
            return low / 2 + high / 2, high / 2 - low / 2
    return float(quartiles[1]), float(3 * deviation)


@dataclass(frozen=True)
class Category:
    """An indicator, ±½, per frequent category; two categories need only one."""

    names: tuple[tuple[str, str], ...]
    codes: np.ndarray
    missing: bool

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray, name: str, levels: tuple[Any, ...]) -> Category:
        present = ~np.isnan(x)
        mass = np.bincount(x[present].astype(int), weights=weight[present], minlength=max(1, len(levels)))
        frequent = np.argsort(-mass, kind="stable")[:MOST_CATEGORIES]
        codes = np.sort(frequent[1:] if len(levels) == 2 and present.all() else frequent)
        names = [(f"{name}={levels[c] if len(levels) else 'missing'}", "category") for c in codes]
        missing = bool((~present).any())
        names += [(f"{name} missing", "missing")] if missing else []
        return cls(tuple(names), codes.astype(float), missing)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = [np.where(x == code, 0.5, -0.5) for code in self.codes]
        out += [np.where(np.isnan(x), 0.5, -0.5)] if self.missing else []
        return np.column_stack(out)


# ---------------------------------------------------------------------------------------------- remarks


def column_remarks(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """One sentence for constant columns and one for pairs of equal columns, if there are any."""
    first: dict[bytes, int] = {}
    constant = [j for j, x in enumerate(X.T) if np.all((x == x[0]) | (np.isnan(x) & np.isnan(x[0])))]
    copies = [j for j in range(X.shape[1]) if first.setdefault(X[:, j].tobytes(), j) != j and j not in set(constant)]
    remarks = []
    if constant:
        remarks.append(
            f"Constant columns cannot help and get weight 0: {_listed(constant, names)}. Remove them to silence this."
        )
    if copies:
        remarks.append(
            f"Columns that repeat others share their relevance with them at will: {_listed(copies, names)}. "
            "Remove them to silence this."
        )
    return remarks


def _listed(columns: Sequence[int], names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[j] for j in columns[:most])
    return shown if len(columns) <= most else f"{shown} and {len(columns) - most} more"
