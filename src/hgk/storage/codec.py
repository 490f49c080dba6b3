"""Objects as JSON and named arrays, and back: only classes that were declared, every value checked against its type.

    None, bool, int, float (finite), str     themselves
    list, tuple                              [...]
    mapping                                  {"pairs": [[key, value], ...]}
    array, tensor                            {"array": name}, with "order": "F" where columns lie together
    storable object                          {"type": name of the class, field: value, ...}

``DocumentWriter`` walks an object; ``DocumentReader`` walks a type: it builds what the type allows and nothing else, so
that a document decides about values, never about code. Where the type is a class, the document may name it or a
subclass of it that is :func:`hgk.storable.storable`; where it is ``Any``, a plain value, an array, or any storable
object. Fields that a document lacks take their defaults; that is how a class may grow without a new schema.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

from hgk.storable import KNOWN, Malformed

# What may be in an array; everything else is refused on the way out and on the way in.
DTYPES = {"float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"}


class DocumentWriter:
    """Collects arrays under the names of the places where they were met first; an array met twice is kept once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._known: dict[tuple, dict[str, str]] = {}
        self._alive: list[np.ndarray] = []  # an address means something only while its array lives

    def __call__(self, value: Any, place: str = "") -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Malformed(f"{place} is {value}; only finite numbers are kept")
            return float(value)
        if isinstance(value, torch.Tensor):
            return self._array(value.detach().cpu().numpy(), place)
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if KNOWN.get(type(value).__name__) is type(value):
            parts = {f.name: self(getattr(value, f.name), f"{place}.{f.name}") for f in stored(type(value))}
            return {"type": type(value).__name__, **parts}
        if isinstance(value, Mapping):
            return {"pairs": [[self(k, place), self(v, f"{place}.{k}")] for k, v in value.items()]}
        if isinstance(value, list | tuple | set | frozenset | range):
            return [self(v, f"{place}.{i}") for i, v in enumerate(value)]
        raise Malformed(f"{place} is a {type(value).__name__}, which has no form in the file")

    def _array(self, array: np.ndarray, place: str) -> dict[str, str]:
        if array.dtype.name not in DTYPES:
            raise Malformed(f"{place} is an array of {array.dtype}, which has no form in the file")
        key = array.ctypes.data, array.shape, array.strides, array.dtype.str
        if key not in self._known:
            self._alive.append(array)
            name = place.lstrip(".")
            # Products round differently for rows and for columns that lie together; the order is kept.
            by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
            self.arrays[name] = np.ascontiguousarray(array.T if by_columns else array)
            self._known[key] = {"array": name, "order": "F"} if by_columns else {"array": name}
        return self._known[key]


