"""Whether the rows are divided into leaves, how, and the machine that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from hgk.arrays import in_place
from hgk.events import LeavesChosen, LeavesJudged
from hgk.learners.default.average import Trial, learned_part, mean_lam, told
from hgk.learners.default.effort import SPEED
from hgk.learners.default.leaves import Handed, Judgement, LeafPlan, LeafTrial, best_share, grow
from hgk.losses import Logistic
from hgk.machines import InLeaves, Machine, MeanOfMachines, Rows, train, train_on_centres
from hgk.search import mean_kernel
from hgk.targets import FEWEST_CALIBRATED, Classes

if TYPE_CHECKING:
    from hgk.learners.default.effort import Budget
    from hgk.learners.default.learner import Fit
    from hgk.targets import Refinement

# Shares of the time left that judging leaves may take, and growing them.
SHARE_OF_TRIAL, SHARE_OF_LEAVES = 0.25, 0.7
# Rows set aside below which nothing is decided.
FEWEST_JUDGED = 20


@dataclass(frozen=True, eq=False)
class Division:
    """What was decided on the rows set aside."""

    event: LeavesChosen
    plan: LeafPlan
    t: torch.Tensor  # predictions of the rows set aside that were judged
    index: torch.Tensor  # these rows
    optimism: float  # of leaves
    refinement: Refinement | None

    @property
    def share(self) -> float:
        """Of the machine on all rows."""
        return self.event.share


def handed(chosen: Sequence[Trial], n: float) -> list[Handed]:
    """The kernels that leaves begin with, the best kind's first, and c = nλ for the part that they have in the mean."""
    n, learned = n / learned_part(chosen), [trial for trial in chosen if not trial.remainder]
    return [Handed(kernel, trial.lam * n) for trial in learned for kernel in trial.kernels[:1]]


