"""The default learner: weights by leave-one-out gradients, kinds of trees chosen on rows no gradient has seen.

    set a fold of the rows aside (several folds when rows are few)
    if labels have three to forty values and the plain kernel does better so, take a column for each
    for every kind of tree: learn its weights on the other rows, by small and then by larger batches;
        drop the weights that hardly matter; predict the rows set aside at every λ, with the width of the batches
        and with a narrower one
    choose all kinds but those without which their average has a smaller error on the rows set aside
    let the chosen kernels take some last small steps on all rows, where rows are many
    train on the mean of the chosen kernels; with another loss than least squares, take no last steps and choose λ for
        the loss (:mod:`hgk.search.problems`)

The kinds differ in their first-layer nodes and in the features these see:

    plain           the isotropic Gaussian kernel, nothing learned
    mixed           4 smooth and 4 rough nodes on scaled and rank copies
    mixed, shrunk   the same with log-weights pulled to their mean, where rows are few
    warped          4 smooth, 4 oblique, and 4 rough nodes on the steps of each column: a learned monotone warp,
                    since Σ_k a_k |b_k(x) - b_k(x')| = |g(x) - g(x')| with g = Σ_k a_k b_k
    all kinds       4 smooth, 4 rough and 4 oblique nodes on scaled and rank copies
    oblique         4 rough and 4 oblique nodes on scaled copies, where features are many
    maps            8 oblique nodes on scaled copies
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs

from hgk.arrays import accelerated, available_memory, exact_rows, synchronise, threads
from hgk.kernels import Architecture, HierarchicalKernel, MeanKernel, fused, isotropic, pruned, two_layers, with_kinds
from hgk.machines.base import (
    Machine,
    Rows,
    clipped_risk,
    functions,
    train,
    train_on_centres,
    train_on_mean,
    wrong_classes,
)
from hgk.optimisers.adam import Adam, Run
from hgk.optimisers.recorded import RecordedRun, run_together
from hgk.progress import Progress, at_work
from hgk.search.problems import Problem, train_on_folds
from hgk.search.selection import FOLDS, Plan, Task, lam_grid, one_kernel, search, widths
from hgk.solvers import fold_risks
from hgk.solvers.path import held_out_path
from hgk.targets.few_values import Levels

# Rows below which nothing but λ and γ is learned, and from which on there is a second round of larger batches.
FEWEST, MANY = 50, 3000
# A kind is judged by a machine on at most so many rows, at most so many held-out ones.
JUDGE, JUDGED = 2_000, 3_000
# Rows that early stopping watches.
WATCHED = 500
# Rows, as many seen as set aside, by which the optimism of leave-one-out errors is measured.
SEEN = 1000
# How much log K may change when weights that hardly matter are dropped. Tried, not recorded: on training rows of five
# of the paper's sets the error changed by at most 0.4 % and K cost a third to two thirds (but for one tree of covtype,
# where it cost the same); three times more cost up to 15 % of the error.
PRUNING = 0.01
# More rows want a narrower kernel: the best γ goes as n^-e, with e > 0 where detail is still to be had from more rows.
# The e that are tried, where a judge has so many times the rows of a batch. On training rows (experiments/default/
# widths.jsonl: three splits of thirteen sets, seven of thyroid-ann, geometric means) this and the rule of ``choose``
# together changed the error of the average by -6 % on pendigits, -3 % on shuttle, -2 % on letter-recognition and magic,
# and by -0.6 to 2 % on the others.
NARROWING, MORE_ROWS = (0.0, 1 / 6), 1.5
# Outputs beyond which a factor for each λ is cheaper than a Krylov space for each output.
OUTPUTS = 3
# Features, without steps, from which on there is more to learn: further last steps, and the kind "oblique". On training
# rows (experiments/default/efforts.jsonl, five splits) leaving that kind out changed the error of covtype, with 64
# features, by 1.8 % (standard error 1.0), and the mean over all sets by -0.5 % (0.8).
SEVERAL = 32
# Rows from which on a label of two values has a power. With fewer set aside than 600 it would often be one by chance:
# of a weak signal in 200 rows the error grew by 12 % (tried, not recorded).
SHARPENED = 3000
# Rows squared times outputs up to which a grid over all folds takes seconds (tried, not recorded: seven times as much,
# 3000 rows and 40 outputs, took 70 s).
GRID = 5e7
# Kinds averaged at most: each costs a kernel matrix of all rows, and time in every prediction.
MEMBERS = 3

Build = Callable[[Sequence[str]], Architecture]


@dataclass(frozen=True)
class Candidate:
    """A kind of tree, and how hard its log-weights are pulled to their mean.

    A tree that the user asked for keeps all its weights, and is judged even if there is no time to learn any.
    """

    name: str
    build: Build
    shrink: float = 0.0
    asked: bool = False

    @property
    def pruning(self) -> float:
        return 0.0 if self.asked else PRUNING


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate's kernels, one per held-out fold, and its clipped predictions of the held-out rows at the best λ.

    The kernels have the width that ``batch`` rows want, and n rows γ (n / batch)^-``exponent``.
    """

    name: str
    kernels: list[HierarchicalKernel]
    lam: float
    t: torch.Tensor
    batch: int = 1
    exponent: float = 0.0

    def kernels_for(self, n: int) -> list[HierarchicalKernel]:
        narrower = max(1.0, n / self.batch) ** -self.exponent
        return [kernel.with_gamma(kernel.gamma * narrower) for kernel in self.kernels]


# ------------------------------------------------------------------------------------------- kinds of trees


