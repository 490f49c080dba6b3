"""From the columns of a table to one array: numbers, codes of categories, NaN for missing cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hgk.inputs.cells import Cells, Meant, is_text
from hgk.inputs.columns import Column, kind_of
from hgk.inputs.dates import DateForm, date_readings
from hgk.inputs.numerals import Marks, Reading, reading
from hgk.inputs.pieces import stacked
from hgk.inputs.remarks import counting_remarks


@dataclass(frozen=True)
class Reader:
    """The columns of a table, each of which knows how its cells are read.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.inputs import Reader
    >>> reader = Reader.of([np.array([1.5, 2.5]), np.array(["b", "a"], dtype=object)], ["size", "town"])
    >>> reader([np.array([3.5]), np.array(["b"], dtype=object)])
    array([[3.5, 1. ]])
    >>> reader.is_categorical(1), reader.shown(1, 1.0)
    (True, 'b')
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(
        cls, columns: Sequence[np.ndarray], names: Sequence[str], marks: Mapping[str, Marks | DateForm] | None = None
    ) -> Reader:
        """The reader of these columns, which are as :func:`hgk.inputs.split` gives them.

        ``marks`` are those of columns that were read as numbers before, by name.
        """
        return read_columns(columns, names, marks)[0]

    def __call__(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Numbers, or codes 0, 1, ... of categories; NaN for missing cells, -1 for unseen categories."""
        return stacked([column.read(cells) for column, cells in zip(self.columns, columns, strict=True)])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def levels(self) -> tuple[tuple[Any, ...] | None, ...]:
        """The categories of every column, None where it has numbers."""
        return tuple(column.levels for column in self.columns)

    @property
    def marks(self) -> dict[str, Marks]:
        """How texts write numbers, for the columns where texts are read as numbers."""
        return {column.name: marks for column in self.columns if (marks := column.written) is not None}

    def is_categorical(self, j: int) -> bool:
        return self.columns[j].levels is not None

    def shown(self, j: int, x: float) -> Any:
        """The cell of column j that a number or code stands for; None for a missing or unseen one."""
        return self.columns[j].shown(x)

    def remarks(self, columns: Sequence[np.ndarray]) -> list[str]:
        """A sentence for each column of new rows whose cells may not mean what those of the training rows did."""
        return [r for column, cells in zip(self.columns, columns, strict=True) for r in column.remarks_on_new(cells)]


def read_columns(
    columns: Sequence[np.ndarray], names: Sequence[str], marks: Mapping[str, Marks | DateForm] | None = None
) -> tuple[Reader, list[str]]:
    """The reader of these columns, and a sentence for each that may not have been meant as it is taken."""
    texts = readings([c if is_text(c) and not isinstance(c, Meant) else None for c in columns])
    known = marks or {}
    orders = [getattr(known.get(name), "order", "") for name in names]
    plain = [c if r is not None and no_numbers(r) else None for c, r in zip(columns, texts, strict=True)]
    table = [
        Cells(name, values, r, None if r is not None else _numeric_marks(known.get(name)), d)
        for name, values, r, d in zip(names, columns, texts, date_readings(plain, orders), strict=True)
    ]
    reader = Reader(tuple(kind_of(cells).of(cells) for cells in table))
    remarks = [r for column, cells in zip(reader.columns, table, strict=True) for r in column.remarks_on_reading(cells)]
    return reader, remarks + counting_remarks(columns, names)


def no_numbers(r: Reading) -> bool:
    """Whether texts are neither numbers nor codes, so that they may be dates."""
    return r.marks is None and r.stray is None and not (r.unclear or r.padded)


def _numeric_marks(marks: Marks | DateForm | None) -> Marks | None:
    return marks if isinstance(marks, Marks) else None


def readings(columns: Sequence[Any], decimal: str = "") -> list[Reading | None]:
    """What columns of texts are, None for None; a decimal mark that some columns prove serves the unclear ones."""
    first = [None if cells is None else reading(list(cells), decimal) for cells in columns]
    proven = {r.proven for r in first if r is not None and r.proven}
    if decimal or len(proven) != 1:
        return first
    (mark,) = proven
    return [
        reading(list(cells), mark) if r and not r.proven and (r.unclear or r.marks is not None) else r
        for cells, r in zip(columns, first, strict=True)
    ]
