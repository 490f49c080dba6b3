"""hgk: learning with hierarchical Gaussian kernels."""

from hgk.adapters import GaussianProcessKernel
from hgk.architectures import Architecture, compose, grouped, inhomogeneous, isotropic, two_layers, with_kinds
from hgk.estimators import HGKClassifier, HGKRegressor, StoppedEarlyWarning
from hgk.kernels import HierarchicalKernel
from hgk.optimisers import Adam, Algorithm1

__version__ = "0.1.0"

__all__ = [
    "Adam",
    "Algorithm1",
    "Architecture",
    "GaussianProcessKernel",
    "HGKClassifier",
    "HGKRegressor",
    "HierarchicalKernel",
    "StoppedEarlyWarning",
    "compose",
    "grouped",
    "inhomogeneous",
    "isotropic",
    "two_layers",
    "with_kinds",
]
