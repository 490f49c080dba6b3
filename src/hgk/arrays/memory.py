"""How much memory there is, and how large a problem it carries.

An array of n x n entries is asked for before it is made: a MemoryError of one sentence comes in place of a killed
process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

Item = TypeVar("Item")

# Rows beyond which α comes from Nyström's machine: a kernel matrix in double precision and its factor are 2.4 GB here.
EXACT = 10_000
# Rows beyond which K is overwritten by its factor.
LARGE = 20_000
# Matrices of n x n held at once while one is factored or inverted, K̃, K̃ + cI and L, and what is beside them.
FACTORED = 3.5


def available_memory(device: torch.device | None = None) -> int:
    """Bytes this process may still allocate, as far as the system tells; at most what HGK_MEMORY says.

    The environment variable HGK_MEMORY is a number of bytes, or one with a unit: 500M, 4G, 1.5GiB. Within
    :func:`counted_memory` it bounds all that is allocated there.
    """
    if device is not None and device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's own, not in use
        limits: tuple[float | None, ...] = torch.cuda.mem_get_info(device)[0] + kept, _asked()
    else:
        limits = _physical(), _available(), _control_group(), _allowed()
    return int(min(limit for limit in limits if limit is not None))


# Resident sizes at which work began whose growth counts.
_begun: list[int] = []


@contextmanager
def counted_memory() -> Iterator[None]:
    """Work within which the growth of the process counts against HGK_MEMORY."""
    _begun.append(size := _resident())
    try:
        yield
    finally:
        _begun.remove(size)


def _resident() -> int:
    """Bytes of this process in memory; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _allowed() -> float | None:
    """What HGK_MEMORY leaves; a tenth is kept for small arrays, which nobody asks for."""
    asked = _asked()
    return asked if asked is None or not _begun else max(0.0, 0.9 * asked - max(0, _resident() - _begun[0]))


def _asked() -> float | None:
    """HGK_MEMORY, in bytes."""
    text = os.environ.get("HGK_MEMORY", "").strip()
    if not text:
        return None
    amount = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([KMGT]?)(?:I?B)?", text.upper())
    if amount is None:
        raise ValueError(
            f"HGK_MEMORY={text!r} is set; a number of bytes is expected, such as 500M or 4G, so correct it or unset it."
        )
    return float(amount[1]) * 1024 ** " KMGT".index(amount[2] or " ")


def _physical() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62  # a system that does not tell


def _available() -> int | None:
    """MemAvailable, where there is a /proc."""
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _control_group() -> int | None:
    """What a container's limit leaves; file pages that can be dropped count as free."""
    try:
        group = Path("/sys/fs/cgroup")
        ceiling = int((group / "memory.max").read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(statistics.get("inactive_file", 0))
        return ceiling - used
    except (OSError, ValueError):
        return None


def in_loads(items: Sequence[Item], need: Callable[[Item], float], device: torch.device) -> list[list[Item]]:
    """Those that are worked on together, in their order: a load ``need``s at most half of the device's free memory."""
    loads: list[list[Item]] = []
    left = 0.0
    for item in items:
        if not loads or need(item) > left:
            loads.append([])
            left = available_memory(device) / 2
        loads[-1].append(item)
        left -= need(item)
    return loads


def require_memory(
    rows: int, columns: int, matrices: float, dtype: torch.dtype, what: str, device: torch.device | None = None
) -> None:
    """Raise MemoryError, before anything is allocated, if ``matrices`` arrays of this shape do not fit."""
    each = matrices * dtype.itemsize * (columns if rows != columns else 1)
    free = available_memory(device)
    fits = int((free / each) ** 0.5) if rows == columns else int(free / each)
    require_bytes(matrices * rows * columns * dtype.itemsize, f"{what} with {rows} x {columns} entries", fits, device)


def require_bytes(needed: float, what: str, fits: int, device: torch.device | None = None) -> None:
    """Raise MemoryError if so much is not free; ``fits`` is the number of rows that do fit."""
    free = available_memory(device)
    if needed <= free:
        return
    allowed = _allowed()
    room = "free" if allowed is None or int(allowed) > free else "allowed by HGK_MEMORY"
    advice = f"use at most about {fits} rows, for instance by fitting on a random part of the data"
    if fits < 2:  # other things have taken what there was
        advice = "make room" if allowed is None else "make room, or raise HGK_MEMORY"
    raise MemoryError(f"{what} needs {gibibytes(needed)} and {gibibytes(free)} are {room}; {advice}.")


def gibibytes(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**28 else f"{count / 2**20:.2g} MiB"


# ------------------------------------------------------------------------------------------------- exact machines


def in_place(n: int) -> bool:
    """Whether K becomes its own factor."""
    return n > LARGE


def matrices_to_factor(n: int) -> float:
    """How many n x n matrices an exact machine needs; in place these are K and two blocks of 4096 of its columns."""
    return 1.4 if in_place(n) else FACTORED


def exact_rows(device: torch.device) -> int:
    """The most rows of an exact machine; on an accelerator as many as its memory allows."""
    if device.type == "cpu":
        return EXACT
    free = available_memory(device)
    few, many = (int((free / (8 * matrices_to_factor(n))) ** 0.5) for n in (LARGE, LARGE + 1))
    return max(EXACT, many if in_place(few) else few)  # no gap: what is smaller fits, too
