"""
The learned tree
================

A kernel is a tree: columns on the left, nodes that compare two rows on their columns, and the kernel on the right.
Lines are as wide as the learned weights. The default learner tries several kinds of trees and may average a few; here
are the first of them, the relevance of the columns over all of them, and how they were learned.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes

from hgk import HGKRegressor
from hgk.displays import EffectDisplay, KernelTreeDisplay, LearningDisplay, RelevanceDisplay

data = load_diabetes()
X = pd.DataFrame(data.data, columns=data.feature_names)
model = HGKRegressor(random_state=0).fit(X[:200], data.target[:200])
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

EffectDisplay.from_estimator(model, X[:100], ["bmi", "s5", "bp"])
plt.show()
