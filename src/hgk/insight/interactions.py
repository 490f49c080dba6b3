"""Which columns stand together in the nodes of the kernels.

With s_ij the part of kernel m's exponent that first-layer node i and column j carry, and s_i = Σ_j s_ij,

    p_ab = Σ_m p_m Σ_i s_ia s_ib / s_i

is the chance to meet column a and then column b when a node is drawn by its share and two of its columns by theirs.
Σ_b p_ab is the importance r_a, and p_ab > r_a r_b says that a and b stand together more often than by chance.
"""

from __future__ import annotations

import numpy as np

from hgk.insight.fitted import Estimator, kernels, require_model
from hgk.insight.importance import node_shares


def pairs(model: Estimator) -> np.ndarray:
    """p_ab, columns x columns; sums to 1, and its row sums are ``feature_importances_``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import pairs
    >>> model = HGKRegressor("plain").fit(*make_friedman1(30, random_state=0))
    >>> bool(np.allclose(pairs(model).sum(1), model.feature_importances_))
    True
    """
    require_model(model)
    total = np.zeros((model.n_features_in_,) * 2)
    for (share, _, _), part in zip(kernels(model), node_shares(model), strict=True):
        nodes = part.sum(1, keepdims=True)
        within = np.divide(part, nodes, out=np.zeros_like(part), where=nodes > 0)
        total += share * part.T @ within
    return total
