"""HGKRegressor, HGKQuantileRegressor and HGKClassifier: scikit-learn's contract around the machine."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.metrics import mean_pinball_loss
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hgk.arrays import (
    available_memory,
    blocks,
    counted_memory,
    device_of,
    exact_rows,
    matrices_to_factor,
    on_device,
    packed,
    require_bytes,
    require_memory,
    threads_for,
    unpacked,
)
from hgk.estimators import checks
from hgk.inputs.numerals import Marks
from hgk.inputs.table import (
    Encoder,
    Inputs,
    Merged,
    Reader,
    Scaling,
    column_remarks,
    encoder_remarks,
    is_mixed,
    merge_rows,
    percent_remarks,
    precision_remarks,
    read,
    split,
)
from hgk.kernels import Architecture, HierarchicalKernel, grouped
from hgk.learners.gradients import JUDGE, JUDGED, LeaveOneOutGradients, mixed
from hgk.learners.plans import PRESETS, Given, Learned, Preset
from hgk.losses import EpsilonInsensitive, Expectile, Hinge, LeastSquares, Logistic, Loss, Pinball, SquaredHinge
from hgk.machines.base import Rows, average, loo_average, moved, proportions, weighted_quantile, without_one_average
from hgk.optimisers import Adam, Algorithm1
from hgk.progress import Event, Progress
from hgk.search.problems import FEWER, OfLoss, Problem, held_out_average
from hgk.search.selection import FOLDS, Plan, Task, divide, lam_grid
from hgk.solvers import solver_for
from hgk.targets.calibration import Calibration, Coupling

# Labels are scaled to [-1, 1], and predictions clipped there, as in the paper.
CLIP = 1.0
# Double-precision n x n matrices that a fit holds at its peak: four single ones in the grid search with their
# Krylov basis, or three of four fifths of the rows in the fold machines.
MATRICES = 2.5


# ... and with another loss than least squares, whose paths keep coefficients and losses.
OF_LOSS = 5
# Copies of a table while its equal rows are found.
MERGED = 6


_log = logging.getLogger("hgk")

# Where fitted models are kept, whatever device they were learned on: every machine can read them.
AT_REST = device_of("cpu")
# Rows predicted at a time.
PREDICTED = 2**18


# Rows whose leave-one-out functions make up an interval.
JACKKNIFE = 2000


class StoppedEarlyWarning(UserWarning):
    """A fit was stopped by Ctrl-C or by its callback and kept the best it had."""


class CompactModelError(ValueError, AttributeError):
    """A method was called that needs what a compact model file leaves out."""


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


class _HGK(BaseEstimator):
    """What regression and classification share. Subclasses translate y to columns in [-1, 1] and back."""

    # of columns that were read from texts before they came to fit, by name
    _marks: Mapping[str, Marks] | None = None

    def __init__(
        self,
        preset: str = "default",
        *,
        kernel: HierarchicalKernel | None = None,
        architecture: Architecture | Sequence[Architecture] | None = None,
        groups: Mapping[str, Iterable[int | str]] | None = None,
        optimiser: Algorithm1 | Adam | None = None,
        lam: float | None = None,
        time_budget: float | None = None,
        device: str = "cpu",
        random_state=None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], Any] | None = None,
    ):
        self.preset = preset
        self.kernel = kernel
        self.architecture = architecture
        self.groups = groups
        self.optimiser = optimiser
        self.lam = lam
        self.time_budget = time_budget
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

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
        preset, problem, device = self._check_parameters(), self._problem(), device_of(self.device)
        columns, Y, weight, count = self._read(X, y, sample_weight)

        reader = self._reader(columns)
        require_memory(len(Y), len(columns) + Y.shape[1], MERGED, torch.float64, "A table whose equal rows are merged")
        merged = merge_rows(reader(columns), Y, weight, count)
        self._check_rows(merged.X, reader)
        encoder = self._encoder(merged, reader, preset)
        require_memory(len(merged.X), len(encoder.features), 3, torch.float64, "A table of features")
        rows = Rows(*map(torch.from_numpy, (encoder(merged.X), merged.y, merged.weight, merged.count)))

        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        kinds = tuple(feature.kind for feature in encoder.features)
        clip = CLIP if problem is None else problem.clip
        task = self._task(rows.to(device), merged.y, clip, kinds, problem, rng)
        plan = self._plan(preset, encoder)
        self._check_size(plan, task.rows, problem)
        workers = self._workers(plan)
        with threads_for(len(rows), device), on_device(len(rows), device), Progress(self._callback()) as progress:
            machines = task.gathered(plan.machines(task, rng, progress, workers))
        self.machines_ = moved(machines, AT_REST)

        self._inputs = Inputs(reader, encoder)
        self._place, self._left_out = merged.place, encoder(reader(columns)[merged.place < 0])
        self._rows: Rows | None = rows  # None in a model from a compact file
        self._kept: dict[str, Any] = {}  # what is computed when first asked for; predicting must not change __dict__
        with threads_for(len(rows), device):
            self._store(rows, merged.X, progress)
        return self

    # ------------------------------------------------------------ from parameters to objects

    def _check_parameters(self) -> Preset:
        if not isinstance(self.preset, str) or self.preset not in PRESETS:
            raise ValueError(f"preset={self.preset!r} is unknown; use one of {', '.join(map(repr, PRESETS))}.")
        expected = [
            ("kernel", HierarchicalKernel, "a HierarchicalKernel, such as the kernel_ of a fitted estimator"),
            ("architecture", Architecture | list | tuple, "an Architecture or a list of them"),
            ("groups", Mapping, "a mapping such as {'body': ['age', 'bmi']}"),
            ("optimiser", Algorithm1 | Adam, "an Algorithm1, such as Algorithm1(M=5), or an Adam"),
        ]
        for name, kind, what in expected:
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name}={value!r} was given; {what} is expected, or None.")
        for shape in self.architecture if isinstance(self.architecture, list | tuple) else ():
            if not isinstance(shape, Architecture):
                raise TypeError(f"architecture holds {shape!r}; Architectures such as two_layers(d, 8) are expected.")
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback={self.callback!r} was given; a function of one event is expected, or None.")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise ValueError(f"n_jobs={self.n_jobs!r} was given; a whole number such as 2, or -1 for all, is expected.")
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(
                f"random_state={self.random_state!r} was given; a whole number from 0 to 2**32 - 1 is expected, or a "
                "RandomState, or None."
            ) from error
        if self.kernel is not None and self.optimiser is not None:
            raise ValueError("kernel and optimiser were given together; a given kernel keeps its weights, so give one.")
        given = [name for name in ("kernel", "architecture", "groups") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} were given together; each fixes the kernel's shape, so give one.")
        budget = self.time_budget
        if budget is not None and not (isinstance(budget, Real) and not isinstance(budget, bool) and budget > 0):
            raise ValueError(f"time_budget={budget!r} was given; a number of seconds > 0 is expected, or None.")
        several = isinstance(self.architecture, list | tuple) and len(self.architecture) > 1
        other = self.kernel is not None or self.optimiser is not None or several
        if budget is not None and (self.preset != "default" or other):
            raise ValueError(
                "time_budget was given; it is kept by the preset 'default' with its own optimiser and at most one "
                "architecture, so leave it out or leave out the rest."
            )
        if self.lam is not None and not (
            isinstance(self.lam, Real) and not isinstance(self.lam, bool) and 0 < self.lam < float("inf")
        ):
            raise ValueError(f"lam={self.lam!r} was given; a finite number > 0 is expected, or None to choose it.")
        if self.preset == "plain" and (given or self.optimiser is not None):
            names = [*given, *(["optimiser"] if self.optimiser is not None else [])]
            raise ValueError(
                f"preset='plain' was given with {' and '.join(names)}; the plain preset has its own kernel and learns "
                "no weights, so leave one of them out."
            )
        # Algorithm 1 brings its own inputs and tree: those of the paper.
        of_the_paper = self.preset == "default" and isinstance(self.optimiser, Algorithm1)
        return PRESETS["algorithm1" if of_the_paper else self.preset]

    def _workers(self, plan: Plan) -> int:
        """``n_jobs``; None is one, and for the default learner as many as torch has threads, which it does not use."""
        if device_of(self.device) != AT_REST:
            return 1  # the device does one thing after another
        if self.n_jobs is None and isinstance(plan, LeaveOneOutGradients):
            return torch.get_num_threads()
        return effective_n_jobs(1 if self.n_jobs is None else self.n_jobs)

    def _problem(self) -> Problem | None:
        """What is to be solved; None is least squares, by its own exact ways."""
        return None

    def _check_size(self, plan: Plan, rows: Rows, problem: Problem | None) -> None:
        """Say before working that the kernel matrix does not fit, or that there will be none."""
        n, device = len(rows), rows.X.device
        if problem is not None and n > (most := exact_rows(AT_REST)):  # these solvers work in main memory
            raise ValueError(
                f"{n} different rows were given with the loss {type(problem.loss).__name__}, which is solved on kernel "
                f"matrices of at most {most} rows; give a sample of the rows, or take loss='least_squares'."
            )
        if problem is not None:
            require_memory(n, n, OF_LOSS, torch.float64, "A fit with this loss on kernel matrices", AT_REST)
        if not isinstance(plan, LeaveOneOutGradients):
            matrices = MATRICES * self._workers(plan)
            require_memory(n, n, matrices, torch.float64, "A fit on kernel matrices", device)
        elif n <= (most := exact_rows(device)):
            what = "A kernel matrix and its Cholesky factor"
            require_memory(n, n, matrices_to_factor(n), torch.float64, what, device)
        else:
            _log.info("%d rows are more than the exact machine takes (%d); using Nyström's on centres.", n, most)
            # the rows that gradients are taken on, and a judge's matrices for each worker
            row, judges = rows.X.shape[1] * 8, 2.4 * 4 * (JUDGE + JUDGED) ** 2 * self._workers(plan)
            fits = max(0, int((available_memory(device) - judges) / row))
            require_bytes(n * row + judges, f"Learning from {n} rows of {rows.X.shape[1]} features", fits, device)

    def _plan(self, preset: Preset, encoder: Encoder) -> Plan:
        """The preset's plan, or one that honours the kernel, architecture, groups or optimiser given."""
        if self.kernel is not None:
            return Given(self.kernel)
        given = [a.expanded(encoder.owner) for a in self._given_architectures()]
        plan = preset.plan
        if isinstance(plan, LeaveOneOutGradients):
            plan = replace(plan, budget=self.time_budget)
            if len(given) == 1 and self.optimiser is None and not given[0].tied:
                return replace(plan, build=lambda features: given[0])
        if not given and self.optimiser is None:
            return plan
        kinds = tuple(feature.kind for feature in encoder.features)
        base = plan if isinstance(plan, Learned) else Learned(lambda d, rng: [mixed(kinds)], Adam())
        architectures = (lambda d, rng: given) if given else base.architectures
        return Learned(architectures, self.optimiser or base.optimiser)

    def _given_architectures(self) -> list[Architecture]:
        if self.groups is not None:
            names = getattr(self, "feature_names_in_", None)
            return [grouped(self.groups, self.n_features_in_ if names is None else list(names))]
        given = () if self.architecture is None else self.architecture
        return [given] if isinstance(given, Architecture) else list(given)

    def _check_width(self) -> None:
        if self.architecture is not None and not self._given_architectures():
            raise ValueError("architecture=[] was given; at least one Architecture is expected.")
        widths = [a.d for a in self._given_architectures()]
        if self.kernel is not None:
            given = self._given_inputs()
            widths = [self.kernel.architecture.d if given is None else len(given.encoder.columns)]
        for width in widths:
            if width != self.n_features_in_:
                raise ValueError(
                    f"A kernel for {width} columns was given with data of {self.n_features_in_} columns; "
                    "give one that was built for this many columns."
                )
        self._check_names()

    def _check_names(self) -> None:
        """A kernel learned on named columns is for columns of the same names, in the same order."""
        given, names = self._given_inputs(), tuple(map(str, getattr(self, "feature_names_in_", ())))
        known = () if given is None else given.reader.names
        if known and names and known not in (names, tuple(f"x{j}" for j in range(len(known)))):
            raise ValueError(
                f"The kernel was learned on the columns {', '.join(known[:5])}..., and the data have "
                f"{', '.join(names[:5])}...; give the same columns in the same order."
            )

    def _given_inputs(self) -> Inputs | None:
        """What a given kernel that was learned by an estimator brings along."""
        inputs = None if self.kernel is None else self.kernel.inputs
        return inputs if isinstance(inputs, Inputs) else None

    def _reader(self, columns: list[np.ndarray]) -> Reader:
        given = self._given_inputs()
        if given is not None:
            return given.reader
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(columns))])
        reader, remarks = read(columns, [str(name) for name in names], self._marks)
        _warn(remarks, 4)
        return reader

    def _encoder(self, merged: Merged, reader: Reader, preset: Preset) -> Encoder:
        """A given kernel brings its own, or takes the columns as they are."""
        given = self._given_inputs()
        if given is not None:
            return given.encoder
        if self.kernel is not None:
            return Encoder.identity(reader)
        # Steps for the default kinds of trees alone: a given tree has its own, and few rows do not carry a warp.
        own = self.architecture is None and self.groups is None and self.optimiser is None
        steps = preset.steps and own and merged.count.sum() >= 1000 and len(merged.X) <= exact_rows(AT_REST)
        weight = merged.weight * (merged.count.sum() / merged.weight.sum())  # as many as rows were given
        encoder = Encoder.of(merged.X, weight, reader, preset.ranks, preset.robust, steps)
        _warn(encoder_remarks(encoder, reader, weight), 4)
        return encoder

    def _lams(self, rows: Rows) -> np.ndarray:
        return lam_grid(rows.size) if self.lam is None else np.array([float(self.lam)])

    def _callback(self) -> Callable[[Event], Any] | None:
        if not self.verbose:
            return self.callback

        def tell(event: Event) -> Any:
            print("[hgk]", "  ".join(f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in event.items()))
            return self.callback(event) if self.callback is not None else None

        return tell

    # ------------------------------------------------------------------------- from data to rows

    def _read(self, X, y, sample_weight) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Columns, outputs, weights, and how often each row was given."""
        columns = self._columns(X, reset=True)
        y = checks.labels(y, len(columns[0]), type(self).__name__, self._multi_output, self._y_numeric)
        self._check_width()
        weight = checks.weights(sample_weight, len(columns[0]))
        count = checks.repetitions(weight).copy()
        weight *= count.sum() / weight.sum()
        _warn(checks.count_remarks(count), 5)
        return columns, self._encode(y, weight), weight, count

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
        names = list(getattr(self, "feature_names_in_", names))
        return [checks.finite(column, str(name)) for column, name in zip(columns, names, strict=True)]

    def _check_rows(self, X: np.ndarray, reader: Reader) -> None:
        if len(X) < 2:
            raise ValueError(
                "The data have 1 sample after equal rows were merged and rows of weight 0 left out (n_samples=1); "
                "at least 2 different rows are needed."
            )
        _warn(column_remarks(X, reader.names), 4)

    def _task(self, rows: Rows, Y: np.ndarray, clip: float, kinds, problem: Problem | None, rng) -> Task:
        """Repetitions of a row go to all folds; in fewer pieces, if there would be too many for a kernel matrix."""
        count, most = rows.repetitions.cpu().numpy(), max(len(rows), exact_rows(rows.X.device))
        folds = min(FOLDS, int(rows.given))
        for portions in (float("inf"), 2, 1):
            pieces = divide(count, folds, rng, self._strata(Y), portions)
            if len(pieces.origin) <= most:
                break
        task = Task(pieces.of(rows), pieces.fold_of, self._lams(rows), clip, kinds, problem, is_regressor(self))
        divided = len(pieces.origin) > len(rows)
        return replace(task, distinct=rows, origin=torch.from_numpy(pieces.origin)) if divided else task

    # -------------------------------------------------------------------------- what a fit leaves

    def _store(self, rows: Rows, X: np.ndarray, progress: Progress) -> None:
        encoder = self._inputs.encoder
        self.history_ = progress.history
        self.X_fit_ = X
        sample = rows.X[:: max(1, len(rows) // 500)]
        shares = proportions(self.machines_)
        nodes = np.vstack([share * m.kernel.shares(sample) for share, m in zip(shares, self.machines_, strict=True)])
        self.node_importances_ = nodes @ np.eye(self.n_features_in_)[encoder.owner]
        self._derive()
        if progress.shortened:
            warnings.warn(
                "The fit was stopped early; the model uses the best weights found so far (see history_).",
                StoppedEarlyWarning,
                stacklevel=3,
            )
        if any(m.ridge_added for m in self.machines_):
            warnings.warn(
                f"The kernel matrix was numerically singular and {max(m.ridge_added for m in self.machines_):.1e} "
                f"was added to its diagonal; lam={self.lam_:.1e} is very small for these data, try a larger one.",
                UserWarning,
                stacklevel=3,
            )
        if not progress.shortened and any(e.get("few") for e in progress.history):
            warnings.warn(
                f"time_budget={self.time_budget!r} was used up before λ was chosen on all rows; it was chosen on at "
                f"most {FEWER} of them, so give more time.",
                UserWarning,
                stacklevel=3,
            )
        left = max((m.gap for m in self.machines_ if isinstance(m, OfLoss) and m.unsolved), default=0.0)
        if left:
            warnings.warn(
                f"A machine was solved up to a duality gap of {left:.1e} of its objective, more than was wanted; "
                f"lam={self.lam_:.1e} is very small for these data, try a larger one.",
                UserWarning,
                stacklevel=3,
            )

    def _derive(self) -> None:
        """The public attributes that follow from the machines and the importances of their nodes."""
        first = self.machines_[0]
        names = tuple(feature.name for feature in self._inputs.encoder.features)
        self.kernel_ = replace(first.kernel, columns=names, inputs=self._inputs)
        self.alpha_ = _columns_out(first.alpha.numpy(), self._single_column and first.alpha.shape[1] == 1)
        self.lam_, self.gamma_ = first.lam, first.kernel.gamma
        self.feature_importances_ = self.node_importances_.sum(0)

    def _training_rows(self, what: str) -> Rows:
        """The distinct training rows, unless the model is from a compact file."""
        check_is_fitted(self)
        if self._rows is None:
            raise CompactModelError(
                f"{what} the training labels, which this model's compact file leaves out; load a file that was saved "
                "without compact."
            )
        return self._rows

    @property
    def loo_predictions_(self) -> np.ndarray:
        """Leave-one-out predictions for the training rows, in the order they were given.

        Of a row that was given several times, one repetition is left out; a row of weight 0 gets its ordinary
        prediction. λ, γ and the kernel's weights stay fixed. Computed when first asked for.

        They are exact for least squares. With another loss they are predictions by the machines of the folds that the
        row is not in, a fifth of the rows being left out at once (NaN for rows of folds that a fit with the preset
        "paper" did not come to before it was stopped).
        """
        self._training_rows("Leave-one-out predictions need")
        everywhere = self._loo_of_rows().numpy()[self._place]
        if len(self._left_out):
            everywhere[self._place < 0] = self._average(torch.from_numpy(self._left_out)).numpy()
        return self._decode(everywhere)

    @property
    def _of_loss(self) -> bool:
        """Whether the machines are of another loss than least squares, or of pairs."""
        return isinstance(self.machines_[0], OfLoss)

    @property
    def _clip(self) -> float:
        """Where predictions are clipped."""
        return self.machines_[0].clip

    def _loo_of_rows(self) -> torch.Tensor:
        """Of the distinct rows, in [-1, 1]; kept once computed. With another loss, of held-out folds."""
        if "loo" not in self._kept:
            rows = self._training_rows("Leave-one-out values need")
            if self._of_loss:
                self._kept["loo"] = held_out_average(self.machines_).clamp(-self._clip, self._clip)
                return self._kept["loo"]
            device = device_of(self.device)
            with threads_for(len(rows), device), on_device(len(rows), device):
                machines = moved(self.machines_, device)
                self._kept["loo"] = loo_average(machines, rows.to(device), CLIP)[0].to(AT_REST)
        return self._kept["loo"]

    def _aside(self) -> torch.Tensor:
        """Of each distinct row, the share whose value is the most honest: with another loss, what was kept from the
        kernel, too.
        """
        t = self._loo_of_rows()
        known = t.isfinite().all(1).double()  # a fit that was stopped early has not held out all rows
        if not self._of_loss:
            return known
        best = known * cast(torch.Tensor, cast(OfLoss, self.machines_[0]).aside)
        return best if bool(best.any()) else known

    def _honest(self) -> tuple[Rows, torch.Tensor]:
        """The rows, or repetitions of them, whose values are the most honest, and these values."""
        rows, share = self._training_rows("Values of rows not seen need"), self._aside()
        index = share.nonzero()[:, 0]
        return rows.portion(index, (share * rows.weight)[index]), self._loo_of_rows()[index]

    def _predict_columns(self, X) -> np.ndarray:
        """The clipped averaged function, one column per output, in [-1, 1]."""
        features = self._features(X)  # first: it says where there is no fit yet
        return self._average(features).numpy()

    def _average(self, features: torch.Tensor) -> torch.Tensor:
        """The clipped averaged function. The machines go to the device at every call, which takes milliseconds."""
        device = device_of(self.device)
        with on_device(len(features), device):
            machines = moved(self.machines_, device)
            parts = (features[block].to(device) for block in blocks(len(features), PREDICTED))
            return torch.cat([average(machines, part, self._clip).to(AT_REST) for part in parts])

    def _features(self, X) -> torch.Tensor:
        """What the machines see of a table."""
        check_is_fitted(self)
        columns, reader = self._columns(X, reset=False), self._inputs.reader
        _warn(percent_remarks(columns, reader), 4)
        return torch.from_numpy(self._inputs.encoder(reader(columns)))

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


def _warn(remarks: Iterable[str], level: int) -> None:
    for remark in remarks:
        warnings.warn(remark, UserWarning, stacklevel=level)


def _columns_out(t: np.ndarray, single: bool) -> np.ndarray:
    return t[:, 0] if single else t


# Named losses of classification.
CLASS_LOSSES: dict[str, Callable[[], Loss]] = {
    "least_squares": LeastSquares,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
}


def _named(name: str, known: Mapping[str, Callable[[], Loss]], other: str, others: Iterable[str]) -> Loss:
    if name not in known:
        where = f"{name!r} is for {other}; here" if name in others else f"loss={name!r} is unknown;"
        raise ValueError(f"{where} use one of {', '.join(map(repr, known))}, or a loss of hgk.losses.")
    return known[name]()


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, Loss):
        raise TypeError(f"loss={loss!r} was given; a name such as 'least_squares' or a loss of hgk.losses is expected.")
    solver_for(loss)  # says which losses can be solved


class HGKRegressor(RegressorMixin, _HGK):
    """Regression with a hierarchical Gaussian kernel whose weights are learned.

    Solves ``min_f λ‖f‖² + (1/n) Σ L(y_i, f(x_i))`` over the kernel's function space, with the squared loss unless
    another is asked for; the kernel's weights, its width γ and λ are chosen from the data. Columns and labels are
    scaled to [-1, 1], and predictions are clipped to the range of the training labels. Columns may be categorical (in
    pandas and polars frames) and may have missing cells.

    Parameters
    ----------
    preset : {"default", "algorithm1", "paper", "plain"}, default="default"
        What is learned, and how. "default": depth-2 kernels of smooth, rough and oblique nodes on scaled and rank
        copies of the columns, by mini-batches of exact leave-one-out gradients, chosen and averaged on rows set
        aside; where a label has few values, predictions lean to the likelier ones as far as that is better there
        (``machines_[0].levels``). "algorithm1": a depth-2 kernel with 8 nodes by a short run of the paper's
        Algorithm 1. "paper": the paper's protocol, seven architectures chosen by 5-fold cross-validation, each by a
        full run of Algorithm 1 per fold (hours for thousands of rows). "plain": the isotropic Gaussian kernel; only λ
        and γ are chosen.
    loss : {"least_squares", "pinball", "expectile", "epsilon_insensitive"} or Loss, default="least_squares"
        L. Losses other than least squares are solved on the kernel that the preset learns (by least squares, but for
        the presets of Algorithm 1, whose risks are those of the loss), with a λ of their own that five folds choose;
        the model is the mean of the five fold machines. They take at most 10,000 different rows. An object, such as
        ``hgk.losses.Pinball(0.9)``, sees labels scaled to [-1, 1].
    tau : float, default=0.5
        Level of "pinball" and "expectile", between 0 and 1.
    tube : float, default=0.1
        Half-width of the tube of "epsilon_insensitive", as a share of half the range of the labels.
    kernel : HierarchicalKernel, optional
        A kernel to keep, such as ``kernel_`` of an estimator fitted on another part of the data; its
        weights are not learned again, λ and γ are chosen.
    architecture : Architecture or list of Architecture, optional
        Replaces the preset's. Several are chosen from by cross-validation.
    groups : dict, optional
        Named groups of columns, by name or index; each becomes a first-layer node.
    optimiser : Algorithm1 or Adam, optional
        Replaces the preset's.
    lam : float, optional
        λ of the machine; None chooses it on held-out rows. The default learner moves its own λ along with the
        weights in any case.
    time_budget : float, optional
        Seconds that a fit with the default preset should take, about; kinds of trees, steps, rows per step and
        centres follow from it and from the speed of the machine, so that results may differ from one machine to
        another. None takes a fixed effort that depends on the number of rows alone.
    device : {"cpu", "cuda", "cuda:N", "auto"}, default="cpu"
        Where fits and predictions are computed; "auto" takes an accelerator if there is one, and one that is asked
        for and not there is an error. The fitted model is kept in main memory and can be used on another device by
        ``set_params(device=...)``. Predictions of one fitted model agree between devices to rounding; fits follow
        the same steps, but rounding lets them end at slightly different weights.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int, optional
        Threads over kinds of trees, architectures and folds where there are several. None means 1, and with the
        default preset as many as torch has.
    verbose : int, default=0
        1 prints a line per event.
    callback : callable, optional
        Called with a dict at each event; returning True stops the fit, which keeps its best weights.

    Attributes
    ----------
    kernel_ : HierarchicalKernel
        The learned kernel; called with tables like those given to ``fit`` it encodes them first.
    alpha_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Coefficients of the distinct training rows (beyond 10,000 of them, on an accelerator beyond what its memory
        holds: of the centres, ``machines_[0].X``), for labels scaled to [-1, 1]; where the default preset has taken a
        column for each of three to forty values of the label, for columns of ±1.
    lam_, gamma_ : float
        Chosen regularisation and width.
    machines_ : list of Machine
        What is averaged to predict, one entry per kernel. The four attributes above describe the first; with the
        presets "algorithm1" and "plain" it is the only one. The default's share their α, which belongs to the mean
        of the kernels.
    X_fit_ : ndarray of shape (n_rows, n_features)
        The distinct training rows, in lexicographic order.
    history_ : list of dict
        What happened during the fit.
    loo_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Leave-one-out predictions for the training rows; with another loss than least squares, those of machines trained
        without a row's fold.
    node_importances_ : ndarray of shape (n_nodes, n_features)
        The share of the kernels' exponents that each first-layer node and column carries over pairs of training
        rows; the nodes of all machines one below the other. Sums to 1.
    feature_importances_ : ndarray of shape (n_features,)
        The same, summed over nodes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> X, y = make_friedman1(300, noise=0.1, random_state=0)
    >>> model = HGKRegressor(random_state=0).fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.9)
    True
    """

    _multi_output, _y_numeric = True, True

    def __init__(
        self,
        preset: str = "default",
        *,
        loss: str | Loss = "least_squares",
        tau: float = 0.5,
        tube: float = 0.1,
        kernel: HierarchicalKernel | None = None,
        architecture: Architecture | Sequence[Architecture] | None = None,
        groups: Mapping[str, Iterable[int | str]] | None = None,
        optimiser: Algorithm1 | Adam | None = None,
        lam: float | None = None,
        time_budget: float | None = None,
        device: str = "cpu",
        random_state=None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], Any] | None = None,
    ):
        super().__init__(
            preset,
            kernel=kernel,
            architecture=architecture,
            groups=groups,
            optimiser=optimiser,
            lam=lam,
            time_budget=time_budget,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
        )
        self.loss = loss
        self.tau = tau
        self.tube = tube

    def _problem(self) -> Problem | None:
        loss = self.loss
        if isinstance(loss, str):
            for name, value, where in (("tau", self.tau, "(0, 1)"), ("tube", self.tube, "[0, 1)")):
                if not (isinstance(value, Real) and not isinstance(value, bool)):
                    raise TypeError(f"{name}={value!r} was given; a number in {where} is expected.")
            known = {
                "least_squares": lambda: LeastSquares(),
                "pinball": lambda: Pinball(float(self.tau)),
                "expectile": lambda: Expectile(float(self.tau)),
                "epsilon_insensitive": lambda: EpsilonInsensitive(float(self.tube)),
            }
            loss = _named(loss, known, "HGKClassifier", CLASS_LOSSES)
        _check_loss(loss)
        if loss.signs:
            raise ValueError(
                f"loss={self.loss!r} was given to HGKRegressor; it takes the labels -1 and 1, so use HGKClassifier."
            )
        if loss.levels > 1:
            raise ValueError(
                f"A loss of {loss.levels} levels was given to HGKRegressor; use HGKQuantileRegressor, whose levels are "
                "kept from crossing."
            )
        return None if loss == LeastSquares() else Problem(loss, own_lam=True)

    def _encode(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        self._single_column = y.ndim == 1
        columns = y.reshape(len(y), -1).astype(float)
        self._y_scaling = Scaling.of(columns[weight > 0])
        return self._y_scaling(columns)

    def _decode(self, t: np.ndarray) -> np.ndarray:
        return _columns_out(self._y_scaling.inverse(t), self._single_column)

    def _strata(self, Y: np.ndarray) -> None:
        return None

    def predict(self, X) -> np.ndarray:
        """Predictions, clipped to the range of the training labels; where these have few values, see ``preset``."""
        return self._decode(self._predict_columns(X))

    def predict_interval(self, X, coverage: float = 0.9) -> np.ndarray:
        """Jackknife+ intervals, which cover the label of a new row with about this probability.

        With leave-one-out residuals r_i and the functions f^(-i) trained without row i, both from the factor
        that the fit made (the kernel's weights, λ and γ stay fixed), the bounds at x are

            the (1 - coverage)-quantile of f^(-i)(x) - ρ |r_i|,    the coverage-quantile of f^(-i)(x) + ρ |r_i|,

        taken over the rows with one more at ∓∞ (Barber, Candès, Ramdas and Tibshirani, 2021; for exchangeable
        rows, ρ = 1 and a kernel that does not depend on them, coverage is at least 1 - 2 (1 - coverage)). A kernel
        whose weights were learned has seen row i, and r_i is too small: ρ >= 1 is how much larger errors were on rows
        set aside, as measured during the fit (``history_``, "optimism"). At most 2000
        rows are used. Each machine is factored again at every call, so that one call for many rows is cheaper than many
        calls. Weights of rows count relative to each other.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, n_outputs, 2)
            Lower and upper bounds; a bound may be infinite where rows are too few for the coverage.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from hgk import HGKRegressor
        >>> X, y = make_friedman1(300, noise=1.0, random_state=0)
        >>> low, high = HGKRegressor("plain").fit(X[:200], y[:200]).predict_interval(X[200:]).T
        >>> bool(0.8 < ((low < y[200:]) & (y[200:] < high)).mean() < 1)
        True
        """
        self._training_rows("Intervals need")
        if self._of_loss:
            raise ValueError(
                f"predict_interval was called with loss={self.loss!r}; its intervals are those of least squares, so "
                "use HGKQuantileRegressor(quantiles=[0.05, 0.95])."
            )
        if not (isinstance(coverage, Real) and 0 < coverage < 1):
            raise ValueError(f"coverage={coverage!r} was given; a number between 0 and 1 is expected, such as 0.9.")
        (found,) = self._intervals(self._features(X), [float(coverage)])
        return found[:, 0] if self._single_column else found

    @property
    def _optimism(self) -> float:
        """What leave-one-out errors are multiplied by to be those of rows that the kernel has not seen."""
        ratios = [e["ratio"] for e in self.history_ if e.get("stage") == "optimism"]
        return ratios[-1] if ratios and ratios[-1] > 1 else 1.0

    def _intervals(self, features: torch.Tensor, levels: Sequence[float]) -> np.ndarray:
        """Bounds at each level, (levels, rows, outputs, 2); the machines are factored once for all levels."""
        rows = self._training_rows("Intervals need")
        n, device = len(rows), device_of(self.device)
        some = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(n)[:JACKKNIFE]))
        weight, bounds = rows.weight[some] * (rows.size / float(rows.weight.sum())), []
        with threads_for(n, device), on_device(n, device):
            machines = moved(self.machines_, device)
            own, elsewhere = without_one_average(machines, rows.to(device), CLIP, some)
            r = self._optimism * (rows.Y[some] - own.to(AT_REST)).abs().T[:, None, :]
            # one block of rows at a time: f^(-i)(x) is rows x 2000 x outputs
            for block in blocks(len(features), max(1, 2**22 // (len(some) * machines[0].alpha.shape[1]))):
                t = elsewhere(features[block].to(device)).to(AT_REST)
                low = [weighted_quantile(r - t, weight, level).neg() for level in levels]
                high = [weighted_quantile(r + t, weight, level) for level in levels]
                bounds.append(torch.stack([torch.stack(low), torch.stack(high)], -1).transpose(1, 2))
        return self._y_scaling.inverse(torch.cat(bounds, 1).numpy().swapaxes(2, 3)).swapaxes(2, 3)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    """The smallest v with weight(values <= v) >= level · Σ weight, a minimiser of the pinball loss."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) >= level * weight.sum() * (1 - 1e-12)
    return float(values[order][np.argmax(reached)])


