"""
Prediction intervals
====================

``predict_interval`` leaves every training row out once, exactly and without refitting. The errors on the rows left out
determine the width: a second machine learns how large they are where.
"""

import matplotlib.pyplot as plt
import numpy as np

from hgk import HGKRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, 2200)
y = np.sin(2 * x) + 0.3 * x + 0.05 * np.exp(0.6 * (x + 3)) * rng.standard_normal(len(x))
X = x[:, None]
model = HGKRegressor(random_state=0).fit(X[:200], y[:200])

# %%
# Intervals with 90 % coverage, on a grid; dashed, jackknife+ intervals, which have one width.

grid = np.linspace(-3, 3, 300)
low, high = model.predict_interval(grid[:, None], coverage=0.9).T
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.fill_between(grid, low, high, color="#2a6fb0", alpha=0.25, label="90 % interval")
ax.plot(grid, model.predict_interval(grid[:, None], method="jackknife+"), "--", color="#888888", linewidth=1)
ax.plot(grid, model.predict(grid[:, None]), color="#2a6fb0", label="prediction")
ax.plot(x[:200], y[:200], ".", color="#555555", markersize=4, label="training rows")
ax.legend(frameon=False)
plt.show()

# %%
# The fraction of 2000 new rows that the intervals cover, at several levels.

levels = [0.5, 0.7, 0.8, 0.9, 0.95]
for level in levels:
    low, high = model.predict_interval(X[200:], level).T
    print(f"requested {level:.2f}, covered {np.mean((low <= y[200:]) & (y[200:] <= high)):.3f}")

# %%
# The same by thirds of x, at 0.9: one width covers too often where noise is small, and too rarely where it is large.

for method in ("adaptive", "jackknife+"):
    low, high = model.predict_interval(X[200:], method=method).T
    inside = (low <= y[200:]) & (y[200:] <= high)
    thirds = np.array_split(np.argsort(x[200:]), 3)
    print(f"{method:10}", " ".join(f"{inside[part].mean():.3f}" for part in thirds))
