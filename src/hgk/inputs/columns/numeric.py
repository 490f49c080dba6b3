"""A column of numbers: a scaled copy, a rank copy, steps, and an indicator of missing cells.

    scaled    u = (x - middle) / half, bent logarithmically beyond |u| = 1, three robust deviations, so that heavy
              tails do not squash the bulk
    rank      2 F(x) - 1, with F the weighted distribution function of the training rows
    step      b_k(x) - ½, b_k rising from 0 to 1 between two quantiles: rough nodes on these learn a monotone warp
    missing   ±½; the missing cells themselves sit at the middle

Texts that are numbers are read as numbers, by marks found in the whole column (:mod:`hgk.inputs.numerals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from hgk.inputs.cells import Cells, is_text, refusal
from hgk.inputs.columns.base import Column, ColumnSettings
from hgk.inputs.numerals import Marks, cut, may_be_number, numbers
from hgk.inputs.remarks import how_to_convert, merged_remark
from hgk.storable import expect, storable, vector

# Knots that a rank copy keeps of its column's distribution function.
KNOTS = 512


def _nothing() -> np.ndarray:
    return np.empty(0)


@storable
@dataclass(frozen=True)
class Numeric(Column):
    """Numbers; of more than two values also their ranks and steps. Without statistics they are taken as they are."""

    by_cell = True

    marks: Marks | None = None  # of its texts, None where it had none
    middle: float = 0.0
    half: float = 1.0
    knots: np.ndarray = field(default_factory=_nothing)
    heights: np.ndarray = field(default_factory=_nothing)
    ranks: bool = False
    missing: bool = False
    bend: bool = False
    steps: np.ndarray = field(default_factory=_nothing)  # where they begin and end, one more than there are

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        knots, heights, steps = (parts.get(name, _nothing()) for name in ("knots", "heights", "steps"))
        expect(all(map(vector, (knots, heights, steps))), "a column's knots are not a list of finite numbers")
        rising = bool((np.diff(knots) > 0).all() and (np.diff(steps) > 0).all())
        expect(len(knots) == len(heights) and rising, "a column's knots do not rise")
        expect(len(knots) > 0 or not parts.get("ranks", False), "a column has ranks without knots")
        expect(parts.get("half", 1.0) >= 0, "a column's width is negative")

    # ------------------------------------------------------------------------------------------------- reading

    @classmethod
    def takes(cls, cells: Cells) -> bool:
        r = cells.reading
        return cells.values.dtype.kind == "f" or (r is not None and (r.marks is not None or bool(r.unclear)))

    @classmethod
    def of(cls, cells: Cells) -> Numeric:
        r = cells.reading
        if r is None:
            return cls(cells.name, cells.marks)
        if r.unclear:
            raise ValueError(r.question(f"Column {cells.name!r}", how_to_convert(r)))
        return cls(cells.name, r.marks)

    def read(self, cells: np.ndarray) -> np.ndarray:
        if cells.dtype.kind == "f":
            return cells
        if not is_text(cells):
            raise refusal(cells, self.name)
        values = self._of_texts(cells)
        if np.isinf(values).any():
            raise ValueError(
                f"Column {self.name!r} contains a text of infinity or of a number too large for float64; replace it by "
                "a number or a missing value."
            )
        return values

    def _of_texts(self, cells: np.ndarray) -> np.ndarray:
        values, bad = numbers(cells.tolist(), self.written)
        if bad:
            # a decimal comma is odd only if nothing else is: one stray text makes texts of a table's whole column
            row = next((i for i in bad if not may_be_number(cells[i])), bad[0])
            how = f" ({self.written.words})" if self.written.words else ""
            raise ValueError(
                f"Column {self.name!r} holds text such as {cut(repr(cells[row]))} (row {row}, counted from 0) but was "
                f"numeric when the model was fitted{how}; give numbers in it."
            )
        return values

    @property
    def written(self) -> Marks:
        return self.marks or Marks()

    # ------------------------------------------------------------------------------------------------ encoding

    def varies(self, x: np.ndarray) -> bool:
        return len(np.unique(x[~np.isnan(x)])) > 2

    def learned(self, x: np.ndarray, weight: np.ndarray, settings: ColumnSettings) -> Numeric:
        x = np.ascontiguousarray(x)
        present = ~np.isnan(x)
        whole = bool(present.all())
        if not whole:
            x, weight = x[present], weight[present]
        values, mass = _distribution(x, weight)
        below = np.cumsum(mass)
        heights = below - mass / 2
        heights /= below[-1]  # now the weighted distribution function, at its jumps' middles
        middle, half = _centre(values, mass, heights, settings.robust)
        varied = len(values) > 2
        steps = _ends_of_steps(values, mass, settings.steps) if varied and settings.steps > 1 else _nothing()
        if len(values) > KNOTS:
            spaced = np.searchsorted(heights, np.linspace(0, 1, KNOTS)).clip(0, len(values) - 1)
            kept = np.array(sorted({0, len(values) - 1, *spaced.tolist()}))
            values, heights = values[kept], heights[kept]
        return replace(
            self,
            middle=float(middle),
            half=float(half),
            knots=values,
            heights=2 * heights - 1,
            ranks=settings.ranks and varied,
            missing=not whole,
            bend=settings.robust,
            steps=steps,
        )

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        return (
            (self.name, "scaled"),
            *([(f"{self.name} (rank)", "rank")] if self.ranks else []),
            *((f"{self.name} > {low:.3g}", "step") for low in self.steps[:-1]),
            *([(f"{self.name} missing", "missing")] if self.missing else []),
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        present = ~np.isnan(x)
        filled = np.where(present, x, self.middle)
        with np.errstate(over="ignore"):  # far outside a kernel is 0; its square must not overflow
            u = np.clip((filled - self.middle) / self.half, -1e9, 1e9) if self.half > 0 else np.zeros_like(filled)
        if self.bend:  # strictly increasing all the way
            size = np.abs(u)
            u = np.where(size > 1, np.sign(u) * (1 + np.log(np.maximum(size, 1))), u)
        out = [u]
        if self.ranks:
            out.append(np.where(present, self._rank(filled), 0.0))
        for low, high in pairwise(self.steps):
            out.append(_rise(filled, low, high) - 0.5)
        if self.missing:
            out.append(np.where(present, -0.5, 0.5))
        return np.column_stack(out)

    def _rank(self, x: np.ndarray) -> np.ndarray:
        if len(x) < KNOTS:
            return np.interp(x, self.knots, self.heights)
        order = np.argsort(x)  # numbers that rise find their knots faster, by more than sorting costs
        rank = np.empty_like(x)
        rank[order] = np.interp(x[order], self.knots, self.heights)
        return rank

    # --------------------------------------------------------------------------------------------------- words

    def taken_for(self) -> dict[str, Any]:
        words, marks = "number", {}
        if self.marks is not None:
            words = f"number read from texts{self.marks.words and f' ({self.marks.words})'}"
            marks = {"marks": asdict(self.marks)}
        words += ", missing cells marked" if self.missing else ""
        return {"kind": "number", "missing": self.missing, **marks, "words": words}

    def remarks_on_reading(self, cells: Cells) -> list[str]:
        if cells.reading is None:
            return []
        return [cells.reading.remark(self.name), *([merged_remark(self.name)] if cells.reading.merged else [])]

    def remarks_on_new(self, cells: np.ndarray) -> list[str]:
        """Of a column that was fitted on texts such as 88% and may now hold shares such as .88."""
        if not self.written.percent or cells.dtype.kind != "f" or np.nanmax(np.abs(cells), initial=0) > 1:
            return []
        return [
            f"Column {self.name!r} was fitted on percents, 88 for 88%, and holds numbers up to 1; if they are shares, "
            "multiply them by 100."
        ]


def _distribution(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers, in order, and the weight of each."""
    if not len(x):  # nothing but missing cells
        return np.zeros(1), np.ones(1)
    if weight.min() == weight.max():
        values = np.sort(x)
    else:
        order = np.argsort(x)
        values, weight = x[order], weight[order]
    rises = values[1:] != values[:-1]
    if rises.all():
        mass = weight
    else:
        begins = np.append(0, np.flatnonzero(rises) + 1)
        values, mass = values[begins], np.add.reduceat(weight, begins)
    if values[-1] / 2 - values[0] / 2 < 1e-300:  # a range without a reciprocal counts as none
        return values[:1], mass.sum(keepdims=True)
    return values, mass