class HGKQuantileRegressor(RegressorMixin, _HGK):
    """Quantiles of the label at several levels at once, which never cross.

    For every level τ the machine of the pinball loss ``τ (y - t)₊ + (1 - τ)(t - y)₊``, all on the same kernel and each
    with its own λ, chosen by five folds. Machines have no offset; here every level gets one, the τ-quantile of the
    residuals of held-out rows, so that as many of these lie below as should (where at least five rows lie beyond the
    level, else none). Where the functions of two levels cross, the predicted values are put in
    order, which brings them nearer to the true quantiles (Chernozhukov, Fernández-Val and Galichon, 2010). At most
    10,000 different rows.

    Parameters
    ----------
    preset : {"default", "algorithm1", "paper", "plain"}, default="default"
        As in :class:`HGKRegressor`; so are all further ones.
    quantiles : float or increasing sequence of float, default=0.5
        Levels between 0 and 1.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles,)
    lams_ : ndarray of shape (n_quantiles,)
        λ of every level; ``lam_`` is their geometric mean.
    offsets_ : ndarray of shape (n_quantiles,)
        What is added to each level, in the unit of the labels.
    loo_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_quantiles)
        Predictions of the training rows by machines trained without their fold, in order.

    Further ones are those of :class:`HGKRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk import HGKQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = X[:, 0] + (1.2 + X[:, 0]) * rng.standard_normal(400)
    >>> model = HGKQuantileRegressor("plain", quantiles=[0.05, 0.5, 0.95], random_state=0).fit(X[:200], y[:200])
    >>> low, middle, high = model.predict(X[200:]).T
    >>> bool((low <= middle).all() and (middle <= high).all() and 0.8 < ((low < y[200:]) & (y[200:] < high)).mean() < 1)
    True
    """

    _multi_output, _y_numeric = False, True

    def __init__(
        self,
        preset: str = "default",
        *,
        quantiles: float | Sequence[float] = 0.5,
        kernel: HierarchicalKernel | None = None,
        architecture: Architecture | Sequence[Architecture] | None = None,
        groups: Mapping[str, Iterable[int | str]] | None = None,
        optimiser: Algorithm1 | Adam | None = None,
        lam: float | None = None,
        time_budget: float | None = None,
        device: str = "cpu",
        random_state=None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], Any] | None = None,
    ):
        super().__init__(
            preset,
            kernel=kernel,
            architecture=architecture,
            groups=groups,
            optimiser=optimiser,
            lam=lam,
            time_budget=time_budget,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
        )
        self.quantiles = quantiles

    def _problem(self) -> Problem:
        levels = np.atleast_1d(np.asarray(self.quantiles))
        if levels.ndim != 1 or not len(levels) or levels.dtype.kind not in "fiu":
            raise TypeError(
                f"quantiles={self.quantiles!r} was given; a number between 0 and 1 is expected, or an increasing list."
            )
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(
                f"quantiles={self.quantiles!r} was given; levels must lie strictly between 0 and 1 (0.5 is the median)."
            )
        if (np.diff(levels) <= 0).any():
            raise ValueError(
                f"quantiles={self.quantiles!r} was given; predictions never cross, so levels must increase: give "
                f"{sorted(set(levels.tolist()))}."
            )
        self.quantiles_ = levels.astype(float)
        return Problem(Pinball(torch.from_numpy(self.quantiles_)), own_lam=True)

    def _encode(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        self._single_column = len(self.quantiles_) == 1
        self._y_scaling = Scaling.of(y[weight > 0, None].astype(float))
        return self._y_scaling(y[:, None].astype(float))

    def _decode(self, t: np.ndarray) -> np.ndarray:
        shifted = np.clip(t + self._offsets, -CLIP, CLIP)
        return _columns_out(self._y_scaling.inverse(np.sort(shifted, axis=1)), self._single_column)

    def _store(self, rows: Rows, X: np.ndarray, progress: Progress) -> None:
        super()._store(rows, X, progress)
        mine, t = self._honest()
        self._offsets = np.zeros(len(self.quantiles_))
        for j, level in enumerate(self.quantiles_):
            if mine.size * min(level, 1 - level) >= 5:
                self._offsets[j] = _quantile((mine.Y[:, 0] - t[:, j]).numpy(), mine.weight.numpy(), level)

    @property
    def offsets_(self) -> np.ndarray:
        check_is_fitted(self)
        return self._offsets * self._y_scaling.half

    def _strata(self, Y: np.ndarray) -> None:
        return None

    @property
    def lams_(self) -> np.ndarray:
        check_is_fitted(self)
        return np.array(cast(OfLoss, self.machines_[0]).lams)

    def predict(self, X) -> np.ndarray:
        """Quantiles, increasing from level to level: (n_samples, n_quantiles), or (n_samples,) for a single level."""
        return self._decode(self._predict_columns(X))

    def score(self, X, y, sample_weight=None) -> float:
        """The share of the pinball loss of constant quantiles that is gone, over all levels; at most 1.

        For a single level R², as for scikit-learn's own quantile regression.
        """
        check_is_fitted(self)
        if self._single_column:
            return super().score(X, y, sample_weight)
        said = self.predict(X)
        own, constant = 0.0, 0.0
        for level, t in zip(self.quantiles_, said.T, strict=True):
            own += mean_pinball_loss(y, t, alpha=level, sample_weight=sample_weight)
            best = np.full(len(t), np.percentile(y, 100 * level))
            constant += mean_pinball_loss(y, best, alpha=level, sample_weight=sample_weight)
        return 1 - own / constant if constant else float(own == 0)


class HGKClassifier(ClassifierMixin, _HGK):
    """Classification with a hierarchical Gaussian kernel whose weights are learned.

    One column of ±1 labels per class (a single one for two classes), all with the same kernel. The
    least-squares function estimates 2 P(class | x) - 1; probabilities come from it by a map that is fitted to
    its leave-one-out values, see ``predict_proba``.

    Parameters and attributes are those of :class:`HGKRegressor`, and ``classes_``; but for the following.
    ``loo_predictions_`` are leave-one-out values of ``decision_function`` (with another loss than least squares, of
    machines trained without a row's fold).

    Parameters
    ----------
    loss : {"least_squares", "hinge", "squared_hinge", "logistic"} or Loss, default="least_squares"
        Losses other than least squares are solved on the kernel that the preset learns, with a λ of their own that five
        folds choose; the model is the mean of the five fold machines. They take at most 10,000 different rows.
    multi_class : {"ovr", "ava"}, default="ovr"
        More than two classes: each against the rest, or all against all, a machine for every two classes on their rows,
        whose values together make the probabilities.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply ``sample_weight``; classes that a dict does not name have weight 1.
        "balanced" gives every class the same total weight. Probabilities are those of the weighted classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(HGKClassifier(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _multi_output, _y_numeric = False, False

    def __init__(
        self,
        preset: str = "default",
        *,
        loss: str | Loss = "least_squares",
        multi_class: str = "ovr",
        class_weight: Mapping | str | None = None,
        kernel: HierarchicalKernel | None = None,
        architecture: Architecture | Sequence[Architecture] | None = None,
        groups: Mapping[str, Iterable[int | str]] | None = None,
        optimiser: Algorithm1 | Adam | None = None,
        lam: float | None = None,
        time_budget: float | None = None,
        device: str = "cpu",
        random_state=None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], Any] | None = None,
    ):
        super().__init__(
            preset,
            kernel=kernel,
            architecture=architecture,
            groups=groups,
            optimiser=optimiser,
            lam=lam,
            time_budget=time_budget,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
        )
        self.loss = loss
        self.multi_class = multi_class
        self.class_weight = class_weight

    def _problem(self) -> Problem | None:
        loss = self.loss
        if isinstance(loss, str):
            loss = _named(loss, CLASS_LOSSES, "HGKRegressor", ("pinball", "expectile", "epsilon_insensitive"))
        _check_loss(loss)
        if not (loss.signs or isinstance(loss, LeastSquares)):
            raise ValueError(
                f"loss={self.loss!r} was given to HGKClassifier; it is a loss of regression, so use HGKRegressor, or "
                f"one of {', '.join(map(repr, CLASS_LOSSES))}."
            )
        if self.multi_class not in ("ovr", "ava"):
            raise ValueError(
                f"multi_class={self.multi_class!r} is unknown; use 'ovr' (one against the rest) or 'ava' (all against "
                "all)."
            )
        pairs = self.multi_class == "ava"
        return None if loss == LeastSquares() and not pairs else Problem(loss, pairs)

    def _encode(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds the single class {str(self.classes_[0])!r} (among rows of positive weight); a classifier "
                "needs at least two classes."
            )
        self._single_column = len(self.classes_) == 2
        weight *= self._class_weights(y, weight)
        wanted = self.classes_[1:] if self._single_column else self.classes_
        return np.where(y[:, None] == wanted, 1.0, -1.0)

    def _class_weights(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """One for each row."""
        given = self.class_weight
        if given is None:
            return np.ones(len(y))
        if isinstance(given, str) and given == "balanced":
            totals = [float(weight[y == c].sum()) for c in self.classes_]
            factors = [sum(totals) / (len(totals) * total) for total in totals]
        elif isinstance(given, Mapping):
            unknown = [c for c in given if c not in self.classes_.tolist()]
            if unknown:
                raise ValueError(
                    f"class_weight names the class {unknown[0]!r}, which y does not have; its classes are "
                    f"{', '.join(map(repr, self.classes_.tolist()[:5]))}."
                )
            factors = [given.get(c, 1.0) for c in self.classes_.tolist()]
            if not all(isinstance(f, Real) and 0 < f < float("inf") for f in factors):
                raise ValueError(f"class_weight={given!r} was given; finite weights > 0 are expected.")
        else:
            raise ValueError(
                f"class_weight={given!r} was given; a dict of classes to weights, 'balanced' or None is expected."
            )
        found = np.ones(len(y))
        for c, factor in zip(self.classes_, factors, strict=True):
            found[y == c] = factor
        return found

    def _decode(self, t: np.ndarray) -> np.ndarray:
        return _columns_out(self._class_values(t), self._single_column)

    def _class_values(self, t: np.ndarray) -> np.ndarray:
        """One column per class (one for two classes): values of pairs as log-probabilities, others as they are."""
        if not self._pairs:
            return t
        return cast(Coupling, self._calibration()).log(torch.from_numpy(t), len(self.classes_)).numpy()

    @property
    def _pairs(self) -> bool:
        """Whether the outputs are pairs of classes."""
        return self.multi_class == "ava" and not self._single_column

    def _strata(self, Y: np.ndarray) -> np.ndarray:
        return Y[:, 0] if self._single_column else Y.argmax(1)

    def decision_function(self, X) -> np.ndarray:
        """One value for two classes, else one per class.

        With least squares 2 P(class | x) - 1 as estimated, in [-1, 1]; with other losses the value of the function,
        which is not clipped; with ``multi_class="ava"`` the logarithm of ``predict_proba``, which is made of all pairs.
        """
        return self._decode(self._predict_columns(X))

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities, calibrated on the leave-one-out values of ``decision_function``.

        With g(f) = a f for f > 0 and b f for f < 0, and q = (1 + f) / 2, which least squares makes an estimate of the
        probability: for two classes log(p / (1 - p)) = g(f) + s log(q / (1 - q)), else p_k is proportional to
        q_k^s exp(g(f_k)); s = 0 for other losses. Both terms increase, so that the most probable class is the predicted
        one; a, b and s > 0 minimise the logarithmic loss. With ``multi_class="ava"`` p_k is proportional to
        1 / (1 + Σ_l exp(-a f_kl)), for the values f_kl of its pairs. All are fitted at the first call, which therefore
        takes about as long as training the machines again. With other losses than least squares the values are those
        of held-out folds, which the fit has kept.
        """
        t = self._predict_columns(X)
        return self._probabilities(t)

    def _probabilities(self, t: np.ndarray) -> np.ndarray:
        return np.exp(self._class_values(t)) if self._pairs else cast(Calibration, self._calibration()).probabilities(t)

    def _calibration(self) -> Calibration | Coupling:
        if "calibration" not in self._kept:
            self._training_rows("Probabilities need")
            rows, t = self._honest()
            known = t.numpy(), rows.Y.numpy(), rows.weight.numpy(), rows.size
            estimates = not self._of_loss  # of 2 P - 1
            self._kept["calibration"] = Coupling.of(*known) if self._pairs else Calibration.of(*known, estimates)
        return self._kept["calibration"]

    def predict(self, X, threshold: float | None = None) -> np.ndarray:
        """The class with the largest value of ``decision_function``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        threshold : float, optional
            For two classes: predict the second where ``decision_function`` is above this, such as what
            :meth:`threshold_for` returns, instead of 0.
        """
        t = self._class_values(self._predict_columns(X))
        if self._single_column:
            return self.classes_[(t[:, 0] > (0.0 if threshold is None else threshold)).astype(int)]
        if threshold is not None:
            raise ValueError(f"threshold={threshold!r} was given with {len(self.classes_)} classes; it needs two.")
        return self.classes_[t.argmax(1)]

    def threshold_for(self, false_alarm_rate: float = 0.01) -> float:
        """The threshold of ``decision_function`` above which at most this share of the first class will lie.

        It is the conformal quantile of the values of training rows of the first class, from machines that have not seen
        them: leave-one-out values with least squares, values of held-out folds with other losses. For rows like the
        training rows the second class is then falsely announced with about this probability. Use it by
        ``predict(X, threshold=…)``.

        Parameters
        ----------
        false_alarm_rate : float, default=0.01
            Between 0 and 1.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from hgk import HGKClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = HGKClassifier("plain", loss="hinge", random_state=0).fit(X[::2], y[::2])
        >>> alarms = model.predict(X[1::2], threshold=model.threshold_for(false_alarm_rate=0.05)) == 1
        >>> bool(alarms[y[1::2] == 0].mean() < 0.12)
        True
        """
        rows = self._training_rows("Thresholds need")
        if len(self.classes_) > 2:
            raise ValueError(
                f"threshold_for was called for {len(self.classes_)} classes; false alarms need two classes."
            )
        if not (isinstance(false_alarm_rate, Real) and 0 < false_alarm_rate < 1):
            raise ValueError(f"false_alarm_rate={false_alarm_rate!r} was given; a number between 0 and 1 is expected.")
        known, t = self._honest()
        first = known.Y[:, 0] < 0
        rows, t = known[first], t[first, 0]
        if not len(rows):
            raise ValueError("No row of the first class was held out before the fit was stopped; fit again to the end.")
        # weights relative to each other, as many in all as the rows that they amount to
        weight = rows.weight * (rows.size / float(rows.weight.sum()))
        found = float(weighted_quantile(t, weight, 1 - float(false_alarm_rate)))
        if not np.isfinite(found):
            raise ValueError(
                f"false_alarm_rate={false_alarm_rate!r} was given with {rows.given:.0f} rows of the class "
                f"{self.classes_[0]!r}; a rate of at least {1 / (rows.size + 1):.2g} can be judged by so few."
            )
        return found
