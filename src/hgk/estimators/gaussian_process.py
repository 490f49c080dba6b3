"""The kernel as scikit-learn's Gaussian processes want it: value and gradient in log-weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from hgk.arrays import require_memory, tensor
from hgk.kernels import HierarchicalKernel, MeanKernel
from hgk.kernels import Kernel as HGKKernel

# Which kernel of a mean, which array of its weights, and the place there.
Place = tuple[int, int, tuple[int, ...]]


class GaussianProcessKernel(Kernel):
    """A kernel, or a mean of several, for ``GaussianProcessRegressor``; it works as ``SVC(kernel=...)`` too.

    The hyper-parameters θ are the logarithms of the absolute weights, first layer first; ∂K/∂θ = w ∂K/∂w. γ
    is kept, since the top layer's weights can take its part, and so are further weights, such as oblique nodes' maps.

    Parameters
    ----------
    kernel : HierarchicalKernel or MeanKernel
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

    def __init__(self, kernel: HGKKernel, weight_bounds=(1e-5, 1e5)):
        self.kernel = kernel
        self.weight_bounds = weight_bounds

    def _places(self) -> list[Place]:
        """(kernel of the mean, layer, index) of every weight, in the order of θ."""
        trees = [kernel.architecture for _, kernel in self.kernel.terms]
        masks = [
            (m, layer, mask) for m, tree in enumerate(trees) for layer, mask in enumerate(tree.free()[: tree.depth])
        ]
        return [(m, layer, tuple(index)) for m, layer, mask in masks for index in mask.nonzero().tolist()]

    @property
    def hyperparameter_weights(self) -> Hyperparameter:
        return Hyperparameter("weights", "numeric", self.weight_bounds, len(self._places()))

    @property
    def theta(self) -> np.ndarray:
        if self.hyperparameter_weights.fixed:
            return np.empty(0)
        kernels = [kernel for _, kernel in self.kernel.terms]
        values = [abs(float(kernels[m].W[layer][index])) for m, layer, index in self._places()]
        return np.log(np.maximum(values, np.finfo(float).tiny))

    @theta.setter
    def theta(self, theta) -> None:
        kernels = [kernel for _, kernel in self.kernel.terms]
        weights = [[w.clone() for w in kernel.W] for kernel in kernels]
        for (m, layer, index), value in zip(self._places(), np.exp(theta), strict=False):
            W = weights[m]
            W[layer][index] = float(value) if W[layer][index] >= 0 else -float(value)
        moved = tuple(kernel.with_weights(tuple(W)) for kernel, W in zip(kernels, weights, strict=True))
        self.kernel = replace(self.kernel, kernels=moved) if isinstance(self.kernel, MeanKernel) else moved[0]

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
            for m, (share, kernel) in enumerate(self.kernel.terms):
                for layer, index, dK in kernel.derivatives(rows):
                    if (m, layer, index) in places:
                        w = share * float(kernel.W[layer][index])
                        gradient[:, :, places[m, layer, index]] = w * dK.numpy()
        return gradient

    def diag(self, X) -> np.ndarray:
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        return True

    def __eq__(self, other) -> bool:
        if type(self) is not type(other) or self.weight_bounds != other.weight_bounds:
            return False
        ours, theirs = self.kernel.terms, other.kernel.terms
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))

    def __repr__(self) -> str:
        return f"GaussianProcessKernel({self.kernel!r})"


def _same(one: tuple[float, HierarchicalKernel], other: tuple[float, HierarchicalKernel]) -> bool:
    (p, a), (q, b) = one, other
    alike = p == q and a.architecture == b.architecture and a.gamma == b.gamma
    return alike and all(torch.equal(v, w) for v, w in zip(a.W, b.W, strict=True))
