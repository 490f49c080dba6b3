"""What the kernel's weights minimise: value and ∂J/∂K, exact, from one factorisation.

One of your own derives from :class:`Criterion` and is given to an optimiser, ``Adam(criterion=...)``.

With sample weights s, n = Σ s_i, c = nλ, A = K + c S⁻¹, G = A⁻¹ and α = G Y (one column per output), a
criterion that depends on K through α and G has

    ∂J/∂K = -½ (u αᵀ + α uᵀ) - G H G,      u = G ∂J/∂α,   H = ∂J/∂G (symmetric)
    ∂J/∂log λ = c Σ_i (∂J/∂K)_ii / s_i

    LeaveOneOut         J = (1/n) Σ s_i r_i²,   r_i = α_i / D_i,   D_i = G_ii / m_i + (1 - 1/m_i) s_i / c
                        ∂J/∂α_i = 2 s_i r_i / (n D_i),     H = diag(-2 s_i r_i² / (n m_i D_i)),
                        and ∂J/∂log λ has Σ 2 s_i r_i² (1 - 1/m_i) s_i / (n c D_i) more
    KFold               r_B = G_BB⁻¹ α_B for every fold B,   J as above
                        ∂J/∂α_B = g_B = (2/n) G_BB⁻¹ S_B r_B,     H_BB = -½ (g_B r_Bᵀ + r_B g_Bᵀ)
    HoldOut             α on D1, J = (1/n2) Σ_{D2} s_j (t_j - y_j)²,  t = K21 α,  e = ∂J/∂t
                        ∂J/∂K21 = e αᵀ,    ∂J/∂K11 = -½ (u αᵀ + α uᵀ),  u = G K12 e
    MarginalLikelihood  J = (1/2n) (yᵀ α + log det A),   ∂J/∂K = (1/2n) (G - α αᵀ), summed over outputs
    LogisticLeaveOneOut of classes, by one Newton step per row; see there

A row that was given m_i times stands for as many repetitions, and leave-one-out leaves one of them; m_i = 1 gives
r_i = α_i / G_ii. Several outputs share G; J is their sum. Factors, α and G are in double precision, whatever K is,
unless the criterion is asked for single precision, which is enough for a gradient (see :class:`LeaveOneOut`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import torch

from hgk.arrays import accelerated
from hgk.logistic import Expansion, log_losses, zero_or_one
from hgk.solvers.classes import ADJOINT, ADJOINT_OF_BATCH, GAP_OF_BATCH, solve_classes
from hgk.solvers.least_squares import cholesky
from hgk.storable import storable

Lam = float | torch.Tensor
# The smallest eigenvalue as a share of the largest possible one, n, from which a factor in single precision will do:
# the gradient is exact to some 10⁻³.
WELL_CONDITIONED = 3e-5
# The relative duality gap of a machine whose criterion is to be exact.
EXACT_GAP = 1e-12


@dataclass(frozen=True)
class Evaluation:
    """J, ∂J/∂K (symmetric) and ∂J/∂log λ; the numbers as tensors, so that nothing waits for a device."""

    value: torch.Tensor
    dK: torch.Tensor
    dlog_lam: torch.Tensor


class Criterion(ABC):
    """J as a function of K and λ; a dataclass that is :func:`hgk.storable.storable` can be kept in model files.

    Examples
    --------
    >>> K, Y = torch.eye(2, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)
    >>> round(float(LeaveOneOut()(K, Y, 0.5, torch.ones(2)).value), 9)  # here rows say nothing about each other
    1.0
    """

    @abstractmethod
    def __call__(
        self, K: torch.Tensor, Y: torch.Tensor, lam: Lam, s: torch.Tensor, count: torch.Tensor | None = None
    ) -> Evaluation:
        """J for labels ``Y``, sample weights ``s`` and rows that were given ``count`` times."""


@dataclass(frozen=True)
class Inverse:
    """G, α and what they came from; G may be in single precision."""

    G: torch.Tensor
    alpha: torch.Tensor
    Y: torch.Tensor
    s: torch.Tensor
    c: torch.Tensor

    @property
    def n(self) -> torch.Tensor:
        return self.s.sum()

    def gradient(self, value: torch.Tensor, dalpha: torch.Tensor, GHG: torch.Tensor) -> Evaluation:
        """The formula above for ∂J/∂K, in the precision of ``GHG``; -½ (u αᵀ + α uᵀ) is one product."""
        u, alpha = (self.G @ dalpha.to(self.G)).to(GHG), self.alpha.to(GHG)
        return self.evaluation(
            value, torch.addmm(GHG, torch.cat([u, alpha], 1), torch.cat([alpha, u], 1).T, beta=-1, alpha=-0.5)
        )

    def evaluation(self, value: torch.Tensor, dK: torch.Tensor) -> Evaluation:
        return Evaluation(value, dK, self.c * (dK.diagonal().double() / self.s).sum())


def invert(K: torch.Tensor, Y: torch.Tensor, lam: Lam, s: torch.Tensor, dtype=torch.float64) -> Inverse:
    """G = (K + nλ S⁻¹)⁻¹, in this precision, from Cholesky's factor.

    The factor is in double precision, unless G is not and the matrix is well conditioned; then it takes half the time.
    """
    Y, s = Y.double(), s.double()
    c = s.sum() * lam
    if dtype == torch.float32 and not accelerated(K) and float(c / s.max()) >= WELL_CONDITIONED * len(K):
        A = K.float() + torch.diag((c / s).float())
        L, info = torch.linalg.cholesky_ex(A)
        if int(info) == 0:
            return Inverse(torch.cholesky_inverse(L), torch.cholesky_solve(Y.float(), L).double(), Y, s, c)
    L, _ = cholesky(K, c / s, rounded=True)
    if accelerated(K):
        # L⁻¹ and a product are faster there than torch.cholesky_inverse
        M = torch.linalg.solve_triangular(L, torch.eye(len(L), dtype=L.dtype, device=L.device), upper=False)
        return Inverse((M.mT @ M).to(dtype), M.mT @ (M @ Y), Y, s, c)
    return Inverse(torch.cholesky_inverse(L.to(dtype)), torch.cholesky_solve(Y, L), Y, s, c)


def gram(A: torch.Tensor, strip: int = 128) -> torch.Tensor:
    """A Aᵀ, each entry computed once, by strips of rows; torch has no such product."""
    if accelerated(A):
        return A @ A.mT
    product = A.new_empty(len(A), len(A))
    for start in range(0, len(A), strip):
        stop = min(start + strip, len(A))
        part = A[start:stop] @ A[:stop].T
        product[start:stop, :stop] = part
        product[:start, start:stop] = part[:, :start].T
    return product


@storable
@dataclass(frozen=True)
class LeaveOneOut(Criterion):
    """The mean squared leave-one-out residual.

    With ``single`` the inverse and what is made of it are in single precision, which halves their time and changes the
    gradient less than another batch would; where the matrix is well conditioned, so is the factor. Below nλ = 10⁻³ it
    might change much, and double precision is taken.
    """

    single: bool = field(default=False, kw_only=True)

    def __call__(self, K, Y, lam, s, count=None):
        single = self.single and float(s.sum() * lam) >= 1e-3
        inverse = invert(K, Y, lam, s, torch.float32 if single else torch.float64)
        G, n, s, c = inverse.G, inverse.n, inverse.s[:, None], inverse.c
        m = torch.ones_like(s) if count is None else count.double()[:, None]
        others = (1 - 1 / m) * s / c  # what the other repetitions of a row hold on to
        D = G.diagonal()[:, None].double() / m + others
        r = inverse.alpha / D
        slope = 2 * s * r**2 / (n * D)  # -∂J/∂D
        # H = -diag(h), so G H G = -(G √h)(G √h)ᵀ
        root = (slope / m).sum(1).sqrt().to(G)
        without_others = inverse.gradient((s * r**2).sum() / n, 2 * s * r / (n * D), gram(G * root).neg_())
        return replace(without_others, dlog_lam=without_others.dlog_lam + (slope * others).sum())


@storable
@dataclass(frozen=True)
class KFold(Criterion):
    """The mean squared residual of rows that a machine trained without their fold leaves."""

    folds: tuple[torch.Tensor, ...]

    def __call__(self, K, Y, lam, s, count=None):
        inverse = invert(K, Y, lam, s)
        G, n, s = inverse.G, inverse.n, inverse.s[:, None]
        dalpha, GHG, value = torch.zeros_like(inverse.alpha), torch.zeros_like(G), torch.zeros_like(n)
        for B in self.folds:
            G_BB = G[B][:, B]
            r = torch.linalg.solve(G_BB, inverse.alpha[B])
            g = torch.linalg.solve(G_BB, 2 * s[B] * r / n)
            value = value + (s[B] * r**2).sum() / n
            dalpha[B] = g
            half = (G[:, B] @ g) @ (G[:, B] @ r).T
            GHG -= 0.5 * (half + half.T)
        return inverse.gradient(value, dalpha, GHG)


@storable
@dataclass(frozen=True)
class HoldOut(Criterion):
    """The paper's objective with the gradient taken through α: trained on D1, judged on D2."""

    D1: torch.Tensor
    D2: torch.Tensor

    def __call__(self, K, Y, lam, s, count=None):
        D1, D2 = self.D1, self.D2
        K = K.double()
        inverse = invert(K[D1][:, D1], Y[D1], lam, s[D1])
        K21, s2 = K[D2][:, D1], s[D2].double()[:, None]
        residual = K21 @ inverse.alpha - Y[D2].double()
        e = 2 * s2 * residual / s2.sum()
        within = inverse.gradient((s2 * residual**2).sum() / s2.sum(), K21.T @ e, torch.zeros_like(inverse.G))
        dK = torch.zeros_like(K)
        dK[D1[:, None], D1] = within.dK
        half = 0.5 * e @ inverse.alpha.T
        dK[D2[:, None], D1] = half
        dK[D1[:, None], D2] = half.T
        return Evaluation(within.value, dK, within.dlog_lam)


