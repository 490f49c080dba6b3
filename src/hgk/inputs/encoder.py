"""From numbers and codes to features, each about [-1, 1]. Every statistic is weighted by the rows' weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hgk.inputs.cells import split
from hgk.inputs.columns import Column, ColumnSettings, Unchanged
from hgk.inputs.pieces import PIECE, by_pieces, threads_for_cells
from hgk.inputs.reader import Reader
from hgk.storable import expect, storable

# Steps of all columns together, and of one column.
ALL_STEPS, STEPS_PER_COLUMN = 96, 16


@dataclass(frozen=True)
class Feature:
    """One feature: the column it comes from, its name, and what it is a copy of."""

    column: int
    name: str
    kind: str  # "scaled", "rank", "step", "cyclic", "category" or "missing"


@dataclass(frozen=True)
class Encoder:
    """Features of rows, column by column."""

    columns: tuple[Column, ...]

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
        """The encoder of distinct rows as the reader gives them."""
        varied = sum(column.varies(x) for column, x in zip(reader.columns, X.T, strict=True)) if steps else 0
        settings = ColumnSettings(ranks, robust, min(STEPS_PER_COLUMN, ALL_STEPS // max(1, varied)) if steps else 0)
        jobs = [
            lambda column=column, x=x: column.learned(x, weight, settings)
            for column, x in zip(reader.columns, X.T, strict=True)
        ]
        # a thread holds several copies of its column, and all threads together at most some copies of the table
        return cls(tuple(threads_for_cells(X.size, X.shape[1] // 2).run(jobs)))

    @classmethod
    def identity(cls, reader: Reader) -> Encoder:
        """Every column as it is."""
        return cls(tuple(Unchanged(column.name, column) for column in reader.columns))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if len(X) <= PIECE:
            return np.column_stack([column(X[:, j]) for j, column in enumerate(self.columns)])
        widths = [len(column.features) for column in self.columns]
        ends = np.cumsum(widths)
        places = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        out = np.empty((len(X), ends[-1]))

        def encode(rows: slice, by_cell: bool) -> None:
            for j, (column, place) in enumerate(zip(self.columns, places, strict=True)):
                if column.by_cell == by_cell:
                    part = out[rows, place]
                    part[...] = np.reshape(column(X[rows, j]), part.shape)

        encode(slice(None), by_cell=False)
        by_pieces(out.shape, lambda rows: encode(rows, by_cell=True))
        return out

    @property
    def features(self) -> tuple[Feature, ...]:
        return tuple(Feature(j, name, kind) for j, c in enumerate(self.columns) for name, kind in c.features)

    @property
    def owner(self) -> np.ndarray:
        """The column of every feature."""
        return np.array([feature.column for feature in self.features])

    def remarks(self, weight: np.ndarray) -> list[str]:
        """A sentence for each column that carries nothing; ``weight`` is that of the rows."""
        return [remark for column in self.columns for remark in column.remarks_on_learning(weight)]


@storable
@dataclass(frozen=True)
class Inputs:
    """The way from a table to features, as a function.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.inputs import Encoder, Inputs, Reader, split
    >>> X = np.array([[0.0], [1.0], [4.0]])
    >>> reader = Reader.of(*split(X))
    >>> inputs = Inputs(Encoder.of(reader(split(X)[0]), np.ones(3), reader, robust=False).columns)
    >>> inputs(X).round(2).tolist()
    [[-1.0, -0.67], [-0.5, 0.0], [1.0, 0.67]]
    """

    columns: tuple[Column, ...]

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        expect(len(parts["columns"]) > 0, "there is no column")

    @property
    def reader(self) -> Reader:
        return Reader(self.columns)

    @property
    def encoder(self) -> Encoder:
        return Encoder(self.columns)

    def __call__(self, X: Any) -> np.ndarray:
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != len(self.columns):
            raise ValueError(
                f"A table of shape {shape} was given; rows with the {len(self.columns)} columns that the kernel was "
                "learned on are expected, so give these."
            )
        table = self.reader(split(X)[0])
        if np.isinf(table).any():
            raise ValueError("The rows given to a kernel contain infinity; replace it by a number or a missing value.")
        return self.encoder(table)

    def taken_for(self) -> list[dict[str, Any]]:
        """For each column: its name, what it was taken for in words, and the same as values."""
        return [{"column": column.name} | column.taken_for() for column in self.columns]
