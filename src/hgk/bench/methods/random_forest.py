"""A random forest with the defaults that R's randomForest has for regression.

500 trees; a third of the columns tried at every split; a node of 5 rows or fewer is not split (a child may be
smaller, so that this is scikit-learn's ``min_samples_split``, not its ``min_samples_leaf``).
"""

from sklearn.ensemble import RandomForestRegressor

from hgk.bench.methods import Fitted, Method


class RandomForest(Method):
    name = "RF"
    label = "random forest, R's defaults"

    def fit(self, X, y, seed, effort):
        model = RandomForestRegressor(
            100 if effort.quick else 500,
            max_features=max(1, X.shape[1] // 3),
            min_samples_split=6,
            n_jobs=effort.threads,
            random_state=seed,
        ).fit(X, y)
        return Fitted(model.predict)
