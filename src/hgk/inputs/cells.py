"""The columns of a table as arrays, before anybody has decided what they are.

    floats       numbers, NaN where missing
    texts        dtype object, None where missing; :class:`Meant` where they were given as categories
    datetimes    datetime64 or timedelta64, NaT where missing; :class:`Zoned` where they had zones, in UTC
    others       :class:`Objects`, None where missing

Kinds of columns (:mod:`hgk.inputs.columns`) take these; what no kind takes is refused by one sentence.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from hgk.inputs.dates import DateReading
from hgk.inputs.numerals import Marks, Reading, cut

# How the types of days, times and spans of time begin in pandas and polars.
DATES = ("date", "time", "duration", "period")
TIMES = datetime.date | datetime.time | datetime.timedelta


class Meant(np.ndarray):
    """Texts that were given as categories, and stay categories even where they look like numbers."""


class Zoned(np.ndarray):
    """Times that had a zone, in UTC."""


class Objects(np.ndarray):
    """Cells that are neither numbers, nor texts, nor dates."""


@dataclass(frozen=True)
class Cells:
    """A column that is offered to the kinds of columns when a model is fitted.

    ``reading`` says what its texts are, None where it has none or was given as categories; ``marks`` are those of
    texts which were turned into numbers before the table was given. ``dates`` says whether the texts are dates.
    """

    name: str
    values: np.ndarray
    reading: Reading | None = None
    marks: Marks | None = None
    dates: DateReading | None = None


def is_text(values: np.ndarray) -> bool:
    """Whether these are texts, whatever they stand for."""
    return values.dtype == object and not isinstance(values, Objects)


def is_missing(value: Any) -> bool:
    """None, NaN of any type, and pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def as_float(value: Any, name: str) -> float:
    """A number, or a text of one, as a float; one that is too large for a float is refused."""
    try:
        return float(value)
    except OverflowError as error:
        digits = len(str(abs(int(value)))) if abs(value) < 10**4000 else "thousands of"
        raise ValueError(
            f"Column {name!r} holds a number of {digits} digits, too large for a float; divide it, or leave it out."
        ) from error


def split(X: Any) -> tuple[list[np.ndarray], list[str]]:
    """The columns of a table and their names; an array's columns are x0, x1, ...

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.inputs import split
    >>> split(np.array([["a", 1], ["b", None]], dtype=object))
    ([array(['a', 'b'], dtype=object), array([ 1., nan])], ['x0', 'x1'])
    """
    if hasattr(X, "columns"):
        return [_of_series(X[c], str(c)) for c in X.columns], [str(c) for c in X.columns]
    X = np.asarray(X)
    names = [f"x{j}" for j in range(X.shape[1])]
    if X.dtype.kind == "M":
        return list(X.T), names
    if X.dtype.kind in "OUS":
        return [_of_objects(column, name) for column, name in zip(X.T, names, strict=True)], names
    return [np.asarray(column, dtype=float) for column in X.T], names


def is_mixed(X: Any) -> bool:
    """Whether a table has columns that are not plain numbers."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return not all(re.match(r"u?int\d|float\d|bool", str(kind).lower()) for kind in X.dtypes)
    return isinstance(X, np.ndarray) and X.dtype.kind in "USOM" and X.ndim == 2


def _of_series(column: Any, name: str) -> np.ndarray:
    """A column of a pandas or polars frame."""
    kind = str(column.dtype).lower()
    if kind.startswith(("categor", "enum")):  # whatever they are, numbers too, they were meant as categories
        return _of_categories(column)
    if kind.startswith(("list", "struct", "array", "binary")):
        return _as_objects(column.to_list()).view(Objects)
    zoned = isinstance(getattr(column.dtype, "time_zone", None), str)  # polars gives these in UTC
    if getattr(column.dtype, "tz", None) is not None:
        column, zoned = column.dt.tz_convert(None), True
    values = column.to_numpy()
    if values.dtype.kind in "Mmc":
        return values.view(Zoned) if zoned else values
    if kind.startswith(DATES) or any(word in kind for word in ("object", "str", "utf8")):
        return _of_objects(values, name)
    try:
        values = column.to_numpy(dtype=float, na_value=np.nan) if hasattr(column, "array") else values
        return np.asarray(values, dtype=float).reshape(len(column))
    except (TypeError, ValueError):
        return _of_objects(values, name)


def _of_categories(column: Any) -> np.ndarray:
    # of pandas as objects first: beside missing cells whole numbers would come as floats
    given = column.astype(object) if hasattr(column, "cat") and hasattr(column, "array") else column
    cells = _as_objects(given.to_numpy())
    cells[:] = [int(v) if isinstance(v, float) and v % 1 == 0 else v for v in cells]
    return _texts(cells).view(Meant)


def _of_objects(cells: Any, name: str) -> np.ndarray:
    """Numbers if all of them are, dates if all of them are, else texts, unless there is something else."""
    cells = _as_objects(cells)
    present = [v for v in cells if v is not None]
    if present and all(isinstance(v, Real | Decimal) for v in present):
        return np.array([np.nan if v is None else as_float(v, name) for v in cells], dtype=float)
    if present and all(isinstance(v, datetime.date) for v in present):
        zoned = {getattr(v, "tzinfo", None) is not None for v in present}
        if zoned == {True}:
            return np.array([None if v is None else _in_utc(v) for v in cells], dtype="datetime64[us]").view(Zoned)
        if zoned == {False}:
            return cells.astype("datetime64[us]")
    return _texts(cells) if all(isinstance(v, str | Real | Decimal) for v in present) else cells.view(Objects)


def _as_objects(column: Any) -> np.ndarray:
    """Cells as Python objects, missing ones as None."""
    out = np.empty(len(column), dtype=object)
    out[:] = [None if is_missing(v) else _as_python(v) if isinstance(v, np.generic) else v for v in column]
    return out


def _as_python(value: np.generic) -> Any:
    """Times to the microsecond: of finer ones numpy would give whole numbers."""
    return (value.astype("datetime64[us]") if isinstance(value, np.datetime64) else value).item()


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _texts(cells: np.ndarray) -> np.ndarray:
    """One type per column, so that categories can be sorted and compared."""
    return np.array([None if v is None else str(v) for v in cells], dtype=object)


def refusal(cells: np.ndarray, name: str) -> Exception:
    """What to say about cells that nobody reads."""
    if cells.dtype.kind == "c":
        return ValueError(
            f"Complex data not supported: column {name!r} holds complex numbers; give their real and imaginary parts."
        )
    odd = next((v for v in cells if not isinstance(v, str | Real | Decimal | None)), None)
    kind = cells.dtype if cells.dtype.kind in "Mm" else type(odd).__name__
    if cells.dtype.kind == "M":
        return ValueError(
            f"Column {name!r} holds dates ({kind}) and did not when the model was fitted; give what it held."
        )
    if isinstance(odd, datetime.date):
        return ValueError(
            f"Column {name!r} holds dates with a time zone and others without; give all of them with a zone, or none."
        )
    if cells.dtype.kind == "m" or isinstance(odd, TIMES) or kind == "Period":
        return ValueError(
            f"Column {name!r} holds times of day, durations or periods ({kind}); turn it into numbers, such as hours, "
            "or into dates, or leave it out."
        )
    return TypeError(
        f"Column {name!r} holds {cut(repr(odd))}; a cell's argument must be a string or a number, or a missing value, "
        "so turn it into these."
    )
