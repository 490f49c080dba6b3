"""Rough nodes: S_i = Σ_j v_ij² |x_j - x'_j|^q, 0 < q < 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hgk.kernels.nodes.base import Twin
from hgk.kernels.nodes.columns import ColumnKind
from hgk.storable import storable


@storable
@dataclass(frozen=True)
class Rough(ColumnKind):
    """S_i = Σ_j v_ij² |x_j - x'_j|^q; q = 1 bends like a tree's thresholds.

    Parameters
    ----------
    q : float, default=1.0
        Between 0 and 2, both excluded.

    Examples
    --------
    >>> from hgk.kernels import Rough
    >>> print(Rough(q=0.5))
    rough, q = 0.5
    """

    q: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.q < 2:
            raise ValueError(f"q={self.q} was given; a rough node has 0 < q < 2, so leave the node smooth for q = 2.")

    @property
    def twin(self) -> Twin:
        return Twin(self.q)

    def __str__(self) -> str:
        return f"{self.name}, q = {self.q:g}"

    def delta(self, D: torch.Tensor) -> torch.Tensor:
        return D.abs_() if self.q == 1 else D.abs_().pow_(self.q)

    def largest(self, reach: torch.Tensor) -> torch.Tensor:
        return reach**self.q

    def typical(self, spread: np.ndarray) -> np.ndarray:
        return spread ** (self.q / 2)
