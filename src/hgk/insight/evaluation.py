"""Scores of a fitted model on labelled rows, compared with what the fit itself had promised.

    numbers      RMSE, MAE, R²; coverage and width of intervals
    classes      log-loss, accuracy, AUC, calibration error; confusion
    quantiles    pinball loss of each level and of all, labels below each level, labels between the outer ones

Each score comes with its standard error over the rows (:mod:`hgk.insight.measures`). The promise is the error that the
fit found on rows set aside or by cross-validation (:func:`hgk.insight.verdict`), else the leave-one-out error. With a
promise of m rows and n rows here, the standard error of the difference is taken to be that of the score times
√(1 + n/m), as if single rows spread alike.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hgk.estimators import HGKClassifier, HGKEstimator, HGKQuantileRegressor, checks
from hgk.estimators.parameters import between
from hgk.events import ASIDE
from hgk.inputs import is_missing
from hgk.insight.coverage import has_intervals
from hgk.insight.errors import LOO, seen_rows, verdict
from hgk.insight.measures import (
    Measure,
    calibration_by_chance,
    class_measures,
    mean_measure,
    number_measures,
    pinball_losses,
)

MEASURE_WORDS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
    "risk": "squared error of labels scaled to [-1, 1]",
    "coverage": "labels inside their interval",
    "width": "mean width of the intervals",
    "log_loss": "log-loss",
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "calibration": "calibration error",
    "pinball": "pinball loss",
    "below": "labels below the quantile",
    "inside": "labels between the outer quantiles",
}
# Scores of which more is better.
LARGER_IS_BETTER = ("r2", "accuracy", "auc")
# Of intervals, unless asked for.
COVERAGE = 0.9
# Standard errors from which a difference is told.
TOLD = 2.0


@dataclass(frozen=True)
class Promise:
    """The score that the fit had found on rows it had not seen: by which ``basis``, and on how many rows, if known."""

    name: str
    value: float
    basis: str
    rows: int | None = None


@dataclass(frozen=True)
class Assessment:
    """Scores of a model on labelled rows.

    Attributes
    ----------
    task : {"regression", "classification", "quantiles"}
    measures : list of Measure
    rows, without_label : int
        Rows that were scored, and rows that were left out since they have no label.
    known : int or None
        Training rows among those scored; None if the model does not have them.
    promised : Promise or None
    sentence : str
        How the scores compare with the promise.
    remarks : list of str
        What to know before the scores are trusted.
    classes : list of str
        The classes that occur; first those that the model knows.
    confusion : ndarray of shape (classes, known classes) or None
        The weight of the rows of each class for which each was predicted.
    y, predicted : ndarray of shape (rows, outputs)
        Labels and predictions; of classes their numbers, -1 for labels that the model does not know.
    probability : ndarray of shape (rows, classes) or None
    place : ndarray of shape (rows,)
        Which of the given rows were scored.
    asked : float or None
        The coverage of the intervals that were checked.
    """

    task: str
    measures: list[Measure]
    rows: int = 0
    without_label: int = 0
    known: int | None = None
    promised: Promise | None = None
    sentence: str = ""
    remarks: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    confusion: np.ndarray | None = None
    y: np.ndarray = field(default_factory=lambda: np.empty((0, 1)), repr=False)
    predicted: np.ndarray = field(default_factory=lambda: np.empty((0, 1)), repr=False)
    probability: np.ndarray | None = field(default=None, repr=False)
    place: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int), repr=False)
    asked: float | None = None

    def __getitem__(self, name: str) -> float:
        """The value of a score; of the first output, where there are several."""
        return self.measure(name).value

    def measure(self, name: str, output: str | None = None) -> Measure:
        """A score with its standard error; of this output, or of all together, or of the first."""
        of_name = [m for m in self.measures if m.name == name and output in (None, m.output)]
        if not of_name:
            known = ", ".join(dict.fromkeys(m.name for m in self.measures))
            raise ValueError(f"The score {name!r} was asked for; there are {known}, so take one of these.")
        return next((m for m in of_name if not m.output), of_name[0])

    def words(self, measure: Measure) -> str:
        """What a score is called, and of what it is."""
        words = MEASURE_WORDS[measure.name]
        if self.asked is not None and measure.name in ("coverage", "width"):
            words = f"{words} ({self.asked:.0%})"
        return f"{words}, {measure.output}" if measure.output else words

    def as_dict(self) -> dict[str, Any]:
        """Everything but the rows themselves, as JSON can hold it; what is not finite is None."""

        def finite(x: float | None) -> float | None:
            return x if x is not None and math.isfinite(x) else None

        of = [{"output": m.output} if m.output else {} for m in self.measures]
        scores = [
            {"name": m.name, **o, "value": finite(m.value), "standard_error": finite(m.error)}
            for m, o in zip(self.measures, of, strict=True)
        ]
        promised = None if self.promised is None else vars(self.promised)
        told = {"task": self.task, "rows": self.rows, "without_label": self.without_label, "known": self.known}
        told |= {"scores": scores, "promised": promised, "sentence": self.sentence, "remarks": self.remarks}
        if self.confusion is not None:
            told |= {"classes": self.classes, "confusion": self.confusion.tolist()}
        return told


def evaluate(
    model: HGKEstimator, X: Any, y: Any, sample_weight: Any = None, *, coverage: float | None = None
) -> Assessment:
    """Score a fitted model on labelled rows.

    Parameters
    ----------
    model : HGKRegressor, HGKClassifier or HGKQuantileRegressor
        Fitted.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Rows whose label is missing are left out, and counted. Classes that the model does not know count as wrong.
    sample_weight : array-like of shape (n_samples,), optional
    coverage : float, optional
        Of the intervals that are checked; 0.9 where the model has intervals, none where it has none.

    Returns
    -------
    Assessment
        Scores with standard errors, and how they compare with what the fit had promised. Training rows among those
        given are counted, not left out: on these the scores are too good.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import evaluate
    >>> X, y = make_friedman1(150, noise=1.0, random_state=0)
    >>> told = evaluate(HGKRegressor("plain", random_state=0).fit(X[:100], y[:100]), X[100:], y[100:])
    >>> told.rows, bool(1 < told["rmse"] < 4), bool(0.7 < told["coverage"] <= 1)
    (50, True, True)
    """
    if not isinstance(model, HGKEstimator):
        raise TypeError(f"An object of type {type(model).__name__} was given; a fitted estimator of hgk is expected.")
    if coverage is not None and not between(0, 1)(coverage):
        raise ValueError(f"coverage={coverage!r} was given; a number between 0 and 1 is expected, such as 0.9.")
    table = model.table(X)  # first: it says where there is no fit yet
    given, weight = _array_of(y), checks.weights(sample_weight, len(table))
    if len(table) != len(given):
        raise ValueError(f"X has {len(table)} rows and y has {len(given)}; as many labels as rows are expected.")
    lacking = _lacking(given)
    place = np.flatnonzero(~lacking & (weight > 0))
    if not len(place):
        raise ValueError("None of the rows given to evaluate has a label and a positive weight; give rows that do.")
    several = given.ndim == 2 and not model.model_.target.classes
    labels = checks.labels(given[place], len(place), type(model).__name__, several, not _classifies(model))
    score = _of_classes if _classifies(model) else _of_quantiles if _has_levels(model) else _of_numbers
    told = replace(
        score(model, X, labels, weight[place], place, coverage),
        rows=len(place),
        without_label=int(lacking.sum()),
        known=_known(model, table[place], labels),
        promised=promise(model),
        place=place,
    )
    return replace(told, remarks=[*_remarks(told), *told.remarks], sentence=_compared(told))


def _classifies(model: HGKEstimator) -> bool:
    return isinstance(model, HGKClassifier)


def _has_levels(model: HGKEstimator) -> bool:
    return isinstance(model, HGKQuantileRegressor)


def _array_of(y: Any) -> np.ndarray:
    """As numpy sees it; lists of texts and numbers keep their numbers."""
    array = np.asarray(y)
    if array.ndim == 0:
        raise ValueError(f"y is a single {type(array.item()).__name__}; a label per row is expected, so give a list.")
    return np.asarray(y, dtype=object) if array.dtype.kind in "US" and not hasattr(y, "__array__") else array


def _lacking(y: np.ndarray) -> np.ndarray:
    """Whether a row has no label, or lacks one of several."""
    missing = np.array([y.dtype.kind in "Of" and is_missing(v) for v in y.flat], dtype=bool)
    return np.asarray(missing.reshape(len(y), -1).any(1)) if len(y) else missing


def _known(model: HGKEstimator, table: np.ndarray, y: np.ndarray) -> int | None:
    if model.model_.training is None:
        return None
    return int(seen_rows(model, table, model.model_.target.encode(y)).sum())


# ------------------------------------------------------------------------------------------- numbers and quantiles


def _of_numbers(model: Any, X: Any, y: np.ndarray, weight: np.ndarray, place: np.ndarray, coverage: float | None):
    target, many = model.model_.target, not model.model_.target.single
    y, t = y.reshape(len(y), -1), model.predict(X)[place].reshape(len(y), -1)
    if t.shape[1] != y.shape[1]:
        raise ValueError(
            f"y has {y.shape[1]} columns and the model predicts {t.shape[1]}; give one column for each output."
        )
    names = target.predictions if many else [""]
    bounds = _bounds(model, X, place, coverage)
    measures = []
    for o, name in enumerate(names):
        of_output = number_measures(y[:, o], t[:, o], weight)
        if bounds is not None:
            low, high = bounds[:, o].T
            of_output.append(mean_measure("coverage", ((low <= y[:, o]) & (y[:, o] <= high)).astype(float), weight))
            of_output.append(mean_measure("width", high - low, weight))
        measures += [replace(m, output=name) for m in of_output]
    if many:
        scaled = (target.encode(y) - target.encode(t)) ** 2
        measures.append(mean_measure("risk", scaled.sum(1), weight))
    asked = None if bounds is None else coverage or COVERAGE
    return Assessment("regression", measures, y=y, predicted=t, remarks=_beyond(model, y), asked=asked)


def _bounds(model: Any, X: Any, place: np.ndarray, coverage: float | None) -> np.ndarray | None:
    """(rows, outputs, 2), where the model has intervals, or where they were asked for."""
    possible = model.model_.training is not None and has_intervals(model)
    if coverage is None and not possible:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say of the rows was said by predict
        bounds = model.predict_interval(X, coverage or COVERAGE)
    return bounds[place].reshape(len(place), -1, 2)


def _beyond(model: Any, y: np.ndarray) -> list[str]:
    """A sentence on labels that the model cannot predict, since predictions are clipped."""
    target, clip = model.model_.target, model.machine_.clip
    if not math.isfinite(clip):
        return []
    Y = target.encode(y) if not _has_levels(model) else target.encode(y[:, 0])
    beyond = int((np.abs(Y) > clip * (1 + 1e-12)).any(1).sum())
    if not beyond:
        return []
    count = "1 label lies" if beyond == 1 else f"{beyond} labels lie"
    return [f"{count} outside the range of the training labels, to which predictions are clipped."]


def _of_quantiles(model: Any, X: Any, y: np.ndarray, weight: np.ndarray, place: np.ndarray, coverage: float | None):
    if coverage is not None:
        raise ValueError(
            "coverage was given with a model of quantiles; its outer quantiles are its interval, so leave it out."
        )
    target, levels = model.model_.target, model.quantiles_
    t = model.predict(X)[place].reshape(len(y), -1)
    losses = np.column_stack([pinball_losses(y, t[:, j], level) for j, level in enumerate(levels)])
    measures = [mean_measure("pinball", losses.mean(1), weight)]
    if len(levels) > 1:
        inside = (t[:, 0] <= y) & (y <= t[:, -1])
        measures.append(mean_measure("inside", inside.astype(float), weight))
        measures.append(mean_measure("width", t[:, -1] - t[:, 0], weight))
    for j, name in enumerate(target.predictions):
        of_level = [mean_measure("pinball", losses[:, j], weight)] if len(levels) > 1 else []
        of_level.append(mean_measure("below", (y <= t[:, j]).astype(float), weight))
        measures += [replace(m, output=name) for m in of_level]
    y = y[:, None]
    return Assessment("quantiles", measures, y=y, predicted=t, remarks=_beyond(model, y))


# -------------------------------------------------------------------------------------------------------- classes


def _of_classes(model: Any, X: Any, y: np.ndarray, weight: np.ndarray, place: np.ndarray, coverage: float | None):
    if coverage is not None:
        raise ValueError("coverage was given with a classifier, which has no intervals; leave it out.")
    names = model.classes_
    truth = _numbers_of(y, names)
    known = truth >= 0
    if not known.any():
        raise ValueError(
            f"y holds {_listed(np.unique(y.astype(str)))}, and the model knows {_listed(names)}; give labels that it "
            "knows."
        )
    predicted = _numbers_of(model.predict(X)[place], names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = model.predict_proba(X)[place]
    of_known = truth[known], p[known], weight[known]
    measures = [mean_measure("accuracy", (predicted == truth).astype(float), weight), *class_measures(*of_known)]
    others = np.unique(y[~known].astype(str)).tolist()
    k, line = len(names), truth.copy()
    line[~known] = k + np.searchsorted(others, y[~known].astype(str))
    counts = np.bincount(line * k + predicted, weights=weight, minlength=(k + len(others)) * k).reshape(-1, k)
    remarks = [_on_chance(*of_known, calibration=next(m.value for m in measures if m.name == "calibration"))]
    if others:
        remarks.insert(0, _on_unknown(others, int((~known).sum())))
    return Assessment(
        "classification",
        measures,
        remarks=remarks,
        classes=[*map(str, names), *others],
        confusion=counts,
        y=truth[:, None],
        predicted=predicted[:, None],
        probability=p,
    )


def _numbers_of(labels: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The place of each label among the classes, -1 where it is none of them."""
    place = {name: k for k, name in enumerate(names.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()])


