"""The store: a file of JSON lines, one per finished run, that survives crashes and several writers.

A row is appended by one write, then fsync, under an exclusive lock on ``<store>.lock``. A process killed meanwhile
leaves at most a torn last line; the next append closes it with a line break, and readers report it by its number and
pass over it. Rows are never changed: where a run has several, an "ok" counts more than a "failed", then the later one.

Before a run starts its runner claims it by a lock in ``<store>.claims/``, which the system drops when the runner
dies, and looks again whether the row has come in meanwhile. So two runners on one store share the work.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

Row = dict[str, Any]
RunKey = tuple[str, int, str]  # set, split, method

FIELDS: dict[str, type | tuple[type, ...]] = {"set": str, "split": int, "method": str, "status": str}


class StoreError(Exception):
    """The store cannot be used; the message is one sentence."""


@dataclass(frozen=True)
class Damage:
    """A line that is not a row."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line} is not a row and is passed over ({self.reason})"


def key_of(row: Row) -> RunKey:
    return row["set"], row["split"], row["method"]


def parse(line: bytes) -> Row:
    """A row, or a ValueError that says what is wrong."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"a JSON object is expected, not {type(row).__name__}")
    for field, kind in FIELDS.items():
        if not isinstance(row.get(field), kind) or isinstance(row[field], bool):
            raise ValueError(f"{field}={row.get(field)!r}")
    if row["status"] not in ("ok", "failed"):
        raise ValueError(f"status={row['status']!r}")
    if row["status"] == "ok" and not _amount(row.get("mse")):
        raise ValueError(f"mse={row.get('mse')!r}")
    return row


def _amount(value: Any) -> bool:
    """A number >= 0 that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def read(path: str | os.PathLike) -> tuple[list[Row], list[Damage]]:
    """All rows in the order of the file, and the lines that are none; a file that is not there has neither."""
    rows, damages = [], []
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise StoreError(f"The store {path} could not be read ({error.strerror}); give a file.") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                rows.append(parse(line))
            except (ValueError, RecursionError) as error:  # JSON's and Unicode's errors are ValueErrors
                damages.append(Damage(number, str(error)[:200]))
    return rows, damages


def is_store(file: BinaryIO) -> bool:
    """Whether an opened file has at least one row at its beginning, or a part of one that was torn."""
    for line in file.read(2**20).split(b"\n"):
        with suppress(ValueError, RecursionError):
            parse(line)
            return True
        if line.startswith(b'{"set": "'):
            return True
    return False


def latest(rows: Iterable[Row]) -> list[Row]:
    """One row per run."""
    best: dict[RunKey, Row] = {}
    for row in rows:
        before = best.get(key_of(row))
        if before is None or row["status"] == "ok" or before["status"] == "failed":
            best[key_of(row)] = row
    return list(best.values())


class Store:
    """A store that is written to.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "rows.jsonl")
    >>> store.append({"set": "magic", "split": 0, "method": "RF", "status": "ok", "mse": 0.3})
    >>> [row["mse"] for row in store.rows()], store.has(("magic", 0, "RF"))
    ([0.3], True)
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise StoreError(f"The folder {self.path.parent} of the store does not exist; create it first.")
        if self.path.is_dir():
            raise StoreError(f"The store {self.path} is a folder; give a file, such as {self.path / 'rows.jsonl'}.")
        if self.path.exists() and not self.path.is_file():
            raise StoreError(f"The store {self.path} is not a regular file; give one, such as rows.jsonl.")
        self._lock = FileLock(f"{self.path}.lock")
        self._claims = Path(f"{self.path}.claims")
        self._seen: tuple[int, list[Row], list[Damage]] = (-1, [], [])

    def append(self, row: Row) -> None:
        """Durable when it returns."""
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        with self._lock:
            new = not self.path.exists()
            with open(self.path, "ab+", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                if end:
                    file.seek(end - 1)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                self._write(file, line, end)
            if new:
                _sync_folder(self.path.parent)

    def _write(self, file: FileIO, line: bytes, end: int) -> None:
        """The line on the disk, or nothing of it."""
        try:
            written = file.write(line)
            os.fsync(file.fileno())
        except OSError as error:
            written, reason = -1, error.strerror or str(error)
        else:
            reason = "it took a part of a row, the disk may be full"
        if written != len(line):
            with suppress(OSError):
                file.truncate(end)
            raise StoreError(
                f"The store {self.path} could not be written ({reason}) and is as it was before; make room, and the "
                "same command goes on."
            )

    def _read(self) -> tuple[list[Row], list[Damage]]:
        """As it is now; read again only when it has grown."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._seen[0]:
            with self._lock:
                self._seen = (self.path.stat().st_size if self.path.exists() else 0, *read(self.path))
        return self._seen[1:]

    def rows(self) -> list[Row]:
        return latest(self._read()[0])

    def damages(self) -> list[Damage]:
        return self._read()[1]

    def has(self, key: RunKey, retry_failed: bool = False) -> bool:
        """Is there nothing left to do for this run?"""
        return any(key_of(r) == key and (r["status"] == "ok" or not retry_failed) for r in self.rows())

    def claim(self, key: RunKey) -> FileLock | None:
        """A lock that only this runner holds, or None; ``release()`` it when the row is stored."""
        self._claims.mkdir(exist_ok=True)
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
        lock = FileLock(self._claims / digest)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock


def _sync_folder(folder: Path) -> None:
    """A new file's name is durable only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
