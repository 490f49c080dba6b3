"""hgk: learning with hierarchical Gaussian kernels."""

from hgk.adapters import GaussianProcessKernel
from hgk.architectures import Architecture, compose, grouped, inhomogeneous, isotropic, two_layers, with_kinds
from hgk.estimators import (
    CompactModelError,
    HGKClassifier,
    HGKQuantileRegressor,
    HGKRegressor,
    StoppedEarlyWarning,
)
from hgk.files import ModelFileError, load, save
from hgk.kernels import HierarchicalKernel
from hgk.optimisers import Adam, Algorithm1

__version__ = "0.1.0"

__all__ = [
    "Adam",
    "Algorithm1",
    "Architecture",
    "CompactModelError",
    "GaussianProcessKernel",
    "HGKClassifier",
    "HGKQuantileRegressor",
    "HGKRegressor",
    "HierarchicalKernel",
    "ModelFileError",
    "StoppedEarlyWarning",
    "compose",
    "grouped",
    "inhomogeneous",
    "isotropic",
    "load",
    "save",
    "two_layers",
    "with_kinds",
]
