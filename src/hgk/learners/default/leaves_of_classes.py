"""Classes in leaves: least squares or the logistic loss, whichever has the smaller log-loss on rows set aside.

Kernels are handed down by least squares, and a leaf chooses its width as with these. Its c = nλ of the logistic loss
starts where both losses are equally curved: with f = 2t near t = 2p - 1 = 0,

    c t² + (y - t)²  has the curvatures c, 1;       c' f² - log p  those of 4c', 1/2,       so that  c' = c / 8

and follows the log-loss of leaving one out. What is decided, by probabilities of rows that no gradient has seen, where
each half of them has the slopes of the other:

    the size of leaves, and whether their kernels take steps, by the machine of least squares
    for each of both losses the share p of the machine on centres, f_0, whose values κ f_0 have the spread of leaves':
                                        f = (p κ f_0 + (1 - p) Σ_t f_t / T) / (p κ + 1 - p)
    which loss; and whether leaves are taken at all

f_0 is a machine of least squares. Its values are a first approximation of log-odds but for their scale, which κ and the
slopes take care of. The log-loss L_T of T partitions follows from those of one and of two. Were it quadratic in the
values, what partitions differ by would add (1 - p)² v / T, so that

    L_T(p) = L_2(p) - (1 - p)² (1 - 2/T) (L_1(0) - L_2(0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.events import LeavesChosen, LossesCompared
from hgk.executor import Request
from hgk.learners.default.division import (
    SHARE_OF_TRIAL,
    Division,
    best_plan,
    judged_plan,
    leaf_losses,
    machine_beside,
    partitions_for,
    plans,
    was_stopped,
)
from hgk.learners.default.leaves import (
    CHECKED,
    LEAF_TRIES,
    LEAST_C,
    QUIETER,
    RAISE,
    RAISES,
    Handed,
    Judgement,
    Leaf,
    LeafPlan,
    LeafTrial,
    assembled,
    downhill,
    trained,
)
from hgk.logistic import log_losses, zero_or_one
from hgk.machines import ClassesInLeaves, InLeaves, MeanOfMachines, Partition, Rows, wrong_classes
from hgk.search import Either
from hgk.solvers.classes import RELATIVE_GAP, ClassesSolution, solve_classes

if TYPE_CHECKING:
    from hgk.learners.default.average import Trial
    from hgk.learners.default.effort import Budget
    from hgk.learners.default.learner import Fit

# c of the logistic loss in units of that of least squares, by the formula above.
OF_SQUARES = 1 / 8
# The relative gap where c is chosen.
GAP_OF_TRIES = 1e-3
# A gap beyond which a leaf is solved again with a kernel matrix in double precision.
LEFT_BY_ROUNDING = 10 * RELATIVE_GAP
# Rounding that values of a leaf may have, in log-odds.
ROUNDED = 0.03
# Shares to choose from.
SHARES_BESIDE = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Rows of the machine that stands in for leaves that a stop has left out.
STOOD_IN_FOR = 2000
# The logistic machine of a leaf takes about so many times as long as that of least squares.
DEARER = 3


# ----------------------------------------------------------------------------------------------------------- leaves


@dataclass(frozen=True, eq=False)
class LeafOfClasses(Leaf):
    """A leaf, and the relative duality gap that is left."""

    gap: float = 0.0


def trained_on_classes(handed: Handed, rows: Rows, clip: float, given_c: float | None = None) -> LeafOfClasses:
    """The logistic machine of a leaf; its width by least squares, and c by the log-loss of leaving one out.

    A leaf of a single class learns neither: its rows would speak for more certainty without end.
    """
    if not bool((rows.Y - rows.Y[:1]).any()):
        kernel, c, tries = handed.kernel, max(handed.c, LEAST_C), 0
    else:
        start = trained(handed, rows, clip)
        kernel, c, tries = start.kernel, start.c, LEAF_TRIES
    K = kernel.matrix(rows.X.float())
    if given_c is None:

        def error(c: float) -> float:
            return left_out_log_loss(_solved(K, rows, c, GAP_OF_TRIES), rows)

        c = max(LEAST_C * OF_SQUARES, downhill(error, c * OF_SQUARES, QUIETER, tries))
    c = c if given_c is None else given_c
    solution = _solved(K, rows, c)
    for _ in range(RAISES if given_c is None else 0):
        if _predictable(kernel, solution, rows):
            break
        c *= RAISE
        solution = _solved(K, rows, c)
    if solution.gap > LEFT_BY_ROUNDING:  # c is below the rounding of single precision
        solution = _solved(kernel.matrix(rows.X.double()), rows, c)
    return LeafOfClasses(kernel, c, solution.alpha, 0.0, solution.gap)


def _solved(K: torch.Tensor, rows: Rows, c: float, tol: float = RELATIVE_GAP) -> ClassesSolution:
    return solve_classes(K, zero_or_one(rows.Y), rows.weight, c / float(rows.weight.sum()), tol=tol)


def left_out_log_loss(solution: ClassesSolution, rows: Rows) -> float:
    """The log-loss of rows that were left out, to one Newton step."""
    u = solution.left_out(solution.inverse(torch.float32).diagonal(), rows.repetitions)
    return rows.mean(log_losses(u, solution.y))[0]


def _predictable(kernel, solution: ClassesSolution, rows: Rows) -> bool:
    """Whether predictions in single precision are those that the coefficients stand for."""
    part = torch.arange(0, len(rows), -(-len(rows) // CHECKED))
    t = kernel.multiply(rows.X[part].float(), rows.X.float(), solution.alpha.float(), often=True).double()
    return float((t - solution.f[part]).square().mean()) <= ROUNDED**2


@dataclass(frozen=True, eq=False)
class TrainingOfClasses(Request):
    """What :func:`trained_on_classes` says."""

    handed: Handed
    rows: Rows
    members: torch.Tensor
    clip: float
    c: float | None = None

    def alone(self) -> LeafOfClasses:
        return trained_on_classes(self.handed, self.rows[self.members], self.clip, self.c)


@dataclass(frozen=True)
class LogisticPlan(LeafPlan):
    """Leaves with the logistic loss; ``unit`` is κ."""

    unit: float = 1.0

    @classmethod
    def of(cls, plan: LeafPlan) -> LogisticPlan:
        return cls(**{f.name: getattr(plan, f.name) for f in fields(LeafPlan)})

    def clip(self, clip):
        return float("inf")

    def training(self, handed, rows, members, clip):
        return TrainingOfClasses(handed, rows, members, clip, self.c)

    def reads(self, target):
        return replace(target, estimates=False)

    def machine(self, sums, leaves):
        parts = {f.name: getattr(sums, f.name) for f in fields(InLeaves)}
        return ClassesInLeaves(**parts, gap_left=max(leaf.gap for leaf in leaves))

    def stands_in(self, rows, X, handed, rng):
        """A partition of one leaf, which has some of the rows."""
        some, d = torch.from_numpy(np.sort(rng.permutation(len(rows))[:STOOD_IN_FOR])), X.shape[1]
        none, ends = torch.zeros(0, dtype=torch.float64), torch.tensor([0, len(some)])
        parts = Partition(none.reshape(0, d), none, torch.zeros(0, 2, dtype=torch.int64), some, ends)
        leaf = trained_on_classes(handed, rows[some], 1.0, self.c)
        return self.machine(assembled(rows, X, parts, [leaf], handed, None), [leaf])

    def mean(self, whole, grown, share):
        """Leaves come first: they say what values are."""
        others = (1 - share) / len(grown)
        return MeanOfMachines((*grown, whole), (*(others,) * len(grown), share * self.unit))


# ---------------------------------------------------------------------------------------------------------- judging


@dataclass(frozen=True, eq=False)
class Offer:
    """A plan with its share of the machine on centres, by the rows set aside.

    ``value`` is L_T, ``losses`` and ``squares`` are those of two partitions, whose values are ``t``.
    """

    plan: LeafPlan
    share: float
    t: torch.Tensor
    losses: torch.Tensor
    squares: torch.Tensor
    value: float


def judge_classes(fit: Fit, chosen: list[Trial], budget: Budget | None) -> Division | None:
    """Which leaves are taken; None for a machine on centres. If the logistic loss was asked for, leaves in any case."""
    task, forced, options = fit.task, not fit.wanted.problem.exact, plans(fit, chosen)
    options = [LogisticPlan.of(plan) for plan in options] if forced else options
    few = len(task.whole) <= fit.settings.divided and not forced
    judged = None if few or fit.progress.cut() else best_plan(fit, options, chosen, budget)
    if judged is None:
        return unjudged(fit, options[0], budget) if forced else None
    best, trial = judged
    judgements = [best]
    free = isinstance(fit.wanted.problem, Either) and len(task.lams) > 1
    if free and not was_stopped(fit) and _affordable(fit, best, budget):
        judgements.append(judged_plan(fit, trial, LogisticPlan.of(best.plan)))
    partitions = partitions_for(fit, sum(judgement.seconds for judgement in judgements), budget)
    if was_stopped(fit) or not (partitions or forced):
        return unjudged(fit, best.plan, budget) if forced else None
    return _decided(fit, chosen, judgements, trial, max(1, partitions))


def unjudged(fit: Fit, plan: LeafPlan, budget: Budget | None) -> Division:
    """The logistic loss in leaves, where nothing could be compared."""
    rows = fit.task.rows
    partitions = 1 if budget is not None or fit.progress.stopped else fit.settings.partitions[1]
    event = LeavesChosen(taken=True, size=plan.size, steps=0, partitions=partitions, share=0.0, rows=0)
    fit.progress.report(event)
    return Division(event, replace(plan, steps=0), rows.Y[:0], torch.arange(0), 1.0, None)


def _affordable(fit: Fit, judged: Judgement, budget: Budget | None) -> bool:
    settings = fit.settings
    rows = 2 * min(len(fit.task.rows), settings.branches * settings.branch_rows)
    seconds = DEARER * judged.seconds * rows / fit.executor.workers
    return budget is None or seconds < SHARE_OF_TRIAL * budget.left


def _decided(
    fit: Fit, chosen: list[Trial], judgements: Sequence[Judgement], trial: LeafTrial, partitions: int
) -> Division | None:
    rows, forced = fit.task.rows[trial.index], not fit.wanted.problem.exact
    t_0 = None if forced else machine_beside(fit, chosen, trial.rest)(rows.X).to(rows.Y)
    offers = [offered(fit, judgement, t_0, rows, partitions) for judgement in judgements]
    best, without = min(offers, key=lambda offer: offer.value), None
    if t_0 is not None:
        clip = fit.task.clip
        losses, squares = leaf_losses(fit, judgements[0].plan, t_0.clamp(-clip, clip), rows)
        gain, error = rows.mean(losses - best.losses)
        without = rows.mean(squares)[0]
        taken = gain > fit.settings.leaf_margin * error
    else:
        taken = True
    if taken and len(offers) > 1:
        told = {"rows": round(rows.given), "of_squares": offers[0].value, "of_logistic": offers[1].value}
        fit.progress.report(LossesCompared(logistic=best is offers[1], moved=False, **told))  # type: ignore[arg-type]
    event = LeavesChosen(
        taken=taken, size=best.plan.size, steps=best.plan.steps, partitions=partitions, share=best.share,
        rows=round(rows.given), risk=rows.mean(best.squares)[0], without=without,
        wrong=wrong_classes(best.t, rows).get("wrong"), log_loss=rows.mean(best.losses)[0],
    )  # fmt: skip
    fit.progress.report(event)
    return Division(event, best.plan, best.t, trial.index, 1.0, None) if taken else None


def offered(fit: Fit, judged: Judgement, t_0: torch.Tensor | None, rows: Rows, partitions: int) -> Offer:
    """With the best share for so many partitions."""
    plan, clip, mean = judged.plan, judged.plan.clip(fit.task.clip), judged.t.mean(0)
    if t_0 is None:
        return _best_share(fit, plan, lambda share, t: t, judged.t, rows, partitions, SHARES_BESIDE[:1])
    t_0 = t_0.clamp(-clip, clip)
    if isinstance(plan, LogisticPlan):
        plan = replace(plan, unit=float(mean.std() / t_0.std().clamp_min(1e-12)))
    unit = plan.unit if isinstance(plan, LogisticPlan) else 1.0

    def mixed(share: float, t: torch.Tensor) -> torch.Tensor:
        return (share * unit * t_0 + (1 - share) * t) / (share * unit + 1 - share)

    return _best_share(fit, plan, mixed, judged.t, rows, partitions, SHARES_BESIDE)


def _best_share(
    fit: Fit,
    plan: LeafPlan,
    mixed: Callable[[float, torch.Tensor], torch.Tensor],
    t: torch.Tensor,
    rows: Rows,
    partitions: int,
    shares: Sequence[float],
) -> Offer:
    def value(t: torch.Tensor) -> float:
        return rows.mean(leaf_losses(fit, plan, t, rows)[0])[0]

    spread = max(0.0, (value(t[0]) + value(t[1])) / 2 - value(t.mean(0)))
    offers = []
    for share in shares:
        mix = mixed(share, t.mean(0))
        losses, squares = leaf_losses(fit, plan, mix, rows)
        expected = rows.mean(losses)[0] - (1 - share) ** 2 * (1 - 2 / partitions) * spread
        offers.append(Offer(plan, share, mix, losses, squares, expected))
    return min(offers, key=lambda offer: offer.value)
