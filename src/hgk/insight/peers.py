"""Other methods on the same tables: a random forest, and boosting where it is installed.

A peer gets what these methods take: numbers as they are, categories as codes that it is told of (the forest orders
them), missing cells as NaN, other kinds of columns as numbers and as hgk's features of them. Columns that hgk takes for
ids are left out. Codes are those of the training rows; a value that these do not have counts as missing.

Boosting chooses its number of trees by early stopping on a fifth of the training rows, and is then trained on all of
them; rates are 0.05. LightGBM splits by groups of categories of 100 rows or, if that is less, a twentieth of all: by
its default it would not look at the categories of small tables. The forest's probabilities count one more tree for
every class, since a 0 costs any log-loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from hgk.estimators import checks
from hgk.inputs import ColumnSettings, Numeric, Reader, is_id, read_columns, split

# Trees of the forest; of boosting at most, and how many without progress end it.
FOREST, MOST_TREES, PATIENCE, RATE = 300, 2000, 50, 0.05
# Training rows from which a fifth can tell when to stop; trees with fewer rows.
ENOUGH_TO_STOP, TREES_OF_FEW = 30, 100
# Categories that HistGradientBoosting takes; a column with more is ordered.
MOST_CODES = 255
# Rows of a group of categories by which LightGBM splits; less in small tables.
LARGEST_GROUP = 100


@dataclass(frozen=True)
class EncodedTable:
    """Numbers and codes, which columns are codes, and how many different ones each has."""

    X: np.ndarray
    categorical: tuple[int, ...]
    levels: tuple[int, ...]


class TableEncoder:
    """From tables to what peers take; it is fitted to the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.insight.peers import TableEncoder
    >>> train = np.array([["a", 1.0], ["b", 2.0]] * 6, dtype=object)
    >>> TableEncoder(train)(np.array([["b", 5.0], ["c", None]], dtype=object)).X
    array([[ 1.,  5.],
           [nan, nan]])
    """

    def __init__(self, X: Any):
        columns, self.names = self._columns(X)
        reader, _ = read_columns(columns, self.names)
        table = reader(columns)
        one = np.ones(len(table))
        learned = [c.learned(x, one, ColumnSettings()) for c, x in zip(reader.columns, table.T, strict=True)]
        self.reader = Reader(tuple(learned))
        self.kept = [j for j, c in enumerate(learned) if c.levels is None or not is_id(len(c.levels), len(table))]

    def __call__(self, X: Any) -> EncodedTable:
        table = self.reader(self._columns(X)[0])
        parts: list[np.ndarray] = []
        categorical, levels = [], []
        for j in self.kept:
            column, x = self.reader.columns[j], table[:, j]
            if column.levels is not None:
                categorical.append(sum(part.shape[1] for part in parts))
                levels.append(len(column.levels))
                x = np.where(x < 0, np.nan, x)
            parts.append(x[:, None])
            if column.levels is None and not isinstance(column, Numeric):
                parts.append(column(x))
        out = np.hstack(parts) if parts else np.zeros((len(table), 1))
        return EncodedTable(out, tuple(categorical), tuple(levels))

    @staticmethod
    def _columns(X: Any) -> tuple[list[np.ndarray], list[str]]:
        columns, names = split(checks.table(X))
        return checks.finite(columns, names), names


@dataclass(frozen=True)
class PeerTask:
    """What a peer is to learn: numbers, or so many ``classes``, whose labels are 0, 1, ..."""

    classes: int
    seed: int
    threads: int


# Of rows as an EncodedTable has them: predictions, or a column of probabilities for each class.
PeerFunction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """A method: its name, a few words, the package it needs, and how it is trained."""

    name: str
    label: str
    requires: str
    fit: Callable[[EncodedTable, np.ndarray, PeerTask], PeerFunction]

    @property
    def installed(self) -> bool:
        return find_spec(self.requires) is not None


def _parts(y: np.ndarray, task: PeerTask) -> tuple[np.ndarray, np.ndarray] | None:
    """Four fifths of the rows and one, of every class as much; None if there are too few."""
    from sklearn.model_selection import train_test_split

    if len(y) < ENOUGH_TO_STOP:
        return None
    stratify = y if task.classes and np.bincount(y.astype(int)).min() > 1 and len(y) // 5 >= task.classes else None
    first, last = train_test_split(np.arange(len(y)), test_size=0.2, random_state=task.seed, stratify=stratify)
    known = not task.classes or len(np.unique(y[first])) == task.classes
    return (first, last) if known else None


def _function(model: Any, task: PeerTask) -> PeerFunction:
    return model.predict_proba if task.classes else model.predict


# ---------------------------------------------------------------------------------------------------- the methods


def _forest(table: EncodedTable, y: np.ndarray, task: PeerTask) -> PeerFunction:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind: Any = RandomForestClassifier if task.classes else RandomForestRegressor
    model = kind(FOREST, random_state=task.seed, n_jobs=task.threads).fit(table.X, y)
    if not task.classes:
        return model.predict
    return lambda X: (FOREST * model.predict_proba(X) + 1) / (FOREST + task.classes)


def _histograms(table: EncodedTable, y: np.ndarray, task: PeerTask) -> PeerFunction:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    few = [j for j, count in zip(table.categorical, table.levels, strict=True) if count <= MOST_CODES]
    kind: Any = HistGradientBoostingClassifier if task.classes else HistGradientBoostingRegressor
    fixed: dict[str, Any] = {"learning_rate": RATE, "categorical_features": few or None, "random_state": task.seed}
    trees, stopped = TREES_OF_FEW, _parts(y, task)
    if stopped is not None:
        first = kind(
            max_iter=MOST_TREES, early_stopping=True, validation_fraction=0.2, n_iter_no_change=PATIENCE, **fixed
        )
        trees = max(1, int(np.argmax(first.fit(table.X, y).validation_score_)))
    return _function(kind(max_iter=trees, early_stopping=False, **fixed).fit(table.X, y), task)


def _lightgbm(table: EncodedTable, y: np.ndarray, task: PeerTask) -> PeerFunction:
    from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping

    kind: Any = LGBMClassifier if task.classes else LGBMRegressor
    fixed: dict[str, Any] = {"learning_rate": RATE, "n_jobs": task.threads, "random_state": task.seed, "verbose": -1}
    fixed["min_data_per_group"] = min(LARGEST_GROUP, max(1, len(y) // 20))
    codes: dict[str, Any] = {"categorical_feature": list(table.categorical) or "auto"}
    trees, parts = TREES_OF_FEW, _parts(y, task)
    if parts is not None:
        first, last = parts
        stopping: dict[str, Any] = {
            "eval_X": table.X[last],
            "eval_y": y[last],
            "callbacks": [early_stopping(PATIENCE, verbose=False)],
        }
        model = kind(n_estimators=MOST_TREES, **fixed).fit(table.X[first], y[first], **stopping, **codes)
        trees = max(1, model.best_iteration_)
    return _function(kind(n_estimators=trees, **fixed).fit(table.X, y, **codes), task)


def _catboost(table: EncodedTable, y: np.ndarray, task: PeerTask) -> PeerFunction:
    from catboost import CatBoostClassifier, CatBoostRegressor

    def cells(X: np.ndarray) -> np.ndarray:
        """Codes as texts, which is how it wants categories."""
        if not table.categorical:
            return X
        out = X.astype(object)
        for j in table.categorical:
            out[:, j] = ["missing" if code != code else str(int(code)) for code in X[:, j]]
        return out

    kind: Any = CatBoostClassifier if task.classes else CatBoostRegressor
    X, parts = cells(table.X), _parts(y, task)
    fixed: dict[str, Any] = {"thread_count": task.threads, "random_seed": task.seed, "allow_writing_files": False}
    fixed |= {"verbose": 0, "cat_features": list(table.categorical) or None}
    fixed |= {"loss_function": "MultiClass"} if task.classes > 2 else {}
    chosen: dict[str, Any] = {"iterations": TREES_OF_FEW}
    if parts is not None:
        first, last = parts
        model = kind(iterations=MOST_TREES, early_stopping_rounds=PATIENCE, **fixed)
        model.fit(X[first], y[first], eval_set=(X[last], y[last]))
        # it sets its rate by the number of trees it is given: the one that was stopped is kept
        chosen = {"iterations": model.best_iteration_ + 1, "learning_rate": model.learning_rate_}
    function = _function(kind(**chosen, **fixed).fit(X, y), task)
    return lambda X: function(cells(X))


def _xgboost(table: EncodedTable, y: np.ndarray, task: PeerTask) -> PeerFunction:
    from xgboost import XGBClassifier, XGBRegressor

    kind: Any = XGBClassifier if task.classes else XGBRegressor
    parts = _parts(y, task)
    types = ["c" if j in table.categorical else "q" for j in range(table.X.shape[1])]
    fixed: dict[str, Any] = {"learning_rate": RATE, "n_jobs": task.threads, "random_state": task.seed}
    fixed |= {"feature_types": types, "enable_categorical": True, "tree_method": "hist", "verbosity": 0}
    trees = TREES_OF_FEW
    if parts is not None:
        first, last = parts
        model = kind(n_estimators=MOST_TREES, early_stopping_rounds=PATIENCE, **fixed)
        model.fit(table.X[first], y[first], eval_set=[(table.X[last], y[last])], verbose=False)
        trees = model.best_iteration + 1
    return _function(kind(n_estimators=trees, **fixed).fit(table.X, y), task)


PEERS = (
    Peer("random forest", f"{FOREST} trees", "sklearn", _forest),
    Peer("HistGradientBoosting", "scikit-learn's, early stopping on a fifth, refitted", "sklearn", _histograms),
    Peer("LightGBM", "early stopping on a fifth, refitted", "lightgbm", _lightgbm),
    Peer("CatBoost", "early stopping on a fifth, refitted", "catboost", _catboost),
    Peer("XGBoost", "early stopping on a fifth, refitted", "xgboost", _xgboost),
)
