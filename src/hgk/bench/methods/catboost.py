"""CatBoost: the number of trees by early stopping on the last fifth of the training rows, then all rows."""

from hgk.bench.methods import Fitted, Method


class CatBoost(Method):
    name = "CatBoost"
    label = "gradient boosting, early stopping on a fifth, refitted"
    requires = ("catboost",)

    def fit(self, X, y, seed, effort):
        from catboost import CatBoostRegressor

        fixed = {"verbose": 0, "thread_count": effort.threads, "random_seed": seed, "allow_writing_files": False}
        n, most = 4 * len(y) // 5, 500 if effort.quick else 5000
        first = CatBoostRegressor(iterations=most, early_stopping_rounds=50, **fixed)
        first.fit(X[:n], y[:n], eval_set=(X[n:], y[n:]))
        trees = first.best_iteration_ + 1
        # CatBoost sets its rate by the number of trees it is given: the refit keeps the one that was stopped.
        model = CatBoostRegressor(iterations=trees, learning_rate=first.learning_rate_, **fixed).fit(X, y)
        return Fitted(model.predict, {"trees": trees, "rate": first.learning_rate_})
