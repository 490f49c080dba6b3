"""How much columns matter: to predictions of unseen rows, and, as a diagnostic, to the kernels.

The importance of a column is what permuting it adds to the loss of unseen rows; :mod:`hgk.permutation` has the formula.

The share of the exponent is another thing. With s_ij the part of kernel m's exponent that first-layer node i and column
j carry over pairs of training rows (``node_shares_``, divided by the kernel's share p_m in the average),

    relevance   r_mj = Σ_i s_ij,  and exponent_shares_ = Σ_m p_m r_m

says on what the similarity of rows rests. A column may carry much of the exponent and change no prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hgk.estimators import HGKEstimator
from hgk.importance import Importance
from hgk.insight.fitted import Estimator, column_indices, kernels, require_model
from hgk.permutation import permutation_importance


def importance(
    model: HGKEstimator,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    *,
    repeats: int | None = None,
    rows: int | None = None,
    random_state: int = 0,
) -> Importance:
    """How much worse predictions of unseen rows become without the information of a column.

    Predictions are of training rows by functions that have not seen them, the column's cells being those of other rows.
    What that adds to the loss is divided by the loss of the best constant: for least squares it is how much of R² is
    lost. An increase within noise is shown as none: below 3.1 standard
    errors for a single column, 3.7 for ten, such that one of a thousand tables of noise shows anything.

    Parameters
    ----------
    model : HGKRegressor, HGKQuantileRegressor or HGKClassifier
        Fitted, and not compressed or from a compact file.
    groups : dict, optional
        Named groups of columns, by name or number, which are permuted together, such as columns that say much the same:
        each of these alone may matter little, because the others stand in for it. None takes every column by itself.
    repeats : int, optional
        Permutations; by default 3 to 10.
    rows : int, optional
        Training rows that are predicted, at most; by default so many that it takes seconds.
    random_state : int, default=0

    Returns
    -------
    Importance
        ``shown``, ``mean``, ``error`` and ``spread`` by column or group; with default arguments it is
        ``model.importance_``.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import importance
    >>> model = HGKRegressor("plain", random_state=0).fit(*make_friedman1(100, random_state=0))
    >>> found = importance(model)
    >>> found.names[found.order[0]], bool((found.shown[5:] == 0).all())
    ('x3', True)
    >>> importance(model, {"product": ["x0", "x1"], "noise": range(5, 10)}).carries.tolist()
    [True, False]
    """
    if groups is None and repeats is rows is None and random_state == 0:
        return model.importance_
    for name, value in (("repeats", repeats), ("rows", rows)):
        if not (value is None or (isinstance(value, int) and value >= 2)):
            raise ValueError(f"{name}={value!r} was given; a whole number >= 2 is expected, or None for the default.")
    names, columns = None, None
    if groups is not None:
        names, columns = list(groups), [column_indices(model, list(of_group)) for of_group in groups.values()]
        if not columns or not all(columns):
            raise ValueError(
                f"groups={dict(groups)!r} was given; at least one group is expected, each of at least one column."
            )
    return permutation_importance(model.model_, columns, names, repeats, rows, random_state)


@dataclass(frozen=True)
class Relevance:
    """Shares of the exponent per column: their mean over kernels (``exponent_shares_``), the standard deviation, each
    kernel's own.
    """

    mean: np.ndarray
    deviation: np.ndarray
    kernels: np.ndarray
    shares: np.ndarray


def relevance(model: Estimator) -> Relevance:
    """The share of the exponent by column, and how far the averaged kernels agree on it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import relevance
    >>> model = HGKRegressor("plain").fit(*make_friedman1(30, random_state=0))
    >>> bool(np.allclose(relevance(model).mean, model.exponent_shares_))
    True
    """
    require_model(model)
    shares = np.array([share for share, _, _ in kernels(model)])
    of_kernels = np.array([part.sum(0) for part in node_shares(model)])
    mean = model.exponent_shares_
    return Relevance(mean, np.sqrt(shares @ (of_kernels - mean) ** 2), of_kernels, shares)


def node_shares(model: Estimator) -> list[np.ndarray]:
    """s_ij of every kernel, nodes x columns."""
    averaged = kernels(model)
    ends = np.cumsum([len(kernel.architecture.coordinates) for _, kernel, _ in averaged])
    parts = np.split(model.node_shares_, ends[:-1])
    return [part / share for part, (share, _, _) in zip(parts, averaged, strict=True)]
