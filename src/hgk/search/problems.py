"""What is to be solved: a loss, for columns of labels.

A problem says how its machines are searched for and trained. Least squares (:class:`Squares`) has closed forms: one
Krylov space serves all folds, λ and outputs, and functions without single rows come from a factor. Any other convex
loss (:class:`Convex`) has a machine for every column, on the rows that have a part in it, and paths over λ.

The machine of another loss is in the end the mean of those trained without one fold each; their predictions of the rows
they have not seen are kept, since what is said about the machine (probabilities, thresholds, errors) must come from
these: leave-one-out is exact for least squares alone. Where kernels were learned without some folds, these folds choose
λ and speak for the machine: the others have shaped the kernel, and flatter it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hgk.arrays import require_memory, single_blas
from hgk.events import GridChosen, Trained
from hgk.executor import Request
from hgk.kernels import HierarchicalKernel, Kernel, MeanKernel
from hgk.losses import LeastSquares, LeastSquaresOrLogistic, Loss
from hgk.machines import FINE, Exact, Machine, OfLoss, Rows, train, wrong_classes
from hgk.progress import Progress
from hgk.search.grids import Grid, search_all
from hgk.search.races import FEWER, MAIN, Choice, Folds, LossGrid, choose_lams, in_turn, path_search, together
from hgk.solvers import Krylov, Solution, solver_for
from hgk.targets import Target

if TYPE_CHECKING:
    from hgk.search.task import Task


class Problem(ABC):
    """A loss and the columns that it is solved for.

    Attributes
    ----------
    loss : Loss
    exact : bool
        Whether functions without single rows come in closed form.
    """

    loss: Loss
    exact: bool

    @property
    def clip(self) -> float:
        """Where predictions are clipped before a risk, for labels in [-1, 1]."""
        return self.loss.clip(torch.ones(1))

    def labels(self, Y: torch.Tensor) -> torch.Tensor:
        """The columns T, NaN where a row has no part in one."""
        return Y

    @abstractmethod
    def losses(self, T: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """L(T, clip(t)), 0 where a row has no part."""

    @abstractmethod
    def slopes(self, T: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The derivative of the same in t."""

    @abstractmethod
    def grid(
        self, kernel, rows: Rows, fold_of: np.ndarray, lams: np.ndarray, complete: bool = False, progress=None
    ) -> Request:
        """A request for held-out risks over the (λ, γ) grid; what comes back has ``choice``, ``risk`` and ``mean``."""

    @abstractmethod
    def coefficients(self, kernel: Kernel, rows: Rows, choice: Any) -> torch.Tensor:
        """α on all rows, whose Y are columns T, at the λ chosen."""

    @abstractmethod
    def machine(self, kernel: Kernel, task: Task, progress: Progress) -> Machine:
        """Choose (λ, γ) for given weights by cross-validation; the mean of the fold machines."""

    @abstractmethod
    def fold_machine(self, kernel: Kernel, choice: Any, task: Task, fold: int) -> Machine:
        """The machine without one fold, at the λ chosen."""


# -------------------------------------------------------------------------------------------------- least squares


@dataclass(frozen=True)
class Squares(Problem):
    """Least squares, by its own exact ways."""

    loss = LeastSquares()
    exact = True

    @property
    def clip(self) -> float:
        return 1.0

    def losses(self, T, t):
        return (t.clamp(-self.clip, self.clip) - T) ** 2

    def slopes(self, T, t):
        return 2 * (t - T) * (t.abs() < self.clip)

    def grid(self, kernel, rows, fold_of, lams, complete=False, progress=None):
        return Grid(kernel, rows, fold_of, lams, self.clip, complete=complete, progress=progress)

    def coefficients(self, kernel, rows, choice):
        return train(kernel, rows, choice.lam).alpha

    def machine(self, kernel, task, progress):
        (result,) = search_all([self.grid(kernel, task.rows, task.fold_of, task.lams, progress=progress)])
        kernel = kernel.with_gamma(result.gamma)
        chosen = GridChosen(risk=result.risk, gamma=result.gamma, lam=result.lam, products=result.products)
        wrong = self._wrong(kernel, result.lam, task).get("wrong")
        progress.report(replace(chosen, rows=round(task.rows.given), wrong=wrong))
        return train(kernel, task.whole, result.lam, [task.part(b) for b in task.folds])

    def _wrong(self, kernel: Kernel, lam: float, task: Task) -> dict[str, float]:
        """Of classes how many are wrong in the folds they are held out in."""
        if not task.target.classes:
            return {}
        solver, folds = Krylov(), torch.from_numpy(task.fold_of).to(task.rows.Y.device)
        state = solver.prepare(kernel.matrix(task.rows.X.float()), task.rows.weight, folds)
        t = solver.solve(state, task.rows.Y.float(), torch.tensor([lam]), clip=self.clip, complete=True).predictions[0]
        return wrong_classes(t, task.rows)

    def fold_machine(self, kernel, choice, task, fold) -> Exact:
        return train(kernel, task.whole, choice.lam, [task.part(fold)])


