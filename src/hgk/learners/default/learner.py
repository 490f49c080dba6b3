"""The default learner: weights by leave-one-out gradients, kinds of trees chosen on rows no gradient has seen.

set a fold of the rows aside (several folds when rows are few)
if labels have few values and the plain kernel does better so, take a column for each
for every kind of tree: learn its weights on the other rows, by small and then by larger batches;
    drop the weights that hardly matter; predict the rows set aside at every λ, with the width of the batches
    and with a narrower one
choose all kinds but those without which their average has a smaller error on the rows set aside
let the chosen kernels take some last small steps on all rows, where rows are many
train on the mean of the chosen kernels; with another loss than least squares, take no last steps and choose λ for
    the loss
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hgk.arrays import available_memory, device_of, exact_rows, matrices_to_factor, require_bytes, require_memory
from hgk.events import Centres, Optimism, Planned, Refined
from hgk.executor import Executor, Search
from hgk.kernels import HierarchicalKernel, pruned
from hgk.learners.base import Learned, Learner
from hgk.learners.default.average import (
    PLAIN,
    Averages,
    Trial,
    choose_kinds,
    learned_part,
    mean_lam,
    optimism,
    trial_of,
    unseen_by,
)
from hgk.learners.default.classes import ClassesChoice, choose_loss, is_logistic, logistic_machine
from hgk.learners.default.division import (
    Division,
    classes_in_leaves,
    divided,
    division_of_loss,
    judge_division,
    on_few_centres,
)
from hgk.learners.default.effort import SPEED, Budget, LearningEffort, centres_for, usual_effort
from hgk.learners.default.judge import Judge, Judges, Verdict, at_every_lam, held_out, judge_lams, judge_plain
from hgk.learners.default.kinds import Build, Kind, columns_of, kinds_for, mixed
from hgk.learners.default.leaves_of_classes import judge_classes
from hgk.learners.default.leaves_of_loss import LossLeaves
from hgk.learners.default.remainder import with_remainder
from hgk.learners.default.settings import Settings
from hgk.learners.paper import ByOptimiser
from hgk.machines import Machine, Rows, train, train_on_centres
from hgk.optimisers import Adam
from hgk.optimisers.steps import Steps
from hgk.progress import Progress
from hgk.search import Convex, Task, mean_kernel


@dataclass(frozen=True)
class Default(Learner):
    """The default's learner.

    Parameters
    ----------
    settings : Settings
    build : callable or None
        ``features -> Architecture`` given by the user; None means the kinds of the settings.
    budget : float or None
        Seconds that a fit should take.
    """

    settings: Settings = field(default_factory=Settings)
    build: Build | None = None
    budget: float | None = None

    ranks = robust = steps = in_small_steps = any_loss_in_leaves = True

    def adapted(self, wanted):
        """One tree takes the place of the kinds; several trees and another optimiser are learned as in the paper."""
        given = list(wanted.architectures)
        if wanted.optimiser is None and len(given) == 1 and not given[0].tied:
            return replace(self, budget=wanted.budget, build=lambda features: given[0])
        if wanted.optimiser is None and not given:
            return replace(self, budget=wanted.budget)
        trees = given or [mixed(wanted.features)]
        return ByOptimiser(lambda d, rng: trees, wanted.optimiser or Adam())

    def learn(self, task, rng, progress, executor):
        return Fit(self, task, rng, progress, executor.for_small_steps()).learn()

    def check_size(self, task, workers):
        rows, device = task.rows, task.rows.X.device
        n, d = rows.X.shape
        if n <= exact_rows(device):
            what = "A kernel matrix and its Cholesky factor"
            require_memory(n, n, matrices_to_factor(n), torch.float64, what, device)
            return
        # the rows that gradients are taken on, and a judge's matrices for each worker
        row, judges = d * 8, 2.4 * 4 * (self.settings.judge + self.settings.judged) ** 2 * workers
        fits = max(0, int((available_memory(device) - judges) / row))
        require_bytes(n * row + judges, f"Learning from {n} rows of {d} features", fits, device)

    def kinds(self, task: Task) -> list[Kind]:
        if self.build is not None:
            return [Kind("given", self.build, asked=True)]
        return kinds_for(task.rows.given, task.features, self.settings)


class Fit:
    """One fit: the task as it is to be solved (``wanted``) and as kernels are learned for it, by least squares."""

    def __init__(
        self, learner: Default, wanted: Task, rng: np.random.Generator, progress: Progress, executor: Executor
    ):
        self.learner, self.settings, self.wanted = learner, learner.settings, wanted
        self.rng, self.progress, self.executor, self.begun = rng, progress, executor, time.monotonic()
        self.task = wanted.squared
        self.exact = len(self.task.whole) <= exact_rows(self.task.rows.X.device)
        folds = list(self.task.folds)[: self._folds_aside()]
        self.judges = {fold: Judge.of(self.task, fold, rng, self.settings) for fold in folds}
        # so many steps that compiled code pays
        self.often = self.task.rows.given >= self.settings.few

    def _folds_aside(self) -> int:
        """Folds that are set aside in turn: with few rows a single one says too little, and kernels that were learned
        without different folds make a better mean. It takes time, which a budget, many classes, other losses and leaves
        want for more.
        """
        few, more = self.settings.aside
        if self.task.rows.given < self.settings.few:
            return few
        classes, columns = self.wanted.target.classes, self.task.rows.Y.shape[1]
        wanted = (self.wanted.problem.exact or is_logistic(self)) and self.learner.budget is None
        wanted = wanted and (not classes or columns <= self.settings.outputs)
        undivided = self.exact and len(self.task.whole) <= self.settings.divided
        return more if wanted and undivided else 1

    def learn(self) -> Learned:
        plain = self.refine() if self.wanted.problem.exact else None
        effort, budget = self.plan()
        trials, self.judges = Trials(self, effort, budget).judged(plain)
        chosen = choose_kinds(trials, self.task, self.judges, self.progress, self.settings.members if self.exact else 1)
        chosen = with_remainder(self, chosen, budget)
        probable = classes_in_leaves(self)
        if not (self.exact or self.wanted.problem.exact or probable):
            leaves = LossLeaves(self, division_of_loss(self, chosen, budget), chosen)
            self.progress.deadline = float("inf") if budget is None else budget.ends
            return Learned(leaves.grow(), self.wanted.target)
        division = (judge_classes if probable else judge_division)(self, chosen, budget)
        classes = choose_loss(self, chosen, budget) if division is None else None
        if classes is not None:
            return self.of_classes(classes, effort, budget)
        chosen = self.last_round(chosen, effort, budget, division)
        seconds = None if self.learner.budget is None else self.learner.budget - (time.monotonic() - self.begun)
        if seconds is not None and not self.wanted.problem.exact:
            self.progress.deadline = time.monotonic() + 0.5 * seconds  # for λ; the rest is for the machines
        if division is not None:
            self.progress.deadline = float("inf") if budget is None else budget.ends
            learned = self.divide(chosen, division)
            if learned is not None:
                return learned
        refinement = Averages(self.task, unseen_by(chosen, self.judges)).refinement(chosen)
        refined = refinement is not None and refinement.simplest is refinement
        machine = self.train(chosen, self.task if refined else self.wanted, seconds)
        return Learned(machine, refinement if refined else self.wanted.target)  # type: ignore[arg-type]

    def of_classes(self, choice: ClassesChoice, effort: LearningEffort, budget: Budget | None) -> Learned:
        """What was chosen, on all rows; probabilities and the error come from rows set aside."""
        chosen = self.last_round(choice.chosen, effort, budget, classes=choice)
        machine = self.train(chosen, self.task, None) if choice.c is None else logistic_machine(self, choice, chosen)
        return Learned(machine, choice.target)

    def divide(self, chosen: list[Trial], division: Division) -> Learned | None:
        """The machine in leaves; what the target learns from rows not seen, it learns from those set aside.

        None if a stop has left no leaf.
        """
        refinement, target, learned_on = division.refinement, self.wanted.target, self.task
        if refinement is not None and refinement.simplest is refinement:
            target = refinement
        else:
            self.task = self.wanted.squared
        target = division.plan.reads(target)
        if target.calibrates and len(division.index):
            target = target.fitted(division.t.cpu(), self.task.rows[division.index].to(device_of("cpu")))
        whole = None
        if division.share:
            rows = self.task.whole
            whole = self.train(chosen, self.task, None) if self.exact else on_few_centres(self, chosen, rows)
        machine = divided(self, division, chosen, whole)
        if machine is not None:
            return Learned(machine, target)
        self.task = learned_on
        self.progress.report(replace(division.event, taken=False, stopped=True))
        return None

    # ------------------------------------------------------------------------------------------------- planning

    def refine(self) -> list[Verdict] | None:
        """Let the task have the columns of a refined target, where the plain kernel predicts the rows set aside better
        so; and what the judges said of that kernel, if they were asked.

        λ and the variant are chosen on one half of the rows set aside and compared on the other, both ways, so that it
        is not the larger number of options that wins.
        """
        task, given = self.task, self.task.rows.given
        few_rows = given < self.settings.fewest
        options = [] if few_rows else self.settings.refinements(task.target, task.rows.Y, given)
        if not options:
            return None
        refinement = options[0]
        columns = task.refined(refinement)
        if not refinement.more_columns:
            self.task = columns if given >= self.settings.sharpened else task
            return None
        if not self._time_to_compare():
            return None
        children = [np.random.default_rng(self.rng.integers(2**32)) for _ in range(2)]  # the kinds' own are spawned
        of_numbers, of_columns = self.executor.run(
            [
                lambda way=way, child=child: judge_plain(way, self.judges, child, self.progress, self.settings)  # type: ignore
                for way, child in zip((task, columns), children, strict=True)
            ]
        )
        t_numbers, t = at_every_lam(of_numbers), at_every_lam(of_columns)
        if not (len(t_numbers) and len(t)):
            return None
        index = held_out(self.judges)
        y, share = task.rows.Y[index], task.rows.weight[index] / task.rows.weight[index].sum()
        number = _crossed(t_numbers[None], y, share)
        level = _crossed(torch.stack([variant.decode(t) for variant in refinement.variants()]), y, share)
        told = Refined(values=columns.rows.Y.shape[1], taken=level < number, number=number, level=level)
        self.progress.report(told)
        self.task = columns if told.taken else task
        return of_columns if told.taken else of_numbers

    def _time_to_compare(self) -> bool:
        """Whether the factors of the columns take a small part of the budget."""
        lams, budget = self.settings.judged_lams, self.learner.budget
        operations = sum(lams * len(judge.machine) ** 3 / 3 for judge in self.judges.values())
        return budget is None or operations / SPEED < 0.1 * budget

    def plan(self) -> tuple[LearningEffort, Budget | None]:
        """The usual effort, or what the budget buys."""
        task, seconds = self.task, self.learner.budget
        outputs = task.rows.Y.shape[1]
        effort = usual_effort(task.rows.given, columns_of(task.features), outputs, self.settings)
        if seconds is None:
            return effort, None
        budget = Budget(seconds, self.begun, task, self.learner.kinds(task), self.rng, self.settings)
        budget.keep_for_training(self.wanted, seconds)
        effort = budget.first(effort, len(self.judges), self.executor.workers)
        self.progress.report(Planned(kinds=effort.kinds, steps=effort.steps, batch=effort.batch))
        self.progress.deadline = budget.ends - budget.reserve
        return effort, budget

    # ------------------------------------------------------------------------------------------------- training

    def last_round(
        self,
        chosen: list[Trial],
        effort: LearningEffort,
        budget: Budget | None,
        division: Division | None = None,
        classes: ClassesChoice | None = None,
    ) -> list[Trial]:
        """Measure optimism, then some last steps of the learned kernels on all rows, where there are many."""
        if budget is not None and self.task.rows.given >= self.settings.many:
            steps, batch = budget.last(sum(not t.remainder for t in chosen), self.executor.workers)
            effort = replace(effort, last_steps=steps, last_batch=batch)
        if self.wanted.problem.exact and not self.wanted.target.classes and not self.progress.stopped:
            self._report_optimism(chosen, division)
        if not self.exact or (classes is None and not self.wanted.problem.exact):
            return chosen
        if not effort.last_steps or self.progress.cut():
            return chosen
        return self._last_steps(chosen, effort, classes)

    def _report_optimism(self, chosen: Sequence[Trial], division: Division | None) -> None:
        """Of the machine on all rows and of leaves, in proportion to their shares."""
        ratio, share = 1.0, 1.0 if division is None else division.share
        if self.exact and share:
            ratio = optimism(chosen, self.task, unseen_by(chosen, self.judges), self.settings)
        if division is not None:
            ratio = share * ratio + (1 - share) * division.optimism
        if self.exact or division is not None:
            self.progress.report(Optimism(ratio=ratio))

    def _last_steps(
        self, chosen: Sequence[Trial], effort: LearningEffort, classes: ClassesChoice | None
    ) -> list[Trial]:
        """On all rows, also on those set aside and watched, more than a quarter.

        With larger batches still, and at so low a rate that what was chosen stays what it is, also the width that the
        trial's ``batch`` wants; c = nλ is that of the judge. Kernels that were moved by the logistic loss go on so.
        """
        rows, n, part = self.task.rows, len(self.task.rows), learned_part(chosen)
        learned = [(t, kernel) for t in chosen if t.name != PLAIN and not t.remainder for kernel in t.kernels]
        rate = self.settings.rates[2]
        criterion, c = (None, None) if classes is None or not classes.moved else (classes.criterion, classes.c)
        settings = Adam(
            effort.last_steps,
            min(n, effort.last_batch),
            rate,
            map_penalty=self.settings.map_penalty,
            criterion=criterion,
        )
        weight = settings.batch * float(rows.weight.mean())
        asked = [
            Steps(
                settings,
                kernel,
                rows,
                child,
                self.progress.of(candidate=trial.name),
                lam=(trial.lam * float(rows.weight.sum()) if c is None else c) / part / weight,
                often=self.often,
            )
            for (trial, kernel), child in zip(learned, self.rng.spawn(len(learned)), strict=True)
        ]
        kernels: dict[str, list[HierarchicalKernel]] = {}
        for (trial, _), run in zip(learned, self.executor.fulfil(asked), strict=True):
            kernels.setdefault(trial.name, []).append(run.result())
        return [replace(trial, kernels=kernels[trial.name]) if trial.name in kernels else trial for trial in chosen]

    def train(self, chosen: list[Trial], task: Task, seconds: float | None) -> Machine:
        """Every trial has the same share, divided among its folds' kernels; on centres the best trial is alone.

        If it is plain alone, (λ, γ) are chosen again by all folds, as with the preset "plain", unless the grid would be
        too much; then they stay as judged.
        """
        rows, first = task.whole, chosen[0]
        if not self.exact:
            return self.on_centres(chosen, task, seconds)
        if [trial.name for trial in chosen] == [PLAIN]:
            outputs = rows.Y.shape[1]
            too_much = outputs > self.settings.outputs and len(task.rows) ** 2 * outputs > self.settings.grid
            if task.problem.exact and too_much:
                return train(first.kernels[0], rows, first.lam)
            return task.problem.machine(first.kernels[0].with_gamma(1.0), task, self.progress)
        kernels, unseen = self.kernels_of(chosen, len(task.rows))
        if isinstance(task.problem, Convex):
            lams = judge_lams(task, self.settings)
            return task.problem.mean_machine(kernels, task.rows, task.fold_of, lams, self.progress, unseen)
        return train(mean_kernel(kernels), rows, mean_lam(chosen))

    def kernels_of(self, chosen: Sequence[Trial], n: int):
        """The kernels with their shares, for n rows; and for each fold set aside those that were learned without it."""
        kernels: list[tuple[HierarchicalKernel, float]] = []
        unseen: dict[int, list[int]] = {fold: [] for fold in self.judges}
        for trial in chosen:
            for kernel, fold in zip(trial.kernels_for(n), self.judges, strict=False):
                for other in [fold] if len(trial.kernels) > 1 else self.judges:  # plain's width is of none of them
                    unseen[other].append(len(kernels))
                kernels.append((kernel, trial.share / len(trial.kernels)))
        return kernels, unseen

    def on_centres(self, chosen: Sequence[Trial], task: Task, seconds: float | None) -> Machine:
        rows, settings = task.whole, self.settings
        n = len(rows)
        size = centres_for(n, seconds, available_memory(rows.X.device), settings.centres)
        self.progress.report(Centres(centres=size, rows=n, candidate=chosen[0].name))
        order = torch.from_numpy(self.rng.permutation(n))
        parts = order[:size].sort()[0], order[size : size + min(settings.rows_for_lam, n // 5)].sort()[0]
        kernels, _ = self.kernels_of(chosen, size)  # detail beyond the centres is not to be had
        # with many more rows than judged the best λ may have moved
        lam, given = mean_lam(chosen), task.lams
        lams = [lam * factor for factor in settings.lams_around] if len(given) > 1 else [float(given[0])]
        return train_on_centres(mean_kernel(kernels), rows, lams, *parts, task.clip, self.progress)


def _crossed(options: torch.Tensor, y: torch.Tensor, share: torch.Tensor) -> float:
    """The error if each row is predicted by the option, of (variants, λ), that is best on the other half of rows."""
    losses = ((options - y) ** 2)[..., 0].flatten(0, 1)
    odd = torch.arange(len(y), device=y.device) % 2 == 1
    best = [losses[int((losses[:, half] @ share[half]).argmin())] for half in (odd, ~odd)]
    return float(share @ torch.where(odd, best[1], best[0]))


# ---------------------------------------------------------------------------------------------------------- trials


class Trials:
    """Plain, and every kind on every fold set aside, as many at a time as there are workers."""

    def __init__(self, fit: Fit, effort: LearningEffort, budget: Budget | None):
        self.fit, self.effort, self.budget = fit, effort, budget
        task, judges = fit.task, fit.judges
        self.kinds = fit.learner.kinds(task)[: effort.kinds]
        # The first is first; then the slower ones, so that the last to end does not end alone.
        self.jobs = [(kind, fold) for fold in judges for kind in [*self.kinds[:1], *self.kinds[:0:-1]]]
        self.rng_of_plain, *children = fit.rng.spawn(1 + len(self.jobs))
        parts = {fold: task.rows[judge.training] for fold, judge in judges.items()} if self.jobs else {}
        self.attempts = [
            Attempt(
                kind, effort, fit, judges[fold], parts[fold], child, fit.progress.of(candidate=kind.name, fold=fold)
            )
            for (kind, fold), child in zip(self.jobs, children, strict=True)
        ]

    def judged(self, plain: list[Verdict] | None) -> tuple[list[Trial], Judges]:
        """The trials, and the folds that they were judged on; ``plain`` are verdicts on the plain kernel, if known.

        After a stop, only the folds that the first kind came through are judged, and the kinds that came to all of
        these. A tree that was asked for is not exchanged for the plain kernel.
        """
        fit = self.fit
        if self.budget is not None and self.attempts:
            self._first_round(self.budget)
        searches: list[Search] = [attempt.to_the_end() for attempt in self.attempts]
        wanted = plain is None and fit.learner.build is None
        if wanted:
            searches.append(self._plain())
        verdicts = fit.executor.drive(searches)
        plain = verdicts.pop() if wanted else plain
        runs = {(kind.name, fold): v for (kind, fold), v in zip(self.jobs, verdicts, strict=True) if v}
        through = self._through(runs)
        named = [(kind.name, [runs.get((kind.name, fold)) for fold in through]) for kind in self.kinds]
        if plain is not None and fit.learner.build is None:
            named.insert(0, (PLAIN, [v for v, fold in zip(plain, fit.judges, strict=True) if fold in through]))
        parts = fit.task, through, fit.settings, fit.progress
        return [trial_of(name, judged, *parts) for name, judged in named if all(judged)], through  # type: ignore[arg-type]

    def _plain(self) -> Search[list[Verdict]]:
        yield from ()  # it asks for nothing
        fit = self.fit
        return judge_plain(fit.task, fit.judges, self.rng_of_plain, fit.progress, fit.settings)

    def _first_round(self, budget: Budget) -> None:
        """The first round alone, and a second one as large as what is left then buys."""
        begun, folds, workers, effort = time.monotonic(), len(self.fit.judges), self.fit.executor.workers, self.effort
        self.fit.executor.drive([attempt.next_round() for attempt in self.attempts])
        expected = budget.steps(effort.steps, effort.batch, effort.kinds, folds, workers)
        budget.learn(time.monotonic() - begun, expected)
        if budget.rows.given >= self.fit.settings.many:
            steps, batch = budget.second(effort, folds, workers)
            for attempt in self.attempts:
                attempt.further(steps, batch)

    def _through(self, runs: dict[tuple[str, int], Verdict]) -> Judges:
        """The folds that the first kind came through, else those it came to, else all."""
        judges = self.fit.judges
        first = {fold: runs.get((kind.name, fold)) for kind in self.kinds[:1] for fold in judges}
        complete = {fold: judge for fold, judge in judges.items() if (v := first.get(fold)) and v.complete}
        return complete or {fold: judge for fold, judge in judges.items() if first.get(fold)} or judges


class Attempt:
    """One kind on one fold: its rounds, and the verdict."""

    def __init__(self, kind: Kind, effort: LearningEffort, fit: Fit, judge: Judge, part: Rows, rng, progress: Progress):
        self.kind, self.task, self.settings, self.judge = kind, fit.task, fit.settings, judge
        self.often = fit.often
        self.rng, self.progress = rng, progress
        self.part = part  # the judge's training rows, which all kinds share
        self.watched = fit.task.rows[judge.watched] if len(judge.watched) else None
        architecture = kind.build(fit.task.features)
        self.kernel = HierarchicalKernel(architecture, architecture.start(self.part.spread, rng))
        self.lam, self.criterion, self.batch = 1e-3, float("nan"), len(self.part)
        rate, penalty = self.settings.rates[0], self.settings.map_penalty
        self.rounds = [Adam(effort.steps, effort.batch, rate, shrink=kind.shrink, map_penalty=penalty)]
        self.through = 0  # rounds
        self.further(effort.more_steps, effort.larger_batch)

    def further(self, steps: int, batch: int) -> None:
        """A second round, if it has steps."""
        if steps:
            self.rounds.append(replace(self.rounds[0], steps=steps, batch=batch, rate=self.settings.rates[1]))

    @property
    def too_late(self) -> bool:
        """There is no time left, and nobody asked for it."""
        return self.progress.cut() and not self.kind.asked

    def next_round(self) -> Search[None]:
        if self.too_late:
            return
        if self.through:
            self.kernel = pruned(self.kernel, self.part.X, 0.1 * self.kind.pruning(self.settings))
        run = yield Steps(
            self.rounds[self.through], self.kernel, self.part, self.rng, self.progress,
            watched=self.watched, clip=self.task.clip, lam=self.lam, often=self.often,
        )  # fmt: skip
        self.kernel, self.lam = run.result(), run.lam
        self.through += 1
        if run.values:  # not stopped between the rounds
            self.criterion, self.batch = run.recent, min(run.settings.batch, len(self.part))

    def to_the_end(self) -> Search[Verdict | None]:
        """The rounds that are left and the verdict; None if it is too late."""
        if self.too_late and not self.through:
            return None
        while self.through < len(self.rounds) and not self.too_late:
            yield from self.next_round()
        return None if self.progress.aborted else self.verdict()

    def verdict(self) -> Verdict:
        kernel = pruned(self.kernel, self.part.X, self.kind.pruning(self.settings))
        said = self.judge(kernel, self.task, self.batch, self.batch * self.lam)
        return Verdict(kernel, self.batch, self.criterion, *said, not self.progress.cut())
