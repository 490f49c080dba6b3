"""What every solver of the machine promises.

The machine, for a kernel matrix K, labels y, sample weights s (1 where not given) and n = Σ s_i:

    min_f  λ‖f‖² + (1/n) Σ s_i L(y_i, f(x_i)),        f = Σ_i α_i k(x_i, ·),  no offset.

``prepare`` does what depends on K alone, once; ``solve`` is then called for many λ and labels. Solvers
receive matrices, never kernels, and return what happened instead of warning or printing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import torch


class Status(Enum):
    """How a solve ended, as a sentence."""

    SOLVED = "Solved to the precision of the arithmetic."
    RIDGE_ADDED = (
        "The matrix K + nλI was numerically singular; a small multiple of the identity was added and is "
        "reported in stats['ridge_added']."
    )
    GAP_LEFT = (
        "The duality gap did not fall to the tolerance; what is left of it, relative to the objective, is reported in "
        "stats['gap']: a larger λ, a larger tolerance or more steps would help."
    )


@dataclass(frozen=True)
class Solution:
    """Coefficients, how the solve ended, and figures about it; residuals of held-out rows where asked for."""

    alpha: torch.Tensor
    status: Status = Status.SOLVED
    stats: dict[str, Any] = field(default_factory=dict)
    residuals: torch.Tensor | None = None


class Solver(Protocol):
    """prepare(K) once, solve(state, Y, lam) many times. ``Y`` has one column per output."""

    def prepare(self, K: torch.Tensor, sample_weight: torch.Tensor | None = None) -> Any: ...

    def solve(self, state: Any, Y: torch.Tensor, lam: float) -> Solution: ...


def check_lam(lam: float) -> float:
    """λ, if it is one."""
    if not (lam >= 0 and lam < float("inf")):
        raise ValueError(f"lam={lam} was given; the regularisation must be a finite number >= 0 (try 1e-3).")
    return float(lam)
