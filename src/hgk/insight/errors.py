"""What a fit knows about its own error: on rows that no coefficient and no gradient has seen.

With least squares it is what the fit recorded when it chose among kernels (``chosen``: on rows set aside) or widths
(``grid``, ``architecture``: by cross-validation). With another loss it is the error of held-out folds, where there are
some of those that were kept from the kernel, too. Leave-one-out values are no such error where weights were learned: no
coefficient has seen the row, but the kernel has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from hgk.estimators import HGKClassifier, HGKQuantileRegressor, HGKRegressor
from hgk.machines.base import Rows, wrong_classes
from hgk.progress import ASIDE, FOLDS, honest_error

Model = HGKRegressor | HGKQuantileRegressor | HGKClassifier
# What may be known of an error: for labels scaled to [-1, 1]; in the unit of the labels; of classes; of quantiles.
MEASURES = ("risk", "r2", "rmse", "wrong", "pinball", "inside")


def verdict(model: Model) -> dict[str, Any] | None:
    """The error on rows not seen: its ``basis``, how many ``rows``, and the measures, None where one has no meaning.

    None where the fit has left no such error, as in a model from a compact file that has another loss.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight.errors import verdict
    >>> found = verdict(HGKRegressor("plain", random_state=0).fit(*make_friedman1(100, random_state=0)))
    >>> found["basis"], bool(0 < found["r2"] < 1)
    ('5-fold cross-validation', True)
    """
    found = _of_held_out_rows(model) if model._of_loss else _recorded(model)
    if found is None or not all(math.isfinite(v) for v in found.values() if isinstance(v, float)):
        return None  # JSON has no such numbers
    return {"basis": found.pop("basis"), "rows": found.pop("rows"), **{name: found.get(name) for name in MEASURES}}


def _recorded(model: Model) -> dict[str, Any] | None:
    found = honest_error(model.history_)
    if found is None:
        return None
    basis, event = found
    said: dict[str, Any] = {"basis": basis, "rows": event.get("rows"), "risk": float(event["risk"])}
    said |= _explained(said["risk"], model)
    return said | ({"wrong": event["wrong"]} if isinstance(model, HGKClassifier) and "wrong" in event else {})


def _of_held_out_rows(model: Model) -> dict[str, Any] | None:
    if model._rows is None:
        return None
    rows, t = model._honest()
    share = rows.weight / rows.weight.sum()
    said: dict[str, Any] = {"basis": ASIDE if rows.given < model._rows.given else FOLDS, "rows": round(rows.given)}
    if isinstance(model, HGKQuantileRegressor):
        return said | _of_quantiles(model, rows, model._decode(t.numpy()), share.numpy())
    if isinstance(model, HGKClassifier):
        values = torch.from_numpy(model._class_values(t.numpy()))
        return said | wrong_classes(values, rows)
    said["risk"] = float((share @ (t - rows.Y) ** 2).sum())
    return said | _explained(said["risk"], model)


def _explained(risk: float, model: Model) -> dict[str, float]:
    """R², and in the unit of a single label the root of the mean squared error."""
    said: dict[str, float] = {}
    if (rows := model._rows) is not None:
        share = rows.weight / rows.weight.sum()
        variance = float((share @ (rows.Y - share @ rows.Y) ** 2).sum())
        said |= {"r2": 1 - risk / variance} if variance > 0 else {}
    if isinstance(model, HGKRegressor) and model._single_column:
        rmse = float(model._y_scaling.half[0]) * math.sqrt(max(risk, 0.0))
        said |= {"rmse": rmse} if math.isfinite(rmse) else {}
    return said


def _of_quantiles(model: HGKQuantileRegressor, rows: Rows, t: np.ndarray, share: np.ndarray) -> dict[str, float]:
    """The mean pinball loss, and how many labels lie between the outer levels."""
    y, t = model._y_scaling.inverse(rows.Y.numpy()), t.reshape(len(rows), -1)
    r = y - t
    said = {"pinball": float(share @ np.maximum(model.quantiles_ * r, (model.quantiles_ - 1) * r).mean(1))}
    if t.shape[1] > 1:
        said["inside"] = float(share @ ((t[:, :1] <= y) & (y <= t[:, -1:]))[:, 0])
    return said


def in_words(said: dict[str, Any], classes: bool, outputs: int = 1) -> str:
    """A verdict's measures as a person reads them: of numbers in their unit, of classes by how many are wrong.

    Examples
    --------
    >>> from hgk.insight.errors import in_words
    >>> in_words({"risk": 0.04, "r2": 0.875, "rmse": 12.5}, classes=False)
    'a root mean squared error of 12.5, R² 0.875'
    >>> in_words({"risk": 0.2, "wrong": 0.031}, classes=True)
    '3.1% of the classes wrong, a mean squared error of 0.2 for labels ±1'
    >>> in_words({"pinball": 1.25, "inside": 0.9}, classes=False)
    'a pinball loss of 1.25, 90.0% between the outer quantiles'
    """
    risk, r2, rmse, wrong, pinball, inside = (said.get(name) for name in MEASURES)
    explained = "" if r2 is None else f"R² {r2:.3f}"
    if pinball is not None:
        words = [
            f"a pinball loss of {pinball:.4g}",
            "" if inside is None else f"{inside:.1%} between the outer quantiles",
        ]
    elif classes:
        words = [] if wrong is None else [f"{wrong:.1%} of the classes wrong"]
        words += [] if risk is None else [f"a mean squared error of {risk:.4g} for labels ±1", explained]
    elif rmse is not None:
        words = [f"a root mean squared error of {rmse:.4g}", explained]
    else:
        words = [f"{explained or f'a mean squared error of {risk:.4g} for scaled labels'} over {outputs} outputs"]
    return ", ".join(filter(None, words))
