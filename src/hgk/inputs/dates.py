"""Dates as people write them: 2024-01-31, 31.1.2024, 1/31/24, 31 Jan 2024, with or without a time and a zone.

    texts of a column  --date_reading-->  which of day and month comes first, or a question, or no dates
    texts and that     --moments------->  seconds since 1970, NaN for missing cells

A column is read as a whole. A year of four digits may come first; then the month follows. Otherwise a day beyond 12 in
some cell decides which number is the day, and with dots the day comes first; where neither helps (01/02/2024), other
columns decide, or the user is asked. Names of months are English. Two digits of a year are 1969 to 2068. Times with a
zone are counted in UTC, and a column has them in all of its cells or in none.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from hgk.inputs.numerals import STRAY, cut, stands_for_nothing
from hgk.storable import expect, storable

DATE_ORDERS = {"dmy": "the day first", "mdy": "the month first"}
# Years of two digits from this one on are of the last century.
LAST_CENTURY = 69
# A month of another year than these is the number of something else.
YEARS_OF_MONTHS = range(1700, 2200)
EPOCH = datetime.datetime(1970, 1, 1)
# Different cells of which half must be dates before the others are looked at.
FIRST_CELLS = 200
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_MONTH = r"(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.?"
_TIME = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?\s?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?"
)
_FORMS = [
    re.compile(form + _TIME, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?:(?P=mark)(?P<day>\d{1,2}))?",
        r"(?P<one>\d{1,2})(?P<mark>[-/.])(?P<two>\d{1,2})(?P=mark)(?P<year>\d{4}|\d\d)",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-. ]+{_MONTH}[-, ]+(?P<year>\d{{4}}|\d\d)",
        rf"{_MONTH}[- ]+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?[- ]+(?P<year>\d{{4}})",
    )
]


@storable
@dataclass(frozen=True)
class DateForm:
    """How the texts of a column write dates: which of day and month comes first, "" where no cell needs it."""

    order: str = ""

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(parts.get("order", "") in ("", *DATE_ORDERS), "a column's dates are of an unknown order")


@dataclass(frozen=True)
class DateReading:
    """What the texts of a column are: dates where there is a ``form``; where it is ``unclear``, the user is asked."""

    form: DateForm | None = None
    such: str = ""  # a typical cell
    zoned: bool = False
    proven: str = ""  # the order, where a cell proves it
    borrowed: bool = False  # whether other columns decided on the order
    unclear: bool = False
    stray: str = ""  # why a column of dates is none
    lacking: tuple[str, int] | None = None  # a placeholder for missing cells, and how many there are

    @property
    def dates(self) -> bool:
        return self.form is not None or self.unclear

    def remark(self, name: str) -> str:
        """A sentence on what was done with the column, "" if nothing that needs one."""
        if self.stray:
            return f"Column {name!r} looks like dates, and is taken as categories, since {self.stray}; correct that."
        if self.form is None or not (self.form.order or self.lacking):
            return ""
        said = f"Column {name!r} is read as dates from texts such as {cut(repr(self.such))}"
        if self.form.order:
            said += f", with {DATE_ORDERS[self.form.order]}" + (", as in other columns" if self.borrowed else "")
        if self.lacking is not None:
            cell, count = self.lacking
            said += f"; {count} {'cell' if count == 1 else 'cells'} such as {cell!r} counted as missing"
        return f"{said}."

    def question(self, name: str, answer: str) -> str:
        """A sentence that asks which number is the day; ``answer`` is how to say it."""
        return f"{name} holds dates such as {cut(repr(self.such))}, of which day or month may come first; {answer}."


def date_reading(cells: Sequence[str | None], order: str = "") -> DateReading:
    """What the texts of a column are; ``order`` is taken where the cells leave it open.

    Examples
    --------
    >>> from hgk.inputs.dates import date_reading
    >>> date_reading(["2024-01-31", None]).form
    DateForm(order='')
    >>> date_reading(["01/02/2024", "13/02/2024"]).form
    DateForm(order='dmy')
    >>> date_reading(["01/02/2024"]).unclear, date_reading(["1.2.3"]).dates
    (True, False)
    """
    every = Counter(cell for cell in cells if cell is not None)
    count = {cell: n for cell, n in every.items() if not stands_for_nothing(cell)}
    first = list(islice(count, FIRST_CELLS))
    if len(first) == FIRST_CELLS and 2 * sum(_parts(cell) is not None for cell in first) <= FIRST_CELLS:
        return DateReading()
    found = {cell: parts for cell in count if (parts := _parts(cell)) is not None}
    rows, dated = sum(count.values()), sum(count[cell] for cell in found)
    if not found or dated <= (1 - STRAY) * rows:
        return DateReading()
    if len(found) < len(count):
        odd = next(cell for cell in count if cell not in found)
        return DateReading(stray=f"it holds {cut(repr(odd))} among {dated} dates")
    zones = {parts["zone"] is not None for parts in found.values()}
    if len(zones) > 1:
        return DateReading(stray="some of its times have a zone and others not")
    told = _ordered(found, order)
    if told.dates:
        known = told.form.order if told.form is not None else "dmy"  # where it is open, either is a day
        wrong = [cell for cell in found if _moment(found[cell], known) is None]
        if wrong:  # such as February 30
            return DateReading(stray=f"there is no day or time {cut(repr(wrong[0]))}")
    lacking = {cell: n for cell, n in every.items() if cell not in count}
    most = max(lacking, key=lacking.__getitem__) if lacking else None
    told = replace(told, lacking=None if most is None else (most, sum(lacking.values())))
    return replace(told, zoned=True in zones) if told.dates else told


def _ordered(found: Mapping[str, Mapping[str, Any]], order: str) -> DateReading:
    """Which number is the day, in the cells that have two of two digits."""
    open_cells = {cell: (int(p["one"]), int(p["two"])) for cell, p in found.items() if p.get("one") is not None}
    if not open_cells:
        return DateReading(DateForm(), next(iter(found)))
    if _like_versions([found[cell] for cell in open_cells]):
        return DateReading()
    such = next(iter(open_cells))
    days_first, months_first = ([c for c, pair in open_cells.items() if pair[k] > 12] for k in (0, 1))
    if days_first and months_first:
        return DateReading(stray=f"{days_first[0]!r} has the day first and {months_first[0]!r} the month")
    if days_first or months_first:
        proven = "dmy" if days_first else "mdy"
        return DateReading(DateForm(proven), (days_first or months_first)[0], proven=proven)
    if all(found[cell]["mark"] == "." for cell in open_cells):
        return DateReading(DateForm("dmy"), such)
    return DateReading(DateForm(order), such, borrowed=True) if order else DateReading(such=such, unclear=True)


def _like_versions(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether three short numbers between dots may count versions: no leading 0 and no first number above 12."""
    dotted = all(p["mark"] == "." and len(p["year"]) == 2 for p in parts)
    padded = any(number.startswith("0") for p in parts for number in (p["one"], p["two"], p["year"]))
    return dotted and not padded and all(int(p["one"]) <= 12 for p in parts)


