"""How far labels lie from predictions at x: a second machine, on the size of leave-one-out residuals.

With r_i = y_i - f^(-i)(x_i), u_i the share of rows whose predictions are smaller than that of row i, and centres z,

    a_i = √|r_i|          h(x) = μ + βᵀψ(x, u)          min_{μ, β} Σ s_i (a_i - h_i)² + c ‖β‖²          σ(x) = h(x)²

ψ are the features of Nyström's machine (φ = L⁻¹ k_C, less their mean) for the kernel (k(x, x') + k(u, u')) / 2 or for
k(u, u') alone. k(x, x') is the kernel of f, which knows what f knows, at its width and a wider one; or the Gaussian
kernel on all features, which also sees columns that say nothing of the mean. As c → ∞, h is constant.

The square root makes residuals of any size comparable, hardly minds outliers, and leaves σ ∝ (E √|r|)². Leaving rows
out is exact, with kernel, centres, c and the inputs fixed. For one of m_i repetitions, with s'_i = s_i / m_i,

    G_ij = 1 / Σs + ψ_iᵀ B ψ_j,      B = (Σ s ψ ψᵀ + cI)⁻¹,      e_i = a_i - h_i,      H_ii = s'_i G_ii
    h^(-i)(x) = h(x) - G(x, i) s'_i e_i / (1 - H_ii)

Kernel and c minimise the log-score of the leave-one-out values, profiled over a common factor,

    J = log Σ p_i a_i / h_i + Σ p_i log h_i,      h_i = h^(-i)(x_i),      p_i = s_i / Σs.

Where J is not clearly below that of a constant, by two standard errors, there is no such machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.kernels import HierarchicalKernel, Kernel, isotropic
from hgk.machines import Rows
from hgk.solvers.least_squares import cholesky

# Rows that are learned from and centres, at most; rows below which nothing is learned.
ROWS_OF_SPREAD, CENTRES_OF_SPREAD, FEWEST_ROWS_OF_SPREAD = 10_000, 400, 40
# Width of the kernel of places, which lie in [0, 1]; widths of the kernel of f, and of the Gaussian kernel in units of
# the mean distance between rows.
WIDTH_OF_PLACES, WIDTHS_OF_F, WIDTHS_OF_ROWS = 0.3, (1.0, 4.0), (0.5, 1.0)
# c in units of Σs.
PENALTIES = tuple(10.0 ** (k / 2) for k in range(-12, 1))
# h is at least this share of its mean, and a at most so many times its median.
LEAST_SPREAD, LARGEST_SIZE = 0.1, 10.0
# Standard errors by which J has to be below that of a constant.
STANDARD_ERRORS = 2.0
# What of a score may be rounding.
ROUNDED_SCORE = 1e-6
# Added to the diagonal of the centres' matrix, which is 1.
JITTER_OF_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class RankPlaces:
    """Where values lie among those of the training rows, from 0 to 1 by weight; rows of one value lie together.

    Attributes
    ----------
    values, middle : arrays
        The different values in increasing order, and the middles of their places.
    low, high : tensors of shape (rows,)
        Where the place of each training row begins and ends.
    """

    values: np.ndarray
    middle: np.ndarray
    low: torch.Tensor
    high: torch.Tensor

    @classmethod
    def of(cls, t: torch.Tensor, weight: torch.Tensor) -> RankPlaces:
        values, which = t.unique(return_inverse=True)
        share = torch.zeros_like(values).index_add_(0, which, weight / weight.sum())
        high = share.cumsum(0)
        low = high - share
        return cls(values.numpy(), ((low + high) / 2).numpy(), low[which], high[which])

    def __call__(self, t: torch.Tensor) -> torch.Tensor:
        """u, linear between the training rows'."""
        return torch.from_numpy(np.interp(t.numpy(), self.values, self.middle))

    def __getitem__(self, index: torch.Tensor) -> RankPlaces:
        """The same places, of some of the rows."""
        return replace(self, low=self.low[index], high=self.high[index])

    def near(self, u: torch.Tensor, share: float) -> torch.Tensor:
        """Which training rows are near each u, (u, rows): those whose places meet a window of so large a share."""
        half = share / 2
        middle = u.clamp(half, 1 - half)[:, None] if share < 1 else torch.full_like(u, 0.5)[:, None]
        return (self.high >= middle - half - 1e-9) & (self.low <= middle + half + 1e-9)


