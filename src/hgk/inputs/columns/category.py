"""A column of categories: one indicator for each frequent one.

Rare and unseen categories have none, so a column of nothing but rare ones, such as an id, carries nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hgk.inputs.cells import Cells, is_text, refusal
from hgk.inputs.columns.base import Column, ColumnSettings
from hgk.storable import expect, storable, vector

# Categories with an indicator of their own, per column, by weight.
MOST_CATEGORIES = 30
# Rows that a category needs for an indicator, about one for each of five folds; in small tables a twentieth of the
# rows, since there a few rows may be all that is known.
FEWEST_OF_CATEGORY, SMALL_SHARE = 5, 1 / 20
# An id: more different texts than this share of its rows, in a table of at least so many.
ID_SHARE, ID_ROWS = 0.9, 10


@storable
@dataclass(frozen=True)
class Category(Column):
    """An indicator, ±½, per frequent category; two categories need only one.

    ``idle`` says why a column carries nothing: "id" where nearly every row has a category of its own, "rare" where
    none is frequent. Then there is a single feature, which is the same for all rows.
    """

    by_cell = True

    categories: tuple[str | bool | int | float, ...]
    codes: np.ndarray = field(default_factory=lambda: np.empty(0))
    missing: bool = False
    idle: str = ""

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        codes = parts.get("codes", np.empty(0))
        expect(vector(codes), "a column's codes are not a list of finite numbers")
        known = np.isin(codes, np.arange(max(1, len(parts["categories"])))).all()
        expect(bool(known), "a column's codes name unknown categories")
        expect(parts.get("idle", "") in ("", "id", "rare"), "a column is of an unknown kind")

    @classmethod
    def takes(cls, cells: Cells) -> bool:
        return is_text(cells.values)

    @classmethod
    def of(cls, cells: Cells) -> Category:
        return cls(cells.name, tuple(sorted({text for text in cells.values if text is not None})))

    def read(self, cells: np.ndarray) -> np.ndarray:
        code = {category: float(i) for i, category in enumerate(self.categories)}
        if is_text(cells):
            return np.array([np.nan if v is None else code.get(v, -1.0) for v in cells], dtype=float)
        if cells.dtype.kind != "f":
            raise refusal(cells, self.name)
        return np.array([np.nan if v != v else _code_of_number(v, code) for v in cells.tolist()], dtype=float)

    @property
    def levels(self) -> tuple[Any, ...] | None:
        return self.categories

    def shown(self, x: float) -> Any:
        return self.categories[int(x)] if x >= 0 else None

    def learned(self, x: np.ndarray, weight: np.ndarray, settings: ColumnSettings) -> Category:
        present = ~np.isnan(x)
        mass = np.bincount(x[present].astype(int), weights=weight[present], minlength=max(1, len(self.categories)))
        codes, idle = np.argsort(-mass, kind="stable")[:MOST_CATEGORIES], ""
        if len(self.categories) == 2 and present.all():
            codes = codes[1:]
        if len(self.categories) > 1:
            rows = max(weight.sum(), len(x))  # weights below 1 on average say how much, not how many
            mass = mass * (rows / weight.sum())
            least = fewest_rows(rows)
            # a category that nearly all rows have tells them from a rare one, which is as little
            codes = codes[(mass[codes] >= least) & (rows - mass[codes] >= least)]
            idle = "id" if is_id((mass > 0).sum(), mass.sum()) else "" if len(codes) else "rare"
        kept = np.sort(codes[:0] if idle else codes).astype(float)
        return replace(self, codes=kept, missing=bool((~present).any()), idle=idle)

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        texts = self.categories or ("missing",)
        names = [f"{self.name}={texts[int(c)]}" for c in self.codes] or [f"{self.name} ({self.idle})"]
        missing = [(f"{self.name} missing", "missing")] if self.missing else []
        return (*((name, "category") for name in names), *missing)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = [np.where(x == code, 0.5, -0.5) for code in self.codes] or [np.full(len(x), -0.5)]
        out += [np.where(np.isnan(x), 0.5, -0.5)] if self.missing else []
        return np.column_stack(out)

    def taken_for(self) -> dict[str, Any]:
        count, indicators = len(self.categories), len(self.codes)
        words = f"id with {count} texts" if self.idle == "id" else f"category with {count} levels"
        words += ", all too rare to count" if self.idle == "rare" else ""
        words += f", {indicators} of them frequent" if 0 < indicators < count != 2 else ""
        words += ", missing cells marked" if self.missing else ""
        kind = "id" if self.idle == "id" else "category"
        return {"kind": kind, "missing": self.missing, "levels": count, "indicators": indicators, "words": words}

    def remarks_on_reading(self, cells: Cells) -> list[str]:
        if cells.reading is None:
            return []
        of_dates = "" if cells.dates is None else cells.dates.remark(self.name)
        return [remark] if (remark := cells.reading.remark(self.name) or of_dates) else []

    def remarks_on_learning(self, weight: np.ndarray) -> list[str]:
        if not self.idle:
            return []
        if self.idle == "id":
            return [id_remark(self.name, len(self.categories))]
        return [
            f"Column {self.name!r} has {len(self.categories)} different texts, too rare to learn from (an indicator "
            f"needs {np.ceil(fewest_rows(max(weight.sum(), len(weight)))):.0f} rows with a text and as many without), "
            "and carries nothing; leave it out, or join some of them."
        ]


def _code_of_number(value: float, code: dict[Any, float]) -> float:
    """Of a number where texts were learned: 7 is found as "7", as "7.0" or, if there is no such text, as a truth."""
    names = [str(value)] + ([str(int(value)), {0.0: "False", 1.0: "True"}.get(value)] if value % 1 == 0 else [])
    return next((code[name] for name in names if name in code), -1.0)


def fewest_rows(rows: float) -> float:
    """How many rows a category needs for an indicator, in a table of so many."""
    return min(FEWEST_OF_CATEGORY, SMALL_SHARE * rows)


def is_id(distinct: float, rows: float) -> bool:
    """Whether so many different texts in so many rows name the rows."""
    return bool(rows >= ID_ROWS and distinct > ID_SHARE * rows)


def id_remark(name: str, distinct: int) -> str:
    return (
        f"Column {name!r} has {distinct} different texts, nearly one for each row, and is taken for an id, which "
        "carries nothing; leave it out, or turn it into something that rows share."
    )