def _centre(values: np.ndarray, mass: np.ndarray, heights: np.ndarray, robust: bool) -> tuple[float, float]:
    """Middle and half width: the whole range if it is short, else three robust deviations about the median."""
    low, high = values[0], values[-1]
    if not robust:
        return low / 2 + high / 2, high / 2 - low / 2
    quartiles = np.interp([0.25, 0.5, 0.75], heights, values)
    with np.errstate(over="ignore"):  # a deviation beyond the largest float is not a short one
        deviation = (quartiles[2] / 2 - quartiles[0] / 2) * 2 / 1.349
        if deviation <= 0:  # more than half the rows have the same value
            share = mass / mass.sum()
            exponent = np.frexp(high / 2 - low / 2)[1]  # squares of what is divided by this are numbers
            apart = np.ldexp(values / 2 - share @ values / 2, -exponent)
            deviation = np.ldexp(np.sqrt(share @ apart**2), exponent + 1)
        if not 3 * deviation < high / 2 - low / 2:
            return low / 2 + high / 2, high / 2 - low / 2
    return quartiles[1], 3 * deviation


def _ends_of_steps(values: np.ndarray, mass: np.ndarray, steps: int) -> np.ndarray:
    """Quantiles; a value that many rows share counts for one step at most, so that the others get theirs."""
    capped = np.cumsum(np.minimum(mass, mass.sum() / steps))
    place = np.searchsorted(capped / capped[-1], np.linspace(0, 1, steps + 1) - 1e-12)
    return np.unique(values[place.clip(0, len(values) - 1)])


def _rise(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """From 0 at ``low`` to 1 at ``high``; halved, since the difference of two floats need not be one."""
    width = high / 2 - low / 2
    if not width > 0:  # neighbours among the smallest floats
        return (x > low).astype(float)
    with np.errstate(over="ignore"):
        return np.clip((x / 2 - low / 2) / width, 0, 1)
