"""HGKRegressor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from hgk.estimators import checks
from hgk.estimators.base import HGKEstimator
from hgk.estimators.parameters import between
from hgk.events import Event
from hgk.intervals import interval_bounds, intervals
from hgk.kernels import Architecture, Kernel
from hgk.losses import Loss, named
from hgk.optimisers import Adam, Algorithm1
from hgk.solvers import solver_for
from hgk.targets import Numbers


class HGKRegressor(RegressorMixin, HGKEstimator):
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
        (``model_.target``). "algorithm1": a depth-2 kernel with 8 nodes by a short run of the paper's
        Algorithm 1. "paper": the paper's protocol, seven architectures chosen by 5-fold cross-validation, each by a
        full run of Algorithm 1 per fold (hours for thousands of rows). "plain": the isotropic Gaussian kernel; only λ
        and γ are chosen.
    loss : {"least_squares", "pinball", "expectile", "epsilon_insensitive"} or Loss, default="least_squares"
        L. Losses other than least squares are solved on the kernel that the preset learns (by least squares, but for
        the presets of Algorithm 1, whose risks are those of the loss), with a λ of their own that five folds choose;
        the model is the mean of the five fold machines. With more than 10,000 different rows these are solved in
        leaves, by the default preset on a CPU alone. An object, such as ``hgk.losses.Pinball(0.9)``, sees labels
        scaled to [-1, 1].
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
        Called with each :mod:`event <hgk.events>`; returning True stops the fit, which keeps its best weights.

    Attributes
    ----------
    model_ : Model
        The fitted model: inputs, target, machine, training rows and history, with all that can be asked of it.
    machine_ : Machine
        The trained machine, f = Σ α k over its rows ``machine_.X``.
    kernel_ : HierarchicalKernel or MeanKernel
        The kernel of the machine; called with tables like those given to ``fit`` it encodes them first. The default
        preset learns several kernels, and their mean is one.
    alpha_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Coefficients of the distinct training rows, or of the centres, for labels scaled to [-1, 1]; where the default
        preset has taken a column for each of three to forty values of the label, for columns of ±1. Where machines are
        averaged that have a kernel each (the preset "paper", partitions into leaves), one more axis in front has an
        entry for each; where these sum over different rows, ``machine_.parts_of()`` lists them, and there is no
        ``alpha_``.
    lam_, gamma_ : float
        Chosen regularisation and width (of several, the geometric mean).
    X_fit_ : ndarray of shape (n_rows, n_features)
        The distinct training rows, in lexicographic order.
    history_ : tuple of Event
        What happened during the fit; see :mod:`hgk.events`.
    loo_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Leave-one-out predictions for the training rows; with another loss than least squares, those of machines trained
        without a row's fold.
    feature_importances_ : ndarray of shape (n_features,)
        How much worse predictions of unseen rows become when a column is permuted, as shares that sum to 1; exactly 0
        where that is within noise. Computed when first asked for, in seconds, and kept.
    importance_ : Importance
        The same in the unit of the loss, with standard errors.
    node_shares_ : ndarray of shape (n_nodes, n_features)
        The share of the kernels' exponents that each first-layer node and column carries over pairs of training
        rows; the nodes of all kernels one below the other. Sums to 1. A diagnostic of the kernel.
    exponent_shares_ : ndarray of shape (n_features,)
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

    _multi_output = True

    def __init__(
        self,
        preset: str = "default",
        *,
        loss: str | Loss = "least_squares",
        tau: float = 0.5,
        tube: float = 0.1,
        kernel: Kernel | None = None,
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
        self.loss = loss
        self.tau = tau
        self.tube = tube
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

    def make_loss(self) -> Loss:
        loss = self.loss
        if isinstance(loss, str):
            loss = named(loss, "numbers", tau=self.tau, tube=self.tube)
        solver_for(loss)  # says which losses can be solved
        if loss.signs:
            raise ValueError(
                f"loss={self.loss!r} was given to HGKRegressor; it takes the labels -1 and 1, so use HGKClassifier."
            )
        if loss.levels > 1:
            raise ValueError(
                f"A loss of {loss.levels} levels was given to HGKRegressor; use HGKQuantileRegressor, whose levels are "
                "kept from crossing."
            )
        return loss

    def make_target(self, y, weight, loss) -> Numbers:
        return Numbers.of(y, weight)

    def predict(self, X) -> np.ndarray:
        """Predictions, clipped to the range of the training labels; where these have few values, see ``preset``."""
        features = self.features(X)  # first: it says where there is no fit yet
        return self.model_.predict(features)

    def predict_interval(
        self,
        X,
        coverage: float = 0.9,
        *,
        method: str = "adaptive",
        bounds: str | tuple[float | None, float | None] | None = "auto",
    ) -> np.ndarray:
        """Intervals that cover the label of a new row with about this probability, wide where errors are large.

        With leave-one-out residuals r_i, the functions f^(-i) trained without row i (the kernel's weights, λ and γ stay
        fixed) and σ, a second machine on the size of the residuals, the bounds at x are

            the (1 - coverage)-quantile of f^(-i)(x) - e_i σ^(-i)(x),    e_i = ρ |r_i| / σ^(-i)(x_i),
            the coverage-quantile of f^(-i)(x) + e_i σ^(-i)(x),

        taken over the rows i whose predictions are near that at x, with one more at ∓∞. σ is 1 where it is not clearly
        better than a constant, and with few rows (up to 250 at a coverage of 0.9) all are near. With more than 2000
        rows f and σ replace f^(-i) and σ^(-i); then only the first call takes long. A kernel whose weights were
        learned has seen row i, and r_i is too small: ρ >= 1 is how much larger errors were on rows set aside, as
        measured during the fit (``history_``, "optimism").

        Whole-number weights are repetitions, of which one is left out, so do not give all rows a weight such as 2:
        their residuals would be those of rows whose twin was seen. Other weights count relative to each other.

        What is promised: with ``method="jackknife+"``, σ = 1 and all rows near, and ρ = 1 and a kernel that does not
        depend on the labels, coverage over new rows like the training rows is at least 1 - 2 (1 - coverage) (Barber,
        Candès, Ramdas and Tibshirani, 2021). σ and windows are learned from residuals of the same rows, so that the
        adaptive intervals have this as a design, not as a theorem.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Between 0 and 1.
        method : {"adaptive", "jackknife+"}, default="adaptive"
            "jackknife+" has intervals of nearly constant width, from at most 2000 rows. Its machines are factored at
            every call, so that one call for many rows is cheaper than many calls.
        bounds : "auto", None or (low, high), default="auto"
            What labels cannot exceed, so that intervals end there. "auto" takes what the training labels tell: counts
            are not negative, shares lie between 0 and 1, a pile of labels or the end of a scale bounds them
            (``history_`` has the event "BoundsFound"; ``hgk.targets.bounds`` the rule). None leaves intervals as they
            are. A pair bounds all outputs, None in the place of an end that is open.

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
        model = self.model_
        model.need_training("Intervals need")
        if model.machine.held_out is not None:
            raise ValueError(
                f"predict_interval was called with loss={self.loss!r}; its intervals are those of least squares, so "
                "use HGKQuantileRegressor(quantiles=[0.05, 0.95])."
            )
        if not between(0, 1)(coverage):
            raise ValueError(f"coverage={coverage!r} was given; a number between 0 and 1 is expected, such as 0.9.")
        checks.interval_method(method)
        taken = interval_bounds(model, checks.bounds_asked(bounds))
        (ends,) = intervals(model, self.features(X), [float(coverage)], method, taken)
        return ends[:, 0] if model.target.single else ends

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
