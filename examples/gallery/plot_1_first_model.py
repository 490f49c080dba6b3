"""
A first model, compared with gradient boosting
==============================================

Friedman's first problem: five columns matter, two of them only in combination, and five are noise. There are 200
training rows and 2000 test rows. One synthetic problem shows how to call the library, not which method is better; for
that see :doc:`the recorded experiments </experiments/default>`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from hgk import HGKRegressor

X, y = make_friedman1(2200, n_features=10, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:200], y[:200], X[200:], y[200:]

# %%
# All models have scikit-learn's interface. hgk scales the columns, learns the kernel's weights and chooses the
# regularisation λ automatically.

models = {
    "hgk": HGKRegressor(random_state=0),
    "hgk, plain Gaussian": HGKRegressor("plain", random_state=0),
    "gradient boosting": HistGradientBoostingRegressor(random_state=0),
    "random forest": RandomForestRegressor(100, min_samples_leaf=3, random_state=0),
}
errors = {name: np.mean((m.fit(X_train, y_train).predict(X_test) - y_test) ** 2) for name, m in models.items()}

# %%
# No method can have a smaller error than the variance of the noise, which is 1.

fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color=["#2a6fb0", "#9db4c8", "#c9a66b", "#c9a66b"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.axvline(1.0, color="#555555", linestyle="--")
ax.text(1.05, 3.5, "noise", color="#555555", va="bottom")
ax.margins(x=0.12)
ax.invert_yaxis()
ax.set_xlabel("mean squared error on new rows")
plt.show()

# %%
# The importance of a column is how much worse predictions of unseen rows become without it. Columns 5 to 9 are the
# noise: they get exactly 0.

print(models["hgk"].feature_importances_.round(3))
