"""
The learned kernel in scikit-learn models
=========================================

``kernel_`` is a function of two tables. It can be the kernel of a support vector machine and, wrapped, of a Gaussian
process, which also predicts a standard deviation.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.svm import SVC, SVR

from hgk import GaussianProcessKernel, HGKRegressor

X, y = make_friedman1(1200, n_features=8, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:200], y[:200], X[200:], y[200:]
kernel = HGKRegressor(random_state=0).fit(X_train, y_train).kernel_
print(kernel)

# %%
# Support vector machines, for regression and for classification (is y above its median?). C is tuned for neither
# kernel.

for name, given in {"learned": kernel, "rbf": "rbf"}.items():
    regression = SVR(kernel=given, C=30).fit(X_train, y_train)
    classes = SVC(kernel=given, C=30).fit(X_train, y_train > np.median(y_train))
    accuracy = classes.score(X_test, y_test > np.median(y_train))
    print(f"{name:8} SVR R² {regression.score(X_test, y_test):.3f}   SVC accuracy {accuracy:.3f}")

# %%
# A Gaussian process with the learned weights (``optimizer=None``) and a given noise level.

process = GaussianProcessRegressor(GaussianProcessKernel(kernel) + WhiteKernel(0.05), normalize_y=True, optimizer=None)
mean, deviation = process.fit(X_train, y_train).predict(X_test, return_std=True)
order = np.argsort(mean)[::10]
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
place = np.arange(len(order))
ax.fill_between(place, (mean - 2 * deviation)[order], (mean + 2 * deviation)[order], color="#2a6fb0", alpha=0.25)
ax.plot(place, mean[order], color="#2a6fb0", label="mean, ± 2 deviations")
ax.plot(place, y_test[order], ".", color="#555555", label="labels")
ax.set_xlabel("new rows, by prediction")
ax.legend(frameon=False)
plt.show()
