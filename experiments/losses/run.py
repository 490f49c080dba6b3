"""Other losses than least squares, beside today's peers: classes as classes, and quantiles.

    python experiments/losses/run.py --data FOLDER --out experiments/losses/rows.jsonl [--splits 0 1 2] [--sets …]
        [--methods …] [--rows N]

FOLDER has <set>.parquet; it may also be the file that experiments/table1/bare.py prepares, for machines without pandas.

The splits and the scaling of columns are those of the paper's protocol (hgk.bench.protocol): 7000 training rows, fewer
for the smaller sets, at most 15,000 test rows; y is as it came. One row per set, split and method is appended when it
is through; what is there already is passed over, so that a run may be stopped and started again. One thread per run.
Nothing is chosen on test rows. Peers stop early on the last fifth of the training rows and are then trained on all, as
in hgk.bench.methods; a peer that is not installed is passed over with a word.

    classes     accuracy; log-loss, probabilities bounded away from 0 by 1e-15; AUC, of several classes the mean of each
                against the rest; calibration error: over 15 bins of the probability of the class predicted, the mean
                distance of its mean from the share that is right. Test rows of a class that no training row has are
                left out. The small sets of scikit-learn are divided into halves.
    quantiles   mean pinball loss over the levels .05 .25 .5 .75 .95, in units of the labels' standard deviation over
                the training rows; coverage: the share of test labels between the outer two
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from hgk import HGKClassifier, HGKQuantileRegressor, __version__
from hgk.bench.protocol import as_numbers, split_rows, to_cube, training_rows
from hgk.events import LossesCompared, last

sys.path.append(str(Path(__file__).parents[1]))
from records import fill

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
LARGE = (
    "magic", "cod-rna", "covtype", "higgs", "bank-marketing", "thyroid-ann", "satimage", "pendigits", "shuttle",
    "letter-recognition",
)  # fmt: skip
SMALL = ("iris", "wine", "breast-cancer", "digits")
CLASSES = (*LARGE, *SMALL)
# Of these one class stands against the rest; of the others all are told apart.
AGAINST_THE_REST = ("covtype",)
NUMBERS = ("cadata", "cpusmall", "cycle-power-plant", "updrs-motor")
MOST_TREES, PATIENCE = 5000, 50


# ---------------------------------------------------------------------------------------------- methods


def ours(**settings):
    def fit(X, y, seed):
        model = HGKClassifier(random_state=seed, n_jobs=1, **settings).fit(X, y)
        said = last(model.history_, LossesCompared)
        chosen = {"lam": model.lam_, "kernels": len(model.machine_.terms)}
        return model.predict_proba, chosen | ({} if said is None else {"logistic": said.logistic, "moved": said.moved})

    return fit


def catboost_classes(X, y, seed):
    from catboost import CatBoostClassifier

    fixed = {"verbose": 0, "thread_count": 1, "random_seed": seed, "allow_writing_files": False}
    n = 4 * len(y) // 5
    known = n + np.flatnonzero(np.isin(y[n:], y[:n]))
    first = CatBoostClassifier(iterations=MOST_TREES, early_stopping_rounds=PATIENCE, **fixed)
    first.fit(X[:n], y[:n], eval_set=(X[known], y[known]))
    trees = first.best_iteration_ + 1
    # CatBoost sets its rate by the number of trees it is given: the refit keeps the one that was stopped.
    model = CatBoostClassifier(iterations=trees, learning_rate=first.learning_rate_, **fixed).fit(X, y)
    return model.predict_proba, {"trees": trees}


def lightgbm_trees(kind, X, y, fixed):
    from lightgbm import early_stopping

    n = 4 * len(y) // 5
    known = slice(n, None) if kind.__name__ == "LGBMRegressor" else n + np.flatnonzero(np.isin(y[n:], y[:n]))
    first = kind(n_estimators=MOST_TREES, **fixed)
    first.fit(X[:n], y[:n], eval_X=X[known], eval_y=y[known], callbacks=[early_stopping(PATIENCE, verbose=False)])
    return max(1, first.best_iteration_)


def lightgbm_classes(X, y, seed):
    from lightgbm import LGBMClassifier

    fixed = {"learning_rate": 0.05, "n_jobs": 1, "random_state": seed, "verbose": -1}
    trees = lightgbm_trees(LGBMClassifier, X, y, fixed)
    return LGBMClassifier(n_estimators=trees, **fixed).fit(X, y).predict_proba, {"trees": trees}


def linear(X, y, seed):
    """With C by five folds."""
    from sklearn.linear_model import LogisticRegressionCV

    folds = min(5, int(np.bincount(y)[np.bincount(y) > 0].min()))
    fixed = {"scoring": "neg_log_loss", "max_iter": 2000, "random_state": seed, "use_legacy_attributes": False}
    if folds < 2:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=2000).fit(X, y).predict_proba, {}
    model = LogisticRegressionCV(Cs=10, cv=folds, l1_ratios=(0.0,), **fixed).fit(X, y)
    return model.predict_proba, {"C": float(np.mean(model.C_))}


def forest(X, y, seed):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(500, random_state=seed, n_jobs=1).fit(X, y).predict_proba, {}


def our_quantiles(X, y, seed):
    model = HGKQuantileRegressor(quantiles=list(LEVELS), random_state=seed, n_jobs=1).fit(X, y)
    return model.predict, {"lams": model.lams_.tolist(), "machines": len(model.machine_.terms)}


def lightgbm_quantiles(X, y, seed):
    """One model per level, each with its own number of trees; predictions in order, as ours are."""
    from lightgbm import LGBMRegressor

    models, trees = [], []
    for level in LEVELS:
        fixed = {"objective": "quantile", "alpha": level, "learning_rate": 0.05}
        fixed |= {"n_jobs": 1, "random_state": seed, "verbose": -1}
        trees.append(lightgbm_trees(LGBMRegressor, X, y, fixed))
        models.append(LGBMRegressor(n_estimators=trees[-1], **fixed).fit(X, y))
    return lambda Z: np.sort(np.column_stack([m.predict(Z) for m in models]), axis=1), {"trees": trees}


METHODS = {
    "default": (ours(), None),
    "least squares": (ours(loss="least_squares"), None),
    "hinge": (ours(loss="hinge"), None),
    "logistic": (ours(loss="logistic"), None),
    "CatBoost": (catboost_classes, "catboost"),
    "LightGBM": (lightgbm_classes, "lightgbm"),
    "logistic regression": (linear, None),
    "random forest": (forest, None),
}
QUANTILE_METHODS = {
    "quantiles": (our_quantiles, None),
    "LightGBM, five models": (lightgbm_quantiles, "lightgbm"),
}


# ----------------------------------------------------------------------------------------------- scores


def score_classes(probability: np.ndarray, y: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    known = np.isin(y, classes)
    probability, number = probability[known], np.searchsorted(classes, y[known])
    of_its_class = probability[np.arange(len(number)), number].clip(1e-15, 1.0)
    right, certainty = probability.argmax(1) == number, probability.max(1)
    bins = np.minimum((15 * certainty).astype(int), 14)
    off = [abs((certainty - right)[bins == b].sum()) for b in range(15)]
    areas = [roc_auc_score(number == k, probability[:, k]) for k in np.unique(number)]
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(-np.log(of_its_class).mean()),
        "auc": float(np.mean(areas)),
        "calibration_error": float(sum(off) / len(number)),
    }


def score_quantiles(t: np.ndarray, y: np.ndarray, unit: float) -> dict[str, float]:
    r, tau = y[:, None] - t, np.array(LEVELS)
    inside = (t[:, 0] <= y) & (y <= t[:, -1])
    return {
        "pinball": float(np.maximum(tau * r, (tau - 1) * r).mean() / unit),
        "coverage": float(inside.mean()),
        "width": float(np.median(t[:, -1] - t[:, 0]) / unit),
    }


# ------------------------------------------------------------------------------------------------- data


def table(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Columns as numbers, and the target: as it came, or classes as numbers from 0."""
    if name in SMALL:
        X, y = getattr(datasets, "load_" + name.replace("-", "_"))(return_X_y=True)
    else:
        X, y = prepared(name, data) if data.is_file() else as_it_came(name, data)
    return X, y.astype(float) if name in NUMBERS else np.unique(y, return_inverse=True)[1]


