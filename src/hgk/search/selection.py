"""Splits, folds, the (λ, γ) grid, the choice of an architecture, and what is averaged in the end.

The grid, for a kernel with γ-free exponent S of mean S̄ over pairs of rows, n rows and d columns:

    γ    10 values, geometric, from 5·√S̄ down to 0.2·√S̄·n^(-1/max(d, 3))
    λ    10 values, geometric, from 0.1 down to 10⁻⁴/n

At the largest γ the exponent is about 1/25 on a typical pair, a nearly linear machine; the smallest is
below the distance between neighbours, which shrinks like n^(-1/d) for n rows spread over d dimensions
(data of one or two columns are taken as d = 3, because their spacing is uneven and the grid would become
too coarse). λ = 0.1 nearly ignores labels in [-1, 1]; λ = 10⁻⁴/n, that is nλ = 10⁻⁴ against the kernel's
unit diagonal, nearly interpolates them. The scalings in n and d are those of liquidSVM's default grid,
whose λ end at 10⁻³/n: too early for labels without noise. With sample weights s of rows that were given m times n
is the effective number of repetitions (Σ s)² / Σ s²/m: the machine at a given λ does not change when all weights are
doubled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import numpy as np
import torch
from joblib import Parallel, delayed

from hgk.arrays import accelerated, in_loads, require_memory
from hgk.kernels import Architecture, HierarchicalKernel
from hgk.machines.base import Machine, Part, Rows, train, wrong_classes
from hgk.progress import Progress, at_work
from hgk.search.problems import (
    FEWER,
    MAIN,
    Choice,
    LossGrid,
    OfLoss,
    Problem,
    gathered,
    loss_search,
    train_on_folds,
    train_part,
)
from hgk.solvers import fold_risks
from hgk.solvers.krylov import MOST_STEPS
from hgk.targets.few_values import Levels

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
    return divide(np.ones(n), folds, rng, strata).fold_of


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows divided among folds: a piece holds those repetitions of one row that are held out together.

    Rows that were given once are one piece each. ``origin`` is the row that a piece is of, ``share`` how many of its
    repetitions it holds.
    """

    origin: np.ndarray
    fold_of: np.ndarray
    share: np.ndarray

    def of(self, rows: Rows) -> Rows:
        index, share = torch.from_numpy(self.origin), torch.from_numpy(self.share)
        if len(index) == len(rows):
            return rows
        return rows.portion(index, rows.weight[index] * share.to(rows.weight.device))


# Repetitions that are dealt out one by one, over all rows; beyond, in equal portions.
DEALT = 2_000_000


