"""The mean of kernels, which is a kernel: k = Σ_m p_m k_m."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any

import numpy as np
import torch

from hgk.arrays import blocks, in_place
from hgk.kernels.base import Kernel
from hgk.kernels.hierarchical import HierarchicalKernel
from hgk.storable import expect, storable

# Rows of a large matrix that are computed at a time.
BLOCK = 2048


@storable
@dataclass(frozen=True, eq=False)
class MeanKernel(Kernel):
    """k = Σ_m p_m k_m, with p_m in proportion to ``proportions``.

    Parameters
    ----------
    kernels : tuple of HierarchicalKernel
        On the same columns.
    proportions : tuple of float
        At least 0; they need not sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk import HierarchicalKernel, inhomogeneous
    >>> from hgk.kernels import MeanKernel
    >>> wide, narrow = (HierarchicalKernel.of(inhomogeneous(1), [[1.0]], gamma=gamma) for gamma in (2.0, 0.5))
    >>> mean = MeanKernel.of([wide, narrow], [3.0, 1.0])
    >>> X = np.array([[0.0], [1.0]])
    >>> bool(np.allclose(mean(X), 0.75 * wide(X) + 0.25 * narrow(X))), mean.gamma
    (True, 1.0)
    """

    kernels: tuple[HierarchicalKernel, ...]
    proportions: tuple[float, ...]

    def __post_init__(self) -> None:
        sound = all(p >= 0 for p in self.proportions) and 0 < sum(self.proportions) < math.inf
        if len(self.kernels) != len(self.proportions) or not sound:
            raise ValueError(
                f"{len(self.kernels)} kernels with the proportions {self.proportions} were given; numbers >= 0 are "
                "expected, one for each kernel and not all 0."
            )
        if len({kernel.d for kernel in self.kernels}) > 1:
            raise ValueError(
                f"Kernels on {[kernel.d for kernel in self.kernels]} columns were given; a mean is of kernels on the "
                "same columns."
            )

    @classmethod
    def of(cls, kernels: Sequence[HierarchicalKernel], proportions: Sequence[float]) -> Kernel:
        """The mean; where there is one kernel, the kernel itself."""
        return kernels[0] if len(kernels) == 1 else cls(tuple(kernels), tuple(proportions))

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        """Quotients of the proportions must be numbers, too."""
        expect(1e-150 < sum(parts["proportions"]) < 1e150, "the proportions of a mean of kernels are no proportions")

    @property
    def terms(self) -> list[tuple[float, HierarchicalKernel]]:
        total = sum(self.proportions)
        return [(p / total, kernel) for p, kernel in zip(self.proportions, self.kernels, strict=True)]

    @property
    def d(self) -> int:
        return self.kernels[0].d

    @property
    def inputs(self) -> Any:
        return self.kernels[0].inputs

    @property
    def gamma(self) -> float:
        """The geometric mean of the widths."""
        return math.exp(sum(math.log(kernel.gamma) for kernel in self.kernels) / len(self.kernels))

    @property
    def is_plain(self) -> bool:
        return all(kernel.is_plain for kernel in self.kernels)

    @property
    def largest_exponent(self) -> float:
        return max(kernel.largest_exponent for kernel in self.kernels)

    def with_gamma(self, gamma: float) -> MeanKernel:
        """All widths times one factor, so that their geometric mean is γ."""
        factor = gamma / self.gamma
        return replace(self, kernels=tuple(kernel.with_gamma(kernel.gamma * factor) for kernel in self.kernels))

    def with_inputs(self, inputs: Any, columns: tuple[str, ...] = ()) -> MeanKernel:
        return replace(self, kernels=tuple(kernel.with_inputs(inputs, columns) for kernel in self.kernels))

    def exponents(self, X: torch.Tensor) -> list[tuple[float, torch.Tensor]]:
        """Each S_m in proportion to its own width: (γ / γ_m)² S_m."""
        return [(p, kernel.exponent(X).mul_((self.gamma / kernel.gamma) ** 2)) for p, kernel in self.terms]

    def matrix(self, X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
        """K(X, Z); where two matrices of all pairs would be too many, by blocks of rows."""
        if not in_place(len(X)):
            return self._sum(X, Z)
        K = X.new_empty(len(X), len(X if Z is None else Z))
        for block in blocks(len(X), BLOCK):
            if Z is None:  # symmetric: up to the diagonal
                K[block, : block.stop] = self._sum(X[block], X[: block.stop])
                K[: block.start, block] = K[block, : block.start].T
            else:
                K[block] = self._sum(X[block], Z)
        return K

    def _sum(self, X: torch.Tensor, Z: torch.Tensor | None) -> torch.Tensor:
        (first, kernel), *others = self.terms
        K = kernel.matrix(X, Z).mul_(first)
        for share, kernel in others:
            K.add_(kernel.matrix(X, Z), alpha=share)
        return K

    def multiply(self, X: torch.Tensor, Z: torch.Tensor, alpha: torch.Tensor, often: bool = False) -> torch.Tensor:
        return torch.stack([share * kernel.multiply(X, Z, alpha, often) for share, kernel in self.terms]).sum(0)

    def shares(self, X: torch.Tensor) -> np.ndarray:
        """Of the nodes of all kernels, one below the other, times p_m."""
        return np.vstack([share * kernel.shares(X) for share, kernel in self.terms])

    def __str__(self) -> str:
        parts = [f"{share:.3g} · {indent(str(kernel), '  ').lstrip()}" for share, kernel in self.terms]
        return "\n".join([f"mean of {len(self.kernels)} kernels: gamma {self.gamma:.4g}, {self.d} columns", *parts])

    def __repr__(self) -> str:
        return f"<MeanKernel kernels={len(self.kernels)} d={self.d} gamma={self.gamma:.4g}>"
