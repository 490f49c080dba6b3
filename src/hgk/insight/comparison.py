"""hgk compared with other methods on the same rows, by the same folds.

Of every method the score on each of k held-out folds, and over these

    mean ± standard error,      standard error = s / √k, s the deviation of the k scores

Whether one method is better is judged by the differences d_1 ... d_k of its scores to another's on the same folds.
Folds share training rows, so that s / √k is too small for a mean difference; it is told from chance where

    |mean of d| > t · s_d √(1/k + 1/(k - 1)),      t the 97.5 % point of Student's law with k - 1 degrees

(Nadeau and Bengio, 2003; a test fold has 1 / (k - 1) times the rows that methods are trained on).
"""

from __future__ import annotations

import difflib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from hgk.estimators import HGKClassifier, HGKEstimator, HGKRegressor, checks
from hgk.inputs import is_missing
from hgk.insight.evaluation import LARGER_IS_BETTER, MEASURE_WORDS
from hgk.insight.measures import class_measures, mean_measure, number_measures
from hgk.insight.peers import PEERS, Peer, PeerTask, TableEncoder

OURS, PLAIN_METHOD = "hgk", "plain SVM"
METRICS = {"regression": ("rmse", "mae", "r2"), "classification": ("log_loss", "accuracy", "auc")}
# Seconds of a fit of hgk at least, however little of the time is left.
LEAST_TIME = 2.0


@dataclass(frozen=True)
class MethodScores:
    """A method's score on every fold and the seconds that fit and predictions took; why, where it failed."""

    name: str
    label: str
    scores: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    failed: str = ""

    @property
    def known(self) -> np.ndarray:
        """The scores of the folds that have one: an area under the curve needs rows of both classes."""
        scores = np.array(self.scores, dtype=float)
        return scores[np.isfinite(scores)]

    @property
    def mean(self) -> float:
        return float(self.known.mean()) if len(self.known) else math.nan

    @property
    def standard_error(self) -> float:
        return float(self.known.std(ddof=1) / math.sqrt(len(self.known))) if len(self.known) > 1 else math.nan


