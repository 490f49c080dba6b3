"""A tree for what the chosen ones leave.

Gradients first see columns that matter by themselves. Columns that matter only together, as in y = … + sin(6 x₁) x₂,
lose their weights before they are noticed, but stand out once the rest is taken away:

    r_i = y_i - f(x_i),      f trained on rows that i is not among
    k_r                      a tree learned on (x_i, r_i) by leave-one-out gradients
    k   = (a k̄ + a_r k_r) / (a + a_r)

with the mean k̄ of the chosen kernels. A kernel's amplitude a is the variance of the noise by c = nλ, so that
a_r / a = c / c_r; multiples of this are compared by rows that no gradient has seen, and k̄ stays unless one of them is
clearly better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.events import Chosen
from hgk.kernels import HierarchicalKernel, pruned
from hgk.learners.default.average import PLAIN, Averages, Trial, kernel_without, losses_of, mean_lam, unseen_by
from hgk.learners.default.judge import judge_lams
from hgk.machines import Rows, train
from hgk.optimisers import Adam
from hgk.optimisers.steps import Steps

if TYPE_CHECKING:
    from hgk.learners.default.effort import Budget
    from hgk.learners.default.learner import Fit
    from hgk.learners.default.settings import Settings
    from hgk.optimisers.runs import AdamRun

REMAINDER = "what is left"
# Multiples of a_r / a to choose from, and standard errors by which rows set aside have to speak for it.
RATIOS, CLEARLY = (0.2, 1.0, 5.0), 2.0
# a_r / a lies between these.
BETWEEN = 0.02, 50.0
# The share of the remainder's variance that a first round has to explain, on rows it has not seen, to be gone on with.
NOTICED = 0.02
# The share of a budget that may be spent.
SHARE_OF_REMAINDER = 0.1


def with_remainder(fit: Fit, chosen: list[Trial], budget: Budget | None) -> list[Trial]:
    """The chosen trials, and as many for what they leave as are clearly better with."""
    settings, kinds = fit.settings, fit.learner.kinds(fit.task)
    few_rows = not len(next(iter(fit.judges.values())).watched)
    if few_rows or fit.learner.build is not None or not kinds or chosen[0].name == PLAIN:
        return chosen
    rng = deepcopy(fit.rng)  # what is drawn for fits without a remainder stays the same
    for number in range(settings.remainders):
        if fit.progress.cut() or (budget is not None and _seconds(fit, budget) > SHARE_OF_REMAINDER * budget.left):
            break
        left, watched = leftover(fit, chosen, rng)
        trial = learned_on(fit, left, watched, rng, f"{REMAINDER} {number + 1}" if number else REMAINDER)
        better = None if trial is None else averaged_with(fit, chosen, trial)
        if better is None:
            break
        chosen = better
        told = Averages(fit.task, unseen_by(chosen, fit.judges)).told(chosen)
        fit.progress.report(Chosen(candidates=tuple(t.name for t in chosen), **told))  # type: ignore[arg-type]
    return chosen


def _seconds(fit: Fit, budget: Budget) -> float:
    steps = sum(budget.steps(steps, batch, 1) for steps, batch in rounds(fit.settings))
    return budget.slowness * (steps + 2 * budget.judging(1, 1, 1))  # residuals, and what is compared in the end


def rounds(settings: Settings) -> tuple[tuple[int, int], tuple[int, int]]:
    """Steps and rows per step: half of the usual first round, which notices what is there, then the second."""
    steps, batch = settings.first
    return (steps // 2, batch), (settings.second_steps[0], settings.second_batch)


def leftover(fit: Fit, chosen: Sequence[Trial], rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows that gradients may see and those to be watched, with residuals of machines trained without them."""
    (judge, *_), settings, rows = fit.judges.values(), fit.settings, fit.task.rows
    order = judge.training[torch.from_numpy(rng.permutation(len(judge.training)))]
    halves = order[: settings.remainder_rows].chunk(2)
    trained = [half[: settings.judge] for half in halves]
    residuals = [_residuals(fit, chosen, rows[part]) for part in trained]
    parts = [of(rows[half]) for of, half in zip(residuals, reversed(halves), strict=True)]
    return Rows.joined(parts), residuals[0](rows[judge.watched])


def _residuals(fit: Fit, chosen: Sequence[Trial], rows: Rows) -> Callable[[Rows], Rows]:
    """Of other rows, by a machine on these; in single precision, by compiled code where there are many."""
    c = mean_lam(chosen) * float(fit.task.rows.weight.sum())
    machine = train(kernel_without(chosen, 0, len(rows)), rows, c / float(rows.weight.sum()))
    X, alpha = machine.X.float(), machine.alpha.float()

    def of(others: Rows) -> Rows:
        t = machine.kernel.multiply(others.X.float(), X, alpha, often=fit.often)
        return replace(others, Y=others.Y - t.clamp(-fit.task.clip, fit.task.clip).to(others.Y))

    return of


