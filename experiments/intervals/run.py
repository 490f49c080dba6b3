"""Intervals: those that adapt, those of one width, and quantiles of boosted trees, conformalised.

    python experiments/intervals/run.py --data FOLDER --out experiments/intervals/rows.jsonl [--splits 0 1 2] [--sets …]
        [--methods …] [--rows N]

FOLDER has <set>.parquet. The splits and the scaling of columns are those of the paper's protocol (hgk.bench.protocol):
7000 training rows, fewer for the smaller sets, at most 15,000 test rows; y is as it came. One row per set, split and
method is appended when it is through; what is there already is passed over, so that a run may be stopped and started
again. One thread per run. Nothing is chosen on test rows. The methods of hgk share one fit of a set and split, which
is not counted among their seconds: these are of the intervals of all test rows, with all that is computed once. Those
of LightGBM include training.

    coverage    share of test labels inside, 0.9 asked for; also of each fifth of the test rows, in the order of the
                predictions ("by_prediction"; of CQR of the middles of the intervals) and of the widths ("by_width")
    width       mean width, and "score" the mean interval score, width + 20 · (how far the label is outside) (Gneiting
                and Raftery, 2007), both in units of the labels' standard deviation over the training rows

    adaptive    HGKRegressor().predict_interval(X)
    jackknife+  HGKRegressor().predict_interval(X, method="jackknife+"), of one width but for rounding
    CQR         LightGBM's quantiles at 0.05 and 0.95 on four fifths of the training rows, the number of trees by
                early stopping on a quarter of these, moved apart by the conformal quantile of the scores on the other
                fifth (Romano, Patterson and Candès, 2019)
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from hgk import HGKRegressor, __version__
from hgk.bench.datasets import SPECS
from hgk.bench.protocol import as_numbers, split_rows, to_cube, training_rows
from hgk.intervals import adapted
from hgk.targets import label_bounds

sys.path.append(str(Path(__file__).parents[1]))
from records import circumstances, fill

LEVEL, FIFTHS = 0.9, 5
SETS = ("cadata", "cpusmall", "cycle-power-plant", "updrs-motor", "bank-32nh", "bank-32nm", "pumadyn-32nm")
MOST_TREES, PATIENCE = 5000, 50


@cache
def split(name: str, data: Path, number: int, rows: int | None):
    import pandas as pd

    frame = pd.read_parquet(data / f"{name}.parquet")
    X, y = frame.drop(columns="target"), frame["target"].to_numpy().astype(float)
    dropped = SPECS[name].dropped if name in SPECS else ()
    X = as_numbers(X.drop(columns=[c for c in dropped if c in X.columns]))
    n = min(training_rows(name, len(y)), rows or len(y))
    train, test = split_rows(len(y), n, number)
    return *to_cube(X[train], X[test]), y[train], y[test]


@cache
def fitted(name: str, data: Path, number: int, rows: int | None) -> HGKRegressor:
    """Kept for all methods of the last set and split."""
    X, _, y, _ = split(name, data, number, rows)
    return HGKRegressor(random_state=number, n_jobs=1).fit(X, y)


def ours(method: str, name: str, data: Path, number: int, rows: int | None):
    model, (_, X_test, _, _) = fitted(name, data, number, rows), split(name, data, number, rows)
    model.model_.memo.clear()
    middle, start = model.predict(X_test), time.perf_counter()
    ends = model.predict_interval(X_test, LEVEL, method=method)
    seconds, known = time.perf_counter() - start, model.model_
    chosen = {"optimism": known.optimism}
    chosen |= {"bounds": [b.words for b in label_bounds(known.target, known.training.rows)]}
    if method == "adaptive":
        spread = adapted(known)[0].spread
        kernel = None if spread is None else spread.features.kernel
        of = "constant" if spread is None else "predictions" if kernel is None else "rows"
        chosen |= {"spread": of if kernel is None or not kernel.is_plain else "all features"}
    return ends, middle, seconds, chosen


def conformal(name: str, data: Path, number: int, rows: int | None):
    from lightgbm import LGBMRegressor, early_stopping

    X, X_test, y, _ = split(name, data, number, rows)
    start, n, stop, trees, bounds, held = time.perf_counter(), 4 * len(y) // 5, 3 * len(y) // 5, [], [], []
    for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        fixed = {"objective": "quantile", "alpha": level, "learning_rate": 0.05}
        fixed |= {"n_jobs": 1, "random_state": number, "verbose": -1}
        first = LGBMRegressor(n_estimators=MOST_TREES, **fixed)
        callbacks = [early_stopping(PATIENCE, verbose=False)]
        first.fit(X[:stop], y[:stop], eval_X=X[stop:n], eval_y=y[stop:n], callbacks=callbacks)
        trees.append(max(1, first.best_iteration_))
        model = LGBMRegressor(n_estimators=trees[-1], **fixed).fit(X[:n], y[:n])
        bounds.append(model.predict(X_test))
        held.append(model.predict(X[n:]))
    scores = np.sort(np.maximum(held[0] - y[n:], y[n:] - held[1]))
    place = int(np.ceil(LEVEL * (len(scores) + 1)))
    apart = scores[min(place, len(scores)) - 1]
    ends = np.stack([bounds[0] - apart, bounds[1] + apart], 1)
    ends = np.sort(ends, axis=1)
    return ends, ends.mean(1), time.perf_counter() - start, {"trees": trees}


METHODS = {
    "adaptive": (partial(ours, "adaptive"), None),
    "jackknife+": (partial(ours, "jackknife+"), None),
    "CQR": (conformal, "lightgbm"),
}


def scores(ends: np.ndarray, middle: np.ndarray, y: np.ndarray, unit: float) -> dict[str, float | list[float]]:
    (low, high), outside = ends.T, 2 / (1 - LEVEL)
    inside, width = (low <= y) & (y <= high), high - low
    missed = np.maximum(low - y, 0) + np.maximum(y - high, 0)

    def fifths(by: np.ndarray) -> list[float]:
        return [float(inside[part].mean()) for part in np.array_split(np.argsort(by, kind="stable"), FIFTHS)]

    return {
        "coverage": float(inside.mean()),
        "by_prediction": fifths(middle),
        "by_width": fifths(width),
        "width": float(width.mean() / unit),
        "score": float((width + outside * missed).mean() / unit),
    }


def one(data: Path, rows: int | None, name: str, number: int, method: str) -> dict:
    _, _, y, y_test = split(name, data, number, rows)
    ends, middle, seconds, chosen = METHODS[method][0](name, data, number, rows)
    row = {"set": name, "split": number, "method": method, "rows": len(y), "test_rows": len(y_test)}
    row |= scores(ends, middle, y_test, float(y.std()))
    row |= {"seconds": round(seconds, 2), "chosen": chosen, "hgk": __version__}
    return row | circumstances("cpu", torch.get_num_threads())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", default=[*SETS], choices=SETS)
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--rows", type=int, help="at most so many training rows, to try the script")
    options = parser.parse_args()
    torch.set_num_threads(1)
    threadpool_limits(1)
    warnings.simplefilter("ignore")
    methods = []
    for method in options.methods:
        if (package := METHODS[method][1]) is not None and find_spec(package) is None:
            sys.stderr.write(f"{method} needs {package}, which is not installed, and is skipped\n")
        else:
            methods.append(method)
    for number in options.splits:
        for name in options.sets:
            fill(options.out, [(name, number, m) for m in methods], partial(one, options.data, options.rows))
            split.cache_clear()
            fitted.cache_clear()


if __name__ == "__main__":
    main()
