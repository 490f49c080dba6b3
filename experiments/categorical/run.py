"""Probabilities where rows repeat: hgk's classifier beside a frequency table and others, on small categorical sets.

    python experiments/categorical/run.py [--out experiments/categorical/rows.jsonl] [--splits 0 1 2 3 4] [--sets …]
        [--methods …]

The sets are those of sets.py: built into scikit-learn or generated, nothing is downloaded. A split is 70 % training and
30 % test rows, at random by its number. One row per set, split and method is appended when it is through; what is there
already is passed over, so that a run may be stopped and started again. One thread per run. Nothing is chosen on test
rows. CatBoost stops early on the last fifth of the training rows and is then trained on all; where it is not installed
it is passed over with a word.

    log_loss    probabilities bounded away from 0 by 1e-15
    accuracy    of the most probable class
    ece         expected calibration error: ten bins of equal mass, the gap between mean probability and frequency,
                weighted by the bins' shares; of the second class if there are two, else of the most probable one
    seconds     of the fit
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sets import SETS
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from hgk import HGKClassifier, __version__

sys.path.append(str(Path(__file__).parents[1]))
from records import fill

Probabilities = Callable[[pd.DataFrame], np.ndarray]

MOST_TREES, PATIENCE = 5000, 50


# ---------------------------------------------------------------------------------------------- methods
# Each takes training rows, their classes as numbers from 0 without a gap, and a seed, and gives the function that
# predicts probabilities.


def ours(**settings) -> Callable[..., Probabilities]:
    def fit(X: pd.DataFrame, y: np.ndarray, seed: int) -> Probabilities:
        return HGKClassifier(random_state=seed, **settings).fit(X, y).predict_proba

    return fit


def logistic_regression(X: pd.DataFrame, y: np.ndarray, seed: int) -> Probabilities:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(X, y).predict_proba


def catboost(X: pd.DataFrame, y: np.ndarray, seed: int) -> Probabilities:
    from catboost import CatBoostClassifier

    # Early stopping knows no class that the first four fifths lack: a row of every class goes first.
    first_of_class = np.unique(y, return_index=True)[1]
    order = np.r_[first_of_class, np.setdiff1d(np.arange(len(y)), first_of_class)]
    X, y, n = X.iloc[order], y[order], 4 * len(y) // 5
    fixed = {"verbose": 0, "thread_count": 1, "random_seed": seed, "allow_writing_files": False}
    fixed |= {"cat_features": list(X.select_dtypes("category"))}
    first = CatBoostClassifier(iterations=MOST_TREES, early_stopping_rounds=PATIENCE, **fixed)
    first.fit(X[:n], y[:n], eval_set=(X[n:], y[n:]))
    # CatBoost sets its rate by the number of trees it is given: the refit keeps the one that was stopped.
    trees, rate = first.best_iteration_ + 1, first.learning_rate_
    return CatBoostClassifier(iterations=trees, learning_rate=rate, **fixed).fit(X, y).predict_proba


def frequency_table(X: pd.DataFrame, y: np.ndarray, seed: int) -> Probabilities:
    """The classes' frequencies among equal training rows, one added to each count; their shares for a row never seen.

    >>> X = pd.DataFrame({"x": pd.Categorical(["a", "a", "b", "c"], list("abcd"))})
    >>> frequency_table(X, np.array([0, 0, 1, 1]), 0)(X.assign(x=["a", "b", "c", "d"])).tolist()
    [[0.75, 0.25], [0.3333333333333333, 0.6666666666666666], [0.3333333333333333, 0.6666666666666666], [0.5, 0.5]]
    """
    classes = y.max() + 1
    cells = grouping(X)
    counts: dict[tuple, np.ndarray] = defaultdict(lambda: np.ones(classes))
    for cell, number in zip(cells(X), y, strict=True):
        counts[cell][number] += 1
    table = {cell: count / count.sum() for cell, count in counts.items()}
    prior = shares(y)
    return lambda Z: np.array([table.get(cell, prior) for cell in cells(Z)])


def grouping(X: pd.DataFrame) -> Callable[[pd.DataFrame], list[tuple]]:
    """The cells of rows; a number of more than five values is cut at its quintiles over the training rows."""
    cuts = {
        name: np.quantile(X[name], [0.2, 0.4, 0.6, 0.8]) for name in X.select_dtypes("number") if X[name].nunique() > 5
    }

    def cells(Z: pd.DataFrame) -> list[tuple]:
        columns = [np.searchsorted(cuts[name], Z[name]) if name in cuts else Z[name] for name in X]
        return list(zip(*columns, strict=True))

    return cells


def class_prior(X: pd.DataFrame, y: np.ndarray, seed: int) -> Probabilities:
    return lambda Z: np.tile(shares(y), (len(Z), 1))


def shares(y: np.ndarray) -> np.ndarray:
    return np.bincount(y) / len(y)


METHODS = {
    "hgk": ours(),
    "hgk, logistic": ours(loss="logistic"),
    "logistic regression": logistic_regression,
    "CatBoost": catboost,
    "frequency table": frequency_table,
    "class prior": class_prior,
}


def why_not(name: str, method: str) -> str | None:
    if method == "CatBoost" and find_spec("catboost") is None:
        return "CatBoost needs catboost, which is not installed"
    if method == "CatBoost" and name == "constant":
        return "CatBoost refuses a table whose columns are all constant"
    return None


# ----------------------------------------------------------------------------------------------- scores


def scores(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    of_its_class = probability[np.arange(len(y)), y].clip(1e-15, 1.0)
    best = probability.argmax(1)
    if probability.shape[1] == 2:
        ece = calibration_error(probability[:, 1], y == 1)
    else:
        ece = calibration_error(probability.max(1), best == y)
    return {"log_loss": float(-np.log(of_its_class).mean()), "accuracy": float((best == y).mean()), "ece": ece}


def calibration_error(p: np.ndarray, hit: np.ndarray, bins: int = 10) -> float:
    """The gap between mean probability and frequency in bins of equal mass, weighted by their shares.

    Equal probabilities share a bin, whatever the order of the rows: where rows repeat there may be fewer bins.

    >>> calibration_error(np.array([0.25, 0.25, 0.25, 0.25, 1.0]), np.array([0, 1, 0, 0, 1]))
    0.0
    >>> calibration_error(np.array([0.5, 0.5, 0.5, 0.5, 1.0]), np.array([0, 1, 0, 0, 1]))
    0.2
    """
    p = p.round(9)  # equal rows may differ in the last digits
    ends = np.unique(np.quantile(p, np.arange(1, bins + 1) / bins, method="inverted_cdf"))
    gaps = np.bincount(np.searchsorted(ends, p), weights=p - hit)
    return float(np.abs(gaps).sum() / len(p))


# ------------------------------------------------------------------------------------------------- runs


def one(name: str, number: int, method: str) -> dict:
    X, y = SETS[name]()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=number)
    known, codes = np.unique(y, return_inverse=True)
    start = time.perf_counter()
    predict = METHODS[method](X, codes, number)
    seconds = time.perf_counter() - start
    probability = np.zeros((len(y_test), max(y.max(), y_test.max()) + 1))
    probability[:, known] = predict(X_test)
    row = {"set": name, "split": number, "method": method, "n_train": len(y), "n_test": len(y_test)}
    return row | scores(probability, y_test) | {"seconds": round(seconds, 2), "hgk": __version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("rows.jsonl"))
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    threadpool_limits(1)
    warnings.simplefilter("ignore")
    possible = []
    for name, method in product(options.sets, options.methods):
        if reason := why_not(name, method):
            sys.stderr.write(f"{reason}; {name} is skipped\n")
        else:
            possible.append((name, method))
    fill(options.out, [(name, number, method) for number in options.splits for name, method in possible], one)


if __name__ == "__main__":
    main()