def plans(fit: Fit, chosen: Sequence[Trial]) -> list[LeafPlan]:
    """What is compared, with the smallest leaves first; without steps the best of them is tried, too."""
    settings, n = fit.settings, len(fit.task.rows)
    place = 0 if fit.exact else 1
    sizes = [int(share * n) + 1 for share in settings.leaf_shares] if fit.exact else list(settings.leaf_rows)
    c = float(fit.task.lams[0]) * float(fit.task.rows.weight.sum()) if len(fit.task.lams) == 1 else None
    tied = all(kernel.architecture.tied for trial in chosen for kernel in trial.kernels[:1])
    steps, rate = 0 if tied else settings.leaf_steps[place], settings.leaf_rates[place]
    return [LeafPlan(size, steps, rate, max(size // 4 + 1, settings.leaf_batch), c) for size in sizes]


def judge_division(fit: Fit, chosen: Sequence[Trial], budget: Budget | None) -> Division | None:
    """Compare leaves with the machine on all rows, on rows that no gradient has seen; None if that is as good."""
    task, settings = fit.task, fit.settings
    few_or_other_loss = len(task.whole) <= settings.divided or not fit.wanted.problem.exact
    halves_are_too_large = fit.exact and in_place(len(task.whole))  # an accelerator's exact machine takes more rows
    if few_or_other_loss or halves_are_too_large or fit.progress.cut():
        return None
    judged = best_plan(fit, plans(fit, chosen), chosen, budget)
    if judged is None:
        return None
    best, trial = judged
    partitions = partitions_for(fit, best.seconds, budget)
    return _decided(fit, chosen, best, trial, partitions) if partitions and not was_stopped(fit) else None


def partitions_for(fit: Fit, seconds: float, budget: Budget | None) -> int:
    """How many, where every row takes so many seconds of one worker."""
    rows, (most, least) = len(fit.task.whole), fit.settings.partitions
    partitions = int(np.clip(fit.settings.partitioned // rows, least, most))
    if budget is None:
        return partitions
    each = seconds * rows / fit.executor.workers
    return min(partitions, max(0, int(SHARE_OF_LEAVES * budget.left / each)))


def division_of_loss(fit: Fit, chosen: Sequence[Trial], budget: Budget | None) -> Division:
    """For another loss, beyond the rows of its machine: leaves in any case, judged by least squares."""
    settings = fit.settings
    judged = None if fit.progress.cut() else best_plan(fit, plans(fit, chosen), chosen, budget)
    plan = judged[0].plan if judged is not None else replace(plans(fit, chosen)[0], steps=0)
    plan = replace(plan, size=min(plan.size, settings.leaf_of_loss))
    index = judged[1].index if judged is not None else torch.arange(0)
    rows, partitions = round(fit.task.rows[index].given), settings.partitions_of_loss if budget is None else 1
    parts = {"size": plan.size, "steps": plan.steps, "partitions": partitions, "share": 0.0}
    event = LeavesChosen(taken=True, rows=rows, **parts)  # type: ignore[arg-type]
    fit.progress.report(event)
    return Division(event, plan, fit.task.rows.Y[:0], index, 1.0, None)


def best_plan(
    fit: Fit, options: list[LeafPlan], chosen: Sequence[Trial], budget: Budget | None
) -> tuple[Judgement, LeafTrial] | None:
    """The best plan on rows set aside; None where they are too few, or there is no time."""
    task, settings = fit.task, fit.settings
    if budget is not None and _seconds(fit, options[0], budget) > SHARE_OF_TRIAL * budget.left:
        return None
    (fold, judge), *_ = fit.judges.items()
    out = judge.out if fit.exact else torch.from_numpy(np.flatnonzero(task.fold_of == fold))
    smallest = min(plan.size for plan in options) * 4 // 5
    kernels, rest = handed(chosen, float(task.rows.weight.sum())), task.training_part(fold)
    largest = len(rest) if fit.exact else settings.branch_rows
    trial = LeafTrial(task.rows, rest, out, kernels, smallest, largest, fit.rng, settings, fit.progress, task.clip)
    if len(trial.index) < FEWEST_JUDGED:
        return None
    best = _compared(fit, trial, options if budget is None else options[:1])
    return None if best is None else (best, trial)


def _compared(fit: Fit, trial: LeafTrial, options: list[LeafPlan]) -> Judgement | None:
    """The best plan; None after a stop.

    Larger leaves are tried as long as they are better, and take longer. Steps are left out where that is better by
    more than a standard error; where an exact machine has a part, they also make the partitions differ.
    """
    rows = fit.task.rows[trial.index]
    best = judged_plan(fit, trial, options[0])
    for plan in options[1:]:
        if was_stopped(fit):
            return None
        option = judged_plan(fit, trial, plan)
        if not _better(fit, option, best, rows, 0.0):
            break
        best = option
    if fit.exact or not best.plan.steps:
        return best
    if was_stopped(fit):
        return None
    option = judged_plan(fit, trial, replace(best.plan, steps=0))
    return option if _better(fit, option, best, rows, 1.0) else best


def was_stopped(fit: Fit) -> bool:
    """What is judged after a wish to stop was not grown to the end."""
    return fit.progress.stopped and fit.progress.cut()


def _better(fit: Fit, option: Judgement, than: Judgement, rows: Rows, margin: float) -> bool:
    """By more than so many standard errors."""
    losses = [leaf_losses(fit, one.plan, one.t.mean(0), rows)[0] for one in (than, option)]
    gain, error = rows.mean(losses[0] - losses[1])
    return gain > margin * error


def leaf_losses(fit: Fit, plan: LeafPlan, t: torch.Tensor, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """What is compared, and squared errors, row by row: of classes in leaves log-losses, and the squared errors of
    2p - 1, each half with the slopes of the other.
    """
    if classes_in_leaves(fit) and rows.given >= FEWEST_CALIBRATED:
        return plan.reads(cast(Classes, fit.wanted.target)).crossed(t, rows)
    squares = ((t - rows.Y) ** 2).sum(1)
    return squares, squares


def classes_in_leaves(fit: Fit) -> bool:
    """Whether leaves are for classes, by least squares or the logistic loss, beyond the rows of an exact machine."""
    problem, target = fit.wanted.problem, fit.wanted.target
    known = problem.exact or type(problem.loss) is Logistic
    return known and target.classes and not target.expands and not fit.exact


def _seconds(fit: Fit, plan: LeafPlan, budget: Budget) -> float:
    """About what it takes to judge a plan: steps of all nodes, twice as many as leaves, and machines of leaves."""
    settings, n = fit.settings, len(fit.task.rows)
    leaves = 2 * min(n, settings.branches * settings.branch_rows) / plan.size
    machine = 10 * plan.size**3 / SPEED  # a width and a c, each by some factors and inverses
    return leaves * (2 * budget.steps(plan.steps, plan.batch, 1) + machine) / fit.executor.workers


def judged_plan(fit: Fit, trial: LeafTrial, plan: LeafPlan) -> Judgement:
    # rows that were given several times are in several pieces here, and in one when all leaves are grown
    pieces = replace(plan, size=round(plan.size * len(fit.task.rows) / len(fit.task.whole)))
    judgement, rows = replace(trial.judge(pieces, fit.executor), plan=plan), fit.task.rows[trial.index]
    losses, squares = leaf_losses(fit, plan, judgement.t.mean(0), rows)
    event = LeavesJudged(
        size=plan.size,
        steps=plan.steps,
        honest=rows.mean(squares)[0],
        rows=round(rows.given),
        log_loss=rows.mean(losses)[0] if classes_in_leaves(fit) else None,
    )
    fit.progress.report(event)
    return judgement


def _decided(fit: Fit, chosen: Sequence[Trial], best: Judgement, trial: LeafTrial, partitions: int) -> Division | None:
    task, settings, plan = fit.task, fit.settings, best.plan
    rows, rest = task.rows[trial.index], trial.rest
    t_0 = machine_beside(fit, chosen, rest)(rows.X).clamp(-task.clip, task.clip).to(rows.Y)
    share = best_share(t_0 - rows.Y, best.t - rows.Y, rows.weight, partitions)
    if fit.exact:  # few rows say little about the best share, and a half has seldom been far from it
        share = (share + 0.5) / 2
    share = round(20 * share) / 20
    share = 0.0 if share < settings.least_share else share
    t = share * t_0 + (1 - share) * best.t.mean(0)
    gain, error = rows.mean(((t_0 - rows.Y) ** 2 - (t - rows.Y) ** 2).sum(1))
    taken = share < 0.95 and gain > settings.leaf_margin * error
    refinement = None if task.refinement is None else task.refinement.sharpened(t, rows)
    more: dict[str, Any] = told(t, rows, refinement)
    alone = told(t_0, rows, None if task.refinement is None else task.refinement.sharpened(t_0, rows))
    event = LeavesChosen(
        taken=taken,
        size=plan.size,
        steps=plan.steps,
        partitions=partitions,
        share=share,
        without=alone["risk"],
        **more,
    )
    fit.progress.report(event)
    if not taken:
        return None
    single = float(rows.weight @ ((best.t - rows.Y) ** 2).sum(2).mean(0) / rows.weight.sum())
    criterion = trial.criterion(best, fit.executor)
    optimism = (single / criterion) ** 0.5 if criterion > 0 else 1.0
    return Division(event, plan, t, trial.index, optimism, refinement)


def machine_beside(fit: Fit, chosen: Sequence[Trial], index: torch.Tensor) -> Machine:
    """The machine on all of these rows of the task or, where they are too many, on some centres."""
    task, settings = fit.task, fit.settings
    if fit.exact:
        kernels, _ = fit.kernels_of(chosen, len(index))
        return train(mean_kernel(kernels), task.rows[index], mean_lam(chosen))
    order = torch.from_numpy(fit.rng.permutation(len(index))[: settings.beside])
    return on_few_centres(fit, chosen, task.rows[index[order]])


def on_few_centres(fit: Fit, chosen: Sequence[Trial], rows: Rows) -> Machine:
    """Beside leaves, or in the place of those that a stop has left out."""
    settings, given = fit.settings, fit.task.lams
    order = torch.from_numpy(fit.rng.permutation(len(rows)))
    centres, held_out = min(settings.centres_beside, len(rows) // 2), min(settings.rows_for_lam, len(rows) // 5)
    parts = order[:centres].sort()[0], order[centres : centres + held_out].sort()[0]
    lam, (kernels, _) = mean_lam(chosen), fit.kernels_of(chosen, centres)
    lams = [lam * factor for factor in settings.lams_around] if len(given) > 1 else [float(given[0])]
    return train_on_centres(mean_kernel(kernels), rows, lams, *parts, fit.task.clip, fit.progress)


def divided(fit: Fit, division: Division, chosen: Sequence[Trial], whole: Machine | None) -> Machine | None:
    """The mean of the partitions, and of the machine on all rows by its share; None if a stop left no leaf."""
    rows = fit.task.whole
    X = rows.X.float()
    kernels = handed(chosen, float(rows.weight.sum()))

    def stand_in() -> Machine:
        own = division.plan.stands_in(rows, X, kernels[0], fit.rng)
        return own or (whole if whole is not None else on_few_centres(fit, chosen, rows))

    grown: list[InLeaves] = []
    for number in range(division.event.partitions):
        if number and fit.progress.cut():
            break
        machine = grow(
            rows, X, kernels[number % len(kernels)], division.plan, number, fit.rng, fit.settings, fit.executor,
            fit.progress, fit.task.clip, stand_in,
        )  # fmt: skip
        complete = machine is not None and machine.stand_in is None
        if machine is not None and (complete or not grown):
            grown.append(machine)
    if not grown:
        return None if fit.wanted.problem.exact else stand_in()
    complete = all(machine.stand_in is None for machine in grown)
    if len(grown) < division.event.partitions or not complete:
        fit.progress.report(
            replace(division.event, partitions=len(grown), stopped=True, risk=None, wrong=None, log_loss=None)
        )
    if whole is None or not division.share:
        return grown[0] if len(grown) == 1 else MeanOfMachines(tuple(grown))
    return division.plan.mean(whole, grown, division.share)
