"""The paper's way: an optimiser learns the weights of one architecture, or of several on every fold.

for every architecture, for every fold: learn the weights on the other folds, and judge them on this one
choose the architecture, λ and γ with the smallest mean risk
average the machines of the chosen architecture, each with the weights that were learned without its fold
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from hgk.arrays import require_memory
from hgk.events import ArchitectureChosen, Held
from hgk.executor import Executor, Search
from hgk.kernels import Architecture, HierarchicalKernel
from hgk.learners.base import Learned, Learner
from hgk.machines import Machine, MeanOfMachines
from hgk.progress import Progress
from hgk.search import Task

Architectures = Callable[[int, np.random.Generator], list[Architecture]]
# Double-precision n x n matrices that a fit holds at its peak: four single ones in the grid search with their
# Krylov basis, or three of four fifths of the rows in the fold machines.
MATRICES = 2.5


class OnMatrices(Learner):
    """A learner that works on kernel matrices of all rows."""

    def check_size(self, task, workers):
        n, device = len(task.rows), task.rows.X.device
        require_memory(n, n, MATRICES * workers, torch.float64, "A fit on kernel matrices", device)


@dataclass(frozen=True)
class ByOptimiser(OnMatrices):
    """One architecture learns on all rows; several, on every fold's training part, as in the paper."""

    architectures: Architectures
    optimiser: Any

    def adapted(self, wanted):
        given = list(wanted.architectures)
        architectures = (lambda d, rng: given) if given else self.architectures
        return ByOptimiser(architectures, wanted.optimiser or self.optimiser)

    def learn(self, task, rng, progress, executor):
        architectures = self.architectures(task.rows.X.shape[1], rng)
        if len(architectures) > 1:
            machine = kernel_per_fold(architectures, self.optimiser, task, rng, progress, executor)
            return Learned(machine, task.target)
        search = self.optimiser.search(architectures[0], task.rows, rng, progress, task.problem)
        (kernel,) = executor.drive([search])
        return Learned(task.problem.machine(kernel, task, progress), task.target)


class OnFold(NamedTuple):
    """A kernel that was learned without a fold, and its risks there."""

    kernel: HierarchicalKernel
    grid: Any
    fold: int


def kernel_per_fold(
    architectures: Sequence[Architecture],
    optimiser: Any,
    task: Task,
    rng: np.random.Generator,
    progress: Progress,
    executor: Executor,
) -> Machine:
    """Every architecture learns its weights on every fold's training part; the machines of the best are averaged.

    Stopped early, the choice is among the architectures that are through; if none is, the folds that are through are
    averaged.
    """
    jobs = [(a, fold) for a in range(len(architectures)) for fold in task.folds]
    searches = [
        _learn_on_fold(architectures[a], optimiser, task, fold, child, progress.of(architecture=a, fold=fold))
        for (a, fold), child in zip(jobs, rng.spawn(len(jobs)), strict=True)
    ]
    through = {job: run for job, run in zip(jobs, executor.drive(searches), strict=True) if run is not None}
    groups = [[through[a, b] for b in task.folds if (a, b) in through] for a in range(len(architectures))]
    groups = [g for g in groups if len(g) == len(task.folds)] or [max(groups, key=len)]
    means = [type(group[0].grid).mean([run.grid for run in group]) for group in groups]
    best = int(np.argmin([mean.risk for mean in means]))
    progress.report(ArchitectureChosen(risk=means[best].risk, risks=tuple(mean.risk for mean in means)))
    i, _ = means[best].best
    machines = [
        task.problem.fold_machine(kernel.with_gamma(float(grid.gammas[i])), means[best].choice, task, fold)
        for kernel, grid, fold in groups[best]
    ]
    return machines[0] if len(machines) == 1 else MeanOfMachines(tuple(machines))


def _learn_on_fold(
    architecture: Architecture, optimiser: Any, task: Task, fold: int, rng: np.random.Generator, progress: Progress
) -> Search[OnFold | None]:
    """Weights from the training part, risks over the grid on the held-out part."""
    if progress.cut(when=progress.through > 0):
        return None
    part = task.rows[task.training_part(fold)]
    kernel = yield from optimiser.search(architecture, part, rng, progress, task.problem)
    if progress.aborted:
        return None
    # complete: a cell that cannot win in this fold may still win in the mean over folds
    out = np.where(task.fold_of == fold, 0, -1)
    grid = yield task.problem.grid(kernel, task.rows, out, task.lams, complete=True, progress=progress)
    progress.report(Held(risk=grid.risk))
    progress.through += 1
    return OnFold(kernel, grid, fold)
