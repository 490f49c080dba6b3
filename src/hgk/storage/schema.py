"""The form of a model file: header, description, checksum; and what is told without the model.

    8 bytes         length of the header, little endian
    header          JSON: {"__metadata__": {"hgk": description}, array: {dtype, shape, offsets}, ...}
    body            the arrays, one after the other

    description     {"checksum", "schema", "versions", "note", "summary", "model"} as JSON text

The checksum is the SHA-256 of the whole file with the 64 digits of the checksum set to 0. A file is opened in this
order, and each step relies on those before it alone: a regular file, size against memory, first bytes, length of the
header, number of entries, schema, size against the header, checksum, types of what is told without the model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from hgk.arrays import available_memory, gibibytes
from hgk.model import MEASURES
from hgk.storable import Malformed, expect
from hgk.storage.atomic import open_regular
from hgk.storage.codec import DocumentReader
from hgk.storage.upgrades import SCHEMA, upgraded
from hgk.texts import SentenceError

Scalar = str | bool | int | float
# What every file has at byte 8; 64 digits follow.
BEGINNING = b'{"__metadata__":{"hgk":"{\\"checksum\\": \\"'
BLANK = "0" * 64
# safetensors' own bound on a header.
LONGEST_HEADER = 100_000_000
# Entries of a description, counted by what separates them: thousands, and one for each category.
MOST_ENTRIES = 5_000_000
# Bytes that one of them takes at most once it is read.
PER_ENTRY = 120


class ModelFileError(SentenceError):
    """A model that cannot be written, or a file that is not one; the message is one sentence."""


def is_model(file: BinaryIO) -> bool:
    """Whether an opened file begins as a model file does."""
    return file.read(8 + len(BEGINNING))[8:] == BEGINNING


# ----------------------------------------------------------------------------------------------------- opening


def opened(path: str | os.PathLike) -> tuple[bytearray, dict[str, Any]]:
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
        raise damaged(path, "its description cannot be read") from error
    if type(schema) is int and schema > SCHEMA:
        from hgk import __version__

        raise ModelFileError(
            f"{path} was written by a newer hgk ({writer}, schema {schema}); this is hgk {__version__}, which reads "
            f"schemas up to {SCHEMA}, so upgrade hgk."
        )
    if len(blob) != body:
        raise damaged(path, f"it has {len(blob)} bytes and should have {body}")
    if bytes(blob[digits(blob)]) != checksum(blob).encode():
        raise damaged(path, "its checksum does not fit its content")
    if type(schema) is not int or not isinstance(description.get("model"), dict):
        raise damaged(path, "its description is not one")
    try:
        description = upgraded(description, schema)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, f"it has the unknown schema {schema}") from error
    try:
        check_description(description)
    except Malformed as reason:
        raise damaged(path, str(reason)) from reason
    return blob, description


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
        raise damaged(path, f"it has {len(blob)} bytes and its header alone should have {length}")
    _check_entries(path, blob[8 : 8 + length])
    try:
        header = json.loads(blob[8 : 8 + length].decode(), parse_constant=_no_constant)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        kinds = {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}
        body = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise damaged(path, "its header cannot be read") from error
    if not kinds <= {"F64", "F32", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}:
        raise damaged(path, "its arrays are of kinds that no model has")
    return header, body


def entries(text: str | bytearray) -> int:
    """At least as many as JSON has values, before it is read."""
    if isinstance(text, str):
        return text.count(",") + text.count("[") + text.count("{")
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _check_entries(path: str | os.PathLike, text: str | bytearray) -> None:
    count = entries(text)
    if count > MOST_ENTRIES or count * PER_ENTRY > available_memory():
        raise damaged(path, f"it has {count / 1e6:.1f} million entries, more than any model or than memory takes")


def digits(blob: bytearray) -> slice:
    """Where the checksum stands; it is the first thing of the description."""
    start = 8 + len(BEGINNING)
    return slice(start, start + len(BLANK))


def checksum(blob: bytearray) -> str:
    place, view = digits(blob), memoryview(blob)
    total = hashlib.sha256(view[: place.start])
    total.update(BLANK.encode())
    total.update(view[place.stop :])
    return total.hexdigest()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def damaged(path: str | os.PathLike, reason: str) -> ModelFileError:
    return ModelFileError(
        f"{path} is damaged or was altered ({reason[:200]}); take another copy, or save the model again."
    )


# ------------------------------------------------------------------------------- what is told without the model


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
    "chosen": list[str] | None,
    "compact": bool,
    "single": bool,
}
LATER: Fields = {
    "loss": str,
    "plain": bool,
    "tried": list[str],
    "leaves": str | None,
    "losses": str | None,
    "compressed": str | None,
    "bounds": list[str] | None,
}
IMPORTANCE: Fields = {"unit": str, "rows": int, "repeats": int}
IMPORTANCE_OF_COLUMN: Fields = dict.fromkeys(("importance", "mean", "error", "spread"), float)


def _typed(document: Any, fields: Fields, place: str, only_given: bool = False) -> dict[str, Any]:
    """A mapping, whose entries of these names have these types."""
    if not isinstance(document, dict):
        raise Malformed(f"{place} is not a list of named entries")
    decoder = DocumentReader({})
    for name, kind in fields.items():
        if name in document:
            decoder(document[name], kind, f"{place}.{name}")
        elif not only_given:
            raise Malformed(f"{place} lacks {name}")
    return document


def check_description(description: dict[str, Any]) -> None:
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
    if summary.get("importance") is not None:
        told = _typed(summary["importance"], IMPORTANCE, "summary.importance")
        for column in _typed(told.get("columns"), {}, "summary.importance.columns").values():
            _typed(column, IMPORTANCE_OF_COLUMN, "summary.importance.columns")
    if summary.get("error") is not None:
        error = _typed(summary["error"], ERROR, "summary.error")
        _typed(error, MEASURED, "summary.error", only_given=True)
        expect(error.get("risk") is None or error["risk"] >= 0, "summary.error is negative")
