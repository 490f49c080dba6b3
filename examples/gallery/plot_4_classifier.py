"""
A classifier and its class probabilities
========================================

Two overlapping moons. ``predict_proba`` maps the values of the decision function to probabilities. The map is fitted to
leave-one-out values, so no rows have to be held out for calibration.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from hgk import HGKClassifier

X, y = make_moons(2200, noise=0.35, random_state=0)
model = HGKClassifier(random_state=0).fit(X[:200], y[:200])
X_test, y_test = X[200:], y[200:]
print(f"accuracy {model.score(X_test, y_test):.3f}, log-loss {log_loss(y_test, model.predict_proba(X_test)):.3f}")

# %%
# Left, the predicted probability of the second moon. Right, observed frequencies on new rows against predicted
# probabilities.

fig, (ax, curve) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
u, v = np.meshgrid(np.linspace(-2, 3, 50), np.linspace(-1.5, 2, 50))
p = model.predict_proba(np.column_stack([u.ravel(), v.ravel()]))[:, 1].reshape(u.shape)
shown = ax.contourf(u, v, p, levels=np.linspace(0, 1, 11), cmap="RdBu_r")
ax.scatter(*X[:200].T, c=y[:200], cmap="RdBu_r", edgecolor="white", s=18)
fig.colorbar(shown, ax=ax, label="probability of class 1")
CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=10, strategy="quantile", ax=curve, name="hgk")
plt.show()