SQUARES = Squares()


@dataclass(frozen=True)
class Either(Squares):
    """Least squares or the logistic loss of classes; learners that do not compare them take least squares."""


EITHER = Either()


# ------------------------------------------------------------------------------------------------ any convex loss


@dataclass(frozen=True, eq=False)
class LossGridRequest(Request):
    """Held-out risks of a loss over the (λ, γ) grid."""

    problem: Convex
    grid: Grid

    def alone(self) -> LossGrid:
        return path_search(self.problem, self.grid)


@dataclass(frozen=True)
class Convex(Problem):
    """Any loss, solved for the columns that a target makes of labels.

    Parameters
    ----------
    loss : Loss
    target : Target or None
        None takes labels as they are.
    own_lam : bool, default=False
        A λ for every column.

    Examples
    --------
    >>> from hgk.losses import Hinge
    >>> Convex(Hinge()).losses(torch.tensor([[1.0], [-1.0]]), torch.tensor([[0.5], [0.5]])).tolist()
    [[0.5], [1.5]]
    """

    loss: Loss
    target: Target | None = None
    own_lam: bool = False

    exact = False

    def labels(self, Y):
        return Y if self.target is None else self.target.expand(Y.to(MAIN)).to(Y)

    def losses(self, T, t):
        device, T, t = t.device, T.to(MAIN), t.to(MAIN)
        part = T.isfinite()
        value = self.loss.value(torch.where(part, T, 1.0), t.clamp(-self.clip, self.clip))
        return torch.where(part, value, 0.0).to(device)

    def slopes(self, T, t):
        device, T, t = t.device, T.to(MAIN), t.to(MAIN)
        part = T.isfinite() & (t.abs() < self.clip)
        return torch.where(part, self.loss.derivative(torch.where(T.isfinite(), T, 1.0), t), 0.0).to(device)

    def risks(self, T: torch.Tensor, t: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """One for each column, over the rows that have a part in it."""
        s = weight[:, None] * T.isfinite()
        return (s * self.losses(T, t)).sum(0) / s.sum(0).clamp(min=1e-300)

    def compared(self, risks: torch.Tensor) -> torch.Tensor:
        """What is compared when λ is chosen: risks of columns, or their sum in the last axis."""
        return risks if self.own_lam else risks.sum(-1, keepdim=True)

    def solve(self, K, T, weight, lams, tol=None, start=None, floor=0.0) -> tuple[torch.Tensor, float]:
        """α, one λ for every column of T, and the largest relative duality gap (see BoxDual for its ``floor``)."""
        solver, alpha, gap = solver_for(self.loss, tol, floor), torch.zeros_like(T), 0.0
        lams = torch.as_tensor(lams, dtype=torch.float64).expand(T.shape[1])
        for part, columns in _same_rows(T):
            whole = len(part) == len(T)
            if not whole:
                part = part[weight[part] > 0]
            if not len(part):  # two classes of which this fold has no row
                continue
            state = solver.prepare(K if whole else K[part[:, None], part], weight[part])
            for lam in lams[columns].unique():
                mine = columns[lams[columns] == lam]
                first = None if start is None else Solution(start[part[:, None], mine])
                labels = T[part[:, None], mine]
                solution = solver.solve(state, labels, float(lam), self.loss.columns(mine.tolist()), first)
                alpha[part[:, None], mine] = solution.alpha
                gap = max(gap, solution.stats["gap"])
        return alpha, gap

    def grid(self, kernel, rows, fold_of, lams, complete=False, progress=None):
        return LossGridRequest(self, Grid(kernel, rows, fold_of, lams, self.clip, complete=complete, progress=progress))

    def coefficients(self, kernel, rows, choice):
        K, T, weight = (x.to(MAIN) for x in (kernel.matrix(rows.X).double(), rows.Y, rows.weight))
        return self.solve(K, T, weight, choice.lams)[0].to(rows.X)

    def machine(self, kernel, task, progress):
        """Where time is short, γ is chosen on a few rows and λ at this width."""
        short = progress.hurried and len(task.rows) > FEWER
        few = np.sort(np.random.default_rng(0).permutation(len(task.rows))[:FEWER]) if short else slice(None)
        rows, told = task.rows[few], Progress() if progress.hurried else progress  # few rows are not left half way
        choice = self.grid(kernel, rows, task.fold_of[few], task.lams, progress=told).alone().choice
        progress.report(GridChosen(risk=choice.risk, gamma=choice.gamma, lam=choice.lam, few=short))
        lams = task.lams if short else choice
        kernels = [(term, share) for share, term in kernel.with_gamma(choice.gamma).terms]
        return self.mean_machine(kernels, task.rows, task.fold_of, lams, progress)

    @single_blas()
    def mean_machine(
        self,
        kernels: Sequence[tuple[HierarchicalKernel, float]],
        rows: Rows,
        fold_of: np.ndarray,
        lams: np.ndarray | Choice,
        progress: Progress,
        unseen: Mapping[int, list[int]] | None = None,
    ) -> OfLoss:
        """The mean of the fold machines on the mean of the kernels; λ as chosen, or by folds among those given.

        ``unseen`` names the folds that some kernels were learned without, and these kernels: they alone choose λ there
        and predict the rows held out, as if the fold had never been. None: every kernel and every fold.
        """
        require_memory(len(rows), len(rows), 4, torch.float64, "The kernel matrix of a machine with this loss")
        folds, kernel = range(int(fold_of.max()) + 1), mean_kernel(kernels)
        unseen = {fold: list(range(len(kernels))) for fold in folds} if unseen is None else unseen
        whole = Folds.of(self, kernel, rows, fold_of)
        apart = {
            fold: Folds.of(self, mean_kernel([kernels[m] for m in mine]), rows, fold_of)
            for fold, mine in unseen.items()
            if len(mine) < len(kernels)
        }
        starts: Mapping[int, torch.Tensor] = {}
        if isinstance(lams, Choice):
            choice, starts = lams, lams.starts
        else:
            choice, starts = choose_lams({fold: apart.get(fold, whole) for fold in unseen}, lams, progress)
        alpha, held_out, gap = _on_folds(whole, apart, choice, starts, progress)
        parts = tuple(whole.part(fold) for fold in folds)
        aside = torch.from_numpy(np.isin(fold_of, list(unseen))).double()
        sums = kernel, choice.lam, rows.X, alpha
        return OfLoss(*sums, 0.0, self.loss, choice.lams, parts, held_out, aside, gap)

    @single_blas()
    def fold_machine(self, kernel, choice, task, fold) -> OfLoss:
        rows, part = task.rows, task.training_part(fold)
        out = torch.from_numpy(np.flatnonzero(task.fold_of == fold))
        T, mine = self.labels(rows.Y.to(MAIN)), rows[part]
        K = kernel.matrix(mine.X).double().to(MAIN)
        solution, gap = self.solve(K, T[part], mine.weight.to(MAIN), choice.lams, FINE)
        held_out = torch.full_like(T, torch.nan)
        held_out[out] = kernel.multiply(rows.X[out], mine.X, solution.to(rows.X)).to(MAIN)
        alpha, aside = torch.zeros_like(T).index_copy(0, part, solution), torch.ones(len(rows), dtype=torch.float64)
        sums = kernel, choice.lam, rows.X, alpha
        return OfLoss(*sums, 0.0, self.loss, choice.lams, (part,), held_out, aside, gap)


def mean_kernel(kernels: Sequence[tuple[HierarchicalKernel, float]]) -> Kernel:
    """Of kernels with these shares."""
    return MeanKernel.of(*zip(*kernels, strict=True))


def _same_rows(T: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Columns that the same rows have a part in, together."""
    part = T.isfinite()
    if bool(part.all()):
        yield torch.arange(len(T)), torch.arange(T.shape[1])
        return
    for j in range(T.shape[1]):
        yield part[:, j].nonzero()[:, 0], torch.tensor([j])


def _on_folds(
    whole: Folds, apart: Mapping[int, Folds], choice: Choice, starts: Mapping[int, torch.Tensor], progress: Progress
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The mean α of the fold machines, what they say of the rows they have not seen, and the largest gap."""
    folds = range(int(whole.fold_of.max()) + 1)
    alpha, held_out, gap = torch.zeros_like(whole.T), torch.full_like(whole.T, torch.nan), 0.0
    last = None  # most rows of two folds' machines are the same, and so are nearly their coefficients
    for turn in in_turn(folds):
        solved = together([partial(whole.machine, fold, choice, starts.get(fold, last)) for fold in turn])
        for fold, (mine, left) in zip(turn, solved, strict=True):
            alpha += mine / len(folds)
            last, honest = mine, apart.get(fold, whole)
            if honest is not whole:
                mine, _ = honest.machine(fold, choice, mine)
            held_out[whole.held_out(fold)] = honest.predictions(fold, mine)
            gap = max(gap, left)
            progress.report(Trained(fold=fold, gap=left))
    return alpha, held_out, gap


def problem_for(loss: Loss, target: Target) -> Problem:
    """Least squares by its own ways, where the machine's columns are those that kernels are learned on."""
    undecided = isinstance(loss, LeastSquaresOrLogistic)
    loss = LeastSquares() if undecided else loss
    if loss == LeastSquares() and not target.expands:
        return EITHER if undecided else SQUARES
    return Convex(loss, target, own_lam=not target.classes)
