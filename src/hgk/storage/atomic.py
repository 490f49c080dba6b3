"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from hgk.texts import SentenceError


class WriteError(SentenceError):
    """A file that could not be written; the message is one sentence, and what was there is there still."""


def write_atomically(path: str | os.PathLike, write: Callable[[BinaryIO], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, see it on disk, then rename it to ``path``.

    Whatever fails on the way (a full disk, Ctrl-C), the old file is unchanged and the new one is removed. Where the
    system has files without a name, the new one has none until it is whole, so that not even a killed process leaves
    a part of it.
    """
    try:
        goal = Path(os.path.realpath(path))  # a link keeps pointing to the file
        goal.exists()
    except (OSError, ValueError, TypeError) as error:  # too long, a zero byte, no path at all
        reason = getattr(error, "strerror", None) or error
        raise WriteError(f"{str(path)[:60]!r} is no place for a file ({reason}); give the name of one.") from error
    if goal.is_dir() or not goal.parent.is_dir():
        what = "is a folder" if goal.is_dir() else f"has no folder {goal.parent}"
        raise WriteError(f"{path} {what}; give the name of a file in a folder that exists.")
    if goal.exists() and not goal.is_file():  # /dev/stdout, a pipe: nothing to replace
        _write_through(path, write)
        return
    part = goal.with_name(f".{goal.name[:50]}.{secrets.token_hex(4)}.part")
    try:
        if not _written_unnamed(part, write):
            with open(part, "xb") as file:
                _write_and_sync(file, write)
        if goal.exists():
            part.chmod(stat.S_IMODE(goal.stat().st_mode))
        os.replace(part, goal)
    except OSError as error:
        raise WriteError(
            f"{path} could not be written ({error.strerror or error}) and is as it was before; make room, or choose "
            "another place."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    _sync_folder(goal.parent)


def _write_and_sync(file: BinaryIO, write: Callable[[BinaryIO], Any]) -> None:
    write(file)
    file.flush()
    os.fsync(file.fileno())


def _written_unnamed(part: Path, write: Callable[[BinaryIO], Any]) -> bool:
    """Write a file that gets the name ``part`` when it is whole, where system and file system can."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        handle = os.open(part.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        return False
    with open(handle, "wb") as file:
        _write_and_sync(file, write)
        with suppress(OSError):
            folder = os.open(part.parent, os.O_RDONLY)
            try:  # with a folder, since only then Python asks the system to follow the link in /proc
                os.link(f"/proc/self/fd/{handle}", part, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
    return part.exists()


def _write_through(path: str | os.PathLike, write: Callable[[BinaryIO], Any]) -> None:
    try:
        with open(path, "wb") as file:
            write(file)
    except OSError as error:
        raise WriteError(
            f"{path} could not be written ({error.strerror or error}); make room, or choose another place."
        ) from error


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power cut; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """A regular file, opened for reading; an OSError for anything else, such as a pipe that nobody writes to."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
