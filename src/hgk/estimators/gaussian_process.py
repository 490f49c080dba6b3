"""The kernel as scikit-learn's Gaussian processes want it: value and gradient in log-weights."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from hgk.arrays import require_memory, tensor
from hgk.kernels import HierarchicalKernel


class GaussianProcessKernel(Kernel):
    """A :class:`HierarchicalKernel` for ``GaussianProcessRegressor``; it works as ``SVC(kernel=...)`` too.

    The hyper-parameters θ are the logarithms of the absolute weights, first layer first; ∂K/∂θ = w ∂K/∂w. γ
    is kept, since the top layer's weights can take its part, and so are further weights, such as oblique nodes' maps.

    Parameters
    ----------
    kernel : HierarchicalKernel
    weight_bounds : pair of floats or "fixed", default=(1e-5, 1e5)

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from hgk import GaussianProcessKernel, HierarchicalKernel, inhomogeneous
    >>> X, y = make_friedman1(60, n_features=5, random_state=0)
    >>> kernel = GaussianProcessKernel(HierarchicalKernel.of(inhomogeneous(5), [[1.0] * 5]))
    >>> process = GaussianProcessRegressor(kernel, alpha=1e-3, normalize_y=True).fit(X, y)
    >>> bool(process.log_marginal_likelihood_value_ > process.log_marginal_likelihood(kernel.theta))
    True
    """

    def __init__(self, kernel: HierarchicalKernel, weight_bounds=(1e-5, 1e5)):
        self.kernel = kernel
        self.weight_bounds = weight_bounds

    def _places(self) -> list[tuple[int, tuple[int, ...]]]:
        """(layer, index) of every weight, in the order of θ."""
        free = self.kernel.architecture.free()[: self.kernel.architecture.depth]
        return [(layer, tuple(index)) for layer, mask in enumerate(free) for index in mask.nonzero().tolist()]

    @property
    def hyperparameter_weights(self) -> Hyperparameter:
        return Hyperparameter("weights", "numeric", self.weight_bounds, len(self._places()))

    @property
    def theta(self) -> np.ndarray:
        if self.hyperparameter_weights.fixed:
            return np.empty(0)
        values = [abs(float(self.kernel.W[layer][index])) for layer, index in self._places()]
        return np.log(np.maximum(values, np.finfo(float).tiny))

    @theta.setter
    def theta(self, theta) -> None:
        W = [w.clone() for w in self.kernel.W]
        for (layer, index), value in zip(self._places(), np.exp(theta), strict=False):
            W[layer][index] = float(value) if W[layer][index] >= 0 else -float(value)
        self.kernel = self.kernel.with_weights(tuple(W))

    @property
    def bounds(self) -> np.ndarray:
        return np.log(self.hyperparameter_weights.bounds) if len(self.theta) else np.empty((0, 2))

    def __call__(self, X, Y=None, eval_gradient=False):
        if Y is not None and eval_gradient:
            raise ValueError("The gradient was asked for between two sets of rows; it exists for Y=None only.")
        # double precision, whatever X is: Gaussian processes add as little as 1e-10 to the diagonal
        K = self.kernel(np.asarray(X, dtype=float), None if Y is None else np.asarray(Y, dtype=float))
        return (K, self._gradient(X)) if eval_gradient else K

    def _gradient(self, X) -> np.ndarray:
        """∂K/∂θ, (n, n, weights): the array that scikit-learn's Gaussian process asks for."""
        features = X if self.kernel.inputs is None else self.kernel.inputs(X)
        rows = tensor(features, torch.float64)
        places = {place: i for i, place in enumerate(self._places())} if len(self.theta) else {}
        require_memory(len(rows), len(rows), max(1, len(places)), torch.float64, "The kernel's gradient")
        gradient = np.empty((len(rows), len(rows), len(places)))
        if places:
            for layer, index, dK in self.kernel.derivatives(rows):
                if (layer, index) in places:
                    gradient[:, :, places[layer, index]] = float(self.kernel.W[layer][index]) * dK.numpy()
        return gradient

    def diag(self, X) -> np.ndarray:
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        return True

    def __eq__(self, other) -> bool:
        return (
            type(self) is type(other)
            and self.kernel.architecture == other.kernel.architecture
            and self.kernel.gamma == other.kernel.gamma
            and self.weight_bounds == other.weight_bounds
            and all(torch.equal(a, b) for a, b in zip(self.kernel.W, other.kernel.W, strict=True))
        )

    def __repr__(self) -> str:
        return f"GaussianProcessKernel({self.kernel!r})"
