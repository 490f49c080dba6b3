"""Logistic, squared hinge, expectile and weighted least-squares machines, by Newton's method for all columns at once.

With C_i = s_i/(2nλ), t = Kα, u = ∂L/∂t and D = diag(C_i ∂²L/∂t²), the function to be minimised is, divided by 2λ,

    ½ αᵀKα + Σ C_i L(y_i, t_i),        with the gradient Kρ,  ρ = α + C u,

and Newton's step d solves (I + DK) d = -ρ. It is found in one of two ways.

*Conjugate gradients*, for all columns together, so that one product with K serves them all: d = D^½ w - ρ where

    A w = D^½ Kρ,        A = I + D^½ K D^½.

If r is what is left of the right side, d leaves λ rᵀA⁻¹r <= λ‖r‖² of P; and rᵀA⁻¹r falls by what a step gains, which is
known, so that the gain of the last few steps stands for what is left (Hestenes and Stiefel). The search ends when
either of the two is a small part of the gap. Every such d descends: the slope is (wᵀD^½ - ρᵀ)Kρ, where wᵀD^½Kρ grows
from step to step and stays below ρᵀKρ.
Single precision is enough, since the certificate and t are not computed from it.

*A factorisation*, column by column. Where D_i = 0, as for rows beyond the margin of the squared hinge, d_i = -ρ_i; on
the others, the support F,

    (K_FF + D_F⁻¹) d_F = -D_F⁻¹ ρ_F - K_FN d_N,

a least-squares machine with weights D_F, solved as such (:class:`~hgk.solvers.Cholesky`).

The step is shortened to where the slope along it vanishes, if it goes beyond; that costs no product with K, for t moves
along Kd. At every step α̂ = -C u lies in the domain of the dual, and often α itself does; the one with the smaller
duality gap is the answer once that is below ``tol``. Columns that are through leave the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hgk.losses import Loss, SmoothLoss
from hgk.solvers.convex import ConvexProblem, ConvexSolver, ConvexState, SolvedColumn, product, relative
from hgk.solvers.least_squares import Cholesky

# A factorisation on f of n rows takes as long as f³ / (n² (3 + 20/k)) steps of conjugate gradients on k columns. A
# column that has used them up is factored then and afterwards: at most twice the time of the better way.
WORTH = 3.0, 20.0
# Where it is worth no more steps than this, it is factored at once.
FEW_STEPS = 10
# What conjugate gradients may leave of P, as a part of the gap wanted, or of that part of the present one.
ENOUGH = 0.01
SHARE_OF_GAP = 0.01
# Steps that have not helped, after which a column is factored.
IDLE_STEPS = 5
# Steps of conjugate gradients whose gain together stands for what is left to gain.
LATELY = 5


@dataclass(frozen=True)
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
    >>> solution = solver.solve(solver.prepare(torch.outer(x, x)), y, 0.01, Logistic())
    >>> solution.status.name, solution.stats["gap"] <= 1e-8
    ('SOLVED', True)
    """

    most: int = 50

    needs = ("derivative", "curvature")

    def solve_columns(
        self, state: ConvexState, labels: torch.Tensor, lam: float, loss: Loss, alpha: torch.Tensor
    ) -> list[SolvedColumn]:
        problem = ConvexProblem(state.K, labels, state.weight[:, None], lam, loss)
        now, answers = _Columns.start(problem, alpha), _Answers(labels)
        for step in range(self.most + 1):
            candidate = -problem.C * now.slopes()
            reached = products(state.K, candidate)
            gap, primal = now.problem.gap(candidate, reached)
            answers.see(now.number, candidate, relative(gap, primal))
            other, primal = now.gap_at_alpha()
            answers.see(now.number, now.alpha, relative(other, primal))
            now.judge(answers.gaps[now.number], primal)
            left = answers.gaps[now.number] > self.tol
            if step == self.most or not left.any():
                break
            now = now.only(left)
            rho, K_rho = now.alpha - candidate[:, left], now.t - reached[:, left]
            answers.newton[now.number] += 1
            too_much = torch.minimum(torch.minimum(gap, other), primal)  # at most, for the minimum is not negative
            goal = (ENOUGH / lam) * torch.maximum(self.tol * primal, SHARE_OF_GAP * too_much)[left]
            d, Kd = self._step(state, now, rho, K_rho, goal, answers)
            theta = _length(now, d, Kd)
            now.alpha, now.t = now.alpha + theta * d, now.t + theta * Kd
            stuck, now.factored = (theta == 0) & now.factored, now.factored | (theta == 0)
            now = now.only(~stuck)  # by rounding
            if not len(now.number):
                break
        return answers.columns()

    def _step(self, state, now, rho, K_rho, goal, answers) -> tuple[torch.Tensor, torch.Tensor]:
        """d with (I + DK) d = -ρ, and Kd, one column for each of those left."""
        D, (n, k) = now.curvatures(), rho.shape
        worth = (support(D).sum(0).double() ** 3 / (n**2 * (WORTH[0] + WORTH[1] / k))).long()
        worth[now.factored | (worth < FEW_STEPS)] = 0
        root = D.sqrt()
        d, Kd = -rho, -K_rho
        if bool(worth.any()):
            w, steps, r = conjugate_gradients(state.single, root, root * K_rho, goal, worth)
            answers.steps[now.number] += steps
            d, Kd = d + root * w, Kd + products(state.K, root * w)
            left = ((root * Kd + w) ** 2).sum(0)  # in truth; rounding may have taken r elsewhere
            now.factored = now.factored | (steps >= worth) | (left > 2 * torch.maximum(goal, r))
        now.factored = now.factored | (worth == 0)
        for j in now.factored.nonzero()[:, 0].tolist():
            d[:, j], Kd[:, j] = _factored(state.K, rho[:, j], D[:, j])
            answers.factors[now.number[j]] += 1
        return d, Kd


