"""Numbers, one or several for each row: scaled to [-1, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hgk.storable import expect, storable
from hgk.targets.base import Refinement, Target, squared_error
from hgk.targets.few_values import FewValues
from hgk.targets.scaling import Scaling


@storable
@dataclass(frozen=True, eq=False)
class Numbers(Target):
    """Y = (y - middle) / half."""

    scaling: Scaling
    single: bool = True

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray) -> Numbers:
        """Of the rows of positive weight."""
        return cls(Scaling.of(y.reshape(len(y), -1)[weight > 0].astype(float)), y.ndim == 1)

    @property
    def columns(self):
        return ["prediction"] if self.single else [f"prediction {k}" for k in range(len(self.scaling.half))]

    def encode(self, y):
        return self.scaling(y.reshape(len(y), -1).astype(float))

    def in_unit(self, t):
        return self.scaling.inverse(t)

    def refinements(self, Y: torch.Tensor, given: float) -> list[Refinement]:
        return FewValues.options(self, Y, given)

    def unit(self):
        return self.scaling.middle, self.scaling.half

    def measures(self, t, rows):
        return {"risk": squared_error(t, rows)}

    def explained(self, risk, rows):
        """And in the unit of a single label the root of the mean squared error."""
        rmse = float(self.scaling.half[0]) * math.sqrt(max(risk, 0.0)) if self.single else math.inf
        return super().explained(risk, rows) | ({"rmse": rmse} if math.isfinite(rmse) else {})

    def check(self, outputs, labels):
        super().check(outputs, labels)
        expect(not self.single or outputs == 1, "the outputs differ in number")
