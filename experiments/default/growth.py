"""How time, memory and error grow with the number of rows, on data whose best possible error is known.

    python experiments/default/growth.py --out experiments/default/growth.jsonl [--rows 10000 100000 1000000] \
        [--device cuda --methods "Ours (default)"]

20 columns, uniform on [-1, 1]; which of them matter depends on the place, as do the details:

    f(x) = sin(4 x₁ + 3 x₂ x₃) + (x₄ > 0 ? sin(6 x₅) x₆ : |x₇ + x₈|) + ½ sign(x₉) x₁₀
    y    = f(x) + ε,  ε ~ N(0, 0.2²)

The error is the mean squared error of f itself on 10,000 new rows, so that 0 is best; ``noise`` is 0.2² in the same
unit, in which the labels of the training rows fill [-1, 1]. Every fit has a process of its own, whose memory at the
peak is recorded, less what it held before the fit.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from hgk.arrays import device_of
from hgk.bench.methods import METHODS, Effort

sys.path.append(str(Path(__file__).parents[1]))
from records import Row, circumstances, fill

KEY = ("rows", "method", "device")
NOISE, COLUMNS, JUDGED = 0.2, 20, 10_000


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, f(X) and y."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, COLUMNS))
    f = np.sin(4 * X[:, 0] + 3 * X[:, 1] * X[:, 2]) + 0.5 * np.sign(X[:, 8]) * X[:, 9]
    f += np.where(X[:, 3] > 0, np.sin(6 * X[:, 4]) * X[:, 5], np.abs(X[:, 6] + X[:, 7]))
    return X, f, f + NOISE * rng.standard_normal(n)


def peak() -> float:
    """MiB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(threads: int, n: int, method: str, device: str) -> Row:
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    X, _, y = drawn(n, 0)
    X_new, f_new, _ = drawn(JUDGED, 1)
    low, high = y.min(), y.max()
    scaled, f_new = 2 * (y - low) / (high - low) - 1, 2 * (f_new - low) / (high - low) - 1
    before, start = peak(), time.perf_counter()
    fitted = METHODS[method].fit(X, scaled, 0, Effort(threads, device))
    seconds, memory, start = time.perf_counter() - start, peak() - before, time.perf_counter()
    t = np.clip(np.asarray(fitted.predict(X_new)).reshape(-1), -1, 1)
    per_second = JUDGED / (time.perf_counter() - start)
    row = {"rows": n, "method": method, "error": float(np.mean((t - f_new) ** 2))}
    row |= {"noise": (2 * NOISE / (high - low)) ** 2, "seconds": round(seconds, 1), "memory_MiB": round(memory)}
    row |= {"predictions_per_second": round(per_second), "chosen": fitted.chosen}
    if device != "cpu":
        row["device_MiB"] = round(torch.cuda.max_memory_allocated() / 2**20)
    return row | circumstances(device, threads)


def one(threads: int, n: int, method: str, device: str) -> Row:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (threads, n, method, device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--methods", nargs="+", default=["Ours (default)", "LightGBM"], choices=list(METHODS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    runs = product(options.rows, options.methods, [str(device_of(options.device))])
    fill(options.out, runs, partial(one, options.threads), KEY)


if __name__ == "__main__":
    main()
