"""The least-squares machine on all rows, and the mean of such machines on parts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from hgk.arrays import FACTORED, accelerated, in_place, matrices_to_factor, require_memory, row_blocks
from hgk.kernels import Kernel
from hgk.machines.base import Sum, check_parts_of_rows
from hgk.machines.rows import Rows
from hgk.solvers import Cholesky
from hgk.solvers.least_squares import smallest_pivot, solved_in_place
from hgk.storable import expect, real, storable

# Rows from which a kernel matrix in single precision saves more than a fraction of a second.
WORTH_IT = 3000


@storable
@dataclass(frozen=True, eq=False)
class Exact(Sum):
    """The mean of least-squares machines at ``lam`` on parts of the rows ``X``.

    One part of all rows is the ordinary machine; five parts, each without one fold, give the average of
    the five fold functions. α is zero where a row lies in no part.

    ``portions`` are the weights that the rows of each part have there: of a row that was given several times, some
    repetitions may be in a part and others not. Without them every row has its own weight.
    """

    parts: tuple[torch.Tensor, ...] = ()
    portions: tuple[torch.Tensor, ...] = ()

    def to(self, device=None, dtype=None):
        return replace(super().to(device, dtype), portions=tuple(weight.to(device) for weight in self.portions))

    def compact(self):
        return replace(self, parts=(), portions=())

    def check(self, features, rows):
        super().check(features, rows)
        check_parts_of_rows(self, rows)
        if not self.portions or rows is None:
            return
        expect(len(self.portions) == len(self.parts), "a machine's parts and their weights differ in number")
        for part, weight in zip(self.parts, self.portions, strict=True):
            expect(weight.shape == part.shape and real(weight), "a machine's part has weights that do not fit")
            expect(bool(((weight > 0) & (weight <= 1.001 * rows.weight[part])).all()), "a part's weights do not fit")

    def rows_of_parts(self, rows: Rows) -> list[Rows]:
        """What each part was trained on."""
        if not self.portions:
            return [rows[part] for part in self.parts]
        return [rows.portion(part, weight) for part, weight in zip(self.parts, self.portions, strict=True)]

    def without_one(self, rows, index):
        """One of m_i repetitions leaves. With d_i = G_ii + (m_i - 1) s_i / c, which is G_ii for a single one,

            y_i - f^(-i)(x_i) = m_i α_i / d_i,      f^(-i)(x) = f(x) - (k(x)ᵀ G)_i α_i / d_i;

        a part without the repetition is not changed: the mean over the repetitions of row i is returned.
        """
        predicted, shifts = torch.zeros_like(rows.Y[index]), []
        for shift in self._shifts(rows, index):
            mine, where, inside = shift.rows, shift.where, shift.inside
            t = self.kernel.multiply(rows.X[index], mine.X, shift.alpha)
            t[where] = inside * (mine.Y[shift.asked] - shift.m * shift.change) + (1 - inside) * t[where]
            predicted += t / len(self.parts)
            shifts.append(shift)

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            t = self(X).T[:, :, None].repeat(1, 1, len(index))
            for shift in shifts if len(X) else ():
                solved = shift.matrix(X, shift.rows.X) @ shift.columns
                by = shift.inside * shift.change / len(self.parts)
                for output, moved in zip(t, by.T, strict=True):
                    output[:, shift.where] -= solved * moved
            return t

        return predicted, elsewhere

    def without_own(self, rows, index, coarse=False):
        """(k(x)ᵀ G)_i for the row's own i alone: as the kernel between x and all rows, times one column of G."""
        matrix, shifts = self.coarse if coarse else self.kernel.matrix, []
        dtype = matrix(self.X[:1], self.X).dtype
        for part, shift in zip(self.parts, self._shifts(rows, index), strict=True):
            place = torch.full((len(index),), -1)
            place[shift.where] = torch.arange(len(shift.where))
            by = shift.inside * shift.change / len(self.parts)
            shifts.append((part, place.to(part.device), shift.columns.T.contiguous().to(dtype), by))

        def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            t = X.new_empty(len(X), self.outputs)
            for block in row_blocks(len(X), len(self.X)):
                K = matrix(X[block], self.X)
                t[block] = (K @ self.alpha.to(K)).to(X)
                for part, there, columns, by in shifts:
                    mine = there[place[block]]
                    has = slice(None) if len(there) == len(columns) else (mine >= 0).nonzero()[:, 0]
                    of_part = K if len(part) == K.shape[1] else K[:, part]
                    moved = torch.linalg.vecdot(of_part[has], columns[mine[has]])[:, None]
                    t[block][has] -= moved.to(X) * by[mine[has]]
            return t

        return own

    def _shifts(self, rows: Rows, index: torch.Tensor) -> Iterator[Shift]:
        """What the rows of ``index`` change when they leave, part by part."""
        place = torch.full((len(rows),), -1)
        place[index] = torch.arange(len(index))
        for part, mine in zip(self.parts, self.rows_of_parts(rows), strict=True):
            asked = (place[part] >= 0).nonzero()[:, 0]
            solver = Cholesky()
            what = "A kernel matrix, its factor and its inverse"
            require_memory(len(part), len(part), FACTORED, rows.X.dtype, what, rows.X.device)
            matrix = matrix_of(self.kernel, mine, self.lam)
            state = solver.prepare(matrix(mine.X), mine.weight, overwrite=True)
            c, root = state.system.n * self.lam, state.system.root
            factor = solver.factor(state, c)
            del state
            beta, columns = factor.multiply(root * mine.Y), factor.columns(asked)
            diagonal = columns[asked, torch.arange(len(asked))][:, None]
            m = mine.repetitions[asked, None]
            change = beta[asked] / (root[asked] * (diagonal + (m - 1) / c))  # α_i / d_i
            inside = m / rows.repetitions[part[asked], None]  # the repetitions that are in this part
            columns.mul_(root).mul_(root[asked].T)  # the factor is not needed any more
            yield Shift(mine, place[part][asked], asked, m, inside, change, root * beta, columns, matrix)

    def leave_two_out(self, rows, index):
        """With B = {i, j}, E = diag((m_i - 1) s_i / c) and M = diag(m_i),

            (y - f^(-B))_B = M_B (G_BB + E_B)⁻¹ α_B;

        a row that is not in a part cannot be left out of it.
        """
        t = rows.Y.new_zeros(rows.Y.shape[1], len(index), len(index))
        for part, mine in zip(self.parts, self.rows_of_parts(rows), strict=True):
            t += self._without_two(rows, part, mine, index) / len(self.parts)
        return t

    def _without_two(self, rows: Rows, part: torch.Tensor, mine: Rows, index: torch.Tensor) -> torch.Tensor:
        solver = Cholesky()
        place = torch.full((len(rows),), -1)
        place[part] = torch.arange(len(part))
        inside, at = place[index] >= 0, place[index].clamp(min=0)
        require_memory(len(part), len(part), FACTORED, rows.X.dtype, "A kernel matrix and its Cholesky factor")
        matrix = matrix_of(self.kernel, mine, self.lam)
        state = solver.prepare(matrix(mine.X), mine.weight, overwrite=True)
        c = state.system.n * self.lam
        root, factor, m = state.system.root, solver.factor(state, c), mine.repetitions[at]
        # G k(x_j) for rows outside the part, the columns of G for those inside; then the rows of ``index``
        right = matrix(mine.X, rows.X[index])
        right[:, inside] = 0.0
        right[at[inside], inside.nonzero()[:, 0]] = 1.0
        G = (root * factor.multiply(root * right))[at].T  # G[i, j]: what row i has to do with row j of the part
        g = torch.where(inside, G.diagonal() + (m - 1) * mine.weight[at] / c, 1.0)
        solution, y = root * factor.multiply(root * mine.Y), rows.Y[index].T
        alpha = solution[at].T
        one, other = alpha[:, :, None], alpha[:, None, :]
        determinant = torch.where(inside[:, None] & inside, g[:, None] * g - G**2, 1.0).fill_diagonal_(1.0)
        without_both = y[:, :, None] - m[:, None] * (g * one - G * other) / determinant
        without_i = (y - m * alpha / g)[:, :, None]
        whole = self.kernel.multiply(rows.X[index], mine.X, solution).T[:, :, None]
        # k(x_i)ᵀ G is -c/s_i G_i for a row that is inside, but for its own place
        at_i = torch.where(inside[:, None], -(c / mine.weight[at])[:, None] * G, G)
        without_j = whole - torch.where(inside, at_i * (other / g), 0.0)
        # which of the two repetitions are in this part
        p = torch.where(inside, m / rows.repetitions[index], 0.0)
        p_i, p_j = p[:, None], torch.where(torch.eye(len(index), dtype=torch.bool), 0.0, p)
        with_i = p_j * without_j + (1 - p_j) * whole
        return p_i * (p_j * without_both + (1 - p_j) * without_i) + (1 - p_i) * with_i


