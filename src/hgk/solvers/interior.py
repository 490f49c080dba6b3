"""Interior points for a quadratic function on a box: few steps, whatever λ is.

    min_a  ½ aᵀKa - aᵀy + ε‖a‖₁,        l <= a <= h,

as min ½ aᵀKa - aᵀy + εᵀx over boxes for x without the kink: x = a if ε = 0; else a = p - q with p in [0, h] and q
in [0, -l]. With σ = (1) or (1, -1), a = Σ σx, the slope g = σ(Ka - y) + ε, the distances s = x - low, w = high - x
from the bounds and multipliers z, v of these, a minimum has

    g = z - v,        sz = wv = 0,        s, w, z, v >= 0.

Mehrotra's steps keep the first (it is linear), stay inside and bring the products sz and wv to 0 together. With
D = z/s + v/w, a step for the right sides r = c/s - c'/w is

    (K + E) da = E Σ σr/D,     E = (Σ 1/D)⁻¹,        dx = (r - σ E (Σ σr/D - da)) / D,

one factorisation for the prediction and the correction. Descent by pairs slows down as λ falls, these steps do not.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dpotrs

from hgk.solvers.least_squares import cholesky

# How much of the way to the boundary a step goes.
ALMOST = 0.99


def interior(
    K: torch.Tensor,
    y: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    tube: float,
    start: torch.Tensor,
    goal: float,
    inside: float = 0.01,
    most: int = 50,
) -> tuple[Points, int]:
    """Coordinates with a gap of at most ``goal``, and the steps; ``inside`` is how far from the bounds the first point
    is at least, as a share of the box: the better the start, the nearer.
    """
    points = Points(K, y, low, high, tube, start, inside)
    for step in range(most):
        if points.gap() <= goal or not points.step():
            return points, step
    return points, most


class Points:
    """x, its multipliers and slopes, one row for each of σ."""

    def __init__(self, K, y, low, high, tube, start, inside):
        self.K, self.y, self.tube = K, y, tube
        self.sign = torch.ones(2, 1).to(K) if tube else torch.ones(1, 1).to(K)
        if tube:
            self.sign[1] = -1
            low, high, start = torch.zeros(2, len(y)).to(K), torch.stack([high, -low]), torch.stack([start, -start])
        else:
            low, high, start = low[None], high[None], start[None]
        self.low, self.high, width = low, high, high - low
        self.x = torch.minimum(torch.maximum(start, low + inside * width), high - inside * width)
        g = self.g = self.slopes()
        # the larger of the two multipliers is the slope's, and both have a tenth of the average gap to spare
        spare = 0.1 * max(self.gap(), 1e-300) / g.numel() / (width / 2)
        self.z, self.v = g.clamp_min(0) + spare, (-g).clamp_min(0) + spare

    @property
    def inside(self) -> torch.Tensor:
        return (self.sign * self.x).sum(0)

    def slopes(self) -> torch.Tensor:
        return self.sign * (self.K @ self.inside - self.y) + self.tube

    def gap(self) -> float:
        """sup {gᵀ(x - x') : x' in the box}."""
        g = self.g
        return float(torch.where(g > 0, g * (self.x - self.low), -g * (self.high - self.x)).sum())

    def step(self) -> bool:
        """Whether there was one; rounding ends it."""
        s, w, z, v = self.x - self.low, self.high - self.x, self.z, self.v
        D = z / s + v / w
        E = 1 / (1 / D).sum(0)
        L = factor(self.K, E)
        rest = self.g - z + v  # rounding

        def direction(c, other):
            r = c / s - other / w - rest
            right = (self.sign * r / D).sum(0)
            da = torch.from_numpy(dpotrs(L, (E * right).numpy(), lower=1)[0])
            dx = (r - self.sign * E * (right - da)) / D
            return dx, (c - z * dx) / s, (other + v * dx) / w

        def length(dx, dz, dv):
            ratios = [torch.where(d < 0, -b / d, torch.inf).min() for b, d in ((s, dx), (w, -dx), (z, dz), (v, dv))]
            return min(1.0, ALMOST * float(torch.stack(ratios).min()))

        mu = float((s * z + w * v).mean()) / 2
        dx, dz, dv = direction(-s * z, -w * v)
        theta = length(dx, dz, dv)
        ahead = float(((s + theta * dx) * (z + theta * dz) + (w - theta * dx) * (v + theta * dv)).mean()) / 2
        centre = (ahead / mu) ** 3 * mu
        dx, dz, dv = direction(centre - s * z - dx * dz, centre - w * v + dx * dv)
        theta = length(dx, dz, dv)
        x = self.x + theta * dx
        if not (theta > 1e-8 and bool(((x > self.low) & (x < self.high)).all())):
            return False
        self.x, self.z, self.v = x, z + theta * dz, v + theta * dv
        self.g = self.slopes()
        return True


def factor(K: torch.Tensor, E: torch.Tensor) -> np.ndarray:
    """L with L Lᵀ = K + E, in the lower half; in place by scipy's LAPACK, which is faster than torch here."""
    M = K.clone()
    M.diagonal().add_(E)
    L, broken = dpotrf(M.numpy().T, lower=1, clean=0, overwrite_a=1)
    return cholesky(K, E)[0].numpy() if broken else L
