"""Classes with more rows than one kernel matrix takes: log-loss, compared with gradient boosting.

    python experiments/losses/large.py --data FOLDER --out experiments/losses/large.jsonl [--sets …] [--methods …]

Test rows are the first ones of a permutation, at most 10,000; the next ones train, as many as ROWS says. Columns,
scaling and scores are those of run.py; covtype is class 2 against the rest.

"default", "least squares" and "logistic" are ``HGKClassifier`` with that loss. "before" is the default of a version
that had nothing but least squares beyond 10,000 rows, and judged leaves by squared errors: put that version's src on
PYTHONPATH. One row per set and method is appended; what the file has is not done again. "processor_seconds" are those
of all threads of the fit, which other work on the computer changes less than "seconds".
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

from hgk import HGKClassifier
from hgk.bench.protocol import to_cube
from hgk.events import LeavesChosen, LossesCompared, last

sys.path.append(str(Path(__file__).parents[1]))
from records import Row, circumstances, fill
from run import MOST_TREES, PATIENCE, score_classes, table

KEY = ("set", "method")
MOST_TEST_ROWS = 10_000
ROWS = {
    "magic": 15_000,
    "letter-recognition": 15_000,
    "bank-marketing": 20_000,
    "higgs": 20_000,
    "cod-rna": 20_000,
    "covtype": 20_000,
}


def ours(**settings):
    def fit(X, y, threads):
        model = HGKClassifier(random_state=0, **settings).fit(X, y)
        said = [last(model.history_, kind) for kind in (LossesCompared, LeavesChosen)]
        return model.predict_proba, {type(event).__name__: event.words for event in said if event is not None}

    return fit


def catboost(X, y, threads):
    from catboost import CatBoostClassifier

    fixed = {"verbose": 0, "thread_count": threads, "random_seed": 0, "allow_writing_files": False}
    n = 4 * len(y) // 5
    first = CatBoostClassifier(iterations=MOST_TREES, early_stopping_rounds=PATIENCE, **fixed)
    first.fit(X[:n], y[:n], eval_set=(X[n:], y[n:]))
    trees = first.best_iteration_ + 1
    # its rate depends on the number of trees it is given: the refit keeps the one that was stopped
    model = CatBoostClassifier(iterations=trees, learning_rate=first.learning_rate_, **fixed).fit(X, y)
    return model.predict_proba, {"trees": trees}


def lightgbm(X, y, threads):
    from lightgbm import LGBMClassifier, early_stopping

    fixed, n = {"learning_rate": 0.05, "n_jobs": threads, "random_state": 0, "verbose": -1}, 4 * len(y) // 5
    first = LGBMClassifier(n_estimators=MOST_TREES, **fixed)
    first.fit(X[:n], y[:n], eval_X=X[n:], eval_y=y[n:], callbacks=[early_stopping(PATIENCE, verbose=False)])
    trees = max(1, first.best_iteration_)
    return LGBMClassifier(n_estimators=trees, **fixed).fit(X, y).predict_proba, {"trees": trees}


METHODS = {
    "default": ours(),
    "least squares": ours(loss="least_squares"),
    "logistic": ours(loss="logistic"),
    "before": ours(),
    "CatBoost": catboost,
    "LightGBM": lightgbm,
}


def one(data: Path, rows: int | None, threads: int, name: str, method: str) -> Row:
    X, y = table(name, data)
    y, n = np.unique(y, return_inverse=True)[1], rows or ROWS[name]
    order = np.random.default_rng(0).permutation(len(y))
    many = min(MOST_TEST_ROWS, len(y) - ROWS[name])
    test, train = order[:many], order[many : many + n]
    inside, outside = to_cube(X[train], X[test])
    begun, worked = time.perf_counter(), time.process_time()
    predict, chosen = METHODS[method](inside, y[train], threads)
    took = {"seconds": time.perf_counter() - begun, "processor_seconds": time.process_time() - worked}
    took = {what: round(seconds, 1) for what, seconds in took.items()}
    scores = score_classes(predict(outside), y[test], np.unique(y[train]))
    row = {"set": name, "split": 0, "method": method, "rows": n, "test_rows": many, **scores, **took}
    return row | {"chosen": chosen} | circumstances("cpu", threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--methods", nargs="+", default=["default", "CatBoost", "LightGBM"], choices=list(METHODS))
    parser.add_argument("--rows", type=int, help="so many training rows, to try the script")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    runs = product(options.sets, options.methods)
    fill(options.out, runs, partial(one, options.data, options.rows, options.threads), KEY)


if __name__ == "__main__":
    main()
