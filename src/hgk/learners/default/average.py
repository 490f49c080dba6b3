"""What is averaged: all kinds but those without which the average has a smaller error on the rows set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch

from hgk.events import Chosen, Judged
from hgk.kernels import HierarchicalKernel, Kernel, MeanKernel
from hgk.learners.default.judge import Judges, Verdict, held_out, judge_lams
from hgk.learners.default.settings import Settings
from hgk.machines import Rows, clipped_risk, train, wrong_classes
from hgk.progress import Progress
from hgk.search import Task
from hgk.targets import FEWEST_CALIBRATED, Classes, Refinement

PLAIN = "plain"
# Multiples of the smallest squared error up to which log-losses are compared.
NEARLY = 1.03


@dataclass(frozen=True, eq=False)
class Trial:
    """A kind's kernels, one per held-out fold, and its clipped predictions of the held-out rows at the best λ.

    The kernels have the width that ``batch`` rows want, and n rows γ (n / batch)^-``exponent``. ``share`` is the
    trial's proportion in the mean of the chosen kernels; a ``remainder`` was learned for what the others leave.
    """

    name: str
    kernels: list[HierarchicalKernel]
    lam: float
    t: torch.Tensor
    batch: int = 1
    exponent: float = 0.0
    share: float = 1.0
    remainder: bool = False

    def kernels_for(self, n: int) -> list[HierarchicalKernel]:
        narrower = max(1.0, n / self.batch) ** -self.exponent
        return [kernel.with_gamma(kernel.gamma * narrower) for kernel in self.kernels]


def mean_lam(trials: Sequence[Trial]) -> float:
    """c = nλ is the variance of the noise, of which every trial has its own estimate."""
    return float(np.exp(np.mean([np.log(trial.lam) for trial in trials])))


def learned_part(trials: Sequence[Trial]) -> float:
    """The share of the kernels that were learned for the labels in the mean of all: p k and c are as k and c / p."""
    return sum(trial.share for trial in trials if not trial.remainder) / sum(trial.share for trial in trials)


def kernel_without(chosen: Sequence[Trial], place: int, n: int) -> Kernel:
    """The mean, for n rows, of the kernels that were learned without the fold set aside at this place."""
    kernels = [trial.kernels_for(n)[min(place, len(trial.kernels) - 1)] for trial in chosen]
    return MeanKernel.of(kernels, [trial.share for trial in chosen])


def unseen_by(trials: Sequence[Trial], judges: Judges) -> Judges:
    """The folds of which no kernel used for them has seen the rows set aside: a remainder was learned without the first
    alone.
    """
    return dict(list(judges.items())[:1]) if any(trial.remainder for trial in trials) else judges


class Averages:
    """Averages of trials, by their errors on the rows set aside."""

    def __init__(self, task: Task, judges: Judges):
        self.index, self.task = held_out(judges), task
        self.rows = task.rows[self.index]
        self.share = self.rows.weight / self.rows.weight.sum()
        self.known: dict[tuple[Trial, ...], torch.Tensor] = {}

    def mean(self, members: Sequence[Trial]) -> torch.Tensor:
        return torch.stack([m.t for m in members]).mean(0)[self.index]

    def losses(self, members: Sequence[Trial]) -> torch.Tensor:
        """Squared errors, and of classes log-losses."""
        if tuple(members) not in self.known:
            self.known[tuple(members)] = losses_of(self.task, self.mean(members), self.rows)
        return self.known[tuple(members)]

    def risk(self, members: Sequence[Trial]) -> float:
        return float(self.share @ self.losses(members))

    def refinement(self, members: Sequence[Trial]) -> Refinement | None:
        """How the columns of a refined task are best read, by what these say of the rows set aside."""
        refinement = self.task.refinement
        return None if refinement is None else refinement.sharpened(self.mean(members), self.rows)

    def told(self, members: Sequence[Trial]) -> dict[str, float | int]:
        """The rows, the error of predicted labels, of classes also their log-loss and how many are wrong; and what a
        refinement tells.
        """
        more = {"log_loss": self.risk(members)} if by_log_loss(self.task, self.rows) else {}
        return told(self.mean(members), self.rows, self.refinement(members)) | more

    def gain(self, members: Sequence[Trial], option: Sequence[Trial]) -> tuple[float, float]:
        """What the option gains, and in its standard errors."""
        gain, error = self.rows.mean(self.losses(members) - self.losses(option))
        return gain, gain / error if error > 0 else 0.0

    def clearly_better(self, option: Sequence[Trial], than: Trial) -> bool:
        return self.gain([than], option)[1] > 2

    def without_the_worst(self, learned: Sequence[Trial], most: int) -> list[Trial]:
        """One after the other is left out, the one whose absence gains most: for more than a standard error, since
        averaging seldom does harm, and where there are too many. If it has to be one, it is the best.
        """
        if most == 1:
            return sorted(learned, key=lambda trial: self.risk([trial]))[:1]
        members = list(learned)
        while len(members) > 1:
            options = [[trial for trial in members if trial is not one] for one in members]
            gains = [self.gain(members, option) for option in options]
            (_, errors), option = max(zip(gains, options, strict=True), key=lambda pair: pair[0])
            if errors <= 1 and len(members) <= most:
                break
            members = option
        return members

    def beside(self, plain: Trial, learned: Sequence[Trial], most: int) -> list[Trial]:
        """Plain and what gains a standard error beside it; without plain, if that is clearly better than it."""
        members = [plain]
        while len(members) < most:
            options = [[*members, trial] for trial in learned if trial not in members]
            gains = [self.gain(members, option) for option in options]
            better = [(gain, option) for gain, option in zip(gains, options, strict=True) if gain[1] > 1]
            if not better:
                break
            members = max(better, key=lambda pair: pair[0])[1]
        others = members[1:]
        leave = others and self.clearly_better(others, plain) and self.gain(members, others)[0] > 0
        return others if leave else members


def by_log_loss(task: Task, rows: Rows) -> bool:
    """Whether kernels are compared by the log-loss of these rows: of classes, where there are enough to fit slopes."""
    target = task.target
    return target.classes and not target.expands and task.refinement is None and rows.given >= FEWEST_CALIBRATED


def losses_of(task: Task, t: torch.Tensor, rows: Rows) -> torch.Tensor:
    """What values t of least squares at some rows cost, by which kernels are compared."""
    if by_log_loss(task, rows):
        return replace(cast(Classes, task.target), estimates=True).crossed(t, rows)[0]
    return ((t - rows.Y) ** 2).sum(1)


def told(t: torch.Tensor, rows: Rows, refinement: Refinement | None) -> dict[str, float | int]:
    """What predictions t of some rows tell: the rows, the error of predicted labels, and more as ``Averages.told``."""
    share, many = rows.weight / rows.weight.sum(), {"rows": round(rows.given)}
    if refinement is None:
        return many | {"risk": float(share @ ((t - rows.Y) ** 2).sum(1)), **wrong_classes(t, rows)}
    losses = ((refinement.decode(t) - refinement.contract(rows.Y)) ** 2).sum(1)
    return many | {"risk": float(share @ losses), **refinement.told}


def trial_of(
    name: str, verdicts: Sequence[Verdict], task: Task, judges: Judges, settings: Settings, progress: Progress
) -> Trial:
    """λ and the exponent of the width are chosen on the held-out rows, over all folds: of those that all have tried.

    Of classes, those with nearly the smallest squared error are compared by their log-loss.
    """
    sizes = [task.rows.weight[judge.out].sum() for judge in judges.values()]
    tried = min(len(verdict.risks) for verdict in verdicts)

    def over_folds() -> torch.Tensor:
        return torch.stack([v.risks[:tried] * size for v, size in zip(verdicts, sizes, strict=True)]).sum(0)

    risks = over_folds()
    if not bool(risks.isfinite().any()):  # every fold has left out the λ that the others have solved
        again = [
            judge(v.kernel, task, v.batch, complete=True) for v, judge in zip(verdicts, judges.values(), strict=True)
        ]
        verdicts = [replace(v, risks=risk, predictions=t) for v, (risk, t) in zip(verdicts, again, strict=True)]
        tried = min(len(verdict.risks) for verdict in verdicts)
        risks = over_folds()
    index = held_out(judges)
    rows, predictions = task.rows[index], torch.cat([v.predictions[:tried] for v in verdicts], 2).flatten(0, 1)
    place = int(risks.argmin())
    if by_log_loss(task, rows):
        near = (risks.flatten() <= NEARLY * risks.min()).nonzero()[:, 0].tolist()
        place = min(near, key=lambda near: float(rows.weight @ losses_of(task, predictions[near], rows)))
    narrow, best = divmod(place, risks.shape[1])
    t = torch.zeros_like(task.rows.Y)
    t[index] = predictions[place]
    kernels = [verdict.kernel for verdict in verdicts]
    lam, exponent = float(judge_lams(task, settings)[best]), settings.narrowing[narrow]
    batch = min(verdict.batch for verdict in verdicts)
    trial = Trial(name, kernels[:1] if name == PLAIN else kernels, lam, t, batch, exponent)
    honest = clipped_risk(t[index], rows, task.clip)
    criterion = float(np.mean([verdict.criterion for verdict in verdicts]))
    # of classes how many are wrong; with a column for each value, whose errors are summed above, the label's error
    more = Averages(task, judges).told([trial])
    if task.refinement is None:
        more = {name: value for name, value in more.items() if name in ("wrong", "log_loss")}
    judged = Judged(candidate=name, criterion=criterion, honest=honest, lam=lam, narrowing=exponent)
    progress.report(replace(judged, **more))  # type: ignore[arg-type]
    return trial


def choose_kinds(trials: Sequence[Trial], task: Task, judges: Judges, progress: Progress, most: int) -> list[Trial]:
    """At most so many kinds to be averaged, the best first.

    The learned kinds but those better left out, if they are clearly better than plain; otherwise plain, and what gains
    beside it. To start from one kind and add others for any gain would depend on which is best on these few rows by
    chance.
    """
    averages, (plain, *learned) = Averages(task, judges), trials
    chosen = averages.without_the_worst(learned, most)
    if not (chosen and averages.clearly_better(chosen, plain)):
        chosen = averages.beside(plain, learned, most)
    progress.report(Chosen(candidates=tuple(t.name for t in chosen), **averages.told(chosen)))  # type: ignore[arg-type]
    return sorted(chosen, key=lambda trial: averages.risk([trial]))


def optimism(chosen: Sequence[Trial], task: Task, judges: Judges, settings: Settings) -> float:
    """How much larger errors on rows set aside are than leave-one-out errors on rows that the weights have seen: the
    ratio of their roots, for one machine on the mean of the chosen kernels. 1 where no weights were learned.
    """
    if all(trial.name == PLAIN for trial in chosen):
        return 1.0
    refinement, errors = Averages(task, judges).refinement(chosen), torch.zeros(2, 2, dtype=torch.float64)
    c = float(task.rows.weight.sum()) * mean_lam(chosen)
    for place, judge in enumerate(judges.values()):
        seen, out = task.rows[judge.machine[-settings.seen :]], task.rows[judge.out[: settings.seen]]
        kernel = kernel_without(chosen, place, len(judge.machine))
        machine = train(kernel, seen, c / float(seen.weight.sum()))
        for i, (t, rows) in enumerate(((machine.leave_one_out(seen), seen), (machine(out.X), out))):
            t, Y = t.clamp(-task.clip, task.clip), rows.Y
            t, Y = (t, Y) if refinement is None else (refinement.decode(t), refinement.contract(Y))
            errors[i] += torch.stack([(rows.weight @ (t - Y) ** 2).sum(), rows.weight.sum()]).cpu()
    risks = errors[:, 0] / errors[:, 1]
    return float((risks[1] / risks[0]).sqrt()) if bool((risks > 0).all()) else 1.0
