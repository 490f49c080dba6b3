"""
Named groups of columns
=======================

If you know which columns belong together, say so: each group becomes a first-layer node of the kernel's tree, and the
node's weight shows how much the group as a whole matters. A column may be in several groups.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from hgk import HGKRegressor
from hgk.report.displays import KernelTreeDisplay

rng = np.random.default_rng(0)
n = 1200
frame = pd.DataFrame(rng.uniform(-1, 1, (n, 6)), columns=["width", "height", "depth", "north", "east", "age"])
volume = frame["width"] * frame["height"] + frame["depth"]
place = np.sin(3 * frame["north"]) * frame["east"]
y = volume + place + 0.1 * rng.standard_normal(n)

# %%
# "age" is in no group; such columns share a node called "rest".

groups = {"size": ["width", "height", "depth"], "place": ["north", "east"]}
model = HGKRegressor(groups=groups, random_state=0).fit(frame[:200], y[:200])
free = HGKRegressor(random_state=0).fit(frame[:200], y[:200])
for name, m in {"with groups": model, "without": free}.items():
    print(f"{name:12} R² on 1000 new rows: {m.score(frame[200:], y[200:]):.3f}")

# %%
# The nodes are named after the groups. The target does not depend on "age", so its line is thin.

KernelTreeDisplay.from_estimator(model)
plt.show()
