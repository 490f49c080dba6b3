"""
Prediction intervals
====================

``predict_interval`` gives jackknife+ intervals: every training row is left out once, exactly and without training
again, and its error there says how far off a prediction can be.
"""

import matplotlib.pyplot as plt
import numpy as np

from hgk import HGKRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, 2200)
y = np.sin(2 * x) + 0.3 * x + 0.25 * rng.standard_normal(len(x))
X = x[:, None]
model = HGKRegressor(random_state=0).fit(X[:200], y[:200])

# %%
# The intervals at 90 %, on a grid.

grid = np.linspace(-3, 3, 300)
low, high = model.predict_interval(grid[:, None], coverage=0.9).T
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.fill_between(grid, low, high, color="#2a6fb0", alpha=0.25, label="90 % interval")
ax.plot(grid, model.predict(grid[:, None]), color="#2a6fb0", label="prediction")
ax.plot(x[:200], y[:200], ".", color="#555555", markersize=4, label="training rows")
ax.legend(frameon=False)
plt.show()

# %%
# How many of 2000 new rows the intervals cover, at several levels.

levels = [0.5, 0.7, 0.8, 0.9, 0.95]
for level in levels:
    low, high = model.predict_interval(X[200:], level).T
    print(f"asked for {level:.2f}, covered {np.mean((low <= y[200:]) & (y[200:] <= high)):.3f}")
