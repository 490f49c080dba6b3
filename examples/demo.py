"""make demo: the default model compared with a plain Gaussian SVM and a random forest, on built-in data."""

import time

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from hgk import HGKRegressor


def friedman():
    X, y = make_friedman1(1500, n_features=15, noise=1.0, random_state=0)
    return X, y, [f"x{j}" for j in range(5)] + [f"noise{j}" for j in range(10)], 500


def diabetes():
    data = load_diabetes()
    return data.data, data.target, data.feature_names, 300


METHODS = {
    "hgk, default": lambda: HGKRegressor(random_state=0),
    "plain Gaussian SVM": lambda: HGKRegressor("plain", random_state=0),
    "random forest": lambda: RandomForestRegressor(
        500, max_features=1 / 3, min_samples_leaf=5, random_state=0, n_jobs=-1
    ),
}


def main():
    sets = {"Friedman #1, 5 informative columns and 10 of noise": friedman, "diabetes (scikit-learn)": diabetes}
    kernels = []
    for name, load in sets.items():
        X, y, columns, n = load()
        X, X_test, y, y_test = train_test_split(X, y, train_size=n, random_state=0)
        print(f"\n{name}: {n} training rows, {len(X_test)} test rows, one split")
        print(f"  {'':22} test error / variance   seconds")
        for method, build in METHODS.items():
            start = time.perf_counter()
            model = build().fit(X, y)
            seconds = time.perf_counter() - start
            error = np.mean((model.predict(X_test) - y_test) ** 2) / np.var(y_test)
            print(f"  {method:22} {error:21.3f} {seconds:9.2f}")
            if method == "hgk, default":
                learned = model
        order = np.argsort(-learned.feature_importances_)[:6]
        shares = ", ".join(f"{columns[j]} {learned.feature_importances_[j]:.2f}" for j in order)
        print(f"  most important columns: {shares}")
        kernels.append(learned.kernel_)
    print(f"\nThe first kernel learned on the first data set (columns and their ranks, x0 to x14):\n{kernels[0]}")


if __name__ == "__main__":
    main()
