"""Held-out predictions along a path of λ, by a Cholesky factor for each fold and λ.

A Krylov space (:mod:`hgk.solvers.krylov`) serves every λ but is of one output; a factor serves every output but is of
one λ. With many outputs and few λ to try the factors are faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from hgk.losses import Loss
from hgk.solvers.base import SQUARED, Solution, Solver, Status
from hgk.solvers.least_squares import cholesky

# λ in a row that have not gained, after which those beyond are left.
IDLE_LAMS = 1


@dataclass(frozen=True)
class Fold:
    """K, the rows held out and those that train; K between them, and in double precision of those that train."""

    K: torch.Tensor
    out: torch.Tensor
    train: torch.Tensor
    K_out: torch.Tensor
    inner: torch.Tensor
    weight: torch.Tensor

    @classmethod
    def of(cls, K: torch.Tensor, weight: torch.Tensor, fold_of: torch.Tensor, number: int) -> Fold:
        out, train = (fold_of == number).nonzero()[:, 0], (fold_of != number).nonzero()[:, 0]
        return cls(K, out, train, _block(K, out, train), _block(K, train, train).double(), weight[train].double())

    def factor(self, lam: float, ridge: bool) -> tuple[torch.Tensor | None, float]:
        """The factor of K + nλ S⁻¹, None if λ is below the rounding of K; or with a ``ridge``, which is returned."""
        c = self.weight.sum() * lam / self.weight
        if ridge:
            return cholesky(_block(self.K, self.train, self.train), c, rounded=True)
        shifted = self.inner.clone()
        shifted.diagonal().add_(c)
        L, info = torch.linalg.cholesky_ex(shifted)
        return (None if int(info) else L), 0.0


def _block(K: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """K of these rows and columns, each in order; a view where they are consecutive."""
    if any(len(index) == 0 or int(index[-1] - index[0]) >= len(index) for index in (rows, columns)):
        return K[rows[:, None], columns]
    return K[int(rows[0]) : int(rows[-1]) + 1, int(columns[0]) : int(columns[-1]) + 1]


@dataclass(frozen=True)
class PathState:
    """The folds, and the rows that are held out in one of them, with their shares of the weight."""

    folds: list[Fold]
    out: torch.Tensor
    share: torch.Tensor


class CholeskyPath(Solver):
    """A factor for each fold and λ, from the middle of the path to both sides as long as the risk falls.

    Examples
    --------
    >>> x = torch.linspace(-3, 3, 60, dtype=torch.float64)
    >>> K, Y = torch.exp(-((x[:, None] - x) ** 2)), torch.sin(x)[:, None]
    >>> solver = CholeskyPath()
    >>> state = solver.prepare(K, fold_of=torch.arange(60) % 5)
    >>> risks = solver.solve(state, Y, torch.logspace(0, -6, 7)).risks
    >>> int(risks.argmin())  # without noise the smallest λ is the best
    6
    """

    needs = ("quadratic",)
    held_out = True

    def prepare(
        self, K: torch.Tensor, sample_weight: torch.Tensor | None = None, fold_of: torch.Tensor | None = None
    ) -> PathState:
        """``fold_of`` is the fold 0, 1, … that each row is held out in, -1 for none; where not given, its own."""
        fold_of = torch.arange(len(K), device=K.device) if fold_of is None else fold_of
        weight = torch.ones(len(K), dtype=torch.float64, device=K.device) if sample_weight is None else sample_weight
        out = (fold_of >= 0).nonzero()[:, 0]
        folds = [Fold.of(K, weight, fold_of, number) for number in range(int(fold_of.max()) + 1)]
        return PathState(folds, out, weight[out] / weight[out].sum())

    def solve(
        self,
        state: PathState,
        Y: torch.Tensor,
        lam: torch.Tensor,
        loss: Loss = SQUARED,
        start: Solution | None = None,
        *,
        clip: float = math.inf,
        complete: bool = False,
        near: float | None = None,
        known: float = math.inf,
    ) -> Solution:
        """Risks and clipped predictions at the decreasing λ ``lam``.

        At every λ if ``complete``; else from the one closest to ``near`` (from the middle where that is None) to both
        sides, as long as something is gained. If all λ are below the rounding of K, the largest is taken with a ridge.
        ``known`` is for :class:`~hgk.solvers.Krylov`.
        """
        self.check(loss)
        path, count = _Path(state, Y, torch.as_tensor(lam, dtype=torch.float64), clip), len(lam)
        first = count // 2 if near is None else int((path.lams.log() - math.log(near)).abs().argmin())
        if complete:
            for i in range(count):
                path.gains(i)
        else:
            path.walk(range(first, count))
            path.walk(range(first - 1, -1, -1))
        if not bool(path.risks.isfinite().any()):
            path.gains(int(path.lams.argmax()), ridge=True)
        status = Status.RIDGE_ADDED if path.ridge else Status.SOLVED
        stats = {"ridge_added": path.ridge, "factors": path.factors}
        return Solution(status=status, stats=stats, risks=path.risks, predictions=path.predictions)


class _Path:
    """Risks and predictions so far."""

    def __init__(self, state: PathState, Y: torch.Tensor, lams: torch.Tensor, clip: float):
        self.state, self.Y, self.lams, self.clip = state, Y, lams, clip
        self.risks = torch.full((len(lams),), torch.inf, dtype=torch.float64)
        self.predictions = state.folds[0].K.new_zeros(len(lams), *Y.shape)
        self.ridge, self.factors = 0.0, 0

    def gains(self, i: int, ridge: bool = False) -> bool | None:
        """Whether this λ is better than all before; None if it is below the rounding of K."""
        t, best = self.predictions[i], float(self.risks.min())
        for fold in self.state.folds:
            L, added = fold.factor(float(self.lams[i]), ridge)
            if L is None:
                t.zero_()
                return None
            alpha = torch.cholesky_solve(self.Y[fold.train].double(), L)
            t[fold.out] = (fold.K_out @ alpha.to(t)).clamp(-self.clip, self.clip)
            self.ridge, self.factors = max(self.ridge, added), self.factors + 1
        out, share = self.state.out, self.state.share
        self.risks[i] = float(share @ ((t[out] - self.Y[out]) ** 2).sum(1).to(share))
        return float(self.risks[i]) < best

    def walk(self, way: Iterable[int]) -> None:
        """As long as something is gained; past λ that are below the rounding of K, towards larger ones."""
        left = IDLE_LAMS
        for i in way:
            gained = self.gains(i)
            left = IDLE_LAMS if gained or gained is None else left - 1
            if not left:
                return
