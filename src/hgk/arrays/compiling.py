"""What numba compiles is kept on disk, where there is a place for it: next to the source, or in the user's cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def compiled_once(**options: Any) -> Callable[[Callable], Any]:
    """``numba.njit`` with these options, whose result other processes find again; numba is imported here."""
    import numba

    def compile_it(function: Callable) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder that can be written to
            return numba.njit(**options)(function)

    return compile_it


def can_be_kept(function: Any) -> bool:
    """Whether there is a place on disk for the machine code of such a function."""
    return function.stats.cache_path is not None


def kept_on_disk(function: Any) -> bool:
    """Whether another process seems to have left it there."""
    name = function.py_func.__qualname__
    return can_be_kept(function) and any(Path(function.stats.cache_path).glob(f"*.{name}-*.nbi"))
