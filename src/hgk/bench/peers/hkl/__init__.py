"""Hierarchical kernel learning (Bach, 2008): sparse sums of products of one-dimensional kernels, over a directed grid.

bases        one-dimensional feature maps
grid         nodes, hulls, sources
reduced      the convex problem on given nodes
certificate  the bound on everything outside, by products
active       the hull that grows until the gap is small
estimator    HKLRegressor: λ by cross-validation, scikit-learn's contract
"""

from hgk.bench.peers.hkl.estimator import HKLRegressor

__all__ = ["HKLRegressor"]
