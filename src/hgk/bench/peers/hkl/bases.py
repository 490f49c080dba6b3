"""One-dimensional feature maps: what the kernels of the grid are products of.

Column i has base kernels k_{i,1}, ..., k_{i,q} beside the constant k_{i,0} = 1; each is given by features,

    k_{i,j}(x, x') = Σ_b φ_b(x) φ_b(x'),        b over the base features with column i and level j,

which have mean 0 and, over all b of one kernel, mean squares that add up to 1 on the training rows. The mean
square of φ_b is its `size`.

``Polynomials``: k_{i,j} has one feature, the polynomial of degree j that is orthonormal under the column's
distribution in the training rows (Hermite's for a normal column, Legendre's for a uniform one). With

    p_0 = 1,    b_{j+1} p_{j+1}(u) = (u - a_j) p_j(u) - b_j p_{j-1}(u),    a_j = E u p_j²,

b_{j+1} follows from E p_{j+1}² = 1. A column with l different values has polynomials up to degree l - 1; beyond,
they are 0.

``Gaussians``: one level, exp(-(u - u')²/width²) in units of the column's standard deviation, centred and scaled,
by its principal components in the training rows. One-dimensional Gaussian kernels are of low rank in any finite
precision, so that a few components are the kernel up to the share ``truncation`` of its trace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

# Points of a column at which a Gaussian base kernel is expanded: quantiles, or all values where they are fewer.
LANDMARKS = 64
# A polynomial of smaller norm before normalisation is rounding, the column has too few values for it.
DEAD = 1e-6


@dataclass(frozen=True)
class BaseLayout:
    """Where base feature b belongs: its column, its level ≥ 1, and its size."""

    column: torch.Tensor
    level: torch.Tensor
    size: torch.Tensor


class Basis(ABC):
    """A fitted feature map of all columns; ``levels`` is the number q of levels besides the constant."""

    levels: int
    layout: BaseLayout

    @abstractmethod
    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Base features, one column per entry of ``layout``."""


@dataclass(frozen=True)
class Polynomials(Basis):
    """Orthonormal polynomials of each column's own distribution; outside the training range the end value."""

    low: torch.Tensor
    high: torch.Tensor
    a: torch.Tensor  # (q, d)
    b: torch.Tensor  # (q + 1, d); infinite where the polynomial is 0
    levels: int
    layout: BaseLayout

    @classmethod
    def of(cls, X: torch.Tensor, degree: int) -> Polynomials:
        low, high = X.amin(0), X.amax(0)
        u = _to_unit(X, low, high)
        before, p = torch.zeros_like(u), torch.ones_like(u)
        a, b = [], [torch.zeros_like(low)]
        for _ in range(degree):
            a.append((u * p**2).mean(0))
            raw = (u - a[-1]) * p - b[-1].nan_to_num(posinf=0) * before
            norm = raw.square().mean(0).sqrt()
            b.append(torch.where(norm > DEAD, norm, torch.inf))
            before, p = p, raw / b[-1]
        d = X.shape[1]
        level = torch.arange(1, degree + 1, device=X.device).repeat_interleave(d)
        column = torch.arange(d, device=X.device).repeat(degree)
        return cls(low, high, torch.stack(a), torch.stack(b), degree, BaseLayout(column, level, X.new_ones(d * degree)))

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        u = _to_unit(X, self.low, self.high)
        p = [torch.zeros_like(u), torch.ones_like(u)]
        for a, b, b_next in zip(self.a, self.b, self.b[1:], strict=False):
            p.append(((u - a) * p[-1] - b.nan_to_num(posinf=0) * p[-2]) / b_next)
        return torch.cat(p[2:], 1)


def _to_unit(X: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    half = torch.where(high > low, high / 2 - low / 2, torch.inf)
    return ((X.clamp(low, high) - (low / 2 + high / 2)) / half).clamp(-1, 1)


@dataclass(frozen=True)
class Gaussians(Basis):
    """Principal components of a centred Gaussian kernel on each column."""

    landmarks: tuple[torch.Tensor, ...]
    maps: tuple[torch.Tensor, ...]  # from kernel values at the landmarks to features
    means: torch.Tensor
    scale: torch.Tensor
    levels: int
    layout: BaseLayout

    @classmethod
    def of(cls, X: torch.Tensor, width: float, truncation: float) -> Gaussians:
        scale = width * X.std(0, correction=0)
        scale = torch.where(scale > 0, scale, torch.inf)
        landmarks, maps, means, sizes = [], [], [], []
        for x, s in zip(X.T, scale, strict=True):
            points = torch.unique(x)
            if len(points) > LANDMARKS:
                points = torch.unique(torch.quantile(points, torch.linspace(0, 1, LANDMARKS).to(points)))
            K = _gauss(x, points, s)
            values, vectors = torch.linalg.eigh(_gauss(points, points, s))
            kept = values > 1e-10 * values[-1]
            nystrom = vectors[:, kept] / values[kept].sqrt()
            features = K @ nystrom
            variance, rotation = torch.linalg.eigh(torch.cov(features.T, correction=0).reshape(kept.sum(), -1))
            variance = variance.flip(0).clamp(min=0)
            total = variance.sum()
            count = 0 if total <= 1e-12 else int((variance >= truncation * total).sum())
            maps.append(nystrom @ rotation.flip(1)[:, :count] / total.sqrt() if count else nystrom[:, :0])
            means.append((K @ maps[-1]).mean(0))
            sizes.append(variance[:count] / total)
            landmarks.append(points)
        counts = torch.tensor([len(s) for s in sizes], device=X.device)
        column = torch.arange(X.shape[1], device=X.device).repeat_interleave(counts)
        layout = BaseLayout(column, torch.ones_like(column), torch.cat(sizes))
        return cls(tuple(landmarks), tuple(maps), torch.cat(means), scale, 1, layout)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        columns = zip(X.T, self.landmarks, self.scale, self.maps, strict=True)
        return torch.cat([_gauss(x, points, s) @ A for x, points, s, A in columns], 1) - self.means


def _gauss(x: torch.Tensor, points: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(((x[:, None] - points) / scale) ** 2))
