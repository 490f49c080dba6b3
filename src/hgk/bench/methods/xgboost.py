"""XGBoost: the number of trees by early stopping on the last fifth of the training rows, then all rows."""

from hgk.bench.methods import Fitted, Method


class XGBoost(Method):
    name = "XGBoost"
    label = "gradient boosting, early stopping on a fifth, refitted"
    requires = ("xgboost",)
    accelerated = True

    def fit(self, X, y, seed, effort):
        from xgboost import XGBRegressor

        fixed = {"learning_rate": 0.05, "n_jobs": effort.threads, "random_state": seed, "device": effort.device}
        n, most = 4 * len(y) // 5, 500 if effort.quick else 5000
        first = XGBRegressor(n_estimators=most, early_stopping_rounds=50, **fixed)
        first.fit(X[:n], y[:n], eval_set=[(X[n:], y[n:])], verbose=False)
        trees = first.best_iteration + 1
        model = XGBRegressor(n_estimators=trees, **fixed).fit(X, y)
        return Fitted(model.predict, {"trees": trees})
