"""A function on fewer rows: what a machine of any loss amounts to, as a sum over some of its rows.

With centres z among the rows x_i of f, s_i their weights and K_CC = L Lᵀ,

    φ(x) = L⁻¹ k_C(x)        f_C = βᵀφ        min_β Σ s_i ‖f(x_i) - βᵀφ_i‖² + ε ‖β‖²        α = L⁻ᵀ β

Centres come in blocks, drawn without replacement with probabilities in proportion to

    d_i ‖r_i‖²,      d_i = 1 - ‖φ_i‖²,      r_i = f(x_i) - f_C(x_i)

which go where the function is not met yet (r) by rows that the others do not stand for (d: pivoted Cholesky at random).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from hgk.kernels import Kernel
from hgk.machines.base import Inseparable, Sum
from hgk.solvers.least_squares import cholesky
from hgk.storable import expect, storable

# Added to the diagonal of K_CC, which is 1, against rounding in single precision; and ε.
JITTER_OF_CENTRES, RIDGE = 1e-5, 1e-6
# Centres of the first block, and of each further one as a share of those before it.
FIRST_BLOCK, GROWTH = 32, 0.25


@storable
@dataclass(frozen=True, eq=False)
class Compressed(Inseparable):
    """f_C on the centres ``X``. Functions without single rows went with the other rows.

    Attributes
    ----------
    bound : float
        ``clip`` of the machine that it stands for.
    """

    bound: float = 1.0

    rounded_from = 1  # it is made to be fast

    @property
    def clip(self) -> float:
        return self.bound

    def check(self, features, rows):
        super().check(features, rows)
        expect(self.bound > 0 and rows is None, "a compressed machine has training rows, or no bound of its values")

    @property
    def refusal(self) -> str:
        return (
            "Functions without single rows were asked for of a compressed model, which does not keep its rows; ask the "
            "model that it was made from."
        )


class Compression:
    """Rows of a sum that stand for the others, block by block.

    Parameters
    ----------
    kernel : Kernel
    X : tensor of shape (rows, features)
    values : tensor of shape (rows, outputs)
        f at these.
    weight : tensor of shape (rows,)
        0 where a row is to be no centre and to have no say.
    """

    def __init__(
        self, kernel: Kernel, X: torch.Tensor, values: torch.Tensor, weight: torch.Tensor, rng: np.random.Generator
    ):
        self.kernel, self.X, self.values, self.weight, self.rng = kernel, X, values, weight, rng
        n = len(values)
        self.index = torch.arange(0)
        self.phi, self.left, self.residuals = values.new_zeros(n, 0), values.new_ones(n), values
        self.squares, self.products = values.new_zeros(0, 0), values.new_zeros(0, values.shape[1])

    def blocks(self, most: int) -> Iterator[torch.Tensor]:
        """f_C at all rows, after each block of centres."""
        while len(self.index) < most:
            picked = self._draw(min(most - len(self.index), max(FIRST_BLOCK, int(GROWTH * len(self.index)))))
            if not len(picked):
                return
            self._add(picked)
            yield self.values - self.residuals

    def _draw(self, size: int) -> torch.Tensor:
        chance = self.left.clamp_min(0) * (self.residuals**2).sum(1)
        chance[self.weight == 0] = 0.0
        chance[self.index] = 0.0
        size = min(size, int((chance > 0).sum()))
        if not size:
            return torch.arange(0)
        p = (chance / chance.sum()).numpy()
        return torch.from_numpy(self.rng.choice(len(p), size, replace=False, p=p / p.sum()))

    def _add(self, picked: torch.Tensor) -> None:
        """By blocks, the rows of L⁻¹ k_C(x) that are new: L_22⁻¹ (k_2(x) - L_21 φ_1(x))."""
        new = self.kernel.matrix(self.X, self.X[picked]) - self.phi @ self.phi[picked].T
        L, _ = cholesky((new[picked] + new[picked].T) / 2, JITTER_OF_CENTRES)
        new = torch.linalg.solve_triangular(L, new.T, upper=False).T
        weighted, across = self.weight[:, None] * new, self.phi.T @ (self.weight[:, None] * new)
        self.squares = torch.cat([torch.cat([self.squares, across], 1), torch.cat([across.T, weighted.T @ new], 1)])
        self.products = torch.cat([self.products, weighted.T @ self.values])
        self.phi, self.index = torch.cat([self.phi, new], 1), torch.cat([self.index, picked])
        self.left = self.left - (new**2).sum(1)
        R, _ = cholesky(self.squares, RIDGE * float(self.weight.mean()))
        self.residuals = self.values - self.phi @ torch.cholesky_solve(self.products, R)

    def compressed(self, machine: Sum) -> Compressed:
        """f_C on the centres so far; what it shares with the machine that it stands for."""
        X = self.X[self.index]
        L, _ = cholesky(self.kernel.matrix(X), JITTER_OF_CENTRES)
        phi = torch.linalg.solve_triangular(L, self.kernel.matrix(self.X, X).T, upper=False).T
        weighted = self.weight[:, None] * phi
        R, _ = cholesky(weighted.T @ phi, RIDGE * float(self.weight.mean()))
        beta = torch.cholesky_solve(weighted.T @ self.values, R)
        alpha = torch.linalg.solve_triangular(L.T, beta, upper=True)
        return Compressed(self.kernel, machine.lam, X, alpha, bound=machine.clip)
