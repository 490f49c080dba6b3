"""HGKClassifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.base import ClassifierMixin

from hgk.estimators.base import HGKEstimator
from hgk.estimators.parameters import between
from hgk.events import Event
from hgk.kernels import Architecture, Kernel
from hgk.losses import LeastSquares, Loss, named, names
from hgk.machines import weighted_quantile
from hgk.optimisers import Adam, Algorithm1
from hgk.solvers import solver_for
from hgk.targets import Classes, Pairs


class HGKClassifier(ClassifierMixin, HGKEstimator):
    """Classification with a hierarchical Gaussian kernel whose weights are learned.

    One column of ±1 labels per class (a single one for two classes), all with the same kernel. The least-squares
    function estimates 2 P(class | x) - 1, the logistic one logarithms of odds; the default takes the one whose
    probabilities are better on rows that were set aside. See ``predict_proba``.

    Parameters and attributes are those of :class:`HGKRegressor`, and ``classes_``; but for the following.
    ``loo_predictions_`` are leave-one-out values of ``decision_function``: exact with least squares, to one Newton step
    with the logistic loss; with another loss, of machines trained without a row's fold.

    Parameters
    ----------
    loss : {"auto", "least_squares", "logistic", "hinge", "squared_hinge"} or Loss, default="auto"
        "auto" is least squares or the logistic loss, whichever has the smaller log-loss on rows set aside
        (``history_`` says which); beyond 10,000 different rows these are compared in leaves. It is least squares with
        other presets than the default, with a given ``lam`` or kernel, and where fewer than 20 rows are set aside or
        time or memory are short. With the default preset "logistic" solves for all classes together.
        Otherwise losses other than least squares are solved for each class, on the kernel that the preset learns, with
        a λ of their own that five folds choose; the model is the mean of the five fold machines. With more than 10,000
        different rows these are solved in leaves, by the default preset on a CPU alone.
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

    _y_numeric = False

    def __init__(
        self,
        preset: str = "default",
        *,
        loss: str | Loss = "auto",
        multi_class: str = "ovr",
        class_weight: Mapping | str | None = None,
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
        self.multi_class = multi_class
        self.class_weight = class_weight
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
            loss = named(loss, "classes")
        solver_for(loss)  # says which losses can be solved
        if not (loss.signs or isinstance(loss, LeastSquares)):
            raise ValueError(
                f"loss={self.loss!r} was given to HGKClassifier; it is a loss of regression, so use HGKRegressor, or "
                f"one of {', '.join(map(repr, names('classes')))}."
            )
        return loss

    def make_target(self, y, weight, loss) -> Classes:
        target = Classes.of(y, weight, estimates=isinstance(loss, LeastSquares) and loss.quadratic)
        weight *= self._class_weights(y, weight, target.array)
        if self.multi_class == "ovr" or target.single:
            return target
        return Pairs(target.values, target.dtype, estimates=False)

    def _class_weights(self, y: np.ndarray, weight: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """One for each row."""
        given: Any = self.class_weight
        if given is None:
            return np.ones(len(y))
        if isinstance(given, str) and given == "balanced":
            totals = [float(weight[y == c].sum()) for c in classes]
            factors = [sum(totals) / (len(totals) * total) for total in totals]
        else:
            unknown = [c for c in given if c not in classes.tolist()]
            if unknown:
                raise ValueError(
                    f"class_weight names the class {unknown[0]!r}, which y does not have; its classes are "
                    f"{', '.join(map(repr, classes.tolist()[:5]))}."
                )
            factors = [given.get(c, 1.0) for c in classes.tolist()]
            if not all(isinstance(f, Real) and 0 < f < float("inf") for f in factors):
                raise ValueError(f"class_weight={given!r} was given; finite weights > 0 are expected.")
        weights = np.ones(len(y))
        for c, factor in zip(classes, factors, strict=True):
            weights[y == c] = factor
        return weights

    @property
    def classes_(self) -> np.ndarray:
        return cast(Classes, self.model_.target).array

    def decision_function(self, X) -> np.ndarray:
        """One value for two classes, else one per class.

        With least squares 2 P(class | x) - 1 as estimated, in [-1, 1]; with other losses, also where "auto" has taken
        the logistic one, the value of the function, which is not clipped; with ``multi_class="ava"`` the logarithm of
        ``predict_proba``, which is made of all pairs.
        """
        features = self.features(X)
        return self.model_.predict(features)

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities, from ``decision_function`` by a map that was fitted to rows set aside.

        With g(f) = a f for f > 0 and b f for f < 0, and q = (1 + f) / 2, which least squares makes an estimate of the
        probability: for two classes log(p / (1 - p)) = g(f) + s log(q / (1 - q)), else p_k is proportional to
        q_k^s exp(g(f_k)); s = 0 for other losses. Both terms increase, so that the most probable class is the predicted
        one; a, b and s > 0 minimise the logarithmic loss. With ``multi_class="ava"`` p_k is proportional to
        1 / (1 + Σ_l exp(-a f_kl)), for the values f_kl of its pairs.

        With the default preset and least squares or the logistic loss the fit has fitted the map to values of
        validation rows, by a machine that was trained without them. With other presets, where fewer than 20 rows were
        set aside, and where no weights were learned, the values are leave-one-out values, and the first call takes
        about as long as training the machine again; with other losses they are those of held-out folds, which the fit
        has kept.
        """
        features = self.features(X)
        target = cast(Classes, self.model_.calibrated)
        if target.calibration is None:
            self.model_.need_training("Probabilities need")
        return target.probabilities(self.model_.values(features))

    def predict(self, X, threshold: float | None = None) -> np.ndarray:
        """The class with the largest value of ``decision_function``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        threshold : float, optional
            For two classes: predict the second where ``decision_function`` is above this, such as what
            :meth:`threshold_for` returns, instead of 0.
        """
        features = self.features(X)
        if threshold is not None and not self.model_.target.single:
            raise ValueError(f"threshold={threshold!r} was given with {len(self.classes_)} classes; it needs two.")
        target, t = cast(Classes, self.model_.target), self.model_.decoded(features)
        return target.chosen(t, 0.0 if threshold is None else threshold)

    def threshold_for(self, false_alarm_rate: float = 0.01) -> float:
        """The threshold of ``decision_function`` above which about this share of the first class will lie.

        It is the conformal quantile of the values of training rows of the first class, from machines that have not seen
        them: leave-one-out values with least squares or the logistic loss, values of held-out folds with others. For
        rows like the training rows the second class is then falsely announced with about this probability, with
        leave-one-out values somewhat more often, since the kernel has seen these rows. Use it by
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
        self.model_.need_training("Thresholds need")
        if len(self.classes_) > 2:
            raise ValueError(
                f"threshold_for was called for {len(self.classes_)} classes; false alarms need two classes."
            )
        if not between(0, 1)(false_alarm_rate):
            raise ValueError(f"false_alarm_rate={false_alarm_rate!r} was given; a number between 0 and 1 is expected.")
        known, t = self.model_.unseen()
        first = known.Y[:, 0] < 0
        rows, t = known[first], t[first, 0]
        if not len(rows):
            raise ValueError("No row of the first class was held out before the fit was stopped; fit again to the end.")
        # weights relative to each other, as many in all as the rows that they amount to
        weight = rows.weight * (rows.size / float(rows.weight.sum()))
        threshold = float(weighted_quantile(t, weight, 1 - float(false_alarm_rate)))
        if not np.isfinite(threshold):
            raise ValueError(
                f"false_alarm_rate={false_alarm_rate!r} was given with {rows.given:.0f} rows of the class "
                f"{self.classes_[0]!r}; a rate of at least {1 / (rows.size + 1):.2g} can be judged by so few."
            )
        return threshold
