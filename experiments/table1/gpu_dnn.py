"""The DNN column of Table 1 on an accelerator, from splits that were prepared elsewhere.

    PYTHONPATH=src python experiments/table1/gpu_dnn.py --npz splits.npz --out rows.jsonl --limit 500

The file has the arrays "<set>/<split>/X" and "<set>/<split>/y", scaled to [-1, 1], and the number "<set>/<split>/n" of
rows that train; the other rows test. One line per run is appended to --out, in the store's format. Runs that have an
"ok" line there are skipped, so that the same command goes on where the last one stopped. No run is begun that would,
at the length of the longest so far, end after --limit seconds. Needs torch, numpy and scikit-learn only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import sklearn
import torch

import hgk
from hgk.bench.methods import Effort
from hgk.bench.methods.dnn import DNN


def main() -> None:
    options = arguments()
    begun, longest = time.monotonic(), 0.0
    effort = Effort(threads=options.threads, device=options.device, quick=options.quick)
    todo, running = pending(options), set()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        while True:
            while todo and len(running) < options.jobs and time.monotonic() - begun + longest < options.limit:
                running.add(pool.submit(run, options.npz, *todo.pop(0), effort))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for row in (future.result() for future in done):
                longest = max(longest, row["seconds"])
                append(options.out, row)
    print(f"{len(todo)} runs left, {time.monotonic() - begun:.0f} s, the longest {longest:.0f} s")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npz", type=Path, required=True, help="the prepared splits")
    parser.add_argument("--out", type=Path, required=True, help="where to append a line per run")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds in all")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--splits", nargs="*", type=int, help="only these splits")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of a run")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="small networks, for a look")
    return parser.parse_args()


def pending(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Runs asked for that have no line yet; by split, so that a cut leaves whole splits behind."""
    with np.load(options.npz) as data:
        known = {(name, int(split)) for name, split, _ in (key.split("/") for key in data.files)}
    asked = {(s, i) for s, i in known if s in (options.sets or [s]) and i in (options.splits or [i])}
    asked -= {(row["set"], row["split"]) for row in stored(options.out) if row["status"] == "ok"}
    return sorted(asked, key=lambda run: (run[1], run[0]))


def stored(path: Path) -> Iterator[dict]:
    """The method's rows; a line torn by a kill is passed over."""
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            if (row := json.loads(line))["method"] == DNN.name:
                yield row


def run(npz: Path, name: str, split: int, effort: Effort) -> dict:
    """One row of the store."""
    with np.load(npz) as data:
        X, y, n = (data[f"{name}/{split}/{part}"] for part in "Xyn")
    # The first product on a device loads its libraries: not the method's time.
    torch.ones(2, 2, 2, device=effort.device).bmm(torch.ones(2, 2, 2, device=effort.device)).cpu()
    row = {"set": name, "split": split, "method": DNN.name, "status": "failed", "mse": None, "standard_error": None}
    row |= {"seconds": 0.0, "predict_seconds": None, "n_train": int(n), "n_test": len(y) - int(n), "chosen": {}}
    begun = time.perf_counter()
    try:
        fitted = DNN().fit(X[:n], y[:n], split, effort)
        row |= {"seconds": time.perf_counter() - begun, "chosen": fitted.chosen, "reason": None}
        row |= judged(fitted.predict, X[n:], y[n:]) | {"status": "ok"}
    except Exception as error:  # a failed run is a result too: the others go on
        row |= {"seconds": time.perf_counter() - begun, "reason": f"{type(error).__name__}: {error}"}
    return row | circumstances(effort)


def judged(predict, X: np.ndarray, y: np.ndarray) -> dict:
    """The mean squared error of the clipped prediction, and its standard error over the rows."""
    begun = time.perf_counter()
    losses = (np.clip(predict(X), -1, 1) - y) ** 2
    seconds = time.perf_counter() - begun
    if not np.isfinite(losses).all():
        raise ArithmeticError("Some predictions are not finite.")
    spread = float(losses.std() / len(losses) ** 0.5)
    return {"mse": float(losses.mean()), "standard_error": spread, "predict_seconds": seconds}


def circumstances(effort: Effort) -> dict:
    card = torch.cuda.get_device_name() if effort.device.startswith("cuda") else None
    machine = ", ".join(filter(None, (platform.machine(), f"{os.cpu_count()} cores", card)))
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
    print(
        row["set"], row["split"], row["status"], row["mse"], f"{row['seconds']:.1f} s", row["reason"] or "", flush=True
    )


if __name__ == "__main__":
    main()