@dataclass(frozen=True)
class Comparison:
    """Scores of several methods by the same folds, the best first.

    Attributes
    ----------
    task : {"regression", "classification"}
    metric : str
    results : list of MethodScores
    rows, without_label, folds : int
    sentence : str
        Which is best, and whether that can be told from chance.
    remarks : list of str
    """

    task: str
    metric: str
    results: list[MethodScores]
    rows: int
    without_label: int
    folds: int
    sentence: str = ""
    remarks: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> MethodScores:
        return next(result for result in self.results if result.name == name)

    @property
    def metric_words(self) -> str:
        return MEASURE_WORDS[self.metric]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; what is not finite is None."""

        def finite(x: float) -> float | None:
            return x if math.isfinite(x) else None

        methods = [
            {
                "name": r.name,
                "label": r.label,
                "mean": finite(r.mean),
                "standard_error": finite(r.standard_error),
                "seconds": finite(float(np.mean(r.seconds))) if r.seconds else None,
                "scores": [finite(score) for score in r.scores],
                "failed": r.failed or None,
            }
            for r in self.results
        ]
        told = {"task": self.task, "metric": self.metric, "rows": self.rows, "without_label": self.without_label}
        return told | {"folds": self.folds, "sentence": self.sentence, "methods": methods, "remarks": self.remarks}


def compare(
    X: Any,
    y: Any,
    methods: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    task: str = "auto",
    folds: int = 5,
    metric: str | None = None,
    time_budget: float | None = None,
    random_state: int = 0,
    device: str = "cpu",
    callback: Callable[[str, int], Any] | None = None,
) -> Comparison:
    """Cross-validate hgk compared with other methods, all on the same folds.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Rows without a label are left out.
    methods : sequence of str, or mapping of str to estimators, optional
        Names among "hgk", "plain SVM", "random forest", "HistGradientBoosting", "LightGBM", "CatBoost" and "XGBoost";
        by default all whose packages are installed. A mapping's estimators are cloned and given the table as it is; a
        value of None stands for the method of that name.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto": texts and truth values are classes, numbers are not.
    folds : int, default=5
    metric : str, optional
        "rmse" (by default), "mae" or "r2" of numbers; "log_loss" (by default), "accuracy" or "auc" of classes.
    time_budget : float, optional
        About how many seconds all of it may take. The other methods come first and take what they need; the fits of hgk
        divide the rest, and have two seconds each at least.
    random_state : int, default=0
    device : str, default="cpu"
        Where hgk computes.
    callback : callable, optional
        Called with the name of a method and the number of a fold before each fit.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk.insight import compare
    >>> told = compare(*make_friedman1(90, random_state=0), methods=["plain SVM", "random forest"], folds=3)
    >>> sorted(result.name for result in told.results), len(told["plain SVM"].scores)
    (['plain SVM', 'random forest'], 3)
    """
    X, y, without_label, classes = _rows_of(X, y, task)
    kind = "regression" if classes is None else "classification"
    metric = _metric(metric, kind)
    run = _Run(X, y, classes, metric, _parts(y, classes, folds, random_state), random_state, device, callback)
    chosen, absent = _chosen(methods)
    clock = _Clock(time_budget, folds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # hgk last: it divides what is left of the time
        results = {name: run.scored(name, method, clock) for name, method in sorted(chosen.items(), key=_is_ours)}
    sign = -1 if metric in LARGER_IS_BETTER else 1
    ordered = sorted((results[name] for name in chosen), key=lambda r: (not math.isfinite(r.mean), sign * r.mean))
    told = Comparison(kind, metric, ordered, len(y), without_label, folds)
    remarks = [*_on_absent(absent), *_on_failures(ordered), *clock.remarks, *_on_columns(caught)]
    return replace(told, sentence=_sentence(told), remarks=remarks)


# ------------------------------------------------------------------------------------------------ rows and folds


def take_rows(X: Any, index: np.ndarray) -> Any:
    """These rows of a pandas or polars frame, or of an array."""
    return X.iloc[index] if hasattr(X, "iloc") else X[index] if hasattr(X, "columns") else np.asarray(X)[index]


def _rows_of(X: Any, y: Any, task: str) -> tuple[Any, np.ndarray, int, np.ndarray | None]:
    """Rows with a label, their labels (of classes their numbers), how many have none, and the classes."""
    if task not in ("auto", "regression", "classification"):
        raise ValueError(f"task={task!r} was given; 'auto', 'regression' or 'classification' is expected.")
    X, given = checks.table(X), np.asarray(y)
    if given.ndim != 1 or len(given) != X.shape[0]:
        raise ValueError(
            f"y has the shape {given.shape} and X has {X.shape[0]} rows; compare takes one label for each row, so give "
            "a flat list."
        )
    present = np.array([not (given.dtype.kind in "Of" and is_missing(v)) for v in given], dtype=bool)
    place = np.flatnonzero(present)
    if not len(place):
        raise ValueError("None of the rows given to compare has a label; give rows that do.")
    labels, X = given[place], take_rows(X, place)
    texts = labels.dtype.kind in "USb" or any(isinstance(v, str | bool) for v in labels)
    classes = task == "classification" or (task == "auto" and texts)
    name = HGKClassifier.__name__ if classes else HGKRegressor.__name__
    labels = checks.labels(labels, len(labels), name, several=False, numeric=not classes)
    if not classes:
        return X, labels, int((~present).sum()), None
    names, numbers = np.unique(labels, return_inverse=True)
    _check_classes(names, numbers)
    return X, numbers, int((~present).sum()), names


def _check_classes(names: np.ndarray, numbers: np.ndarray) -> None:
    if len(names) < 2:
        raise ValueError(f"y holds the single class {str(names[0])!r}; two are needed, so give rows of another one.")
    count = np.bincount(numbers)
    if count.min() < 2:
        raise ValueError(
            f"The class {str(names[count.argmin()])!r} has a single row, which cannot be both learned from and "
            "predicted; leave it out, or join it with another."
        )


def _parts(y: np.ndarray, classes: np.ndarray | None, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of every fold, of each class as many."""
    if not isinstance(folds, int) or isinstance(folds, bool) or not 2 <= folds <= len(y) // 2:
        raise ValueError(
            f"folds={folds!r} was given with {len(y)} rows; a whole number from 2 to {max(2, len(y) // 2)} is expected."
        )
    kind = KFold if classes is None else StratifiedKFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rare class is not in every fold
        try:
            return list(kind(folds, shuffle=True, random_state=seed).split(np.zeros((len(y), 1)), y))
        except ValueError as error:
            raise ValueError(
                f"folds={folds} was given and no class has as many rows; give at most {np.bincount(y).max()}."
            ) from error


def _metric(metric: str | None, task: str) -> str:
    known = METRICS[task]
    if metric is None:
        return known[0]
    if metric not in known:
        raise ValueError(f"metric={metric!r} was given for a {task}; {', '.join(map(repr, known))} can be measured.")
    return metric