def _tree(features: Sequence[str], nodes: Sequence[tuple[int, str, tuple[str, ...]]], rank: int = 8) -> Architecture:
    """A depth-2 tree from (how many, kind, features it does not see)."""
    kinds = [kind for many, kind, _ in nodes for _ in range(many)]
    hidden = [unseen for many, _, unseen in nodes for _ in range(many)]
    sets = tuple(tuple(j for j, feature in enumerate(features) if feature not in unseen) for unseen in hidden)
    rough, oblique = ([i for i, kind in enumerate(kinds) if kind == wanted] for wanted in ("rough", "oblique"))
    d = len(features)
    flat = replace(two_layers(d, len(sets), d), coordinates=sets)
    return with_kinds(flat, rough=rough, oblique=oblique, rank=min(d, rank) if oblique else 0)


def mixed(features: Sequence[str]) -> Architecture:
    return _tree(features, [(4, "smooth", ("step",)), (4, "rough", ("step",))])


def warped(features: Sequence[str]) -> Architecture:
    """A column that has no steps (two values, a category) is seen by the rough nodes as it is.

    On training rows (two splits of eleven sets, experiments/default/warped.jsonl) the oblique nodes lowered its error
    by 7 % in the geometric mean and that of the average by 1 %; on one split of shuttle both by far more.
    """
    tree = _tree(features, [(4, "smooth", ("step",)), (4, "rough", ("rank",)), (4, "oblique", ("step",))])
    stepped = {j for j, f in enumerate(features) if f == "scaled" and "step" in features[j + 1 : j + 3]}
    sets = tuple(
        tuple(j for j in c if q == 2 or j not in stepped) for q, c in zip(tree.q, tree.coordinates, strict=True)
    )
    return replace(tree, coordinates=sets)


def all_kinds(features: Sequence[str]) -> Architecture:
    return _tree(features, [(4, "smooth", ("step",)), (4, "rough", ("step",)), (4, "oblique", ("step",))])


def oblique(features: Sequence[str]) -> Architecture:
    return _tree(features, [(4, "rough", ("rank", "step")), (4, "oblique", ("rank", "step"))])


def maps(features: Sequence[str]) -> Architecture:
    return _tree(features, [(8, "oblique", ("rank", "step"))])


# ------------------------------------------------------------------------------------------------- the plan


@dataclass(frozen=True)
class Effort:
    """How much is tried: the first ``kinds`` kinds, steps of each and rows per step; then further ones.

    Small batches find the way at a quarter of the cost; larger ones tell more about the weights that all rows want,
    since those depend on how many rows there are. The last steps are taken by the kinds that were chosen, on all rows.
    """

    kinds: int
    steps: int
    batch: int
    more_steps: int = 0
    larger_batch: int = 0
    last_steps: int = 0
    last_batch: int = 0


def columns_of(features: Sequence[str]) -> int:
    """Features but for the steps, which are many for one column."""
    return sum(kind != "step" for kind in features)


def usual_effort(n: float, features: int, outputs: int = 1) -> Effort:
    """Without a budget. Few rows: few steps, before the criterion is overfitted. Many features: more weights to learn
    from all rows. Many outputs: a step tells more.

    On training rows of covtype (64 features), after 80 steps of 1001 rows and 12 last ones of 1501, the error was
    larger by 0.9 % (standard error 0.3) than after 50 and 20 of 2001, and by 1.0 % than after 40 and 14 of 2501; on
    higgs and satimage, with 56 and 72 features, 40 and 20 of 2001 made no clear difference
    (experiments/default/efforts.jsonl, runs 7 and 8: ten splits). 25 steps at 1001 rows instead of 40
    made no difference beyond noise with 26, 10 and 6 outputs; with 7, on shuttle, the error was twice as large, with a
    standard error of nearly as much (there, run 5: six splits of four sets).
    """
    if n < MANY:
        return Effort(9, int(np.interp(n, [100, 1000, MANY], [40, 80, 150])), 501)
    more = int(np.interp(outputs, [7, 10], [40, 25]))
    last, rows = (int(np.interp(features, [SEVERAL, 2 * SEVERAL], ends)) for ends in ([8, 20], [1251, 2001]))
    return Effort(9, 100, 401, more, 1001, last, rows)


# What a budget may buy, in the order of cost: kinds, steps and rows per step of the first round; steps and rows of the
# second, and of the last one. For fewer rows the steps are cut to twice the usual ones.
FIRST = [(1, 30, 301), (1, 60, 401), (2, 60, 501), (9, 60, 401), (9, 100, 401), (9, 120, 501), (9, 150, 701)]
SECOND = [(0, 0), (20, 701), (20, 1001), (30, 1001), (40, 1001), (60, 1001), (80, 1001), (120, 1001), (120, 1501)]
SECOND += [(160, 1501), (200, 2001)]
LAST = [(0, 0), (5, 1001), (8, 1251), (10, 1501), (12, 1501), (14, 1751), (12, 2001), (20, 2001), (20, 2501)]


