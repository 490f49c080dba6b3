"""What the estimators share: scikit-learn's contract around the fitted model."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hgk.arrays import counted_memory, device_of, on_device, packed, threads_for, unpacked
from hgk.compression import compressed
from hgk.estimators import checks, parameters
from hgk.estimators.fitted import FittedAttributes
from hgk.estimators.preparation import Prepared, check_size, device_for, executor_for, inputs_of, prepare_table, task_of
from hgk.events import BoundsFound, Event, GridChosen, LamChosen
from hgk.inputs import DateForm, Marks, is_mixed, precision_remarks, split
from hgk.kernels import Architecture, grouped
from hgk.learners import PRESETS, Given, Learner, Wanted
from hgk.losses import LeastSquares, Loss
from hgk.machines import Rows
from hgk.model import Model, Training
from hgk.optimisers import Algorithm1
from hgk.progress import Progress
from hgk.search import FEWER
from hgk.targets import Target, label_bounds


class StoppedEarlyWarning(UserWarning):
    """A fit was stopped by Ctrl-C or by its callback and kept the best it had."""


@contextmanager
def _whole_or_not_at_all(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails, for whatever reason, leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class HGKEstimator(FittedAttributes, BaseEstimator, ABC):
    """Reads tables, makes a task of them, lets a learner learn, keeps the model.

    A subclass says which loss and which target: ``make_loss()`` and ``make_target(y, weight, loss)``.
    """

    _multi_output, _y_numeric = False, True
    # of columns that were read from texts before they came to fit, by name
    _marks: Mapping[str, Marks | DateForm] | None = None

    @abstractmethod
    def make_loss(self) -> Loss:
        """The loss that the parameters say."""

    @abstractmethod
    def make_target(self, y: np.ndarray, weight: np.ndarray, loss: Loss) -> Target:
        """How these labels are treated; override it to treat them in another way."""

    def fit(self, X, y, sample_weight=None):
        """Learn the kernel's weights, choose (λ, γ), and train the machine.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole numbers count repetitions of their rows: a row of weight 2 is a row given twice. Other numbers are
            relative: they say how much a row matters, and each row was given once.

        Returns
        -------
        self
        """
        with _whole_or_not_at_all(self), counted_memory():
            return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight):
        loss = self.check_parameters()
        device_of(self.device)  # an absent one is an error, before any work
        columns, y, weight, count = self._read(X, y, sample_weight)
        target, learner = self.make_target(y, weight, loss), self._preset()
        prepared = self._prepare(columns, target.encode(y), weight, count, learner)
        rows, features = prepared.rows, prepared.inputs.encoder.features

        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        learner = self._learner(learner, prepared)
        device = device_for(self.device, rows, target, loss, learner)
        task = task_of(rows.to(device), target, loss, features, self.lam, rng)
        executor = executor_for(device, self.n_jobs, learner)
        check_size(learner, task, executor)
        with threads_for(len(rows), device), on_device(len(rows), device), Progress(self._callback()) as progress:
            _tell_bounds(target, rows, loss, progress)
            machine, target = learner.learn(task, rng, progress, executor)
            machine = task.gathered(machine)
        with threads_for(len(rows), device):
            training = Training(rows, prepared.merged.X, prepared.merged.place, prepared.left_out)
            self._model = Model.of(prepared.inputs, target, machine, progress.history, training)
        self._warn_after(progress)
        return self

    def compress(self, tolerance: float = 0.01):
        """The same model on fewer rows: predictions take less time, a file less room, and no other row is handed out.

        f becomes a sum over some of the training rows, the centres. They are chosen one block after another until the
        error is at most (1 + ``tolerance``) times as large on rows that have no say in it: of leave-one-out predictions
        the mean squared error, of classes the log-loss, of quantiles the pinball loss. Where half the rows are not
        enough, all stay.

        Parameters
        ----------
        tolerance : float, default=0.01

        Returns
        -------
        estimator
            A copy with the smaller model. What needs training rows and labels, such as ``predict_interval``, says so.
            ``history_[-1]`` has the number of rows and the errors.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from hgk import HGKRegressor
        >>> model = HGKRegressor("plain", random_state=0).fit(*load_diabetes(return_X_y=True))
        >>> small = model.compress(0.02)
        >>> len(small.machine_.X) < len(model.machine_.X)
        True
        """
        check_is_fitted(self)
        if not (isinstance(tolerance, Real) and not isinstance(tolerance, bool) and 0 < tolerance < np.inf):
            raise ValueError(f"tolerance={tolerance!r} was given; a number > 0 is expected, such as 0.01 for 1 %.")
        n = len(self._model.need_training("Compression needs").rows)
        with threads_for(n), counted_memory():
            small = copy(self)
            small._model = compressed(self._model, float(tolerance))
        return small

    # ------------------------------------------------------------------------- from parameters to objects

    def check_parameters(self) -> Loss:
        """Raise an error of one sentence for the first parameter that is not allowed; the loss that they say."""
        parameters.check(self.get_params(deep=False))
        return self.make_loss()

    def _preset(self) -> Learner:
        """The preset's learner; Algorithm 1 brings its own inputs and tree: those of the paper."""
        of_the_paper = self.preset == "default" and isinstance(self.optimiser, Algorithm1)
        return PRESETS["algorithm1" if of_the_paper else self.preset]

    def _learner(self, learner: Learner, prepared: Prepared) -> Learner:
        """One that honours the kernel, architecture, groups, optimiser or budget given."""
        if self.kernel is not None:
            return Given(self.kernel)
        encoder = prepared.inputs.encoder
        architectures = [a.expanded(encoder.owner) for a in self._architectures()]
        return learner.adapted(Wanted(architectures, self.optimiser, self.time_budget, encoder.features))

    def _architectures(self) -> list[Architecture]:
        """Those given, also as groups of columns."""
        if self.groups is not None:
            names = getattr(self, "feature_names_in_", None)
            return [grouped(self.groups, self.n_features_in_ if names is None else list(names))]
        given = () if self.architecture is None else self.architecture
        return [given] if isinstance(given, Architecture) else list(given)

    def _callback(self) -> Callable[[Event], Any] | None:
        if not self.verbose:
            return self.callback

        def tell(event: Event) -> Any:
            print("[hgk]", event)
            return self.callback(event) if self.callback is not None else None

        return tell

    # --------------------------------------------------------------------------------------- from data to rows

    def _read(self, X, y, sample_weight) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Columns, labels, weights, and how often each row was given."""
        columns = self._columns(X, reset=True)
        y = checks.labels(y, len(columns[0]), type(self).__name__, self._multi_output, self._y_numeric)
        checks.shape_given(self.kernel, inputs_of(self.kernel), self.architecture, self._architectures(), self)
        weight = checks.weights(sample_weight, len(columns[0]))
        count = checks.repetitions(weight).copy()
        weight *= count.sum() / weight.sum()
        _warn(checks.count_remarks(count), 5)
        return columns, y, weight, count

    def _columns(self, X, reset: bool) -> list[np.ndarray]:
        """Float columns, object columns where they are categorical; infinite cells are refused."""
        X = checks.table(X, fewest=2 if reset else 1)
        if not reset:
            checks.width(X, self)
        else:
            _warn(precision_remarks(X), 5)
        if is_mixed(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
        else:
            with np.errstate(over="ignore"):
                X = validate_data(self, X, dtype=np.float64, ensure_all_finite=False, reset=reset)
        columns, names = split(X)
        return checks.finite(columns, [str(name) for name in getattr(self, "feature_names_in_", names)])

    def _prepare(self, columns, Y, weight, count, learner: Learner) -> Prepared:
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(columns))])
        # steps are for the default kinds of trees alone: a given tree has its own
        steps = self.architecture is None and self.groups is None and self.optimiser is None
        texts = [str(name) for name in names]
        prepared = prepare_table(columns, texts, Y, weight, count, learner, self.kernel, steps, self._marks)
        _warn(prepared.remarks, 5)
        return prepared

    def written_as(self, marks: Mapping[str, Marks | DateForm]) -> HGKEstimator:
        """Tell the next fit how a file wrote the numbers and dates of its columns, by name."""
        self._marks = marks
        return self

    def features(self, X) -> torch.Tensor:
        """What the machine sees of a table."""
        check_is_fitted(self)
        columns, inputs = self._columns(X, reset=False), self.model_.inputs
        _warn(inputs.reader.remarks(columns), 4)
        return torch.from_numpy(inputs.encoder(inputs.reader(columns)))

    def table(self, X) -> np.ndarray:
        """A table as the reader gives it: numbers, codes of categories, NaN for missing cells."""
        check_is_fitted(self)
        return self.model_.inputs.reader(self._columns(X, reset=False))

    def _warn_after(self, progress: Progress) -> None:
        """What a user should know about the fit."""
        machine, small = self.machine_, f"lam={self.lam_:.1e} is very small for these data, try a larger one."
        few = [e for e in progress.history if isinstance(e, GridChosen | LamChosen) and e.few]
        if progress.shortened:
            said = "The fit was stopped early; the model uses the best weights found so far (see history_)."
            warnings.warn(said, StoppedEarlyWarning, stacklevel=4)
        if machine.ridge_added:
            added = f"{machine.ridge_added:.1e} was added to its diagonal"
            _warn([f"The kernel matrix was numerically singular and {added}; {small}"], 5)
        if few and not progress.shortened:
            budget = f"time_budget={self.time_budget!r} was used up before λ was chosen on all rows"
            _warn([f"{budget}; it was chosen on at most {FEWER} of them, so give more time."], 5)
        if machine.gap:
            gap = f"a duality gap of {machine.gap:.1e} of its objective, more than was wanted"
            _warn([f"A machine was solved up to {gap}; {small}"], 5)

    # ------------------------------------------------------------------------------------------- scikit-learn

    def __getstate__(self):
        """For pickle, joblib and skops: tensors as arrays."""
        return packed(super().__getstate__(), {})

    def __setstate__(self, state):
        super().__setstate__(unpacked(state, {}))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _tell_bounds(target: Target, rows: Rows, loss: Loss, progress: Progress) -> None:
    """What intervals will not exceed, if anything."""
    found = label_bounds(target, rows) if isinstance(loss, LeastSquares) else []
    if any(found):
        ends = ((b.low, b.high) for b in found)
        low, high = zip(*((v if isfinite(v) else None for v in pair) for pair in ends), strict=True)
        progress.report(BoundsFound(low=low, high=high, words=tuple(b.words for b in found)))


def _warn(remarks: Iterable[str], level: int) -> None:
    for remark in remarks:
        warnings.warn(remark, UserWarning, stacklevel=level)