def date_readings(columns: Sequence[Any], orders: Sequence[str] = ()) -> list[DateReading | None]:
    """What columns of texts are, None for None; an order that some columns prove serves the unclear ones.

    ``orders`` are those that were said of the columns, "" where none was.
    """
    said = list(orders) or [""] * len(columns)
    first = [None if c is None else date_reading(list(c), order) for c, order in zip(columns, said, strict=True)]
    proven = {r.proven for r in first if r is not None and r.proven}
    if len(proven) != 1:
        return first
    (order,) = proven
    return [date_reading(list(c), order) if r and r.unclear else r for c, r in zip(columns, first, strict=True)]


def moments(cells: Sequence[str | None], form: DateForm, zoned: bool) -> tuple[np.ndarray, list[int]]:
    """Seconds since 1970, NaN for missing cells; and the rows of cells that are no such dates.

    Examples
    --------
    >>> from hgk.inputs.dates import DateForm, moments
    >>> moments(["2/1/1970", "1970-01-01 12:00", None, "soon"], DateForm("dmy"), False)
    (array([86400., 43200.,    nan,    nan]), [3])
    """
    known: dict[str, float | None] = {}
    values, bad = np.full(len(cells), np.nan), []
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        if cell not in known:
            parts = None if stands_for_nothing(cell) else _parts(cell)
            fits = parts is not None and (parts["zone"] is not None) == zoned
            known[cell] = _moment(parts, form.order) if parts is not None and fits else None
        moment = known[cell]
        if moment is not None:
            values[row] = moment
        elif not stands_for_nothing(cell):
            bad.append(row)
    return values, bad


def seconds_of(times: np.ndarray) -> np.ndarray:
    """Seconds since 1970 of numpy's times, to the microsecond; NaN for NaT."""
    whole = times.astype("datetime64[us]")
    return np.where(np.isnat(whole), np.nan, whole.astype(np.int64) / 1e6)


def _parts(cell: str) -> dict[str, Any] | None:
    text = cell.strip()
    match = next((match for form in _FORMS if (match := form.fullmatch(text))), None)
    if match is None:
        return None
    parts = match.groupdict()
    if parts.get("one") is not None and not 1 <= min(int(parts["one"]), int(parts["two"])) <= 12:
        return None
    if "name" not in parts and "one" not in parts and not parts["day"] and int(parts["year"]) not in YEARS_OF_MONTHS:
        return None  # the number of a part, such as 4711-11
    return parts


def _moment(parts: Mapping[str, Any], order: str) -> float | None:
    """Seconds since 1970, None where there is no such day or time, or its order is not known."""
    if parts.get("one") is not None:
        if not order:
            return None
        day, month = (parts["one"], parts["two"]) if order == "dmy" else (parts["two"], parts["one"])
    else:
        name = parts.get("name")
        day, month = parts["day"] or "1", MONTHS.index(name[:3].lower()) + 1 if name else parts["month"]
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        year += 1900 if year >= LAST_CENTURY else 2000
    hour = int(parts["hour"] or 0)
    if parts["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if parts["half"] in "Pp" else 0)
    micro = int((parts["part"] or "0").ljust(6, "0")[:6])
    clock = hour, int(parts["minute"] or 0), int(parts["second"] or 0)
    try:
        moment = datetime.datetime(year, int(month), int(day), *clock, micro) - _offset(parts["zone"])
    except (ValueError, OverflowError):
        return None
    return (moment - EPOCH) // datetime.timedelta(microseconds=1) / 1e6


def _offset(zone: str | None) -> datetime.timedelta:
    if zone is None or zone[0] not in "+-":
        return datetime.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:])
    return datetime.timedelta(minutes=minutes if zone[0] == "+" else -minutes)
