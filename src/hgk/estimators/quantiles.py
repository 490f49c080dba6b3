"""HGKQuantileRegressor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import mean_pinball_loss

from hgk.estimators.base import HGKEstimator
from hgk.events import Event
from hgk.kernels import Architecture, Kernel
from hgk.losses import Pinball
from hgk.optimisers import Adam, Algorithm1
from hgk.targets import Quantiles


class HGKQuantileRegressor(RegressorMixin, HGKEstimator):
    """Quantiles of the label at several levels at once, which never cross.

    For every level τ the machine of the pinball loss ``τ (y - t)₊ + (1 - τ)(t - y)₊``, all on the same kernel and each
    with its own λ, chosen by five folds. Machines have no offset; here every level gets one, the τ-quantile of the
    residuals of held-out rows, so that as many of these lie below as should (where at least five rows lie beyond the
    level, else none). Where the functions of two levels cross, the predicted values are put in
    order, which brings them nearer to the true quantiles (Chernozhukov, Fernández-Val and Galichon, 2010). More than
    10,000 different rows are divided into leaves (by the default preset on a CPU).

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

    def __init__(
        self,
        preset: str = "default",
        *,
        quantiles: float | Sequence[float] = 0.5,
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
        self.quantiles = quantiles
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

    def make_loss(self) -> Pinball:
        return Pinball(torch.from_numpy(self._levels()))

    def _levels(self) -> np.ndarray:
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
        return levels.astype(float)

    def make_target(self, y, weight, loss) -> Quantiles:
        return Quantiles.of(y, weight, self._levels())

    @property
    def quantiles_(self) -> np.ndarray:
        return cast(Quantiles, self.model_.target).levels

    @property
    def offsets_(self) -> np.ndarray:
        target = cast(Quantiles, self.model_.target)
        return target.offsets * target.scaling.half

    @property
    def lams_(self) -> np.ndarray:
        return np.array(self.machine_.lams)

    def predict(self, X) -> np.ndarray:
        """Quantiles, increasing from level to level: (n_samples, n_quantiles), or (n_samples,) for a single level."""
        features = self.features(X)
        return self.model_.predict(features)

    def score(self, X, y, sample_weight=None) -> float:
        """The share of the pinball loss of constant quantiles that is gone, over all levels; at most 1.

        For a single level R², as for scikit-learn's own quantile regression.
        """
        if self.model_.target.single:
            return super().score(X, y, sample_weight)
        ours, constant = 0.0, 0.0
        for level, t in zip(self.quantiles_, self.predict(X).T, strict=True):
            ours += mean_pinball_loss(y, t, alpha=level, sample_weight=sample_weight)
            best = np.full(len(t), np.percentile(y, 100 * level))
            constant += mean_pinball_loss(y, best, alpha=level, sample_weight=sample_weight)
        return 1 - ours / constant if constant else float(ours == 0)
