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
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from hgk.arrays import device_of
from hgk.bench.methods import METHODS, Effort
from hgk.bench.protocol import clipped_error, make_split

sys.path.append(str(Path(__file__).parents[1]))
from records import circumstances, fill_side_by_side, prepare, prepared_sets


def main() -> None:
    options = arguments()
    prepare(options.out, options.data, options.sets) if options.what == "prepare" else run_all(options)


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


def run_all(options: argparse.Namespace) -> None:
    """In the order of splits, so that a limit leaves whole splits behind."""
    effort = Effort(threads=options.threads, device=str(device_of(options.device)), quick=options.quick)
    names = prepared_sets(options.npz, options.sets)
    runs = [(name, split, method) for split in options.splits for name in names for method in options.methods]
    fill_side_by_side(options.out, runs, partial(row_of, options.npz, effort), jobs=options.jobs, limit=options.limit)


def row_of(npz: Path, effort: Effort, name: str, split: int, method: str) -> dict:
    """One row of the store; a failed run is a result too: the others go on."""
    row = {"set": name, "split": split, "method": method, "status": "failed", "mse": None, "standard_error": None}
    row |= {"seconds": 0.0, "predict_seconds": None, "n_train": 0, "n_test": 0, "chosen": {}, "reason": None}
    effort = effort if METHODS[method].accelerated else replace(effort, device="cpu")
    torch.set_num_threads(effort.threads)
    begun = time.perf_counter()
    try:
        row |= judged(npz, effort, name, split, method)
    except Exception as error:
        row |= {"seconds": time.perf_counter() - begun, "reason": f"{type(error).__name__}: {error}"}
    preset = "quick" if effort.quick else "paper"
    return row | circumstances(effort.device, effort.threads) | {"preset": preset}


def judged(npz: Path, effort: Effort, name: str, number: int, method: str) -> dict:
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


if __name__ == "__main__":
    main()
