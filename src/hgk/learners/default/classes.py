"""Classes: least squares or the logistic loss, whichever has the smaller log-loss on rows that no gradient has seen.

    c = nλ of the logistic loss     on the mean of the chosen kernels, by the judges' machines
    moved                           the same after steps of every kernel by logistic leave-one-out gradients, if better
    compared                        least squares, and the logistic loss at c and c/3, by machines on all rows but those
                                    set aside; probabilities of one half of these by slopes that are fitted to the other

Least squares is taken where it is better by more than a standard error. What the machine that is taken says of the rows
set aside makes the map to probabilities, and the error that is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import torch

from hgk.arrays import available_memory, device_of
from hgk.criteria import LogisticLeaveOneOut
from hgk.events import ClassesJudged, LossesCompared
from hgk.kernels import HierarchicalKernel, Kernel
from hgk.learners.default.average import PLAIN, Trial, kernel_without, learned_part, mean_lam
from hgk.learners.default.effort import SPEED
from hgk.learners.default.judge import Judges, held_out
from hgk.logistic import log_losses, zero_or_one
from hgk.losses import Logistic
from hgk.machines import MATRICES_OF_CLASSES, Machine, Rows, kernel_matrix, train, train_classes, wrong_classes
from hgk.optimisers import Adam
from hgk.optimisers.steps import Steps
from hgk.search import Convex, Either, Squares, mean_kernel
from hgk.solvers.classes import solve_classes
from hgk.targets import FEWEST_CALIBRATED, Classes, first_half

if TYPE_CHECKING:
    from hgk.learners.default.effort import Budget
    from hgk.learners.default.learner import Fit

# c = nλ of the path, for rows of weight 1, each a quarter of the one before; it ends after so many that are no better,
# by this part of the log-loss, than the best.
FIRST_C, MOST_C, NO_BETTER, BETTER = 8.0, 10, 2, 1e-3
# The relative gap of machines that are compared.
JUDGED = 1e-4
# Rows from which a judge's kernel matrix in single precision saves time.
SINGLE_FROM = 1000
# A machine costs about as much as this many factorisations.
FACTORS = 6


@dataclass(frozen=True, eq=False)
class LogisticPath:
    """Losses of the rows set aside at every c, (c, rows)."""

    cs: list[float]
    losses: torch.Tensor
    weight: torch.Tensor

    @property
    def c(self) -> float:
        """The largest of those that are as good as the best."""
        order = sorted(range(len(self.cs)), key=lambda i: -self.cs[i])
        risks = (self.losses @ self.weight)[order].tolist()
        return self.cs[order[first_of_the_best(risks)]]

    def crossed(self, share: torch.Tensor) -> torch.Tensor:
        """Losses where each half of the repetitions, by the share of each row, has the c that is best on the other."""
        best = [self.losses[int((self.losses @ (self.weight * part)).argmin())] for part in (share, 1 - share)]
        return share * best[1] + (1 - share) * best[0]


@dataclass(frozen=True, eq=False)
class ClassesChoice:
    """What may be taken, and what is known of it from the rows set aside.

    Attributes
    ----------
    chosen : list of Trial
    c : float or None
        nλ of the logistic loss; None with least squares.
    moved : bool
        Whether kernels took steps by the logistic loss.
    t : tensor
        Values of the rows set aside, clipped, by machines on all others.
    alpha : tensor
        The mean of the coefficients of these, on the distinct rows.
    target : Classes
        In the end with the map to probabilities.
    """

    chosen: list[Trial]
    c: float | None
    moved: bool
    t: torch.Tensor
    alpha: torch.Tensor
    target: Classes

    @property
    def criterion(self) -> LogisticLeaveOneOut | None:
        """Of the last steps."""
        return LogisticLeaveOneOut(single=True) if self.moved else None


def is_logistic(fit: Fit) -> bool:
    """Whether the logistic loss was asked for, of classes one against the rest."""
    problem, target = fit.wanted.problem, fit.wanted.target
    asked = isinstance(problem, Convex) and type(problem.loss) is Logistic
    return asked and target.classes and not target.expands and fit.exact


def choose_loss(fit: Fit, chosen: list[Trial], budget: Budget | None) -> ClassesChoice | None:
    """What is taken, with the map to probabilities.

    None where the labels are no classes, for another loss, and for least squares with too few rows set aside, or where
    (λ, γ) of the plain kernel will be chosen anew: then the map is fitted to leave-one-out values when it is needed.
    """
    forced, problem, rows = is_logistic(fit), fit.wanted.problem, fit.task.rows[held_out(fit.judges)]
    if not (forced or isinstance(problem, Squares)) or not (fit.exact and fit.wanted.target.classes):
        return None
    room = room_for(fit, budget)
    if (forced and not room) or (not forced and rows.given < FEWEST_CALIBRATED):
        return None  # with so little room a path of the loss takes as much time as there is
    # machines on most rows take long: with many rows to judge by, the first fold compares them
    few = fit.task.rows.given < fit.settings.few
    judges = fit.judges if few else dict(list(fit.judges.items())[:1])
    options = [] if forced else values_of(fit, chosen, [None], False, judges)
    either = isinstance(problem, Either) and len(fit.task.lams) > 1
    if forced or (either and room and not fit.progress.cut()):
        options += logistic_options(fit, chosen, budget, judges)
    best = compared(fit, options, fit.task.rows[held_out(judges)])
    if best.c is None and [trial.name for trial in chosen] == [PLAIN]:
        return None
    return reported(fit, in_all_folds(fit, best, judges), rows)


def compared(fit: Fit, options: Sequence[ClassesChoice], rows: Rows) -> ClassesChoice:
    """The one with the smallest loss; least squares only where it is better by more than a standard error."""
    if len(options) == 1:
        return options[0]
    losses = [option.target.crossed(option.t, rows)[0] for option in options]
    risks = [rows.mean(loss)[0] for loss in losses]
    logistic = [i for i, option in enumerate(options) if option.c is not None]
    best = min(logistic, key=risks.__getitem__)
    if len(logistic) == len(options):
        return options[best]
    more, error = rows.mean(losses[best] - losses[0])
    taken = options[0 if more > error else best]
    told = {"rows": round(rows.given), "of_squares": risks[0], "of_logistic": risks[best]}
    fit.progress.report(LossesCompared(logistic=taken.c is not None, moved=taken.moved, **told))  # type: ignore
    return taken


def in_all_folds(fit: Fit, option: ClassesChoice, judges: Judges) -> ClassesChoice:
    """With values of the folds that these judges are not of."""
    others = {fold: judge for fold, judge in fit.judges.items() if fold not in judges}
    if not others:
        return option
    (more,) = values_of(fit, option.chosen, [option.c], option.moved, others)
    share = len(judges) / len(fit.judges)
    alpha = share * option.alpha + (1 - share) * more.alpha
    return replace(option, t=torch.cat([option.t, more.t]), alpha=alpha)


def logistic_options(fit: Fit, chosen: list[Trial], budget: Budget | None, judges: Judges) -> list[ClassesChoice]:
    """The logistic loss at c and c/3, with or without moved kernels; at the λ given, if one is."""
    task, rows = fit.task, fit.task.rows[held_out(fit.judges)]
    cs = [float(task.lams[0] * task.rows.weight.sum())] if len(task.lams) == 1 else []
    best, moved = path(fit, chosen, cs), False
    kernels = None if fit.progress.cut() else moved_kernels(fit, chosen, best.c, budget)
    if kernels is not None and not fit.progress.aborted:
        other = path(fit, kernels, cs)
        share = first_half(rows)
        if rows.mean(best.crossed(share) - other.crossed(share))[0] > 0:
            chosen, best, moved = kernels, other, True
    return values_of(fit, chosen, [best.c] if cs else [best.c, best.c / 3], moved, judges)


def reported(fit: Fit, option: ClassesChoice, rows: Rows) -> ClassesChoice:
    """With the map to probabilities; their error is told."""
    losses, squares = option.target.crossed(option.t, rows)
    risk, log_loss = rows.mean(squares)[0], rows.mean(losses)[0]
    wrong = wrong_classes(option.t, rows).get("wrong")
    fit.progress.report(ClassesJudged(rows=round(rows.given), risk=risk, log_loss=log_loss, wrong=wrong))
    return replace(option, target=calibrated(option.target, option.t, rows))


def room_for(fit: Fit, budget: Budget | None) -> bool:
    """Whether there are memory and, with a budget, time for the machines of the logistic loss."""
    n = len(fit.task.whole)
    if available_memory(fit.task.rows.X.device) < 8 * MATRICES_OF_CLASSES * n**2:
        return False
    if budget is None:
        return True
    seconds = (2 * FACTORS * n**3 + 20 * min(n, fit.settings.judge) ** 3) / 3 / SPEED
    return seconds < 0.3 * budget.left


# -------------------------------------------------------------------------------------------------------- judging


def path(fit: Fit, chosen: Sequence[Trial], given: Sequence[float] = ()) -> LogisticPath:
    """Machines of the judges at falling c, then at twice and half the best; or at those given."""
    task, judges = fit.task, list(fit.judges.values())
    known = [
        JudgedPath(kernel_without(chosen, place, len(judge.machine)), task.rows[judge.machine], task.rows[judge.out])
        for place, judge in enumerate(judges)
    ]
    rows = task.rows[held_out(fit.judges)]
    y, weight = zero_or_one(rows.Y), rows.weight / rows.weight.sum()
    cs, losses, risks = list[float](), list[torch.Tensor](), list[float]()
    first = FIRST_C * float(rows.weight.sum()) / rows.given

    def tried(c: float) -> None:
        losses.append(log_losses(torch.cat([one.at(c) for one in known]), y))
        cs.append(c)
        risks.append(float(losses[-1] @ weight))

    for c in given or [first / 4**k for k in range(MOST_C)]:
        tried(c)
        if len(risks) - 1 - first_of_the_best(risks) >= NO_BETTER:
            break
    if not given:
        best = cs[first_of_the_best(risks)]
        for c in (2 * best, best / 2):
            tried(c)
    return LogisticPath(cs, torch.stack(losses), weight)


def first_of_the_best(risks: Sequence[float]) -> int:
    """The first, with the largest c, than which none is better by much."""
    best = 0
    for place, risk in enumerate(risks):
        if risk < (1 - BETTER) * risks[best]:
            best = place
    return best


class JudgedPath:
    """A judge's machine at one c after the other, each from the one before."""

    def __init__(self, kernel: Kernel, rows: Rows, out: Rows):
        X, X_out = (x.X.float() if len(rows) >= SINGLE_FROM else x.X for x in (rows, out))
        self.K, self.K_out = kernel.matrix(X).double(), kernel.matrix(X_out, X).double()
        self.y, self.weight = zero_or_one(rows.Y), rows.weight
        self.alpha: torch.Tensor | None = None

    def at(self, c: float) -> torch.Tensor:
        """Values of the rows set aside."""
        lam = c / float(self.weight.sum())
        self.alpha = solve_classes(self.K, self.y, self.weight, lam, self.alpha, JUDGED).alpha
        return self.K_out @ self.alpha


