"""How much each column matters to the kernels.

With s_ij the part of kernel m's exponent that first-layer node i and column j carry (``node_importances_``, divided by
the kernel's share in the average):

    relevance   r_mj = Σ_i s_ij,  and feature_importances_ = Σ_m p_m r_m
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hgk.insight.fitted import Estimator, kernels, require_model


@dataclass(frozen=True)
class Relevance:
    """Per column: the mean over kernels (``feature_importances_``), the standard deviation, each kernel's own."""

    mean: np.ndarray
    deviation: np.ndarray
    kernels: np.ndarray
    shares: np.ndarray


def relevance(model: Estimator) -> Relevance:
    """The importance of columns, and how far the averaged kernels agree on it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import relevance
    >>> model = HGKRegressor("plain").fit(*make_friedman1(30, random_state=0))
    >>> bool(np.allclose(relevance(model).mean, model.feature_importances_))
    True
    """
    require_model(model)
    shares = np.array([share for share, _, _ in kernels(model)])
    of_kernels = np.array([part.sum(0) for part in node_shares(model)])
    mean = model.feature_importances_
    return Relevance(mean, np.sqrt(shares @ (of_kernels - mean) ** 2), of_kernels, shares)


def node_shares(model: Estimator) -> list[np.ndarray]:
    """s_ij of every kernel, nodes x columns."""
    averaged = kernels(model)
    ends = np.cumsum([len(kernel.architecture.coordinates) for _, kernel, _ in averaged])
    parts = np.split(model.node_importances_, ends[:-1])
    return [part / share for part, (share, _, _) in zip(parts, averaged, strict=True)]
