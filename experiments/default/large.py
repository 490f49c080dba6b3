"""More rows than the exact machine takes: all but 10,000 of three of the paper's sets, compared with boosting.

    python experiments/default/large.py --data FOLDER --out experiments/default/large.jsonl

On a machine that has torch, numpy and scikit-learn only, an accelerator say, with sets prepared elsewhere:

    python experiments/table1/bare.py prepare --data FOLDER --out sets.npz
    python experiments/default/large.py --npz sets.npz --device cuda --methods "Ours (default)" --out large.jsonl

Methods and scaling as in ``hgk bench``. One row per set, method and device is
appended; what the file has is not done again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch

from hgk.arrays import device_of
from hgk.bench.methods import METHODS as OF_THE_BENCH
from hgk.bench.methods import Effort
from hgk.bench.protocol import clipped_error, to_cube

sys.path.append(str(Path(__file__).parents[1]))
from records import circumstances, fill
from tuned import TunedLightGBM

KEY = ("set", "method", "device")
METHODS = {**OF_THE_BENCH, TunedLightGBM.name: TunedLightGBM()}
PEERS = ["LightGBM", "XGBoost", "CatBoost", TunedLightGBM.name]


def table(source: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns as numbers, and labels, from a prepared file or a folder of tables."""
    if source.suffix == ".npz":
        with np.load(source) as sets:
            return sets[f"{name}/X"].astype(float), sets[f"{name}/y"]
    from hgk.bench.datasets import load
    from hgk.bench.protocol import as_numbers

    read = load(name, source)
    return as_numbers(read.X), read.y


def one(source: Path, threads: int, name: str, method: str, device: str) -> dict:
    X, y = table(source, name)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[10_000:], order[:10_000]
    inside, outside = to_cube(X[train], X[test])
    start = time.perf_counter()
    fitted = METHODS[method].fit(inside, y[train], 0, Effort(threads, device))
    seconds, start = time.perf_counter() - start, time.perf_counter()
    predicted = np.asarray(fitted.predict(outside)).reshape(-1)
    per_second = len(test) / (time.perf_counter() - start)
    mse, standard_error = clipped_error(predicted, y[test])
    row = {"set": name, "method": method, "rows": len(train), "mse": mse, "standard_error": standard_error}
    row |= {"seconds": round(seconds, 1), "predictions_per_second": round(per_second), "chosen": fitted.chosen}
    return row | circumstances(device, threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, dest="source", help="folder of <set>.parquet")
    source.add_argument("--npz", type=Path, dest="source", help="sets prepared by experiments/table1/bare.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["bank-marketing", "cod-rna", "covtype"])
    parser.add_argument("--methods", nargs="+", default=["Ours (default)", *PEERS], choices=list(METHODS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    runs = product(options.sets, options.methods, [str(device_of(options.device))])
    fill(options.out, runs, partial(one, options.source, options.threads), KEY)


if __name__ == "__main__":
    main()
