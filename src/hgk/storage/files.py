"""A fitted model as one file, and back: safetensors, with a JSON description in its metadata.

The form of a file is in :mod:`hgk.storage.schema`. Nothing in a file is ever executed. A file is written beside its
place and renamed, so that at any time there is the old file or the new one. The same model gives the same bytes. Newer
versions of hgk read older schemas (:mod:`hgk.storage.upgrades`).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hgk.estimators import HGKClassifier, HGKEstimator, HGKQuantileRegressor, HGKRegressor
from hgk.events import BoundsFound, Chosen, CompressedTo, Judged, LeavesChosen, LossesCompared, condensed, last, of_kind
from hgk.model import Model
from hgk.storable import KNOWN, Malformed, expect, storable
from hgk.storage.atomic import WriteError, open_regular, write_atomically
from hgk.storage.codec import DocumentReader, DocumentWriter
from hgk.storage.schema import (
    BLANK,
    LONGEST_HEADER,
    MOST_ENTRIES,
    ModelFileError,
    Scalar,
    checksum,
    damaged,
    digits,
    entries,
    is_model,
    opened,
)
from hgk.storage.upgrades import SCHEMA
from hgk.targets import Classes
from hgk.texts import one_line

ESTIMATORS: dict[str, type[HGKEstimator]] = {
    estimator.__name__: estimator for estimator in (HGKRegressor, HGKQuantileRegressor, HGKClassifier)
}


def register(estimator: type[HGKEstimator]) -> type[HGKEstimator]:
    """Let files hold models of an estimator of yours; it may stand above the class as a decorator."""
    if ESTIMATORS.get(estimator.__name__, estimator) is not estimator:
        raise ValueError(f"There is another estimator {estimator.__name__}; give this class another name.")
    ESTIMATORS[estimator.__name__] = estimator
    return estimator


# Events kept of one run of steps.
STEPS_KEPT = 50
# How much single-precision rows may change a prediction, labels being scaled to [-1, 1].
TOLERANCE = 1e-4


@storable
@dataclass(frozen=True, eq=False)
class Saved:
    """An estimator: its class, its parameters (but those without a form in a file, such as a callback), its model."""

    estimator: str
    parameters: dict[str, Any]
    forgotten: tuple[str, ...]
    names: tuple[str, ...] | None  # feature_names_in_
    model: Model

    @classmethod
    def of(cls, estimator: HGKEstimator, model: Model) -> Saved:
        # The device is of the machine, not of the model: a file from one with an accelerator serves on one without.
        given = {name: value for name, value in estimator.get_params(deep=False).items() if name != "device"}
        parameters, forgotten = _storable(given)
        names = getattr(estimator, "feature_names_in_", None)
        named = None if names is None else tuple(map(str, names))
        history = tuple(event.finite() for event in condensed(model.history, STEPS_KEPT))
        return cls(type(estimator).__name__, parameters, tuple(forgotten), named, replace(model, history=history))

    def restored(self) -> HGKEstimator:
        """The estimator, as it was after its fit."""
        expect(self.estimator in ESTIMATORS, f"the estimator {self.estimator[:40]!r} is unknown")
        kind = ESTIMATORS[self.estimator]
        expect({*self.parameters, *self.forgotten} <= set(kind().get_params()), "a parameter is unknown")
        d = len(self.model.inputs.reader.names)
        expect(self.names is None or len(self.names) == d, "columns and their names differ in number")
        self.model.check()
        estimator = kind(**self.parameters)
        estimator.check_parameters()
        estimator.restore(replace(self.model, machine=self.model.machine.to(dtype=torch.float64)), self.names)
        return estimator


def _storable(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters that have a form in a file, and the names of the others."""
    kept: dict[str, Any] = {n: list(value) if isinstance(value, tuple) else value for n, value in parameters.items()}
    if isinstance(kept.get("groups"), Mapping):
        kept["groups"] = {name: list(group) for name, group in kept["groups"].items()}
    forgotten = []
    for name, value in list(kept.items()):
        encoder = DocumentWriter()
        try:
            DocumentReader(encoder.arrays)(json.loads(_dumps(encoder(value))), Any)
        except Malformed:
            forgotten.append(name)
            del kept[name]
    return kept, forgotten


# ------------------------------------------------------------------------------------------------------ saving


