"""Splits, folds, the (λ, γ) grid, the choice of an architecture, and what is averaged in the end.

The grid, for a kernel with γ-free exponent S of mean S̄ over pairs of rows, n rows and d columns:

    γ    10 values, geometric, from 5·√S̄ down to 0.2·√S̄·n^(-1/max(d, 3))
    λ    10 values, geometric, from 0.1 down to 10⁻⁴/n

At the largest γ the exponent is about 1/25 on a typical pair, a nearly linear machine; the smallest is
below the distance between neighbours, which shrinks like n^(-1/d) for n rows spread over d dimensions
(data of one or two columns are taken as d = 3, because their spacing is uneven and the grid would become
too coarse). λ = 0.1 nearly ignores labels in [-1, 1]; λ = 10⁻⁴/n, that is nλ = 10⁻⁴ against the kernel's
unit diagonal, nearly interpolates them. The scalings in n and d are those of liquidSVM's default grid,
whose λ end at 10⁻³/n: too early for labels without noise. With sample weights n is their effective number
(Σ s)²/Σ s², since the machine at a given λ does not change when all weights are doubled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from joblib import Parallel, delayed

from hgk.architectures import Architecture
from hgk.arrays import accelerated, require_memory
from hgk.kernels import HierarchicalKernel
from hgk.machines import Machine, Rows, train
from hgk.problems import Choice, LossGrid, Problem, loss_search, train_on_folds, train_part
from hgk.progress import Progress, at_work
from hgk.solvers import fold_risks

GRID = 10
FOLDS = 5
# Kernel matrices held together by one Krylov run, in elements: all widths for a few hundred rows, one
# width at a time from about 1500 rows on.
STACK = 2**21


def three_parts(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The paper's D1, D2, D3: 44.44 %, 22.22 % and 33.33 % of the rows, at random."""
    order = rng.permutation(n)
    ends = round(n * 4 / 9), round(n * 6 / 9)
    D1, D2, D3 = np.split(order, ends)
    return D1, D2, D3


def fold_numbers(n: int, folds: int, rng: np.random.Generator, strata: np.ndarray | None = None) -> np.ndarray:
    """The fold in which each row is held out; sizes differ by at most one, per stratum if there are any."""
    order = rng.permutation(n)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    fold_of = np.empty(n, dtype=np.int64)
    fold_of[order] = np.arange(n) % folds
    return fold_of


def gamma_grid(mean_exponent: float, n: int, d: int, size: int = GRID) -> np.ndarray:
    root = np.sqrt(mean_exponent) if mean_exponent > 0 else 1.0
    return np.geomspace(5 * root, 0.2 * root * n ** (-1 / max(d, 3)), size)


def lam_grid(n: float, size: int = GRID) -> np.ndarray:
    return np.geomspace(0.1, 1e-4 / n, size)


@dataclass(frozen=True)
class GridResult:
    """Held-out risks over the grid, by γ and λ.

    A cell is resolved when its risk is final to statistical precision. The others were left when they
    could no longer win; they are not chosen.
    """

    gammas: np.ndarray
    lams: np.ndarray
    risks: np.ndarray
    resolved: np.ndarray
    products: int  # with a kernel matrix

    @property
    def best(self) -> tuple[int, int]:
        if not self.resolved.any():
            raise ValueError(
                "No cell of the (λ, γ) grid could be resolved in single precision; check the labels for values that "
                "differ by many orders of magnitude, or give lam."
            )
        candidates = np.where(self.resolved, self.risks, np.inf)
        i, j = np.unravel_index(int(np.argmin(candidates)), candidates.shape)
        return int(i), int(j)

    @property
    def choice(self) -> GridResult:
        """What has γ, λ and their risk."""
        return self

    @property
    def gamma(self) -> float:
        return float(self.gammas[self.best[0]])

    @property
    def lam(self) -> float:
        return float(self.lams[self.best[1]])

    @property
    def risk(self) -> float:
        return float(self.risks[self.best])


