"""
The learned tree
================

A kernel is a tree: columns on the left, nodes that compare two rows on their columns, and the kernel on the right.
Lines are as wide as the learned weights. The default learner tries several kinds of trees and may average a few; here
are the first of them, the relevance of the columns over all of them, and how they were learned. The data are
Friedman's first problem, in which two of the seven columns do not matter.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import make_friedman1

from hgk import HGKRegressor
from hgk.report.displays import EffectDisplay, KernelTreeDisplay, LearningDisplay, RelevanceDisplay

# y = 10 sin(π a b) + 20 (c - 1/2)² + 10 d + 5 e + noise; f and g do not matter
X, y = make_friedman1(300, n_features=7, noise=1.0, random_state=0)
X = pd.DataFrame(X, columns=list("abcdefg"))
model = HGKRegressor(random_state=0).fit(X, y)
print([event["candidates"] for event in model.history_ if event["stage"] == "chosen"])

# %%
# The tree of the first machine. Smooth nodes are Gaussian; rough ones use \|x - x'\| and bend at thresholds.

KernelTreeDisplay.from_estimator(model)
plt.show()

# %%
# The share of the kernels' exponents that each column carries; ticks are the single machines.

RelevanceDisplay.from_estimator(model)
plt.show()

# %%
# Left, the criterion along the steps. Right, for each kind that was tried: the criterion that the gradients minimised
# (hollow) and the error on rows that no gradient has seen (full). The distance is the optimism of the criterion.

LearningDisplay.from_estimator(model)
plt.show()

# %%
# What the model says as single columns move.

EffectDisplay.from_estimator(model, X[:100], ["a", "c", "d"])
plt.show()
