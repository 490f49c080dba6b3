"""
Explaining a prediction by training rows
========================================

A kernel machine predicts by a sum over its training rows. ``hgk.insight`` computes the terms of this sum, and the
influence of every training row: the prediction minus the prediction without the row. Both are exact for the learned
kernel and λ; nothing is sampled, and no second model is fitted. The table is synthetic: rents by location and area,
with three expensive spots.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from hgk import HGKRegressor
from hgk.insight import contributions, given_rows, influence

rng = np.random.default_rng(0)
n = 250
flats = pd.DataFrame(
    {"east": rng.uniform(0, 10, n), "north": rng.uniform(0, 10, n), "area": rng.gamma(6, 12, n).round()}
)
spots = [(3, 7, 400, 3), (8, 2, 300, 2), (6, 8, 250, 1)]
rent = 8 * flats["area"] + 60 * rng.standard_normal(n)
for east, north, height, width in spots:
    rent += height * np.exp(-((flats["east"] - east) ** 2 + (flats["north"] - north) ** 2) / width)
model = HGKRegressor(random_state=0).fit(flats[:250], rent[:250])
new = pd.DataFrame({"east": [3.1], "north": [7.5], "area": [84.0]})
print(f"predicted rent: {model.predict(new)[0]:.0f}")

# %%
# The largest terms, and a check that all terms add up. With a wide kernel, as here, terms are large and cancel: the sum
# is right, but individual terms do not explain the prediction.

found = contributions(model, new, k=5)
rows = given_rows(model)[found.rows[0, 0]]
print(pd.DataFrame({"training row": rows, "adds": found.contribution[0, 0].round()}).to_string(index=False))
total = found.base[0] + found.contribution[0, 0].sum() + found.rest[0, 0]
print(f"middle of the labels + these five + the rest = {total:.0f}")

# %%
# The influence does explain it: the prediction depends most on the flats nearby, and among those on the similar ones.

of_rows = influence(model, new)[0]
most = np.argsort(-abs(of_rows))[:6]
print(flats.iloc[most].assign(rent=rent.iloc[most].round(), influence=of_rows[most].round(1)).to_string())

fig, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
bound = abs(of_rows).max()
shown = ax.scatter(
    flats["east"][:250],
    flats["north"][:250],
    c=of_rows,
    s=15 + 200 * abs(of_rows) / bound,
    cmap="RdBu_r",
    vmin=-bound,
    vmax=bound,
    edgecolor="#888888",
    linewidth=0.4,
)
ax.plot(*new[["east", "north"]].iloc[0], "x", color="black", markersize=10, markeredgewidth=2)
fig.colorbar(shown, label="influence on the rent predicted at ×")
ax.set_xlabel("east")
ax.set_ylabel("north")
plt.show()