@storable
@dataclass(frozen=True)
class MarginalLikelihood(Criterion):
    """The negative log marginal likelihood of a Gaussian process with noise c S⁻¹, per row."""

    def __call__(self, K, Y, lam, s, count=None):
        inverse = invert(K, Y, lam, s)
        n, outputs = inverse.n, Y.shape[1]
        log_det = -torch.linalg.slogdet(inverse.G)[1]
        value = ((inverse.Y * inverse.alpha).sum() + outputs * log_det) / (2 * n)
        return inverse.evaluation(value, (outputs * inverse.G - inverse.alpha @ inverse.alpha.T) / (2 * n))


@storable
@dataclass(frozen=True)
class LogisticLeaveOneOut(Criterion):
    """The mean logistic loss of classes at f^(-i)(x_i), to one Newton step (:mod:`hgk.solvers.classes`).

    Labels are ±1, one column per class (one for two classes). With u_i = f^(-i)(x_i) as it is there, C_i = s_i / (2nλ),
    D = C ω, H = (I + D^½ K D^½)⁻¹, a_i = (1 - H_ii) / m_i and τ = a / (1 - a),

        J = (1/n) Σ s_i L(u_i)           g_i = ∂J/∂u_i = s_i (p(u_i) - y_i) / n
        κ_i = ∂J/∂H_ii = g_iᵀ r_i / (m_i ω_i (1 - a_i)²)
        ∂J/∂ω_i = (τ_i / ω_i²) g_iᵀ r_i + (((H ∘ H) κ)_i - κ_i H_ii) / ω_i
        e_i = ∂J/∂f_i = g_i + (τ_i / ω_i) W_i g_i + ∂J/∂ω_i ∂ω_i/∂f_i            v = (I + C W K)⁻¹ e

        ∂J/∂K = ½ (v αᵀ + α vᵀ) - D^½ H diag(κ) H D^½
        ∂J/∂log λ = Σ κ_i (H_ii - (H²)_ii) - Σ v_iᵀ f_i

    With ``single`` H and what is made of it are in single precision.
    """

    single: bool = field(default=False, kw_only=True)

    def __call__(self, K, Y, lam, s, count=None):
        if not bool((Y.abs() == 1).all()):
            raise ValueError(
                "LogisticLeaveOneOut was given labels other than -1 and 1; it is for classes, so use HGKClassifier."
            )
        y, weight = zero_or_one(Y), s.double()[:, None]
        m, n = torch.ones_like(weight) if count is None else count.double()[:, None], weight.sum()
        solution = solve_classes(K, y, s, float(lam), tol=GAP_OF_BATCH if self.single else EXACT_GAP)
        at, root, alpha = solution.at, solution.root, solution.alpha
        H = solution.inverse(torch.float32 if self.single else torch.float64)
        diagonal = H.diagonal()[:, None].double()
        a = (1 - diagonal) / m
        u = solution.left_out(diagonal[:, 0], m[:, 0])
        g = -weight * Expansion(u, y).r / n
        along, omega, tau = (g * at.r).sum(1, keepdim=True), at.omega, a / (1 - a)
        kappa = along / (m * omega * (1 - a) ** 2)
        squares = H**2
        by_omega = tau / omega**2 * along + ((squares @ kappa.to(H)).double() - kappa * diagonal) / omega
        e = g + tau / omega * at.curved(g) + by_omega * at.omega_slope
        v = solution.adjoint(e, ADJOINT_OF_BATCH if self.single else ADJOINT)
        rooted = root.to(H) * H
        pushed, pulled = ((sign * kappa).clamp_min(0).sqrt().T.to(H) for sign in (-1, 1))
        dK = gram(rooted * pushed)
        dK -= gram(rooted * pulled) if bool(pulled.any()) else 0.0
        dK.addmm_(torch.cat([v, alpha], 1).to(dK), torch.cat([alpha, v], 1).T.to(dK), alpha=0.5)
        by_lam = (kappa * (diagonal - squares.sum(1, keepdim=True).double())).sum() - (v * solution.f).sum()
        return Evaluation((weight[:, 0] * log_losses(u, y)).sum() / n, dK, by_lam)
