"""Tensors, tiles and memory: the only file that knows where the arrays live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

# Elements of one tile. The sweeps read and write a tile a dozen times, so half of it (each of two
# cores takes half) should stay in a core's second-level cache: 2^17 doubles are 1 MiB.
TILE = 2**17


def tensor(x, dtype: torch.dtype | None = None) -> torch.Tensor:
    """``x`` as a floating tensor; float32 and float64 are kept, everything else becomes float64."""
    if not isinstance(x, torch.Tensor):
        # from_numpy shares memory and so warns about read-only arrays (joblib's memmaps, say).
        x = np.asarray(x)
        x = torch.from_numpy(x if x.flags.writeable else x.copy())
    if dtype is None:
        dtype = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float64
    return x.to(dtype)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most ``size`` that cover ``range(n)``."""
    for start in range(0, n, max(1, size)):
        yield slice(start, min(n, start + size))


def tiles(n: int, m: int, symmetric: bool = False) -> Iterator[tuple[slice, slice]]:
    """Row and column slices of cache-sized tiles; of a symmetric matrix only those on and below the diagonal."""
    if symmetric:
        side = int(TILE**0.5)
        rows = columns = list(blocks(n, side))
    else:
        columns = list(blocks(m, TILE // 64))
        rows = list(blocks(n, TILE // max(1, min(m, TILE // 64))))
    for r in rows:
        for c in columns:
            if not (symmetric and c.start > r.start):
                yield r, c


def available_memory() -> int:
    """Bytes this process may still allocate, as far as the system tells."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(int(fields["MemAvailable"].split()[0]) * 1024)
        ceiling = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if ceiling != "max":
            limits.append(int(ceiling) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, KeyError, ValueError):
        pass  # not Linux, or no control group: the physical memory is all we know
    return min(limits)


def require_memory(rows: int, columns: int, matrices: float, dtype: torch.dtype, what: str) -> None:
    """Raise MemoryError, before anything is allocated, if ``matrices`` arrays of this shape do not fit."""
    itemsize = torch.empty((), dtype=dtype).element_size()
    needed, free = matrices * rows * columns * itemsize, available_memory()
    if needed > free:
        fits = int((free / (matrices * itemsize)) ** 0.5)
        raise MemoryError(
            f"{what} with {rows} x {columns} entries needs {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB "
            f"are free; use at most about {fits} rows, for instance by fitting on a random part of the data."
        )
