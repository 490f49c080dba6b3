"""
The learned tree
================

A kernel is a tree: the columns are on the left, then the nodes that compare two rows on some of the columns, and the
kernel is on the right. The wider a line, the larger the learned weight. The default learner tries several kinds of
trees and may average some of them. This example shows the first of them, the importance of the columns over all of
them, and how they were learned. The data are Friedman's first problem, in which two of the seven columns do not matter.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import make_friedman1

from hgk import HGKRegressor
from hgk.events import Chosen, of_kind
from hgk.report.displays import EffectDisplay, KernelTreeDisplay, LearningDisplay, RelevanceDisplay

# y = 10 sin(π a b) + 20 (c - 1/2)² + 10 d + 5 e + noise; f and g do not matter
X, y = make_friedman1(300, n_features=7, noise=1.0, random_state=0)
X = pd.DataFrame(X, columns=list("abcdefg"))
model = HGKRegressor(random_state=0).fit(X, y)
print([event.candidates for event in of_kind(model.history_, Chosen)])

# %%
# The first kernel's tree. Smooth nodes are Gaussian; rough nodes use \|x - x'\| and can follow thresholds.

KernelTreeDisplay.from_estimator(model)
plt.show()

# %%
# The importance of each column: its share of the kernels' exponents. The ticks are the individual kernels.

RelevanceDisplay.from_estimator(model)
plt.show()

# %%
# Left, the criterion during learning. Right, for each kind of tree: the criterion that the gradients minimised (hollow)
# and the error on validation rows, which no gradient has seen (filled). The difference is the criterion's optimism.

LearningDisplay.from_estimator(model)
plt.show()

# %%
# How the prediction changes with single columns (partial dependence).

EffectDisplay.from_estimator(model, X[:100], ["a", "c", "d"])
plt.show()