@dataclass(frozen=True, eq=False)
class Shift:
    """What rows change when they leave a part: which of ``index`` (``where``) and of the part (``asked``) they are, how
    many repetitions the part has of them, α_i / d_i, the columns of G; α of the part, and its kernel matrix.
    """

    rows: Rows
    where: torch.Tensor
    asked: torch.Tensor
    m: torch.Tensor
    inside: torch.Tensor
    change: torch.Tensor
    alpha: torch.Tensor
    columns: torch.Tensor
    matrix: Callable[..., torch.Tensor]


# Rows of a part, and their weights there.
Part = tuple[torch.Tensor, torch.Tensor]


def train(kernel: Kernel, rows: Rows, lam: float, parts: Sequence[Part] | None = None) -> Exact:
    """The least-squares machine on the rows, or the mean of those on parts of them.

    On a mean of kernels its regularised risk is at most the mean of the kernels' own machines' at the same λ, since
    their mean function is in its space, with ‖Σ_m p_m f_m‖² <= Σ_m p_m ‖f_m‖².
    """
    solved = _solve_in_single(kernel, rows, lam) if parts is None and single_suffices(kernel, rows, lam) else None
    alpha, ridge = solved or _solve(kernel, rows, lam, parts)
    if parts is None:
        return Exact(kernel, lam, rows.X, alpha, ridge, parts=(torch.arange(len(rows)),))
    index, weights = zip(*parts, strict=True)
    whole = all(torch.equal(weight, rows.weight[part]) for part, weight in parts)
    return Exact(kernel, lam, rows.X, alpha, ridge, parts=index, portions=() if whole else weights)


