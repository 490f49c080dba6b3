"""What the solvers for losses other than least squares share: the dual, the certificate, columns, paths over λ.

With C_i = s_i/(2nλ) and L* the conjugate of the loss, the primal and the dual problem are

    P(α) = λ αᵀKα + (1/n) Σ s_i L(y_i, t_i),            t = Kα,
    D(α) = -λ αᵀKα - (1/n) Σ s_i L*(y_i, u_i),          u = -α/C in the domain of L*,

and P(α) >= min P = max D >= D(α) for every such α. Their difference is a sum of terms that are not negative,

    P(α) - D(α) = (1/n) Σ s_i (L(y_i, t_i) + L*(y_i, u_i) - u_i t_i),

so it is computed without cancellation. It bounds how far P(α) is from its minimum; every solution carries it, divided
by P(α), in ``stats["gap"]``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from hgk.losses import Loss
from hgk.solvers.base import SQUARED, Solution, Solver, Status


@dataclass(frozen=True)
class ConvexState:
    """K in double precision, where the compiled descent can read it, and the sample weights."""

    K: torch.Tensor
    weight: torch.Tensor

    @property
    def n(self) -> float:
        return float(self.weight.sum())

    @cached_property
    def single(self) -> torch.Tensor:
        """K in single precision, for directions; certificates are of K itself."""
        return self.K.float()


@dataclass(frozen=True)
class ConvexProblem:
    """One output: the problem that a solver sees. Or several, y (n, k) and weight (n, 1), with values for each."""

    K: torch.Tensor
    y: torch.Tensor
    weight: torch.Tensor
    lam: float
    loss: Loss

    @property
    def C(self) -> torch.Tensor:
        return self.weight / (2 * self.lam * self.weight.sum())

    def slopes(self, alpha: torch.Tensor) -> torch.Tensor:
        """u = -α/C; 0 where the weight is, and with it α."""
        return torch.where(self.weight > 0, -alpha / self.C, 0.0)

    def gap(self, alpha: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """P - D and P at α, with t = Kα."""
        low, high = self.loss.domain(self.y)
        u = torch.minimum(torch.maximum(self.slopes(alpha), low), high)  # α is in the box but for rounding
        share = self.weight / self.weight.sum()
        primal = self.lam * (alpha * t).sum(0) + (share * self.loss.value(self.y, t)).sum(0)
        return (share * self.loss.young(self.y, t, u).clamp_min(0)).sum(0), primal


@dataclass(frozen=True)
class SolvedColumn:
    """α of one column, the gap relative to P, and what it took."""

    alpha: torch.Tensor
    gap: float
    counts: dict[str, int]


@dataclass(frozen=True)
class ConvexSolver(Solver):
    """Machines of any convex loss, certified by their duality gap; a subclass gives ``solve_columns``.

    Parameters
    ----------
    tol : float
        Duality gap to be reached, relative to the primal value.
    """

    tol: float = 1e-8

    certified = True

    def prepare(self, K: torch.Tensor, sample_weight: torch.Tensor | None = None) -> ConvexState:
        """The matrix and the weights; a row of weight 0 is to be left out before, unless the solver takes such."""
        weight = torch.ones(len(K)) if sample_weight is None else sample_weight
        if not bool((weight > 0).all()) and not (self.idle_rows and bool((weight >= 0).all() and weight.any())):
            raise ValueError("Sample weights must be positive here; leave out the rows whose weight is 0.")
        return ConvexState(K.to("cpu", torch.float64).contiguous(), weight.to("cpu", torch.float64))

    def solve(
        self, state: ConvexState, Y: torch.Tensor, lam: float, loss: Loss = SQUARED, start: Solution | None = None
    ) -> Solution:
        """The machine at λ > 0, one column of α per column of ``Y``.

        A parameter of the loss that is a tensor has one entry per column. ``stats`` holds ``gap``, the largest relative
        duality gap, ``gaps``, one for each column, and what the solver counted, over all columns.
        """
        self.check(loss)
        loss.check(Y)
        if not 0 < lam < float("inf"):
            raise ValueError(f"lam={lam} was given; this loss needs a finite regularisation > 0 (try 1e-3).")
        labels = Y.to(state.K)
        first = torch.zeros_like(labels) if start is None else start.alpha.to(state.K)
        return self._solution(self.solve_columns(state, labels, float(lam), loss, first), Y)

    def path(self, state: ConvexState, Y: torch.Tensor, lams: Sequence[float], loss: Loss = SQUARED) -> list[Solution]:
        """The machines at all ``lams``, in their order; solved from the largest λ down, each from the one before."""
        solutions: dict[float, Solution] = {}
        last = None
        for lam in sorted(set(lams), reverse=True):
            last = solutions[lam] = self.solve(state, Y, lam, loss, last)
        return [solutions[lam] for lam in lams]

    def to_precision(self, tol: float | None = None, floor: float = 0.0) -> ConvexSolver:
        return self if tol is None else replace(self, tol=tol)

    def _solution(self, columns: list[SolvedColumn], Y: torch.Tensor) -> Solution:
        gaps = [column.gap for column in columns]
        stats: dict[str, Any] = {"gap": max(gaps), "gaps": gaps}
        for name in columns[0].counts:
            stats[name] = sum(column.counts[name] for column in columns)
        status = Status.SOLVED if stats["gap"] <= self.tol else Status.GAP_LEFT
        dtype = Y.dtype if Y.is_floating_point() else torch.float64
        return Solution(torch.stack([column.alpha for column in columns], 1).to(Y.device, dtype), status, stats)

    @abstractmethod
    def solve_columns(
        self, state: ConvexState, labels: torch.Tensor, lam: float, loss: Loss, alpha: torch.Tensor
    ) -> list[SolvedColumn]:
        """One for each column, from the start α."""


def product(K: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """Kα for a symmetric K; rows of K whose coefficient is 0 are not read where these are many."""
    index = alpha.nonzero()[:, 0]
    if len(index) > 0.7 * len(alpha):
        return K @ alpha
    from hgk.solvers.descent import weighted_rows  # numba is loaded when first needed

    return torch.from_numpy(weighted_rows(K.numpy(), index.numpy(), alpha[index].numpy()))


def relative(gap: torch.Tensor, primal: torch.Tensor) -> torch.Tensor:
    """gap / P; where the minimum is 0 and reached, 0."""
    return torch.where(primal > 0, gap / primal, torch.where(gap == 0, 0.0, torch.inf))
