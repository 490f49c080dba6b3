"""What the experiments share: rows of JSON lines, appended and never made twice, and data sets as numbers in one file.

Needs torch, numpy and scikit-learn only, but for ``prepare``, which reads tables by pandas.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

import hgk

Row = dict[str, Any]
Run = tuple  # what identifies a row: by default set, split, method
KEY = ("set", "split", "method")


# ------------------------------------------------------------------------------------------------------- rows


def stored(path: Path) -> Iterator[Row]:
    """The rows of a file; a line torn by a kill is skipped."""
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            yield json.loads(line)


def append(path: Path, row: Row) -> None:
    """One whole line, on the disk when this returns; a torn line before it is closed."""
    with path.open("ab+") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        closing = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(closing + json.dumps(row, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    print(json.dumps({name: value for name, value in row.items() if not isinstance(value, dict)}), flush=True)


def missing(runs: Iterable[Run], path: Path, key: Sequence[str] = KEY) -> list[Run]:
    """The runs that have no row yet; a row that says it failed counts for nothing."""
    done = {tuple(row[name] for name in key) for row in stored(path) if row.get("status") != "failed"}
    return [run for run in runs if run not in done]


def fill(path: Path, runs: Iterable[Run], row_of: Callable[..., Row], key: Sequence[str] = KEY) -> None:
    """Append the rows that are missing, one after the other; the same command continues after a stop."""
    for run in missing(runs, path, key):
        append(path, row_of(*run))


def fill_side_by_side(
    path: Path, runs: Iterable[Run], row_of: Callable[..., Row], key: Sequence[str] = KEY, jobs: int = 1,
    limit: float = float("inf"),
) -> None:  # fmt: skip
    """The same in ``jobs`` processes. No run begins that, at the length of the longest, would end after the limit."""
    started, longest, todo = time.monotonic(), 0.0, missing(runs, path, key)
    running: dict[Future, tuple[Run, float]] = {}
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        while True:
            while todo and len(running) < jobs and time.monotonic() - started + longest < limit:
                run = todo.pop(0)
                running[pool.submit(row_of, *run)] = run, time.monotonic()
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                run, begun = running.pop(future)
                longest = max(longest, time.monotonic() - begun)
                if error := future.exception():
                    sys.stderr.write(f"{run}: {type(error).__name__}: {error}\n")
                else:
                    append(path, future.result())
    print(f"{len(todo)} runs left, {time.monotonic() - started:.0f} s, the longest {longest:.0f} s")


def circumstances(device: str, threads: int) -> Row:
    """On what a row was made, by which versions, and when."""
    card = torch.cuda.get_device_name() if device.startswith("cuda") else None
    machine = ", ".join(filter(None, (f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores", card)))
    versions = {"hgk": hgk.__version__, "python": platform.python_version(), "torch": torch.__version__}
    versions |= {"sklearn": sklearn.__version__, "numpy": np.__version__}
    used = {"threads": threads, "device": device, "machine": machine}
    return used | {"versions": versions, "finished": datetime.now(UTC).isoformat(timespec="seconds")}


# ------------------------------------------------------------------------------------------------------- sets


def prepare(out: Path, folder: Path | None, sets: Sequence[str] | None = None) -> None:
    """Write the bench's sets to a file: "<set>/X" (columns as numbers), "<set>/y", the fingerprint "<set>/data"."""
    from hgk.bench import datasets
    from hgk.bench.protocol import as_numbers
    from hgk.bench.runner import Source, fingerprint

    arrays: dict[str, np.ndarray] = {}
    for name in sets or datasets.SPECS:
        try:
            data = datasets.load(name, folder)
        except datasets.DataError as error:
            print(error)
            continue
        arrays[f"{name}/X"], arrays[f"{name}/y"] = smallest(as_numbers(data.X)), data.y
        arrays[f"{name}/data"] = np.array(fingerprint(Source(name, folder)))
    np.savez_compressed(out, **arrays)


def smallest(X: np.ndarray) -> np.ndarray:
    """The same numbers in the shortest type that holds them."""
    for dtype in (np.int8, np.int16, np.float32):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            short = X.astype(dtype)
        if np.array_equal(short.astype(float), X, equal_nan=True):
            return short
    return X


def prepared_sets(npz: Path, only: Sequence[str] | None = None) -> list[str]:
    """The names of the sets in a prepared file, in its order."""
    with np.load(npz) as arrays:
        names = dict.fromkeys(array.split("/")[0] for array in arrays.files)
    return [name for name in names if only is None or name in only]
