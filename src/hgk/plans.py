"""What the estimators' ``preset`` stands for: who learns the kernel, and which machines are averaged.

A plan turns a task (rows, folds, λ to try, clipping bound) into machines whose clipped mean predicts. The plan
of the "gradients" preset learns weights by leave-one-out gradients and trusts no criterion that a gradient
has seen:

    hold out one fold of the rows (several folds when rows are few)
    for every kind of tree: learn its weights on the other rows; predict the held-out rows at every λ
    average the kinds greedily, by the error on held-out rows, starting from the safest
    train the chosen kernels on all rows, and average them
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.architectures import Architecture, inhomogeneous, isotropic, two_layers, with_kinds
from hgk.kernels import HierarchicalKernel
from hgk.machines import Machine, clipped_risk, train
from hgk.optimisers import Algorithm1
from hgk.optimisers.adam import Adam
from hgk.progress import Progress
from hgk.selection import FOLDS, Task, kernel_per_fold, lam_grid, one_kernel, search
from hgk.solvers import fold_risks

Architectures = Callable[[int, np.random.Generator], list[Architecture]]


@dataclass(frozen=True)
class Preset:
    """How to encode the inputs, and the plan."""

    plan: Plan
    ranks: bool = False
    robust: bool = False


class Plan(ABC):
    """``machines(task, rng, progress, n_jobs)``: what is averaged to predict."""

    @abstractmethod
    def machines(
        self, task: Task, rng: np.random.Generator, progress: Progress, n_jobs: int | None = None
    ) -> list[Machine]: ...


@dataclass(frozen=True)
class Given(Plan):
    """A kernel that keeps its weights; only (λ, γ) are chosen."""

    kernel: HierarchicalKernel

    def machines(self, task, rng, progress, n_jobs=None):
        return [one_kernel(self.kernel, task, progress)]


@dataclass(frozen=True)
class Learned(Plan):
    """One architecture learns on all rows; several, on every fold's training part, as in the paper."""

    architectures: Architectures
    optimiser: Algorithm1 | Adam

    def machines(self, task, rng, progress, n_jobs=None):
        architectures = self.architectures(task.rows.X.shape[1], rng)
        if len(architectures) > 1:
            return kernel_per_fold(architectures, self.optimiser, task, rng, progress, n_jobs)
        kernel = self.optimiser.learn(architectures[0], task.rows, task.clip, rng, progress)
        return [one_kernel(kernel, task, progress)]


# ------------------------------------------------------------------------------- leave-one-out gradients


@dataclass(frozen=True)
class Candidate:
    """A kind of tree and how its weights are learned; the first of a list is the safest."""

    name: str
    architecture: Callable[[int, np.random.Generator], Architecture]
    optimiser: Adam


@dataclass(frozen=True)
class Trial:
    """A candidate's kernels, one per held-out fold, and its predictions of the held-out rows at the best λ."""

    name: str
    kernels: list[HierarchicalKernel]
    lam: float
    t: torch.Tensor  # predictions, clipped; meaningful on held-out rows
    criterion: float  # what the gradients minimised, at the end


@dataclass(frozen=True)
class LeaveOneOutGradients(Plan):
    """Weights by leave-one-out gradients, kinds of trees chosen and averaged on rows set aside.

    Parameters
    ----------
    architecture : callable or None
        ``(features, rng) -> Architecture`` given by the user; None means the default kinds.
    """

    architecture: Callable[[int, np.random.Generator], Architecture] | None = None

    def machines(self, task, rng, progress, n_jobs=None):
        held_out = self._held_out_folds(task)
        trials = [self._plain(task, held_out, rng, progress)]
        for candidate in self.candidates(len(task.rows)):
            if progress.cut():
                break
            trials.append(self._try(candidate, task, held_out, rng, progress))
        chosen = choose(trials, task, held_out, progress)
        return [train(kernel, task.rows, trial.lam) for trial in chosen for kernel in trial.kernels]

    def _held_out_folds(self, task: Task) -> list[int]:
        """With few rows a single fold says too little."""
        return list(task.folds)[: 2 if len(task.rows) < 1000 else 1]

    def candidates(self, n: int) -> list[Candidate]:
        """Few rows: few steps, and shrunk weights as an alternative. Many rows: linear maps as an alternative."""
        steps = int(np.interp(n, [100, 1000, 3000], [40, 80, 250]))
        adam = Adam(steps=steps, batch=500 if n < 3000 else 1000, rate=0.2)
        if self.architecture is not None:
            return [Candidate("given", self.architecture, adam)]
        found = [Candidate("mixed", mixed, adam)]
        if n < 2000:
            found.append(Candidate("mixed, shrunk", mixed, replace(adam, shrink=0.1)))
        if n >= 1000:
            found.append(Candidate("oblique", oblique, replace(adam, map_penalty=0.1)))
        return found

    def _try(self, candidate: Candidate, task: Task, held_out: list[int], rng, progress: Progress) -> Trial:
        kernels, criteria = [], []
        for fold in held_out:
            part = task.rows[task.training_part(fold)]
            architecture = candidate.architecture(part.X.shape[1], rng)
            tagged = progress.of(candidate=candidate.name, fold=fold)
            kernels.append(candidate.optimiser.learn(architecture, part, task.clip, rng, tagged))
            recent = [e["criterion"] for e in progress.history[-10:] if "criterion" in e]
            criteria.append(float(np.mean(recent)))
        lam, t = held_out_predictions(kernels, task, held_out)
        return self._report(Trial(candidate.name, kernels, lam, t, float(np.mean(criteria))), task, held_out, progress)

    def _plain(self, task: Task, held_out: list[int], rng, progress: Progress) -> Trial:
        """The plain Gaussian machine, γ by the grid on at most 2000 rows that are never held out."""
        part = np.flatnonzero(~np.isin(task.fold_of, held_out))
        some = task.rows[torch.from_numpy(rng.permutation(part)[:2000])]
        architecture = isotropic(task.rows.X.shape[1])
        kernel = HierarchicalKernel(architecture, architecture.start(task.rows.spread, rng))
        fold_of = np.arange(len(some)) % min(FOLDS, len(some))
        kernel = kernel.with_gamma(search(kernel, some, fold_of, task.lams, task.clip).gamma)
        lam, t = held_out_predictions([kernel] * len(held_out), task, held_out)
        return self._report(Trial("plain", [kernel], lam, t, float("nan")), task, held_out, progress)

    def _report(self, trial: Trial, task: Task, held_out: list[int], progress: Progress) -> Trial:
        rows = np.flatnonzero(np.isin(task.fold_of, held_out))
        honest = clipped_risk(trial.t[rows], task.rows[rows], task.clip)
        progress.report(
            stage="candidate",
            candidate=trial.name,
            criterion=trial.criterion,
            honest=honest,
            optimism=honest - trial.criterion,
            lam=trial.lam,
        )
        return trial


