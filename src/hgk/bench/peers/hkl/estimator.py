"""HKLRegressor: λ by cross-validation along a path of warm starts, and scikit-learn's contract."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hgk.arrays import blocks, tensor, threads_for
from hgk.bench.peers.hkl.active import ActiveSet, Design, HKLSolution
from hgk.bench.peers.hkl.bases import Gaussians, Polynomials
from hgk.estimators import checks
from hgk.inputs import read_columns, split
from hgk.search import FOLDS, fold_numbers

# λ in units of the labels' variance: two per decade, largest first, so that each solution starts the next.
LAMS = 10.0 ** np.arange(-1, -8.1, -0.5)
# Values of λ in a row without a smaller cross-validation error, after which smaller ones are not tried.
WORSE = 2
# Rounds by the sufficient condition that may bring nothing: in the folds, and in the final fit.
PATIENCE_IN_FOLDS, PATIENCE_AT_LAST = 1, float("inf")
# Rows predicted at a time.
ROWS = 4096
# The first is the default. Cross-validation errors, polynomial and gaussian, on 700 rows with 150 nodes: cadata .0808
# and .0779, cpusmall .0045 and .0057, bank-32nh .0427 and .0436, pumadyn-32nm .0076 and .0102; on 2000 rows with 200:
# cadata .0601 and .0575, cpusmall .0041 and .0039, pumadyn-32nm .0069 and .0071. Near each other, and where many nodes
# are needed (pendigits) the Gaussians' features become too many to be quick.
BASES = ("polynomial", "gaussian")
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class HKLSettings:
    """What the solver is told beside the design."""

    dtype: torch.dtype
    max_nodes: int
    tol: float

    def active_set(self, F: torch.Tensor, y: torch.Tensor, design: Design) -> ActiveSet:
        return ActiveSet(F, y, design, self.dtype, self.max_nodes, self.tol)


def fold_risks(F, y, design: Design, settings: HKLSettings, fold_of: torch.Tensor, lams: np.ndarray) -> np.ndarray:
    """Mean squared errors of held-out predictions, by fold and λ; infinite for the λ that were not tried."""
    folds = range(int(fold_of.max()) + 1)
    low, high = y.min(), y.max()
    sets = [settings.active_set(F[fold_of != b], y[fold_of != b], design) for b in folds]
    risks = np.full((len(lams), len(sets)), np.inf)
    for i, lam in enumerate(lams):
        for b in folds:
            t = sets[b].solve(lam, PATIENCE_IN_FOLDS)(F[fold_of == b], design).clamp(low, high)
            risks[i, b] = float(torch.mean((y[fold_of == b] - t) ** 2))
        if i - int(np.argmin(risks.mean(1))) >= WORSE:
            break
    return risks


def fit_path(F, y, design: Design, settings: HKLSettings, lams: np.ndarray) -> HKLSolution:
    """The solution at the last of the λ, reached through the others, and its certificate."""
    active = settings.active_set(F, y, design)
    for lam in lams[:-1]:
        active.solve(lam, PATIENCE_IN_FOLDS)
    return active.solve(lams[-1], PATIENCE_AT_LAST, certify=True)


def exponents(X: np.ndarray) -> np.ndarray:
    """Of the power of two that a column is divided by, so that squares of it are numbers; 0 for ordinary ones."""
    most = np.abs(X).max(0)
    return np.where((most > 1e-100) & (most < 1e100), 0, np.frexp(most)[1])


class HKLRegressor(RegressorMixin, BaseEstimator):
    """Least-squares regression by hierarchical kernel learning.

    Solves ``min over f_w, b of (1/2n) Σ (y_i - b - Σ_w f_w(x_i))² + (λ/2)(Σ_v d_v ‖f_{D(v)}‖)²``, where w runs over all
    products of one-dimensional kernels, each column in at most one factor, D(v) are the products that contain v, and
    d_v = β^{|v|}. A product is used only if all its parts are, so that few columns and few interactions are; the
    solver visits no more than these and their neighbours, and bounds what all others could bring.

    Parameters
    ----------
    basis : {"polynomial", "gaussian"}, default="polynomial"
        "polynomial": orthonormal polynomials of each column, and so all monomials up to ``degree`` in each.
        "gaussian": one Gaussian kernel per column, and so all subsets of columns.
    degree : int, default=3
        Largest degree in one column of the basis "polynomial".
    width : float, default=2.0
        Width of the Gaussians in units of each column's standard deviation.
    beta : float, default=4.0
        β; larger values prefer few factors.
    lam : float, optional
        λ, in units of the labels' variance; None chooses it by five-fold cross-validation.
    max_nodes : int, default=200
        Size at which the active set stops growing, whatever the gap.
    tol : float, default=1e-2
        Duality gap at which a solution is good enough, relative to the objective.
    truncation : float, default=1e-2
        Components of a product of Gaussian kernels with a smaller share of its trace are left out.
    device : str, default="cpu"
        Where torch computes.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the bound on the nodes left out; everything else is in double precision.
    random_state : int, RandomState instance or None, default=None
        Draws the folds.

    Attributes
    ----------
    nodes_ : list of tuple
        The active set; a node is a tuple of (column, level) pairs, the empty one the constant.
    zeta_, eta_ : ndarray
        The nodes' weights ζ_w in the kernel Σ ζ_w k_w, and η.
    norms_ : ndarray
        ‖f_w‖.
    lam_ : float
        λ in units of the labels' variance.
    lams_, cv_risks_ : ndarray
        The λ tried and their cross-validation errors; absent if ``lam`` was given.
    objective_, gap_ : float
        The objective for labels divided by their standard deviation, and a bound on how far above the minimum *over
        all nodes* it is.
    converged_ : bool
        Whether ``gap_ <= tol * objective_``; if not, ``max_nodes`` was too small for it.
    feature_importances_ : ndarray
        Σ ‖f_w‖² over the nodes that contain a column, scaled to sum 1.
    intercept_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if X has names.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.bench.peers.hkl import HKLRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 5))
    >>> model = HKLRegressor(lam=1e-4).fit(X, X[:, 1] * X[:, 3])
    >>> model.nodes_[int(np.argmax(model.norms_))]
    ((1, 1), (3, 1))
    """

    def __init__(
        self,
        basis: str = "polynomial",
        *,
        degree: int = 3,
        width: float = 2.0,
        beta: float = 4.0,
        lam: float | None = None,
        max_nodes: int = 200,
        tol: float = 1e-2,
        truncation: float = 1e-2,
        device: str = "cpu",
        dtype: str = "float32",
        random_state=None,
    ):
        self.basis = basis
        self.degree = degree
        self.width = width
        self.beta = beta
        self.lam = lam
        self.max_nodes = max_nodes
        self.tol = tol
        self.truncation = truncation
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X, y):
        """Choose λ, then the nodes and their functions, on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        self._check_parameters()
        X = self._rows(X, reset=True)
        y = checks.labels(y, len(X), type(self).__name__, several=False, numeric=True)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        fold_of = torch.from_numpy(fold_numbers(len(X), min(FOLDS, len(X)), rng))
        self._exponents, (self._y_exponent,) = exponents(X), exponents(y[:, None])
        self._y_range = float(y.min()), float(y.max())
        y = np.ldexp(y, -self._y_exponent)
        self._y_mean, self._y_scale = float(y.mean()), float(y.std()) or 1.0
        with threads_for(len(X)):
            rows = tensor(np.ldexp(X, -self._exponents)).to(self.device)
            labels = tensor((y - self._y_mean) / self._y_scale)
            self._design = self._make_design(rows)
            F, labels = self._design.basis(rows), labels.to(self.device)
            settings = HKLSettings(PRECISIONS[self.dtype], self.max_nodes, self.tol)
            lams = self._path(F, labels, settings, fold_of.to(self.device))
            self._solution = fit_path(F, labels, self._design, settings, lams)
        self._store()
        return self

    def predict(self, X):
        """The function, clipped to the range of the training labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        t = np.concatenate([self._predict_rows(X[r]) for r in blocks(len(X), ROWS)])
        return np.clip(self._in_units(t * self._y_scale + self._y_mean), *self._y_range)

    def _in_units(self, t, power: int = 1):
        """Of the labels, from numbers that were divided by a power of two."""
        with np.errstate(over="ignore"):
            return np.ldexp(t, power * self._y_exponent)

    def _rows(self, X, reset: bool) -> np.ndarray:
        """Finite numbers, one row per sample."""
        X = checks.table(X, 2 if reset else 1)
        if not reset:
            checks.width(X, self)
        validate_data(self, X, skip_check_array=True, reset=reset)
        columns, names = split(X)
        if reset:
            self._reader, remarks = read_columns(columns, names)
            for remark in remarks:
                warnings.warn(remark, UserWarning, stacklevel=3)
        table = self._reader(columns)
        for j, (column, name) in enumerate(zip(table.T, names, strict=True)):
            if self._reader.is_categorical(j) or np.isnan(column).any():
                what = "texts" if self._reader.is_categorical(j) else "NaN"
                raise ValueError(f"Column {name!r} contains {what}; HKLRegressor needs numbers, so fill or encode it.")
            checks.finite([column], [name])
        return table

    def _predict_rows(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            rows = tensor(np.ldexp(X, -self._exponents)).to(self._solution.beta.device)
        return self._solution(self._design.basis(rows), self._design).cpu().numpy()

    def _make_design(self, rows: torch.Tensor) -> Design:
        if self.basis == "polynomial":
            return Design(Polynomials.of(rows, self.degree), rows.shape[1], self.beta, 0.0)
        basis = Gaussians.of(rows, self.width, self.truncation)
        return Design(basis, rows.shape[1], self.beta, self.truncation)

    def _path(self, F, y, settings: HKLSettings, fold_of: torch.Tensor) -> np.ndarray:
        """The λ down to the chosen one."""
        if self.lam is not None:
            return np.append(LAMS[self.lam < LAMS], self.lam)
        risks = fold_risks(F, y, self._design, settings, fold_of, LAMS).mean(1)
        tried = np.isfinite(risks)
        self.lams_, self.cv_risks_ = LAMS[tried], self._in_units(risks[tried] * self._y_scale**2, power=2)
        return LAMS[: int(np.argmin(risks)) + 1]

    def _store(self) -> None:
        solution = self._solution
        self.nodes_, self.lam_ = list(solution.nodes), float(solution.lam)
        self.zeta_, self.eta_ = solution.zeta.numpy(), solution.eta.numpy()
        squares = np.bincount(solution.node.cpu().numpy(), solution.beta.cpu().numpy() ** 2, len(solution.nodes))
        self.norms_ = np.sqrt(squares)
        self.intercept_ = float(self._in_units(solution.intercept * self._y_scale + self._y_mean))
        self.objective_, self.gap_ = solution.primal, solution.gap
        self.converged_ = solution.gap <= self.tol * solution.primal
        shares = np.zeros(self.n_features_in_)
        for node, square in zip(solution.nodes, squares, strict=True):
            shares[[column for column, _ in node]] += square
        self.feature_importances_ = shares / (shares.sum() or 1.0)

    def _check_parameters(self) -> None:
        if self.basis not in BASES:
            raise ValueError(f"basis={self.basis!r} is unknown; use one of {', '.join(map(repr, BASES))}.")
        if self.dtype not in PRECISIONS:
            raise ValueError(f"dtype={self.dtype!r} is unknown; use one of {', '.join(map(repr, PRECISIONS))}.")
        try:
            torch.empty(0, device=self.device)
        except Exception as error:  # torch has several kinds
            raise ValueError(f"device={self.device!r} was given, which cannot be used here; use 'cpu'.") from error
        for name, low in (("degree", 1), ("max_nodes", 2)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < low:
                raise ValueError(f"{name}={value!r} was given; a whole number ≥ {low} is expected.")
        for name in ("width", "beta", "tol", "truncation", "lam"):
            value = getattr(self, name)
            right = isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < float("inf")
            if not right and not (name == "lam" and value is None):
                what = "a finite number > 0, or None to choose it," if name == "lam" else "a finite number > 0"
                raise ValueError(f"{name}={value!r} was given; {what} is expected.")
