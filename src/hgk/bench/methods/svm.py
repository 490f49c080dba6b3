"""The plain Gaussian least-squares machine: λ and γ from a 10 × 10 grid by 5 folds, the five functions averaged."""

from hgk import HGKRegressor
from hgk.bench.methods import Fitted, Method


class SVM(Method):
    name = "SVM"
    label = "Gaussian kernel, λ and γ from a 10 × 10 grid, 5 folds"
    accelerated = True

    def fit(self, X, y, seed, effort):
        model = HGKRegressor("plain", device=effort.device, random_state=seed).fit(X, y)
        return Fitted(model.predict, {"lam": model.lam_, "gamma": model.gamma_})
