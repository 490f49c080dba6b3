"""Which classes a model file may hold: dataclasses that say so, each under its own name.

A file decides about values, never about code: it names a class, and only one that was declared here can be meant. A
class of yours is declared in the same way, before a file with its objects is read.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TypeVar

import numpy as np
import torch

KNOWN: dict[str, type] = {}

Class = TypeVar("Class", bound=type)


class Malformed(ValueError):
    """A value that cannot be written to a file, or a document that does not fit what is expected in its place."""


def storable(cls: Class) -> Class:
    """Let model files hold objects of this dataclass.

    A class may check its fields before it is made of them, by a class method ``check_parts(parts)``, which gets a dict
    from names to decoded values and raises :class:`Malformed`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from hgk.storable import storable
    >>> @storable
    ... @dataclass(frozen=True)
    ... class Height:
    ...     metres: float
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} was declared storable; a dataclass is expected, so that its fields are known.")
    known = KNOWN.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"{known.__module__} has a storable {cls.__name__} already; give this class another name.")
    KNOWN[cls.__name__] = cls  # the same class, imported anew
    return cls


def expect(holds: bool, what: str) -> None:
    """Raise :class:`Malformed` unless this holds."""
    if not holds:
        raise Malformed(what)


def real(tensor: torch.Tensor) -> bool:
    """Finite numbers in double precision."""
    return tensor.dtype == torch.float64 and bool(tensor.isfinite().all())


def vector(array: np.ndarray) -> bool:
    """A list of finite numbers in double precision."""
    return array.ndim == 1 and array.dtype == np.float64 and bool(np.isfinite(array).all())
