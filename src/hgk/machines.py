"""A trained machine: a kernel, its training rows, λ and α; and averages of machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hgk.arrays import require_memory
from hgk.kernels import HierarchicalKernel
from hgk.solvers import Cholesky


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows: inputs X, outputs Y (one column each), sample weights."""

    X: torch.Tensor
    Y: torch.Tensor
    weight: torch.Tensor

    def __len__(self) -> int:
        return len(self.X)

    @property
    def size(self) -> float:
        """(Σ s)² / Σ s², the number of rows that the weights amount to; the same for s and 2s."""
        return float(self.weight.sum() ** 2 / (self.weight**2).sum())

    def __getitem__(self, index) -> Rows:
        return Rows(self.X[index], self.Y[index], self.weight[index])

    @property
    def spread(self):
        """E (x_j - x'_j)² over pairs of rows, per column: twice the variance."""
        return 2 * self.X.var(0, correction=0).cpu().numpy()


def clipped_risk(t: torch.Tensor, rows: Rows, clip: float) -> float:
    """(1/n) Σ s_i (y_i - clip(t_i))², summed over outputs."""
    losses = ((t.clamp(-clip, clip) - rows.Y) ** 2).sum(1)
    return float((losses * rows.weight).sum() / rows.weight.sum())


@dataclass(frozen=True, eq=False)
class Machine:
    """f = Σ_i α_i k(x_i, ·), the mean of least-squares machines at ``lam`` on parts of the rows ``X``.

    One part of all rows is the ordinary machine; five parts, each without one fold, give the average of
    the five fold functions. α is zero where a row lies in no part.
    """

    kernel: HierarchicalKernel
    lam: float
    X: torch.Tensor
    alpha: torch.Tensor
    parts: tuple[torch.Tensor, ...]
    ridge_added: float = 0.0

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return self.kernel.multiply(X, self.X, self.alpha)


def train(kernel: HierarchicalKernel, rows: Rows, lam: float, parts: Sequence[torch.Tensor] | None = None) -> Machine:
    """The least-squares machine on the rows, or the mean of those on parts of them."""
    parts = (torch.arange(len(rows)),) if parts is None else tuple(parts)
    largest = max(map(len, parts))
    require_memory(largest, largest, 3, rows.X.dtype, "A kernel matrix and its Cholesky factor")
    solver, alpha, ridge = Cholesky(), torch.zeros_like(rows.Y), 0.0
    for part in parts:
        some = rows[part]
        solved = solver.solve(solver.prepare(kernel.matrix(some.X), some.weight), some.Y, lam)
        alpha[part] += solved.alpha / len(parts)
        ridge = max(ridge, solved.stats["ridge_added"])
    return Machine(kernel, lam, rows.X, alpha, parts, ridge)


def average(machines: Sequence[Machine], X: torch.Tensor, clip: float) -> torch.Tensor:
    """The clipped mean of the machines' functions."""
    return torch.stack([machine(X) for machine in machines]).mean(0).clamp(-clip, clip)


def loo_average(machines: Sequence[Machine], rows: Rows, clip: float) -> torch.Tensor:
    """Leave-one-out predictions of the averaged function, its kernels held fixed.

    A machine trained on row i contributes f^(-i)(x_i), one that was not contributes f(x_i).
    """
    total = torch.zeros_like(rows.Y)
    for machine in machines:
        for part in machine.parts:
            total += _loo_of_part(machine, rows, part) / (len(machines) * len(machine.parts))
    return total.clamp(-clip, clip)


def _loo_of_part(machine: Machine, rows: Rows, part: torch.Tensor) -> torch.Tensor:
    some, solver = rows[part], Cholesky()
    require_memory(len(part), len(part), 4, rows.X.dtype, "A kernel matrix, its Cholesky factor and its inverse")
    found = solver.loo(solver.prepare(machine.kernel.matrix(some.X), some.weight), some.Y, machine.lam)
    t = machine.kernel.multiply(rows.X, some.X, found.alpha)
    assert found.residuals is not None
    t[part] = some.Y - found.residuals
    return t
