"""Machines of any loss: what they are trained for, on which folds, at which λ.

A problem turns the labels of a fit into columns T, NaN where a row has no part in a column,

    as they are         one column per output or class (one against the rest)
    levels              the same label once for every quantile or expectile level
    pairs               one column per pair of classes a < b: 1 for a, -1 for b (all against all)

and has a machine for every column, on the rows with a part in it. λ is chosen by the held-out risk of the clipped loss,

    R_j(λ) = (1/n_j) Σ s_i L(T_ij, clip(f_λ^(-fold of i)(x_i)_j)),

the same λ for all columns (of classes), or one for each (of levels). For every fold it goes from the largest λ down,
each machine from the one before, until the risk rises or stays as it is, or until the time is used up (at least one λ
is solved). Among several widths, cells leave the race when the rows of the first folds say that they are behind.
The machine in the end is the mean of those
trained without one fold each; their predictions of the rows they have not seen are kept, since what is said about the
machine (probabilities, thresholds, errors) must come from these: leave-one-out is exact for least squares alone. Where
kernels were learned without some folds, these folds choose λ and speak for the machine: the others have shaped the
kernel, and flatter it.

Several kernels k_m with shares p_m are one kernel here, Σ p_m k_m: the machines share α, and their average is

    Σ_m p_m Σ_i α_i k_m(x_i, ·) = Σ_i α_i (Σ_m p_m k_m)(x_i, ·).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast

import numpy as np
import torch
from joblib import Parallel, delayed

from hgk.arrays import require_memory, single_blas, threads
from hgk.kernels import HierarchicalKernel, MeanKernel
from hgk.losses import Loss, SmoothLoss
from hgk.machines.base import Machine, Rows, proportions
from hgk.progress import Progress, at_work
from hgk.solvers import Solution, solver_for
from hgk.storable import storable
from hgk.targets.pairs import pairs_of

Result = TypeVar("Result")
# Main memory.
MAIN = torch.device("cpu")
# Relative duality gap while λ is chosen; risks differ by more from one fold to the next.
ROUGH = 1e-3
# ... and in the end.
FINE = 1e-5
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


@dataclass(frozen=True)
class Problem:
    """A loss, and which columns of labels it is to be solved for.

    Parameters
    ----------
    loss : Loss
    pairs : bool, default=False
        Classes against each other, two by two, instead of each against the rest.
    own_lam : bool, default=False
        A λ for every column.

    Examples
    --------
    >>> from hgk.losses import Hinge
    >>> classes = torch.tensor([[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    >>> Problem(Hinge(), pairs=True).labels(classes).tolist()
    [[1.0, 1.0, nan], [-1.0, nan, 1.0], [nan, -1.0, -1.0]]
    """

    loss: Loss
    pairs: bool = False
    own_lam: bool = False

    @property
    def clip(self) -> float:
        """Where predictions are clipped before a risk, for labels in [-1, 1]."""
        return self.loss.clip(torch.ones(1))

    def labels(self, Y: torch.Tensor) -> torch.Tensor:
        """The columns T."""
        if not self.pairs or Y.shape[1] == 1:  # two classes have one column
            return self.loss.spread(Y)
        number = Y.argmax(1)[:, None]
        first, second = pairs_of(Y.shape[1]).T
        T = torch.full((len(Y), len(first)), torch.nan, dtype=Y.dtype)
        return T.masked_fill(number == first, 1.0).masked_fill(number == second, -1.0)

    def losses(self, T: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """L(T, clip(t)), 0 where a row has no part."""
        part = T.isfinite()
        value = self.loss.value(torch.where(part, T, 1.0), t.clamp(-self.clip, self.clip))
        return torch.where(part, value, 0.0)

    def slopes(self, T: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The derivative of the same in t."""
        part = T.isfinite() & (t.abs() < self.clip)
        return torch.where(part, self.loss.derivative(torch.where(T.isfinite(), T, 1.0), t), 0.0)

    def risks(self, T: torch.Tensor, t: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """One for each column, over the rows that have a part in it."""
        s = weight[:, None] * T.isfinite()
        return (s * self.losses(T, t)).sum(0) / s.sum(0).clamp(min=1e-300)

    def verdict(self, risks: torch.Tensor) -> torch.Tensor:
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
                found = solver.solve(state, labels, float(lam), self.loss.columns(mine.tolist()), first)
                alpha[part[:, None], mine] = found.alpha
                gap = max(gap, found.stats["gap"])
        return alpha, gap


def _same_rows(T: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Columns that the same rows have a part in, together."""
    part = T.isfinite()
    if bool(part.all()):
        yield torch.arange(len(T)), torch.arange(T.shape[1])
        return
    for j in range(T.shape[1]):
        yield part[:, j].nonzero()[:, 0], torch.tensor([j])


# ------------------------------------------------------------------------------------------ the machine


@storable
@dataclass(frozen=True, eq=False)
class OfLoss(Machine):
    """The mean of machines of a loss on parts of the rows ``X``; ``lam`` is the geometric mean of ``lams``.

    ``held_out`` are predictions of rows by a machine whose part they are not in, NaN where there is none (where several
    machines share α, predictions of them all, the same in each); ``aside`` is the share of a row's repetitions that
    these predictions are of: all, or those which were kept from learning the kernel, too. ``gap`` is the largest
    relative duality gap, ``unsolved`` says that it is above FINE.
    """

    loss: Loss | None = None
    lams: tuple[float, ...] = ()
    parts: tuple[torch.Tensor, ...] = ()
    held_out: torch.Tensor | None = None
    aside: torch.Tensor | None = None
    gap: float = 0.0
    unsolved: bool = False

    @property
    def clip(self) -> float:
        """Margins are not clipped: how far they exceed 1 tells them apart."""
        return float("inf") if self.loss is None or self.loss.signs else self.loss.clip(torch.ones(1))

    def without_one(self, rows, some):
        raise ValueError(self._refusal())

    def leave_two_out(self, rows, some):
        raise ValueError(self._refusal())

    def _refusal(self) -> str:
        return (
            f"Functions without single rows were asked for of a model with the loss {type(self.loss).__name__}; they "
            "are exact for least squares alone, so fit with loss='least_squares'."
        )


def gathered(machine: OfLoss, pieces: Rows, origin: torch.Tensor, rows: int) -> OfLoss:
    """The same function on the distinct rows that the ``pieces`` are of: α is added, what was held out is averaged.

    Of a row with pieces that were kept from the kernel, only these speak.
    """
    held_out, weight = cast(torch.Tensor, machine.held_out), pieces.weight.to(MAIN)
    known = weight * held_out.isfinite().all(1)
    apart = known * cast(torch.Tensor, machine.aside)

    def added(values: torch.Tensor) -> torch.Tensor:
        where = origin.to(values.device)
        return values.new_zeros(rows, *values.shape[1:]).index_add_(0, where, values)

    share = torch.where(added(apart)[origin] > 0, apart, known)[:, None]
    first = torch.full((rows,), len(origin)).scatter_reduce(0, origin, torch.arange(len(origin)), "amin")
    return replace(
        machine,
        X=machine.X[first],
        alpha=added(machine.alpha),
        parts=tuple(origin[part].unique() for part in machine.parts),
        held_out=added(torch.where(share > 0, share * held_out, 0.0)) / added(share).where(added(share) > 0, torch.nan),
        aside=added(apart) / added(weight),
    )


def held_out_average(machines: Sequence[Machine]) -> torch.Tensor:
    """The averaged function at rows that its parts have not seen; NaN where no machine was trained without the row."""
    t = torch.stack([cast(torch.Tensor, cast(OfLoss, machine).held_out) for machine in machines])
    shares = torch.tensor(proportions(machines), dtype=t.dtype)[:, None, None] * t.isfinite()
    known = shares.sum(0)
    return (shares * t.nan_to_num(0.0)).sum(0) / torch.where(known > 0, known, torch.nan)


# --------------------------------------------------------------------------------------- folds and paths


@dataclass(frozen=True, eq=False)
class Folds:
    """A problem on one kernel matrix: its rows' columns T, their weights, and the fold that each is held out in.

    All in main memory, since the solvers of these losses are compiled for processors; the kernels are computed where
    the rows lie.
    """

    problem: Problem
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
    def of(cls, problem: Problem, kernels, rows: Rows, fold_of: np.ndarray) -> Folds:
        """On the mean of the kernels, weighted by their shares."""
        K = MeanKernel(*zip(*kernels, strict=True)).matrix(rows.X).to("cpu", torch.float64)
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
            some = torch.arange(T.shape[1]) if complete else through.left(T.shape[1])
            if not len(some):
                return Path(risks, alphas, losses, step)
            mine, floor = replace(problem, loss=problem.loss.columns(some.tolist())), float(risks.min())
            floor = floor if step else 0.0
            alpha[:, some], _ = mine.solve(K, T[:, some], s, float(lams[i]) * larger, ROUGH, alpha[:, some], floor)
            t = K_out @ alpha[:, some]
            risks[i, some] = mine.risks(self.T[out][:, some], t, self.weight[out])
            losses[i][:, some] = mine.losses(self.T[out][:, some], t)
            alphas[i, part] = alpha.float()
            through.see(risks[i])
        return Path(risks, alphas, losses, len(lams))

    def _training(self, fold: int, most: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and weights. For box duals these are all rows, those held out with the weight 0: nothing is copied."""
        if not isinstance(self.problem.loss, SmoothLoss):
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

    def __init__(self, problem: Problem, T: torch.Tensor, weight: torch.Tensor):
        self.problem = problem
        self.best: torch.Tensor | None = None
        risks = [problem.risks(T, torch.full_like(T, c), weight) for c in np.linspace(-4, 4, 81)]
        self.constant = problem.verdict(torch.stack(risks).min(0).values)

    def see(self, risks: torch.Tensor) -> None:
        risk = self.problem.verdict(risks)
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


def best_lams(problem: Problem, risks: torch.Tensor) -> tuple[torch.Tensor, float]:
    """For risks λ × columns: the number of each column's λ, and the sum of the risks there."""
    at = problem.verdict(risks).argmin(0).expand(risks.shape[1])
    return at, float(risks[at, torch.arange(len(at))].sum())


# ------------------------------------------------------------------------------------------ many widths


@dataclass(frozen=True, eq=False)
class LossGrid:
    """Held-out risks over the grid, widths × λ × columns; infinite where it was left early.

    ``starts`` are the coefficients of the best cell, by fold.
    """

    problem: Problem
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
        found = [best_lams(self.problem, risks) for risks in self.risks]
        i = int(np.argmin([risk for _, risk in found]))
        return i, found[i][0]

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

    def __init__(self, problem: Problem, T: torch.Tensor, weight: torch.Tensor):
        self.problem, self.risk = problem, float("inf")
        self.best: torch.Tensor | None = None
        self.starts: dict[int, torch.Tensor] = {}
        s = weight[:, None] * T.isfinite()
        self.weight, self.share = weight, weight.sum() * T.isfinite() / s.sum(0).clamp(min=1e-300)

    def left(self, losses: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """The λ that stay, none if the width goes; ``losses`` are λ × rows × columns, of rows that were ``seen``."""
        mine = self._verdict(losses[:, seen], self.share[seen])
        s = self.weight[seen] / self.weight[seen].sum()
        at = (s[:, None] * mine).sum(1).argmin(0)
        own = mine[at, :, torch.arange(len(at))].T
        stay = (~_above(mine, own, s)).any(1)
        if self.best is not None and bool(_above(own.sum(1)[None, :, None], self.best[seen][:, None], s).any()):
            return torch.zeros_like(stay)
        return stay

    def _verdict(self, losses: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """A row that has no part in a column adds nothing, also where the path ended before this λ."""
        return self.problem.verdict(torch.where(share > 0, losses * share, 0.0))

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
def loss_search(
    problem: Problem,
    rows: Rows,
    fold_of: np.ndarray,
    gammas: np.ndarray,
    lams: np.ndarray,
    S: torch.Tensor,
    order: Sequence[int],
    complete: bool = False,
    progress: Progress | None = None,
) -> LossGrid:
    """Held-out risks over a (λ, γ) grid, for the γ-free exponent ``S``; rows with ``fold_of = -1`` are never held out.

    Unless ``complete``, cells are left that have lost the :class:`Race`. A wish to
    stop is granted as soon as a width is through; until then it shortens the paths, so that few λ remain.
    """
    rows, S = rows.to(MAIN), S.to(MAIN)
    T, folds = problem.labels(rows.Y), range(int(fold_of.max()) + 1)
    number = torch.from_numpy(fold_of)
    sizes = torch.stack([(rows.weight[:, None] * T.isfinite())[fold_of == b].sum(0) for b in folds])
    shares = sizes / sizes.sum(0).clamp(min=1e-300)
    risks = torch.full((len(gammas), len(lams), T.shape[1]), torch.inf, dtype=torch.float64)
    race, K = Race(problem, T, rows.weight), torch.empty_like(S, dtype=torch.float64)
    for i in order:
        K.copy_(S).mul_(-(float(gammas[i]) ** -2)).exp_()
        state, total = Folds(problem, K, T, rows.weight, number), torch.zeros_like(risks[i])
        losses, stay = torch.full((len(lams), *T.shape), torch.inf, dtype=torch.float64), torch.arange(len(lams))
        alphas: list[torch.Tensor] = []
        for some in in_turn(folds):
            tried = lams[stay.numpy()]
            paths = together([partial(state.path, b, tried, complete, progress) for b in some])
            for b, path in zip(some, paths, strict=True):
                own = torch.full_like(total, torch.inf).index_copy(0, stay, path.risks)
                total = total + torch.where(shares[b] > 0, shares[b] * own, 0.0)
                losses[stay[:, None], state.held_out(b)] = path.losses
                alphas.append(path.alphas)
            if progress is not None and progress.cut(when=bool(risks.isfinite().any())):
                break
            if not complete:
                left = race.left(losses[stay], torch.from_numpy(np.isin(fold_of, range(some[-1] + 1))))
                stay, alphas = stay[left], [alpha[left] for alpha in alphas]
            if not len(stay):
                break
        else:
            risks[i] = total
            race.through(total[stay], losses[stay], alphas)
        if progress is not None and progress.cut(when=bool(risks.isfinite().any())):
            break
    return LossGrid(problem, np.asarray(gammas), np.asarray(lams), risks, race.starts)


def in_turn(folds: Sequence[int]) -> list[Sequence[int]]:
    """One, which may end the matter, and the others two by two; the same with one thread and with many."""
    return [folds[:1], *(folds[b : b + 2] for b in range(1, len(folds), 2))]


def together(work: Sequence[Callable[[], Result]]) -> list[Result]:
    """In threads of one core each, as many as torch has: descent has no use for more."""
    if len(work) == 1 or torch.get_num_threads() == 1:
        return [task() for task in work]

    def at(task: Callable[[], Result]) -> Result:
        with at_work():
            return task()

    count = min(len(work), torch.get_num_threads())
    with threads(1):
        return Parallel(n_jobs=count, require="sharedmem")(delayed(at)(task) for task in work)


# --------------------------------------------------------------------------------------------- training


@single_blas()
def train_on_folds(
    kernels: Sequence[tuple[HierarchicalKernel, float]],
    problem: Problem,
    rows: Rows,
    fold_of: np.ndarray,
    lams: np.ndarray | Choice,
    progress: Progress,
    unseen: dict[int, list[int]] | None = None,
) -> list[Machine]:
    """The mean of the fold machines on the mean of the kernels; λ as chosen, or by folds among those given.

    ``unseen`` names the folds that some kernels were learned without, and these kernels: they alone choose λ there and
    predict the rows held out, as if the fold had never been. None: every kernel and every fold.
    """
    require_memory(len(rows), len(rows), 4, torch.float64, "The kernel matrix of a machine with this loss")
    folds = range(int(fold_of.max()) + 1)
    unseen = {fold: list(range(len(kernels))) for fold in folds} if unseen is None else unseen
    whole = Folds.of(problem, kernels, rows, fold_of)
    apart = {
        fold: Folds.of(problem, [kernels[m] for m in mine], rows, fold_of)
        for fold, mine in unseen.items()
        if len(mine) < len(kernels)
    }
    starts: dict[int, torch.Tensor] = {}
    if isinstance(lams, Choice):
        choice, starts = lams, lams.starts
    else:
        choice, starts = choose_lams({fold: apart.get(fold, whole) for fold in unseen}, lams, progress)
    held_out, alpha, gap = torch.full_like(whole.T, torch.nan), torch.zeros_like(whole.T), 0.0
    last = None  # most rows of two folds' machines are the same, and so are nearly their coefficients
    for some in in_turn(folds):
        found = together([partial(whole.machine, fold, choice, starts.get(fold, last)) for fold in some])
        for fold, (mine, left) in zip(some, found, strict=True):
            alpha += mine / len(folds)
            last, honest = mine, apart.get(fold, whole)
            if honest is not whole:
                mine, _ = honest.machine(fold, choice, mine)
            held_out[whole.held_out(fold)] = honest.predictions(fold, mine)
            gap = max(gap, left)
            progress.report(stage="machine", fold=fold, gap=left)
    machine = OfLoss(
        kernels[0][0],
        choice.lam,
        rows.X,
        alpha,
        loss=problem.loss,
        lams=choice.lams,
        parts=tuple(whole.part(fold) for fold in folds),
        held_out=held_out,
        aside=torch.from_numpy(np.isin(fold_of, list(unseen))).double(),
        gap=gap,
        unsolved=gap > FINE,
    )
    return [replace(machine, kernel=kernel, share=share) for kernel, share in kernels]


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
    found = tuple(float(order[j]) for j in at)
    if any(path.cut for path in paths.values()):
        full = np.sort(lams)[::-1]
        found = tuple(float(full[j]) for j in (choose_on_few(one, full) if known is None else known))
    choice = Choice(float("nan"), found, risk)
    solved = max(path.solved for path in paths.values())
    few = any(path.cut for path in paths.values())
    cut = few or len(paths) < len(states)
    progress.report(stage="loss", risk=risk, lam=choice.lam, folds=len(paths), lams=solved, cut=cut, few=few)
    return choice, {fold: path.at(at) for fold, path in paths.items()}


def choose_on_few(state: Folds, lams: np.ndarray) -> torch.Tensor:
    """The number of each column's λ, by folds of a few rows at the same c = nλ: all five, fewer for many columns."""
    some = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(len(state.T))[:FEWER]))
    few = Folds(state.problem, state.K[some][:, some], state.T[some], state.weight[some], state.fold_of[some])
    folds = [b for b in range(int(few.fold_of.max()) + 1) if len(few.held_out(b)) and len(few.part(b))]
    folds = folds[: max(1, 10 // state.T.shape[1])]
    scaled = lams * float(state.weight.sum() / few.weight.sum())
    sizes = torch.tensor([float(few.weight[few.held_out(b)].sum()) for b in folds], dtype=torch.float64)
    risks = torch.stack([few.path(b, scaled).risks for b in folds])
    return best_lams(state.problem, (risks * sizes[:, None, None]).sum(0))[0]


@single_blas()
def train_part(
    kernel: HierarchicalKernel, problem: Problem, rows: Rows, choice: Choice, part: torch.Tensor, out: torch.Tensor
) -> OfLoss:
    """One machine on a part of the rows, and its predictions of the rows ``out``."""
    T, some = problem.labels(rows.Y.to(MAIN)), rows[part]
    K = kernel.matrix(some.X).double().to(MAIN)
    found, gap = problem.solve(K, T[part], some.weight.to(MAIN), choice.lams, FINE)
    held_out = torch.full_like(T, torch.nan)
    held_out[out] = kernel.multiply(rows.X[out], some.X, found.to(rows.X)).to(MAIN)
    alpha = torch.zeros_like(T).index_copy(0, part, found)
    return OfLoss(
        kernel,
        choice.lam,
        rows.X,
        alpha,
        loss=problem.loss,
        lams=choice.lams,
        parts=(part,),
        held_out=held_out,
        aside=torch.ones(len(rows), dtype=torch.float64),
        gap=gap,
        unsolved=gap > FINE,
    )