def search(
    kernel: HierarchicalKernel,
    rows: Rows,
    fold_of: np.ndarray,
    lams: np.ndarray,
    clip: float,
    dtype: torch.dtype = torch.float32,
    complete: bool = False,
    progress: Progress | None = None,
) -> GridResult:
    """Held-out risks over the (λ, γ) grid; rows with ``fold_of = -1`` are never held out.

    The γ-free exponent is computed once; each γ costs one exponential of it and a few dozen to a few
    hundred products, shared by all folds, outputs and λ (see :mod:`hgk.solvers.krylov`). Single
    precision is enough here: the search ranks risks whose sampling error is above 1 %, and the chosen
    machines are solved again in double precision. A wish to stop is granted between widths.
    """
    n = len(rows)
    require_memory(n, n, 4, dtype, "The grid search's kernel matrix", rows.X.device)
    S = kernel.exponent(rows.X.to(dtype))
    gammas = widths(kernel, S)
    shape = len(gammas), len(lams)
    risks, resolved, products = np.full(shape, np.inf), np.zeros(shape, dtype=bool), 0
    folds, shifts = torch.from_numpy(fold_of).to(S.device), torch.as_tensor(lams)
    room = STACK if not accelerated(S) else 64 * STACK  # there, launches cost more than steps that are not needed
    for stack in _widths_from_the_middle(len(gammas), max(1, room // n**2)):
        K = torch.stack([torch.exp(S * -(gammas[i] ** -2)) for i in stack])
        known = float(np.where(resolved, risks, np.inf).min())
        found = fold_risks(K, rows.Y.to(dtype), folds, shifts, rows.weight, clip, complete=complete, known=known)
        risks[stack], resolved[stack] = found.risks.cpu().numpy(), found.resolved.cpu().numpy()
        products += found.steps * len(stack)
        if progress is not None and progress.cut(when=bool(resolved.any())):
            break
    return GridResult(gammas, np.asarray(lams), risks, resolved, products)


def widths(kernel: HierarchicalKernel, S: torch.Tensor) -> np.ndarray:
    """The γ grid for the exponents S between all rows."""
    n, columns = len(S), len(set().union(*kernel.architecture.coordinates))
    return gamma_grid(float(S.mean(dtype=torch.float64)) * n / max(1, n - 1), n, columns)


def search_with(
    problem: Problem | None,
    kernel: HierarchicalKernel,
    rows: Rows,
    fold_of: np.ndarray,
    lams: np.ndarray,
    clip: float,
    complete: bool = False,
    progress: Progress | None = None,
) -> GridResult | LossGrid:
    """The same for any loss: least squares by Krylov spaces, the others by paths over λ on every fold."""
    if problem is None:
        return search(kernel, rows, fold_of, lams, clip, complete=complete, progress=progress)
    n = len(rows)
    require_memory(n, n, 4, torch.float64, "The grid search's kernel matrices")
    S = kernel.exponent(rows.X)
    gammas = widths(kernel, S)
    order = [i for (i,) in _widths_from_the_middle(len(gammas), 1)]
    return loss_search(problem, rows, fold_of, gammas, lams, S, order, complete, progress)


def _widths_from_the_middle(size: int, at_once: int) -> list[list[int]]:
    """Indices ordered from the middle outwards: good widths first give later ones a risk to give up at."""
    order = sorted(range(size), key=lambda i: abs(i - (size - 1) / 2))
    return [order[i : i + at_once] for i in range(0, size, at_once)]


def mean_grid(grids: Sequence) -> GridResult | LossGrid:
    """The mean risk over folds, whose γ grids are matched by position."""
    if isinstance(grids[0], LossGrid):
        return LossGrid.mean(grids)
    return GridResult(
        np.mean([g.gammas for g in grids], axis=0),
        grids[0].lams,
        np.mean([g.risks for g in grids], axis=0),
        np.all([g.resolved for g in grids], axis=0),
        sum(g.products for g in grids),
    )


@dataclass(frozen=True)
class Task:
    """What all plans need to know: the rows, their folds, the λ to try, the clipping bound, each feature's kind, and
    what is to be solved in the end: None is least squares, by its own exact ways.
    """

    rows: Rows
    fold_of: np.ndarray
    lams: np.ndarray
    clip: float
    features: tuple[str, ...] = ()
    problem: Problem | None = None

    @property
    def squared(self) -> Task:
        """The same rows with least squares, by which kernels are learned; labels lie in [-1, 1]."""
        return replace(self, problem=None, clip=1.0)

    @property
    def folds(self) -> range:
        return range(int(self.fold_of.max()) + 1)

    def training_part(self, fold: int) -> torch.Tensor:
        return torch.from_numpy(np.flatnonzero(self.fold_of != fold))


class Plan(ABC):
    """``machines(task, rng, progress, n_jobs)``: what is averaged to predict."""

    @abstractmethod
    def machines(
        self, task: Task, rng: np.random.Generator, progress: Progress, n_jobs: int | None = None
    ) -> list[Machine]: ...


def one_kernel(kernel: HierarchicalKernel, task: Task, progress: Progress) -> Machine:
    """Choose (λ, γ) for given weights by cross-validation; the mean of the fold machines."""
    if task.problem is not None:
        return _one_kernel_with(task.problem, kernel, task, progress)
    found = search(kernel, task.rows, task.fold_of, task.lams, task.clip, progress=progress)
    progress.report(stage="grid", risk=found.risk, gamma=found.gamma, lam=found.lam, products=found.products)
    return train(kernel.with_gamma(found.gamma), task.rows, found.lam, [task.training_part(b) for b in task.folds])


def _one_kernel_with(problem: Problem, kernel: HierarchicalKernel, task: Task, progress: Progress) -> Machine:
    grid = search_with(problem, kernel, task.rows, task.fold_of, task.lams, task.clip, progress=progress)
    found = cast(Choice, grid.choice)
    progress.report(stage="loss grid", risk=found.risk, gamma=found.gamma, lam=found.lam)
    chosen = [(kernel.with_gamma(found.gamma), 1.0)]
    (machine,) = train_on_folds(chosen, problem, task.rows, task.fold_of, found, progress)
    return machine


def kernel_per_fold(
    architectures: Sequence[Architecture],
    optimiser,
    task: Task,
    rng: np.random.Generator,
    progress: Progress,
    n_jobs: int | None = None,
) -> list[Machine]:
    """The paper's protocol: every architecture learns its weights on every fold's training part.

    The held-out folds choose the architecture, λ and γ; the machines of the chosen architecture, each
    with its own weights, are averaged. Stopped early, the choice is among the architectures that are
    through; if none is, the folds that are through are averaged.
    """
    jobs = [(a, b) for a in range(len(architectures)) for b in task.folds]
    attempts = [
        (architectures[a], task, b, child, progress.of(architecture=a, fold=b))
        for (a, b), child in zip(jobs, rng.spawn(len(jobs)), strict=True)
    ]
    if accelerated(task.rows.X) and hasattr(optimiser, "learn_together"):
        runs = _learn_together(optimiser, attempts, task)
    else:
        runs = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(_learn_on_fold)(optimiser, *attempt) for attempt in attempts
        )
    through = {(a, b): run for (a, b), run in zip(jobs, runs, strict=True) if run is not None}
    groups = [[through[a, b] for b in task.folds if (a, b) in through] for a in range(len(architectures))]
    groups = [g for g in groups if len(g) == len(task.folds)] or [max(groups, key=len)]
    means = [mean_grid([grid for _, grid, _ in group]) for group in groups]
    best = int(np.argmin([mean.risk for mean in means]))
    progress.report(stage="architecture", risk=means[best].risk, risks=[mean.risk for mean in means])
    i, _ = means[best].best
    return [
        _train_on_fold(kernel.with_gamma(float(grid.gammas[i])), means[best].choice, task, index)
        for kernel, grid, index in groups[best]
    ]


def _train_on_fold(kernel: HierarchicalKernel, choice, task: Task, index: torch.Tensor) -> Machine:
    if task.problem is None:
        return train(kernel, task.rows, choice.lam, [index])
    out = torch.ones(len(task.rows), dtype=torch.bool).index_fill(0, index, False).nonzero()[:, 0]
    return train_part(kernel, task.problem, task.rows, choice, index, out)


def _learn_on_fold(optimiser, architecture, task: Task, fold: int, rng, progress: Progress):
    """Weights from the training part, risks over the grid on the held-out part."""
    if progress.cut(when=progress.through > 0):
        return None
    part = task.rows[task.training_part(fold)]
    with at_work():
        kernel = optimiser.learn(architecture, part, task.clip, rng, progress, task.problem)
        return None if progress.aborted else _judged_on_fold(kernel, task, fold, progress)


def _learn_together(optimiser, attempts, task: Task):
    """The same for all architectures and folds at once."""
    parts = [(tree, task.rows[task.training_part(fold)], rng, told) for tree, _, fold, rng, told in attempts]
    kernels = optimiser.learn_together(parts, task.clip, task.problem)
    return [
        _judged_on_fold(kernel, task, fold, told)
        for kernel, (_, _, fold, _, told) in zip(kernels, attempts, strict=True)
    ]


def _judged_on_fold(kernel: HierarchicalKernel, task: Task, fold: int, progress: Progress):
    held_out = np.where(task.fold_of == fold, 0, -1)
    # complete: a cell that cannot win in this fold may still win in the mean over folds
    grid = search_with(task.problem, kernel, task.rows, held_out, task.lams, task.clip, complete=True)
    progress.report(stage="fold", risk=grid.risk)
    progress.through += 1
    return kernel, grid, task.training_part(fold)
