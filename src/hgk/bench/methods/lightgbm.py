"""LightGBM: the number of trees by early stopping on the last fifth of the training rows, then all rows."""

from hgk.bench.methods import Fitted, Method


class LightGBM(Method):
    name = "LightGBM"
    label = "gradient boosting, early stopping on a fifth, refitted"
    requires = ("lightgbm",)

    def fit(self, X, y, seed, effort):
        from lightgbm import LGBMRegressor, early_stopping

        fixed = {"learning_rate": 0.05, "n_jobs": effort.threads, "random_state": seed, "verbose": -1}
        n, most = 4 * len(y) // 5, 500 if effort.quick else 5000
        first = LGBMRegressor(n_estimators=most, **fixed)
        first.fit(X[:n], y[:n], eval_X=X[n:], eval_y=y[n:], callbacks=[early_stopping(50, verbose=False)])
        model = LGBMRegressor(n_estimators=first.best_iteration_, **fixed).fit(X, y)
        return Fitted(model.predict, {"trees": first.best_iteration_})