# --------------------------------------------------------------------------------------------------- the methods


def method_names() -> list[str]:
    """All methods that can be compared by name."""
    return [OURS, PLAIN_METHOD, *(peer.name for peer in PEERS)]


def _chosen(methods: Sequence[str] | Mapping[str, Any] | None) -> tuple[dict[str, Any], list[Peer]]:
    """Methods by name: estimators, peers, or None for hgk's own; and peers that would be there if installed."""
    peers = {peer.name: peer for peer in PEERS}
    if methods is None:
        absent = [peer for peer in PEERS if not peer.installed]
        return {name: peers.get(name) for name in method_names() if name not in [p.name for p in absent]}, absent
    given = dict(methods) if isinstance(methods, Mapping) else {known_method(name): None for name in methods}
    if not given:
        raise ValueError(f"No methods were given; take some of {', '.join(method_names())}.")
    chosen: dict[str, Any] = {}
    for name, estimator in given.items():
        peer = peers.get(name)
        if estimator is None and peer is not None and not peer.installed:
            raise ValueError(
                f"The method {name!r} needs {peer.requires}; pip install {peer.requires}, or leave it out."
            )
        chosen[name] = peer if estimator is None and name not in (OURS, PLAIN_METHOD) else estimator
    return chosen, []


def known_method(name: str) -> str:
    """The method that a name stands for, however it is spelt.

    Examples
    --------
    >>> from hgk.insight.comparison import known_method
    >>> known_method("lightgbm"), known_method("Random-Forest"), known_method("plain")
    ('LightGBM', 'random forest', 'plain SVM')
    """
    plain = {_folded(known): known for known in method_names()} | {"plain": PLAIN_METHOD, "forest": "random forest"}
    if _folded(name) in plain:
        return plain[_folded(name)]
    close = difflib.get_close_matches(_folded(name), list(plain), 1)
    hint = f"did you mean {plain[close[0]]!r}" if close else f"there are {', '.join(method_names())}"
    raise ValueError(f"The method {name!r} is not known; {hint}.")


def _folded(name: str) -> str:
    return "".join(c for c in str(name).casefold() if c.isalnum())


def _is_ours(item: tuple[str, Any]) -> bool:
    return item[0] == OURS


@dataclass
class _Clock:
    """Shares out what is left of the time among the fits of hgk."""

    budget: float | None
    fits_left: int
    begun: float = field(default_factory=lambda: time.monotonic())
    remarks: list[str] = field(default_factory=list)

    def share(self) -> float | None:
        if self.budget is None:
            return None
        left = (self.budget - (time.monotonic() - self.begun)) / max(1, self.fits_left)
        self.fits_left -= 1
        if left < LEAST_TIME and not self.remarks:
            self.remarks.append(
                f"The other methods took most of the {self.budget:g} s; fits of hgk had {LEAST_TIME:g} s each, so give "
                "more time, or fewer methods."
            )
        return max(LEAST_TIME, left)