def learned_on(fit: Fit, left: Rows, watched: Rows, rng: np.random.Generator, name: str) -> Trial | None:
    """A tree of the first kind for what is left; None where a first round notices nothing."""
    settings, progress = fit.settings, fit.progress.of(candidate=name, fold=next(iter(fit.judges)))
    deviation = float(((left.Y**2).sum(1) @ left.weight / left.weight.sum()).sqrt())
    if not deviation > 0:
        return None
    left, watched = replace(left, Y=left.Y / deviation), replace(watched, Y=watched.Y / deviation)
    architecture = fit.learner.kinds(fit.task)[0].build(fit.task.features)
    kernel, lam = HierarchicalKernel(architecture, architecture.start(left.spread, rng)), 1e-3
    for number, ((steps, batch), rate) in enumerate(zip(rounds(settings), settings.rates, strict=False)):
        adam = Adam(steps, batch, rate, map_penalty=settings.map_penalty)
        asked = Steps(adam, kernel, left, rng, progress, watched=watched, clip=1 / deviation, lam=lam, often=fit.often)
        (run,) = fit.executor.fulfil([asked])
        kernel, lam = run.result(), run.lam
        if fit.progress.cut() or (number == 0 and not noticed(run, watched)):
            return None
    weight = min(batch, len(left)) * float(left.weight.mean())
    kernel, n = pruned(kernel, left.X, settings.pruning), float(fit.task.rows.weight.sum())
    return Trial(name, [kernel], lam * weight / n, torch.zeros_like(fit.task.rows.Y), remainder=True)


def noticed(run: AdamRun, watched: Rows) -> bool:
    """Whether the last check predicted rows that no gradient has seen better than 0 does."""
    if run.watch is None or not run.watch.checks:
        return False
    before, after = (watched.Y**2).sum(1), run.watch.checks[-1][0]
    gain, error = watched.mean(before - after)
    return gain > max(error, NOTICED * watched.mean(before)[0])


def averaged_with(fit: Fit, chosen: Sequence[Trial], trial: Trial) -> list[Trial] | None:
    """The trials with shares of one mean kernel, and its λ and predictions; None where it is not clearly better.

    The first fold decides, whose rows the trial's kernel has not seen.
    """
    task, judged = fit.task, Joined(fit, chosen, trial, 0)
    rows = judged.rows

    ratio = mean_lam(chosen) / trial.lam
    options = [float(np.clip(ratio * factor, *BETWEEN)) for factor in RATIOS]
    results = [judged(option / (1 + option)) for option in options]
    number = min(range(len(options)), key=lambda i: float(rows.weight @ losses_of(task, results[i][0], rows)))
    part, (t, best) = options[number] / (1 + options[number]), results[number]
    gain, error = rows.mean(losses_of(task, judged(0.0)[0], rows) - losses_of(task, t, rows))
    if not gain > CLEARLY * error:
        return None
    everywhere = torch.zeros_like(task.rows.Y)
    everywhere[judged.judge.out] = t
    for place in range(1, len(fit.judges)):
        fold = Joined(fit, chosen, trial, place)
        everywhere[fold.judge.out] = fold(part, best)[0]
    trials = [*chosen, replace(trial, share=options[number] * sum(t.share for t in chosen))]
    lam = float(judge_lams(task, fit.settings)[best])
    return [replace(one, lam=lam, t=everywhere) for one in trials]


class Joined:
    """The mean kernel of one fold with a part of the remainder's, as the fold's judge sees it."""

    def __init__(self, fit: Fit, chosen: Sequence[Trial], trial: Trial, place: int):
        self.judge, self.task = list(fit.judges.values())[place], fit.task
        self.c = mean_lam(chosen) * float(fit.task.rows.weight.sum())
        self.rows, X = fit.task.rows[self.judge.out], self.judge.rows_of(fit.task).X.float()
        self.K = kernel_without(chosen, place, len(self.judge.machine)).matrix(X)
        self.K_r = trial.kernels[0].matrix(X)

    def __call__(self, part: float, best: int | None = None) -> tuple[torch.Tensor, int]:
        """Predictions of the rows set aside with this part, and the number of their λ, the best unless given."""
        given = best is not None
        risks, t = self.judge.solved(torch.lerp(self.K, self.K_r, part), self.task, c=self.c, complete=given)
        best = int(risks[0].argmin()) if best is None else best
        return t[0, best], best
