"""LightGBM with a modest search over its parameters, for :mod:`large`.

    twelve draws, the first one LightGBM's defaults, each on at most 100,000 training rows, of which a fifth stops early
    the best draw again on all training rows, of which a fifth stops early, then refitted on all with as many trees

The seconds are those of the whole search.
"""

from __future__ import annotations

import numpy as np

from hgk.bench.methods import Fitted, Method

DRAWS, ROWS, MOST, PATIENCE = 12, 100_000, 5000, 50
OPTIONS: dict[str, list] = {
    "num_leaves": [31, 63, 127, 255, 511],
    "learning_rate": [0.03, 0.05, 0.1],
    "min_child_samples": [5, 10, 20, 50],
    "colsample_bytree": [0.5, 0.75, 1.0],
    "subsample": [0.7, 1.0],
    "reg_lambda": [0.0, 1.0, 10.0],
}


class TunedLightGBM(Method):
    name = "LightGBM, tuned"
    label = "gradient boosting, the best of twelve draws of its parameters"
    requires = ("lightgbm",)

    def fit(self, X, y, seed, effort):
        from lightgbm import LGBMRegressor, early_stopping

        rng = np.random.default_rng(seed)
        fixed = {"subsample_freq": 1, "n_jobs": effort.threads, "random_state": seed, "verbose": -1}

        def stopped(rows: np.ndarray, chosen: dict) -> LGBMRegressor:
            fit, out = rows[: 4 * len(rows) // 5], rows[4 * len(rows) // 5 :]
            model = LGBMRegressor(n_estimators=MOST, **fixed, **chosen)
            callbacks = [early_stopping(PATIENCE, verbose=False)]
            return model.fit(X[fit], y[fit], eval_X=X[out], eval_y=y[out], callbacks=callbacks)

        order = rng.permutation(len(y))
        draws = [{"learning_rate": 0.05}]
        draws += [{name: rng.choice(values).item() for name, values in OPTIONS.items()} for _ in range(DRAWS - 1)]
        scores = [stopped(order[:ROWS], chosen).best_score_["valid_0"]["l2"] for chosen in draws]
        best = draws[int(np.argmin(scores))]
        trees = stopped(order, best).best_iteration_
        model = LGBMRegressor(n_estimators=trees, **fixed, **best).fit(X, y)
        return Fitted(model.predict, {"trees": trees, **best})
