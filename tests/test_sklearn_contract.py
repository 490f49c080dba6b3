"""scikit-learn's own checks, without an exemption."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor


@parametrize_with_checks(
    [
        HGKRegressor(),
        HGKClassifier(),
        HGKClassifier("plain", loss="hinge"),
        HGKClassifier("plain", loss="logistic", multi_class="ava"),
        HGKQuantileRegressor("plain"),
    ]
)
def test_every_scikit_learn_check(estimator, check):
    check(estimator)
