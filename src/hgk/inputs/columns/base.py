"""What a kind of column has to say.

cells    --of-->       the column as it is read: what its texts mean, which categories it has
cells    --read-->     numbers, or codes 0, 1, ... of categories; NaN where missing
numbers  --learned-->  the column with the statistics of the training rows
numbers  --call-->     features, each about [-1, 1]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hgk.inputs.cells import Cells
from hgk.inputs.numerals import Marks


@dataclass(frozen=True)
class ColumnSettings:
    """What becomes of numbers: a rank copy, robust scaling, and at most so many steps."""

    ranks: bool = True
    robust: bool = True
    steps: int = 0


@dataclass(frozen=True)
class Column(ABC):
    """A column of a table. A subclass is a kind of column: see :func:`hgk.inputs.columns.register`."""

    # whether each row's features depend on its cell alone, so that a large column can be encoded in pieces
    by_cell: ClassVar[bool] = False

    name: str

    # ------------------------------------------------------------------------------------------------- reading

    @classmethod
    @abstractmethod
    def takes(cls, cells: Cells) -> bool:
        """Whether these cells are of this kind."""

    @classmethod
    def of(cls, cells: Cells) -> Column:
        """The column of these cells, before it has statistics."""
        return cls(cells.name)

    @abstractmethod
    def read(self, cells: np.ndarray) -> np.ndarray:
        """Numbers, or codes of categories, -1 for unseen ones; NaN for missing cells."""

    @property
    def levels(self) -> tuple[Any, ...] | None:
        """The categories that the codes stand for; None where there are numbers."""
        return None

    @property
    def written(self) -> Marks | None:
        """How texts in this column write numbers; None where texts are not read as numbers."""
        return None

    def shown(self, x: float) -> Any:
        """The cell that a number or code stands for; None for a missing or unseen one."""
        return None if np.isnan(x) else float(x)

    # ------------------------------------------------------------------------------------------------ encoding

    def varies(self, x: np.ndarray) -> bool:
        """Whether steps can be made of these numbers."""
        return False

    def learned(self, x: np.ndarray, weight: np.ndarray, settings: ColumnSettings) -> Column:
        """The column with the statistics of these numbers; this one, if it needs none."""
        return self

    @property
    @abstractmethod
    def features(self) -> tuple[tuple[str, str], ...]:
        """For each feature its name and its kind: "scaled", "rank", "step", "cyclic", "category", "missing"."""

    @abstractmethod
    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The features of these numbers, one column for each."""

    # --------------------------------------------------------------------------------------------------- words

    def taken_for(self) -> dict[str, Any]:
        """What the column was taken for, in ``words`` and as values."""
        return {"kind": type(self).__name__.lower(), "words": type(self).__name__.lower()}

    def remarks_on_reading(self, cells: Cells) -> list[str]:
        """A sentence for what may not have been meant as it is taken."""
        return []

    def remarks_on_learning(self, weight: np.ndarray) -> list[str]:
        """A sentence if the column carries nothing; ``weight`` is that of the training rows."""
        return []

    def remarks_on_new(self, cells: np.ndarray) -> list[str]:
        """A sentence if new cells may not mean what those of the training rows did."""
        return []
