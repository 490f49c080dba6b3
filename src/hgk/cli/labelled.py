"""Rows with labels for a fitted model: which column has the labels, and which class a cell of it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hgk.cli import tables
from hgk.cli.dialect import Dialect
from hgk.cli.rows import model_columns, table_for
from hgk.cli.shared import Unusable
from hgk.estimators import HGKEstimator
from hgk.inputs import cut


@dataclass(frozen=True)
class LabelledRows:
    """The model's columns and the labels of a table, missing ones as NaN or None, and notes on them.

    ``classes`` are those that the model knows, none for numbers.
    """

    X: Any
    y: np.ndarray
    notes: list[str]
    classes: tuple[Any, ...] = ()

    @property
    def known(self) -> tuple[Any, np.ndarray]:
        """Without the rows that have no label, or one of no class that the model knows."""
        missing = pd.isna(self.y)
        known = (
            np.array([v in self.classes for v in self.y]) if self.classes else ~missing.reshape(len(self.y), -1).any(1)
        )
        return self.X[known], self.y[known]


def labelled_rows(model: HGKEstimator, data: str, targets: Sequence[str], dialect: Dialect) -> LabelledRows:
    """Read a table with the columns of the model and these columns of labels."""
    outputs = 1 if model.model_.target.classes or model.model_.target.single else len(model.model_.target.predictions)
    outputs = 1 if hasattr(model, "quantiles_") else outputs
    if len(targets) != outputs:
        raise Unusable(
            f"{len(targets)} columns of labels were given by --target ({', '.join(targets)}), and the model predicts "
            f"{outputs}; give as many, separated by commas."
        )
    table = table_for(model, data, dialect, targets if _of_texts(model) else ())
    for name in targets:
        tables.column(table.frame, name, "The target")
    table.check(targets)
    notes: list[str] = []
    X = model_columns(model, table, notes, targets)
    notes += [note for note in table.notes_on([t for t in targets if t in table.marks]) if note not in notes]
    if model.model_.target.classes:
        classes = tuple(model.classes_.tolist())
        return LabelledRows(X, _classes_of(table.frame[targets[0]], set(classes)), notes, classes)
    y = np.column_stack([_numbers_of(table.frame[name]) for name in targets])
    return LabelledRows(X, y[:, 0] if outputs == 1 else y, notes)


def _numbers_of(column: pd.Series) -> np.ndarray:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    odd = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    if len(odd):
        raise Unusable(
            f"The target {column.name!r} holds {cut(repr(column.iloc[odd[0]]))} (row {odd[0]}, counted from 0), and "
            "the model predicts numbers; give a column of numbers by --target, or leave such cells empty."
        )
    return numbers


def _of_texts(model: HGKEstimator) -> bool:
    """Whether labels are texts that may look like numbers; truth values are read as such, in any spelling."""
    if not model.model_.target.classes:
        return False
    names = model.classes_.tolist()
    return all(isinstance(name, str) for name in names) and not set(names) <= {"True", "False"}


def _classes_of(column: pd.Series, names: set[Any]) -> np.ndarray:
    """The class that each cell stands for; what stands for none as it is, None where it is missing."""
    told: dict[Any, Any] = {}
    y = np.empty(len(column), dtype=object)
    for i, (cell, gone) in enumerate(zip(column.tolist(), column.isna().tolist(), strict=True)):
        if not gone and cell not in told:
            told[cell] = next((spelt for spelt in _spellings(cell) if spelt in names), _alike(cell, names))
        y[i] = None if gone else told[cell]
    return y


def _spellings(cell: Any) -> list[Any]:
    """7 is also 7.0 and "7"; truth values are also texts."""
    whole = isinstance(cell, int | float) and not isinstance(cell, bool) and cell % 1 == 0
    return [cell, str(cell), *([int(cell), str(int(cell))] if whole else [])]


def _alike(cell: Any, names: set[Any]) -> Any:
    """A label of no class, of the type that classes have."""
    return str(cell) if all(isinstance(name, str) for name in names) else cell
