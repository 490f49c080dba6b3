"""Held-out risks of any loss: paths over λ, fold by fold, and a race among widths.

For columns T of labels, NaN where a row has no part in a column, λ is chosen by the held-out risk of the clipped loss,

    R_j(λ) = (1/n_j) Σ s_i L(T_ij, clip(f_λ^(-fold of i)(x_i)_j)),

the same λ for all columns (of classes), or one for each (of levels). For every fold it goes from the largest λ down,
each machine from the one before, until the risk rises or stays as it is, or until the time is used up (at least one λ
is solved). Among several widths, cells leave the race when the rows of the first folds say that they are behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.arrays import require_memory, single_blas
from hgk.events import LamChosen
from hgk.executor import Result, Threads
from hgk.kernels import Kernel
from hgk.machines import FINE, Rows
from hgk.progress import Progress
from hgk.search.grids import Family, Grid, widths_from_the_middle
from hgk.solvers import solver_for

if TYPE_CHECKING:
    from hgk.search.problems import Convex

# Main memory: the solvers of these losses are compiled for processors.
MAIN = torch.device("cpu")
# Relative duality gap while λ is chosen; risks differ by more from one fold to the next.
ROUGH = 1e-3
# A path over λ ends when the risk has twice been above its smallest value by this share.
RISE = 0.02
# ... or when three λ have brought less than this share of the risk.
LITTLE = 1e-3
# A cell of the grid is left when it is behind by so many standard errors, and more where the rows so far are not many
# more than FEW: to be wrong costs about one such error, and that is little of the risk only if they are.
SURE = 2.0
FEW = 100
# Rows on which λ is chosen for smooth losses, whose Newton steps cost their cube.
SOME = 3000
# ... and for any loss, where time is short.
FEWER = 400


@dataclass(frozen=True, eq=False)
class Folds:
    """A problem on one kernel matrix: its rows' columns T, their weights, and the fold that each is held out in.

    All in main memory, since the solvers of these losses are compiled for processors; the kernels are computed where
    the rows lie.
    """

    problem: Convex
    K: torch.Tensor
    T: torch.Tensor
    weight: torch.Tensor
    fold_of: torch.Tensor

    def part(self, fold: int) -> torch.Tensor:
        return (self.fold_of != fold).nonzero()[:, 0]

    def held_out(self, fold: int) -> torch.Tensor:
        return (self.fold_of == fold).nonzero()[:, 0]

    def predictions(self, fold: int, alpha: torch.Tensor) -> torch.Tensor:
        """Of the rows held out."""
        return self.K[self.held_out(fold)] @ alpha

    @classmethod
    def of(cls, problem: Convex, kernel: Kernel, rows: Rows, fold_of: np.ndarray) -> Folds:
        K = kernel.matrix(rows.X).to("cpu", torch.float64)
        rows = rows.to(K.device)
        return cls(problem, K, problem.labels(rows.Y), rows.weight, torch.from_numpy(fold_of))

    def machine(self, fold: int, choice: Choice, start: torch.Tensor | None) -> tuple[torch.Tensor, float]:
        """α of the machine without a fold, 0 for its rows, and the gap; ``start`` is of all rows."""
        part, s = self._training(fold, torch.inf)
        first = None if start is None else start[part]
        K = self.K if len(part) == len(self.K) else self._block(part, part)
        alpha, gap = self.problem.solve(K, self.T[part], s, choice.lams, FINE, first)
        return torch.zeros_like(self.T).index_copy(0, part, alpha), gap

    def path(self, fold: int, lams: np.ndarray, complete: bool = False, progress: Progress | None = None) -> Path:
        """Held-out risks from the largest λ down; infinite where a column was through before, or where time was up.

        A machine on some of many rows has the same c = nλ. A gap of ROUGH times the smallest risk so far will do, also
        where the machine fits its own rows much better than that.
        """
        part, s, out, problem = *self._training(fold, SOME), self.held_out(fold), self.problem
        T, larger = self.T[part], float(self.weight[self.fold_of != fold].sum() / s.sum())
        K, K_out = (
            (self.K, self.K[out]) if len(part) == len(self.K) else (self._block(part, part), self._block(out, part))
        )
        risks = torch.full((len(lams), T.shape[1]), torch.inf, dtype=torch.float64)
        alphas = torch.zeros(len(lams), len(self.T), T.shape[1], dtype=torch.float32)  # to start from
        losses = torch.full((len(lams), len(out), T.shape[1]), torch.inf, dtype=torch.float64)
        through, alpha = Through(problem, self.T[out], self.weight[out]), torch.zeros_like(T)
        for step, i in enumerate(np.argsort(-lams)):
            if progress is not None and progress.cut(when=step > 0):
                return Path(risks, alphas, losses, step, cut=True)
            left = torch.arange(T.shape[1]) if complete else through.left(T.shape[1])
            if not len(left):
                return Path(risks, alphas, losses, step)
            mine, floor = replace(problem, loss=problem.loss.columns(left.tolist())), float(risks.min())
            floor = floor if step else 0.0
            alpha[:, left], _ = mine.solve(K, T[:, left], s, float(lams[i]) * larger, ROUGH, alpha[:, left], floor)
            t = K_out @ alpha[:, left]
            risks[i, left] = mine.risks(self.T[out][:, left], t, self.weight[out])
            losses[i][:, left] = mine.losses(self.T[out][:, left], t)
            alphas[i, part] = alpha.float()
            through.see(risks[i])
        return Path(risks, alphas, losses, len(lams))

    def _training(self, fold: int, most: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and weights. Where the solver takes weights of 0 these are all rows: nothing is copied."""
        if solver_for(self.problem.loss).idle_rows:
            return torch.arange(len(self.T)), torch.where(self.fold_of != fold, self.weight, 0.0)
        part = self.part(fold)
        if len(part) > most:
            part = part[np.sort(np.random.default_rng(0).permutation(len(part))[: int(most)])]
        return part, self.weight[part]

    def _block(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return self.K[rows[:, None], columns]


@dataclass(frozen=True, eq=False)
class Path:
    """Risks, λ × columns, the coefficients that were found on the way, λ × rows × columns, the losses of the rows held
    out, λ × these × columns, and how many λ were solved.

    ``cut`` says that smaller λ were left out for want of time.
    """

    risks: torch.Tensor
    alphas: torch.Tensor
    losses: torch.Tensor
    solved: int
    cut: bool = False

    def at(self, numbers: torch.Tensor) -> torch.Tensor:
        """The coefficients of all rows at each column's λ."""
        return torch.stack([self.alphas[i, :, j] for j, i in enumerate(numbers.tolist())], 1)


class Through:
    """Which columns need no smaller λ: the risk was twice above its smallest value by RISE, or no better thrice.

    The latter counts once the risk is below 95 % of the best constant's: rare classes are ignored at large λ, and the
    risk is flat there, too.
    """

    def __init__(self, problem: Convex, T: torch.Tensor, weight: torch.Tensor):
        self.problem = problem
        self.best: torch.Tensor | None = None
        risks = [problem.risks(T, torch.full_like(T, c), weight) for c in np.linspace(-4, 4, 81)]
        self.constant = problem.compared(torch.stack(risks).min(0).values)

    def see(self, risks: torch.Tensor) -> None:
        risk = self.problem.compared(risks)
        if self.best is None:
            self.best, self.risen, self.idle = risk, torch.zeros_like(risk), torch.zeros_like(risk)
            return
        self.risen = torch.where(risk > (1 + RISE) * self.best, self.risen + 1, 0.0)
        idle = (risk > (1 - LITTLE) * self.best) & (self.best < 0.95 * self.constant)
        self.idle = torch.where(idle, self.idle + 1, 0.0)
        self.best = torch.minimum(self.best, risk)

    def left(self, columns: int) -> torch.Tensor:
        if self.best is None:
            return torch.arange(columns)
        return ((self.risen < 2) & (self.idle < 3)).expand(columns).nonzero()[:, 0]


@dataclass(frozen=True, eq=False)
class Choice:
    """A λ for every column (the same, unless each has its own), the width among those tried, and their risk.

    ``starts`` are coefficients that were found without a fold, for all rows.
    """

    gamma: float
    lams: tuple[float, ...]
    risk: float
    starts: dict[int, torch.Tensor] = field(default_factory=dict, repr=False)

    @property
    def lam(self) -> float:
        return float(np.exp(np.mean(np.log(self.lams))))


def best_lams(problem: Convex, risks: torch.Tensor) -> tuple[torch.Tensor, float]:
    """For risks λ × columns: the number of each column's λ, and the sum of the risks there."""
    at = problem.compared(risks).argmin(0).expand(risks.shape[1])
    return at, float(risks[at, torch.arange(len(at))].sum())


@dataclass(frozen=True, eq=False)
class LossGrid:
    """Held-out risks over the grid, widths × λ × columns; infinite where it was left early.

    ``starts`` are the coefficients of the best cell, by fold.
    """

    problem: Convex
    gammas: np.ndarray
    lams: np.ndarray
    risks: torch.Tensor
    starts: dict[int, torch.Tensor] = field(default_factory=dict)

    @property
    def best(self) -> tuple[int, torch.Tensor]:
        """The number of the width, and of each column's λ."""
        if not bool(self.risks.isfinite().any()):
            raise ValueError(
                f"No cell of the (λ, γ) grid was solved for {type(self.problem.loss).__name__}; check that every "
                "fold has rows of all classes, or give lam."
            )
        best = [best_lams(self.problem, risks) for risks in self.risks]
        i = int(np.argmin([risk for _, risk in best]))
        return i, best[i][0]

    @property
    def choice(self) -> Choice:
        i, at = self.best
        risk = float(self.risks[i][at, torch.arange(len(at))].sum())
        return Choice(float(self.gammas[i]), tuple(float(self.lams[j]) for j in at), risk, self.starts)

    @property
    def risk(self) -> float:
        return self.choice.risk

    @classmethod
    def mean(cls, grids: Sequence[LossGrid]) -> LossGrid:
        """Over folds whose γ grids are matched by position."""
        gammas = np.mean([grid.gammas for grid in grids], axis=0)
        return replace(grids[0], gammas=gammas, risks=torch.stack([grid.risks for grid in grids]).mean(0), starts={})


class Race:
    """Which cells can still be the best, judged on the rows of the folds so far.

    A cell is out when its mean loss is above a rival's by SURE (1 + FEW/m) standard errors of the difference, row by
    row, for m rows (of equal weight). Rivals are the best λ of the same width and column, and the best width that is
    through.
    """

    def __init__(self, problem: Convex, T: torch.Tensor, weight: torch.Tensor):
        self.problem, self.risk = problem, float("inf")
        self.best: torch.Tensor | None = None
        self.starts: dict[int, torch.Tensor] = {}
        s = weight[:, None] * T.isfinite()
        self.weight, self.share = weight, weight.sum() * T.isfinite() / s.sum(0).clamp(min=1e-300)

    def left(self, losses: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """The λ that stay, none if the width goes; ``losses`` are λ × rows × columns, of rows that were ``seen``."""
        mine = self._compared(losses[:, seen], self.share[seen])
        s = self.weight[seen] / self.weight[seen].sum()
        at = (s[:, None] * mine).sum(1).argmin(0)
        best = mine[at, :, torch.arange(len(at))].T
        stay = (~_above(mine, best, s)).any(1)
        if self.best is not None and bool(_above(best.sum(1)[None, :, None], self.best[seen][:, None], s).any()):
            return torch.zeros_like(stay)
        return stay

    def _compared(self, losses: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """A row that has no part in a column adds nothing, also where the path ended before this λ."""
        return self.problem.compared(torch.where(share > 0, losses * share, 0.0))

    def through(self, risks: torch.Tensor, losses: torch.Tensor, alphas: Sequence[torch.Tensor]) -> None:
        """A width on all folds, with what was found on them, λ × rows × columns."""
        at, risk = best_lams(self.problem, risks)
        if risk < self.risk:
            columns = torch.arange(len(at))
            chosen = losses[at, :, columns].T
            self.best, self.risk = torch.where(self.share > 0, chosen * self.share, 0.0).sum(1), risk
            self.starts = {fold: alpha[at, :, columns].T.double() for fold, alpha in enumerate(alphas)}


def _above(losses: torch.Tensor, rival: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """Means over rows in the last axis but one, with weights s of sum 1; infinite ones are above."""
    d = losses - rival
    mean = (s[:, None] * d).sum(-2, keepdim=True)
    error = ((s[:, None] * (d - mean)) ** 2).sum(-2).sqrt()
    return ~(mean[..., 0, :] <= SURE * (1 + FEW * float((s**2).sum())) * error)


@single_blas()
def path_search(problem: Convex, grid: Grid) -> LossGrid:
    """Held-out risks over the (λ, γ) grid; rows with ``fold_of = -1`` are never held out.

    Unless the grid is to be ``complete``, cells are left that have lost the :class:`Race`. A wish to stop is granted as
    soon as a width is through; until then it shortens the paths, so that few λ remain.
    """
    family = _checked_family(problem, grid)
    rows, lams = grid.rows.to(MAIN), np.asarray(grid.lams)
    T = problem.labels(rows.Y)
    risks = torch.full((len(family.gammas), len(lams), T.shape[1]), torch.inf, dtype=torch.float64)
    race, K = Race(problem, T, rows.weight), torch.empty(len(rows), len(rows), dtype=torch.float64)
    for (i,) in widths_from_the_middle(len(family.gammas), 1):
        state = Folds(problem, family.fill(family.gammas[i], K), T, rows.weight, torch.from_numpy(grid.fold_of))
        enough = bool(risks.isfinite().any())
        total = _one_width(state, grid, race, enough)
        if total is not None:
            risks[i] = total
        if grid.progress is not None and grid.progress.cut(when=bool(risks.isfinite().any())):
            break
    return LossGrid(problem, family.gammas, lams, risks, race.starts)


def _checked_family(problem: Convex, grid: Grid) -> Family:
    """The kernel matrices of all widths, in main memory, if there is room for them."""
    n, rows, terms = len(grid.rows), grid.rows, len(grid.kernel.terms)
    require_memory(n, n, 3 + terms, torch.float64, "The grid search's kernel matrices")
    # losses three times, and coefficients of all folds in single precision
    columns, folds = problem.labels(rows.Y[:1].to(MAIN)).shape[1], int(grid.fold_of.max()) + 1
    what = f"The grid search's coefficients and losses of {columns} columns"
    require_memory(n, len(grid.lams) * columns, 3 + folds / 2, torch.float64, what)
    family = Family(grid.kernel, rows.X)
    family.terms = [(p, S.to(MAIN)) for p, S in family.terms]
    return family


def _one_width(state: Folds, grid: Grid, race: Race, enough: bool) -> torch.Tensor | None:
    """Risks of one width, λ × columns; None if it has lost the race, or was cut short while others are ``enough``."""
    T, lams, folds = state.T, np.asarray(grid.lams), range(int(grid.fold_of.max()) + 1)
    sizes = torch.stack([(state.weight[:, None] * T.isfinite())[grid.fold_of == b].sum(0) for b in folds])
    shares = sizes / sizes.sum(0).clamp(min=1e-300)
    total, stay = torch.zeros(len(lams), T.shape[1], dtype=torch.float64), torch.arange(len(lams))
    losses, alphas = torch.full((len(lams), *T.shape), torch.inf, dtype=torch.float64), list[torch.Tensor]()
    for turn in in_turn(folds):
        tried = lams[stay.numpy()]
        paths = together([partial(state.path, b, tried, grid.complete, grid.progress) for b in turn])
        for b, path in zip(turn, paths, strict=True):
            risks = torch.full_like(total, torch.inf).index_copy(0, stay, path.risks)
            total = total + torch.where(shares[b] > 0, shares[b] * risks, 0.0)
            losses[stay[:, None], state.held_out(b)] = path.losses
            alphas.append(path.alphas)
        if grid.progress is not None and grid.progress.cut(when=enough):
            return None
        if not grid.complete:
            left = race.left(losses[stay], torch.from_numpy(np.isin(grid.fold_of, range(turn[-1] + 1))))
            stay, alphas = stay[left], [alpha[left] for alpha in alphas]
        if not len(stay):
            return None
    race.through(total[stay], losses[stay], alphas)
    return total


def in_turn(folds: Sequence[int]) -> list[Sequence[int]]:
    """One, which may end the matter, and the others two by two; the same with one thread and with many."""
    return [folds[:1], *(folds[b : b + 2] for b in range(1, len(folds), 2))]


def together(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """In threads of one core each, as many as torch has: descent has no use for more."""
    return [jobs[0]()] if len(jobs) == 1 else Threads(torch.get_num_threads(), inner=1).run(jobs)


def choose_lams(
    states: dict[int, Folds], lams: np.ndarray, progress: Progress
) -> tuple[Choice, dict[int, torch.Tensor]]:
    """By the held-out rows of some folds; and what was found there, to start from.

    Where time is short λ is chosen on a few rows first, and then on all rows among its neighbours. Where time is up
    before these are through, what the few rows say stands.
    """
    one = next(iter(states.values()))
    columns, problem = one.T.shape[1], one.problem
    if len(lams) == 1:
        return Choice(float("nan"), (float(lams[0]),) * columns, float("nan")), {}
    known, order = None, np.sort(lams)[::-1]
    if progress.hurried and len(one.T) > FEWER:
        known = choose_on_few(one, order)
        order = order[max(0, int(known.min()) - 1) : int(known.max()) + 2]
    paths: dict[int, Path] = {}
    for fold, state in states.items():
        path = state.path(fold, order, progress=progress)
        if path.cut and paths:  # others have come further, and an end that time has set says nothing about λ
            break
        paths[fold] = path
        if progress.cut():
            break
    sizes = torch.tensor([float(states[fold].weight[states[fold].held_out(fold)].sum()) for fold in paths])
    risks = torch.stack([path.risks * size for path, size in zip(paths.values(), sizes, strict=True)]).sum(0)
    at, risk = best_lams(problem, risks / sizes.sum())
    chosen = tuple(float(order[j]) for j in at)
    if any(path.cut for path in paths.values()):
        full = np.sort(lams)[::-1]
        chosen = tuple(float(full[j]) for j in (choose_on_few(one, full) if known is None else known))
    choice = Choice(float("nan"), chosen, risk)
    solved = max(path.solved for path in paths.values())
    few = any(path.cut for path in paths.values())
    cut = few or len(paths) < len(states)
    progress.report(LamChosen(risk=risk, lam=choice.lam, folds=len(paths), lams=solved, cut=cut, few=few))
    return choice, {fold: path.at(at) for fold, path in paths.items()}


def choose_on_few(state: Folds, lams: np.ndarray) -> torch.Tensor:
    """The number of each column's λ, by folds of a few rows at the same c = nλ: all five, fewer for many columns."""
    index = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(len(state.T))[:FEWER]))
    few = Folds(state.problem, state.K[index][:, index], state.T[index], state.weight[index], state.fold_of[index])
    folds = [b for b in range(int(few.fold_of.max()) + 1) if len(few.held_out(b)) and len(few.part(b))]
    folds = folds[: max(1, 10 // state.T.shape[1])]
    scaled = lams * float(state.weight.sum() / few.weight.sum())
    sizes = torch.tensor([float(few.weight[few.held_out(b)].sum()) for b in folds], dtype=torch.float64)
    risks = torch.stack([few.path(b, scaled).risks for b in folds])
    return best_lams(state.problem, (risks * sizes[:, None, None]).sum(0))[0]
