"""Hinge, pinball and ε-insensitive machines: a quadratic function on a box, without offset.

For a :class:`~hgk.losses.BoxLoss` with the box [l, h] and the tube ε, the dual divided by 2λ is

    min_α  ½ αᵀKα - αᵀy + ε‖α‖₁,        -C_i h_i <= α_i <= -C_i l_i,        C_i = s_i/(2nλ),

with the gradient G = Kα - y. Most coordinates end on the boundary or at 0; those that do not are *free*. A row of
weight 0 has C_i = 0 and stays at 0: a fold that is held out costs no copy of K. Rounds of

    1. the working set A: free coordinates, and those with a part in the duality gap; K_AA in one piece of memory;
    2. on A: greedy descent by pairs (:mod:`hgk.solvers.descent`), and after every ten steps per coordinate one Newton
       step K_FF d = -(G + ε sign α)_F on the free ones F, as far as the box allows, which ends the search once
       F is right; where that is slow, interior points (:mod:`hgk.solvers.interior`), then and in later rounds;
    3. t = Kα everywhere, by the rows of K whose coefficient changed,

each of which lowers the gap tenfold, until it is below ``tol`` for a t computed afresh. How this compares with other
methods is measured in benchmarks/losses.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from hgk.losses import Loss
from hgk.solvers.convex import ConvexProblem, ConvexSolver, ConvexState, SolvedColumn, product, relative
from hgk.solvers.interior import interior
from hgk.solvers.least_squares import cholesky

# Rounds without a fall of the gap by a tenth, after which rounding is all that is left.
STALLED = 20
# Steps of descent per coordinate before a Newton step is tried.
STEPS_PER_COORDINATE = 10
# Interior points take over when the gap's last fall says that more than one pass of descent per so many coordinates is
# to come: they cost a cube, it a square.
SLOW = 150
# Coordinates so near to a bound, as a share of the box, count as there until their part in the gap says otherwise
NEAR_BOUND = 1e-3
# ... in the first so many rounds.
LATE = 12


@dataclass
class _Box:
    """Coordinates a in [low, high] of a quadratic function with matrix K, and its gradient G."""

    K: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    tube: float
    a: torch.Tensor
    G: torch.Tensor

    def free(self, near: float = 0.0) -> torch.Tensor:
        """Inside the box (and not at 0, if there is a tube), and not as near to its boundary as this share of it."""
        edge = near * (self.high - self.low)
        inside = (self.a - self.low > edge) & (self.high - self.a > edge)
        return inside & (self.a.abs() > edge) if self.tube else inside

    def part(self, A: torch.Tensor) -> _Box:
        """The coordinates A, with their own copy of the matrix unless they are all."""
        K = self.K if len(A) == len(self.K) else self.K[A[:, None], A]
        return _Box(K, self.low[A], self.high[A], self.tube, self.a[A].clone(), self.G[A].clone())

    def descend(self, goal: float, most: int) -> int:
        from hgk.solvers.descent import descend_in_box  # numba is loaded when first needed

        K, low, high = (x.numpy() for x in (self.K, self.low, self.high))
        return descend_in_box(K, low, high, self.tube, self.a.numpy(), self.G.numpy(), goal, most)

    def interior(self, goal: float, inside: float) -> int:
        """Interior points, in the place of many steps of the other kinds; how many there were."""
        F = (self.high > self.low).nonzero()[:, 0]
        movable = self.part(F)
        y = movable.K @ movable.a - movable.G  # what coordinates that cannot move have done is in G
        points, steps = interior(movable.K, y, movable.low, movable.high, self.tube, movable.a, goal, inside)
        change = torch.zeros_like(self.a).index_copy(0, F, points.inside - movable.a)
        new = replace(self, a=self.a.index_copy(0, F, points.inside), G=self.G + self.K @ change)
        if new.gap() < self.gap():
            self.a, self.G = new.a, new.G
        return steps

    def gap(self) -> float:
        from hgk.solvers.descent import gap

        a, G, low, high = (x.numpy() for x in (self.a, self.G, self.low, self.high))
        return gap(a, G, low, high, self.tube)

    def newton(self) -> None:
        """The minimum over the free coordinates, or as near to it as the box allows."""
        F = self.free().nonzero()[:, 0]
        if not len(F):
            return
        a, K = self.a[F], self.K[F[:, None], F]
        low, high = self.low[F], self.high[F]
        if self.tube:  # no coordinate crosses 0, where ‖·‖₁ bends
            low, high = torch.where(a > 0, low.clamp_min(0), low), torch.where(a < 0, high.clamp_max(0), high)
        g = self.G[F] + self.tube * a.sign()
        L, _ = cholesky(K, 0.0)
        d = -torch.cholesky_solve(g[:, None], L)[:, 0]
        bound = torch.where(d > 0, high, low)
        room = torch.where(d == 0, torch.inf, (bound - a) / d)  # how far each may go
        theta = min(1.0, float(room.min()))
        stopped = torch.where(room <= theta, bound, a + theta * d)
        projected = torch.minimum(torch.maximum(a + d, low), high)
        moves = [new - a for new in (stopped, projected)]
        values = [float(g @ e + 0.5 * e @ (K @ e)) for e in moves]
        best = 0 if values[0] <= values[1] else 1
        if values[best] >= 0:  # rounding
            return
        self.a[F] = (stopped, projected)[best]
        self.G += self.K[:, F] @ moves[best] if len(F) < len(self.a) else self.K @ moves[best]


@dataclass(frozen=True)
class BoxDual(ConvexSolver):
    """Working sets, greedy descent by pairs, Newton steps on the free coordinates.

    Parameters
    ----------
    tol : float
        Duality gap to be reached, relative to the primal value.
    rounds, tries : int
        At most so many working sets, and so many passes of descent and Newton steps on each.
    floor : float
        What a primal value below it is replaced by in relative gaps, that of the result included: where values are to
        be compared with a larger one, they need not be more precise.

    Examples
    --------
    >>> from hgk.losses import Hinge
    >>> x, y = torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.tensor([[-1.0], [-1.0], [1.0], [1.0]])
    >>> solver = BoxDual()
    >>> solution = solver.solve(solver.prepare(torch.outer(x, x)), y, 0.01, Hinge())  # f(x) = x
    >>> solution.status.name, solution.stats["gap"] <= 1e-5
    ('SOLVED', True)
    """

    tol: float = 1e-5
    rounds: int = 100
    tries: int = 20
    floor: float = 0.0

    needs = ("domain", "tube")
    idle_rows = True

    def to_precision(self, tol: float | None = None, floor: float = 0.0) -> BoxDual:
        return replace(self, tol=self.tol if tol is None else tol, floor=floor)

    def solve_columns(
        self, state: ConvexState, labels: torch.Tensor, lam: float, loss: Loss, alpha: torch.Tensor
    ) -> list[SolvedColumn]:
        """One after the other: their working sets have little in common."""
        columns = (
            ConvexProblem(state.K, labels[:, k].contiguous(), state.weight, lam, loss.column(k))
            for k in range(labels.shape[1])
        )
        return [self._column(column, alpha[:, k].clone()) for k, column in enumerate(columns)]

    def _column(self, column: ConvexProblem, alpha: torch.Tensor) -> SolvedColumn:
        K, y, C = column.K, column.y, column.C
        low, high = column.loss.domain(y)
        box = _Box(K, -C * high, -C * low, float(column.loss.tube), alpha, y)  # type: ignore[attr-defined]
        box.a, t = self._start(column, box, alpha)
        counts, fresh = {"rounds": 0, "steps": 0, "newton": 0, "interior": 0}, True
        least, idle = math.inf, 0
        while True:
            gap, primal = map(float, self._gap(column, box.a, t))
            reached = gap <= self.tol * primal
            least, idle = (gap, 0) if gap <= 0.9 * least else (least, idle + 1)
            if (reached and fresh) or counts["rounds"] == self.rounds or idle == STALLED:
                break
            if reached:
                t, fresh = product(K, box.a), True
                continue
            box.G = t - y
            # in the units of the dual divided by 2λ; a tenth of the gap, so that the set can shrink soon
            goal = max(self.tol * primal / 2, gap / 10) / (2 * column.lam)
            A = self._working_set(column, box, t, goal, counts["rounds"] >= LATE)
            work = box.part(A)
            end = max(0.1 * self.tol * primal / (2 * column.lam), 1e-300)
            self._work(work, goal, end, min(1.0, gap / primal), counts)
            change = torch.zeros_like(t)
            change[A] = work.a - box.a[A]
            box.a[A] = work.a
            t, fresh = (work.G + y if len(A) == len(y) else t + product(K, change)), False
            counts["rounds"] += 1
        t = t if fresh else product(K, box.a)
        solved = SolvedColumn(box.a, float(relative(*self._gap(column, box.a, t))), counts)
        return self._rounded(column, box, solved) if counts["interior"] else solved

    def _gap(self, column: ConvexProblem, a: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The gap, and what it is relative to."""
        gap, primal = column.gap(a, t)
        return gap, primal.clamp_min(self.floor)

    def _rounded(self, column: ConvexProblem, box: _Box, solved: SolvedColumn) -> SolvedColumn:
        """Coordinates nearly at 0 or on a bound put there, since interior points have no zeros.

        If the gap needs it, the free ones make up for that by a Newton step.
        """
        edge = 1e-6 * (box.high - box.low)
        a = torch.where(box.a.abs() <= edge, 0.0, box.a)
        a = torch.where(a - box.low <= edge, box.low, torch.where(box.high - a <= edge, box.high, a))
        for finish in (False, True):
            t = product(column.K, a)
            if finish:
                new = replace(box, a=a, G=t - column.y)
                new.newton()
                a, t = new.a, product(column.K, new.a)
            gap = float(relative(*self._gap(column, a, t)))
            if gap <= max(self.tol, solved.gap):
                return replace(solved, alpha=a, gap=gap)
        return solved

    def _start(self, column: ConvexProblem, box: _Box, alpha: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What was given or the best multiple of it, without what is nearly 0; or the slopes at f = 0, for large λ."""
        t = product(column.K, alpha)
        if bool(alpha.any()):
            theta = float((alpha @ column.y - box.tube * alpha.abs().sum()) / (alpha @ t))
            theta = theta if 0 < theta < torch.inf else 1.0
            other = torch.where(
                (theta * alpha).abs() < NEAR_BOUND * torch.maximum(box.high, -box.low), 0.0, theta * alpha
            )
        else:
            other = -column.C * column.loss.derivative(column.y, torch.zeros_like(t))
        starts = [torch.minimum(torch.maximum(a, box.low), box.high) for a in (alpha, other)]
        tries = [(a, t if torch.equal(a, alpha) else product(column.K, a)) for a in starts]
        return min(tries, key=lambda one: float(column.gap(*one)[0]))

    def _working_set(self, column: ConvexProblem, box: _Box, t: torch.Tensor, goal: float, late: bool) -> torch.Tensor:
        """Free coordinates, and those that hold more than half of the goal's share; all, where that is most.

        Where a coordinate is nearly on a bound, which is where interior points end, its part in the gap alone decides;
        but after some rounds, when small sets may be passing the gap to each other, it counts as free.
        """
        terms = column.C * column.loss.young(column.y, t, column.slopes(box.a))
        near, share = (0.0, 0.1) if late else (NEAR_BOUND, 0.5)
        A = (box.free(near) | (terms > share * goal / len(t))).nonzero()[:, 0]
        return A if len(A) < 0.7 * len(t) else torch.arange(len(t))

    def _work(self, work: _Box, goal: float, end: float, left: float, counts: dict[str, int]) -> None:
        """``goal`` is for now, ``end`` what will do in the end; ``left`` is the relative gap."""
        most, through, before = STEPS_PER_COORDINATE * len(work.a), False, work.gap()
        for _ in range(self.tries):
            slow = counts["interior"] > 0 and not through  # it was with the last working set
            if not slow:
                steps = work.descend(goal, most)
                counts["steps"] += steps
                if steps < most:
                    return
                gap = work.gap()
                if gap <= goal:
                    return
                slow = not through and math.log(gap / end) > len(work.a) / SLOW * math.log(max(before / gap, 1.0))
                before = gap
            if slow:
                counts["interior"] += work.interior(end, 0.01 * left)
                through = True
            else:
                work.newton()
                counts["newton"] += 1
