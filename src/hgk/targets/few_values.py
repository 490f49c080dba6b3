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

from dataclasses import dataclass, replace

import torch

from hgk.storable import storable

# Values at most, and rows per value at least, on average.
MOST, PER_VALUE = 40, 20
# Powers to choose from; and for two values, where least squares on y is nearly right already. On parts of training rows
# (experiments/default/powers.jsonl: twelve splits of six sets) these changed the error by -2.4 to 0.3 %, -0.9 % in the
# mean; up to 2 instead of 1.3 it was -0.8 %.
POWERS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
POWERS_FOR_TWO = (1.0, 1.1, 1.2, 1.3)


@storable
@dataclass(frozen=True, eq=False)
class Levels:
    """The values, in increasing order and scaled as the labels, and the power s."""

    values: torch.Tensor
    power: float = 1.0

    @classmethod
    def of(cls, Y: torch.Tensor, given: float | None = None) -> Levels | None:
        """None where there are several outputs, or many values for the number of rows ``given``, repeated ones too.

        Labels lie in [-1, 1]; what differs by rounding is one value.
        """
        values = Y.round(decimals=9).unique() if Y.shape[1] == 1 else Y[:0, 0]
        return cls(values.cpu()) if 2 <= len(values) <= min(MOST, (given or len(Y)) // PER_VALUE) else None

    @property
    def outputs(self) -> int:
        return 1 if len(self.values) == 2 else len(self.values)

    @property
    def powers(self) -> tuple[float, ...]:
        return POWERS_FOR_TWO if len(self.values) == 2 else POWERS

    def columns(self, Y: torch.Tensor) -> torch.Tensor:
        """±1, a column per output; labels that are none of the values belong to the nearest."""
        nearest = (Y - self.values.to(Y)).abs().argmin(1, keepdim=True)
        if self.outputs == 1:
            return 2.0 * nearest.to(Y) - 1
        return torch.full((len(Y), len(self.values)), -1.0, dtype=Y.dtype, device=Y.device).scatter_(1, nearest, 1.0)

    def labels(self, Y: torch.Tensor) -> torch.Tensor:
        """Of which these are the columns."""
        place = (Y > 0).long() if self.outputs == 1 else Y.argmax(1, keepdim=True)
        return self.values.to(Y)[place]

    def __call__(self, f: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """t, in place of the values of f along ``dim``."""
        if self.outputs == 1:
            low, high = self.values.tolist()
            q = ((1 + f) / 2).clamp(0, 1)
            p = q**self.power
            return low + (high - low) * p / (p + (1 - q) ** self.power)
        q = ((1 + f) / 2).clamp(0, 1).movedim(dim, -1) ** self.power
        t = (q @ self.values.to(q)) / q.sum(-1).clamp_min(torch.finfo(q.dtype).tiny)
        return t.unsqueeze(-1).movedim(-1, dim)

    def fitted(self, f: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Levels:
        """With the power that has the smallest squared error at predictions of rows which no gradient has seen."""
        options = [replace(self, power=power) for power in self.powers]
        return min(options, key=lambda option: float(weight @ ((option(f) - y) ** 2)[:, 0]))
