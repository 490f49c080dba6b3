"""What a machine asks of its kernel: one hierarchical kernel, or the mean of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hgk.arrays import tensor

if TYPE_CHECKING:
    from hgk.kernels.hierarchical import HierarchicalKernel


class Kernel(ABC):
    """k(x, x') between 0 and 1, with k(x, x) = 1.

    Called with rows it returns the kernel matrix; numpy arrays give numpy arrays, tensors give tensors of their own
    dtype and device. With ``inputs``, anything but a tensor is first turned into features by it.
    """

    @property
    @abstractmethod
    def d(self) -> int:
        """Number of columns of the rows."""

    @property
    @abstractmethod
    def gamma(self) -> float:
        """The width γ."""

    @property
    @abstractmethod
    def inputs(self) -> Any:
        """Callable that turns a table into features, or None."""

    @property
    @abstractmethod
    def terms(self) -> list[tuple[float, HierarchicalKernel]]:
        """(p_m, k_m) such that k = Σ_m p_m k_m."""

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Whether this is the plain Gaussian kernel.

        Then columns differ only by how they were encoded, and the kernel's shares tell nothing about them.
        """

    @property
    @abstractmethod
    def largest_exponent(self) -> float:
        """What -log k cannot exceed; 0 for trees of one layer, which have no such bound."""

    @abstractmethod
    def with_gamma(self, gamma: float) -> Kernel:
        """The same kernel with another width."""

    @abstractmethod
    def with_inputs(self, inputs: Any, columns: tuple[str, ...] = ()) -> Kernel:
        """The same kernel on tables that ``inputs`` turns into features of these names."""

    @abstractmethod
    def matrix(self, X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
        """K(X, Z); ``Z=None`` means Z = X and costs half."""

    @abstractmethod
    def exponents(self, X: torch.Tensor) -> list[tuple[float, torch.Tensor]]:
        """(p_m, S_m) over all pairs of rows, such that ``with_gamma(γ)`` has the matrix Σ_m p_m exp(-γ⁻² S_m)."""

    @abstractmethod
    def multiply(self, X: torch.Tensor, Z: torch.Tensor, alpha: torch.Tensor, often: bool = False) -> torch.Tensor:
        """K(X, Z) alpha, without ever holding more than one tile of K.

        ``often`` says that many such products follow, so that loading compiled code pays even if each is small.
        """

    @abstractmethod
    def shares(self, X: torch.Tensor) -> np.ndarray:
        """Which part of the exponent each first-layer node and column carries on pairs of rows; sums to 1."""

    def relevance(self, X: torch.Tensor) -> np.ndarray:
        """The share of each column, summed over nodes."""
        return self.shares(X).sum(0)

    def __call__(self, X, Z=None):
        as_tensors = isinstance(X, torch.Tensor)
        if self.inputs is not None and not as_tensors:
            X, Z = self.inputs(X), None if Z is None or Z is X else self.inputs(Z)
        rows = tensor(X)
        others = None if Z is None or Z is X else tensor(Z, rows.dtype)
        self._check(rows)
        if others is not None:
            self._check(others)
        K = self.matrix(rows, others)
        return K if as_tensors else K.cpu().numpy()

    def _check(self, rows: torch.Tensor) -> None:
        if rows.ndim != 2 or rows.shape[1] != self.d:
            raise ValueError(
                f"An array of shape {tuple(rows.shape)} was given; this kernel expects rows with {self.d} columns, so "
                "give these."
            )
        if not bool(rows.isfinite().all()):
            raise ValueError(
                "The rows given to a kernel contain NaN or infinity; fill these cells, or use a kernel that an "
                "estimator has learned, which knows what to do with missing ones."
            )
        # the fourth root leaves room for squares of rows times weights, and their sum over columns
        most = torch.finfo(rows.dtype).max ** 0.25
        if bool((rows.abs() > most).any()):
            raise ValueError(
                f"The rows given to a kernel hold {float(rows.abs().max()):g}; numbers up to {most:.0e} are "
                "expected, so divide the columns, for instance by their standard deviations."
            )
