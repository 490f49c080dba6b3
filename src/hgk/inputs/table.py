"""From a user's table to numbers the machine likes, and back.

    table  --read-->  numbers, categories as codes, missing cells as NaN
           --merge--> distinct rows and their weights
           --encode-> features, each about [-1, 1]

A numeric column becomes a scaled copy and a rank copy (its weighted distribution function on the training
rows), and the weights choose; the scaled copy bends logarithmically beyond three robust deviations, so
that heavy tails do not squash the bulk. Where asked for it also becomes steps, b_k(x) rising from 0 to 1
between two quantiles: rough nodes on these learn a monotone warp of the column. A categorical column becomes
one indicator per frequent category; rare and unseen ones have none, and a column of nothing but rare ones, such as
an id, carries nothing. A column with missing cells gets an indicator of them; the cells themselves sit at the
column's middle.

Texts that are numbers are read as numbers, by marks found in the whole column (:mod:`hgk.inputs.numerals`).

Equal rows (same x, same y) are merged into one whose weight is their sum, rows of weight 0 are left out,
and the rows are put into lexicographic order. So a whole weight is exactly a number of repetitions, and no
result depends on the order in which the rows came. How often a row was given is kept: folds divide repetitions,
and leave-one-out leaves one of them. Every statistic below is weighted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from hgk.inputs.numerals import EXACT, Marks, Reading, cut, is_date, may_be_number, numbers, reading
from hgk.storable import expect, storable, vector

# Categories with an indicator of their own, per column, by weight.
MOST_CATEGORIES = 30
# Rows that a category needs for an indicator, about one for each of five folds; in small tables a twentieth of the
# rows, since there a few rows may be all that is known.
FEWEST_ROWS, SMALL_SHARE = 5, 1 / 20
# An id: more different texts than this share of its rows, in a table of at least so many.
ID_SHARE, ID_ROWS = 0.9, 10
# A code that no cell has.
NOWHERE = -2.0
# Knots that a rank copy keeps of its column's distribution function.
KNOTS = 512
# The largest number that a kernel takes as it is: squares of it, times weights, must be numbers.
LARGEST = 1e100
# Steps of all columns together, and of one column.
ALL_STEPS, MOST_STEPS = 96, 16


@storable
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


class Meant(np.ndarray):
    """Cells of a column that was given as categories, which stay categories even where they look like numbers."""


@storable
@dataclass(frozen=True)
class Reader:
    """Columns of a table as numbers; ``levels[j]`` are the categories of column j, None where it is numeric.

    ``marks[j]`` say how the texts of a numeric column write numbers, None where it had no texts; there are none at all
    in a reader of an older version.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str | bool | int | float, ...] | None, ...]
    marks: tuple[Marks | None, ...] = ()

    @classmethod
    def of(
        cls, columns: Sequence[np.ndarray], names: Sequence[str], marks: Mapping[str, Marks] | None = None
    ) -> Reader:
        """Numeric columns are float arrays, others object arrays of texts with None for missing cells.

        ``marks`` are those of columns that were read as numbers before, by name.
        """
        return read(columns, names, marks)[0]

    def __call__(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Numbers, or codes 0, 1, ... of categories; NaN for missing cells, -1 for unseen categories."""
        marks = self.marks or (None,) * len(self.names)
        parts = zip(columns, self.names, self.levels, marks, strict=True)
        return np.column_stack([self._column(*part) for part in parts])

    def _column(self, column: np.ndarray, name: str, levels: tuple[Any, ...] | None, marks: Marks | None) -> np.ndarray:
        if levels is None:
            return (
                column if column.dtype != object else _finite(_numbers_of_texts(column, name, marks or Marks()), name)
            )
        code = {level: float(i) for i, level in enumerate(levels)}
        if column.dtype != object:
            return np.array([np.nan if v != v else _code_of_number(v, code) for v in column.tolist()], dtype=float)
        return np.array([np.nan if v is None else code.get(v, -1.0) for v in column], dtype=float)


def _finite(column: np.ndarray, name: str) -> np.ndarray:
    if np.isinf(column).any():
        raise ValueError(
            f"Column {name!r} contains a text of infinity or of a number too large for float64; replace it by a number "
            "or a missing value."
        )
    return column


def read(
    columns: Sequence[np.ndarray], names: Sequence[str], marks: Mapping[str, Marks] | None = None
) -> tuple[Reader, list[str]]:
    """The reader of these columns, and a sentence for each that may not have been meant as it is taken."""
    found = readings([c if c.dtype == object and not isinstance(c, Meant) else None for c in columns])
    for name, r in zip(names, found, strict=True):
        if r is not None and r.unclear:
            raise ValueError(r.question(f"Column {name!r}", how_to_convert(r)))
    known = [(marks or {}).get(name) if r is None else r.marks for name, r in zip(names, found, strict=True)]
    levels = [
        None if column.dtype != object or (r is not None and r.marks is not None) else _levels(column)
        for column, r in zip(columns, found, strict=True)
    ]
    remarks = [r.remark(name) or text_remark(name, c) for c, name, r in zip(columns, names, found, strict=True) if r]
    remarks += [merged_remark(name) for name, r in zip(names, found, strict=True) if r and r.merged]
    remarks += counting_remarks(columns, names)
    return Reader(tuple(names), tuple(levels), tuple(known)), [remark for remark in remarks if remark]


def how_to_convert(r: Reading) -> str:
    """How to say what a mark means that may mean two things."""
    if "','" in r.unclear:
        return (
            "convert it to float, after .str.replace(',', '') where commas mark thousands, or .str.replace(',', '.') "
            "where they mark decimals"
        )
    return "convert it to float, after .str.replace('.', '') where dots mark thousands"


def readings(columns: Sequence[Any], decimal: str = "") -> list[Reading | None]:
    """What columns of texts are, None for None; a decimal mark that some columns prove serves the unclear ones."""
    found = [None if cells is None else reading(list(cells), decimal) for cells in columns]
    proven = {r.proven for r in found if r is not None and r.proven}
    if not decimal and len(proven) == 1:
        (mark,) = proven
        for j, r in enumerate(found):
            if r is not None and not r.proven and (r.unclear or r.marks is not None):
                found[j] = reading(list(columns[j]), mark)
    return found


def _levels(column: np.ndarray) -> tuple[Any, ...]:
    return tuple(sorted({v for v in column if v is not None}, key=_level_key))


def _level_key(level: Any) -> tuple[str, Any]:
    return type(level).__name__, level


def _numbers_of_texts(column: np.ndarray, name: str, marks: Marks) -> np.ndarray:
    """Texts that are numbers, in a column that was numeric when the model was fitted."""
    values, bad = numbers(column.tolist(), marks)
    if bad:
        # a decimal comma is odd only if nothing else is: one stray text makes texts of a table's whole column
        row = next((i for i in bad if not may_be_number(column[i])), bad[0])
        how = f" ({marks.words})" if marks.words else ""
        raise ValueError(
            f"Column {name!r} holds text such as {cut(repr(column[row]))} (row {row}, counted from 0) but was numeric "
            f"when the model was fitted{how}; give numbers in it."
        )
    return values


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
    """The columns of a pandas or polars frame: float arrays, or object arrays of texts."""
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
        # of pandas as objects first: beside missing cells whole numbers would come as floats
        given = column.astype(object) if hasattr(column, "cat") and hasattr(column, "array") else column
        cells = _as_objects(np.asarray(given.to_numpy(), dtype=object))
        cells[:] = [int(v) if isinstance(v, float) and v % 1 == 0 else v for v in cells]
        return _texts(cells).view(Meant)
    if kind.startswith(("list", "struct", "array", "binary")):
        raise _no_cells(name, f"is of type {cut(str(column.dtype))}")
    if any(word in kind for word in ("object", "str", "utf8")):
        return _object_column(np.asarray(column.to_numpy(), dtype=object), name)
    if kind in ("bool", "boolean"):
        return _object_to_float(np.asarray(column.to_numpy(), dtype=object), name)
    try:
        values = column.to_numpy(dtype=float, na_value=np.nan) if hasattr(column, "array") else column.to_numpy()
        return np.asarray(values, dtype=float).reshape(len(column))
    except (TypeError, ValueError) as error:
        raise _no_cells(name, f"is of type {cut(str(column.dtype))}") from error


def _object_column(cells: np.ndarray, name: str) -> np.ndarray:
    """An object column is numeric if all its cells are numbers, else texts."""
    cells = _as_objects(cells)
    present = [v for v in cells if v is not None]
    if present and all(isinstance(v, Real | Decimal) for v in present):
        return _object_to_float(cells, name)
    odd = next((v for v in present if not isinstance(v, str | Real | Decimal)), None)
    if odd is not None:
        raise _no_cells(name, f"holds {cut(repr(odd))}")
    return _texts(cells)


def _no_cells(name: str, what: str) -> TypeError:
    return TypeError(
        f"Column {name!r} {what}; a cell's argument must be a string or a number, or a missing value, so turn it into "
        "these."
    )


def _texts(cells: np.ndarray) -> np.ndarray:
    """One type per column, so that categories can be sorted and compared."""
    return np.array([None if v is None else str(v) for v in cells], dtype=object)


def _object_to_float(cells: np.ndarray, name: str) -> np.ndarray:
    return np.array([np.nan if is_missing(v) else as_float(v, name) for v in cells], dtype=float)


@storable
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


@storable
@dataclass(frozen=True)
class Feature:
    """One feature: the column it comes from, its name, and what it is a copy of."""

    column: int
    name: str
    kind: str  # "scaled", "rank", "step", "category" or "missing"


@storable
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
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        """Every column makes as many features as it has names."""
        known = all(isinstance(column, Numeric | Category | Unchanged) for column in parts["columns"])
        expect(known, "a column is of an unknown kind")
        expected = tuple(Feature(j, name, kind) for j, c in enumerate(parts["columns"]) for name, kind in c.names)
        expect(parts.get("features", ()) == expected, "the features are not those of the columns")

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


@storable
@dataclass(frozen=True)
class Unchanged:
    """A column as it is."""

    names: tuple[tuple[str, str], ...]

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(len(parts["names"]) == 1, "a column makes another number of features than it names")

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


@storable
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
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        knots, heights, steps = (parts[name] for name in ("knots", "heights", "steps"))
        expect(all(map(vector, (knots, heights, steps))), "a column's knots are not a list of finite numbers")
        rising = bool((np.diff(knots) > 0).all() and (np.diff(steps) > 0).all())
        expect(len(knots) == len(heights) > 0 and rising, "a column's knots do not rise")
        expect(parts["half"] >= 0, "a column's width is negative")
        width = 1 + parts["ranks"] + max(0, len(steps) - 1) + parts["missing"]
        expect(len(parts["names"]) == width, "a column makes another number of features than it names")

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


@storable
@dataclass(frozen=True)
class Category:
    """An indicator, ±½, per frequent category; two categories need only one.

    ``kind`` is "id" where nearly every row has a category of its own, "rare" where none is frequent: then there is a
    single feature, which is the same for all rows.
    """

    names: tuple[tuple[str, str], ...]
    codes: np.ndarray
    missing: bool
    kind: str = "categories"

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(vector(parts["codes"]), "a column's codes are not a list of finite numbers")
        width = len(parts["codes"]) + parts["missing"]
        expect(len(parts["names"]) == width > 0, "a column makes another number of features than it names")
        expect(parts.get("kind", "categories") in ("categories", "id", "rare"), "a column is of an unknown kind")

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray, name: str, levels: tuple[Any, ...]) -> Category:
        present = ~np.isnan(x)
        mass = np.bincount(x[present].astype(int), weights=weight[present], minlength=max(1, len(levels)))
        frequent = np.argsort(-mass, kind="stable")[:MOST_CATEGORIES]
        codes, kind = frequent[1:] if len(levels) == 2 and present.all() else frequent, "categories"
        if len(levels) > 1:
            rows = max(weight.sum(), len(x))  # weights below 1 on average say how much, not how many
            mass = mass * (rows / weight.sum())
            least = fewest_rows(rows)
            # a category that nearly all rows have tells them from a rare one, which is as little
            codes = codes[(mass[codes] >= least) & (rows - mass[codes] >= least)]
            is_id = mass.sum() >= ID_ROWS and (mass > 0).sum() > ID_SHARE * mass.sum()
            kind = "id" if is_id else kind if len(codes) else "rare"
        codes = np.sort(codes).astype(float) if kind == "categories" else np.array([NOWHERE])
        names = [(f"{name}={levels[int(c)] if len(levels) else 'missing'}", "category") for c in codes if c >= 0]
        names = names or [(f"{name} ({kind})", "category")]
        missing = bool((~present).any())
        names += [(f"{name} missing", "missing")] if missing else []
        return cls(tuple(names), codes, missing, kind)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = [np.where(x == code, 0.5, -0.5) for code in self.codes]
        out += [np.where(np.isnan(x), 0.5, -0.5)] if self.missing else []
        return np.column_stack(out)


def fewest_rows(rows: float) -> float:
    """How many rows a category needs for an indicator, in a table of so many."""
    return min(FEWEST_ROWS, SMALL_SHARE * rows)


# ---------------------------------------------------------------------------------------------- remarks


def text_remark(name: str, cells: np.ndarray) -> str:
    """A sentence on texts that are dates, "" if they are not."""
    present = [cell for cell in cells if cell is not None]
    dates = {cell for cell in set(present) if is_date(cell)}
    if 2 * sum(cell in dates for cell in present) <= len(present):
        return ""
    such = next(cell for cell in present if cell in dates)
    return (
        f"Column {name!r} looks like dates, such as {such!r}, and is taken as text, so that their order is lost; turn "
        "it into numbers, such as days since a date, or leave it out."
    )


def id_remark(name: str, levels: int) -> str:
    return (
        f"Column {name!r} has {levels} different texts, nearly one for each row, and is taken for an id, which carries "
        "nothing; leave it out, or turn it into something that rows share."
    )


def rare_remark(name: str, levels: int, least: float) -> str:
    return (
        f"Column {name!r} has {levels} different texts, too rare to learn from (an indicator needs "
        f"{np.ceil(least):.0f} rows with a text and as many without), and carries nothing; leave it out, or join some "
        "of them."
    )


def merged_remark(name: str) -> str:
    return (
        f"Column {name!r} holds whole numbers beyond 2^53 that differ and become the same float; leave it out, or give "
        "it as categories."
    )


def encoder_remarks(encoder: Encoder, reader: Reader, weight: np.ndarray) -> list[str]:
    """A sentence for each column of categories that carries nothing."""
    least = fewest_rows(max(weight.sum(), len(weight)))
    found = []
    for name, levels, column in zip(reader.names, reader.levels, encoder.columns, strict=True):
        if isinstance(column, Category) and levels is not None and column.kind != "categories":
            is_id = column.kind == "id"
            found.append(id_remark(name, len(levels)) if is_id else rare_remark(name, len(levels), least))
    return found


def percent_remarks(columns: Sequence[np.ndarray], reader: Reader) -> list[str]:
    """A sentence for each column that was fitted on texts such as 88% and may now hold shares such as .88."""
    marks = reader.marks or (None,) * len(columns)
    shares = [
        name
        for column, name, m in zip(columns, reader.names, marks, strict=True)
        if m is not None and m.percent and column.dtype != object and np.nanmax(np.abs(column), initial=0) <= 1
    ]
    return [
        f"Column {name!r} was fitted on percents, 88 for 88%, and holds numbers up to 1; if they are shares, multiply "
        "them by 100."
        for name in shares
    ]


def counting_remarks(columns: Sequence[np.ndarray], names: Sequence[str]) -> list[str]:
    """A sentence for each column that counts the rows, such as the index that a CSV was written with."""
    if len(columns) < 2:  # it is all there is
        return []
    counting = [name for column, name in zip(columns, names, strict=True) if _counts(column, name)]
    return [
        f"Column {name!r} counts the rows; leave it out, unless their order means something that new rows have, too."
        for name in counting
    ]


def _counts(column: np.ndarray, name: str) -> bool:
    if column.dtype == object or len(column) < ID_ROWS:
        return False
    if re.fullmatch(r"Unnamed: \d+", name):  # what pandas calls the column of an index; rows may have been left out
        return bool((np.diff(column) >= 1).all() and (column % 1 == 0).all())
    return column[0] in (0, 1) and bool((np.diff(column) == 1).all())


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
        large = cells[(cells >= EXACT) | (cells <= -EXACT)] if kind[0] == "i" else cells[cells >= EXACT]
    elif kind.startswith("object"):
        large = np.array([v for v in column if isinstance(v, int) and abs(v) >= EXACT], dtype=object)
    else:
        return False
    distinct = set(large.tolist())
    return len(distinct) > len({float(v) if abs(v) < 2**1000 else v for v in distinct})


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


# ----------------------------------------------------------------------------------------- what became of a column


def taken_for(inputs: Inputs) -> list[dict[str, Any]]:
    """For each column: its name, what it was taken for in words, and the same as values."""
    reader, marks = inputs.reader, inputs.reader.marks or (None,) * len(inputs.reader.names)
    columns = zip(reader.names, reader.levels, marks, inputs.encoder.columns, strict=True)
    return [{"column": name} | _taken_for(levels, m, column) for name, levels, m, column in columns]


def _taken_for(levels: tuple[Any, ...] | None, marks: Marks | None, column: Any) -> dict[str, Any]:
    missing = bool(getattr(column, "missing", False))
    found: dict[str, Any] = {"kind": "number", "missing": missing}
    if levels is None:
        words = "number" if marks is None else f"number read from texts{marks.words and f' ({marks.words})'}"
        found |= {} if marks is None else {"marks": asdict(marks)}
    else:
        kind = getattr(column, "kind", "categories")
        indicators = int((column.codes >= 0).sum()) if isinstance(column, Category) else 0
        found |= {"kind": "id" if kind == "id" else "category", "levels": len(levels), "indicators": indicators}
        words = f"id with {len(levels)} texts" if kind == "id" else f"category with {len(levels)} levels"
        words += ", all too rare to count" if kind == "rare" else ""
        frequent = len(levels) if len(levels) <= 2 else indicators
        words += f", {indicators} of them frequent" if kind == "categories" and frequent < len(levels) else ""
    return found | {"words": words + (", missing cells marked" if missing else "")}
