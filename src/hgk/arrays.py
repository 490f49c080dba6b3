"""Tensors, tiles and memory: the only file that knows where the arrays live."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")

# Elements of one tile. The sweeps pass over a tile a dozen times, so it should stay in the last-level
# cache; much smaller ones cost more in calls than they save. Measured on two cores with 1 + 32 MiB of
# cache (2489 x 1244 rows, 16 columns, 8 nodes, float32, ms for K and its gradient): 2^16 45 and 169,
# 2^17 32 and 95, 2^19 29 and 66, 2^20 23 and 60, 2^22 26 and 89; float64 likes 2^19 best.
TILE = 2**19


DEVICES = "cpu, cuda, cuda:1, or auto"  # in the words of a command line


def device_of(name: str | torch.device) -> torch.device:
    """The device of this name; "auto" is an accelerator if there is one. One that is not there is an error."""
    text = str(name)
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if text != "cpu" and not re.fullmatch(r"cuda(:\d+)?", text):
        raise ValueError(f"device={name!r} was given; 'cpu', 'cuda', 'cuda:1' (the second one) or 'auto' is expected.")
    device = torch.device(text)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device={name!r} was given and torch finds {torch.cuda.device_count()} CUDA devices here; use "
            "device='cpu', or 'auto' to take what there is (set_params(device='cpu') for a fitted model)."
        )
    return device


def accelerated(x: torch.Tensor) -> bool:
    """Whether the tensor lies on an accelerator, where launches cost more than operations."""
    return x.device.type != "cpu"


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def recording() -> bool:
    """Whether a graph is being recorded: nothing may wait for the device then."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # without waking the driver


def recorded(steps: Sequence[Callable[[], None]], device: torch.device) -> Callable[[], None]:
    """A function that makes every step once, side by side, by a single launch of a CUDA graph.

    Every step must have been made before, so that libraries are loaded and kernels compiled. A processor makes them one
    after the other.
    """
    if device.type == "cpu":
        return lambda: _each(steps)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        main = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in steps]
        for stream, step in zip(streams, steps, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                step()
        for stream in streams:
            main.wait_stream(stream)
    return graph.replay


def _each(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()


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
    """Lists, tuples, dicts and our own dataclasses with their parts changed; everything else as it is."""
    if type(value) in (list, tuple):
        return type(value)(map(change, value))
    if type(value) is dict:
        return {key: change(part) for key, part in value.items()}
    if is_dataclass(value) and type(value).__module__.startswith("hgk."):
        twin = object.__new__(type(value))
        vars(twin).update({key: change(part) for key, part in vars(value).items()})
        return twin
    return value


def blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most ``size`` that cover ``range(n)``."""
    for start in range(0, n, max(1, size)):
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


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for torch's operations; the setting is the process's, not the thread's."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


_blas = threading.Lock()
_blas_users: list[threadpool_limits] = []


@contextmanager
def single_blas() -> Iterator[None]:
    """One thread for numpy's and scipy's BLAS while anyone is in here; that setting, too, is the process's."""
    with _blas:
        # the first sets it, and all hold the same to be restored by the last
        _blas_users.append(_blas_users[0] if _blas_users else threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _blas:
            last = _blas_users.pop()
            if not _blas_users:
                last.restore_original_limits()


def _after_fork() -> None:
    """One thread in a forked process: those of its parent's pool are not copied, and waiting for them never ends."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_for(n: int, device: torch.device | None = None):
    """One thread for problems of fewer than 2000 rows, and beside an accelerator.

    Their tiles are small: a second thread gains little on idle cores, and on busy ones it costs a lot
    (1000 rows with one more process running: 35 s instead of 3 s), because threads wait spinning.
    """
    alone = n < 2000 or (device is not None and device.type != "cpu")
    return threads(1 if alone else torch.get_num_threads())


def available_memory(device: torch.device | None = None) -> int:
    """Bytes this process may still allocate, as far as the system tells; at most what HGK_MEMORY says.

    The environment variable HGK_MEMORY is a number of bytes, or one with a unit: 500M, 4G, 1.5GiB. It is asked for
    before every large allocation, so that a MemoryError of one sentence comes in place of a killed process. Within
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
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([KMGT]?)(?:I?B)?", text.upper())
    if found is None:
        raise ValueError(
            f"HGK_MEMORY={text!r} is set; a number of bytes is expected, such as 500M or 4G, so correct it or unset it."
        )
    return float(found[1]) * 1024 ** " KMGT".index(found[2] or " ")


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


# Rows beyond which α comes from Nyström's machine: a kernel matrix in double precision and its factor are 2.4 GB here.
EXACT = 10_000
# Rows beyond which K is overwritten by its factor.
LARGE = 20_000


def in_place(n: int) -> bool:
    """Whether K becomes its own factor."""
    return n > LARGE


# Matrices of n x n that are held at once while one is factored or inverted, K̃, K̃ + cI and L, and what is beside them.
FACTORED = 3.5


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


@contextmanager
def on_device(n: int, device: torch.device) -> Iterator[None]:
    """Work on n rows there: Triton launches where torch is; running out of memory becomes a sentence."""
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        fits = int((0.9 * available_memory(device) / (4 * 8)) ** 0.5)
        advice = (
            f"about {fits} do, so fit on a random part of the rows, or use device='cpu'."
            if fits < n
            else "other work has had a part of it that is free by now, so fit again, or use device='cpu'."
        )
        raise MemoryError(f"{n} rows did not fit into the memory of {device}; {advice}") from error


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