def mixed(d: int, rng: np.random.Generator) -> Architecture:
    """Four smooth and four rough nodes on all features."""
    return with_kinds(two_layers(d, 8, d, rng=rng), rough=range(4, 8))


def oblique(d: int, rng: np.random.Generator) -> Architecture:
    """Four oblique and four rough nodes on all features."""
    return with_kinds(two_layers(d, 8, d, rng=rng), rough=range(4, 8), oblique=range(4), rank=min(d, 8))


def held_out_predictions(
    kernels: Sequence[HierarchicalKernel], task: Task, held_out: Sequence[int]
) -> tuple[float, torch.Tensor]:
    """λ with the smallest held-out risk, and the predictions at it, each fold by its own kernel.

    λ is thus the one thing chosen on the held-out rows. With several folds every λ is resolved, since one that
    cannot win in a fold may win in the mean.
    """
    rows, lams = task.rows, lam_grid(task.rows.size, 16) if len(task.lams) > 1 else task.lams
    t = torch.zeros(len(lams), *rows.Y.shape, dtype=torch.float64)
    losses = torch.zeros(len(lams), dtype=torch.float64)
    for kernel, fold in zip(kernels, held_out, strict=True):
        out = torch.from_numpy(task.fold_of == fold)
        K = kernel.matrix(rows.X.float())[None]
        folds, shifts = torch.where(out, 0, -1), torch.from_numpy(lams)
        complete = len(held_out) > 1
        found = fold_risks(K, rows.Y.float(), folds, shifts, rows.weight, task.clip, complete=complete)
        t[:, out] = found.predictions[0][:, out].double().clamp(-task.clip, task.clip)
        risk = found.risks[0].double().masked_fill(~found.resolved[0], float("inf"))
        losses += risk * rows.weight[out].sum()
    best = int(losses.argmin())
    return float(lams[best]), t[best]


def choose(trials: Sequence[Trial], task: Task, held_out: Sequence[int], progress: Progress) -> list[Trial]:
    """Greedy averaging on held-out rows.

    Start from the best of plain and the first (safest) kind; add a trial as long as the mean's held-out
    risk falls by more than the standard error of the fall.
    """
    index = np.flatnonzero(np.isin(task.fold_of, held_out))
    rows = task.rows[index]
    share = rows.weight / rows.weight.sum()

    def losses(members: Sequence[Trial]) -> torch.Tensor:
        t = torch.stack([m.t[index] for m in members]).mean(0)
        return ((t - rows.Y) ** 2).sum(1)

    chosen = [min(trials[:2], key=lambda trial: float(share @ losses([trial])))]
    rest = [trial for trial in trials if trial is not chosen[0]]
    while rest:
        best = min(rest, key=lambda trial: min(float(share @ losses([*chosen, trial])), float(share @ losses([trial]))))
        options = ([*chosen, best], [best])
        option = min(options, key=lambda members: float(share @ losses(members)))
        gain = losses(chosen) - losses(option)
        error = float(((share * (gain - share @ gain)) ** 2).sum() ** 0.5)
        if float(share @ gain) <= error:
            break
        chosen = list(option)
        rest = [trial for trial in rest if trial is not best]
    progress.report(stage="chosen", candidates=[t.name for t in chosen], risk=float(share @ losses(chosen)))
    return chosen


def paper_architectures(d: int, rng: np.random.Generator) -> list[Architecture]:
    return [inhomogeneous(d), *(two_layers(d, nodes, rng=rng) for nodes in (4, 6, 8, 10, 12, 16))]


PRESETS = {
    "default": Preset(Learned(lambda d, rng: [two_layers(d, 8, rng=rng)], Algorithm1(guard=True))),
    "gradients": Preset(LeaveOneOutGradients(), ranks=True, robust=True),
    "paper": Preset(Learned(paper_architectures, Algorithm1.paper())),
    "plain": Preset(Learned(lambda d, rng: [isotropic(d)], Algorithm1())),
}
