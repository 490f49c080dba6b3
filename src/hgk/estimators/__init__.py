"""HGKRegressor, HGKQuantileRegressor and HGKClassifier: scikit-learn's contract around the model."""

from hgk.estimators.base import (
    CompactModelError,
    HGKClassifier,
    HGKQuantileRegressor,
    HGKRegressor,
    StoppedEarlyWarning,
)
from hgk.estimators.gaussian_process import GaussianProcessKernel

__all__ = [
    "CompactModelError",
    "GaussianProcessKernel",
    "HGKClassifier",
    "HGKQuantileRegressor",
    "HGKRegressor",
    "StoppedEarlyWarning",
]
