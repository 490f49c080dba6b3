"""Numbers as tensors, and tensors on their way through a pickle or a file of skops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch


def tensor(x, dtype: torch.dtype | None = None) -> torch.Tensor:
    """``x`` as a floating tensor; float32 and float64 are kept, everything else becomes float64."""
    if not isinstance(x, torch.Tensor):
        # from_numpy shares memory: it warns about read-only arrays (joblib's memmaps, say) and refuses
        # negative strides (x[::-1]), which numpy calls contiguous where there is one row.
        x = np.ascontiguousarray(_floats(x))
        x = torch.from_numpy(x if x.flags.writeable and min(x.strides, default=0) >= 0 else x.copy())
    if dtype is None:
        dtype = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float64
    return x.to(dtype)


def _floats(x: Any) -> np.ndarray:
    """As float32 or float64 of this machine's byte order."""
    try:
        array = np.asarray(x)
        return array if array.dtype in (np.float32, np.float64) and array.dtype.isnative else array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"Numbers were expected, and a {type(x).__name__} cannot be read as such "
            f"({' '.join(str(error).split())[:120].rstrip('.')}); give an array of floats."
        ) from error


def row_products(X: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """⟨a, x⟩ row by row, in double precision: to the last bit the same for equal rows, and on every device.

    Terms are added by halves. The order in which a library sums them up would depend on the device.
    """
    terms = X.double() * a
    while (width := terms.shape[1]) > 1:
        half = width // 2
        terms[:, :half] += terms[:, width - half :]
        terms = terms[:, : width - half]
    return terms[:, 0] if terms.shape[1] else X.new_zeros(len(X), dtype=torch.float64)


@dataclass
class Packed:
    """A tensor on its way through a file: skops knows arrays, and tensors can be read only by executing code."""

    array: np.ndarray


def packed(value: Any, memo: dict[int, Packed]) -> Any:
    """The same structure with every tensor packed, a shared one once."""
    if isinstance(value, torch.Tensor):
        return memo.setdefault(id(value), Packed(value.detach().cpu().numpy()))
    return _rebuilt(value, lambda part: packed(part, memo))


def unpacked(value: Any, memo: dict[int, torch.Tensor]) -> Any:
    """The inverse of ``packed``."""
    if isinstance(value, Packed):
        array = value.array if value.array.flags.writeable else value.array.copy()
        return memo.setdefault(id(value), torch.from_numpy(array))
    return _rebuilt(value, lambda part: unpacked(part, memo))


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """Lists, tuples, dicts and our own dataclasses with their parts changed; everything else as it is.

    What a dataclass has computed and kept beside its fields is computed again when it is asked for.
    """
    if type(value) in (list, tuple):
        return type(value)(map(change, value))
    if type(value) is dict:
        return {key: change(part) for key, part in value.items()}
    if is_dataclass(value) and type(value).__module__.startswith("hgk."):
        twin = object.__new__(type(value))
        vars(twin).update({part.name: change(getattr(value, part.name)) for part in fields(value)})
        return twin
    return value
