"""Runs of Table 1 on a machine that has torch, numpy and scikit-learn only, an accelerator say.

    python experiments/table1/bare.py prepare --data FOLDER --out sets.npz          # where pandas is
    PYTHONPATH=src python experiments/table1/bare.py run --npz sets.npz --methods DNN HKL --device cuda --out rows.jsonl

The file has the arrays "<set>/X" (columns as numbers), "<set>/y" and the fingerprint "<set>/data"; splits are made of
them as by ``hgk bench run``. One line per run is appended to --out, in the store's format. Runs that have an "ok" line
there are skipped, so that the same command goes on where the last one stopped. No run is begun that would, at the
length of the longest so far, end after --limit seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import sklearn
import torch

import hgk
from hgk.arrays import device_of
from hgk.bench.methods import METHODS, Effort
from hgk.bench.protocol import clipped_error, make_split

Run = tuple[int, str, str]  # split, set, method: in this order, so that a cut leaves whole splits behind


def main() -> None:
    options = arguments()
    prepare(options) if options.what == "prepare" else run_all(options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    first = what.add_parser("prepare", help="write the sets of a data folder into one file")
    first.add_argument("--data", type=Path, help="folder of <set>.parquet, or HGK_DATA_HOME")
    then = what.add_parser("run", help="do the runs that --out does not have yet")
    then.add_argument("--npz", type=Path, required=True, help="the prepared sets")
    then.add_argument("--limit", type=float, default=float("inf"), help="seconds in all")
    then.add_argument("--methods", nargs="+", choices=list(METHODS), required=True)
    then.add_argument("--splits", nargs="+", type=int, default=[0])
    then.add_argument("--jobs", type=int, default=1, help="runs at a time")
    then.add_argument("--threads", type=int, default=1, help="CPU threads of a run")
    then.add_argument("--device", default="cpu")
    then.add_argument("--quick", action="store_true", help="small sizes, for a look")
    for command in (first, then):
        command.add_argument("--sets", nargs="+", help="only these sets")
        command.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


# ---------------------------------------------------------------------------------------------------- prepare


def prepare(options: argparse.Namespace) -> None:
    from hgk.bench import datasets
    from hgk.bench.protocol import as_numbers
    from hgk.bench.runner import Source, fingerprint

    arrays: dict[str, np.ndarray] = {}
    for name in options.sets or datasets.SPECS:
        try:
            data = datasets.load(name, options.data)
        except datasets.DataError as error:
            print(error)
            continue
        arrays[f"{name}/X"], arrays[f"{name}/y"] = smallest(as_numbers(data.X)), data.y
        arrays[f"{name}/data"] = np.array(fingerprint(Source(name, options.data)))
    np.savez_compressed(options.out, **arrays)


def smallest(X: np.ndarray) -> np.ndarray:
    """The same numbers in the shortest type that holds them."""
    for dtype in (np.int8, np.int16, np.float32):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            short = X.astype(dtype)
        if np.array_equal(short.astype(float), X, equal_nan=True):
            return short
    return X


# -------------------------------------------------------------------------------------------------------- run


def run_all(options: argparse.Namespace) -> None:
    begun, longest = time.monotonic(), 0.0
    effort = Effort(threads=options.threads, device=str(device_of(options.device)), quick=options.quick)
    todo, running = pending(options), set()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        while True:
            while todo and len(running) < options.jobs and time.monotonic() - begun + longest < options.limit:
                running.add(pool.submit(row_of, options.npz, todo.pop(0), effort))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for row in (future.result() for future in done):
                longest = max(longest, row["seconds"] + (row["predict_seconds"] or 0))
                append(options.out, row)
    print(f"{len(todo)} runs left, {time.monotonic() - begun:.0f} s, the longest {longest:.0f} s")


def pending(options: argparse.Namespace) -> list[Run]:
    """Runs asked for that have no line yet."""
    with np.load(options.npz) as data:
        known = {key.split("/")[0] for key in data.files}
    names = [name for name in known if name in (options.sets or known)]
    asked = {(split, name, method) for split in options.splits for name in names for method in options.methods}
    return sorted(asked - {(r["split"], r["set"], r["method"]) for r in stored(options.out) if r["status"] == "ok"})


def stored(path: Path) -> Iterator[dict]:
    """A line torn by a kill is passed over."""
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            yield json.loads(line)


def row_of(npz: Path, run: Run, effort: Effort) -> dict:
    """One row of the store; a failed run is a result too: the others go on."""
    split, name, method = run
    row = {"set": name, "split": split, "method": method, "status": "failed", "mse": None, "standard_error": None}
    row |= {"seconds": 0.0, "predict_seconds": None, "n_train": 0, "n_test": 0, "chosen": {}, "reason": None}
    effort = effort if METHODS[method].accelerated else replace(effort, device="cpu")
    torch.set_num_threads(effort.threads)
    begun = time.perf_counter()
    try:
        row |= judged(npz, run, effort)
    except Exception as error:
        row |= {"seconds": time.perf_counter() - begun, "reason": f"{type(error).__name__}: {error}"}
    return row | circumstances(effort)


def judged(npz: Path, run: Run, effort: Effort) -> dict:
    number, name, method = run
    with np.load(npz) as data:
        X, y, fingerprint = data[f"{name}/X"].astype(float), data[f"{name}/y"], str(data[f"{name}/data"])
    split = make_split(name, X, y, number, effort.quick)
    # The first product on a device loads its libraries: not the method's time.
    torch.ones(2, 2, 2, device=effort.device).bmm(torch.ones(2, 2, 2, device=effort.device)).cpu()
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = METHODS[method].fit(split.X, split.y, number, effort)
    seconds = time.perf_counter() - begun
    t = np.asarray(fitted.predict(split.X_test), dtype=float).reshape(-1)
    took = {"seconds": round(seconds, 3), "predict_seconds": round(time.perf_counter() - begun - seconds, 3)}
    if not np.isfinite(t).all():
        raise ArithmeticError("Some predictions are not finite.")
    mse, error = clipped_error(t, split.y_test)
    sizes = {"n_train": len(split.y), "n_test": len(t), "chosen": fitted.chosen, "data": fingerprint}
    return took | {"status": "ok", "mse": mse, "standard_error": error} | sizes


def circumstances(effort: Effort) -> dict:
    card = torch.cuda.get_device_name() if effort.device.startswith("cuda") else None
    machine = ", ".join(filter(None, (f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores", card)))
    versions = {"hgk": hgk.__version__, "python": platform.python_version(), "torch": torch.__version__}
    versions |= {"sklearn": sklearn.__version__, "numpy": np.__version__}
    used = {"threads": effort.threads, "device": effort.device, "machine": machine}
    used |= {"preset": "quick" if effort.quick else "paper"}
    return used | {"versions": versions, "finished": datetime.now(UTC).isoformat(timespec="seconds")}


def append(path: Path, row: dict) -> None:
    """One whole line, on the disk before the next run ends; a torn one before it is closed."""
    with path.open("ab+") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        closing = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(closing + json.dumps(row, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    mse = "" if row["mse"] is None else f"{row['mse']:.5f}"
    print(row["split"], row["set"], row["method"], mse, f"{row['seconds']:.1f} s", row["reason"] or "", flush=True)


if __name__ == "__main__":
    main()