def _listed(labels: np.ndarray | Sequence[Any], most: int = 5) -> str:
    shown = ", ".join(repr(str(label)) for label in list(labels)[:most])
    return f"{shown}, …" if len(labels) > most else shown


def _on_unknown(others: list[str], rows: int) -> str:
    has = "1 row has" if rows == 1 else f"{rows} rows have"
    return (
        f"{has} a class that the model does not know ({_listed(others)}): wrong in the accuracy, not in other scores."
    )


def _on_chance(truth: np.ndarray, p: np.ndarray, weight: np.ndarray, calibration: float) -> str:
    chance = calibration_by_chance(truth, p, weight)
    than = "no more than that" if calibration <= 1.5 * chance else "more than that"
    return (
        f"On so many rows perfect probabilities would have a calibration error of about {chance:.2g}; this is {than}."
    )


# ---------------------------------------------------------------------------------------------------- the promise


def promise(model: HGKEstimator) -> Promise | None:
    """What the fit found on rows that it had not seen, as the score that :func:`evaluate` compares with.

    None where a compact file has left nothing to tell.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import promise
    >>> told = promise(HGKRegressor("plain", random_state=0).fit(*make_friedman1(60, random_state=0)))
    >>> told.name, told.basis, told.rows
    ('rmse', '5-fold cross-validation', 60)
    """
    error, training = verdict(model), model.model_.training
    if error is None:
        return _leave_one_out(model)
    name = next((n for n in ("pinball", "log_loss", "wrong", "rmse", "risk") if error.get(n) is not None), None)
    if name is None or (_classifies(model) and name in ("rmse", "risk")):
        return _leave_one_out(model)
    value = 1 - error["wrong"] if name == "wrong" else error[name]
    rows = error["rows"] or (None if training is None else round(training.rows.given))
    return Promise("accuracy" if name == "wrong" else name, float(value), error["basis"], rows)


