"""A column as it is: what a kernel made by hand takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hgk.inputs.cells import Cells
from hgk.inputs.columns.base import Column
from hgk.inputs.numerals import Marks
from hgk.storable import storable

# The largest number that a kernel takes as it is: squares of it, times weights, must be numbers.
LARGEST_NUMBER = 1e100


@storable
@dataclass(frozen=True)
class Unchanged(Column):
    """The numbers or codes of another column, as the only feature; no table is offered to this kind."""

    source: Column

    @classmethod
    def takes(cls, cells: Cells) -> bool:
        return False

    def read(self, cells: np.ndarray) -> np.ndarray:
        return self.source.read(cells)

    @property
    def levels(self) -> tuple[Any, ...] | None:
        return self.source.levels

    @property
    def written(self) -> Marks | None:
        return self.source.written

    def shown(self, x: float) -> Any:
        return self.source.shown(x)

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        return ((self.name, "scaled"),)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if np.isnan(x).any():
            raise ValueError(
                f"Column {self.name!r} has missing cells, and the kernel given takes columns as they are; fill them, "
                "or give a kernel that an estimator has learned."
            )
        if np.abs(x).max(initial=0) > LARGEST_NUMBER:
            raise ValueError(
                f"Column {self.name!r} holds {x[np.abs(x).argmax()]:g}, and the kernel given takes columns as they "
                f"are, up to {LARGEST_NUMBER:g}; divide it, or give a kernel that an estimator has learned."
            )
        return x[:, None]

    def taken_for(self) -> dict[str, Any]:
        return self.source.taken_for()

    def remarks_on_new(self, cells: np.ndarray) -> list[str]:
        return self.source.remarks_on_new(cells)