def save(
    model: HGKEstimator,
    path: str | os.PathLike,
    *,
    compact: bool = False,
    single: bool = False,
    note: Mapping[str, str] | None = None,
    force: bool = False,
) -> None:
    """Write a fitted model to a file, which :func:`load` reads without executing anything.

    Parameters
    ----------
    model : HGKRegressor, HGKQuantileRegressor or HGKClassifier
        Fitted.
    path : path
        Usually ``….hgk``. The file is written beside its place and renamed: an interrupted or failed write leaves what
        was there.
    compact : bool, default=False
        Leave out what predictions do not need: training labels, weights, and of a machine on centres all rows but
        these. ``predict_interval`` and ``loo_predictions_`` of the loaded model then say so. The rows of exact
        machines, also in leaves, stay; their functions are sums over them.
    single : bool, default=False
        Keep the machine's rows in single precision; needs ``compact``. Refused where a prediction at a training row
        would change by more than 0.01 % of half the range of the labels.
    note : dict of str to str, optional
        Kept in the file and returned by :func:`describe`.
    force : bool, default=False
        Also replace a file that is not a model. Without it, only a model file or an empty file is replaced.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> import hgk
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = hgk.HGKRegressor("plain", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "diabetes.hgk")
    ...     hgk.save(model, path)
    ...     bool((hgk.load(path).predict(X) == model.predict(X)).all())
    True
    """
    note = dict(note or {})
    _check_request(model, path, compact, single, note, force)
    # with the way to probabilities, which is fitted when it is first needed
    fitted = replace(model.model_, target=model.model_.calibrated, memo={})
    error, fitted = fitted.error(), fitted.compact() if compact else fitted
    if single:
        fitted, change = in_single(fitted)
        if change > TOLERANCE:
            raise ModelFileError(
                f"Rows in single precision would change predictions by up to {change:.1g} of half the labels' range, "
                f"more than {TOLERANCE:g}; save without single."
            )
    saved = Saved.of(model, fitted)
    blob = _blob(saved, _summary(saved, single) | {"error": error}, note)
    try:
        write_atomically(path, lambda file: file.write(blob))
    except WriteError as refusal:
        raise ModelFileError(str(refusal)) from refusal