def single_suffices(kernel: Kernel, rows: Rows, lam: float) -> bool:
    """Whether K may be computed in single precision: c, for the largest weight, is above the norm of its rounding.

    That is below 2 a 2⁻²³ √n, with a = γ⁻² Σ 2w², the largest exponent that the edges into the top node allow: there
    1 - k_i cancels (the tests have a up to thousands).
    """
    n, c = len(rows), float(rows.weight.sum() / rows.weight.max()) * lam
    a = max(1.0, kernel.largest_exponent)
    return (
        len(kernel.terms) > 1
        and not accelerated(rows.X)
        and n >= WORTH_IT
        and not in_place(n)
        and c > 2 * a * 2.0**-23 * n**0.5
    )


def matrix_of(kernel: Kernel, rows: Rows, lam: float) -> Callable[..., torch.Tensor]:
    """K(X, Z) in double precision, computed in single precision where that suffices for a machine on these rows."""
    if not single_suffices(kernel, rows, lam):
        return kernel.matrix
    return lambda X, Z=None: kernel.matrix(X.float(), None if Z is None else Z.float()).to(X)


def _solve_in_single(kernel: Kernel, rows: Rows, lam: float):
    """As ``_solve``; None if the rounding of K would need a ridge after all."""
    with suppress(ValueError):
        alpha, ridge = _solve(kernel, rows, lam, dtype=torch.float32)
        return (alpha, ridge) if ridge == 0 else None
    return None


def _solve(
    kernel: Kernel,
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
        mine = rows.portion(part, weight)
        if in_place(len(mine)):
            solution, added = _large(kernel, mine, lam)
        else:
            K = kernel.matrix(mine.X.to(dtype)).to(mine.X) if dtype else kernel.matrix(mine.X)
            solved = solver.solve(solver.prepare(K, mine.weight, overwrite=True), mine.Y, lam)
            solution, added = solved.alpha, solved.stats["ridge_added"]
        alpha[part] += solution / len(parts)
        ridge = max(ridge, added)
    return alpha, ridge


def _large(kernel: Kernel, rows: Rows, lam: float) -> tuple[torch.Tensor, float]:
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