class DocumentReader:
    """``decoder(document, type)`` for the ``arrays`` of one file."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays
        self._known: dict[tuple[str, str, type], Any] = {}

    def __call__(self, document: Any, hint: Any, place: str = "") -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in (Any, object):
            return self._anything(document, place)
        if origin in (Union, types.UnionType):
            return self._one_of(document, arguments, place)
        if hint is None or hint is types.NoneType:
            return self._plain(document, types.NoneType, place)
        if origin in (tuple, list):
            return self._sequence(document, origin, arguments, place)
        if origin is dict:
            return self._mapping(document, arguments, place)
        if hint in (np.ndarray, torch.Tensor):
            return self._array(document, hint, place)
        if hint in (bool, int, float, str):
            return self._plain(document, hint, place)
        return self._object(document, hint, place)

    def _plain(self, document: Any, kind: Any, place: str) -> Any:
        if kind is float and type(document) is int and abs(document) < 2**53:
            document = float(document)
        if type(document) is not kind or (isinstance(document, float) and not math.isfinite(document)):
            raise Malformed(f"{place} is {_short(document)} where {_name(kind)} is expected")
        if isinstance(document, int) and abs(document) >= 2**63:
            raise Malformed(f"{place} is a whole number of more than 64 bits")
        return document

    def _anything(self, document: Any, place: str) -> Any:
        if isinstance(document, list):
            return [self._anything(part, f"{place}.{i}") for i, part in enumerate(document)]
        if isinstance(document, dict) and "pairs" in document:
            return self._mapping(document, (Any, Any), place)
        if isinstance(document, dict) and "array" in document:
            return self._array(document, np.ndarray, place)
        if isinstance(document, dict):
            return self._object(document, object, place)
        return self._plain(document, type(document), place)

    def _one_of(self, document: Any, kinds: Sequence[Any], place: str) -> Any:
        if document is None and types.NoneType in kinds:
            return None
        named = [kind for kind in kinds if isinstance(kind, type) and _meant(document, kind)]
        reasons = []
        for kind in named or kinds:
            try:
                return self(document, kind, place)
            except Malformed as reason:
                reasons.append(str(reason))
        raise Malformed(reasons[0] if named else f"{place} is {_short(document)}, which is not expected there")

    def _sequence(self, document: Any, origin: type, arguments: Sequence[Any], place: str) -> Any:
        if type(document) is not list:
            raise Malformed(f"{place} is {_short(document)} where a list is expected")
        if origin is list or (len(arguments) == 2 and arguments[1] is Ellipsis):
            kinds = [arguments[0]] * len(document)
        else:
            kinds = list(arguments)
        if len(kinds) != len(document):
            raise Malformed(f"{place} has {len(document)} entries where {len(kinds)} are expected")
        return origin(self(v, kind, f"{place}.{i}") for i, (v, kind) in enumerate(zip(document, kinds, strict=True)))

    def _mapping(self, document: Any, arguments: Sequence[Any], place: str) -> dict:
        if not (isinstance(document, dict) and set(document) == {"pairs"}):
            raise Malformed(f"{place} is {_short(document)} where named entries are expected")
        pairs = self(document["pairs"], list[tuple[arguments]], place)  # type: ignore[valid-type]
        if len({key for key, _ in pairs}) != len(pairs):
            raise Malformed(f"{place} names an entry twice")
        return dict(pairs)

    def _array(self, document: Any, kind: type, place: str) -> Any:
        name = document.get("array") if isinstance(document, dict) else None
        if not isinstance(name, str) or name not in self.arrays or document.get("order", "F") != "F":
            raise Malformed(f"{place} names no array of the file")
        key = name, document.get("order", "C"), kind
        if key not in self._known:  # an array named twice is one array, as it was
            array: Any = np.array(self.arrays[name])  # writeable, in memory of its own
            if kind is torch.Tensor:
                # cloned: torch's memory is aligned as when the tensor was computed, and rounding may depend on it
                array = torch.from_numpy(array).clone()
            self._known[key] = array.T if "order" in document else array
        return self._known[key]

    def _object(self, document: Any, hint: Any, place: str) -> Any:
        kind = _meant(document, hint)
        if kind is None:
            raise Malformed(f"{place} is {_short(document)} where {_name(hint)} is expected")
        known: dict[str, Field] = {f.name: f for f in stored(kind)}
        given = {name: value for name, value in document.items() if name != "type"}
        strange = set(given) - set(known)
        lacking = [n for n, f in known.items() if n not in given and f.default is MISSING is f.default_factory]
        if strange or lacking:
            raise Malformed(f"{place} has unknown or lacks known entries: {_short(sorted(strange) + lacking)}")
        hints = _hints(kind)
        parts = {name: self(value, hints[name], f"{place}.{name}".lstrip(".")) for name, value in given.items()}
        if hasattr(kind, "check_parts"):
            kind.check_parts(parts)
        try:
            return kind(**parts)
        except (ValueError, TypeError) as error:  # of a class that checks its own fields
            raise Malformed(f"{place} is refused: {error}") from error


_hints = cache(get_type_hints)


def stored(kind: Any) -> list[Field]:
    """The fields that a file holds: all but those of a working object."""
    return [f for f in fields(kind) if not f.metadata.get("working")]


def _meant(document: Any, hint: type) -> type | None:
    """The storable class that a document names, if one is expected here."""
    kind = KNOWN.get(str(document.get("type"))) if isinstance(document, dict) else None
    return kind if kind is not None and issubclass(kind, hint) else None


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
