"""The paper's objective: the risk on D2 as a function of the weights, α, λ and γ held fixed.

R(W) = (1/n2) Σ_{j∈D2} s_j L(y_j, clip(t_j)),        t = K21 α,  K21 = k_{W,γ}(X2, X1)

∂R/∂K21 = g αᵀ,     g_j = (s_j / n2) ∂L/∂t(y_j, t_j) where |t_j| < M, else 0

L is (y - t)², or the loss of the problem, whose levels lie in main memory. Several outputs are added.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch

from hgk.arrays import in_loads
from hgk.executor import Request
from hgk.kernels import HierarchicalKernel, Weights, compiled
from hgk.kernels.sweeps.compiled.chains import Chain, Chains
from hgk.machines import Rows
from hgk.search import Problem


@dataclass(frozen=True, eq=False)
class Objective:
    """R(W) and its gradient for coefficients ``alpha`` on ``X1``; the rows' labels are columns of the problem."""

    kernel: HierarchicalKernel
    X1: torch.Tensor
    alpha: torch.Tensor
    D2: Rows
    problem: Problem

    def losses(self, t: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Of every row."""
        return self.problem.losses(rows.Y, t).sum(1)

    def risk_of(self, t: torch.Tensor, rows: Rows | None = None) -> float:
        rows = self.D2 if rows is None else rows
        return float((self.losses(t, rows) * rows.weight).sum() / rows.weight.sum())

    def risk(self, W: Weights, rows: Rows | None = None) -> float:
        """R(W), on D2 or on other rows."""
        rows = self.D2 if rows is None else rows
        return self.risk_of(self.kernel.with_weights(W).multiply(rows.X, self.X1, self.alpha), rows)

    def gradient(self, W: Weights) -> tuple[float, Weights]:
        """R(W) and ∂R/∂W."""
        kernel = self.kernel.with_weights(W)
        t = kernel.multiply(self.D2.X, self.X1, self.alpha)
        g = self.problem.slopes(self.D2.Y, t) * (self.D2.weight / self.D2.weight.sum())[:, None]
        return self.risk_of(t), kernel.backward(g @ self.alpha.T, self.D2.X, self.X1)

    # ------------------------------------------------------------------------------ side by side with others

    @property
    def fits(self) -> bool:
        """Whether the fused kernels take it: smooth nodes in one or two layers, one output, least squares."""
        suited = compiled.suits_chains(self.kernel.architecture, self.X1)
        return suited and self.alpha.shape[1] == 1 and self.problem.exact

    def chain(self, W: Weights, rows: Rows | None = None) -> Chain:
        """The same for the fused kernels: R at W, on D2 or on other rows."""
        rows, kernel = self.D2 if rows is None else rows, self.kernel
        data = rows.X, self.X1, self.alpha.reshape(-1), rows.Y.reshape(-1), rows.weight
        return Chain(kernel.architecture, W, *data, kernel.gamma, self.problem.clip)


class OnObjective(Request):
    """Something to be done with an objective; on an accelerator those that the fused kernels take go together."""

    objective: Objective
    rows: Rows | None = None  # its own, in place of D2
    held: ClassVar[int] = 0  # blocks of all pairs that the fused kernels keep for it

    @property
    def fits(self) -> bool:
        """Whether the fused kernels take it."""
        return self.objective.fits

    @abstractmethod
    def plainly(self) -> Any:
        """What comes of it without them."""

    @classmethod
    @abstractmethod
    def chained(cls, requests: Sequence[Any]) -> Sequence[Any]:
        """What comes of several by them."""

    def alone(self):
        return self.together([self])[0]

    @classmethod
    def together(cls, requests):
        done: dict[int, Any] = {}
        for load in loads([request for request in requests if request.fits], cls.held):
            done |= zip(map(id, load), cls.chained(load), strict=True)
        return [done[id(request)] if id(request) in done else request.plainly() for request in requests]


def loads(requests: Sequence[OnObjective], held: int) -> list[list[OnObjective]]:
    """Those that go together: alike, and their ``held`` blocks take half of the free memory."""
    alike: dict[tuple, list[OnObjective]] = {}
    for request in requests:
        X = request.objective.X1
        alike.setdefault((X.device, X.dtype, X.shape[1]), []).append(request)
    need = partial(_bytes, held)
    return [load for group in alike.values() for load in in_loads(group, need, group[0].objective.X1.device)]


def _bytes(held: int, request: OnObjective) -> float:
    """Of its blocks, and of the rows, which are copied thrice."""
    X1 = request.objective.X1
    n1, n2 = len(X1), len(request.objective.D2 if request.rows is None else request.rows)
    return (held * n2 * n1 + 3 * (n1 + n2) * X1.shape[1]) * X1.dtype.itemsize


@dataclass(frozen=True, eq=False)
class Risk(OnObjective):
    """R(W), on D2 or on other rows."""

    objective: Objective
    W: Weights
    rows: Rows | None = None

    def plainly(self) -> float:
        return self.objective.risk(self.W, self.rows)

    @classmethod
    def chained(cls, requests):
        return Chains([request.objective.chain(request.W, request.rows) for request in requests]).risks()
