"""scikit-learn's own checks, without an exemption."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor


# A fixed λ keeps the checks of other losses quick.
@parametrize_with_checks(
    [
        HGKRegressor(),
        HGKClassifier(),
        HGKClassifier("plain", loss="hinge", lam=1e-3),
        HGKClassifier("plain", loss="logistic", multi_class="ava", lam=1e-3),
        HGKQuantileRegressor("plain", lam=1e-3),
    ]
)
def test_every_scikit_learn_check(estimator, check):
    check(estimator)
