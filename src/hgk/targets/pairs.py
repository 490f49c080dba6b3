"""Classes, all against all: one column per pair of classes a < b, 1 for a, -1 for b, and NaN for all others."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.machines.rows import Rows
from hgk.storable import expect, storable
from hgk.targets.calibration import Coupling, pairs_of
from hgk.targets.classes import Classes


@storable
@dataclass(frozen=True, eq=False)
class Pairs(Classes):
    """Three classes or more; decoded values are the logarithms of probabilities, made of all pairs."""

    expands = True

    @property
    def columns(self):
        return [f"{a} against {b}" for a, b in itertools.combinations(self.array, 2)]

    def expand(self, Y):
        number = Y.argmax(1)[:, None]
        first, second = pairs_of(Y.shape[1]).T
        T = torch.full((len(Y), len(first)), torch.nan, dtype=Y.dtype)
        return T.masked_fill(number == first, 1.0).masked_fill(number == second, -1.0)

    def decode(self, t: torch.Tensor, axis: int = -1) -> torch.Tensor:
        return self.calibration.log(t.movedim(axis, -1), len(self.values)).movedim(-1, axis)

    def probabilities(self, t: torch.Tensor) -> np.ndarray:
        return np.exp(self.decode(t).numpy())

    def fitted(self, t: torch.Tensor, rows: Rows) -> Pairs:
        return replace(self, calibration=Coupling.of(t.numpy(), rows.Y.numpy(), rows.weight.numpy(), rows.size))

    def check(self, outputs, labels):
        expect(len(self.columns) == outputs and len(self.values) > 2, "the classes do not fit the outputs")
        expect(labels in (None, len(self.values)), "the training rows do not fit the classes")
        expect(isinstance(self.calibration, Coupling | None), "the calibration does not fit the classes")
