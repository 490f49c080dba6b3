"""The logistic machine of classes, all of whose values are solved for together."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hgk.arrays import FACTORED, require_memory, row_blocks
from hgk.kernels import Kernel
from hgk.logistic import zero_or_one
from hgk.losses import Logistic, Loss
from hgk.machines.base import Sum, without_own_term
from hgk.machines.exact import single_suffices
from hgk.machines.rows import Rows
from hgk.solvers.classes import RELATIVE_GAP, ClassesSolution, solve_classes
from hgk.storable import expect, storable

# Double-precision n x n matrices that a solution takes: K, K in single precision, the factor and what it is made of.
MATRICES_OF_CLASSES = 3


class LogOdds:
    """What machines of the logistic loss of classes share."""

    gap_left: float

    @property
    def loss(self) -> Loss:
        return Logistic()

    @property
    def gap(self) -> float:
        return self.gap_left if self.gap_left > 10 * RELATIVE_GAP else 0.0

    @property
    def clip(self) -> float:
        """Logarithms of odds are not clipped."""
        return float("inf")

    def check(self, features, rows):
        super().check(features, rows)  # type: ignore[misc]
        expect(self.gap_left >= 0, "a machine's duality gap is no number, or negative")


@storable
@dataclass(frozen=True, eq=False)
class OfClasses(LogOdds, Sum):  # type: ignore[override]
    """The minimiser of λ‖f‖² + (1/n) Σ s_i L(y_i, f(x_i)) for the logistic loss of classes.

    Functions without single rows are those of one Newton step from the minimum (:mod:`hgk.solvers.classes`).

    Attributes
    ----------
    gap_left : float
        The relative duality gap.
    """

    gap_left: float = 0.0

    def without_one(self, rows, index):
        values, columns, change = self._changes(rows, index)

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            moved = self.kernel.matrix(X, rows.X).double() @ columns
            return self(X).T[:, :, None] - change.T[:, None, :] * moved

        return values, elsewhere

    def without_own(self, rows, index, coarse=False):
        _, columns, change = self._changes(rows, index)
        of_rows, matrix = columns.T.contiguous(), self.coarse if coarse else self.kernel.matrix

        def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            t = X.new_empty(len(X), self.outputs)
            for block in row_blocks(len(X), len(self.X)):
                K, i = matrix(X[block], self.X), place[block]
                t[block] = without_own_term(K, self.alpha, of_rows[i], change[i])
            return t

        return own

    def _changes(self, rows: Rows, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """f^(-i)(x_i); and the columns and factors of

        f^(-i)(x) = f(x) - k(x)ᵀ (D^½ H)_i · C_i r_i / (m_i D_i^½ (1 - a_i))
        """
        solution, H = self._solved(rows)
        m = rows.repetitions
        values = solution.left_out(H.diagonal(), m)[index]
        a = ((1 - H.diagonal()) / m)[index]
        change = (solution.C * solution.at.r / solution.root)[index] / (m[index] * (1 - a))[:, None]
        return values, solution.root * H[:, index], change

    def leave_two_out(self, rows, index):
        """With P = D^-½ (I - H) D^-½, d = D / m and q = C r / m, the step is -P_BB (I - diag(d) P_BB)⁻¹ q_B."""
        solution, H = self._solved(rows)
        m, root = rows.repetitions[index], solution.root[index, 0]
        own = 1 - H.diagonal()[index]
        P = -H[index][:, index] / (root[:, None] * root)
        P.fill_diagonal_(0.0)
        d, q = root**2 / m, (solution.C * solution.at.r)[index].T / m
        alone = 1 - own / m  # 1 - d_i P_ii
        det = alone[:, None] * alone - d[:, None] * d * P**2
        z_i = (alone * q[:, :, None] + d[:, None] * P * q[:, None, :]) / det
        z_j = (alone[:, None] * q[:, None, :] + d * P * q[:, :, None]) / det
        step = (own / root**2)[:, None] * z_i + P * z_j
        same = torch.eye(len(index), dtype=torch.bool, device=step.device)
        once = (own / root**2 * q / alone)[:, :, None]
        return solution.f[index].T[:, :, None] - torch.where(same, once, step)

    def _solved(self, rows: Rows) -> tuple[ClassesSolution, torch.Tensor]:
        """The solution from the coefficients, and H."""
        n = len(rows)
        require_memory(n, n, FACTORED + 1, torch.float64, "A kernel matrix, its factor and its inverse", rows.X.device)
        K = kernel_matrix(self.kernel, rows, self.lam)
        solution = solve_classes(K, zero_or_one(rows.Y), rows.weight, self.lam, self.alpha)
        return solution, solution.inverse()


def kernel_matrix(kernel: Kernel, rows: Rows, lam: float) -> torch.Tensor:
    """In double precision, computed in single precision where λ is far above its rounding."""
    n = len(rows)
    require_memory(n, n, MATRICES_OF_CLASSES, torch.float64, "A kernel matrix and its Cholesky factor", rows.X.device)
    return kernel.matrix(rows.X.float() if single_suffices(kernel, rows, lam) else rows.X).double()


def train_classes(
    kernel: Kernel,
    rows: Rows,
    lam: float,
    start: torch.Tensor | None = None,
    K: torch.Tensor | None = None,
    tol: float = RELATIVE_GAP,
) -> OfClasses:
    """The logistic machine on the rows; labels are ±1, one column per class (one for two classes).

    ``start`` are coefficients near those that are sought, ``K`` is the kernel's matrix, if they are known; ``tol`` is
    the relative duality gap.
    """
    K = kernel_matrix(kernel, rows, lam) if K is None else K
    solution = solve_classes(K, zero_or_one(rows.Y), rows.weight, lam, start, tol)
    return OfClasses(kernel, lam, rows.X, solution.alpha, 0.0, solution.gap)