def in_single(model: Model) -> tuple[Model, float]:
    """With the machine's rows in single precision, and how much that changes predictions of some of them."""
    X = model.machine.X[:: max(1, len(model.machine.X) // 500)]
    rounded = model.machine.to(dtype=torch.float32)
    change = model.decoded(X) - replace(model, machine=rounded.to(dtype=torch.float64)).decoded(X)
    return replace(model, machine=rounded, memo={}), float(np.abs(change).max())


def _check_request(model: Any, path: Any, compact: bool, single: bool, note: dict, force: bool) -> None:
    name = type(model).__name__
    if ESTIMATORS.get(name) is not type(model):
        raise ModelFileError(
            f"A {name} was given; save takes a fitted {' or '.join(ESTIMATORS)}; for a pipeline use joblib."
        )
    if not model.__sklearn_is_fitted__():
        raise ModelFileError(f"This {name} is not fitted yet; call fit before save.")
    loss = getattr(model.machine_, "loss", None)
    if loss is not None and KNOWN.get(type(loss).__name__) is not type(loss):
        raise ModelFileError(
            f"The model's loss is a {type(loss).__name__}, which a file cannot hold; declare it by hgk.storable, use "
            "joblib, or use one of hgk.losses."
        )
    if single and not compact:
        raise ModelFileError(
            "single=True was given without compact=True; rounded rows serve predictions only, so give both."
        )
    if not all(isinstance(text, str) for pair in note.items() for text in pair):
        raise ModelFileError(f"note={note!r} was given; a dict of texts to texts is expected.")
    if not force and _holds_something_else(path):
        raise ModelFileError(
            f"{path} exists and is not a model file of hgk; give another name, or force=True to replace it."
        )


def _holds_something_else(path: str | os.PathLike) -> bool:
    """Whether there is a file with content that is no model's; what cannot be looked at is refused by the writing."""
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size > 0 and not is_model(file)
    except (OSError, ValueError, TypeError):
        return False


def _summary(saved: Saved, single: bool) -> dict[str, Any]:
    """What a person wants to know without loading the model."""
    model, machine = saved.model, saved.model.machine
    training, target = model.training, model.target
    chosen, leaves = last(model.history, Chosen), last(model.history, LeavesChosen)
    losses, small = last(model.history, LossesCompared), last(model.history, CompressedTo)
    bounds = last(model.history, BoundsFound)
    return {
        "estimator": saved.estimator,
        "loss": type(getattr(machine.parts_of()[0], "loss", None)).__name__.replace("NoneType", "LeastSquares"),
        "columns": list(model.inputs.reader.names),
        "taken_for": model.inputs.taken_for(),
        "rows": None if training is None else len(training.place),
        "distinct_rows": None if training is None else len(training.rows),
        "outputs": len(target.predictions),
        "classes": [_shown(c) for c in target.array.tolist()] if isinstance(target, Classes) else None,
        "machines": [
            {
                "kind": type(part).__name__,
                "rows": len(part.X),
                "nodes": len(kernel.architecture.coordinates),
                "lam": part.lam,
                "gamma": kernel.gamma,
                "share": share,
            }
            for part in machine.parts_of()
            for share, kernel, _, _ in part.terms
        ],
        "exponent_shares": [float(v) for v in model.node_importances.sum(0)],
        "importance": None if model.importance is None else model.importance.told,
        "plain": all(kernel.is_plain for _, kernel, _, _ in machine.terms),
        "tried": [event.candidate for event in of_kind(model.history, Judged)],
        "chosen": None if chosen is None else list(chosen.candidates),
        "leaves": None if leaves is None else leaves.words,
        "losses": None if losses is None else losses.words,
        "compressed": None if small is None else small.words,
        "bounds": None if bounds is None else list(bounds.words),
        "compact": training is None,
        "single": single,
    }


def _shown(value: Scalar) -> Scalar:
    """A class in a summary, whose whole numbers have 64 bits with a sign."""
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def _blob(saved: Saved, summary: dict[str, Any], note: dict[str, str]) -> bytearray:
    from safetensors.numpy import save as serialise

    encoder = DocumentWriter()
    try:
        document = encoder(saved)
    except Malformed as reason:
        raise ModelFileError(f"The model cannot be saved: {reason}.") from reason
    parts = {"checksum": BLANK, "schema": SCHEMA, "versions": versions(), "note": note}
    text = _dumps({**parts, "summary": summary, "model": document})
    if len(text) > LONGEST_HEADER // 2:
        raise ModelFileError(
            f"The model's description has {len(text) / 1e6:.0f} million characters, most of them names of categories, "
            "and a file takes 50 million; leave out columns with nearly as many categories as rows."
        )
    if entries(text) > MOST_ENTRIES:
        raise ModelFileError(
            f"The model's description has {entries(text) / 1e6:.0f} million entries, most of them categories, and a "
            f"file takes {MOST_ENTRIES / 1e6:.0f} million; leave out columns with nearly as many categories as rows."
        )
    blob = bytearray(serialise(encoder.arrays, {"hgk": text}))
    blob[digits(blob)] = checksum(blob).encode()
    return blob


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def versions() -> dict[str, str]:
    """Of hgk and of what its numbers depend on."""
    from hgk import __version__

    by_package = {"hgk": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scikit-learn"):
        with suppress(importlib.metadata.PackageNotFoundError):
            by_package[package] = importlib.metadata.version(package)
    return by_package


# ----------------------------------------------------------------------------------------------------- loading


def load(path: str | os.PathLike) -> HGKEstimator:
    """The model that :func:`save` wrote; anything else is a ModelFileError of one sentence.

    Predictions, intervals, probabilities and importances are those of the saved model, bit for bit on the same
    machine and versions. Nothing in the file is executed.
    """
    blob, description = opened(path)
    from safetensors.numpy import load as deserialise

    try:
        arrays = deserialise(bytes(blob))
    except Exception as error:  # of safetensors: places that overlap, shapes that do not fit
        raise damaged(path, f"its arrays cannot be read: {one_line(error)}") from error
    try:
        saved: Saved = DocumentReader(arrays)(description["model"], Saved, "model")
        return saved.restored()
    except Malformed as reason:
        raise damaged(path, str(reason)) from reason
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise damaged(path, one_line(error)) from error


def describe(path: str | os.PathLike) -> dict[str, Any]:
    """Summary, versions, note, schema, parameters and size of a model file, without making the model."""
    blob, description = opened(path)
    told = {name: description.get(name) for name in ("schema", "versions", "note", "summary")}
    return {**told, "bytes": len(blob), "checksum": bytes(blob[digits(blob)]).decode()}