def divide(
    count: np.ndarray,
    folds: int,
    rng: np.random.Generator,
    strata: np.ndarray | None = None,
    most: float = float("inf"),
) -> Pieces:
    """Deal the repetitions of all rows out to the folds at random; sizes differ by at most one, per stratum if any.

    Those of one row are shuffled among all others: dealt out evenly, every fold would repeat the frequencies that the
    other folds have, and a held-out error would be that of the training rows. A row with more than ``most`` repetitions
    is dealt out in so many equal portions.
    """
    portions = np.minimum(count, min(most, max(folds, DEALT // len(count)))).astype(np.int64)
    row = np.repeat(np.arange(len(count)), portions)
    fold_of = np.empty(len(row), dtype=np.int64)
    fold_of[shuffled(len(row), rng, None if strata is None else strata[row])] = np.arange(len(row)) % folds
    dealt = np.bincount(row * folds + fold_of, minlength=len(count) * folds).reshape(-1, folds)
    origin, fold_of = np.nonzero(dealt)
    return Pieces(origin, fold_of, dealt[origin, fold_of] / portions[origin])


def shuffled(n: int, rng: np.random.Generator, strata: np.ndarray | None = None) -> np.ndarray:
    """Rows in random order; those of a stratum, if there are any, one after the other, so that every fold has some."""
    order = rng.permutation(n)
    return order if strata is None else order[np.argsort(strata[order], kind="stable")]


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


@dataclass(frozen=True, eq=False)
class Grid:
    """A wish for the held-out risks over the (λ, γ) grid, of least squares or of a problem's loss.

    Rows with ``fold_of = -1`` are never held out.
    """

    kernel: HierarchicalKernel
    rows: Rows
    fold_of: np.ndarray
    lams: np.ndarray
    clip: float
    dtype: torch.dtype = torch.float32
    complete: bool = False
    progress: Progress | None = None
    problem: Problem | None = None


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
    """The risks of one :class:`Grid`.

    The γ-free exponent is computed once; each γ costs one exponential of it and a few dozen to a few
    hundred products, shared by all folds, outputs and λ (see :mod:`hgk.solvers.krylov`). Single
    precision is enough here: the search ranks risks whose sampling error is above 1 %, and the chosen
    machines are solved again in double precision. A wish to stop is granted between widths.
    """
    return _search_together([Grid(kernel, rows, fold_of, lams, clip, dtype, complete, progress)])[0]


def search_all(grids: Sequence[Grid]) -> list[GridResult | LossGrid]:
    """Of many: least squares by Krylov spaces, other losses by paths over λ on every fold.

    On an accelerator those that are alike go together, as many as fit into half of its memory.
    """
    found: dict[int, GridResult | LossGrid] = {}
    for load in _loads(grids):
        results = _search_together(load) if load[0].problem is None else _paths(*load)
        found |= zip(map(id, load), results, strict=True)
    return [found[id(grid)] for grid in grids]


def _loads(grids: Sequence[Grid]) -> list[list[Grid]]:
    alike: dict[tuple, list[Grid]] = {}
    for grid in grids:
        alone = grid.problem is not None or not accelerated(grid.rows.X)
        key = grid.rows.X.device, grid.dtype, grid.clip, grid.complete, grid.rows.Y.shape[1], len(grid.lams)
        alike.setdefault((id(grid),) if alone else key, []).append(grid)
    return [load for group in alike.values() for load in in_loads(group, _bytes, group[0].rows.X.device)]


def _bytes(grid: Grid) -> float:
    """Of S, K, an exponential, and a basis that is copied when it grows."""
    n, vectors = len(grid.rows), (int(grid.fold_of.max()) + 1) * grid.rows.Y.shape[1] * MOST_STEPS
    return (3 * n**2 + 1.5 * vectors * n) * grid.dtype.itemsize


def _search_together(grids: Sequence[Grid]) -> list[GridResult]:
    """All with the same settings; the shorter ones are filled up by rows without weight."""
    first, many, n = grids[0], len(grids), max(len(grid.rows) for grid in grids)
    require_memory(n, n, 4, first.dtype, "The grid search's kernel matrix", first.rows.X.device)
    S = [grid.kernel.exponent(grid.rows.X.to(first.dtype)) for grid in grids]
    gammas = np.stack([widths(grid.kernel, s) for grid, s in zip(grids, S, strict=True)])
    shape = many, gammas.shape[1], len(first.lams)
    risks, resolved, products = np.full(shape, np.inf), np.zeros(shape, dtype=bool), 0
    problems = [_problem(grid, n) for grid in grids]
    parts = problems[0] if many == 1 else [torch.stack(part) for part in zip(*problems, strict=True)]
    room = STACK if not accelerated(S[0]) else 64 * STACK  # there, launches cost more than steps that are not needed
    for stack in _widths_from_the_middle(shape[1], max(1, room // (many * n**2))):
        K = S[0].new_zeros(many * len(stack), n, n)
        for out, (p, i) in zip(K, product(range(many), stack), strict=True):
            torch.mul(S[p], -(gammas[p, i] ** -2), out=out[: len(S[p]), : len(S[p])]).exp_()
        known = torch.from_numpy(np.where(resolved, risks, np.inf).min((1, 2))).repeat_interleave(len(stack))
        Y, folds, weight, lams = parts if many == 1 else (part.repeat_interleave(len(stack), 0) for part in parts)
        found = fold_risks(K, Y, folds, lams, weight, first.clip, complete=first.complete, known=known)
        risks[:, stack] = found.risks.cpu().numpy().reshape(many, len(stack), -1)
        resolved[:, stack] = found.resolved.cpu().numpy().reshape(many, len(stack), -1)
        products += found.steps * len(stack)
        some = bool(resolved.any((1, 2)).all())
        if any(grid.progress is not None and grid.progress.cut(when=some) for grid in grids):
            break
    return [GridResult(gammas[p], np.asarray(g.lams), risks[p], resolved[p], products) for p, g in enumerate(grids)]


def _problem(grid: Grid, n: int) -> list[torch.Tensor]:
    """Y, folds, weights and λ on the rows' device; up to n rows, those added without weight and never held out."""
    rows, more = grid.rows, n - len(grid.rows)
    Y = torch.nn.functional.pad(rows.Y.to(grid.dtype), (0, 0, 0, more))
    folds = torch.from_numpy(np.pad(grid.fold_of, (0, more), constant_values=-1)).to(Y.device)
    weight = torch.nn.functional.pad(rows.weight, (0, more))
    return [Y, folds, weight, torch.as_tensor(grid.lams).to(Y.device)]


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
    """The same as :func:`search` for any loss."""
    asked = Grid(kernel, rows, fold_of, lams, clip, complete=complete, progress=progress, problem=problem)
    return search_all([asked])[0]


def _paths(grid: Grid) -> list[LossGrid]:
    n, problem = len(grid.rows), cast(Problem, grid.problem)
    require_memory(n, n, 4, torch.float64, "The grid search's kernel matrices")
    # losses three times, and coefficients of all folds in single precision
    folds, columns = int(grid.fold_of.max()) + 1, problem.labels(grid.rows.Y[:1].to(MAIN)).shape[1]
    what = f"The grid search's coefficients and losses of {columns} columns"
    require_memory(n, len(grid.lams) * columns, 3 + folds / 2, torch.float64, what)
    S = grid.kernel.exponent(grid.rows.X)
    gammas = widths(grid.kernel, S)
    order = [i for (i,) in _widths_from_the_middle(len(gammas), 1)]
    found = loss_search(problem, grid.rows, grid.fold_of, gammas, grid.lams, S, order, grid.complete, grid.progress)
    return [found]


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
    what is to be solved in the end: None is least squares, by its own exact ways. ``numbers`` says that labels are
    numbers, not classes; with ``levels`` the rows' outputs are columns of one such label's values.

    Where rows were given several times, ``rows`` are pieces of them, each in one fold, and ``origin`` says of which of
    the ``distinct`` rows, on which machines are trained in the end.
    """

    rows: Rows
    fold_of: np.ndarray
    lams: np.ndarray
    clip: float
    features: tuple[str, ...] = ()
    problem: Problem | None = None
    numbers: bool = False
    levels: Levels | None = None
    distinct: Rows | None = None
    origin: torch.Tensor | None = None

    @property
    def whole(self) -> Rows:
        """The distinct rows."""
        return self.rows if self.distinct is None else self.distinct

    def with_levels(self, levels: Levels) -> Task:
        """With a column for each value of the labels."""

        def columns(rows: Rows) -> Rows:
            return replace(rows, Y=levels.columns(rows.Y))

        distinct = None if self.distinct is None else columns(self.distinct)
        return replace(self, rows=columns(self.rows), distinct=distinct, levels=levels)

    def part(self, fold: int) -> Part:
        """The distinct rows that a machine without this fold is trained on, and their weights there."""
        index = self.training_part(fold)
        if self.origin is None:
            return index, self.rows.weight[index]
        weight = torch.zeros_like(self.whole.weight)
        weight.index_add_(0, self.origin[index].to(weight.device), self.rows.weight[index])
        return (present := weight.nonzero()[:, 0].cpu()), weight[present]

    def gathered(self, machines: Sequence[Machine]) -> list[Machine]:
        """Machines on pieces as machines on the distinct rows."""
        if self.origin is None:
            return list(machines)
        return [
            gathered(machine, self.rows, self.origin, len(self.whole)) if isinstance(machine, OfLoss) else machine
            for machine in machines
        ]

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
    told = {"rows": round(task.rows.given), **_wrong(kernel.with_gamma(found.gamma), found.lam, task)}
    progress.report(stage="grid", risk=found.risk, gamma=found.gamma, lam=found.lam, products=found.products, **told)
    return train(kernel.with_gamma(found.gamma), task.whole, found.lam, [task.part(b) for b in task.folds])


def _wrong(kernel: HierarchicalKernel, lam: float, task: Task) -> dict[str, float]:
    """Of classes how many are wrong in the folds they are held out in."""
    if task.numbers or not bool((task.rows.Y.abs() == 1).all()):
        return {}
    Y, folds = task.rows.Y.float(), torch.from_numpy(task.fold_of).to(task.rows.Y.device)
    K, lams = kernel.matrix(task.rows.X.float())[None], torch.tensor([lam], device=Y.device)
    t = fold_risks(K, Y, folds, lams, task.rows.weight, task.clip, complete=True).predictions[0, 0]
    return wrong_classes(t, task.rows)


def _one_kernel_with(problem: Problem, kernel: HierarchicalKernel, task: Task, progress: Progress) -> Machine:
    """Where time is short, γ is chosen on a few rows and λ at this width; see ``choose_lams``."""
    short = progress.hurried and len(task.rows) > FEWER
    some = np.sort(np.random.default_rng(0).permutation(len(task.rows))[:FEWER]) if short else slice(None)
    rows, told = task.rows[some], Progress() if progress.hurried else progress  # few rows are not left half way
    grid = search_with(problem, kernel, rows, task.fold_of[some], task.lams, task.clip, progress=told)
    found = cast(Choice, grid.choice)
    progress.report(stage="loss grid", risk=found.risk, gamma=found.gamma, lam=found.lam, few=short)
    chosen = [(kernel.with_gamma(found.gamma), 1.0)]
    lams = task.lams if short else found
    (machine,) = train_on_folds(chosen, problem, task.rows, task.fold_of, lams, progress)
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
        _train_on_fold(kernel.with_gamma(float(grid.gammas[i])), means[best].choice, task, fold)
        for kernel, grid, fold in groups[best]
    ]


def _train_on_fold(kernel: HierarchicalKernel, choice, task: Task, fold: int) -> Machine:
    if task.problem is None:
        return train(kernel, task.whole, choice.lam, [task.part(fold)])
    out = torch.from_numpy(np.flatnonzero(task.fold_of == fold))
    return train_part(kernel, task.problem, task.rows, choice, task.training_part(fold), out)


def _learn_on_fold(optimiser, architecture, task: Task, fold: int, rng, progress: Progress):
    """Weights from the training part, risks over the grid on the held-out part."""
    if progress.cut(when=progress.through > 0):
        return None
    part = task.rows[task.training_part(fold)]
    with at_work():
        kernel = optimiser.learn(architecture, part, task.clip, rng, progress, task.problem)
        return None if progress.aborted else _judged_on_folds([kernel], task, [fold], [progress])[0]


def _learn_together(optimiser, attempts, task: Task):
    """The same for all architectures and folds at once."""
    parts = [(tree, task.rows[task.training_part(fold)], rng, told) for tree, _, fold, rng, told in attempts]
    kernels = optimiser.learn_together(parts, task.clip, task.problem)
    through = [i for i, (*_, told) in enumerate(attempts) if not told.aborted]
    folds, tolds = ([attempts[i][place] for i in through] for place in (2, 4))
    judged = dict(zip(through, _judged_on_folds([kernels[i] for i in through], task, folds, tolds), strict=True))
    return [judged.get(i) for i in range(len(attempts))]


def _judged_on_folds(
    kernels: Sequence[HierarchicalKernel], task: Task, folds: Sequence[int], progresses: Sequence[Progress]
) -> list[tuple[HierarchicalKernel, GridResult | LossGrid, int]]:
    """Every kernel with its risks on its fold, which it is not to be trained on."""
    # complete: a cell that cannot win in this fold may still win in the mean over folds
    held_out = [np.where(task.fold_of == fold, 0, -1) for fold in folds]
    asked = [
        Grid(kernel, task.rows, out, task.lams, task.clip, complete=True, progress=progress, problem=task.problem)
        for kernel, out, progress in zip(kernels, held_out, progresses, strict=True)
    ]
    found = search_all(asked)
    for grid, progress in zip(found, progresses, strict=True):
        progress.report(stage="fold", risk=grid.risk)
        progress.through += 1
    return list(zip(kernels, found, folds, strict=True))
