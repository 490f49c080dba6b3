"""Training rows, and means over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hgk.arrays import accelerated, blocks, row_products
from hgk.storable import expect, real, storable

# Rows that are compared at a time; and different x that a sample has at least, if rows of one x are to come together.
HASHED, DIFFERENT = 2**16, 10


@dataclass(frozen=True, eq=False)
class Sample:
    """Draws rows such that those of one x come together, as they do among all rows.

    Rows of one x may differ in y. Were some of them missing from a sample, the others would seem to have no noise.
    Where an x has so many rows that few x would make up a sample, any rows are drawn.
    """

    rows: int
    order: np.ndarray | None = None  # rows, x after x; None where no two have the same
    starts: np.ndarray | None = None  # of every x, and the end

    @classmethod
    def of(cls, rows: int, same_x: np.ndarray | None) -> Sample:
        if same_x is None:
            return cls(rows)
        order = np.argsort(same_x, kind="stable")
        starts = np.flatnonzero(np.diff(same_x[order], prepend=-1))
        return cls(rows) if len(starts) == rows else cls(rows, order, np.append(starts, rows))

    def draw(self, rng: np.random.Generator, many: int) -> np.ndarray:
        """So many different rows, of the last x perhaps not all."""
        if self.order is None or self.starts is None or int(np.diff(self.starts).max()) > many // DIFFERENT:
            return rng.choice(self.rows, many, replace=False)
        different = len(self.starts) - 1
        drawn = rng.choice(different, min(different, many), replace=False)
        counts = np.diff(self.starts)[drawn]
        ends = counts.cumsum()
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        return self.order[np.repeat(self.starts[drawn], counts) + within][:many]


@storable
@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows: inputs X, outputs Y (one column each), sample weights s, and how often each row was given.

    A row of weight s_i that was given m_i times stands for m_i repetitions of weight s_i / m_i. To leave one out is to
    leave out one repetition. Without ``count`` every row was given once.
    """

    X: torch.Tensor
    Y: torch.Tensor
    weight: torch.Tensor
    count: torch.Tensor | None = None

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        X, Y, weight = parts["X"], parts["Y"], parts["weight"]
        expect(X.ndim == Y.ndim == 2 and weight.ndim == 1, "the training rows are not a table")
        expect(len(X) == len(Y) == len(weight) > 1, "the training rows, labels and weights differ in number")
        expect(all(real(t) for t in (X, Y, weight)), "the training rows are not finite numbers")
        expect(bool((weight > 0).all()), "a training row has no weight")
        count = parts.get("count")
        counted = count is None or (count.shape == weight.shape and real(count) and bool((count > 0).all()))
        expect(counted, "the training rows' numbers of repetitions do not fit them")

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def same_x(self) -> np.ndarray | None:
        """A number for every different x, row by row; None where no two rows have the same."""
        X, n = self.X, len(self.X)
        mixed = _mixed(X)
        order = mixed.argsort(stable=True)
        new = torch.ones(n, dtype=torch.bool, device=X.device)
        near = (mixed[order[1:]] == mixed[order[:-1]]).nonzero()[:, 0] + 1
        new[near] = (X[order[near]] != X[order[near - 1]]).any(1)
        if bool(new.all()):
            return None
        numbers = torch.empty_like(order)
        numbers[order] = new.cumsum(0) - 1
        return numbers.cpu().numpy()

    def sample_of(self, index: torch.Tensor) -> Sample:
        """Of some of the rows; which of them have the same x is not looked for again."""
        return Sample.of(len(index), None if self.same_x is None else self.same_x[index.numpy()])

    @cached_property
    def sample(self) -> Sample:
        return Sample.of(len(self), self.same_x)

    @property
    def repetitions(self) -> torch.Tensor:
        """m, 1 where not given."""
        return torch.ones_like(self.weight) if self.count is None else self.count

    @property
    def given(self) -> float:
        """Σ m, the number of rows as they were given."""
        return float(self.repetitions.sum())

    @property
    def size(self) -> float:
        """(Σ s)² / Σ s²/m, the number of repetitions that the weights amount to; the same for s and 2s."""
        return float(self.weight.sum() ** 2 / (self.weight**2 / self.repetitions).sum())

    def __getitem__(self, index) -> Rows:
        return Rows(self.X[index], self.Y[index], self.weight[index], None if self.count is None else self.count[index])

    def to(self, device: torch.device) -> Rows:
        count = None if self.count is None else self.count.to(device)
        return Rows(self.X.to(device), self.Y.to(device), self.weight.to(device), count)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """One after the other."""
        X, Y, weight = (torch.cat([getattr(part, name) for part in parts]) for name in ("X", "Y", "weight"))
        counted = any(part.count is not None for part in parts)
        return cls(X, Y, weight, torch.cat([part.repetitions for part in parts]) if counted else None)

    def portion(self, index: torch.Tensor, weight: torch.Tensor) -> Rows:
        """Of these rows as many repetitions as have this weight."""
        whole = self[index]
        return replace(whole, weight=weight, count=whole.repetitions * (weight / whole.weight))

    def mean(self, values: torch.Tensor) -> tuple[float, float]:
        """The weighted mean of one value per row, and its standard error: repetitions are independent."""
        share = self.weight / self.weight.sum()
        values = values.to(share)
        mean = float(share @ values)
        return mean, float((share**2 / self.repetitions) @ (values - mean) ** 2) ** 0.5

    @property
    def spread(self):
        """E (x_j - x'_j)² over pairs of rows, per column: twice the variance."""
        return 2 * self.X.var(0, correction=0).cpu().numpy()


