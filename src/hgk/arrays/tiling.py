"""Large matrices in tiles, and scratch memory for one tile."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

# Elements of one tile: a sweep passes over it a dozen times, so it should stay in the last-level cache; much smaller
# ones cost more in calls than they save.
TILE = 2**19


def blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most ``size``, and at least 1, that cover ``range(n)``."""
    size = max(1, size)
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


def tiles(
    n: int, m: int, symmetric: bool = False, held: int = 1, device: torch.device | None = None
) -> Iterator[tuple[slice, slice]]:
    """Row and column slices of cache-sized tiles; of a symmetric matrix only those on and below the diagonal.

    A sweep that holds more than 16 arrays per tile (``held``) gets smaller ones. On an accelerator they are as large as
    a few GiB allow, so that launches are few.
    """
    tile = TILE if device is None or device.type == "cpu" else 64 * TILE
    size = min(tile, 16 * tile // max(1, held))
    if symmetric:
        rows = columns = list(blocks(n, int(size**0.5)))
    else:
        columns = list(blocks(m, size // 64))
        rows = list(blocks(n, size // max(1, min(m, size // 64))))
    for r in rows:
        for c in columns:
            if not (symmetric and c.start > r.start):
                yield r, c


def tiles_of_pairs(n: int, held: int, device: torch.device) -> Iterator[tuple[slice, slice]]:
    """Square tiles on and below the diagonal of an n x n matrix, with room for ``held`` arrays of a tile's size.

    On a processor these stay in its cache; elsewhere they are as large as a few GiB allow, so that calls are few.
    """
    room = 4 * TILE if device.type == "cpu" else 1024 * TILE
    for r in blocks(n, side := max(32, int((room / held) ** 0.5))):
        for c in blocks(r.stop, side):
            yield r, c


def row_blocks(n: int, m: int) -> list[slice]:
    """Slices of whole rows of an n x m matrix, each about a tile."""
    return list(blocks(n, max(1, TILE // max(1, m))))


class Buffers:
    """Scratch memory by name, kept between uses: fresh memory costs as much in page faults as the work on it."""

    def __init__(self) -> None:
        self.memory: dict[tuple, torch.Tensor] = {}

    def get(self, key: tuple, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        """An uninitialised tensor of this shape, of the dtype and device of ``like``."""
        size = math.prod(shape)
        held = self.memory.get(key)
        if held is None or held.numel() < size or held.dtype != like.dtype or held.device != like.device:
            held = self.memory[key] = like.new_empty(size)
        return held[:size].view(shape)
