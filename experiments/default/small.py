"""Small data: the default beside the plain Gaussian machine, on scikit-learn's bundled sets.

    python experiments/default/small.py --out experiments/default/small.jsonl [--repeats 5]

Repeated 3-fold cross-validation. The error is what both minimise: the mean squared error of the prediction, or of the
decision function against labels ±1, summed over classes. One row per set is appended; what the file has is not
done again.
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
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.model_selection import KFold, StratifiedKFold

from hgk import HGKClassifier, HGKRegressor

sys.path.append(str(Path(__file__).parents[1]))
from records import fill

SETS = {
    "diabetes": (load_diabetes, HGKRegressor),
    "breast cancer": (load_breast_cancer, HGKClassifier),
    "wine": (load_wine, HGKClassifier),
    "digits": (load_digits, HGKClassifier),
}


def error(model, X: np.ndarray, y: np.ndarray) -> float:
    if isinstance(model, HGKRegressor):
        return float(np.mean((model.predict(X) - y) ** 2))
    t = model.decision_function(X).reshape(len(y), -1)
    wanted = model.classes_[1:] if t.shape[1] == 1 else model.classes_
    return float(((t - np.where(y[:, None] == wanted, 1, -1)) ** 2).sum(1).mean())


def one(repeats: int, name: str) -> dict:
    load, kind = SETS[name]
    X, y = load(return_X_y=True)
    errors, seconds = {"default": [], "plain": []}, {"default": [], "plain": []}
    for repeat in range(repeats):
        folds = (KFold if kind is HGKRegressor else StratifiedKFold)(3, shuffle=True, random_state=repeat)
        for (train, test), preset in product(folds.split(X, y), errors):
            start = time.perf_counter()
            model = kind(preset, random_state=repeat).fit(X[train], y[train])
            seconds[preset].append(time.perf_counter() - start)
            errors[preset].append(error(model, X[test], y[test]))
    ratios = np.array(errors["default"]) / errors["plain"]
    row = {"set": name, "fits": len(ratios), **{preset: float(np.mean(e)) for preset, e in errors.items()}}
    row["ratio"] = row["default"] / row["plain"]
    row["fold_ratios"] = {"smallest": float(ratios.min()), "largest": float(ratios.max())}
    row["seconds"] = {preset: round(float(np.median(s)), 2) for preset, s in seconds.items()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    fill(options.out, [(name,) for name in options.sets], partial(one, options.repeats), ("set",))


if __name__ == "__main__":
    main()
