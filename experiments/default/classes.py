"""The peers as classifiers, where a label's few values are classes: the mean of the values under their probabilities.

    python experiments/default/classes.py --data FOLDER --out experiments/default/classes.jsonl

Splits, scaling and early stopping as in ``hgk bench``, where the same methods regress on the numbers. One row per set,
split and method is appended; what the file has is not done again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from hgk.bench.datasets import load
from hgk.bench.protocol import clipped_error, make_split

sys.path.append(str(Path(__file__).parents[1]))
from records import fill

SETS = ["letter-recognition", "pendigits", "satimage", "shuttle"]

Probabilities = Callable[[np.ndarray], np.ndarray]


def forest(X: np.ndarray, c: np.ndarray, seed: int, threads: int) -> Probabilities:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(500, n_jobs=threads, random_state=seed).fit(X, c).predict_proba


def lightgbm(X: np.ndarray, c: np.ndarray, seed: int, threads: int) -> Probabilities:
    from lightgbm import LGBMClassifier, early_stopping

    fixed = {"learning_rate": 0.05, "n_jobs": threads, "random_state": seed, "verbose": -1}
    n = 4 * len(c) // 5
    first = LGBMClassifier(n_estimators=5000, **fixed)
    first.fit(X[:n], c[:n], eval_X=X[n:], eval_y=c[n:], callbacks=[early_stopping(50, verbose=False)])
    return LGBMClassifier(n_estimators=first.best_iteration_, **fixed).fit(X, c).predict_proba


def catboost(X: np.ndarray, c: np.ndarray, seed: int, threads: int) -> Probabilities:
    from catboost import CatBoostClassifier

    fixed = {"verbose": 0, "thread_count": threads, "random_seed": seed, "allow_writing_files": False}
    n = 4 * len(c) // 5
    first = CatBoostClassifier(iterations=5000, early_stopping_rounds=50, loss_function="MultiClass", **fixed)
    first.fit(X[:n], c[:n], eval_set=(X[n:], c[n:]))
    refit = CatBoostClassifier(
        iterations=first.best_iteration_ + 1, learning_rate=first.learning_rate_, loss_function="MultiClass", **fixed
    )
    return refit.fit(X, c).predict_proba


def realmlp(X: np.ndarray, c: np.ndarray, seed: int, threads: int) -> Probabilities:
    from pytabkit import RealMLP_TD_Classifier

    return RealMLP_TD_Classifier(random_state=seed, n_threads=threads, device="cpu").fit(X, c).predict_proba


METHODS = {"RF": forest, "LightGBM": lightgbm, "CatBoost": catboost, "RealMLP": realmlp}


def one(data: Path, threads: int, name: str, number: int, method: str) -> dict:
    table = load(name, data)
    split = make_split(name, table.X, table.y, number)
    values, first, c = np.unique(split.y, return_index=True, return_inverse=True)
    # Early stopping knows no class that the first four fifths lack: a row of every class goes first.
    order = np.r_[first, np.setdiff1d(np.arange(len(c)), first)]
    begun = time.perf_counter()
    probabilities = METHODS[method](split.X[order], c[order], number, threads)
    seconds = time.perf_counter() - begun
    t = np.asarray(probabilities(split.X_test)) @ values
    mse, error = clipped_error(t, split.y_test)
    row = {"set": name, "split": number, "method": method, "mse": mse, "standard_error": error}
    return row | {"seconds": round(seconds, 1), "threads": threads}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = [(name, split, m) for split in range(options.splits) for m in options.methods for name in options.sets]
    fill(options.out, runs, partial(one, options.data, options.threads))


if __name__ == "__main__":
    main()