@dataclass
class _Columns:
    """Those that are not through: which of all they are, where they stand, and how their steps are found."""

    problem: ConvexProblem
    number: torch.Tensor
    alpha: torch.Tensor
    t: torch.Tensor
    factored: torch.Tensor
    gap: torch.Tensor  # when a step last helped, and how many steps ago that was
    primal: torch.Tensor
    idle: torch.Tensor

    @classmethod
    def start(cls, problem: ConvexProblem, alpha: torch.Tensor) -> _Columns:
        k = alpha.shape[1]
        t = products(problem.K, alpha) if bool(alpha.any()) else torch.zeros_like(alpha)
        number, factored = torch.arange(k), torch.zeros(k, dtype=torch.bool)
        gap, primal = t.new_full((2, k), torch.inf)
        return cls(problem, number, alpha, t, factored, gap, primal, torch.zeros_like(number))

    def only(self, which: torch.Tensor) -> _Columns:
        if bool(which.all()):
            return self
        loss = self.problem.loss.columns(which.nonzero()[:, 0].tolist())
        problem = replace(self.problem, y=self.problem.y[:, which], loss=loss)
        columns = self.alpha[:, which], self.t[:, which]
        rest = (x[which] for x in (self.factored, self.gap, self.primal, self.idle))
        return _Columns(problem, self.number[which], *columns, *rest)

    def judge(self, gap: torch.Tensor, primal: torch.Tensor) -> None:
        """Where steps have not helped for a while, they may have been too inexact.

        A step helps that halves the relative gap or takes a tenth off P: far from the minimum the gap falls with P, and
        the relative one hardly.
        """
        helped = (gap <= self.gap / 2) | (primal <= 0.9 * self.primal)
        self.gap, self.primal = (torch.where(helped, *x) for x in ((gap, self.gap), (primal, self.primal)))
        self.idle = torch.where(helped, 0, self.idle + 1)
        self.factored = self.factored | (self.idle >= IDLE_STEPS)

    def gap_at_alpha(self) -> tuple[torch.Tensor, torch.Tensor]:
        """P - D, infinite where α is not in the domain of the dual, and P."""
        gap, primal = self.problem.gap(self.alpha, self.t)
        low, high = self.problem.loss.domain(self.problem.y)
        u = -self.alpha / self.problem.C
        return torch.where(((u < low) | (u > high)).any(0), torch.inf, gap), primal

    def slopes(self, along: torch.Tensor | float = 0.0) -> torch.Tensor:
        return self.problem.loss.derivative(self.problem.y, self.t + along)

    def curvatures(self) -> torch.Tensor:
        loss: SmoothLoss = self.problem.loss  # type: ignore[assignment]
        return self.problem.C * loss.curvature(self.problem.y, self.t)