class Budget:
    """Seconds that a fit should take, and what they buy.

    The price of a step is measured on a few steps alone; that of a round then tells how much slower they are side by
    side, and the next round is planned with what is left.
    """

    def __init__(self, seconds: float, begun: float, task: Task, candidates: Sequence[Candidate], rng, loss: bool):
        self.ends, self.slowness, self.rows = begun + seconds, 1.0, task.rows
        self.batch = usual_effort(task.rows.given, columns_of(task.features)).batch
        with threads(1):  # as the runs
            self.prices = [_seconds_per_step(c, task, rng, self.batch) for c in candidates]
            self.pair = _seconds_per_pair(candidates, task, rng)
        # for the machine: kernel matrices and a factor; centres and paths over λ take what is left
        n = len(task.whole)
        training = MEMBERS * self.matrix(n) / torch.get_num_threads() + n**3 / 3 / 1e11
        exact = n <= exact_rows(task.rows.X.device)
        self.reserve = 0.5 * seconds if loss else min(0.5 * seconds, training) if exact else 0.4 * seconds

    @property
    def left(self) -> float:
        """Seconds until the machine is to be trained."""
        return self.ends - self.slowness * self.reserve - time.monotonic()

    def largest(self, options: Sequence[tuple], share: float, price: Callable[..., float]) -> tuple:
        """The largest option that takes at most this share of what is left."""
        affordable = [option for option in options if self.slowness * price(*option) <= share * self.left]
        return affordable[-1] if affordable else options[0]

    def matrix(self, n: int) -> float:
        """Seconds for the kernel matrix of n rows, without the weights that hardly matter by then, about two fifths."""
        return 0.6 * self.pair * n**2 / 2

    def steps(self, steps: int, batch: int, kinds: int, folds: int = 1, workers: int = 1) -> float:
        """Seconds that so many steps of each kind take."""
        prices = self.prices[:kinds]
        each = sum(prices) * steps * _relative_cost(batch, self.batch, len(self.rows)) if steps else 0.0
        return folds * each / max(1, min(workers, folds * len(prices)))

    def judging(self, kinds: int, folds: int, workers: int) -> float:
        """Seconds for the verdicts on so many kinds, and on plain."""
        rows = min(JUDGE + JUDGED, len(self.rows))
        return folds * (1 + len(self.prices[:kinds])) * self.matrix(rows) / workers

    def learn(self, seconds: float, expected: float) -> None:
        """That a round took so long."""
        if expected > 0.02:  # below, it is mostly overhead
            self.slowness = float(np.clip(seconds / expected, 0.3, 5.0))


