"""The "gradients" preset on the paper's data sets, under the paper's protocol.

    python experiments/gradients/run.py --data FOLDER [--splits 3] [--sets magic shuttle] --out rows.jsonl

FOLDER holds ``<name>.parquet``, target last. x as it is, y scaled to [-1, 1], classes as numbers; the training
sizes of the paper's table, at most 15,000 test rows; mean squared error of the clipped prediction. One row per
set and split is appended to the file as soon as it is there, and rows that are there are not computed again.
Nothing is chosen on test rows.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from hgk import HGKRegressor

TRAIN = {"cpusmall": 6000, "cycle-power-plant": 6000, "satimage": 5000, "thyroid-ann": 5000, "updrs-motor": 5000}
DROPPED = {"updrs-motor": ["total_UPDRS", "subject#"]}
AGAINST_THE_REST = {"covtype": 2, "thyroid-ann": 3}
SETS = [
    "bank-marketing",
    "cadata",
    "cod-rna",
    "covtype",
    "cpusmall",
    "cycle-power-plant",
    "higgs",
    "letter-recognition",
    "magic",
    "pendigits",
    "satimage",
    "shuttle",
    "thyroid-ann",
    "updrs-motor",
]


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    table = pd.read_parquet(folder / f"{name}.parquet")
    y = table.pop("target").to_numpy()
    table = table.drop(columns=[c for c in DROPPED.get(name, ()) if c in table])
    if name == "shuttle":
        table = table.iloc[:, 1:]
    X = table.apply(lambda c: c if c.dtype.kind in "fiub" else c.astype("category").cat.codes).to_numpy(float)
    if y.dtype.kind not in "fiu":
        y = pd.factorize(y, sort=True)[0]
    if name in AGAINST_THE_REST:
        y = y == AGAINST_THE_REST[name]
    y = y.astype(float)
    return X, 2 * (y - y.min()) / np.ptp(y) - 1


def one_split(X: np.ndarray, y: np.ndarray, name: str, split: int) -> dict:
    order, n = np.random.default_rng(split).permutation(len(y)), TRAIN.get(name, 7000)
    train, test = order[:n], order[n : n + 15_000]
    start = time.perf_counter()
    model = HGKRegressor("gradients", random_state=split).fit(X[train], y[train])
    seconds = time.perf_counter() - start
    losses = (model.predict(X[test]).clip(-1, 1) - y[test]) ** 2
    honest = {e["candidate"]: round(e["honest"], 6) for e in model.history_ if e["stage"] == "candidate"}
    return {
        "set": name,
        "split": split,
        "mse": float(losses.mean()),
        "standard_error": float(losses.std() / len(losses) ** 0.5),
        "seconds": round(seconds, 1),
        "held_out": honest,
        "chosen": model.history_[-1]["candidates"],
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(row["set"], row["split"]) for row in rows}
    for name in options.sets:
        X, y = load(options.data, name)
        for split in range(options.splits):
            if (name, split) in done:
                continue
            row = one_split(X, y, name, split)
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{name} split {split}: {row['mse']:.5f} in {row['seconds']:.0f} s, {row['chosen']}", flush=True)


if __name__ == "__main__":
    main()