def calibrated(target: Classes, t: torch.Tensor, rows: Rows) -> Classes:
    return target.fitted(t.cpu(), rows.to(device_of("cpu")))


# ---------------------------------------------------------------------------------------------------------- steps


def moved_kernels(fit: Fit, chosen: Sequence[Trial], c: float, budget: Budget | None) -> list[Trial] | None:
    """Learned kernels after steps by logistic gradients, on rows that are not set aside; None for nothing to do.

    With many classes, where a step takes long and has seldom paid, only the best kernel.
    """
    settings, task, part = fit.settings, fit.task, learned_part(chosen)
    steps, batch = settings.logistic_steps
    learned = [t for t in chosen if t.name != PLAIN and not t.remainder]
    learned = learned[: 1 if task.rows.Y.shape[1] > settings.outputs else None]
    tied = all(kernel.architecture.tied for trial in learned for kernel in trial.kernels)
    if not learned or tied or not steps:
        return None
    if budget is not None and 2 * budget.steps(steps, batch, len(learned), 1, fit.executor.workers) > 0.2 * budget.left:
        return None
    asked = []
    for trial, rng in zip(learned, fit.rng.spawn(len(learned)), strict=True):
        folds = list(fit.judges.items())
        for (fold, judge), kernel, child in zip(folds, trial.kernels, rng.spawn(len(trial.kernels)), strict=False):
            rows = task.rows[judge.training]
            many = min(batch, len(rows))
            adam = Adam(
                steps, many, settings.logistic_rate, map_penalty=settings.map_penalty,
                criterion=LogisticLeaveOneOut(single=True),
            )  # fmt: skip
            progress = fit.progress.of(candidate=trial.name, fold=fold)
            lam = c / part / (many * float(rows.weight.mean()))
            asked.append(Steps(adam, kernel, rows, child, progress, lam=lam, often=fit.often))
    runs = iter(fit.executor.fulfil(asked))
    kernels: dict[str, list[HierarchicalKernel]] = {}
    for trial in learned:
        kernels[trial.name] = [next(runs).result() for _ in zip(fit.judges, trial.kernels, strict=False)]
    return [replace(trial, kernels=kernels.get(trial.name, trial.kernels)) for trial in chosen]