def _mixed(X: torch.Tensor) -> torch.Tensor:
    """A number for every row, equal for equal rows and seldom else."""
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    if accelerated(X):
        there = torch.from_numpy(direction).to(X.device)
        return torch.cat([row_products(X[block], there) for block in blocks(len(X), 2**20)])
    whole = X.numpy()
    return torch.from_numpy(np.concatenate([(whole[block] * direction).sum(1) for block in blocks(len(X), HASHED)]))


def clipped_risk(t: torch.Tensor, rows: Rows, clip: float) -> float:
    """(1/n) Σ s_i (y_i - clip(t_i))², summed over outputs."""
    losses = ((t.clamp(-clip, clip) - rows.Y) ** 2).sum(1)
    return float((losses * rows.weight).sum() / rows.weight.sum())


def wrong_classes(t: torch.Tensor, rows: Rows) -> dict[str, float]:
    """The weighted share of rows whose class is not predicted, as "wrong"; nothing where labels are not all ±1."""
    if not bool((rows.Y.abs() == 1).all()):
        return {}
    if rows.Y.shape[1] > 1:
        missed = (t.argmax(1) != rows.Y.argmax(1)).double()
    else:  # a value that is zero but for rounding is for neither class
        missed = ((t[:, 0] > 0) != (rows.Y[:, 0] > 0)).double().masked_fill(t[:, 0].abs() < 1e-9, 0.5)
    return {"wrong": float((missed * rows.weight).sum() / rows.weight.sum())}


def weighted_quantile(values: torch.Tensor, weight: torch.Tensor, level: float) -> torch.Tensor:
    """The smallest value v with weight(values <= v) >= level · (Σ weight + 1), over the last axis; ∞ if there is none.

    With weights 1 it is the ⌈level (n + 1)⌉-th smallest value, as in conformal prediction. ``weight`` is one for all,
    or of the shape of ``values``.
    """
    ordered, order = values.sort(-1)
    weights = weight[order] if weight.ndim == 1 else weight.expand_as(values).gather(-1, order)
    total = float(weight.sum()) if weight.ndim == 1 else weight.sum(-1, keepdim=True)
    reached = weights.cumsum(-1) >= level * (total + 1) - 1e-9
    place = reached.to(torch.int8).argmax(-1, keepdim=True)  # the first that is
    quantile = ordered.gather(-1, place)[..., 0]
    return torch.where(reached.any(-1), quantile, torch.inf)
