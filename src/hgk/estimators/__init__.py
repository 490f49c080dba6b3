"""HGKRegressor, HGKQuantileRegressor and HGKClassifier: scikit-learn's contract around the model."""

from hgk.estimators.base import HGKEstimator, StoppedEarlyWarning
from hgk.estimators.classifier import HGKClassifier
from hgk.estimators.gaussian_process import GaussianProcessKernel
from hgk.estimators.quantiles import HGKQuantileRegressor
from hgk.estimators.regressor import HGKRegressor
from hgk.model import CompactModelError