@dataclass(frozen=True)
class _Run:
    """The rows, the folds, and how a method is scored on them."""

    X: Any
    y: np.ndarray
    classes: np.ndarray | None
    metric: str
    parts: list[tuple[np.ndarray, np.ndarray]]
    seed: int
    device: str
    callback: Callable[[str, int], Any] | None

    def scored(self, name: str, method: Any, clock: _Clock) -> MethodScores:
        scores, seconds = [], []
        label = method.label if isinstance(method, Peer) else self._label(name, method)
        for fold, (train, test) in enumerate(self.parts):
            if self.callback is not None:
                self.callback(name, fold)
            begun = time.monotonic()
            try:
                t = self._predicted(name, method, clock, train, test)
            except Exception as error:
                if not isinstance(method, Peer):  # what hgk refuses is wrong with the table
                    raise
                return MethodScores(name, label, failed=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            seconds.append(time.monotonic() - begun)
            scores.append(self._score(self.y[test], t))
        return MethodScores(name, label, tuple(scores), tuple(seconds))

    def _label(self, name: str, method: Any) -> str:
        ours = {OURS: "learned kernel, default settings", PLAIN_METHOD: "isotropic Gaussian kernel, λ and γ chosen"}
        return ours.get(name, "") if method is None else type(method).__name__

    def _predicted(self, name: str, method: Any, clock: _Clock, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Predictions, or probabilities of all classes, of the test rows."""
        X, new = take_rows(self.X, train), take_rows(self.X, test)
        y = self.y[train]
        if isinstance(method, Peer):
            encoder = TableEncoder(X)
            count = 0 if self.classes is None else len(self.classes)
            task = PeerTask(count, self.seed, torch.get_num_threads())
            with threadpool_limits(task.threads):
                return np.asarray(method.fit(encoder(X), y, task)(encoder(new).X), dtype=float)
        model = self._own(name, clock) if method is None else clone(method)
        if self.classes is None:
            return np.asarray(model.fit(X, y).predict(new), dtype=float)
        model.fit(X, self.classes[y])
        return self._probabilities(model, new)

    def _probabilities(self, model: Any, X: Any) -> np.ndarray:
        """A column for each class; those that the training rows lack have 0."""
        assert self.classes is not None
        out = np.zeros((len(X), len(self.classes)))
        out[:, np.searchsorted(self.classes, model.classes_)] = model.predict_proba(X)
        return out

    def _own(self, name: str, clock: _Clock) -> HGKEstimator:
        kind = HGKRegressor if self.classes is None else HGKClassifier
        if name == PLAIN_METHOD:
            return kind("plain", random_state=self.seed, device=self.device)
        return kind(random_state=self.seed, device=self.device, time_budget=clock.share())

    def _score(self, y: np.ndarray, t: np.ndarray) -> float:
        weight = np.ones(len(y))
        if self.classes is None:
            measures = number_measures(y, t, weight)
        else:
            right = mean_measure("accuracy", (t.argmax(1) == y).astype(float), weight)
            measures = [right, *class_measures(y, t, weight)]
        return next((m.value for m in measures if m.name == self.metric), math.nan)


# ------------------------------------------------------------------------------------------------------- the words


def paired_difference(one: MethodScores, other: MethodScores) -> tuple[float, float]:
    """The mean difference of two methods' scores over the folds, and the half width beyond which it is no chance.

    Examples
    --------
    >>> from hgk.insight.comparison import MethodScores, paired_difference
    >>> mean, half = paired_difference(MethodScores("a", "", (1.0, 1.2, 1.1)), MethodScores("b", "", (2.0, 2.1, 2.15)))
    >>> round(mean, 3), bool(abs(mean) > half)
    (-0.983, True)
    """
    d = np.subtract(one.scores, other.scores)
    d = d[np.isfinite(d)]
    k = len(d)
    if k < 2:
        return (float(d.mean()) if k else math.nan), math.inf
    spread = float(np.std(d, ddof=1)) * math.sqrt(1 / k + 1 / (k - 1))
    return float(d.mean()), float(stats.t.ppf(0.975, k - 1)) * spread


def _sentence(told: Comparison) -> str:
    """Which method is best, whether that is more than chance, and where hgk stands."""
    done = [r for r in told.results if math.isfinite(r.mean)]
    if len(done) < 2:
        return "There is nothing to compare: fewer than two methods have a score."
    best, second = done[:2]
    mine = next((r for r in done if r.name == OURS), None)
    rival = second if mine is None or mine is best else best
    me = best if mine is None else mine
    change, half = paired_difference(me, rival)
    apart = f"{abs(change):.3g} ± {half:.2g} (95 % interval)"
    scores = f"{told.metric_words} {me.mean:.4g}, {rival.name} {rival.mean:.4g}"
    if not abs(change) > half:
        which = "next" if me is best else "best"
        within = f"and the difference of {apart} is within the spread over the folds"
        return f"{me.name} and {rival.name}, the {which}, cannot be told apart: {scores}, {within}."
    if me is best:
        return (
            f"{me.name} is best: {scores}, the next; the difference of {apart} is more than the spread over the folds."
        )
    return (
        f"{rival.name} is better than {me.name} here: {scores}; the difference of {apart} is more than the spread over "
        f"the folds, so prefer {rival.name} unless you need what else {me.name} gives."
    )


def _on_absent(absent: Sequence[Peer]) -> Iterator[str]:
    if absent:
        names = ", ".join(peer.name for peer in absent)
        packages = " ".join(peer.requires for peer in absent)
        yield f"Not compared, since not installed: {names}; pip install {packages} to have them here."


def _on_columns(caught: Sequence[warnings.WarningMessage]) -> Iterator[str]:
    """What fits of hgk said of columns, once for each column and beginning: examples differ from fold to fold."""
    said = [str(w.message) for w in caught if w.category is UserWarning and str(w.message).startswith("Column '")]
    yield from {text[: text.find("'", 8) + 12]: text for text in reversed(said)}.values()


def _on_failures(results: Sequence[MethodScores]) -> Iterator[str]:
    for r in results:
        if r.failed:
            yield f"{r.name} failed ({r.failed.rstrip('.')}) and has no score."
