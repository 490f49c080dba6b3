"""Labels of few values: a column for each of them, and a power.

Where y takes few values v_1 < … < v_m (classes as numbers, grades, counts),

    E(y | x) = Σ_k v_k P(y = v_k | x),

and least squares on columns of ±1 labels, one per value, gives f_k with (1 + f_k) / 2 ≈ P(y = v_k | x). Predicted is

    t(x) = Σ_k v_k p_k(x),      p_k = q_k^s / Σ_l q_l^s,      q_k = (1 + f_k) / 2, clipped to [0, 1].

Least squares is linear in the labels: Σ_k v_k (1 + f_k) / 2 is nearly the machine of y itself. What is gained is in the
power. Between a "3" and an "8" least squares on y says 5.5, which is neither; with s > 1 the likelier one prevails.

For two values a single column f tells all, since f_1 = -f and f_2 = f:

    t(x) = v_1 + (v_2 - v_1) q^s / (q^s + (1 - q)^s),      q = (1 + f) / 2, clipped to [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from hgk.storable import expect, real, storable
from hgk.targets.base import Refinement, Target

if TYPE_CHECKING:
    from hgk.targets.numbers import Numbers

# Values at most, and rows per value at least, on average.
MOST_VALUES, PER_VALUE = 40, 20
# Powers to choose from; and for two values, where least squares on y is nearly right already.
POWERS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
POWERS_FOR_TWO = (1.0, 1.1, 1.2, 1.3)


@storable
@dataclass(frozen=True, eq=False)
class FewValues(Refinement):
    """The values, in increasing order and scaled as the labels, and the power s; ``numbers`` scales the labels."""

    numbers: Target
    values: torch.Tensor
    power: float = 1.0

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        values = parts["values"]
        rising = values.ndim == 1 and len(values) > 1 and real(values) and bool((values.diff() > 0).all())
        expect(rising, "the values of the label do not increase")
        expect(0 < parts.get("power", 1.0) < 1e3, "the power of the labels is not a number > 0")

    @classmethod
    def options(cls, numbers: Numbers, Y: torch.Tensor, given: float) -> list[Refinement]:
        """None where there are several outputs, or many values for the number of rows ``given``, repeated ones too.

        Labels lie in [-1, 1]; what differs by rounding is one value.
        """
        values = Y.round(decimals=9).unique() if Y.shape[1] == 1 else Y[:0, 0]
        return [cls(numbers, values.cpu())] if 2 <= len(values) <= min(MOST_VALUES, given // PER_VALUE) else []

    @property
    def outputs(self) -> int:
        return 1 if len(self.values) == 2 else len(self.values)

    @property
    def columns(self):
        if self.outputs == 1:
            return ["prediction before its power"]
        return [f"{value:.12g}" for value in self.values_out]

    @property
    def values_out(self) -> list[float]:
        """In the unit of the labels."""
        return self.in_unit(self.values.numpy()[:, None])[:, 0].tolist()

    @property
    def powers(self) -> tuple[float, ...]:
        return POWERS_FOR_TWO if len(self.values) == 2 else POWERS

    def expand(self, Y: torch.Tensor) -> torch.Tensor:
        """±1, a column per output; labels that are none of the values belong to the nearest."""
        nearest = (Y - self.values.to(Y)).abs().argmin(1, keepdim=True)
        if self.outputs == 1:
            return 2.0 * nearest.to(Y) - 1
        return torch.full((len(Y), len(self.values)), -1.0, dtype=Y.dtype, device=Y.device).scatter_(1, nearest, 1.0)

    def contract(self, T: torch.Tensor) -> torch.Tensor:
        """The labels of which these are the columns."""
        place = (T > 0).long() if self.outputs == 1 else T.argmax(1, keepdim=True)
        return self.values.to(T)[place]

    def decode(self, t: torch.Tensor, axis: int = -1) -> torch.Tensor:
        if self.outputs == 1:
            low, high = self.values.tolist()
            q = ((1 + t) / 2).clamp(0, 1)
            p = q**self.power
            return low + (high - low) * p / (p + (1 - q) ** self.power)
        q = ((1 + t) / 2).clamp(0, 1).movedim(axis, -1) ** self.power
        label = (q @ self.values.to(q)) / q.sum(-1).clamp_min(torch.finfo(q.dtype).tiny)
        return label.unsqueeze(-1).movedim(-1, axis)

    @property
    def more_columns(self) -> bool:
        return self.outputs > 1

    def variants(self) -> list[Refinement]:
        return [replace(self, power=power) for power in self.powers]

    @property
    def told(self) -> dict[str, float]:
        return {"power": self.power}

    @property
    def decoding(self) -> dict[str, Any]:
        return {"power": self.power, "values": self.values_out}

    @property
    def decoding_words(self) -> str:
        if self.outputs > 1:
            return f"the mean of the values below, each in proportion to ((1 + f) / 2) to the power of {self.power:g}"
        low, high = (f"{value:.5g}" for value in self.values_out)
        return f"the prediction below, moved to the nearer of {low} and {high} by the power {self.power:g} of its odds"

    @property
    def simplest(self) -> Target:
        """Numbers as they are, where the power of two values turned out to be 1: then the machine is the same."""
        return self.numbers if self.outputs == 1 and self.power == 1 else self

    def unit(self):
        if self.outputs == 1:
            return self.numbers.unit()
        ones = torch.ones(self.outputs).double().numpy()
        return 0 * ones, ones

    def check(self, outputs, labels):
        self.numbers.check(1, labels)
        expect(self.outputs == outputs, "the values of the label do not fit the outputs")