def prepared(name: str, file: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(file) as arrays:
        return arrays[f"{name}/X"].astype(float), arrays[f"{name}/y"]


def as_it_came(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    from hgk.bench.datasets import SPECS

    spec, frame = SPECS[name], pd.read_parquet(folder / f"{name}.parquet")
    X, y = frame.drop(columns="target"), frame["target"].to_numpy()
    X = as_numbers(X.drop(columns=[c for c in spec.dropped if c in X.columns]))
    return X, y == spec.against_the_rest if name in AGAINST_THE_REST else y


def split(name: str, X: np.ndarray, y: np.ndarray, number: int, rows: int | None):
    n = min(len(y) // 2 if name in SMALL else training_rows(name, len(y)), rows or len(y))
    train, test = split_rows(len(y), n, number)
    return *to_cube(X[train], X[test]), y[train], y[test]


def one(data: Path, rows: int | None, name: str, number: int, method: str) -> dict:
    of_classes = name in CLASSES
    fit, _ = (METHODS if of_classes else QUANTILE_METHODS)[method]
    X, X_test, y, y_test = split(name, *table(name, data), number, rows)
    start = time.perf_counter()
    predict, chosen = fit(X, y, number)
    seconds = time.perf_counter() - start
    scores = (
        score_classes(predict(X_test), y_test, np.unique(y))
        if of_classes
        else score_quantiles(predict(X_test), y_test, float(y.std()))
    )
    row = {"set": name, "split": number, "method": method, "rows": len(y), "test_rows": len(y_test), **scores}
    return row | {"seconds": round(seconds, 2), "chosen": chosen, "hgk": __version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", default=[*NUMBERS, *CLASSES], choices=[*NUMBERS, *CLASSES])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *QUANTILE_METHODS])
    parser.add_argument("--rows", type=int, help="at most so many training rows, to try the script")
    options = parser.parse_args()
    torch.set_num_threads(1)
    threadpool_limits(1)
    warnings.simplefilter("ignore")
    possible = []
    for name in options.sets:
        methods = METHODS if name in CLASSES else QUANTILE_METHODS
        for method in [m for m in methods if m in (options.methods or methods)]:
            if (package := methods[method][1]) is not None and find_spec(package) is None:
                sys.stderr.write(f"{method} needs {package}, which is not installed; {name} is skipped\n")
            else:
                possible.append((name, method))
    runs = [(name, number, method) for number in options.splits for name, method in possible]
    fill(options.out, runs, partial(one, options.data, options.rows))


if __name__ == "__main__":
    main()
