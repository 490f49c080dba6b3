"""What is known about a model's error, compared with a plain Gaussian SVM and a random forest.

    MSE = Σ_i s_i ‖y_i - clip(f(x_i))‖² / Σ_i s_i,     labels y scaled to [-1, 1]

over rows i that the function has not seen: rows that the fit set aside, training rows left out one at a time or fold by
fold, rows out of a tree's bag, or new rows.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hgk.estimators import HGKClassifier, HGKEstimator
from hgk.events import ASIDE, BY_FOLDS, Judged, Refined, honest_error, of_kind
from hgk.insight.fitted import Estimator, as_labels, left_out, require_model, training_of
from hgk.machines import Rows, clipped_risk, wrong_classes
from hgk.model import MEASURES
from hgk.targets import Scaling

# Rows up to which a plain machine is fitted for comparison where the fit itself has none: seconds.
PLAIN_ROWS = 3000
LOO, BAG, NEW = "leave-one-out", "out of bag", "new rows"
THIS_MODEL, PLAIN_SVM, RANDOM_FOREST = "this model", "plain Gaussian SVM", "random forest"


def verdict(model: HGKEstimator) -> dict[str, Any] | None:
    """The error on rows not seen: its ``basis``, how many ``rows``, and the measures, None where one has no meaning.

    None where the fit has left no such error, as in a model from a compact file that has another loss.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import verdict
    >>> error = verdict(HGKRegressor("plain", random_state=0).fit(*make_friedman1(100, random_state=0)))
    >>> error["basis"], bool(0 < error["r2"] < 1)
    ('5-fold cross-validation', True)
    """
    return model.model_.error()


def in_words(error: dict[str, Any], classes: bool, outputs: int = 1) -> str:
    """The measures of an error as a person reads them: of numbers in their unit, of classes by how many are wrong.

    Examples
    --------
    >>> from hgk.insight import in_words
    >>> in_words({"risk": 0.04, "r2": 0.875, "rmse": 12.5}, classes=False)
    'a root mean squared error of 12.5, R² 0.875'
    >>> in_words({"risk": 0.2, "wrong": 0.031}, classes=True)
    '3.1% of the classes wrong, a mean squared error of 0.2 for labels ±1'
    >>> in_words({"pinball": 1.25, "inside": 0.9}, classes=False)
    'a pinball loss of 1.25, 90.0% between the outer quantiles'
    """
    risk, r2, rmse, wrong, pinball, inside, log_loss = (error.get(name) for name in MEASURES)
    explained = "" if r2 is None else f"R² {r2:.3f}"
    if pinball is not None:
        between = "" if inside is None else f"{inside:.1%} between the outer quantiles"
        words = [f"a pinball loss of {pinball:.4g}", between]
    elif classes:
        words = [] if wrong is None else [f"{wrong:.1%} of the classes wrong"]
        words += [] if log_loss is None else [f"a log-loss of {log_loss:.4g}"]
        words += [] if risk is None else [f"a mean squared error of {risk:.4g} for labels ±1", explained]
    elif rmse is not None:
        words = [f"a root mean squared error of {rmse:.4g}", explained]
    else:
        words = [f"{explained or f'a mean squared error of {risk:.4g} for scaled labels'} over {outputs} outputs"]
    return ", ".join(filter(None, words))


# ------------------------------------------------------------------------------------------------------- new rows


@dataclass(frozen=True)
class NewRows:
    """Rows that the fit has not seen, as the reader and the target give them.

    ``known`` counts the training rows among those given, which are left out.
    """

    X: np.ndarray
    Y: np.ndarray
    known: int


def new_rows(model: Estimator, X: Any, y: Any) -> NewRows:
    """What is left of X and y without the training rows."""
    table, Y = model.table(X), _labels(model, np.asarray(y))
    if len(table) != len(Y):
        raise ValueError(f"X has {len(table)} rows and y has {len(Y)}; as many labels as rows are expected.")
    known = seen_rows(model, table, Y)
    return NewRows(table[~known], Y[~known], int(known.sum()))


def seen_rows(model: HGKEstimator, table: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Whether rows, as the reader and the target give them, are equal to training rows, labels included."""
    training = model.model_.need_training("Telling training rows from new ones needs")
    seen = {row.tobytes() for row in _cells(training.table, training.rows.Y.numpy())}
    return np.array([row.tobytes() in seen for row in _cells(table, Y)], dtype=bool)