# ------------------------------------------------------------------------------------------------------- machines


def values_of(
    fit: Fit, chosen: list[Trial], cs: Sequence[float | None], moved: bool, judges: Judges
) -> list[ClassesChoice]:
    """What machines at each c say of the rows that were set aside for these judges, of which they have not seen the
    fold; None: least squares.
    """
    places = {fold: place for place, fold in enumerate(fit.judges)}
    task, wanted = fit.task, cast(Classes, fit.wanted.target)
    t: list[list[torch.Tensor]] = [[] for _ in cs]
    alphas = [torch.zeros_like(task.whole.Y) for _ in cs]
    for fold, judge in judges.items():
        index, weight = task.part(fold)
        rest = task.whole.portion(index, weight)
        kernel = kernel_without(chosen, places[fold], len(task.training_part(fold)))
        c_of_squares = mean_lam(chosen) * float(task.rows.weight.sum())
        for values, alpha, machine in zip(t, alphas, machines_of(kernel, rest, cs, c_of_squares), strict=True):
            alpha[index] += machine.alpha / len(judges)
            values.append(machine(task.rows.X[judge.out]).clamp(-machine.clip, machine.clip))
    return [
        ClassesChoice(chosen, c, moved, torch.cat(values), alpha, replace(wanted, estimates=c is None))
        for c, values, alpha in zip(cs, t, alphas, strict=True)
    ]


def machines_of(kernel: Kernel, rows: Rows, cs: Sequence[float | None], c_of_squares: float) -> Iterator[Machine]:
    """On the same rows, each from the coefficients of the one before."""
    n, start, K = float(rows.weight.sum()), None, None
    for c in cs:
        if c is None:
            yield train(kernel, rows, c_of_squares / n)
            continue
        K = kernel_matrix(kernel, rows, c / n) if K is None else K
        machine = train_classes(kernel, rows, c / n, start, K, JUDGED)
        start = machine.alpha
        yield machine


def logistic_machine(fit: Fit, choice: ClassesChoice, chosen: Sequence[Trial]) -> Machine:
    """The logistic machine on all distinct rows, from coefficients of machines without those set aside."""
    task, c = fit.task, cast(float, choice.c)
    kernels, _ = fit.kernels_of(chosen, len(task.rows))
    return train_classes(mean_kernel(kernels), task.whole, c / float(task.whole.weight.sum()), choice.alpha)