class _Answers:
    """The best α̂ of every column, its gap, and what it took."""

    def __init__(self, labels: torch.Tensor):
        self.alpha, self.gaps = torch.zeros_like(labels), labels.new_full(labels.shape[1:], torch.inf)
        self.newton, self.steps, self.factors = torch.zeros(3, labels.shape[1], dtype=torch.int64)

    def see(self, number: torch.Tensor, candidate: torch.Tensor, gap: torch.Tensor) -> None:
        better = gap < self.gaps[number]
        self.alpha[:, number[better]], self.gaps[number[better]] = candidate[:, better], gap[better]

    def columns(self) -> list[SolvedColumn]:
        counts = zip(self.newton.tolist(), self.steps.tolist(), self.factors.tolist(), strict=True)
        return [
            SolvedColumn(alpha, gap, {"newton": newton, "iterations": steps, "factors": factors})
            for alpha, gap, (newton, steps, factors) in zip(self.alpha.T, self.gaps.tolist(), counts, strict=True)
        ]


def products(K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """KV for a symmetric K; vectors as rows are the faster way."""
    return (V.T.contiguous() @ K).T


def support(D: torch.Tensor) -> torch.Tensor:
    """A curvature that is rounding against the largest changes nothing, and 1/D would overflow."""
    return D / D.amax(0) > 1e-30


def conjugate_gradients(
    K: torch.Tensor, root: torch.Tensor, right: torch.Tensor, goal: torch.Tensor, most: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """w that leaves at most the goal, unless that takes more than ``most`` steps; the steps; ‖right - A w‖². By column.

    In the precision of K, with A's diagonal as the preconditioner; vectors are rows here, of length 1 at the beginning.
    """
    size = right.norm(dim=0).clamp_min(1e-300)
    w, steps, number = torch.zeros_like(right), torch.zeros_like(most), torch.arange(len(most))
    left = torch.zeros_like(goal)
    h, r, goal = root.T.to(K), (right / size).T.to(K), (goal / size**2).to(K)
    x, p, rz = torch.zeros_like(r), torch.zeros_like(r), torch.zeros_like(r[:, :1])
    gains = r.new_full((len(r), LATELY), torch.inf)
    while True:
        rr = (r**2).sum(1)
        enough = torch.minimum(rr, gains.sum(1)) <= goal[number]
        stop = enough | (steps[number] >= most[number])
        if bool(stop.any()):
            w[:, number[stop]] = x[stop].T.to(w) * size[number[stop]]
            left[number[stop]] = rr[stop].to(w) * size[number[stop]] ** 2
            h, r, x, p, rz, gains, number = (a[~stop] for a in (h, r, x, p, rz, gains, number))
            if not len(number):
                return w, steps, left
        z = r / (1 + h**2 * K.diagonal())
        new = (r * z).sum(1, keepdim=True)
        p = z + torch.where(rz > 0, new / rz, 0.0) * p
        q = p + h * ((h * p) @ K)
        a = new / (p * q).sum(1, keepdim=True)
        x, r, rz = x + a * p, r - a * q, new
        gains = torch.cat([gains[:, 1:], a * new], 1)
        steps[number] += 1


def _factored(K: torch.Tensor, rho: torch.Tensor, D: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """d with (I + DK) d = -ρ, and Kd, of one column."""
    F = support(D).nonzero()[:, 0]
    d = -rho
    if not len(F):
        return d, product(K, d)
    d[F] = 0
    Kd = product(K, d)
    solver, D_F = Cholesky(), D[F]
    K_FF = K if len(F) == len(rho) else K[F[:, None], F]
    right = -rho[F] / D_F - Kd[F]
    # the least-squares machine has n λ = Σ D · λ, which is to be 1
    d_F = torch.zeros_like(d)
    d_F[F] = solver.solve(solver.prepare(K_FF, D_F), right[:, None], 1 / float(D_F.sum())).alpha[:, 0]
    return d + d_F, Kd + product(K, d_F)


def _length(now: _Columns, d: torch.Tensor, Kd: torch.Tensor) -> torch.Tensor:
    """θ in [0, 1] where the slope (α + θd + C u(t + θKd))ᵀ Kd, which increases, vanishes; 1 if it is still negative."""

    def slope(theta: torch.Tensor) -> torch.Tensor:
        return ((now.alpha + theta * d + now.problem.C * now.slopes(theta * Kd)) * Kd).sum(0)

    low, high = torch.zeros_like(d[0]), torch.ones_like(d[0])
    first = slope(low)
    theta = torch.where(first < 0, high, low)
    value = slope(theta)
    open_ = (first < 0) & (value > 1e-3 * -first)
    for _ in range(40):
        if not bool(open_.any()):
            break
        low, high = torch.where(open_ & (value < 0), theta, low), torch.where(open_ & (value >= 0), theta, high)
        theta = torch.where(open_, (low + high) / 2, theta)
        value = slope(theta)
        open_ = open_ & (value.abs() > 1e-2 * -first)
    return theta
