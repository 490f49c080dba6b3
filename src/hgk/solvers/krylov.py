"""Held-out predictions of all folds and all λ from shared Krylov spaces.

Fold b is the machine with weights s restricted to its training rows, m_b = √s · 1[train]:

    (M_b K M_b + c_b I) β_b = m_b y,        c_b = n_b λ,        f_b = K (m_b β_b).

Lanczos' method for M_b K M_b started at m_b y does not depend on λ: after j products with K it holds
the coefficients of a tridiagonal T_j, and conjugate gradients for *every* shift c follow by scalar
recurrences (the LDLᵀ pivots of T_j + cI). One product K·Q with one column per (fold, output) therefore
serves all folds and all λ, and its rows outside the training part are exactly what the held-out
predictions are made of; β itself is never formed.

With pivots δ_j, off-diagonals τ_j of T, and u_j the held-out rows of K (m q_j):

    δ_j = a_j + c - τ_j²/δ_{j-1},    ζ_j = -ζ_{j-1} τ_j/δ_{j-1},    p_j = u_j - (τ_j/δ_{j-1}) p_{j-1},
    f_j = f_{j-1} + (ζ_j/δ_j) p_j.

Every new vector is made orthogonal to all earlier ones. In exact arithmetic it is so already; in single
precision the loss of orthogonality would cost several times the steps.

Small shifts converge slowly, and most of them need not: a machine that is still moving has at least the
freedom of the resolved ones with larger λ. The loop ends when no unresolved λ has a smaller risk than the
best resolved one, or when all are resolved; unresolved λ are reported as such and must not be chosen.
A risk known from another width ends the loop sooner: when even a hundred times the fall of the last tenth of
the steps would not bring an unresolved λ below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hgk.arrays import accelerated, available_memory, recorded
from hgk.losses import Loss
from hgk.solvers.base import SQUARED, Solution, Solver, Status

# Elements of the Krylov basis: many outputs and rows get fewer steps, and so fewer resolved λ.
BASIS = 2**28
# Products with K at most.
MOST_PRODUCTS = 1000
# Vectors that a recorded basis has room for at first.
FIRST_ROOM = 128


@dataclass(frozen=True)
class FoldRisks:
    """Held-out predictions for every width and λ, and what they cost."""

    predictions: torch.Tensor  # (g, l, n, k); meaningless for rows that are never held out
    risks: torch.Tensor  # (g, l): mean squared error of the clipped predictions, summed over outputs
    resolved: torch.Tensor  # (g, l): whether the risk is final
    steps: int  # products with K


@dataclass(frozen=True)
class KrylovState:
    """Matrices (g, n, n), and whether there was one alone; the fold of each row, and its weight."""

    K: torch.Tensor
    alone: bool
    fold_of: torch.Tensor
    weight: torch.Tensor


@dataclass(frozen=True)
class Krylov(Solver):
    """All folds and all λ from shared Krylov spaces, one for each fold and output.

    Parameters
    ----------
    tol : float
        A λ is resolved when, over the last tenth of the steps, its held-out predictions moved by less
        than ``tol`` times their residuals, in the quadratic mean: its risk then stands to about 2·tol,
        far within the risk's own sampling error of √(2/n).
    max_steps : int
        Products with K at most.

    Examples
    --------
    >>> x = torch.linspace(-3, 3, 60, dtype=torch.float64)
    >>> K, Y = torch.exp(-((x[:, None] - x) ** 2)), torch.sin(x)[:, None]
    >>> solver = Krylov()
    >>> state = solver.prepare(K, fold_of=torch.arange(60) % 5)
    >>> solution = solver.solve(state, Y, torch.logspace(0, -3, 4), complete=True)
    >>> int(solution.risks.argmin()), solution.predictions.shape
    (3, torch.Size([4, 60, 1]))
    """

    tol: float = 1e-3
    max_steps: int = MOST_PRODUCTS

    needs = ("quadratic",)
    held_out = True
    most_outputs = 3

    def prepare(
        self, K: torch.Tensor, sample_weight: torch.Tensor | None = None, fold_of: torch.Tensor | None = None
    ) -> KrylovState:
        """One matrix (n, n), or (g, n, n), one for each width.

        ``fold_of`` is the fold 0, 1, … that each row is held out in, -1 for rows that every machine is trained on;
        where it is not given, every row is a fold. The matrices may belong to different problems: folds, weights,
        labels and λ then have a leading axis g, too. A problem with fewer rows is filled up by rows of K, and weights,
        that are zero.
        """
        fold_of = torch.arange(K.shape[-1], device=K.device) if fold_of is None else fold_of
        weight = K.new_ones(fold_of.shape) if sample_weight is None else sample_weight.to(K)
        return KrylovState(K[None] if K.dim() == 2 else K, K.dim() == 2, fold_of, weight)

    def solve(
        self,
        state: KrylovState,
        Y: torch.Tensor,
        lam: torch.Tensor,
        loss: Loss = SQUARED,
        start: Solution | None = None,
        *,
        clip: float = math.inf,
        complete: bool = False,
        near: float | None = None,
        known: float | torch.Tensor = math.inf,
    ) -> Solution:
        """Risks and clipped predictions at all λ ``lam``.

        Every λ is resolved if ``complete``; else those that may be the best one. ``known`` is the smallest risk that
        another width has reached, a number or one for each matrix. ``near`` is for
        :class:`~hgk.solvers.CholeskyPath`.
        """
        self.check(loss)
        lams = torch.as_tensor(lam, device=state.K.device)
        folds = _Lanczos(state, Y, lams, clip).run(self.tol, self.max_steps, complete, known)
        status = Status.SOLVED if bool(folds.resolved.any(-1).all()) else Status.UNRESOLVED
        risks = folds.risks.double().masked_fill(~folds.resolved, math.inf)
        predictions = folds.predictions.clamp(-clip, clip)
        if state.alone:
            risks, predictions = risks[0], predictions[0]
        return Solution(status=status, stats={"steps": folds.steps}, risks=risks, predictions=predictions)


class _Lanczos:
    """State of the recurrences. Vectors are rows, (g, F·k, n): products with K are fastest so.

    What all widths share has a leading axis of length 1.
    """

    def __init__(self, state: KrylovState, Y: torch.Tensor, lams: torch.Tensor, clip: float):
        K, fold_of, s = state.K, state.fold_of, state.weight
        if Y.dim() == 2:
            Y, fold_of, lams, s = Y[None], fold_of[None], lams[None], s[None]
        k, F = Y.shape[2], int(fold_of.max()) + 1
        train = fold_of[:, None, :] != torch.arange(F, device=K.device)[:, None]
        self.K, self.Y = K, Y.mT.to(K)
        held_out = s * (fold_of >= 0)
        self.share, self.clip = (held_out / held_out.sum(1, keepdim=True))[:, None, None], clip
        self.m = (s.sqrt()[:, None] * train).repeat_interleave(k, 1)  # (1 or g, F·k, n)
        # rows at the end that no machine is trained on, such as those of a single held-out fold, need no column of K
        trained = self.m.any(1).any(0).nonzero()
        self.columns = int(trained.max()) + 1 if len(trained) else 0
        # the row of Q for every output and row, (1 or g, k, n)
        self.vector_of = fold_of.clamp_min(0)[:, None, :] * k + torch.arange(k, device=K.device)[:, None]
        # c_b = n_b λ, as (1 or g, l, F·k)
        self.shift = lams.to(K)[:, :, None] * (s[:, None] * train).sum(2).repeat_interleave(k, 1)[:, None]
        self.shift.clamp_min_(1e-30)  # a λ that is 0 in single precision would divide 0 by 0

    def run(self, tol: float, max_steps: int, complete: bool, known: float | torch.Tensor) -> FoldRisks:
        eps = torch.finfo(self.K.dtype).eps
        max_steps = min(max_steps, max(50, self._room() // (len(self.K) * self.m[0].numel())))
        q = (self.m * self.Y.repeat(1, self.m.shape[1] // self.Y.shape[1], 1)).expand(len(self.K), -1, -1)
        zeta = q.norm(dim=2)[:, None]
        q = q / zeta.clamp_min(eps).transpose(1, 2)
        tau = zeta.new_zeros(zeta.shape[0], zeta.shape[2])
        f = self.K.new_zeros(len(self.K), self.shift.shape[1], *self.Y.shape[1:])
        state = _State(q, torch.zeros_like(q), tau, torch.zeros_like(tau), zeta, torch.zeros_like(f[..., 0, :1]), f, f)
        checked, check, risks = f, 8, f.new_full(f.shape[:2], math.inf)
        steps = _Recorded(self, state, max_steps) if accelerated(q) else _Steps(self, state)
        for step in range(1, max_steps + 1):
            steps.make()
            if step in (check, max_steps):
                f, last = steps.state.f.clone(), risks
                risks, resolved = self._risks(f, f - checked, tol)
                if bool(resolved.all()) or (not complete and self._settled(risks, resolved, last, known)):
                    break
                checked, check = f, step + max(4, step // 8)
        return FoldRisks(f.transpose(2, 3), risks, resolved, step)

    def _room(self) -> int:
        """Elements of the basis; on an accelerator half of what is free, as it is copied once when it grows."""
        if not accelerated(self.K):
            return BASIS
        return available_memory(self.K.device) // (2 * self.K.dtype.itemsize)

    def step(self, state: _State, basis: _Basis) -> _State:
        """The recurrences above."""
        q, before, tau, size, zeta, pivot, p, f = state
        w = self._product(q * self.m)  # K (m q), all rows
        u = w.gather(1, self.vector_of.expand(len(w), -1, -1))[:, None]  # the held-out ones
        v = w * self.m
        a = (v * q).sum(2)
        if basis.size == 0:
            pivot, p = a[:, None] + self.shift, u.expand_as(f)
        else:
            ratio = tau[:, None] / pivot
            pivot, zeta = a[:, None] + self.shift - ratio * tau[:, None], -zeta * ratio
            p = torch.addcmul(u, self._rows(ratio), p, value=-1)
        f = torch.addcmul(f, self._rows(zeta / pivot), p)
        v = basis.orthogonalise(v - a[..., None] * q - tau[..., None] * before, q)
        tau = v.norm(dim=2)
        size = torch.maximum(size, a.abs() + tau)
        eps = torch.finfo(q.dtype).eps
        tau = tau * (tau > 10 * eps * size)  # 0: the Krylov space is exhausted, and q = 0 from here on
        return _State(v * torch.where(tau > 0, 1 / tau, 0.0)[..., None], q, tau, size, zeta, pivot, p, f)

    def _product(self, V: torch.Tensor) -> torch.Tensor:
        """K·Vᵀ, transposed; for large n one product per width is faster on processors."""
        K, V = self.K[:, :, : self.columns], V[:, :, : self.columns]
        if self.K.shape[1] < 500 or (len(K) > 10 and accelerated(V)):
            return torch.bmm(K, V.transpose(1, 2)).transpose(1, 2)
        return torch.stack([(k @ v.T).T for k, v in zip(K, V, strict=True)])

    def _rows(self, coefficient: torch.Tensor) -> torch.Tensor:
        """(g, l, F·k) -> (g, l, k, n): the coefficient of the fold in which each row is held out."""
        g, many = coefficient.shape[:2]
        index = self.vector_of.reshape(len(self.vector_of), 1, -1).expand(g, many, -1)
        return coefficient.gather(2, index).view(g, many, *self.vector_of.shape[1:])

    def _mean(self, values: torch.Tensor) -> torch.Tensor:
        """Over the held-out rows of (g, l, k, n), summed over outputs."""
        return (values * self.share).sum((-2, -1))

    def _risks(self, f: torch.Tensor, moved: torch.Tensor, tol: float) -> tuple[torch.Tensor, torch.Tensor]:
        risks = self._mean((f.clamp(-self.clip, self.clip) - self.Y[:, None]) ** 2)
        floor = torch.finfo(f.dtype).eps * self._mean(self.Y[:, None] ** 2)
        return risks, self._mean(moved**2) <= tol**2 * risks + floor

    def _settled(self, risks: torch.Tensor, resolved: torch.Tensor, last: torch.Tensor, known) -> bool:
        best = risks.masked_fill(~resolved, math.inf).amin(1, keepdim=True)
        known = torch.as_tensor(known, dtype=risks.dtype, device=risks.device).reshape(-1, 1)
        hopeless = risks - 100 * (last - risks).abs() > known
        return bool((resolved | (risks >= best) | hopeless).all())


class _State(NamedTuple):
    q: torch.Tensor
    before: torch.Tensor
    tau: torch.Tensor
    size: torch.Tensor
    zeta: torch.Tensor
    pivot: torch.Tensor
    p: torch.Tensor
    f: torch.Tensor


class _Steps:
    """One step after the other."""

    def __init__(self, lanczos: _Lanczos, state: _State):
        self.lanczos, self.state, self.basis = lanczos, state, _Basis(state.q)

    def make(self) -> None:
        self.state = self.lanczos.step(self.state, self.basis)


class _Recorded(_Steps):
    """On an accelerator: the thirty small operations of a step are launched as one graph.

    State and basis keep their place in memory, so the basis has its full size, filled up by zeros; when it is full, it
    is doubled and the step recorded again.
    """

    def __init__(self, lanczos: _Lanczos, state: _State, max_steps: int):
        super().__init__(lanczos, state)
        self.launch: Callable[[], None] | None = None
        self.max_steps = max_steps

    def make(self) -> None:
        if self.basis.size < 2:  # the first is different, the second loads what is needed
            return super().make()
        if self.launch is None or self.basis.size == self.basis.vectors.shape[2]:
            self.basis = _Fixed(self.basis, min(max(FIRST_ROOM, 2 * self.basis.size), self.max_steps))
            self.state = _State(*(part.clone() for part in self.state))
            self.launch = recorded([self._in_place], self.state.q.device)
        self.launch()
        self.basis.size += 1
        return None

    def _in_place(self) -> None:
        after = self.lanczos.step(self.state, self.basis)
        for now, then in reversed(list(zip(self.state, after, strict=True))):  # before is q: it comes first
            now.copy_(then)


class _Basis:
    """The Lanczos vectors so far, (g, F·k, j, n), in memory that doubles as it fills."""

    def __init__(self, q: torch.Tensor):
        self.vectors, self.size = q.new_empty(*q.shape[:2], 32, q.shape[2]), 0  # how many there are

    def orthogonalise(self, v: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """Append q; return v less its components along the basis."""
        if self.size == self.vectors.shape[2]:
            self.vectors = torch.cat([self.vectors, torch.empty_like(self.vectors)], 2)
        self.vectors[:, :, self.size] = q
        self.size += 1
        B = self.vectors[:, :, : self.size]
        return v - (B.transpose(2, 3) @ (B @ v[..., None]))[..., 0]


class _Fixed(_Basis):
    """A basis whose operations do not depend on how full it is; the number of vectors lies on the device."""

    def __init__(self, basis: _Basis, room: int):
        j, old = basis.size, basis.vectors
        self.vectors = old.new_zeros(*old.shape[:2], room, old.shape[3])
        self.vectors[:, :, :j], self.size = old[:, :, :j], j
        self.place = torch.full((1,), j, dtype=torch.int64, device=old.device)

    def orthogonalise(self, v: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        B = self.vectors.index_copy_(2, self.place, q[:, :, None])
        self.place += 1
        return v - (B.mT @ (B @ v[..., None]))[..., 0]
