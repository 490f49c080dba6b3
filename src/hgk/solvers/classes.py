"""The logistic machine of classes, by Newton's method on all values at once; and what leaving a row out does to it.

With C_i = s_i / (2nλ), f = Kα and the expansion of :mod:`hgk.logistic`, the function to be minimised is, over 2nλ,

    ½ tr αᵀKα + Σ C_i L_i(f_i),        with the gradient K (α - C r),        so that α = C r at the minimum.

Newton's step x solves (I + C W K) x = C r - α. For two classes W is a number per row, and with D = Cω

    (I + D K)⁻¹ = I - D^½ A⁻¹ D^½ K,        A = I + D^½ K D^½,

from one Cholesky factor. For several this is the preconditioner of conjugate gradients, in the inner product of K, in
which I + C W K is self-adjoint.

*A row that leaves.* Without one of its m_i repetitions the gradient lacks s_i r_i / m_i, the curvature s_i ω_i / m_i.
One Newton step from the minimum, with the curvature ω of every row, gives with H = A⁻¹

    f^(-i)(x_i) = f_i - (r_i / ω_i) a_i / (1 - a_i),        a_i = (1 - H_ii) / m_i
    f^(-i)(x)   = f(x) - Σ_j k(x, x_j) D_j^½ H_ji · C_i r_i / (m_i D_i^½ (1 - a_i)).

*Certificate.* α̂ = C r lies in the domain of the dual problem, and with L*(p - y) = Σ_k p_k log p_k, over 2nλ,

    gap = ½ tr αᵀKα + Σ C_i L_i + ½ tr α̂ᵀKα̂ + Σ C_i L*_i >= 0,        0 at the minimum alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from hgk.logistic import Expansion, log_losses
from hgk.solvers.least_squares import cholesky
from hgk.solvers.newton import products

# The relative gap to be reached, Newton steps, steps of conjugate gradients within one, and what these may leave.
RELATIVE_GAP, MOST_STEPS, MOST_INNER, LEFT = 1e-6, 40, 60, 0.05
# What may be left of an adjoint, and of one in a batch, with the gap of the batch's machine.
ADJOINT, ADJOINT_OF_BATCH, GAP_OF_BATCH = 1e-8, 1e-2, 1e-3
# Steps of conjugate gradients that it may take.
MOST_OF_ADJOINT = 1000
# Inner steps from which a new factor is worth its time.
REFACTOR = 20


@dataclass(frozen=True, eq=False)
class ClassesSolution:
    """α and f = Kα at the minimum, C, the labels of 0 and 1, and the relative duality gap that is left."""

    K: torch.Tensor
    C: torch.Tensor
    y: torch.Tensor
    alpha: torch.Tensor
    f: torch.Tensor
    gap: float

    @cached_property
    def at(self) -> Expansion:
        return Expansion(self.f, self.y)

    @cached_property
    def root(self) -> torch.Tensor:
        """D^½, a column."""
        return (self.C * self.at.omega).sqrt()

    @cached_property
    def inverted(self) -> Inverted:
        return Inverted.of(self.K.float(), self.root, True)

    def inverse(self, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """H = A⁻¹, in this precision."""
        if dtype == torch.float32 and self.inverted.H is not None:
            return self.inverted.H
        return torch.cholesky_inverse(cholesky(_weighted(self.K, self.root), 1.0, rounded=True)[0].to(dtype))

    def left_out(self, diagonal: torch.Tensor, repetitions: torch.Tensor) -> torch.Tensor:
        """f^(-i)(x_i), from the diagonal of H."""
        a = (1 - diagonal[:, None].double()) / repetitions[:, None]
        return self.f - self.at.r / self.at.omega * a / (1 - a)

    def adjoint(self, E: torch.Tensor, left: float = ADJOINT) -> torch.Tensor:
        """(I + C W K)⁻¹ E, up to this part of its norm."""
        return _conjugate_gradients(
            self.K, self.C, self.at, self.inverted, E, products(self.K, E), left, MOST_OF_ADJOINT
        )[0]


def solve_classes(
    K: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor,
    lam: float,
    start: torch.Tensor | None = None,
    tol: float = RELATIVE_GAP,
) -> ClassesSolution:
    """The minimum for labels of 0 and 1, sample weights s and λ, from an α that is near it, if one is known.

    Examples
    --------
    >>> x, y = torch.tensor([-1.0, 0.0, 1.0]).double(), torch.tensor([[0.0], [1.0], [1.0]]).double()
    >>> K = torch.exp(-((x[:, None] - x) ** 2))
    >>> solution = solve_classes(K, y, torch.ones(3).double(), 0.1)
    >>> solution.gap <= 1e-6, bool(torch.allclose(solution.alpha, solution.C * solution.at.r, atol=1e-3))
    (True, True)
    """
    fast, K, C = K.float(), K.double(), (weight.double() / (2 * float(weight.sum()) * lam))[:, None]
    alpha, inner = torch.zeros_like(y) if start is None else start.clone(), MOST_INNER
    for step in range(MOST_STEPS + 1):
        f = products(K, alpha)
        at = Expansion(f, y)
        candidate = C * at.r
        reached = products(K, candidate)
        gap, primal = _gap(C, at, alpha, candidate, reached)
        if gap <= tol * primal or step == MOST_STEPS:
            break
        if inner >= REFACTOR:
            inverted = Inverted.of(fast, (C * at.omega).sqrt(), False)
        x, Kx, inner = _conjugate_gradients(fast, C, at, inverted, candidate - alpha, reached - f, LEFT)
        theta = _length(C, at, alpha, x, Kx)
        if not theta:  # by rounding
            if fast is K:
                break
            fast, inner = K, MOST_INNER
        alpha = alpha + theta * x
    left = float(gap / primal)
    return ClassesSolution(K, C, y, alpha, f, max(0.0, left) if left == left else float("inf"))


def _weighted(K: torch.Tensor, root: torch.Tensor) -> torch.Tensor:
    return K * root * root.T


@dataclass(frozen=True, eq=False)
class Inverted:
    """(I + D K)⁻¹ r = r - D^½ A⁻¹ D^½ K r, by the factor of A or, where it is wanted often, by H = A⁻¹."""

    root: torch.Tensor
    L: torch.Tensor
    H: torch.Tensor | None

    @classmethod
    def of(cls, K: torch.Tensor, root: torch.Tensor, often: bool) -> Inverted:
        """In the precision of K, unless that fails."""
        A = _weighted(K, root.to(K))
        A.diagonal().add_(1.0)
        L, failed = torch.linalg.cholesky_ex(A)
        ridge = 0.0
        while bool(failed):  # what is added slows conjugate gradients down, and changes nothing else
            A = _weighted(K.double(), root)
            A.diagonal().add_(1.0 + ridge)
            L, failed = torch.linalg.cholesky_ex(A)
            ridge = max(1e-12 * float(A.diagonal().max()), 100 * ridge)
        return cls(root, L, torch.cholesky_inverse(L) if often else None)

    def __call__(self, r: torch.Tensor, Kr: torch.Tensor) -> torch.Tensor:
        right = (self.root * Kr).to(self.L)
        solved = torch.cholesky_solve(right, self.L) if self.H is None else products(self.H, right)
        return r - self.root * solved.double()


def _gap(
    C: torch.Tensor, at: Expansion, alpha: torch.Tensor, candidate: torch.Tensor, reached: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """P - D and P, over 2nλ; the dual at α̂."""
    primal = 0.5 * (alpha * at.f).sum() + (C[:, 0] * log_losses(at.f, at.y)).sum()
    others = torch.xlogy(1 - at.p, 1 - at.p) if at.f.shape[1] == 1 else 0.0
    return primal + 0.5 * (candidate * reached).sum() + (C * (torch.xlogy(at.p, at.p) + others)).sum(), primal


def _conjugate_gradients(
    K: torch.Tensor,
    C: torch.Tensor,
    at: Expansion,
    inverted: Inverted,
    right: torch.Tensor,
    K_right: torch.Tensor,
    left: float,
    most: int = MOST_INNER,
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """x with (I + C W K) x = right, up to ``left`` of its norm ‖·‖_K; Kx; and the steps taken.

    Products with K are in its precision, all else in double precision.
    """

    def product(v: torch.Tensor) -> torch.Tensor:
        return products(K, v.to(K)).double()

    x, Kx, r, Kr = torch.zeros_like(right), torch.zeros_like(right), right, K_right
    p, Kp, before, goal, steps = x, x, float("inf"), left**2 * float((right * K_right).sum()), 0
    while steps < most and float((r * Kr).sum()) > goal:
        z = inverted(r, Kr)
        Kz = product(z)
        rz = float((r * Kz).sum())
        p, Kp = z + rz / before * p, Kz + rz / before * Kp
        q = p + C * at.curved(Kp)
        slope = float((q * Kp).sum())
        if not (slope > 0 and rz > 0):  # by rounding
            break
        x, Kx, r, before, steps = x + rz / slope * p, Kx + rz / slope * Kp, r - rz / slope * q, rz, steps + 1
        Kr = product(r)
    return x, Kx, steps


def _length(C, at, alpha, x, Kx) -> float:
    """θ of 1, ½, ¼, … at which the objective has fallen; 0 if it falls nowhere."""

    def objective(theta: float) -> float:
        f = at.f + theta * Kx
        return float(0.5 * ((alpha + theta * x) * f).sum() + (C[:, 0] * log_losses(f, at.y)).sum())

    theta, before = 1.0, objective(0.0)
    while theta > 1e-6:
        if objective(theta) < before:
            return theta
        theta /= 2
    return 0.0
