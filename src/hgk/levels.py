"""Labels of few values: a column for each of them.

Where y takes few values v_1 < … < v_m (classes as numbers, grades, counts),

    E(y | x) = Σ_k v_k P(y = v_k | x),

and least squares on columns of ±1 labels, one per value, gives f_k with (1 + f_k) / 2 ≈ P(y = v_k | x). Predicted is

    t(x) = Σ_k v_k p_k(x),      p_k = q_k^s / Σ_l q_l^s,      q_k = (1 + f_k) / 2, clipped to [0, 1].

Least squares is linear in the labels: Σ_k v_k (1 + f_k) / 2 is nearly the machine of y itself. What is gained is in the
power. Between a "3" and an "8" least squares on y says 5.5, which is neither; with s > 1 the likelier one prevails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

# Values at most, and rows per value at least, on average.
MOST, PER_VALUE = 40, 20
# Powers to choose from.
POWERS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)


@dataclass(frozen=True, eq=False)
class Levels:
    """The values, in increasing order and scaled as the labels, and the power s."""

    values: torch.Tensor
    power: float = 1.0

    @classmethod
    def of(cls, Y: torch.Tensor) -> Levels | None:
        """None where there are several outputs, many values, or two, of which a single column tells all.

        Labels lie in [-1, 1]; what differs by rounding is one value.
        """
        values = Y.round(decimals=9).unique() if Y.shape[1] == 1 else Y[:0, 0]
        return cls(values.cpu()) if 3 <= len(values) <= min(MOST, len(Y) // PER_VALUE) else None

    def columns(self, Y: torch.Tensor) -> torch.Tensor:
        """±1, a column per value; labels that are none of these belong to the nearest."""
        nearest = (Y - self.values.to(Y)).abs().argmin(1, keepdim=True)
        return torch.full((len(Y), len(self.values)), -1.0, dtype=Y.dtype, device=Y.device).scatter_(1, nearest, 1.0)

    def __call__(self, f: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """t, in place of the values of f along ``dim``."""
        q = ((1 + f) / 2).clamp(0, 1).movedim(dim, -1) ** self.power
        t = (q @ self.values.to(q)) / q.sum(-1).clamp_min(torch.finfo(q.dtype).tiny)
        return t.unsqueeze(-1).movedim(-1, dim)

    def fitted(self, f: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Levels:
        """With the power that has the smallest squared error at predictions of rows which no gradient has seen."""
        options = [replace(self, power=power) for power in POWERS]
        return min(options, key=lambda option: float(weight @ ((option(f) - y) ** 2)[:, 0]))
