"""What every view asks of a fitted estimator: its columns and outputs by name, its kernels, its rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted

from hgk.estimators import HGKClassifier, HGKEstimator, HGKRegressor
from hgk.kernels import HierarchicalKernel
from hgk.model import Training
from hgk.targets import Classes

Estimator = HGKRegressor | HGKClassifier


def require_model(model: Any) -> None:
    """Say in a sentence what a report or a display can be made of."""
    if not isinstance(model, Estimator):
        raise TypeError(f"A {type(model).__name__} was given; a fitted HGKRegressor or HGKClassifier is expected.")
    check_is_fitted(model)
    if isinstance(model, HGKClassifier) and model.multi_class == "ava":
        raise ValueError(
            "A classifier of all against all was given; fit with multi_class='ovr' for this view of a model."
        )


def training_of(model: Estimator) -> Training:
    return model.model_.need_training("The report needs")


def left_out(model: Estimator) -> torch.Tensor:
    """Predictions of the distinct training rows by functions that have not seen them, scaled as the labels."""
    return as_labels(model, model.model_.leave_one_out())


def as_labels(model: Estimator, t: torch.Tensor) -> torch.Tensor:
    """A machine's values, scaled as the labels; those of classes as 2 P - 1."""
    target = model.model_.calibrated
    return target.expected(t) if isinstance(target, Classes) else target.decode(t)


def kernels(model: Estimator) -> list[tuple[float, HierarchicalKernel, float]]:
    """The kernels that are averaged: share, kernel, and λ of the machine that it belongs to."""
    lams = [part.lam for part in model.machine_.parts_of() for _ in part.terms]
    return [(share, kernel, lam) for (share, kernel, _, _), lam in zip(model.machine_.terms, lams, strict=True)]


# ---------------------------------------------------------------------------------------------- columns and outputs


def column_names(model: HGKEstimator) -> tuple[str, ...]:
    return model.model_.inputs.reader.names


def output_names(model: HGKEstimator) -> list[str]:
    """Names of the predictions, or of the probabilities of classes."""
    return model.model_.target.predictions


def column_indices(model: HGKEstimator, columns: Sequence[int | str]) -> list[int]:
    """Columns by name or number."""
    names = column_names(model)
    indices = []
    for column in columns:
        if isinstance(column, str) and column in names:
            indices.append(names.index(column))
        elif not isinstance(column, str) and 0 <= int(column) < len(names):
            indices.append(int(column))
        else:
            raise ValueError(
                f"The column {column!r} was given; a name or a number from 0 to {len(names) - 1} is expected, and the "
                f"model knows {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}."
            )
    return indices


def most_important(model: Estimator, most: int) -> list[int]:
    """Columns in the order of their importance."""
    return model.importance_.order[:most].tolist()


def is_categorical(model: Estimator, column: int) -> bool:
    return model.model_.inputs.reader.is_categorical(column)


def cell(model: HGKEstimator, column: int, code: float, digits: int = 6) -> str:
    """A cell of the table as text."""
    shown = model.model_.inputs.reader.shown(column, code)
    if shown is None:
        return "–"
    return f"{shown:.{digits}g}" if isinstance(shown, float) else str(shown)
