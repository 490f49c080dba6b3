"""A trained machine: a kernel, the rows it sums over, λ and α; and averages of machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from hgk.arrays import (
    FACTORED,
    accelerated,
    available_memory,
    blocks,
    in_place,
    matrices_to_factor,
    require_memory,
    row_blocks,
)
from hgk.kernels import HierarchicalKernel, MeanKernel
from hgk.progress import Progress
from hgk.solvers import Cholesky, Nystrom
from hgk.solvers.least_squares import smallest_pivot, solved_in_place
from hgk.solvers.nystrom import NystromState
from hgk.storable import expect, real, storable
from hgk.targets.few_values import Levels

# Rows from which on a kernel matrix in single precision saves more than a fraction of a second.
WORTH_IT = 3000


@storable
@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows: inputs X, outputs Y (one column each), sample weights s, and how often each row was given.

    A row of weight s_i that was given m_i times stands for m_i repetitions of weight s_i / m_i. To leave one out is to
    leave out one repetition. Without ``count`` every row was given once.
    """

    X: torch.Tensor
    Y: torch.Tensor
    weight: torch.Tensor
    count: torch.Tensor | None = None

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        X, Y, weight = parts["X"], parts["Y"], parts["weight"]
        expect(X.ndim == Y.ndim == 2 and weight.ndim == 1, "the training rows are not a table")
        expect(len(X) == len(Y) == len(weight) > 1, "the training rows, labels and weights differ in number")
        expect(all(real(t) for t in (X, Y, weight)), "the training rows are not finite numbers")
        expect(bool((weight > 0).all()), "a training row has no weight")
        count = parts.get("count")
        counted = count is None or (count.shape == weight.shape and real(count) and bool((count > 0).all()))
        expect(counted, "the training rows' numbers of repetitions do not fit them")

    def __len__(self) -> int:
        return len(self.X)

    @property
    def repetitions(self) -> torch.Tensor:
        """m, 1 where not given."""
        return torch.ones_like(self.weight) if self.count is None else self.count

    @property
    def given(self) -> float:
        """Σ m, the number of rows as they were given."""
        return float(self.repetitions.sum())

    @property
    def size(self) -> float:
        """(Σ s)² / Σ s²/m, the number of repetitions that the weights amount to; the same for s and 2s."""
        return float(self.weight.sum() ** 2 / (self.weight**2 / self.repetitions).sum())

    def __getitem__(self, index) -> Rows:
        return Rows(self.X[index], self.Y[index], self.weight[index], None if self.count is None else self.count[index])

    def to(self, device: torch.device) -> Rows:
        count = None if self.count is None else self.count.to(device)
        return Rows(self.X.to(device), self.Y.to(device), self.weight.to(device), count)

    def portion(self, index: torch.Tensor, weight: torch.Tensor) -> Rows:
        """Of some rows as many repetitions as have this weight."""
        some = self[index]
        return replace(some, weight=weight, count=some.repetitions * (weight / some.weight))

    def mean(self, values: torch.Tensor) -> tuple[float, float]:
        """The weighted mean of one value per row, and its standard error: repetitions are independent."""
        share = self.weight / self.weight.sum()
        values = values.to(share)
        mean = float(share @ values)
        return mean, float((share**2 / self.repetitions) @ (values - mean) ** 2) ** 0.5

    @property
    def spread(self):
        """E (x_j - x'_j)² over pairs of rows, per column: twice the variance."""
        return 2 * self.X.var(0, correction=0).cpu().numpy()


def clipped_risk(t: torch.Tensor, rows: Rows, clip: float) -> float:
    """(1/n) Σ s_i (y_i - clip(t_i))², summed over outputs."""
    losses = ((t.clamp(-clip, clip) - rows.Y) ** 2).sum(1)
    return float((losses * rows.weight).sum() / rows.weight.sum())


