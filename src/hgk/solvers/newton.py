"""Logistic, squared hinge, expectile and weighted least-squares machines, by Newton's method on the support.

With C_i = s_i/(2nλ), t = Kα, u = ∂L/∂t and D = diag(C_i ∂²L/∂t²), the function to be minimised is, divided by 2λ,

    ½ αᵀKα + Σ C_i L(y_i, t_i),        with the gradient Kρ,  ρ = α + C u,

and Newton's step d solves (I + DK) d = -ρ. Where D_i = 0, as for rows beyond the margin of the squared hinge,
d_i = -ρ_i; on the others, the support F,

    (K_FF + D_F⁻¹) d_F = -D_F⁻¹ ρ_F - K_FN d_N,

a least-squares machine with weights D_F, solved as such (:class:`~hgk.solvers.Cholesky`). The step is shortened to
where the slope along it vanishes, if it goes beyond; that costs no product with K, for t moves along Kd.

At every step α̂ = -C u lies in the domain of the dual and is the answer once its duality gap is below ``tol``.
"""

from __future__ import annotations

import torch

from hgk.losses import Loss, SmoothLoss
from hgk.solvers.convex import Column, ConvexSolver, Found, product, relative
from hgk.solvers.least_squares import Cholesky


class Newton(ConvexSolver):
    """Semismooth Newton steps with a line search.

    Parameters
    ----------
    tol : float
        Duality gap to be reached, relative to the primal value.
    most : int
        At most so many steps for each column.

    Examples
    --------
    >>> from hgk.losses import Logistic
    >>> x, y = torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.tensor([[-1.0], [-1.0], [1.0], [1.0]])
    >>> solver = Newton()
    >>> found = solver.solve(solver.prepare(torch.outer(x, x)), y, 0.01, Logistic())
    >>> found.status.name, found.stats["gap"] <= 1e-8
    ('SOLVED', True)
    """

    def __init__(self, tol: float = 1e-8, most: int = 50):
        self.tol, self.most = tol, most

    def _check(self, loss: Loss) -> None:
        if not isinstance(loss, SmoothLoss):
            raise TypeError(
                f"Newton was given {type(loss).__name__}, which is not smooth; use BoxDual, which takes such."
            )

    def _column(self, column: Column, alpha: torch.Tensor) -> Found:
        C, t, steps = column.C, product(column.K, alpha), 0
        best, smallest = alpha, float("inf")
        while True:
            candidate = -C * column.loss.derivative(column.y, t)
            gap = relative(*column.gap(candidate, product(column.K, candidate)))
            if gap < smallest:
                best, smallest = candidate, gap
            if smallest <= self.tol or steps == self.most:
                return Found(best, smallest, {"newton": steps})
            d, Kd = _step(column, alpha, t)
            theta = _length(column, alpha, t, d, Kd)
            if theta == 0:  # rounding
                return Found(best, smallest, {"newton": steps})
            alpha, t, steps = alpha + theta * d, t + theta * Kd, steps + 1


def _step(column: Column, alpha: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """d with (I + DK) d = -ρ, and Kd."""
    loss: SmoothLoss = column.loss  # type: ignore[assignment]
    rho = alpha + column.C * loss.derivative(column.y, t)
    D = column.C * loss.curvature(column.y, t)
    # a curvature that is rounding against the largest changes nothing, and 1/D would overflow
    F = (D / D.max() > 1e-30).nonzero()[:, 0]
    d = -rho
    if not len(F):
        return d, product(column.K, d)
    d[F] = 0
    Kd = product(column.K, d)
    solver, D_F = Cholesky(), D[F]
    K_FF = column.K if len(F) == len(t) else column.K[F[:, None], F]
    right = -rho[F] / D_F - Kd[F]
    # the least-squares machine has n λ = Σ D · λ, which is to be 1
    d_F = torch.zeros_like(d)
    d_F[F] = solver.solve(solver.prepare(K_FF, D_F), right[:, None], 1 / float(D_F.sum())).alpha[:, 0]
    return d + d_F, Kd + product(column.K, d_F)


def _length(column: Column, alpha: torch.Tensor, t: torch.Tensor, d: torch.Tensor, Kd: torch.Tensor) -> float:
    """θ in [0, 1] where the slope (α + θd + C u(t + θKd))ᵀ Kd, which increases, vanishes; 1 if it is still negative."""

    def slope(theta: float) -> float:
        u = column.loss.derivative(column.y, t + theta * Kd)
        return float((alpha + theta * d + column.C * u) @ Kd)

    first = slope(0.0)
    if first >= 0:
        return 0.0
    if slope(1.0) <= 1e-3 * -first:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        theta = (low + high) / 2
        value = slope(theta)
        if abs(value) <= 1e-2 * -first:
            break
        low, high = (theta, high) if value < 0 else (low, theta)
    return theta
