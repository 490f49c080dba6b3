"""How many threads work: torch's and those of BLAS. Both settings belong to the process, not to a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from threadpoolctl import threadpool_limits

# Fewer rows than these are worked on by one thread: their tiles are small, a second thread gains little on idle cores,
# and on busy ones it costs a lot, because threads wait spinning.
MANY_ROWS = 2000


_alone = threading.Lock()
_alone_users: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch's operations while anyone is in here: threads of a server predict at the same time."""
    with _alone:
        # the first sets it, and all hold the same to be restored by the last
        _alone_users.append(_alone_users[0] if _alone_users else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _alone:
            before = _alone_users.pop()
            if not _alone_users:
                torch.set_num_threads(before)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for torch's operations."""
    if count == 1:
        with one_thread():
            yield
        return
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(n: int, device: torch.device | None = None) -> AbstractContextManager[None]:
    """One thread for problems of few rows, and beside an accelerator; else as many as torch has."""
    alone = n < MANY_ROWS or (device is not None and device.type != "cpu")
    return one_thread() if alone else nullcontext()


_blas = threading.Lock()
_blas_users: list[threadpool_limits] = []


@contextmanager
def single_blas() -> Iterator[None]:
    """One thread for numpy's and scipy's BLAS while anyone is in here."""
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
