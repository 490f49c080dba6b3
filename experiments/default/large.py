"""More rows than the exact machine takes: all but 10,000 of three of the paper's sets, compared with boosting.

    python experiments/default/large.py --data FOLDER --out experiments/default/large.jsonl

Methods and scaling as in ``hgk bench``. One row per set and method is
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

from hgk.bench.datasets import load
from hgk.bench.methods import METHODS as OF_THE_BENCH
from hgk.bench.methods import Effort
from hgk.bench.protocol import as_numbers, clipped_error, to_cube

sys.path.append(str(Path(__file__).parents[1]))
from records import fill
from tuned import TunedLightGBM

KEY = ("set", "method")
METHODS = {**OF_THE_BENCH, TunedLightGBM.name: TunedLightGBM()}
PEERS = ["LightGBM", "XGBoost", "CatBoost", TunedLightGBM.name]


def one(data: Path, threads: int, name: str, method: str) -> dict:
    table = load(name, data)
    X, order = as_numbers(table.X), np.random.default_rng(0).permutation(len(table.y))
    train, test = order[10_000:], order[:10_000]
    inside, outside = to_cube(X[train], X[test])
    start = time.perf_counter()
    fitted = METHODS[method].fit(inside, table.y[train], 0, Effort(threads))
    seconds, start = time.perf_counter() - start, time.perf_counter()
    predicted = np.asarray(fitted.predict(outside)).reshape(-1)
    per_second = len(test) / (time.perf_counter() - start)
    mse, standard_error = clipped_error(predicted, table.y[test])
    row = {"set": name, "method": method, "rows": len(train), "mse": mse, "standard_error": standard_error}
    row |= {"seconds": round(seconds, 1), "predictions_per_second": round(per_second), "threads": threads}
    return row | {"chosen": fitted.chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["bank-marketing", "cod-rna", "covtype"])
    parser.add_argument("--methods", nargs="+", default=["Ours (default)", *PEERS], choices=list(METHODS))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    fill(options.out, product(options.sets, options.methods), partial(one, options.data, options.threads), KEY)


if __name__ == "__main__":
    main()
