"""Labels scaled to [-1, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hgk.storable import expect, storable, vector


@storable
@dataclass(frozen=True)
class Scaling:
    """u = (x - middle) / half, column by column; a constant column becomes 0."""

    middle: np.ndarray
    half: np.ndarray

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        fits = vector(parts["middle"]) and vector(parts["half"]) and len(parts["middle"]) == len(parts["half"])
        expect(fits, "the scaling of the labels does not fit")

    @classmethod
    def of(cls, x: np.ndarray) -> Scaling:
        low, high = x.min(0), x.max(0)
        # halved before they are added: the range of float64 columns may exceed the largest float64
        return cls(low / 2 + high / 2, high / 2 - low / 2)

    @property
    def factor(self) -> np.ndarray:
        """du/dx; 0 for constant columns, and for those whose range has no reciprocal."""
        return np.divide(1.0, self.half, out=np.zeros_like(self.half), where=self.half > 1e-300)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        # so far outside the range a kernel is 0; without the bound its square would overflow
        with np.errstate(over="ignore"):
            return np.clip((x - self.middle) * self.factor, -1e9, 1e9)

    def inverse(self, u: np.ndarray) -> np.ndarray:
        """Finite u become finite x, infinite ones stay so, also where the column was constant."""
        most = np.finfo(float).max
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isinf(u), u, np.clip(u * self.half + self.middle, -most, most))
