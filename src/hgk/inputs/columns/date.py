"""A column of dates: time as a number, the season, the day of the week, the hour.

    time       seconds since 1970 as a column of numbers: scaled, rank, steps, an indicator of missing cells
    season     sin and cos of 2π times the share of the year that is over, where months vary
    weekday    ±½ for each day of the week that is frequent enough, where several are
    hour       sin and cos of 2π times the share of the day that is over, where times of day vary

Missing dates are at 0 of the circles and have no day of the week. After the last training date the rank stays where it
is and the scaled copy grows ever more slowly, while season, weekday and hour go on: predictions keep their rhythm and
drift towards the middle of the labels' range; no trend is continued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from hgk.inputs.cells import Cells, Zoned, is_text, refusal
from hgk.inputs.columns.base import Column, ColumnSettings
from hgk.inputs.columns.category import fewest_rows
from hgk.inputs.columns.numeric import Numeric
from hgk.inputs.dates import DATE_ORDERS, DateForm, moments, seconds_of
from hgk.inputs.numerals import cut
from hgk.storable import expect, storable, vector

DAY = 86400.0
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# The share of the training rows' span by which new dates may lie outside without a remark.
OUTSIDE = 0.1


@storable
@dataclass(frozen=True)
class Date(Column):
    """Dates and times. ``form`` says how texts write them, ``zoned`` that they have zones and are counted in UTC."""

    by_cell = True

    time: Numeric
    form: DateForm | None = None
    zoned: bool = False
    season: bool = False
    weekdays: np.ndarray = field(default_factory=lambda: np.empty(0))
    hour: bool = False

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(isinstance(parts["time"], Numeric), "a column of dates has no time")
        expect(isinstance(parts.get("form"), DateForm | None), "the form of a column of dates is unknown")
        days = parts.get("weekdays", np.empty(0))
        expect(vector(days) and bool(np.isin(days, np.arange(7)).all()), "a column has unknown days of the week")

    # ------------------------------------------------------------------------------------------------- reading

    @classmethod
    def takes(cls, cells: Cells) -> bool:
        return cells.values.dtype.kind == "M" or (cells.dates is not None and cells.dates.dates)

    @classmethod
    def of(cls, cells: Cells) -> Date:
        r = cells.dates
        if cells.values.dtype.kind == "M" or r is None:
            return cls(cells.name, Numeric(cells.name), zoned=isinstance(cells.values, Zoned))
        if r.unclear:
            how = "convert it, by pd.to_datetime(..., dayfirst=True) or dayfirst=False"
            raise ValueError(r.question(f"Column {cells.name!r}", how))
        return cls(cells.name, Numeric(cells.name), r.form, r.zoned)

    def read(self, cells: np.ndarray) -> np.ndarray:
        if cells.dtype.kind == "f" and np.isnan(cells).all():
            return cells
        if cells.dtype.kind == "M":
            if isinstance(cells, Zoned) != self.zoned and not np.isnat(cells).all():
                has, had = ("have", "had none") if isinstance(cells, Zoned) else ("have no", "had them")
                raise ValueError(
                    f"The dates in column {self.name!r} {has} time zones and {had} when the model was fitted; give "
                    "them as they were then."
                )
            return seconds_of(cells)
        if cells.dtype.kind == "f":
            raise ValueError(
                f"Column {self.name!r} holds numbers such as {cells[~np.isnan(cells)][0]:.12g} and held dates when the "
                "model was fitted; give dates in it."
            )
        if not is_text(cells):
            raise refusal(cells, self.name)
        return self._of_texts(cells)

    def _of_texts(self, cells: np.ndarray) -> np.ndarray:
        values, bad = moments(cells.tolist(), self.form or DateForm(), self.zoned)
        if bad:
            order = DATE_ORDERS.get((self.form or DateForm()).order, "the year first, such as 2024-01-31")
            zone = ", and a time zone" if self.zoned else ""
            raise ValueError(
                f"Column {self.name!r} holds {cut(repr(cells[bad[0]]))} (row {bad[0]}, counted from 0) and dates are "
                f"expected, with {order}{zone}; give them like this, or leave such cells empty."
            )
        return values

    def shown(self, x: float) -> Any:
        if np.isnan(x):
            return None
        text = str(_times(np.array([x]))[0])
        text = text[:10] if text.endswith("T00:00:00.000000") else text.removesuffix(".000000")
        return text if not self.zoned else f"{text if 'T' in text else f'{text}T00:00:00'}+00:00"

    # ------------------------------------------------------------------------------------------------ encoding

    def varies(self, x: np.ndarray) -> bool:
        return self.time.varies(x)

    def learned(self, x: np.ndarray, weight: np.ndarray, settings: ColumnSettings) -> Date:
        present = ~np.isnan(x)
        dates, mass = x[present], weight[present]
        months = np.unique(_times(dates).astype("datetime64[M]").astype(int) % 12)
        return replace(
            self,
            time=self.time.learned(x, weight, settings),
            season=len(months) > 1,
            weekdays=_frequent(_weekday(dates), mass, bool(present.all()), weight),
            hour=len(np.unique(dates % DAY)) > 1,
        )

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        circles = [*(["year"] if self.season else []), *(["day"] if self.hour else [])]
        return (
            *self.time.features,
            *((f"{self.name} in the {circle} ({part})", "cyclic") for circle in circles for part in ("sin", "cos")),
            *((f"{self.name}={WEEKDAYS[int(day)]}", "category") for day in self.weekdays),
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        parts = [self.time(x)]
        present = ~np.isnan(x)
        dates = np.where(present, x, 0.0)
        shares = [*([_of_year(dates)] if self.season else []), *([dates % DAY / DAY] if self.hour else [])]
        for share in shares:
            angle = 2 * np.pi * share
            parts += [np.where(present, part, 0.0)[:, None] for part in (np.sin(angle), np.cos(angle))]
        weekday = _weekday(dates)
        parts += [np.where(present & (weekday == day), 0.5, -0.5)[:, None] for day in self.weekdays]
        return np.hstack(parts)

    # --------------------------------------------------------------------------------------------------- words

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last training date."""
        return (float(self.time.knots[0]), float(self.time.knots[-1])) if len(self.time.knots) else (0.0, 0.0)

    def taken_for(self) -> dict[str, Any]:
        first, last = (self.shown(x) for x in self.span)
        order = DATE_ORDERS.get(self.form.order if self.form else "", "")
        words = f"date from {first} to {last}" + (f", read from texts with {order}" if order else "")
        seen = [*(["season"] if self.season else []), *(["weekday"] if len(self.weekdays) else [])]
        seen += ["hour"] if self.hour else []
        words += f", with {', '.join(seen)}" if seen else ""
        words += ", in UTC" if self.zoned else ""
        words += ", missing cells marked" if self.time.missing else ""
        form = {"form": asdict(self.form)} if self.form else {}
        return {"kind": "date", "missing": self.time.missing, "first": first, "last": last, **form, "words": words}

    def remarks_on_reading(self, cells: Cells) -> list[str]:
        return [remark] if cells.dates is not None and (remark := cells.dates.remark(self.name)) else []

    def remarks_on_new(self, cells: np.ndarray) -> list[str]:
        (first, last), x = self.span, self.read(cells)
        room = OUTSIDE * (last - first)
        outside = x[(x < first - room) | (x > last + room)]
        if not len(outside):
            return []
        far = outside[np.argmax(np.abs(outside - (first + last) / 2))]
        return [
            f"Column {self.name!r} holds dates such as {self.shown(far)}, far outside {self.shown(first)} to "
            f"{self.shown(last)}, the dates of the fit; no trend is continued there."
        ]


def _times(x: np.ndarray) -> np.ndarray:
    return np.round(x * 1e6).astype(np.int64).astype("datetime64[us]")


def _of_year(x: np.ndarray) -> np.ndarray:
    """The share of the year that is over."""
    times = _times(x)
    year = times.astype("datetime64[Y]")
    begun, ended = year.astype("datetime64[us]"), (year + 1).astype("datetime64[us]")
    return (times - begun) / (ended - begun)


def _weekday(x: np.ndarray) -> np.ndarray:
    """0 for a Monday; the first day of 1970 was a Thursday."""
    return (np.floor(x / DAY).astype(np.int64) + 3) % 7


def _frequent(weekday: np.ndarray, mass: np.ndarray, whole: bool, weight: np.ndarray) -> np.ndarray:
    """Days that enough rows have and enough lack, as with categories; of two that are all, the second."""
    rows = max(weight.sum(), len(weight))
    total = np.bincount(weekday, weights=mass, minlength=7) * (rows / weight.sum())
    least = fewest_rows(rows)
    days = np.flatnonzero((total >= least) & (rows - total >= least))
    return (days[1:] if len(days) == 2 and (total > 0).sum() == 2 and whole else days).astype(float)