@dataclass(frozen=True)
class LeaveOneOutGradients(Plan):
    """The default's plan.

    Parameters
    ----------
    build : callable or None
        ``kinds of the features -> Architecture`` given by the user; None means the kinds above.
    budget : float or None
        Seconds that a fit should take.
    """

    build: Build | None = None
    budget: float | None = None

    def machines(self, task, rng, progress, n_jobs=None):
        wanted, task = task, task.squared  # weights and kinds are those that least squares wants
        begun, workers = time.monotonic(), effective_n_jobs(1 if n_jobs is None else n_jobs)
        folds = self._held_out_folds(task)
        judges = {fold: Judge.of(task, fold, rng) for fold in folds}
        plain = None
        if wanted.problem is None and wanted.numbers:
            task, plain = by_levels(task, judges, rng, progress, workers, self._time_to_compare(judges))
        usual = usual_effort(task.rows.given, columns_of(task.features), task.rows.Y.shape[1])
        effort, budget = usual, self._budget(begun, task, rng, wanted.problem is not None)
        if budget is not None:
            effort = self._first(budget, usual, len(folds), workers)
            progress.report(stage="effort", kinds=effort.kinds, steps=effort.steps, batch=effort.batch)
            progress.deadline = budget.ends - budget.reserve
        trials, judges = self._trials(task, effort, judges, rng, progress, workers, plain, budget)
        exact = len(task.whole) <= exact_rows(task.rows.X.device)
        chosen = choose(trials, task, judges, progress, MEMBERS if exact else 1)
        if budget is not None and task.rows.given >= MANY:
            steps, batch = budget.largest(LAST, 0.9, lambda s, b: budget.steps(s, b, len(chosen), 1, workers))
            effort = replace(effort, last_steps=steps, last_batch=batch)
        if wanted.problem is None and wanted.numbers and exact and not progress.stopped:
            progress.report(stage="optimism", ratio=optimism(chosen, task, judges))
        if exact and wanted.problem is None and effort.last_steps and not progress.cut():
            chosen = last_round(chosen, effort, task, rng, progress, workers)
        seconds = None if self.budget is None else self.budget - (time.monotonic() - begun)
        if seconds is not None and wanted.problem is not None:
            progress.deadline = time.monotonic() + 0.5 * seconds  # for the path over λ; the rest is for the machines
        if task.levels is None:
            return self._train(chosen, wanted, list(judges), rng, progress, seconds)
        levels = Averages(task, judges).levels(chosen)
        if levels.outputs == 1 and levels.power == 1:
            return self._train(chosen, wanted, list(judges), rng, progress, seconds)
        return [replace(m, levels=levels) for m in self._train(chosen, task, list(judges), rng, progress, seconds)]

    def _time_to_compare(self, judges: dict[int, Judge]) -> bool:
        """Whether the factors of columns, of 16 λ and at 3e10 operations a second, take a small part of the budget."""
        operations = sum(16 * len(judge.some) ** 3 / 3 for judge in judges.values())
        return self.budget is None or operations / 3e10 < 0.1 * self.budget

    def _held_out_folds(self, task: Task) -> list[int]:
        """With few rows a single fold says too little."""
        return list(task.folds)[: 3 if task.rows.given < 1000 else 1]

    def candidates(self, n: float, features: Sequence[str], effort: Effort) -> list[Candidate]:
        """The safest first, then in the order of what they add."""
        if self.build is not None:
            return [Candidate("given", self.build, asked=True)]
        if n < FEWEST:
            return []
        if n < 1000:
            found = [Candidate("mixed", mixed), Candidate("mixed, shrunk", mixed, shrink=0.1)]
        else:
            found = [Candidate("all kinds", all_kinds), Candidate("maps", maps)]
            found += [Candidate("oblique", oblique)] if columns_of(features) > SEVERAL else []
            found += [Candidate("warped", warped)] if "step" in features else []
        return found[: effort.kinds]

    def _budget(self, begun: float, task: Task, rng, loss: bool) -> Budget | None:
        if self.budget is None:
            return None
        most = Effort(9, 0, 0)
        return Budget(self.budget, begun, task, self.candidates(task.rows.given, task.features, most), rng, loss)

    def _first(self, budget: Budget, usual: Effort, folds: int, workers: int) -> Effort:
        """The largest first round for a third of the time; with few rows, where it is the only one, for most of it."""
        many = budget.rows.given >= MANY
        options = [(kinds, steps if many else min(steps, 2 * usual.steps), batch) for kinds, steps, batch in FIRST]

        def price(kinds: int, steps: int, batch: int) -> float:
            judging = budget.judging(kinds, folds, workers)
            return budget.steps(steps, batch, kinds, folds, workers) + (0.35 if many else 1.0) * judging

        return Effort(*budget.largest(options, 0.4 if many else 0.9, price))

    # ------------------------------------------------------------------------------------------ trials

    def _trials(
        self,
        task: Task,
        effort: Effort,
        judges,
        rng,
        progress: Progress,
        workers: int,
        plain: list[Judged] | None,
        budget: Budget | None = None,
    ):
        """Plain, and every candidate on every fold, as many at a time as there are workers, each in one thread.

        Steps are made of operations too small to be shared by two threads: two runs side by side take the time
        of one. After a stop, only the folds that the first candidate came through are judged, and the candidates
        that came to all of these.
        """
        candidates = self.candidates(task.rows.given, task.features, effort)
        # The first is first; then the slower ones, so that the last to end does not end alone.
        jobs = [(candidate, fold) for fold in judges for candidate in [*candidates[:1], *candidates[:0:-1]]]
        last, *children = rng.spawn(1 + len(jobs))
        parts = {fold: task.rows[judge.training] for fold, judge in judges.items()} if jobs else {}
        attempts = [
            Attempt(
                candidate, effort, task, judges[fold], parts[fold], child,
                progress.of(candidate=candidate.name, fold=fold),
            )
            for (candidate, fold), child in zip(jobs, children, strict=True)
        ]  # fmt: skip
        wanted = plain is None and self.build is None  # a tree that was asked for is not exchanged for the plain kernel
        if budget is not None and attempts:
            self._first_round(attempts, effort, len(judges), workers, budget)
        if all(attempt.recordable for attempt in attempts):
            found: list[Any] = _side_by_side(attempts)
            found += [_plain(task, judges, last, progress)] if wanted else []
        else:
            work: list[Any] = [delayed(attempt.alone)() for attempt in attempts]
            if wanted:
                work.append(delayed(_plain)(task, judges, last, progress))
            with threads(1):
                found = Parallel(n_jobs=min(workers, len(work)), require="sharedmem")(work)
        plain = found.pop() if wanted else plain
        runs = {(candidate.name, fold): run for (candidate, fold), run in zip(jobs, found, strict=True) if run}
        through = self._through(judges, {fold: runs.get((c.name, fold)) for c in candidates[:1] for fold in judges})
        trials = []
        if plain is not None and self.build is None:
            verdicts = [run for run, fold in zip(plain, judges, strict=True) if fold in through]
            trials.append(self._trial("plain", verdicts, task, through, progress))
        for candidate in candidates:
            own = [runs.get((candidate.name, fold)) for fold in through]
            if all(own):
                trials.append(self._trial(candidate.name, own, task, through, progress))
        return trials, through

    def _first_round(self, attempts: list[Attempt], effort: Effort, folds: int, workers: int, budget: Budget) -> None:
        """The first round alone, and a second one as large as what is left then buys."""
        begun = time.monotonic()
        if all(attempt.recordable for attempt in attempts):
            _round_side_by_side(attempts)
        else:
            with threads(1):
                Parallel(n_jobs=min(workers, len(attempts)), require="sharedmem")(
                    delayed(attempt.next_round)() for attempt in attempts
                )
        budget.learn(time.monotonic() - begun, budget.steps(effort.steps, effort.batch, effort.kinds, folds, workers))
        if budget.rows.given < MANY:
            return

        def price(steps: int, batch: int) -> float:
            judging = budget.judging(effort.kinds, folds, workers)
            return budget.steps(steps, batch, effort.kinds, folds, workers) + judging

        steps, batch = budget.largest(SECOND, 0.8, price)
        for attempt in attempts:
            attempt.further(steps, batch)

    def _through(self, judges, first: dict[int, Judged | None]):
        """The folds that the first candidate came through, else those it came to, else all."""
        complete = {fold: judge for fold, judge in judges.items() if (run := first.get(fold)) and run.complete}
        return complete or {fold: judge for fold, judge in judges.items() if first.get(fold)} or judges

    def _trial(self, name: str, runs, task: Task, judges, progress: Progress) -> Trial:
        """λ and the exponent of the width are chosen on the held-out rows, over all folds."""
        sizes = [task.rows.weight[judge.out].sum() for judge in judges.values()]
        risks = torch.stack([run.risks * size for run, size in zip(runs, sizes, strict=True)]).sum(0)
        narrow, best = divmod(int(risks.argmin()), risks.shape[1])
        t = torch.zeros_like(task.rows.Y)
        for run, judge in zip(runs, judges.values(), strict=True):
            t[judge.out] = run.predictions[narrow, best]
        kernels = [run.kernel for run in runs]
        criterion = float(np.mean([run.criterion for run in runs]))
        index = held_out(judges)
        honest = clipped_risk(t[index], task.rows[index], task.clip)
        lam = float(judge_lams(task)[best])
        exponent, batch = NARROWING[narrow], min(run.batch for run in runs)
        report = {"criterion": criterion, "honest": honest, "optimism": honest - criterion, "lam": lam}
        report |= {"narrowing": exponent}
        trial = Trial(name, kernels[:1] if name == "plain" else kernels, lam, t, batch, exponent)
        # of classes how many are wrong; with a column for each value, whose errors are summed above, the label's error
        report |= {k: v for k, v in Averages(task, judges).report([trial]).items() if k == "wrong" or task.levels}
        progress.report(stage="candidate", candidate=name, **report)
        return trial

    # ---------------------------------------------------------------------------------------- training

    def _train(
        self, chosen: list[Trial], task: Task, folds: list[int], rng, progress: Progress, seconds: float | None
    ) -> list[Machine]:
        """Every trial has the same share, divided among its folds' kernels; on centres the best trial is alone.

        If it is plain alone, (λ, γ) are chosen again by all folds, as with the preset "plain", unless the grid would be
        too much: rows squared times outputs; then they stay as judged.
        """
        rows, (first, *_) = task.whole, chosen
        n = len(rows)
        if n > exact_rows(task.rows.X.device):
            size = centres_for(n, seconds, available_memory(rows.X.device))
            progress.report(stage="centres", centres=size, rows=n, candidate=first.name)
            order = torch.from_numpy(rng.permutation(n))
            parts = order[:size].sort()[0], order[size : size + min(20_000, n // 5)].sort()[0]
            kernel = first.kernels_for(size)[0]  # detail beyond the centres is not to be had
            return [train_on_centres(kernel, rows, _around(first.lam, task), *parts, task.clip, progress)]
        if [trial.name for trial in chosen] == ["plain"]:
            if task.problem is None and rows.Y.shape[1] > OUTPUTS and len(task.rows) ** 2 * rows.Y.shape[1] > GRID:
                return [train(first.kernels[0], rows, first.lam)]
            return [one_kernel(first.kernels[0].with_gamma(1.0), task, progress)]
        if task.problem is not None:
            return self._train_with_loss(chosen, task, task.problem, folds, progress)
        pieces = len(task.rows)  # as the trials have seen them
        kernels = [(kernel, 1 / len(trial.kernels)) for trial in chosen for kernel in trial.kernels_for(pieces)]
        # c = nλ is the variance of the noise, of which every trial has its own estimate
        lam = float(np.exp(np.mean([np.log(trial.lam) for trial in chosen])))
        return list(train_on_mean(MeanKernel(*zip(*kernels, strict=True)), rows, lam))

    def _train_with_loss(
        self, chosen: list[Trial], task: Task, problem: Problem, folds: list[int], progress: Progress
    ) -> list[Machine]:
        """One machine on the mean of the kernels; a kernel speaks for the fold that it was learned without."""
        kernels: list[tuple[HierarchicalKernel, float]] = []
        unseen: dict[int, list[int]] = {fold: [] for fold in folds}
        for trial in chosen:
            for kernel, fold in zip(trial.kernels_for(len(task.rows)), folds, strict=False):
                for other in [fold] if len(trial.kernels) > 1 else folds:  # plain's width is of none of them
                    unseen[other].append(len(kernels))
                kernels.append((kernel, 1 / len(trial.kernels)))
        return train_on_folds(kernels, problem, task.rows, task.fold_of, judge_lams(task), progress, unseen)


def last_round(
    chosen: Sequence[Trial], effort: Effort, task: Task, rng: np.random.Generator, progress: Progress, workers: int
) -> list[Trial]:
    """A few last steps of the learned kernels on all rows, also on those set aside and watched, more than a quarter.

    With larger batches still, and at so low a rate that what was chosen stays what it is, also the width that the
    trial's ``batch`` wants; c = nλ is that of the judge.
    """
    n, learned = len(task.rows), [(t, kernel) for t in chosen if t.name != "plain" for kernel in t.kernels]
    recordable = all(_recordable(kernel, task.rows) for _, kernel in learned)
    kind = RecordedRun if recordable else Run
    settings = Adam(effort.last_steps, min(n, effort.last_batch), rate=0.03, map_penalty=0.1)

    def begin(trial: Trial, kernel: HierarchicalKernel, child: np.random.Generator) -> Run:
        told = progress.of(candidate=trial.name)
        return kind(settings, kernel, task.rows, child, told, lam=trial.lam * n / settings.batch)

    runs = [begin(*one, child) for one, child in zip(learned, rng.spawn(len(learned)), strict=True)]
    if recordable:
        run_together(cast(list[RecordedRun], runs))
    elif runs:
        _in_turns(runs, workers)
    found: dict[str, list[HierarchicalKernel]] = {}
    for (trial, _), run in zip(learned, runs, strict=True):
        found.setdefault(trial.name, []).append(run.result())
    return [replace(t, kernels=found[t.name]) if t.name in found else t for t in chosen]


def _in_turns(runs: Sequence[Run], workers: int) -> None:
    """All steps of all runs, the next one by whoever is free: three runs keep two workers busy to the end."""
    waiting = deque(runs)

    def work() -> None:
        with at_work():
            while True:
                try:
                    run = waiting.popleft()
                except IndexError:  # the others have what is left in hand
                    return
                if run.proceed():
                    waiting.append(run)

    workers = min(workers, len(runs))
    with threads(1):
        Parallel(n_jobs=workers, require="sharedmem")(delayed(work)() for _ in range(workers))


def centres_for(n: int, seconds: float | None, memory: float = float("inf")) -> int:
    """M such that the rows pass in about this time (three minutes, if there is no budget), and that seven matrices of
    M² numbers and a block of rows have room.

    On two cores a kernel takes about 4e-8 s per pair and its part of H 3e-11 s per multiplication.
    """
    seconds = 180.0 if seconds is None else max(1.0, seconds)
    M = (-4e-8 + (16e-16 + 4 * 3e-11 * seconds / n) ** 0.5) / (2 * 3e-11)
    return int(min(n // 2, 5_000, max(300, M), max(100, (0.75 * memory / 56) ** 0.5)))


def _around(lam: float, task: Task) -> list[float]:
    """With many more rows than judged the best λ may have moved."""
    return [lam * f for f in (0.03, 0.1, 0.3, 1.0, 3.0)] if len(task.lams) > 1 else [float(task.lams[0])]


@dataclass(frozen=True, eq=False)
class Judged:
    """A kernel, the rows of its last batches, the criterion there, and what the judge says at every exponent and λ."""

    kernel: HierarchicalKernel
    batch: int
    criterion: float
    risks: torch.Tensor
    predictions: torch.Tensor
    complete: bool = True  # not stopped on the way


AnyRun = TypeVar("AnyRun", bound=Run)


def _recordable(kernel: HierarchicalKernel, rows: Rows) -> bool:
    return accelerated(rows.X) and fused.suits(kernel.architecture, rows.X)


class Attempt:
    """One candidate on one fold: its rounds, and the verdict."""

    def __init__(
        self, candidate: Candidate, effort: Effort, task: Task, judge: Judge, part: Rows, rng, progress: Progress
    ):
        self.candidate, self.task, self.judge, self.rng, self.progress = candidate, task, judge, rng, progress
        self.part = part  # the judge's training rows, which all candidates share
        self.watched = task.rows[judge.watched] if len(judge.watched) else None
        tree = candidate.build(task.features)
        self.kernel = HierarchicalKernel(tree, tree.start(self.part.spread, rng))
        self.lam, self.criterion, self.batch = 1e-3, float("nan"), len(self.part)
        self.rounds = [Adam(effort.steps, effort.batch, rate=0.3, shrink=candidate.shrink, map_penalty=0.1)]
        self.through = 0  # rounds
        self.further(effort.more_steps, effort.larger_batch)

    def further(self, steps: int, batch: int) -> None:
        """A second round, if it has steps."""
        if steps:
            self.rounds.append(replace(self.rounds[0], steps=steps, batch=batch, rate=0.2))

    @property
    def recordable(self) -> bool:
        return _recordable(self.kernel, self.part)

    @property
    def too_late(self) -> bool:
        """There is no time left, and nobody asked for it."""
        return self.progress.cut() and not self.candidate.asked

    def begin(self, settings: Adam, kind: type[AnyRun]) -> AnyRun:
        if self.through:
            self.kernel = pruned(self.kernel, self.part.X, 0.1 * self.candidate.pruning)
        return kind(
            settings, self.kernel, self.part, self.rng, self.progress,
            watched=self.watched, clip=self.task.clip, lam=self.lam,
        )  # fmt: skip

    def end(self, run: Run) -> None:
        self.kernel, self.lam = run.result(), run.lam
        self.through += 1
        if run.values:  # not stopped between the rounds
            self.criterion, self.batch = run.recent, min(run.settings.batch, len(self.part))

    def verdict(self) -> Judged:
        kernel = pruned(self.kernel, self.part.X, self.candidate.pruning)
        found = self.judge(kernel, self.task, self.batch, self.batch * self.lam)
        return Judged(kernel, self.batch, self.criterion, *found, not self.progress.cut())

    def next_round(self) -> None:
        if self.too_late:
            return
        with at_work():
            run = self.begin(self.rounds[self.through], Run)
            run.run()
            self.end(run)

    def alone(self) -> Judged | None:
        """The rounds that are left and the verdict; None if it is too late."""
        if self.too_late and not self.through:
            return None
        while self.through < len(self.rounds):
            if self.too_late:
                break
            self.next_round()
        with at_work():
            return None if self.progress.aborted else self.verdict()


def _round_side_by_side(attempts: Sequence[Attempt]) -> None:
    """The next round of all attempts together, on an accelerator."""
    if attempts[0].too_late:
        return
    runs = [a.begin(a.rounds[a.through], RecordedRun) for a in attempts]
    run_together(runs)
    for attempt, run in zip(attempts, runs, strict=True):
        attempt.end(run)


def _side_by_side(attempts: Sequence[Attempt]) -> list[Judged | None]:
    """What :meth:`Attempt.alone` does, for all attempts together."""
    if not attempts or (attempts[0].too_late and not attempts[0].through):
        return [None for _ in attempts]
    while attempts[0].through < len(attempts[0].rounds) and not attempts[0].too_late:
        _round_side_by_side(attempts)
    return [attempt.verdict() for attempt in attempts]


def _plain(task: Task, judges: dict[int, Judge], rng: np.random.Generator, progress: Progress) -> list[Judged]:
    """The plain Gaussian kernel on the scaled copies, γ by the grid on at most 1500 rows never held out, judged."""
    part = np.flatnonzero(~np.isin(task.fold_of, list(judges)))
    part = part if len(part) else np.arange(len(task.rows))  # every fold is held out once
    some = task.rows[torch.from_numpy(rng.permutation(part)[:1500])]
    seen = tuple(j for j, kind in enumerate(task.features) if kind not in ("rank", "step"))
    tree = replace(isotropic(len(task.features)), coordinates=(seen,))
    kernel = HierarchicalKernel(tree, (tree.mask.double(),))
    fold_of = np.arange(len(some)) % min(FOLDS, len(some))
    with at_work():
        if some.Y.shape[1] > OUTPUTS:
            kernel = kernel.with_gamma(_width(kernel, some[torch.arange(min(1000, len(some)))], task))
        else:
            kernel = kernel.with_gamma(search(kernel, some, fold_of, task.lams, task.clip).gamma)
        judged = [judge(kernel, task) for judge in judges.values() if not progress.aborted]
        return [Judged(kernel, 1, float("nan"), *found) for found in judged]


def _width(kernel: HierarchicalKernel, rows: Rows, task: Task) -> float:
    """γ by the last fifth of the rows."""
    S, trained = kernel.exponent(rows.X.float()), len(rows) - len(rows) // FOLDS
    gammas, Y, lams = widths(kernel, S), rows.Y.float(), torch.from_numpy(task.lams)
    paths = [
        held_out_path((S * -(g**-2)).exp(), Y, rows.weight, trained, lams, task.clip, len(lams) // 2) for g in gammas
    ]
    return float(gammas[int(np.argmin([float(risks.min()) for risks, _ in paths]))])


def by_levels(
    task: Task,
    judges: dict[int, Judge],
    rng: np.random.Generator,
    progress: Progress,
    workers: int,
    time_to_compare: bool = True,
) -> tuple[Task, list[Judged] | None]:
    """The task with a column for each value of the labels, where they are few and the plain kernel predicts the rows
    set aside better so; and what the judges said of that kernel, if they were asked. Two values have one column, as
    before, and there is nothing to compare.

    λ and the power are chosen on one half of the rows set aside and compared on the other, both ways, so that it is not
    the larger number of options that wins.
    """
    given = task.rows.given
    levels = Levels.of(task.rows.Y, given) if given >= FEWEST else None
    if levels is None:
        return task, None
    columns = task.with_levels(levels)
    if levels.outputs == 1:
        return columns if given >= SHARPENED else task, None
    if not time_to_compare:
        return task, None
    children = [np.random.default_rng(rng.integers(2**32)) for _ in range(2)]  # the kinds' own are spawned
    with threads(1):
        judged = Parallel(n_jobs=min(2, workers), require="sharedmem")(
            delayed(_plain)(some, judges, child, progress)
            for some, child in zip((task, columns), children, strict=True)
        )
    index = held_out(judges)
    y, share = task.rows.Y[index], task.rows.weight[index] / task.rows.weight[index].sum()
    numbers, f = (_at_every_lam(some) for some in judged)
    if not (len(numbers) and len(f)):
        return task, None
    number = _crossed(numbers[None], y, share)
    level = _crossed(torch.stack([replace(levels, power=s)(f) for s in levels.powers]), y, share)
    taken = level < number
    progress.report(stage="levels", values=len(levels.values), taken=taken, number=number, level=level)
    return (columns, judged[1]) if taken else (task, judged[0])


def _at_every_lam(judged: Sequence[Judged]) -> torch.Tensor:
    """Predictions of the rows set aside at every λ that all folds resolved."""
    known = torch.stack([run.risks[0] for run in judged]).isfinite().all(0)
    return torch.cat([run.predictions[0] for run in judged], 1)[known.to(judged[0].predictions.device)]


def _crossed(options: torch.Tensor, y: torch.Tensor, share: torch.Tensor) -> float:
    """The error, each row being predicted by the option, of (powers, λ), that is best on the other half of the rows."""
    losses = ((options - y) ** 2)[..., 0].flatten(0, 1)
    odd = torch.arange(len(y), device=y.device) % 2 == 1
    best = [losses[int((losses[:, half] @ share[half]).argmin())] for half in (odd, ~odd)]
    return float(share @ torch.where(odd, best[1], best[0]))


def _seconds_per_step(candidate: Candidate, task: Task, rng, batch: int) -> float:
    """The faster of two steps, after one that fills the buffers."""
    tree = candidate.build(task.features)
    kernel = HierarchicalKernel(tree, tree.start(task.rows.spread, rng))
    # a recorded step, without the recording: an upper bound
    kind = RecordedRun if _recordable(kernel, task.rows) else Run
    run, seconds = kind(Adam(batch=batch), kernel, task.rows, rng, Progress()), []
    for _ in range(3):
        start = time.perf_counter()
        run.advance()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def _seconds_per_pair(candidates: Sequence[Candidate], task: Task, rng) -> float:
    """Of the first candidate's kernel, in single precision, by the faster of two blocks of rows."""
    if not candidates:
        return 1e-8
    tree = candidates[0].build(task.features)
    kernel, X, seconds = HierarchicalKernel(tree, tree.start(task.rows.spread, rng)), task.rows.X[:1000].float(), []
    for _ in range(2):
        start = time.perf_counter()
        kernel.matrix(X[:200], X)
        synchronise(X.device)
        seconds.append(time.perf_counter() - start)
    return min(seconds) / (len(X[:200]) * len(X))


def _relative_cost(batch: int, usual: int, n: int) -> float:
    """Of a step: pairs grow with the square of the batch, the factor with its cube."""
    return (min(batch, n) / min(usual, n)) ** 2.2


# --------------------------------------------------------------------------------------------------- judging


def judge_lams(task: Task) -> np.ndarray:
    return lam_grid(task.rows.size, 16) if len(task.lams) > 1 else task.lams


@dataclass(frozen=True)
class Judge:
    """One fold: the rows to learn from, some rows for a machine to be trained on, and the rows set aside.

    Where there are many, some of the other rows are kept from the gradients, too, for early stopping to watch: were
    they among the rows set aside, the verdict would be flattered.
    """

    training: torch.Tensor
    some: torch.Tensor
    out: torch.Tensor
    watched: torch.Tensor
    complete: bool

    @classmethod
    def of(cls, task: Task, fold: int, rng: np.random.Generator) -> Judge:
        rest = torch.from_numpy(rng.permutation(task.training_part(fold).numpy()))
        out = torch.from_numpy(rng.permutation(np.flatnonzero(task.fold_of == fold))[:JUDGED])
        watched = WATCHED if len(task.rows) >= MANY else 0
        return cls(rest[watched:], rest[-JUDGE:], out, rest[:watched], task.rows.given < 1000)

    def __call__(
        self, kernel: HierarchicalKernel, task: Task, batch: int | None = None, c: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Risks and clipped predictions on the rows set aside, for every exponent of the width and every λ.

        The exponents are tried where the weights were learned on a ``batch`` of far fewer rows; with several folds it
        has most. c = nλ, which for a Gaussian process is the variance of the noise, is the same for the smaller
        machine and for the one on all rows. With several folds every λ is resolved, since one that cannot win in a fold
        may win in the mean. With many outputs λ are tried around the ``c`` that the weights were learned with.
        """
        rows = task.rows[torch.cat([self.some, self.out])]
        fold = torch.cat([torch.full((len(self.some),), -1), torch.zeros(len(self.out), dtype=torch.int64)]).to(
            rows.X.device
        )
        share = float(task.rows.weight.sum() / task.rows.weight[self.some].sum())
        lams = torch.from_numpy(judge_lams(task)) * share
        K, ratio = kernel.matrix(rows.X.float())[None], len(self.some) / (batch or len(self.some))
        risks: list[torch.Tensor] = []
        predictions: list[torch.Tensor] = []
        for exponent in NARROWING if ratio >= MORE_ROWS and not self.complete else NARROWING[:1]:
            powers = K if exponent == 0 else K ** (ratio ** (2 * exponent))  # γ r^-e makes K to the power of r^2e
            if rows.Y.shape[1] > OUTPUTS:
                near = float(lams[int(risks[-1].argmin())]) if risks else c * share / len(task.rows)
                start = None if self.complete else int((lams.log() - math.log(near)).abs().argmin())
                risk, t = held_out_path(powers[0], rows.Y.float(), rows.weight, len(self.some), lams, task.clip, start)
            else:
                known = min((float(risk.min()) for risk in risks), default=float("inf"))
                found = fold_risks(
                    powers, rows.Y.float(), fold, lams, rows.weight, task.clip, complete=self.complete, known=known
                )
                risk = found.risks[0].double().masked_fill(~found.resolved[0], float("inf"))
                t = found.predictions[0][:, len(self.some) :].clamp(-task.clip, task.clip)
            risks.append(risk.to(rows.weight))
            predictions.append(t.double())
        return torch.stack(risks), torch.stack(predictions)


def held_out(judges: dict[int, Judge]) -> torch.Tensor:
    """All rows set aside and judged."""
    return torch.cat([judge.out for judge in judges.values()])


class Averages:
    """Averages of trials, by their errors on the rows set aside."""

    def __init__(self, task: Task, judges: dict[int, Judge]):
        self.index, self.task = held_out(judges), task
        self.rows = task.rows[self.index]
        self.share = self.rows.weight / self.rows.weight.sum()

    def mean(self, members: Sequence[Trial]) -> torch.Tensor:
        return torch.stack([m.t for m in members]).mean(0)[self.index]

    def losses(self, members: Sequence[Trial]) -> torch.Tensor:
        return ((self.mean(members) - self.rows.Y) ** 2).sum(1)

    def risk(self, members: Sequence[Trial]) -> float:
        return float(self.share @ self.losses(members))

    def levels(self, members: Sequence[Trial]) -> Levels:
        """Of a task that has them, with the power that these want."""
        levels = cast(Levels, self.task.levels)
        return levels.fitted(self.mean(members), self.labels, self.share)

    @property
    def labels(self) -> torch.Tensor:
        return cast(Levels, self.task.levels).labels(self.rows.Y)

    def report(self, members: Sequence[Trial]) -> dict[str, float]:
        """The rows, the error of predicted labels; of classes also how many are wrong, of levels their power."""
        t, rows = self.mean(members), round(self.rows.given)
        if self.task.levels is None:
            return {"rows": rows, "risk": self.risk(members), **wrong_classes(t, self.rows)}
        levels = self.levels(members)
        risk = float(self.share @ ((levels(t) - self.labels) ** 2)[:, 0])
        return {"rows": rows, "risk": risk, "power": levels.power}

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
            (_, errors), option = max(zip(gains, options, strict=True), key=lambda found: found[0])
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
            members = max(better, key=lambda found: found[0])[1]
        others = members[1:]
        return (
            others if others and self.clearly_better(others, plain) and self.gain(members, others)[0] > 0 else members
        )


def optimism(chosen: Sequence[Trial], task: Task, judges: dict[int, Judge]) -> float:
    """How much larger errors on rows set aside are than leave-one-out errors on rows that the weights have seen: the
    ratio of their roots, for one machine on the mean of the chosen kernels. 1 where no weights were learned.
    """
    if all(trial.name == "plain" for trial in chosen):
        return 1.0
    levels = None if task.levels is None else Averages(task, judges).levels(chosen)
    lam = float(np.exp(np.mean([np.log(trial.lam) for trial in chosen])))
    errors = torch.zeros(2, 2, dtype=torch.float64)  # of rows seen and set aside: sums, and weights
    for place, judge in enumerate(judges.values()):
        some, out = task.rows[judge.some[-SEEN:]], task.rows[judge.out[:SEEN]]
        trials = [(t.kernels_for(len(judge.some))[min(place, len(t.kernels) - 1)], 1.0) for t in chosen]
        kernel, c = MeanKernel(*zip(*trials, strict=True)), float(task.rows.weight.sum()) * lam
        ((_, machine),) = functions(train_on_mean(kernel, some, c / float(some.weight.sum())))
        seen = machine.leave_one_out(some, some.X[:0], torch.arange(len(some)))[0]
        for i, (t, rows) in enumerate(((seen, some), (machine(out.X), out))):
            t, Y = t.clamp(-task.clip, task.clip), rows.Y
            t, Y = (t, Y) if levels is None else (levels(t), levels.labels(Y))
            errors[i] += torch.stack([(rows.weight @ (t - Y) ** 2).sum(), rows.weight.sum()]).cpu()
    risks = errors[:, 0] / errors[:, 1]
    return float((risks[1] / risks[0]).sqrt()) if bool((risks > 0).all()) else 1.0


def choose(
    trials: Sequence[Trial], task: Task, judges: dict[int, Judge], progress: Progress, most: int = MEMBERS
) -> list[Trial]:
    """At most so many kinds to be averaged, the best first.

    The learned kinds but those better left out, if they are clearly better than plain; otherwise plain, and what gains
    beside it. To start from one kind and add others for any gain would depend on which is best on these few rows by
    chance.
    """
    averages, (plain, *learned) = Averages(task, judges), trials
    chosen = averages.without_the_worst(learned, most)
    if not (chosen and averages.clearly_better(chosen, plain)):
        chosen = averages.beside(plain, learned, most)
    progress.report(stage="chosen", candidates=[t.name for t in chosen], **averages.report(chosen))
    return sorted(chosen, key=lambda trial: averages.risk([trial]))
