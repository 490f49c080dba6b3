"""Importances beside what they claim: how much worse a method predicts new rows when it is refitted without a column.

    python experiments/importance/run.py --data FOLDER --out experiments/importance/rows.jsonl [--splits 0 1 2]
        [--sets …] [--methods …] [--rows N]

FOLDER has <set>.parquet; "friedman" and "diabetes" need no file. The splits and the scaling of columns and labels are
those of the paper's protocol (hgk.bench.protocol). One row per set, split and method is appended when it is through;
what is there already is passed over, so that a run may be stopped and started again. One thread per run.

    hgk         importance_.mean of HGKRegressor: feature_importances_ with what is shown there as none
    catboost    get_feature_importance() (PredictionValuesChange), early stopping on the last fifth of the training rows
    forest      scikit-learn's permutation_importance of a random forest, 5 repeats, on the last fifth of the training
                rows, which the forest has not seen

    spearman    rank correlation of the importances with the increases of the method's own mean squared error on test
                rows when it is refitted without each column; for hgk every refit learns its kernel anew
    of_hgk      the same with the increases of hgk's refits, the row of "hgk" being there already, else null
    seconds     of the importances, the fit being there
    fit         seconds of one fit
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance
from threadpoolctl import threadpool_limits

from hgk import HGKRegressor
from hgk.bench import datasets
from hgk.bench.protocol import as_numbers, split_rows, to_cube, training_rows

sys.path.append(str(Path(__file__).parents[1]))
from records import circumstances, fill, stored

SETS = ("friedman", "diabetes", "cpusmall", "cycle-power-plant", "bank-marketing", "magic")
TREES, PATIENCE = 5000, 50


class Fit(NamedTuple):
    predict: Callable[[np.ndarray], np.ndarray]
    importances: Callable[[], np.ndarray]


def ours(X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    model = HGKRegressor(random_state=seed).fit(X, y)
    return Fit(model.predict, lambda: model.importance_.mean)


def catboost(X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    from catboost import CatBoostRegressor

    cut = len(X) - len(X) // 5
    kept = {"thread_count": 1, "random_seed": seed, "verbose": False, "allow_writing_files": False}
    first = CatBoostRegressor(iterations=TREES, early_stopping_rounds=PATIENCE, **kept)
    first.fit(X[:cut], y[:cut], eval_set=(X[cut:], y[cut:]))
    model = CatBoostRegressor(iterations=first.tree_count_, **kept).fit(X, y)
    return Fit(model.predict, lambda: np.asarray(model.get_feature_importance()))


def forest(X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    cut = len(X) - len(X) // 5
    model = RandomForestRegressor(200, random_state=seed, n_jobs=1).fit(X[:cut], y[:cut])
    held_out = X[cut:], y[cut:]
    return Fit(
        model.predict, lambda: permutation_importance(model, *held_out, n_repeats=5, random_state=seed).importances_mean
    )


METHODS = {"hgk": ours, "catboost": catboost, "forest": forest}


def table(name: str, data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if name == "friedman":
        return make_friedman1(3000, noise=1.0, random_state=0)
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    found = datasets.load(name, data)
    return as_numbers(found.X), found.y


def split(name: str, X: np.ndarray, y: np.ndarray, number: int, rows: int | None):
    """Training and test rows in [-1, 1], and their labels, scaled by those of the training rows."""
    train, test = split_rows(len(y), min(training_rows(name, len(y)), rows or len(y)), number, most=2000)
    low, high = y[train].min(), y[train].max()
    return *to_cube(X[train], X[test]), *(2 * (y[part] - low) / (high - low) - 1 for part in (train, test))


def one(data: Path | None, rows: int | None, out: Path, name: str, number: int, method: str) -> dict[str, Any]:
    X, X_test, y, y_test = split(name, *table(name, data), number, rows)
    fit = METHODS[method]

    def error(columns: list[int]) -> float:
        predict = fit(X[:, columns], y, number).predict
        return float(np.mean((np.clip(predict(X_test[:, columns]), -1, 1) - y_test) ** 2))

    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.perf_counter()
        fitted = fit(X, y, number)
        between = time.perf_counter()
        found = np.asarray(fitted.importances())
        ended = time.perf_counter()
        everything = list(range(X.shape[1]))
        whole = error(everything)
        lost = [error([k for k in everything if k != j]) - whole for j in everything]
    known = [row["lost"] for row in stored(out) if (row["set"], row["split"], row["method"]) == (name, number, "hgk")]
    of_hgk = lost if method == "hgk" else known[0] if known else None
    return {
        "set": name,
        "split": number,
        "method": method,
        "spearman": float(spearmanr(found, lost)[0]),
        "of_hgk": None if of_hgk is None else float(spearmanr(found, of_hgk)[0]),
        "seconds": ended - between,
        "fit": between - begun,
        "error": whole,
        "rows": len(y),
        "importances": found.tolist(),
        "lost": lost,
        **circumstances("cpu", 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("rows.jsonl"))
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rows", type=int, help="training rows at most")
    asked = parser.parse_args()
    absent = {"catboost"} if find_spec("catboost") is None else set()
    if absent & {*asked.methods}:
        print("catboost is not installed and passed over; pip install catboost.")
    methods = [method for method in asked.methods if method not in absent]
    runs = [(name, number, method) for name in asked.sets for number in asked.splits for method in methods]
    fill(asked.out, runs, lambda *run: one(asked.data, asked.rows, asked.out, *run))


if __name__ == "__main__":
    main()