def _leave_one_out(model: HGKEstimator) -> Promise | None:
    """By functions without single rows, whose kernel has seen these; only where the fit kept nothing better."""
    fitted = model.model_
    if fitted.training is None:
        return None
    (rows, t), target = fitted.unseen(), fitted.calibrated
    if not len(rows):
        return None
    measured = target.measures(target.decode(t), rows)
    if "wrong" in measured:
        name, value = "accuracy", 1 - measured["wrong"]
    else:
        told = target.explained(measured.get("risk", math.nan), rows)
        name = next(n for n in ("pinball", "rmse", "risk") if n in measured | told)
        value = (measured | told)[name]
    return Promise(name, float(value), LOO, round(rows.given)) if math.isfinite(value) else None


def _compared(told: Assessment) -> str:
    """One sentence: the score, what was promised, and whether the difference can be told from chance."""
    count = "1 row" if told.rows == 1 else f"{told.rows:,} rows"
    promised = told.promised
    if promised is None:
        return f"What the fit had promised for rows such as these {count} is not in the file, so compare with the fit."
    measure = told.measure(promised.name)
    words, error = MEASURE_WORDS[promised.name], measure.error
    found = f"{measure.value:.4g}" + ("" if error is None else f" ± {error:.2g}")
    where = f"on {_count_of(promised)}{ASIDE}" if promised.basis == ASIDE else f"by {promised.basis}"
    begun = f"On these {count} the {words} is {found}, and the fit had promised {promised.value:.4g} {where}"
    if error is None or not math.isfinite(measure.value):
        return f"{begun}; too few rows to tell a difference."
    spread = error * math.sqrt(1 + (told.rows / promised.rows if promised.rows else 0.0))
    change = measure.value - promised.value
    if abs(change) <= TOLD * spread:
        return f"{begun}: a difference within {TOLD:g} standard errors, so the promise is kept."
    better = (change > 0) == (promised.name in LARGER_IS_BETTER)
    sizes = f"{abs(change):.2g} {'better' if better else 'worse'}"
    if spread > 0:
        sizes += f", which is {abs(change) / spread:.1f} standard errors"
    if better:
        return f"{begun}: {sizes}; these rows are easier, or the model has seen them."
    return f"{begun}: {sizes}; expect scores such as these, and look for what sets these rows apart."


def _count_of(promised: Promise) -> str:
    return "" if promised.rows is None else f"{promised.rows} "


def _remarks(told: Assessment) -> list[str]:
    remarks = []
    if told.known:
        if told.known == told.rows:
            said = "All of these are training rows, on which scores are too good; give rows that the fit has not seen."
        else:
            said = (
                f"{told.known} of these {told.rows} rows are equal to training rows, label included; if they are the "
                "same ones, the scores are too good, so leave them out."
            )
        remarks.append(said)
    if told.without_label:
        rows = (
            "1 row without a label was" if told.without_label == 1 else f"{told.without_label} rows without labels were"
        )
        remarks.append(f"{rows} left out.")
    return remarks
