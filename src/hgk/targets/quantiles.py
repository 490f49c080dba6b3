"""Quantiles of a number, at several levels: a column of the same label for each.

Machines have no offset; every level gets one, the τ-quantile of the residuals of rows that its machine has not seen, so
that as many of these lie below as should (where at least five rows lie beyond the level, else none). Where the
functions of two levels cross, their values are put in order, which brings them nearer to the true quantiles
(Chernozhukov, Fernández-Val and Galichon, 2010).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hgk.machines.rows import Rows
from hgk.storable import expect, storable, vector
from hgk.targets.base import Target
from hgk.targets.scaling import Scaling

# Rows beyond a level that its offset needs.
BEYOND = 5


@storable
@dataclass(frozen=True, eq=False)
class Quantiles(Target):
    """The levels τ and their offsets, scaled as the labels."""

    scaling: Scaling
    levels: np.ndarray
    offsets: np.ndarray

    expands = True

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        levels, offsets = parts["levels"], parts["offsets"]
        expect(
            vector(levels) and vector(offsets) and len(levels) == len(offsets) > 0, "the offsets do not fit the levels"
        )
        expect(bool(((levels > 0) & (levels < 1)).all()), "a level does not lie between 0 and 1")

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> Quantiles:
        return cls(Scaling.of(y[weight > 0, None].astype(float)), levels, np.zeros(len(levels)))

    @property
    def single(self) -> bool:
        return len(self.levels) == 1

    @property
    def columns(self):
        return [f"quantile {level:g}" for level in self.levels]

    def encode(self, y):
        return self.scaling(y[:, None].astype(float))

    def expand(self, Y):
        return Y.expand(-1, len(self.levels)) if len(self.levels) > 1 else Y

    def decode(self, t: torch.Tensor, axis: int = -1) -> torch.Tensor:
        shifted = t.movedim(axis, -1) + torch.from_numpy(self.offsets)
        return shifted.clamp(-1, 1).sort(-1).values.movedim(-1, axis)

    def in_unit(self, t):
        return self.scaling.inverse(t)

    def labels(self, Y):
        return self.in_unit(Y)[:, 0]

    def fitted(self, t: torch.Tensor, rows: Rows) -> Quantiles:
        offsets = np.zeros(len(self.levels))
        for j, level in enumerate(self.levels):
            if rows.size * min(level, 1 - level) >= BEYOND:
                offsets[j] = quantile((rows.Y[:, 0] - t[:, j]).numpy(), rows.weight.numpy(), level)
        return replace(self, offsets=offsets)

    def unit(self):
        middle, half = (np.resize(part, len(self.levels)) for part in (self.scaling.middle, self.scaling.half))
        return middle + half * self.offsets, half

    def measures(self, t, rows):
        """The mean pinball loss, and how many labels lie between the outer levels."""
        share = (rows.weight / rows.weight.sum()).numpy()
        y, said = self.scaling.inverse(rows.Y.numpy()), self.scaling.inverse(t.numpy())
        r = y - said
        measured = {"pinball": float(share @ np.maximum(self.levels * r, (self.levels - 1) * r).mean(1))}
        if not self.single:
            measured["inside"] = float(share @ ((said[:, :1] <= y) & (y <= said[:, -1:]))[:, 0])
        return measured

    def check(self, outputs, labels):
        expect(len(self.levels) == outputs and labels in (None, 1), "the levels do not fit the outputs")
        expect(len(self.scaling.half) == 1, "the scaling of the labels does not fit")


def quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    """The smallest v with weight(values <= v) >= level · Σ weight, a minimiser of the pinball loss."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) >= level * weight.sum() * (1 - 1e-12)
    return float(values[order][np.argmax(reached)])