def wrong_classes(t: torch.Tensor, rows: Rows) -> dict[str, float]:
    """The weighted share of rows whose class is not predicted, as "wrong"; nothing where labels are not all ±1."""
    if not bool((rows.Y.abs() == 1).all()):
        return {}
    if rows.Y.shape[1] > 1:
        missed = (t.argmax(1) != rows.Y.argmax(1)).double()
    else:  # a value that is zero but for rounding is for neither class
        missed = ((t[:, 0] > 0) != (rows.Y[:, 0] > 0)).double().masked_fill(t[:, 0].abs() < 1e-9, 0.5)
    return {"wrong": float((missed * rows.weight).sum() / rows.weight.sum())}


# ------------------------------------------------------------------------------------------ machines


# From rows x to f^(-i)(x), (outputs, x, i).
Elsewhere = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Machine(ABC):
    """f = Σ_j α_j k(x_j, ·) over the rows ``X``."""

    kernel: HierarchicalKernel
    lam: float
    X: torch.Tensor
    alpha: torch.Tensor
    ridge_added: float = 0.0
    share: float = 1.0  # in an average, relative to the others
    levels: Levels | None = None  # where the outputs are columns of one label's few values, to be sharpened

    @property
    def clip(self) -> float:
        """Where predictions are clipped; labels lie in [-1, 1]."""
        return 1.0

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return self.kernel.multiply(X, self.X, self.alpha)

    @abstractmethod
    def without_one(self, rows: Rows, some: torch.Tensor) -> tuple[torch.Tensor, Elsewhere]:
        """f^(-i)(x_i) for the training rows i of ``some``, and a function that gives f^(-i)(x) for rows x.

        Of shapes (i, outputs) and (outputs, x, i); ``rows`` are those the machine was trained on. Kernel, λ
        and, where there are any, centres stay fixed. What is costly is done once, whatever x.
        """

    def leave_one_out(self, rows: Rows, X: torch.Tensor, some: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f^(-i)(x_i) and f^(-i)(x) for the rows x of ``X``."""
        own, elsewhere = self.without_one(rows, some)
        return own, elsewhere(X)

    @abstractmethod
    def leave_two_out(self, rows: Rows, some: torch.Tensor) -> torch.Tensor:
        """f^(-i,-j)(x_i), the function without rows i and j at row i, for the training rows i, j of ``some``.

        Of shape (outputs, i, j); where i = j it is f^(-i)(x_i).
        """


@storable
@dataclass(frozen=True, eq=False)
class Exact(Machine):
    """The mean of least-squares machines at ``lam`` on parts of the rows ``X``.

    One part of all rows is the ordinary machine; five parts, each without one fold, give the average of
    the five fold functions. α is zero where a row lies in no part.

    ``portions`` are the weights that the rows of each part have there: of a row that was given several times, some
    repetitions may be in a part and others not. Without them every row has its own weight.

    The machine on a mean of kernels is one entry for each of them, which share α: f = Σ_m p_m K_m α. ``place`` counts
    them from 0; see :func:`functions`.
    """

    parts: tuple[torch.Tensor, ...] = ()
    place: int = 0
    portions: tuple[torch.Tensor, ...] = ()

    @property
    def whole(self) -> HierarchicalKernel | MeanKernel:
        """The kernel that α belongs to."""
        return self.kernel

    def rows_of_parts(self, rows: Rows) -> list[Rows]:
        """What each part was trained on."""
        if not self.portions:
            return [rows[part] for part in self.parts]
        return [rows.portion(part, weight) for part, weight in zip(self.parts, self.portions, strict=True)]

    def without_one(self, rows, some):
        """One of m_i repetitions leaves. With d_i = G_ii + (m_i - 1) s_i / c, which is G_ii for a single one,

            y_i - f^(-i)(x_i) = m_i α_i / d_i,      f^(-i)(x) = f(x) - (k(x)ᵀ G)_i α_i / d_i;

        a part without the repetition is not changed: the mean over the repetitions of row i is returned.
        """
        place = torch.full((len(rows),), -1)
        place[some] = torch.arange(len(some))
        own, shifts = torch.zeros_like(rows.Y[some]), []
        for part, mine in zip(self.parts, self.rows_of_parts(rows), strict=True):
            asked = (place[part] >= 0).nonzero()[:, 0]
            where, solver = place[part][asked], Cholesky()
            what = "A kernel matrix, its factor and its inverse"
            require_memory(len(part), len(part), FACTORED, rows.X.dtype, what, rows.X.device)
            state = solver.prepare(self.whole.matrix(mine.X), mine.weight, overwrite=True)
            c, root = state.system.n * self.lam, state.system.root
            factor = solver.factor(state, c)
            del state
            beta, columns = factor.multiply(root * mine.Y), factor.columns(asked)
            diagonal = columns[asked, torch.arange(len(asked))][:, None]
            m = mine.repetitions[asked, None]
            change = beta[asked] / (root[asked] * (diagonal + (m - 1) / c))  # α_i / d_i
            inside = m / rows.repetitions[part[asked], None]  # the repetitions that are in this part
            t = self.whole.multiply(rows.X[some], mine.X, root * beta)
            t[where] = inside * (mine.Y[asked] - m * change) + (1 - inside) * t[where]
            own += t / len(self.parts)
            shifts.append((mine.X, root, columns, root[asked] * inside * change / len(self.parts), where))

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            t = self(X).T[:, :, None].repeat(1, 1, len(some))
            for X_part, root, columns, change, where in shifts if len(X) else ():
                solved = self.whole.matrix(X, X_part).mul_(root.T) @ columns
                for output, by in zip(t, change.T, strict=True):
                    output[:, where] -= solved * by
            return t

        return own, elsewhere

    def leave_two_out(self, rows, some):
        """With B = {i, j}, E = diag((m_i - 1) s_i / c) and M = diag(m_i),

            (y - f^(-B))_B = M_B (G_BB + E_B)⁻¹ α_B;

        a row that is not in a part cannot be left out of it.
        """
        t = rows.Y.new_zeros(rows.Y.shape[1], len(some), len(some))
        for part, mine in zip(self.parts, self.rows_of_parts(rows), strict=True):
            t += self._without_two(rows, part, mine, some) / len(self.parts)
        return t

    def _without_two(self, rows: Rows, part: torch.Tensor, mine: Rows, some: torch.Tensor) -> torch.Tensor:
        solver = Cholesky()
        place = torch.full((len(rows),), -1)
        place[part] = torch.arange(len(part))
        inside, at = place[some] >= 0, place[some].clamp(min=0)
        require_memory(len(part), len(part), FACTORED, rows.X.dtype, "A kernel matrix and its Cholesky factor")
        state = solver.prepare(self.whole.matrix(mine.X), mine.weight, overwrite=True)
        c = state.system.n * self.lam
        root, factor, m = state.system.root, solver.factor(state, c), mine.repetitions[at]
        # G k(x_j) for rows outside the part, the columns of G for those inside; then the rows of ``some``
        right = self.whole.matrix(mine.X, rows.X[some])
        right[:, inside] = 0.0
        right[at[inside], inside.nonzero()[:, 0]] = 1.0
        G = (root * factor.multiply(root * right))[at].T  # G[i, j]: what row i has to do with row j of the part
        g = torch.where(inside, G.diagonal() + (m - 1) * mine.weight[at] / c, 1.0)
        solution, y = root * factor.multiply(root * mine.Y), rows.Y[some].T
        alpha = solution[at].T
        one, other = alpha[:, :, None], alpha[:, None, :]
        determinant = torch.where(inside[:, None] & inside, g[:, None] * g - G**2, 1.0).fill_diagonal_(1.0)
        without_both = y[:, :, None] - m[:, None] * (g * one - G * other) / determinant
        without_i = (y - m * alpha / g)[:, :, None]
        whole = self.whole.multiply(rows.X[some], mine.X, solution).T[:, :, None]
        # k(x_i)ᵀ G is -c/s_i G_i for a row that is inside, but for its own place
        at_i = torch.where(inside[:, None], -(c / mine.weight[at])[:, None] * G, G)
        without_j = whole - torch.where(inside, at_i * (other / g), 0.0)
        # which of the two repetitions are in this part
        p = torch.where(inside, m / rows.repetitions[some], 0.0)
        p_i, p_j = p[:, None], torch.where(torch.eye(len(some), dtype=torch.bool), 0.0, p)
        with_i = p_j * without_j + (1 - p_j) * whole
        return p_i * (p_j * without_both + (1 - p_j) * without_i) + (1 - p_i) * with_i


@dataclass(frozen=True, eq=False)
class OnMean(Exact):
    """The entries that share α, as one."""

    mean: MeanKernel | None = None

    @property
    def whole(self) -> HierarchicalKernel | MeanKernel:
        return self.mean or self.kernel

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return self.whole.multiply(X, self.X, self.alpha)


@storable
@dataclass(frozen=True, eq=False)
class OnCentres(Machine):
    """Nyström's machine; ``X`` are its centres."""

    def without_one(self, rows, some):
        """f^(-i)(x) = f(x) - s_i r_i k(x)ᵀ B k_i,  r_i = (y_i - f(x_i)) / (1 - s_i k_iᵀ B k_i), for s_i of one
        repetition.
        """
        solver = Nystrom()
        state = solver.prepare(self.kernel.matrix(self.X), rows.Y.shape[1])
        _add(solver, state, self, rows)
        B, mine = solver.influence(state, self.lam), rows[some]
        s, own, changes = (mine.weight / mine.repetitions)[:, None], torch.empty_like(mine.Y), torch.empty_like(mine.Y)
        for block in row_blocks(len(mine), len(B)):
            k = self.kernel.matrix(mine.X[block], self.X)
            leverage = (s[block, 0] * ((k @ B) * k).sum(1)).clamp(max=1 - 1e-9)[:, None]
            r = (mine.Y[block] - k @ self.alpha) / (1 - leverage)
            own[block], changes[block] = mine.Y[block] - r, s[block] * r

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            t = self(X).T[:, :, None].repeat(1, 1, len(mine))
            at = self.kernel.matrix(X, self.X) @ B if len(X) else X.new_empty(0, len(B))
            for block in row_blocks(len(mine), len(B)) if len(X) else ():
                solved = at @ self.kernel.matrix(mine.X[block], self.X).T
                for output, by in zip(t, changes[block].T, strict=True):
                    output[:, block] -= solved * by
            return t

        return own, elsewhere

    def leave_two_out(self, rows, some):
        """With B = {i, j} and H_ij = k_iᵀ B k_j s_j, s_j of one repetition, (y - f^(-B))_B = (I - H_BB)⁻¹ (y - f)_B."""
        solver = Nystrom()
        state = solver.prepare(self.kernel.matrix(self.X), rows.Y.shape[1])
        _add(solver, state, self, rows)
        mine = rows[some]
        k = self.kernel.matrix(mine.X, self.X)
        H = (k @ solver.influence(state, self.lam) @ k.T) * (mine.weight / mine.repetitions)
        kept = (1 - H.diagonal()).clamp(min=1e-9)
        error = (mine.Y - k @ self.alpha).T
        determinant = (kept[:, None] * kept[None, :] - H * H.T).fill_diagonal_(1.0)
        r = (kept[None, :] * error[:, :, None] + H * error[:, None, :]) / determinant
        same = torch.eye(len(some), dtype=torch.bool)
        return mine.Y.T[:, :, None] - torch.where(same, (error / kept)[:, :, None], r)


# Rows of a part, and their weights there.
Part = tuple[torch.Tensor, torch.Tensor]


def train(kernel: HierarchicalKernel, rows: Rows, lam: float, parts: Sequence[Part] | None = None) -> Exact:
    """The least-squares machine on the rows, or the mean of those on parts of them."""
    alpha, ridge = _solve(kernel, rows, lam, parts)
    if parts is None:
        return Exact(kernel, lam, rows.X, alpha, ridge, parts=(torch.arange(len(rows)),))
    index, weights = zip(*parts, strict=True)
    whole = all(torch.equal(weight, rows.weight[part]) for part, weight in parts)
    return Exact(kernel, lam, rows.X, alpha, ridge, parts=index, portions=() if whole else weights)


def train_on_mean(mean: MeanKernel, rows: Rows, lam: float) -> list[Exact]:
    """The least-squares machine on the mean of kernels, as one machine for each of them.

    Its regularised risk is at most the mean of the kernels' own machines' at the same λ, since their mean function is
    in its space, with ‖Σ_m p_m f_m‖² <= Σ_m p_m ‖f_m‖².
    """
    if len(mean.kernels) == 1:
        return [train(mean.kernels[0], rows, lam)]
    solved = _solve_in_single(mean, rows, lam) if _single_suffices(mean, rows, lam) else None
    alpha, ridge = solved or _solve(mean, rows, lam)
    parts = (torch.arange(len(rows)),)
    return [
        Exact(kernel, lam, rows.X, alpha, ridge, share, parts=parts, place=place)
        for place, (kernel, share) in enumerate(zip(mean.kernels, mean.shares, strict=True))
    ]


def _single_suffices(mean: MeanKernel, rows: Rows, lam: float) -> bool:
    """Whether K may be computed in single precision: c, for the largest weight, is above the norm of its rounding.

    That is below 2 a 2⁻²³ √n, with a = γ⁻² Σ 2w², the largest exponent that the edges into the top node allow: there
    1 - k_i cancels (the tests have a up to thousands). On training rows of seven of the paper's sets single precision
    changed the error of predictions by at most 2e-4 of it (experiments/default/last.jsonl, "single"). It takes two
    thirds of the time (benchmarks/results/kernel_machine.json).
    """
    n, c = len(rows), float(rows.weight.sum() / rows.weight.max()) * lam
    a = max(1.0, *(kernel.largest_exponent for kernel in mean.kernels))
    return not accelerated(rows.X) and n >= WORTH_IT and not in_place(n) and c > 2 * a * 2.0**-23 * n**0.5


def _solve_in_single(mean: MeanKernel, rows: Rows, lam: float):
    """As ``_solve``; None if the rounding of K would need a ridge after all."""
    with suppress(ValueError):
        alpha, ridge = _solve(mean, rows, lam, dtype=torch.float32)
        return (alpha, ridge) if ridge == 0 else None
    return None


def _solve(
    kernel: HierarchicalKernel | MeanKernel,
    rows: Rows,
    lam: float,
    parts: Sequence[Part] | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, float]:
    """The mean α of the parts and the largest ridge that was added; K is computed in ``dtype``, if given."""
    parts = [(torch.arange(len(rows)), rows.weight)] if parts is None else parts
    largest = max(len(part) for part, _ in parts)
    what = "A kernel matrix and its Cholesky factor"
    require_memory(largest, largest, matrices_to_factor(largest), rows.X.dtype, what, rows.X.device)
    solver, alpha, ridge = Cholesky(), torch.zeros_like(rows.Y), 0.0
    for part, weight in parts:
        some = rows.portion(part, weight)
        if in_place(len(some)):
            found, added = _large(kernel, some, lam)
        else:
            K = kernel.matrix(some.X.to(dtype)).to(some.X) if dtype else kernel.matrix(some.X)
            solved = solver.solve(solver.prepare(K, some.weight, overwrite=True), some.Y, lam)
            found, added = solved.alpha, solved.stats["ridge_added"]
        alpha[part] += found / len(parts)
        ridge = max(ridge, added)
    return alpha, ridge


def _large(kernel: HierarchicalKernel | MeanKernel, rows: Rows, lam: float) -> tuple[torch.Tensor, float]:
    """α and the ridge that was added, in the memory of one matrix: K becomes its own factor."""
    c, root, ridge = float(rows.weight.sum()) * lam, rows.weight.sqrt()[:, None], 0.0
    for _ in range(6):
        K = kernel.matrix(rows.X).mul_(root).mul_(root.T)
        unit = smallest_pivot(K)
        beta = solved_in_place(K, c + ridge, root * rows.Y)
        if beta is not None:
            return root * beta, ridge
        ridge = max(10 * unit, 10 * ridge)
        del K  # before there is another
    raise ValueError(
        f"A kernel matrix of {len(rows)} rows is numerically singular, and adding {ridge:.1e} to its diagonal did not "
        "help; give a larger lam."
    )


def train_on_centres(
    kernel: HierarchicalKernel,
    rows: Rows,
    lams: Sequence[float],
    centres: torch.Tensor,
    held_out: torch.Tensor,
    clip: float,
    progress: Progress,
) -> OnCentres:
    """Nyström's machine on all rows; λ is the best for the rows ``held_out``, which are added last.

    The rows pass once, in blocks, in single precision.
    """
    solver, X = Nystrom(), rows.X[centres]
    machine = OnCentres(kernel, float(lams[0]), X, rows.Y.new_zeros(len(X), rows.Y.shape[1]))
    state = solver.prepare(kernel.matrix(X), rows.Y.shape[1])
    out = torch.zeros(len(rows), dtype=torch.bool)
    out[held_out] = True
    _add(solver, state, machine, rows[~out], progress)
    if len(lams) > 1:
        found = solver.solve(state, lams)
        t = kernel.multiply(rows.X[out].float(), X.float(), torch.cat([f.alpha for f in found], 1).float())
        columns = t.double().split(rows.Y.shape[1], 1)
        risks = [clipped_risk(column, rows[out], clip) for column in columns]
        lams = [lams[int(np.argmin(risks))]]
    _add(solver, state, machine, rows[out])
    (solved,) = solver.solve(state, lams)
    return replace(machine, lam=float(lams[0]), alpha=solved.alpha, ridge_added=solved.stats["ridge_added"])


def _add(solver: Nystrom, state: NystromState, machine: Machine, rows: Rows, progress: Progress | None = None) -> None:
    """Count all rows, in blocks of at most 64 MiB."""
    centres = machine.X.float()
    elements = min(2**23, available_memory(rows.X.device) // 32)  # of a block, thrice, in double precision
    for block in blocks(len(rows), max(1, elements // len(centres))):
        some = rows[block]
        solver.add(state, machine.kernel.matrix(some.X.float(), centres), some.Y, some.weight)
        if progress is not None:
            progress.report(stage="rows", done=block.stop, of=len(rows))


# ------------------------------------------------------------------------------------------ averages


def proportions(machines: Sequence[Machine]) -> list[float]:
    """The machines' shares, scaled to sum to 1."""
    total = sum(machine.share for machine in machines)
    return [machine.share / total for machine in machines]


def functions(machines: Sequence[Machine]) -> list[tuple[float, Machine]]:
    """The functions that are averaged and their shares: entries that share α are one, on the mean of their kernels."""
    groups: list[list[tuple[float, Machine]]] = []
    for share, machine in zip(proportions(machines), machines, strict=True):
        if isinstance(machine, Exact) and machine.place > 0:
            groups[-1].append((share, machine))
        else:
            groups.append([(share, machine)])
    return [group[0] if len(group) == 1 else _together(group) for group in groups]


def _together(group: Sequence[tuple[float, Machine]]) -> tuple[float, Machine]:
    shares, machines = zip(*group, strict=True)
    first, mean = machines[0], MeanKernel(tuple(machine.kernel for machine in machines), shares)
    own = {f.name: getattr(first, f.name) for f in fields(first)}
    return sum(shares), OnMean(**own, mean=mean)


def moved(machines: Sequence[Machine], device: torch.device) -> list[Machine]:
    """The machines there; what they share they share there, too."""
    known: dict[int, torch.Tensor] = {}

    def there(t: torch.Tensor) -> torch.Tensor:
        if id(t) not in known:
            known[id(t)] = t.to(device)
        return known[id(t)]

    def whole(machine: Machine) -> Machine:
        machine = replace(machine, X=there(machine.X), alpha=there(machine.alpha))
        if not isinstance(machine, Exact):
            return machine
        return replace(machine, portions=tuple(map(there, machine.portions)))

    return [whole(machine) for machine in machines]


def average(machines: Sequence[Machine], X: torch.Tensor, clip: float) -> torch.Tensor:
    """The clipped mean of the machines' functions."""
    t = X.new_zeros(len(X), machines[0].alpha.shape[1])
    for share, machine in zip(proportions(machines), machines, strict=True):
        t += share * machine(X)
    return _labels(machines, t.clamp(-clip, clip), 1)


def _labels(machines: Sequence[Machine], t: torch.Tensor, dim: int) -> torch.Tensor:
    """What the machines' outputs, along this axis, say of the labels."""
    levels = machines[0].levels
    return t if levels is None else levels(t, dim)


def _outputs(machines: Sequence[Machine], rows: Rows) -> Rows:
    """The rows with the outputs that the machines were trained on."""
    levels = machines[0].levels
    return rows if levels is None else replace(rows, Y=levels.columns(rows.Y))


def without_one_average(
    machines: Sequence[Machine], rows: Rows, clip: float, some: torch.Tensor | None = None
) -> tuple[torch.Tensor, Elsewhere]:
    """f^(-i)(x_i) of the averaged function, and f^(-i)(x) as a function of rows; see ``Machine.without_one``."""
    some = torch.arange(len(rows)) if some is None else some
    rows = _outputs(machines, rows)
    found = [(share, *machine.without_one(rows, some)) for share, machine in functions(machines)]
    own = torch.stack([share * mine for share, mine, _ in found]).sum(0)

    def elsewhere(X: torch.Tensor) -> torch.Tensor:
        t = rows.Y.new_zeros(rows.Y.shape[1], len(X), len(some))
        for share, _, there in found:
            t.add_(there(X), alpha=share)
        return _labels(machines, t.clamp_(-clip, clip), 0)

    return _labels(machines, own.clamp(-clip, clip), 1), elsewhere


def loo_average(
    machines: Sequence[Machine],
    rows: Rows,
    clip: float,
    X: torch.Tensor | None = None,
    some: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """f^(-i)(x_i) of the averaged function, and f^(-i)(x) at the rows ``X``."""
    own, elsewhere = without_one_average(machines, rows, clip, some)
    return own, elsewhere(rows.X[:0] if X is None else X)


def leave_two_out_average(machines: Sequence[Machine], rows: Rows, clip: float, some: torch.Tensor) -> torch.Tensor:
    """f^(-i,-j)(x_i) of the averaged function; see ``Machine.leave_two_out``."""
    rows = _outputs(machines, rows)
    t = sum(share * machine.leave_two_out(rows, some) for share, machine in functions(machines))
    return _labels(machines, torch.as_tensor(t).clamp(-clip, clip), 0)


def weighted_quantile(values: torch.Tensor, weight: torch.Tensor, level: float) -> torch.Tensor:
    """The smallest value v with weight(values <= v) >= level · (Σ weight + 1), over the last axis; ∞ if there is none.

    With weights 1 it is the ⌈level (n + 1)⌉-th smallest value, as in conformal prediction.
    """
    ordered, order = values.sort(-1)
    reached = weight[order].cumsum(-1) >= level * (float(weight.sum()) + 1) - 1e-9
    place = reached.to(torch.int8).argmax(-1, keepdim=True)  # the first that is
    found = ordered.gather(-1, place)[..., 0]
    return torch.where(reached.any(-1), found, torch.inf)