def _labels(model: Estimator, y: np.ndarray) -> np.ndarray:
    if isinstance(model, HGKClassifier):
        unknown = sorted({str(label) for label in np.unique(y[~np.isin(y, model.classes_)])})
        if unknown:
            raise ValueError(
                f"y holds the classes {', '.join(unknown[:5])}, which the model does not know; leave them out."
            )
    return model.model_.target.encode(y)


def _cells(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Cells and labels, with one bit pattern for missing cells and for zero."""
    cells = np.column_stack([X, Y.round(9)]) + 0.0
    return np.where(np.isnan(cells), np.inf, cells)


# --------------------------------------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class Score:
    """An error: the mean squared error for labels scaled to [-1, 1], R², and what else is known.

    ``rmse`` is in the unit of the labels, for a single output; ``wrong`` is the share of wrong classes.
    """

    method: str
    basis: str
    risk: float
    r2: float | None = None
    rmse: float | None = None
    wrong: float | None = None


class Scorer:
    """Measures errors on the same rows alike: labels scaled to [-1, 1], predictions clipped there."""

    def __init__(self, model: Estimator, Y: torch.Tensor, weight: torch.Tensor):
        self.target, self.rows = model.model_.target, Rows(Y, Y, weight)

    def known(self, method: str, basis: str, risk: float, wrong: float | None = None) -> Score:
        told = self.target.explained(risk, self.rows)
        return Score(method, basis, risk, told.get("r2"), told.get("rmse"), wrong)

    def __call__(self, method: str, basis: str, t: torch.Tensor) -> Score:
        wrong = wrong_classes(t, self.rows)["wrong"] if self.target.classes else None
        return self.known(method, basis, clipped_risk(t, self.rows, 1.0), wrong)


def class_numbers(t: np.ndarray) -> np.ndarray:
    """The number of the class with the largest value; of two classes, by the sign of a single one."""
    return (t[:, 0] > 0).astype(int) if t.shape[1] == 1 else t.argmax(1)


def scores(model: Estimator, new: NewRows | None = None, compare: bool = True) -> list[Score]:
    """The model's error, the most trustworthy first, and those of a plain Gaussian SVM and a random forest.

    Where rows were set aside during the fit, the error on them comes first, and the plain machine's is of the same
    rows; leave-one-out errors are of the kernel that was chosen with all rows in view. ``compare=False`` fits nothing.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import scores
    >>> model = HGKRegressor("plain", random_state=0).fit(*make_friedman1(60, random_state=0))
    >>> [(score.method, score.basis) for score in scores(model, compare=False)]
    [('this model', '5-fold cross-validation'), ('this model', 'leave-one-out')]
    """
    require_model(model)
    fitted, rows = model.model_, training_of(model).rows
    scorer = Scorer(model, rows.Y, rows.weight)
    of_folds = fitted.machine.held_out is not None
    # what the fit recorded is of least squares, by which kernels are learned whatever the loss
    told = [] if of_folds else _recorded(model, scorer)
    told.append(scorer(THIS_MODEL, BY_FOLDS if of_folds else LOO, left_out(model)))
    fresh = None
    if new is not None and len(new.X):
        fresh = Scorer(model, torch.from_numpy(new.Y), torch.ones(len(new.Y), dtype=torch.float64))
        t = fitted.values(torch.from_numpy(fitted.inputs.encoder(new.X)))
        told.append(fresh(THIS_MODEL, NEW, as_labels(model, t)))
    if compare:
        lacking = fresh is not None or not any(score.method == PLAIN_SVM for score in told)
        if lacking and model.preset != "plain" and len(rows) <= PLAIN_ROWS:
            told += _plain(model, scorer, fresh, new)
        told += _forest(model, fresh, new)
    return told


def _recorded(model: Estimator, scorer: Scorer) -> list[Score]:
    """Errors that the fit found on rows it had set aside."""
    recorded = honest_error(model.history_)
    if recorded is None:
        return []
    (basis, event), classes = recorded, scorer.target.classes
    risks = [(THIS_MODEL, event.risk, getattr(event, "wrong", None))]
    if basis == ASIDE:
        # with a column for each value of the label, Judged.honest is of the columns
        taken = next((e for e in of_kind(model.history_, Refined) if e.taken), None)
        plain = [e for e in of_kind(model.history_, Judged) if e.candidate == "plain"]
        risks += [(PLAIN_SVM, taken.number if taken else judged.honest, judged.wrong) for judged in plain]
    return [
        scorer.known(method, basis, risk, wrong if classes else None)
        for method, risk, wrong in risks
        if risk is not None and math.isfinite(risk)
    ]


def _plain(model: Estimator, scorer: Scorer, fresh: Scorer | None, new: NewRows | None) -> list[Score]:
    """The machine that the preset "plain" trains on the same rows."""
    encoder, rows = model.model_.inputs.encoder, training_of(model).rows
    kept = [f for f, feature in enumerate(encoder.features) if feature.kind not in ("rank", "step")]
    Y = rows.Y.numpy()
    plain = type(model)("plain", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks on the columns were made by the model's own fit
        y = class_numbers(Y) if scorer.target.classes else Y
        plain.fit(rows.X.numpy()[:, kept], y, sample_weight=rows.weight.numpy())
    told = [scorer(PLAIN_SVM, LOO, left_out(plain)[training_of(plain).place])]
    if fresh is not None and new is not None:
        t = plain.model_.decoded(plain.features(encoder(new.X)[:, kept]))
        told.append(fresh(PLAIN_SVM, NEW, torch.from_numpy(t)))
    return told


def _forest(model: Estimator, fresh: Scorer | None, new: NewRows | None) -> list[Score]:
    """200 trees on the columns as numbers and codes; out-of-bag predictions, and those of new rows.

    Rows are taken as they were given: of equal ones some are in a tree's bag and others are not.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor  # late: most views need no forest

    training, classes = training_of(model), model.model_.target.classes
    place = np.sort(training.place[training.place >= 0])  # in an order that does not depend on theirs
    weight = (training.rows.weight / torch.from_numpy(np.bincount(place)))[place]
    Y = training.rows.Y[place]
    y = class_numbers(Y.numpy()) if classes else Y.numpy() if Y.shape[1] > 1 else Y[:, 0].numpy()
    kind = RandomForestClassifier if classes else RandomForestRegressor
    forest = kind(200, oob_score=True, random_state=0, n_jobs=torch.get_num_threads())
    scaled = _scaling(training.table)
    forest.fit(scaled(training.table[place]), y, sample_weight=weight.numpy())
    values = forest.oob_decision_function_ if classes else forest.oob_prediction_
    told = [Scorer(model, Y, weight)(RANDOM_FOREST, BAG, _columns(values, classes))]
    if fresh is not None and new is not None:
        values = (forest.predict_proba if classes else forest.predict)(scaled(new.X))
        told.append(fresh(RANDOM_FOREST, NEW, _columns(values, classes)))
    return told


def _scaling(X: np.ndarray) -> Scaling:
    """To [-1, 1], missing cells kept: forests work in single precision, whose range is short."""
    low, high = (np.nan_to_num(extreme.reduce(X, axis=0)) for extreme in (np.fmin, np.fmax))
    return Scaling.of(np.stack([low, high]))


def _columns(values: np.ndarray, classes: bool) -> torch.Tensor:
    """Probabilities or predictions as values in [-1, 1], one column per output."""
    if not classes:
        return torch.from_numpy(values.reshape(len(values), -1))
    values = 2 * np.nan_to_num(values, nan=1 / values.shape[1]) - 1
    return torch.from_numpy(values[:, 1:] if values.shape[1] == 2 else values)
