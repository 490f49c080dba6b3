"""Rows as a fitted model takes them: from a table, or from those it was trained on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from hgk.cli import tables
from hgk.cli.dialect import Dialect
from hgk.cli.shared import Unusable
from hgk.estimators import HGKEstimator
from hgk.inputs import is_mixed


def read_rows(model: HGKEstimator, data: str, dialect: Dialect, notes: list[str]) -> Any:
    """The model's columns of a table: a frame, or an array where the model knows no names."""
    return model_columns(model, table_for(model, data, dialect), notes)


def table_for(
    model: HGKEstimator,
    data: str,
    dialect: Dialect,
    text: Collection[str] = (),
    keep: Collection[str] = (),
) -> tables.Table:
    """A table, its columns read as those of the training table; ``text`` names further columns of texts."""
    reader = model.model_.inputs.reader
    marks = reader.marks
    texts = [*(name for name in reader.names if name not in marks), *text]
    return tables.read_table(data, text=texts, marks=marks, keep=keep, **vars(dialect))


def model_columns(model: HGKEstimator, table: tables.Table, notes: list[str], others: Collection[str] = ()) -> Any:
    """The model's columns; ``others`` are left out where the model knows no names."""
    reader = model.model_.inputs.reader
    table.check(list(reader.marks))
    notes += table.notes_on(reader.names)
    names = list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None
    frame = table.frame if names else table.frame.drop(columns=list(others))
    return _as_fitted(model, tables.fitted_columns(frame, names, model.n_features_in_))


def training_row(model: HGKEstimator, row: int) -> Any:
    """A row as it was given to the fit."""
    training = model.model_.need_training("Without --data, --row needs")
    if row >= (rows := len(training.place)):
        raise Unusable(f"--row {row} was given and the model saw {rows} rows; give 0 to {rows - 1}, or give --data.")
    if training.place[row] < 0:
        raise Unusable(f"Row {row} had weight 0 and is not in the model; give it by --data.")
    cells = tables.decoded_row(model, training.table[training.place[row]])
    types = {name: float if isinstance(value, float | None) else object for name, value in cells.items()}
    return _as_fitted(model, pd.DataFrame({name: pd.Series([v], dtype=types[name]) for name, v in cells.items()}))


def _as_fitted(model: HGKEstimator, X: pd.DataFrame) -> pd.DataFrame | np.ndarray:
    if hasattr(model, "feature_names_in_"):
        return X
    return X.to_numpy(dtype=object).astype(str) if is_mixed(X) else X.to_numpy(dtype=float)
