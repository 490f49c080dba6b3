"""More rows than the exact machine takes: all but 10,000 of three of the paper's sets, beside LightGBM.

    python experiments/default/large.py --data FOLDER --out experiments/default/large.jsonl

Protocol and settings as in run.py; α comes from Nyström's machine. One row per set and method is appended.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from run import METHODS, load, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["bank-marketing", "cod-rna", "covtype"])
    parser.add_argument("--methods", nargs="+", default=["hgk", "LightGBM"], choices=list(METHODS))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    for name in options.sets:
        X, y = load(options.data, name)
        order = np.random.default_rng(0).permutation(len(y))
        train, test = order[10_000:], order[:10_000]
        for method in options.methods:
            if (name, method) in {(row["set"], row["method"]) for row in read(options.out)}:
                continue
            start = time.perf_counter()
            predict, _ = METHODS[method](X[train], y[train], 0, options.threads)
            seconds = time.perf_counter() - start
            losses = (np.asarray(predict(X[test])).reshape(-1).clip(-1, 1) - y[test]) ** 2
            row = {"set": name, "method": method, "rows": len(train), "mse": float(losses.mean())}
            row |= {
                "standard_error": float(losses.std() / 100),
                "seconds": round(seconds, 1),
                "threads": options.threads,
            }
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
