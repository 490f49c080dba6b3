"""What a user of a processor waits for, as ratios in one run: predictions, fits, start-up.

    python benchmarks/processor.py --data FOLDER --out benchmarks/results/processor.json [--parts kernel predict ...]

    kernel      K α for 7000 x 15,000 pairs, the mean of kernels as learned on magic: compiled loops against tiles in
                double precision
    predict     100,000 rows of 12 columns from a 5000-row model, also compressed to 1 % more error, against LightGBM at
                its defaults; one row
    fit         7000 x 16 against CatBoost with early stopping and refit, where it uses its 5000 trees
                (letter-recognition) and where it stops after some hundred (bank-marketing); 500 rows against CatBoost
                at its defaults
    quantiles   five levels at 3000 rows against five LightGBM models
    compress    rows kept at 1 % more error on the fourteen sets of the paper, and the error on test rows
    start       hgk --help, import hgk

Nothing else may run meanwhile. Seconds are the smallest of some repetitions, for fits of one; all methods have the same
threads. Compiled code has been loaded before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hgk import HGKQuantileRegressor, HGKRegressor
from hgk.bench import datasets, protocol
from hgk.bench.methods import METHODS, Effort
from hgk.events import CompressedTo, last

THREADS = 2
# Sets of 7000 x 16 where CatBoost uses its 5000 trees, and where it stops after some hundred.
MANY_TREES, FEW_TREES = "letter-recognition", "bank-marketing"
SETS = (
    "bank-marketing", "cadata", "cod-rna", "covtype", "cpusmall", "cycle-power-plant", "higgs", "letter-recognition",
    "magic", "pendigits", "satimage", "shuttle", "thyroid-ann", "updrs-motor",
)  # fmt: skip


def seconds(job: Callable[[], Any], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        job()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def split(data: str, name: str) -> protocol.Split:
    found = datasets.load(name, data)
    return protocol.make_split(name, found.X, found.y, 0)


def noisy(n: int, columns: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, columns))
    y = np.sin(4 * X[:, 0] * X[:, 1]) + np.abs(X[:, 2]) + np.where(X[:, 3] > 0, X[:, 4], X[:, 5] ** 2)
    return X, y + 0.2 * rng.standard_normal(n)


def kernel(data: str) -> dict[str, Any]:
    part = split(data, "magic")
    model = HGKRegressor(random_state=0).fit(part.X, part.y)
    machine, X = model.machine_, model.features(np.vstack([part.X_test, part.X])[:15_000])
    exact, rounded = machine.kernel.multiply(X, machine.X, machine.alpha), machine(X)
    ours = seconds(lambda: machine(X))
    double = seconds(lambda: machine.kernel.multiply(X, machine.X, machine.alpha), 1)
    pairs = len(X) * len(machine.X) * len(machine.kernel.terms) / THREADS
    return {
        "kernels": len(machine.kernel.terms),
        "seconds": ours,
        "of_double_precision": double / ours,
        "ns_a_pair_kernel_and_thread": 1e9 * ours / pairs,
        "largest_difference": float((exact - rounded).abs().max()),
        "root_mean_square_difference": float((exact - rounded).pow(2).mean().sqrt()),
    }


def predict(data: str) -> dict[str, Any]:
    from lightgbm import LGBMRegressor

    X, y = noisy(5000)
    new, y_new = noisy(100_000, seed=1)
    model = HGKRegressor(random_state=0).fit(X, y)
    peer = LGBMRegressor(n_jobs=THREADS, verbose=-1).fit(X, y)
    begun = time.perf_counter()
    small = model.compress(0.01)
    compressing = time.perf_counter() - begun
    errors = {name: float(np.mean((m.predict(new) - y_new) ** 2)) for name, m in
              (("hgk", model), ("compressed", small), ("lightgbm", peer))}  # fmt: skip
    theirs = seconds(lambda: peer.predict(new))
    ours, compressed = seconds(lambda: model.predict(new), 2), seconds(lambda: small.predict(new))
    one, one_compressed, one_theirs = (seconds(lambda m=m: m.predict(new[:1]), 50) for m in (model, small, peer))
    return {
        "kernels": len(model.machine_.kernel.terms),
        "seconds": ours,
        "of_lightgbm": ours / theirs,
        "compressed_to": last(small.history_, CompressedTo).words,
        "compressing_seconds": compressing,
        "compressed_of_lightgbm": compressed / theirs,
        "one_row_ms": 1e3 * one,
        "one_row_compressed_ms": 1e3 * one_compressed,
        "one_row_lightgbm_ms": 1e3 * one_theirs,
        "errors": errors,
    }


def beside_catboost(part: protocol.Split) -> dict[str, Any]:
    chosen: list[Any] = []
    theirs = seconds(lambda: chosen.append(METHODS["CatBoost"].fit(part.X, part.y, 0, Effort(THREADS, "cpu"))), 1)
    ours = seconds(lambda: HGKRegressor(random_state=0).fit(part.X, part.y), 1)
    return {"seconds": ours, "of_catboost": ours / theirs, "catboost": chosen[0].chosen}


def fit(data: str) -> dict[str, Any]:
    from catboost import CatBoostRegressor

    results: dict[str, Any] = {name: beside_catboost(split(data, name)) for name in (MANY_TREES, FEW_TREES)}
    X, y = noisy(500)
    theirs = seconds(lambda: CatBoostRegressor(thread_count=THREADS, verbose=0, allow_writing_files=False).fit(X, y))
    ours = seconds(lambda: HGKRegressor(random_state=0).fit(X, y))
    return results | {"500 rows": {"seconds": ours, "of_catboost": ours / theirs}}


def quantiles(data: str) -> dict[str, Any]:
    from lightgbm import LGBMRegressor

    (X, y), levels = noisy(3000), [0.05, 0.25, 0.5, 0.75, 0.95]
    peers = [LGBMRegressor(objective="quantile", alpha=level, n_jobs=THREADS, verbose=-1) for level in levels]
    theirs = seconds(lambda: [peer.fit(X, y) for peer in peers])
    ours = seconds(lambda: HGKQuantileRegressor(quantiles=levels, random_state=0).fit(X, y), 1)
    return {"seconds": ours, "of_lightgbm": ours / theirs}


def compress(data: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in SETS:
        part = split(data, name)
        model = HGKRegressor(random_state=0).fit(part.X, part.y)
        begun = time.perf_counter()
        small = model.compress(0.01)
        taken, told = time.perf_counter() - begun, last(small.history_, CompressedTo)
        before, after = (protocol.clipped_error(m.predict(part.X_test), part.y_test)[0] for m in (model, small))
        results[name] = {"kept": told.kept / told.of, "seconds": taken, "error": before, "compressed": after}
        print(name, results[name], flush=True)
    kept = [result["kept"] for result in results.values()]
    ratios = [result["compressed"] / result["error"] for result in results.values()]
    return results | {"median_kept": float(np.median(kept)), "median_ratio_of_errors": float(np.median(ratios))}


def start(data: str) -> dict[str, Any]:
    run = [sys.executable, "-m", "hgk", "--help"], [sys.executable, "-c", "import hgk"]
    names = "help_seconds", "import_seconds"
    return {name: seconds(lambda words=words: subprocess.run(words, capture_output=True, check=True), 5)
            for name, words in zip(names, run, strict=True)}  # fmt: skip


PARTS = {part.__name__: part for part in (kernel, predict, fit, quantiles, compress, start)}


def processor_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    HGKRegressor(random_state=0).fit(*noisy(1000)).predict(noisy(2)[0])  # loads what is compiled
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.parts:
        results[name] = PARTS[name](options.data)
        print(name, json.dumps(results[name]), flush=True)
        results["machine"] = {"processor": processor_name(), "cores": os.cpu_count(), "threads": THREADS}
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
