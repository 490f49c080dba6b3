"""A fitted model as one file, and back: safetensors, with a JSON description in its metadata.

    8 bytes         length of the header, little endian
    header          JSON: {"__metadata__": {"hgk": description}, array: {dtype, shape, offsets}, ...}
    body            the arrays, one after the other

    description     {"checksum", "schema", "versions", "note", "summary", "model"} as JSON text

The checksum is the SHA-256 of the whole file with the 64 digits of the checksum set to 0. ``model`` is the encoded
:class:`Fitted` (see :mod:`hgk.storage.codec`); nothing in a file is ever executed. A file is written beside its place
and renamed, so that at any time there is the old file or the new one. The same model gives the same bytes.

A file is opened in this order, and each step relies on those before it alone: a regular file, size against memory,
first bytes, length of the header, number of entries, schema, size against the header, checksum, types of what is told
without the model, arrays (by safetensors, which checks their places), types of all values, agreement of all shapes.
Newer versions of hgk read older schemas: ``UPGRADES[s]`` turns a description of schema s into one of schema s + 1.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from hgk.arrays import available_memory, gibibytes
from hgk.estimators import HGKClassifier, HGKQuantileRegressor, HGKRegressor
from hgk.inputs.table import Inputs, Scaling, taken_for
from hgk.insight import verdict
from hgk.insight.errors import MEASURES
from hgk.losses import LeastSquares, Pinball
from hgk.machines.base import Exact, OnCentres, Rows, average
from hgk.progress import tried_kinds
from hgk.search.problems import OfLoss
from hgk.storable import KNOWN, Malformed, expect, real, storable, vector
from hgk.storage.codec import DTYPES, Decoder, Encoder
from hgk.targets.calibration import Calibration, Coupling

SCHEMA = 4
# In 1 no machines shared their coefficients; in 2 none had levels, a power for the few values of a label; in 3 copies
# of a row were not counted, and calibrations had no power. What was added since has defaults.
UPGRADES: dict[int, Callable[[dict], dict]] = {schema: lambda description: description for schema in range(1, SCHEMA)}
Model = HGKRegressor | HGKQuantileRegressor | HGKClassifier
ESTIMATORS: dict[str, type[Model]] = {
    "HGKRegressor": HGKRegressor,
    "HGKQuantileRegressor": HGKQuantileRegressor,
    "HGKClassifier": HGKClassifier,
}

# What every file has at byte 8; 64 digits follow.
BEGINNING = b'{"__metadata__":{"hgk":"{\\"checksum\\": \\"'
BLANK = "0" * 64
# safetensors' own bound on a header.
LONGEST_HEADER = 100_000_000
# Entries of a description, counted by what separates them: thousands, and one for each category.
MOST_ENTRIES = 5_000_000
# Bytes that one of them takes at most once it is read.
PER_ENTRY = 120
# Events kept of one run of steps.
STEPS_KEPT = 50
# How much single-precision rows may change a prediction, labels being scaled to [-1, 1].
TOLERANCE = 1e-4


# Control characters, marks of direction, and halves of characters, which some terminals obey or cannot show.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, keep: str = "") -> str:
    r"""A text that may come from anybody, for a terminal: what could steer it is written as \x1b or \u202e.

    Examples
    --------
    >>> from hgk.storage.files import printable
    >>> print(printable("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return STEERING.sub(lambda c: c[0] if c[0] in keep else c[0].encode("unicode_escape").decode(), str(text))


class ModelFileError(ValueError):
    """A model that cannot be written, or a file that is not one; the message is one sentence."""

    def __init__(self, text: str):
        super().__init__(printable(text))


# ----------------------------------------------------------------------------------------- what is in a file

Scalar = str | bool | int | float
Machines = tuple[Exact | OnCentres | OfLoss, ...]


@storable
@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit leaves, without what can be computed from it; the last four are not in a compact file."""

    estimator: str
    parameters: dict[str, Any]
    forgotten: tuple[str, ...]  # parameters that have no form in a file, such as a callback
    inputs: Inputs
    names: tuple[str, ...] | None  # feature_names_in_
    single_column: bool
    machines: Machines
    node_importances: np.ndarray
    history: list[dict]
    y_scaling: Scaling | None = None
    classes: np.ndarray | tuple[Scalar, ...] | None = None
    text_dtype: str | None = None  # of classes that are no array here
    calibration: Calibration | Coupling | None = None
    offsets: np.ndarray | None = None  # of quantile levels
    rows: Rows | None = None
    X_fit: np.ndarray | None = None
    place: np.ndarray | None = None
    left_out: np.ndarray | None = None

    @classmethod
    def of(cls, model: Model) -> Fitted:
        # The device is of the machine, not of the model: a file from one with an accelerator serves on one without.
        own = {name: value for name, value in model.get_params(deep=False).items() if name != "device"}
        parameters, forgotten = _storable(own)
        names = getattr(model, "feature_names_in_", None)
        classes = getattr(model, "classes_", None)
        kind = None if classes is None or classes.dtype.name in DTYPES else classes.dtype.str
        full = model._rows is not None
        return cls(
            estimator=type(model).__name__,
            parameters=parameters,
            forgotten=tuple(forgotten),
            inputs=model._inputs,
            names=None if names is None else tuple(map(str, names)),
            single_column=model._single_column,
            machines=cast(Machines, tuple(replace(m, kernel=replace(m.kernel, inputs=None)) for m in model.machines_)),
            node_importances=model.node_importances_,
            history=condensed(model.history_),
            y_scaling=getattr(model, "_y_scaling", None),
            classes=classes if classes is None or kind is None else tuple(classes.tolist()),
            text_dtype=kind if kind is None or "U" in kind else "|O",
            offsets=model._offsets if isinstance(model, HGKQuantileRegressor) else None,
            calibration=model._calibration() if isinstance(model, HGKClassifier) else None,
            rows=model._rows,
            X_fit=model.X_fit_ if full else None,
            place=model._place if full else None,
            left_out=model._left_out if full else None,
        )

    def compact(self) -> Fitted:
        """Without what only leave-one-out and intervals need."""

        def bare(machine):
            if isinstance(machine, OfLoss):
                return replace(machine, parts=(), held_out=None, aside=None)
            return replace(machine, parts=(), portions=()) if isinstance(machine, Exact) else machine

        return replace(self, machines=tuple(map(bare, self.machines)), rows=None, X_fit=None, place=None, left_out=None)

    def single(self) -> tuple[Fitted, float]:
        """With the machines' rows in single precision, and how much that changes predictions of some of them."""
        at = self.machines[0].X[:: max(1, len(self.machines[0].X) // 500)]
        before = average(self.machines, at, self.machines[0].clip)
        rounded: dict[int, torch.Tensor] = {}
        machines = tuple(replace(m, X=rounded.setdefault(id(m.X), m.X.float())) for m in self.machines)
        after = average(tuple(replace(m, X=m.X.double()) for m in machines), at, self.machines[0].clip)
        return replace(self, machines=machines), float((after - before).abs().max())

    def model(self) -> Model:
        """The estimator, as it was after its fit."""
        model = ESTIMATORS[self.estimator](**self.parameters)
        model.n_features_in_ = len(self.inputs.reader.names)
        if self.names is not None:
            model.feature_names_in_ = np.array(self.names, dtype=object)
        model._inputs, model._single_column = self.inputs, self.single_column
        doubles: dict[int, torch.Tensor] = {}
        model.machines_ = [replace(m, X=doubles.setdefault(id(m.X), m.X.double())) for m in self.machines]
        model.history_ = self.history
        model.node_importances_ = self.node_importances
        model._kept = {}
        if isinstance(model, HGKClassifier):
            classes = self.classes
            known = isinstance(classes, np.ndarray)
            model.classes_ = cast(np.ndarray, classes) if known else _texts(classes, self.text_dtype)
            model._kept["calibration"] = self.calibration
            if model._pairs and isinstance(self.calibration, Calibration):  # before schema 4: votes
                model._kept["calibration"] = Coupling(1.0)
        else:
            model._y_scaling = cast(Scaling, self.y_scaling)
        if isinstance(model, HGKQuantileRegressor):
            model._offsets = cast(np.ndarray, self.offsets)
            model.quantiles_ = np.atleast_1d(cast(Any, self.machines[0]).loss.tau)
        model._rows, model._place, model._left_out = self.rows, cast(Any, self.place), cast(Any, self.left_out)
        if self.X_fit is not None:
            model.X_fit_ = self.X_fit
        model._derive()
        return model


def _storable(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters that have a form in a file, and the names of the others."""
    kept: dict[str, Any] = {n: list(value) if isinstance(value, tuple) else value for n, value in parameters.items()}
    if isinstance(kept.get("groups"), Mapping):
        kept["groups"] = {name: list(group) for name, group in kept["groups"].items()}
    forgotten = []
    for name, value in list(kept.items()):
        encoder = Encoder()
        try:
            Decoder(encoder.arrays)(json.loads(_dumps(encoder(value))), Any)
        except Malformed:
            forgotten.append(name)
            del kept[name]
    return kept, forgotten


def condensed(history: Sequence[Mapping[str, Any]], most: int = STEPS_KEPT) -> list[dict]:
    """The events, of every run of steps at most ``most``, evenly spaced, with the first and the last."""
    runs: dict[tuple, list[int]] = {}
    for i, event in enumerate(history):
        tags = tuple(str(event.get(tag)) for tag in ("stage", "candidate", "architecture", "fold"))
        runs.setdefault(tags, []).append(i)
    kept = [run[i] for run in runs.values() for i in np.unique(np.linspace(0, len(run) - 1, most).round().astype(int))]
    return [dict(history[i]) for i in sorted(kept)]


# ------------------------------------------------------------------------------------------------------ saving


def save(
    model: Model,
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
        Leave out what predictions do not need: training labels, weights, and beyond 10,000 rows all rows but the
        centres. ``predict_interval`` and ``loo_predictions_`` of the loaded model then say so. The rows of an exact
        machine stay; its function is a sum over them.
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
    if type(model).__name__ not in ESTIMATORS or type(model) is not ESTIMATORS[type(model).__name__]:
        raise ModelFileError(
            f"A {type(model).__name__} was given; save takes a fitted {' or '.join(ESTIMATORS)}; for a pipeline use "
            "joblib."
        )
    if not hasattr(model, "machines_"):
        raise ModelFileError(f"This {type(model).__name__} is not fitted yet; call fit before save.")
    loss = getattr(model.machines_[0], "loss", None)
    if loss is not None and KNOWN.get(type(loss).__name__) is not type(loss):
        raise ModelFileError(
            f"The model's loss is a {type(loss).__name__}, which a file cannot hold; declare it by hgk.storable, use "
            "joblib, or use one of hgk.losses."
        )
    if single and not compact:
        raise ModelFileError(
            "single=True was given without compact=True; rounded rows serve predictions only, so give both."
        )
    note = dict(note or {})
    if not all(isinstance(text, str) for pair in note.items() for text in pair):
        raise ModelFileError(f"note={note!r} was given; a dict of texts to texts is expected.")
    if not force and _holds_something_else(path):
        raise ModelFileError(
            f"{path} exists and is not a model file of hgk; give another name, or force=True to replace it."
        )
    fitted = Fitted.of(model)
    if compact:
        fitted = fitted.compact()
    if single:
        fitted, change = fitted.single()
        if change > TOLERANCE:
            raise ModelFileError(
                f"Rows in single precision would change predictions by up to {change:.1g} of half the labels' range, "
                f"more than {TOLERANCE:g}; save without single."
            )
    blob = _blob(fitted, _summary(fitted, compact, single) | {"error": verdict(model)}, note)
    write_atomically(path, lambda file: file.write(blob))


def _holds_something_else(path: str | os.PathLike) -> bool:
    """Whether there is a file with content that is no model's; what cannot be looked at is refused by the writing."""
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size > 0 and not is_model(file)
    except (OSError, ValueError, TypeError):
        return False


def is_model(file: BinaryIO) -> bool:
    """Whether an opened file begins as a model file does."""
    return file.read(8 + len(BEGINNING))[8:] == BEGINNING


def _summary(fitted: Fitted, compact: bool, single: bool) -> dict[str, Any]:
    """What a person wants to know without loading the model."""
    first, names = fitted.machines[0], fitted.inputs.reader.names
    return {
        "estimator": fitted.estimator,
        "loss": type(getattr(first, "loss", LeastSquares())).__name__,
        "columns": list(names),
        "taken_for": taken_for(fitted.inputs),
        "rows": None if fitted.place is None else len(fitted.place),
        "distinct_rows": None if fitted.rows is None else len(fitted.rows),
        "outputs": 1 if first.levels is not None else int(first.alpha.shape[1]),
        "classes": None if fitted.classes is None else [_shown(c) for c in np.asarray(fitted.classes).tolist()],
        "machines": [
            {
                "kind": type(m).__name__,
                "rows": len(m.X),
                "nodes": len(m.kernel.architecture.coordinates),
                "lam": m.lam,
                "gamma": m.kernel.gamma,
                "share": m.share,
            }
            for m in fitted.machines
        ],
        "importances": [float(v) for v in fitted.node_importances.sum(0)],
        "plain": all(m.kernel.is_plain for m in fitted.machines),
        "tried": tried_kinds(fitted.history),
        "chosen": next((e.get("candidates") for e in reversed(fitted.history) if e.get("stage") == "chosen"), None),
        "compact": compact or fitted.rows is None,
        "single": single,
    }


def _shown(value: Scalar) -> Scalar:
    """A class in a summary, whose whole numbers have 64 bits with a sign."""
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def _blob(fitted: Fitted, summary: dict[str, Any], note: dict[str, str]) -> bytearray:
    from safetensors.numpy import save as serialise

    encoder = Encoder()
    try:
        # history first: its numbers may be nan, which JSON has not
        document = encoder(replace(fitted, history=[]))
        document["history"] = [_event(event) for event in fitted.history]
    except Malformed as reason:
        raise ModelFileError(f"The model cannot be saved: {reason}.") from reason
    parts = {"checksum": BLANK, "schema": SCHEMA, "versions": versions(), "note": note}
    text = _dumps({**parts, "summary": summary, "model": document})
    if len(text) > LONGEST_HEADER // 2:
        raise ModelFileError(
            f"The model's description has {len(text) / 1e6:.0f} million characters, most of them names of categories, "
            "and a file takes 50 million; leave out columns with nearly as many categories as rows."
        )
    if _entries(text) > MOST_ENTRIES:
        raise ModelFileError(
            f"The model's description has {_entries(text) / 1e6:.0f} million entries, most of them categories, and a "
            f"file takes {MOST_ENTRIES / 1e6:.0f} million; leave out columns with nearly as many categories as rows."
        )
    blob = bytearray(serialise(encoder.arrays, {"hgk": text}))
    blob[_digits(blob)] = _checksum(blob).encode()
    return blob


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values only; nan becomes null."""

    def plain(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return [plain(v) for v in value] if isinstance(value, list | tuple) else value

    kept = {str(k): plain(v) for k, v in event.items()}
    return {k: v for k, v in kept.items() if v is None or isinstance(v, Scalar | list)}


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def versions() -> dict[str, str]:
    """Of hgk and of what its numbers depend on."""
    from hgk import __version__

    found = {"hgk": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scikit-learn"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def write_atomically(path: str | os.PathLike, write: Callable[[BinaryIO], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, see it on disk, then rename it to ``path``.

    Whatever fails on the way (a full disk, Ctrl-C), the old file is unchanged and the new one is removed. Where the
    system has files without a name, the new one has none until it is whole, so that not even a killed process leaves
    a part of it.
    """
    try:
        goal = Path(os.path.realpath(path))  # a link keeps pointing to the file
        goal.exists()
    except (OSError, ValueError, TypeError) as error:  # too long, a zero byte, no path at all
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{str(path)[:60]!r} is no place for a file ({reason}); give the name of one.") from error
    if goal.is_dir() or not goal.parent.is_dir():
        what = "is a folder" if goal.is_dir() else f"has no folder {goal.parent}"
        raise ModelFileError(f"{path} {what}; give the name of a file in a folder that exists.")
    if goal.exists() and not goal.is_file():  # /dev/stdout, a pipe: nothing to replace
        _write_through(path, write)
        return
    part = goal.with_name(f".{goal.name[:50]}.{secrets.token_hex(4)}.part")
    try:
        if not _written_unnamed(part, write):
            with open(part, "xb") as file:
                _write_and_sync(file, write)
        if goal.exists():
            part.chmod(stat.S_IMODE(goal.stat().st_mode))
        os.replace(part, goal)
    except OSError as error:
        raise ModelFileError(
            f"{path} could not be written ({error.strerror or error}) and is as it was before; make room, or choose "
            "another place."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    _sync_folder(goal.parent)


def _write_and_sync(file: BinaryIO, write: Callable[[BinaryIO], Any]) -> None:
    write(file)
    file.flush()
    os.fsync(file.fileno())


def _written_unnamed(part: Path, write: Callable[[BinaryIO], Any]) -> bool:
    """Write a file that gets the name ``part`` when it is whole, where system and file system can."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        handle = os.open(part.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        return False
    with open(handle, "wb") as file:
        _write_and_sync(file, write)
        with suppress(OSError):
            folder = os.open(part.parent, os.O_RDONLY)
            try:  # with a folder, since only then Python asks the system to follow the link in /proc
                os.link(f"/proc/self/fd/{handle}", part, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
    return part.exists()


def _write_through(path: str | os.PathLike, write: Callable[[BinaryIO], Any]) -> None:
    try:
        with open(path, "wb") as file:
            write(file)
    except OSError as error:
        raise ModelFileError(
            f"{path} could not be written ({error.strerror or error}); make room, or choose another place."
        ) from error


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power cut; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ----------------------------------------------------------------------------------------------------- opening


def load(path: str | os.PathLike) -> Model:
    """The model that :func:`save` wrote; anything else is a ModelFileError of one sentence.

    Predictions, intervals, probabilities and importances are those of the saved model, bit for bit on the same
    machine and versions. Nothing in the file is executed.
    """
    blob, description = _opened(path)
    from safetensors.numpy import load as deserialise

    try:
        arrays = deserialise(bytes(blob))
    except Exception as error:  # of safetensors: places that overlap, shapes that do not fit
        raise _damaged(path, f"its arrays cannot be read: {_one_line(error)}") from error
    try:
        document = dict(description["model"])
        history = _history(document.pop("history", []))
        fitted: Fitted = Decoder(arrays)({**document, "history": []}, Fitted, "model")
        _check(fitted)
        return replace(fitted, history=history).model()
    except Malformed as reason:
        raise _damaged(path, str(reason)) from reason
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError, RuntimeError) as error:
        raise _damaged(path, _one_line(error)) from error


def describe(path: str | os.PathLike) -> dict[str, Any]:
    """Summary, versions, note, schema, parameters and size of a model file, without making the model."""
    blob, description = _opened(path)
    found = {name: description.get(name) for name in ("schema", "versions", "note", "summary")}
    return {**found, "bytes": len(blob), "checksum": bytes(blob[_digits(blob)]).decode()}


def _opened(path: str | os.PathLike) -> tuple[bytearray, dict[str, Any]]:
    """The bytes, which the checksum confirms, and the description, brought to the present schema."""
    blob = _bytes(path)
    beginning = blob[8 : 8 + len(BEGINNING)]
    if not beginning or not BEGINNING.startswith(beginning):  # of a file that is cut off, fewer bytes are there
        raise ModelFileError(f"{path} is not a model file of hgk; give one that hgk.save or `hgk fit` wrote.")
    header, body = _header(path, blob)
    try:
        text = header["__metadata__"]["hgk"]
        _check_entries(path, text)
        description = json.loads(text, parse_constant=_no_constant)
        schema = description["schema"]
        writer = str(description["versions"]["hgk"])[:20]
    except ModelFileError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _damaged(path, "its description cannot be read") from error
    if type(schema) is int and schema > SCHEMA:
        from hgk import __version__

        raise ModelFileError(
            f"{path} was written by a newer hgk ({writer}, schema {schema}); this is hgk {__version__}, which reads "
            f"schemas up to {SCHEMA}, so upgrade hgk."
        )
    if len(blob) != body:
        raise _damaged(path, f"it has {len(blob)} bytes and should have {body}")
    if bytes(blob[_digits(blob)]) != _checksum(blob).encode():
        raise _damaged(path, "its checksum does not fit its content")
    if type(schema) is not int or not isinstance(description.get("model"), dict):
        raise _damaged(path, "its description is not one")
    try:
        for version in range(schema, SCHEMA):
            description = UPGRADES[version](description)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"it has the unknown schema {schema}") from error
    try:
        _check_description(description)
    except Malformed as reason:
        raise _damaged(path, str(reason)) from reason
    return blob, description


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """A regular file, opened for reading; an OSError for anything else, such as a pipe that nobody writes to."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _bytes(path: str | os.PathLike) -> bytearray:
    """The file in memory, if it is a file and there is room for it."""
    try:
        if "\0" in str(path):
            raise ModelFileError(f"{str(path)!r} has a zero byte; give the name of a file that hgk.save wrote.")
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if 3 * size > available_memory():
                raise ModelFileError(
                    f"{path} has {gibibytes(size)}, and loading it needs three times as much memory, which is not "
                    "free; use a larger machine, raise HGK_MEMORY, or save the model with compact=True."
                )
            return bytearray(file.read(size))
    except (OSError, TypeError) as error:  # TypeError: of what is no path
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{path} cannot be read ({reason}); give a file that hgk.save wrote.") from error


def _header(path: str | os.PathLike, blob: bytearray) -> tuple[dict[str, Any], int]:
    """The header, and the size that the file should have by it."""
    length = int.from_bytes(blob[:8], "little")
    if length > min(LONGEST_HEADER, len(blob) - 8):
        raise _damaged(path, f"it has {len(blob)} bytes and its header alone should have {length}")
    _check_entries(path, blob[8 : 8 + length])
    try:
        header = json.loads(blob[8 : 8 + length].decode(), parse_constant=_no_constant)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        kinds = {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}
        body = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise _damaged(path, "its header cannot be read") from error
    if not kinds <= {"F64", "F32", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}:
        raise _damaged(path, "its arrays are of kinds that no model has")
    return header, body


def _entries(text: str | bytearray) -> int:
    """At least as many as JSON has values, before it is read."""
    if isinstance(text, str):
        return text.count(",") + text.count("[") + text.count("{")
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _check_entries(path: str | os.PathLike, text: str | bytearray) -> None:
    entries = _entries(text)
    if entries > MOST_ENTRIES or entries * PER_ENTRY > available_memory():
        raise _damaged(path, f"it has {entries / 1e6:.1f} million entries, more than any model or than memory takes")


def _digits(blob: bytearray) -> slice:
    """Where the checksum stands; it is the first thing of the description."""
    start = 8 + len(BEGINNING)
    return slice(start, start + len(BLANK))


def _checksum(blob: bytearray) -> str:
    digits, view = _digits(blob), memoryview(blob)
    found = hashlib.sha256(view[: digits.start])
    found.update(BLANK.encode())
    found.update(view[digits.stop :])
    return found.hexdigest()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _damaged(path: str | os.PathLike, reason: str) -> ModelFileError:
    return ModelFileError(
        f"{path} is damaged or was altered ({reason[:200]}); take another copy, or save the model again."
    )


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


# ---------------------------------------------------------------------------------------------------- checking


Fields = Mapping[str, Any]  # name -> type

# What a summary tells; LATER where it was written by a version that knew it.
MACHINE: Fields = {"kind": str, "rows": int, "nodes": int, "lam": float, "gamma": float, "share": float}
ERROR: Fields = {"basis": str}
MEASURED: Fields = {"rows": int | None, **dict.fromkeys(MEASURES, float | None)}
SUMMARY: Fields = {
    "estimator": str,
    "columns": list[str],
    "rows": int | None,
    "distinct_rows": int | None,
    "outputs": int,
    "classes": list[Scalar] | None,
    "importances": list[float],
    "chosen": list[str] | None,
    "compact": bool,
    "single": bool,
}
LATER: Fields = {"loss": str, "plain": bool, "tried": list[str]}

# Of an event of a stage, what is read of it; of any event, what names its run. Null is nan.
STAGES: Mapping[str, Fields] = {
    "adam": {"criterion": float | None},
    "watch": {"risk": float | None},
    "algorithm1": {"risk_D2": float | None, "risk_D3": float | None},
    "candidate": {
        "candidate": str,
        "criterion": float | None,
        "honest": float | None,
        "optimism": float | None,
    },
    "chosen": {"candidates": list[str], "risk": float | None},
    "grid": {"risk": float | None},
    "architecture": {"risk": float | None},
    "levels": {"taken": bool, "number": float | None},
    "optimism": {"ratio": float | None},
}
OF_ANY: Fields = {
    "stage": str,
    "candidate": str,
    "architecture": int,
    "fold": int,
    "rows": int,
    "wrong": float | None,
}


def _typed(document: Any, fields: Fields, place: str, only_given: bool = False) -> dict[str, Any]:
    """A mapping, whose entries of these names have these types."""
    if not isinstance(document, dict):
        raise Malformed(f"{place} is not a list of named entries")
    decoder = Decoder({})
    for name, kind in fields.items():
        if name in document:
            decoder(document[name], kind, f"{place}.{name}")
        elif not only_given:
            raise Malformed(f"{place} lacks {name}")
    return document


def _check_description(description: dict[str, Any]) -> None:
    """Everything that is shown without the model."""
    for name in ("versions", "note"):
        texts = _typed(description.get(name), {}, name)
        expect(all(isinstance(text, str) for text in texts.values()), f"{name} holds more than texts")
    summary = _typed(description.get("summary"), SUMMARY, "summary")
    _typed(summary, LATER, "summary", only_given=True)
    expect(isinstance(summary.get("machines"), list), "summary.machines is not a list")
    for machine in summary["machines"]:
        _typed(machine, MACHINE, "summary.machines")
    expect(isinstance(summary.get("taken_for", []), list), "summary.taken_for is not a list")
    for column in summary.get("taken_for", []):
        _typed(column, {"column": str, "words": str}, "summary.taken_for")
    if summary.get("error") is not None:
        error = _typed(summary["error"], ERROR, "summary.error")
        _typed(error, MEASURED, "summary.error", only_given=True)
        expect(error.get("risk") is None or error["risk"] >= 0, "summary.error is negative")


def _history(events: Any) -> list[dict]:
    """A list of flat events; null is nan."""
    if not isinstance(events, list):
        raise Malformed("history is not a list of events")
    return [_told(event) for event in events]


def _told(event: Any) -> dict[str, Any]:
    _typed(event, {"stage": str}, "history")
    _typed(event, OF_ANY, "history", only_given=True)
    _typed(event, STAGES.get(event["stage"], {}), "history")
    expect("architecture" not in event or "fold" in event, "history.architecture is without its fold")
    for name in ("risk", "honest", "number"):
        expect(event.get(name) is None or event[name] >= 0, f"history.{name} is negative")

    def plain(value: Any) -> Any:
        if value is None:
            return math.nan
        if isinstance(value, list):
            return [plain(v) for v in value if not isinstance(v, list)]
        return decoder(value, Scalar, "history")

    decoder = Decoder({})
    return {name: plain(value) for name, value in event.items()}


def _check(fitted: Fitted) -> None:
    """That everything has the shape which everything else expects."""
    expect(fitted.estimator in ESTIMATORS, f"the estimator {fitted.estimator[:40]!r} is unknown")
    known = ESTIMATORS[fitted.estimator]().get_params()
    expect({*fitted.parameters, *fitted.forgotten} <= set(known), "a parameter is unknown")
    ESTIMATORS[fitted.estimator](**fitted.parameters)._check_parameters()
    reader, encoder = fitted.inputs.reader, fitted.inputs.encoder
    d, features = len(reader.names), len(encoder.features)
    expect(d == len(reader.levels) == len(encoder.columns) > 0, "columns and their names differ in number")
    expect(fitted.names is None or len(fitted.names) == d, "columns and their names differ in number")
    expect(len(reader.marks) in (0, d), "columns and their marks differ in number")
    expect(bool(fitted.machines), "there is no machine")
    outputs = fitted.machines[0].alpha.shape[-1]
    for machine in fitted.machines:
        _check_machine(machine, features, outputs, fitted.rows)
    _check_places(fitted.machines)
    nodes = sum(len(machine.kernel.architecture.coordinates) for machine in fitted.machines)
    shares = fitted.node_importances
    expect(shares.shape == (nodes, d) and shares.dtype == np.float64, "the importances do not fit the kernels")
    _check_target(fitted, outputs)
    _check_training(fitted, d, features, outputs)


def _check_machine(machine: Exact | OnCentres | OfLoss, features: int, outputs: int, rows: Rows | None) -> None:
    X, alpha = machine.X, machine.alpha
    expect(X.ndim == alpha.ndim == 2 and len(X) == len(alpha) > 0, "a machine's rows and coefficients differ in number")
    expect(alpha.shape[1] == outputs > 0, "the machines differ in their outputs")
    expect(X.shape[1] == features == machine.kernel.architecture.d, "a machine's rows do not fit its kernel")
    expect(X.dtype in (torch.float64, torch.float32), "a machine's rows are not numbers")
    expect(bool(X.isfinite().all()) and real(alpha), "a machine's rows or coefficients are not finite numbers")
    expect(machine.lam > 0 and machine.share > 0 and machine.ridge_added >= 0, "a machine's λ or share is not positive")
    if machine.levels is not None:
        values = machine.levels.values
        rising = values.ndim == 1 and len(values) > 1 and real(values) and bool((values.diff() > 0).all())
        expect(rising and machine.levels.outputs == outputs, "the values of the label do not fit the outputs")
        expect(0 < machine.levels.power < 1e3 and isinstance(machine, Exact | OnCentres), "the power does not fit")
    if isinstance(machine, OfLoss):
        _check_of_loss(machine, outputs, rows)
    if isinstance(machine, Exact | OfLoss) and rows is not None:
        expect(len(rows) == len(X) and bool(machine.parts), "a machine's rows are not the training rows")
        for part in machine.parts:
            inside = part.ndim == 1 and part.dtype == torch.int64 and len(part) > 0
            expect(inside and 0 <= int(part.min()) <= int(part.max()) < len(X), "a machine's part has unknown rows")
            expect(len(part.unique()) == len(part), "a machine's part has a row twice")
    if isinstance(machine, Exact) and machine.portions and rows is not None:
        expect(len(machine.portions) == len(machine.parts), "a machine's parts and their weights differ in number")
        for part, weight in zip(machine.parts, machine.portions, strict=True):
            expect(weight.shape == part.shape and real(weight), "a machine's part has weights that do not fit")
            expect(bool(((weight > 0) & (weight <= 1.001 * rows.weight[part])).all()), "a part's weights do not fit")


def _check_places(machines: Machines) -> None:
    """Machines that share α follow each other, counted from 0, and differ in their kernels and shares alone."""
    for before, machine in zip((None, *machines), machines, strict=False):
        if isinstance(machine, Exact) and machine.place != 0:
            follows = isinstance(before, Exact) and machine.place == before.place + 1 and _twins(before, machine)
            expect(follows, "machines that share α are not together")


def _twins(one: Exact, other: Exact) -> bool:
    if one.lam != other.lam or len(one.parts) != len(other.parts):
        return False
    pairs = zip((one.alpha, one.X, *one.parts), (other.alpha, other.X, *other.parts), strict=True)
    return all(a is b or torch.equal(a, b) for a, b in pairs)


def _check_of_loss(machine: OfLoss, outputs: int, rows: Rows | None) -> None:
    expect(
        machine.loss is not None and machine.loss.levels in (1, outputs), "a machine's loss does not fit its outputs"
    )
    lams = machine.lams
    expect(len(lams) == outputs and all(lam > 0 for lam in lams) and machine.gap >= 0, "a machine's λ do not fit")
    kept = machine.held_out, machine.aside
    expect((rows is None) == (kept[0] is None) == (kept[1] is None), "a machine's held-out predictions are lacking")
    if rows is not None:
        held_out, aside = cast(tuple[torch.Tensor, torch.Tensor], kept)
        fits = held_out.shape == (len(rows), outputs) and held_out.dtype == torch.float64
        fits = fits and not bool(held_out.isinf().any()) and aside.shape == (len(rows),)
        # truths before schema 4
        fits = fits and (aside.dtype == torch.bool or (real(aside) and bool(((aside >= 0) & (aside <= 1)).all())))
        expect(fits, "a machine's held-out predictions do not fit its rows")


def _columns_of_labels(fitted: Fitted, outputs: int) -> int:
    """Of the rows: one for all quantiles or values, one for each class where pairs of them are the outputs."""
    if fitted.estimator == "HGKQuantileRegressor" or fitted.machines[0].levels is not None:
        return 1
    several = fitted.estimator == "HGKClassifier" and not fitted.single_column
    return len(cast(Any, fitted.classes)) if several else outputs


def _check_target(fitted: Fitted, outputs: int) -> None:
    levels = {None if m.levels is None else (*m.levels.values.tolist(), m.levels.power) for m in fitted.machines}
    expect(len(levels) == 1, "the machines differ in the values of the label")
    if fitted.estimator == "HGKRegressor":
        scaling, outputs = fitted.y_scaling, outputs if levels == {None} else 1
        expect(scaling is not None and fitted.classes is None, "the scaling of the labels is lacking")
        arrays = [cast(Scaling, scaling).middle, cast(Scaling, scaling).half]
        expect(all(vector(a) and len(a) == outputs for a in arrays), "the scaling of the labels does not fit")
        expect(outputs == 1 or not fitted.single_column, "the outputs differ in number")
        return
    expect(levels == {None}, "only a regression has values of the label")
    if fitted.estimator == "HGKQuantileRegressor":
        scaling, loss = fitted.y_scaling, getattr(fitted.machines[0], "loss", None)
        expect(isinstance(loss, Pinball) and loss.levels == outputs, "the levels do not fit the outputs")
        expect(scaling is not None and fitted.classes is None, "the scaling of the labels is lacking")
        arrays = [cast(Scaling, scaling).middle, cast(Scaling, scaling).half]
        expect(all(vector(a) and len(a) == 1 for a in arrays), "the scaling of the labels does not fit")
        expect(fitted.single_column == (outputs == 1), "the outputs differ in number")
        offsets = fitted.offsets
        expect(isinstance(offsets, np.ndarray) and vector(offsets), "the offsets of the levels are lacking")
        expect(len(cast(np.ndarray, offsets)) == outputs, "the offsets do not fit the levels")
        return
    classes = fitted.classes
    expect(classes is not None and fitted.calibration is not None, "classes or calibration are lacking")
    if isinstance(classes, np.ndarray):
        expect(classes.ndim == 1, "the classes are not a list")
    else:
        classes = _texts(classes, fitted.text_dtype)
    count = len(np.unique(classes))
    expect(count == len(classes) > 1, "the classes are not different")
    expect(fitted.single_column == (count == 2), "the classes do not fit the outputs")
    pairs = fitted.parameters.get("multi_class") == "ava"
    several = count * (count - 1) // 2 if pairs else count
    coupled = isinstance(fitted.calibration, Coupling)
    expect(not coupled or (pairs and count > 2), "the calibration does not fit the classes")
    expect(outputs == (1 if count == 2 else several), "the classes do not fit the outputs")


def _texts(classes: Any, kind: str | None) -> np.ndarray:
    """Classes that are no numbers; of a fixed width, which is bounded before that much is allocated."""
    if kind == "|O":
        array = np.empty(len(classes), dtype=object)
        array[:] = classes
        return array
    fixed = re.fullmatch(r"<U(\d{1,7})", kind or "")
    expect(fixed is not None and len(classes) * int(fixed[1]) < 2**26, "the classes are of an unknown kind")
    expect(all(isinstance(text, str) for text in classes), "the classes are not texts")
    return np.array(classes, dtype=kind)


def _check_training(fitted: Fitted, d: int, features: int, outputs: int) -> None:
    """What a compact file lacks, all of it or nothing."""
    kept = fitted.rows, fitted.X_fit, fitted.place, fitted.left_out
    if all(part is None for part in kept):
        return
    expect(all(part is not None for part in kept), "a part of the training rows is lacking")
    rows, X_fit, place, left_out = cast(tuple[Rows, np.ndarray, np.ndarray, np.ndarray], kept)
    n, labels = len(rows), _columns_of_labels(fitted, outputs)
    expect(rows.X.shape == (n, features) and rows.Y.shape == (n, labels), "the training rows do not fit")
    expect(X_fit.shape == (n, d) and X_fit.dtype == np.float64, "the training rows do not fit")
    expect(place.ndim == 1 and place.dtype == np.int64 and len(place) > 0, "the order of the rows is lacking")
    expect(-1 <= place.min() <= place.max() < n, "the order of the rows names unknown ones")
    fits = left_out.shape == (int((place < 0).sum()), features) and left_out.dtype == np.float64
    expect(fits, "the rows without weight do not fit")