@dataclass(frozen=True, eq=False)
class SpreadFeatures:
    """φ on centres with features ``X`` and places ``u``; without a kernel, of places alone."""

    kernel: Kernel | None
    X: torch.Tensor
    u: torch.Tensor
    L: torch.Tensor

    @classmethod
    def on(cls, kernel: Kernel | None, X: torch.Tensor, u: torch.Tensor) -> SpreadFeatures:
        L, _ = cholesky(_similar(kernel, X, u, X, u), JITTER_OF_SPREAD)
        return cls(kernel, X, u, L)

    def __call__(self, X: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        K = _similar(self.kernel, X, u, self.X, self.u)
        return torch.linalg.solve_triangular(self.L, K.T, upper=False).T


def _similar(kernel: Kernel | None, X: torch.Tensor, u: torch.Tensor, Z: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    of_places = torch.exp(-(((u[:, None] - v) / WIDTH_OF_PLACES) ** 2))
    return of_places if kernel is None else (kernel.matrix(X, Z) + of_places) / 2


@dataclass(frozen=True, eq=False)
class Spread:
    """σ, and σ without one or two of the training rows.

    Attributes
    ----------
    features : SpreadFeatures
    mean : tensor of shape (centres,)
        Of φ over the rows.
    offset, floor, total : float
        μ; the least h; Σs.
    beta : tensor of shape (centres,)
    half : tensor of shape (centres, centres)
        half halfᵀ = B.
    weight, error, leverage, own : tensors of shape (training rows,)
        s'_i, e_i, H_ii and h^(-i)(x_i); rows that were not learned from have s' = e = H = 0.
    """

    features: SpreadFeatures
    mean: torch.Tensor
    offset: float
    floor: float
    total: float
    beta: torch.Tensor
    half: torch.Tensor
    weight: torch.Tensor
    error: torch.Tensor
    leverage: torch.Tensor
    own: torch.Tensor

    def _psi(self, X: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return self.features(X, u) - self.mean

    def _sigma(self, h: torch.Tensor) -> torch.Tensor:
        return h.clamp_min(self.floor) ** 2

    def __call__(self, X: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """σ at rows of features and places."""
        return self._sigma(self.offset + self._psi(X, u) @ self.beta)

    def leave_one_out(self) -> torch.Tensor:
        """σ^(-i)(x_i) of all training rows."""
        return self._sigma(self.own)

    def without_one(
        self, X: torch.Tensor, u: torch.Tensor, rows: torch.Tensor, places: torch.Tensor, index: torch.Tensor
    ) -> torch.Tensor:
        """σ^(-i)(x), (x, i), for the training rows i of ``index``, whose features and places are given."""
        psi = self._psi(X, u)
        G = 1 / self.total + (psi @ self.half) @ (self._psi(rows, places) @ self.half).T
        h = self.offset + psi @ self.beta
        return self._sigma(h[:, None] - G * (self.weight * self.error / (1 - self.leverage))[index])

    def leave_two_out(self, rows: torch.Tensor, places: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """σ^(-i,-j)(x_i), (i, j): with B = {i, j}, H_ij = G_ij s'_j: (a - h^(-B))_B = (I - H_BB)⁻¹ e_B."""
        half = self._psi(rows, places) @ self.half
        e, H_ii, s = self.error[index], self.leverage[index], self.weight[index]
        H = (1 / self.total + half @ half.T) * s
        kept = 1 - H_ii
        determinant = (kept[:, None] * kept - H * H.T).fill_diagonal_(1.0)
        r = (kept * e[:, None] + H * e) / determinant
        a = self.own[index] + e / kept
        return self._sigma((a[:, None] - r).diagonal_scatter(self.own[index]))


# -------------------------------------------------------------------------------------------------------- learning


@dataclass(frozen=True, eq=False)
class SpreadTrial:
    """h of one kernel and one c; leave-one-out values of the rows it was learned from."""

    features: SpreadFeatures
    psi: torch.Tensor
    mean: torch.Tensor
    vectors: torch.Tensor
    inverse: torch.Tensor
    h: torch.Tensor
    leverage: torch.Tensor
    own: torch.Tensor


def spread_of(rows: Rows, u: torch.Tensor, r: torch.Tensor, kernel: Kernel) -> Spread | None:
    """The best of all kernels and c for residuals r of the rows, of one output; None where a constant is as good."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows)))
    some = order[:ROWS_OF_SPREAD].sort().values
    mine, a = rows[some], r[some].abs().sqrt()
    share = mine.weight / mine.weight.sum()
    if mine.size < FEWEST_ROWS_OF_SPREAD or not float(share @ a) > 0:
        return None
    a = _without_outliers(a)
    floor = LEAST_SPREAD * float(share @ a)
    best, least = None, torch.inf
    for kernel_of_x in _kernels(kernel, mine):
        centres = order[:CENTRES_OF_SPREAD]
        features = SpreadFeatures.on(kernel_of_x, rows.X[centres], u[centres])
        for trial in _trials(features, mine, u[some], a):
            if (value := log_score(a, trial.own.clamp_min(floor), share)) < least:
                best, least = trial, value
    if best is None or not _clearly_better(a, best.own.clamp_min(floor), mine):
        return None
    return _spread(best, rows, u, some, a, floor)


def _without_outliers(a: torch.Tensor) -> torch.Tensor:
    middle = float(a.median())
    return a.clamp_max(LARGEST_SIZE * middle) if middle > 0 else a


def _kernels(kernel: Kernel, rows: Rows) -> Iterator[Kernel | None]:
    """None for places alone; the kernel of f; the Gaussian kernel on all features."""
    yield None
    for width in WIDTHS_OF_F:
        yield kernel.with_gamma(kernel.gamma * width)
    distance = float(rows.spread.sum()) ** 0.5
    d = rows.X.shape[1]
    for width in WIDTHS_OF_ROWS if 1e-100 < distance < 1e100 else ():
        yield HierarchicalKernel.of(isotropic(d), [np.ones(d)], gamma=width * distance)


def _trials(features: SpreadFeatures, rows: Rows, u: torch.Tensor, a: torch.Tensor) -> Iterator[SpreadTrial]:
    """For each c, from one eigendecomposition Σ s ψ ψᵀ = Q diag(w) Qᵀ."""
    s, phi = rows.weight[:, None], features(rows.X, u)
    total = float(s.sum())
    mean = (s * phi).sum(0) / total
    psi, middle = phi - mean, float(rows.weight @ a) / total
    values, Q = torch.linalg.eigh(psi.T @ (s * psi))
    P = psi @ Q
    right, one = P.T @ (rows.weight * (a - middle)), rows.weight / rows.repetitions
    for penalty in PENALTIES:
        inverse = 1 / (values.clamp_min(0) + penalty * total)
        h = middle + P @ (inverse * right)
        leverage = (one * (1 / total + P**2 @ inverse)).clamp_max(1 - 1e-9)
        yield SpreadTrial(features, psi, mean, Q, inverse, h, leverage, a - (a - h) / (1 - leverage))


def log_score(a: torch.Tensor, h: torch.Tensor, share: torch.Tensor) -> float:
    """J = log Σ p a/h + Σ p log h."""
    return float((share @ (a / h)).log() + share @ h.log())


def _clearly_better(a: torch.Tensor, h: torch.Tensor, rows: Rows) -> bool:
    """J against that of a constant; its standard error is that of the mean of a/h / mean(a/h) + log h - a / mean(a)."""
    share = rows.weight / rows.weight.sum()
    gain = log_score(a, torch.ones_like(a), share) - log_score(a, h, share)
    _, spread = rows.mean(a / h / (share @ (a / h)) + h.log() - a / (share @ a))
    return gain > STANDARD_ERRORS * spread + ROUNDED_SCORE


def _spread(
    trial: SpreadTrial, rows: Rows, u: torch.Tensor, some: torch.Tensor, a: torch.Tensor, floor: float
) -> Spread:
    """With what leaving rows out needs, for all rows."""
    s, half = rows.weight[some], trial.vectors * trial.inverse.sqrt()
    middle = float(s @ a / s.sum())
    beta = half @ (half.T @ (trial.psi.T @ (s * (a - middle))))
    weight, error, leverage = (torch.zeros_like(rows.weight) for _ in range(3))
    weight[some], error[some], leverage[some] = s / rows.repetitions[some], a - trial.h, trial.leverage
    own = torch.empty_like(rows.weight)
    own[some] = trial.own
    others = torch.ones(len(rows), dtype=torch.bool).index_fill(0, some, False)
    if bool(others.any()):
        own[others] = middle + (trial.features(rows.X[others], u[others]) - trial.mean) @ beta
    total = float(s.sum())
    return Spread(trial.features, trial.mean, middle, floor, total, beta, half, weight, error, leverage, own)
