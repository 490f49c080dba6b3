"""What every machine is: a function f = Σ_j α_j k(x_j, ·), and what is known of it at rows that it was trained on.

exact       least squares on all rows, or the mean of such machines on parts of them
centres     least squares over the span of some of the rows
leaves      least squares on every leaf of a partition, with a kernel of its own
            leaves_of_classes: the logistic loss of classes; leaves_of_loss: any convex loss
of_classes  the logistic loss of classes
of_loss     any convex loss, the mean of machines that were trained without one fold each
mean        the mean of machines that have a kernel each
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from hgk.arrays import row_blocks
from hgk.kernels import HierarchicalKernel, Kernel
from hgk.kernels.sweeps import processor
from hgk.kernels.sweeps.processor import LoopSweep
from hgk.machines.rows import Rows
from hgk.storable import expect, real

# Rows from which predictions are computed in single precision (with fewer, it takes longer to load the loops than to do
# without), rows at which its rounding is measured, and how large that may be: in the unit of labels, and as a share of
# the noise.
ROUNDED_FROM, ROUNDING_AT = 1000, 32
LARGEST_ROUNDING, SHARE_OF_NOISE = 1e-4, 0.03
# Rows from which means over rows are computed by the loops, and the rounding of f that these do not show.
LOOPS_FROM, COARSE = 100, 1e-3
# Features up to which there is room for squares times weights in single precision.
LARGEST_SINGLE = torch.finfo(torch.float32).max ** 0.25
# From rows x to f^(-i)(x), (outputs, x, i).
Elsewhere = Callable[[torch.Tensor], torch.Tensor]
# From rows x, and for each the place in ``index`` of the row i that it does without, to f^(-i)(x), (x, outputs).
WithoutOwn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# A share of f, and the kernel, rows and coefficients that it sums over.
Term = tuple[float, HierarchicalKernel, torch.Tensor, torch.Tensor]


class Machine(ABC):
    """A trained function. Its values are not clipped; whoever predicts with it clips them to ±``clip``.

    Attributes
    ----------
    kernel : HierarchicalKernel or MeanKernel
    lam : float
    X : tensor of shape (rows, features)
        The rows that are summed over.
    alpha : tensor of shape (rows, outputs)
    clip : float
        Labels lie in [-1, 1].
    ridge_added : float
        What had to be added to the diagonal of a kernel matrix that was numerically singular.
    gap : float
        The largest relative duality gap that is left, where it is more than was wanted, else 0.
    held_out : tensor of shape (rows, outputs) or None
        Predictions of the training rows by machines that have not seen them, where they were kept; NaN for rows that
        all have seen. None where functions without single rows are exact, see :meth:`without_one`.
    aside : tensor of shape (rows,) or None
        The share of each row's repetitions that were kept from learning the kernel, too; given with ``held_out``.
    """

    kernel: Kernel
    lam: float
    rounded_from: ClassVar[int] = ROUNDED_FROM

    X: torch.Tensor
    alpha: torch.Tensor
    ridge_added: float = 0.0
    gap: float = 0.0
    held_out: torch.Tensor | None = None
    aside: torch.Tensor | None = None

    @property
    def clip(self) -> float:
        return 1.0

    @property
    def outputs(self) -> int:
        return self.alpha.shape[-1]

    @property
    def lams(self) -> tuple[float, ...]:
        """λ of every output."""
        return (self.lam,) * self.outputs

    @property
    def terms(self) -> list[Term]:
        """f = Σ p Σ_j α_j k(x_j, ·) over these (p, k, x, α); in leaves, k is what theirs have come from."""
        return [(share, kernel, self.X, self.alpha) for share, kernel in self.kernel.terms]

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        wanted = X.device.type == "cpu" and len(self.X) >= self.rounded_from
        known = wanted and all(processor.takes(kernel.architecture) for _, kernel in self.kernel.terms)
        # until the loops have been compiled nobody waits for them; squares of what is too large are no numbers there
        fits = known and processor.at_hand() and not bool((X.abs() > LARGEST_SINGLE).any())
        if not fits or self.in_single is None:
            return self.kernel.multiply(X, self.X, self.alpha)
        return self._rounded(self.in_single, X)

    def _rounded(self, sweeps: list[tuple[float, LoopSweep]], X: torch.Tensor) -> torch.Tensor:
        x = X.float()
        return sum(share * sweep.on(x).multiply(self.alpha) for share, sweep in sweeps).to(X)  # type: ignore[union-attr]

    @cached_property
    def in_single(self) -> list[tuple[float, LoopSweep]] | None:
        """What the compiled loops need of the rows, kernel by kernel, where single precision predicts as well.

        That is where rounding, measured at some of the rows, is a small part of the noise that the machine assumes,
        whose standard deviation is √(nλ) for a function of variance 1, and hardly shows among labels in [-1, 1]. (Of a
        machine on fewer rows than it was trained on, √(nλ) with its own rows is less than that, and double precision is
        taken sooner.)
        """
        X, some = self.X.float(), self.X[:: max(1, len(self.X) // ROUNDING_AT)]
        sweeps = [(share, LoopSweep(kernel, X[:0], X)) for share, kernel in self.kernel.terms]
        difference = self._rounded(sweeps, some) - self.kernel.multiply(some, self.X, self.alpha)
        noise = math.sqrt(len(self.X) * min(self.lams))
        good = float(difference.pow(2).mean().sqrt()) <= min(LARGEST_ROUNDING, SHARE_OF_NOISE * noise)
        return sweeps if good else None

    def similarities(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """α_j k(x_j, x), (x, outputs, j), which sum to f(x), and k(x_j, x), (x, j), for all rows j of the machine."""
        K = self.kernel.matrix(X, self.X)
        return self.alpha.T[None] * K[:, None, :], K

    def kernel_at(self, x: torch.Tensor) -> HierarchicalKernel:
        """The kernel that tells what stands between x and rows of the machine; of a mean, the first."""
        return self.kernel.terms[0][1]

    def shares(self, X: torch.Tensor) -> np.ndarray:
        """Which part of the exponent each first-layer node and feature carries on pairs of rows; sums to 1.

        The nodes of all ``terms``, one below the other.
        """
        return self.kernel.shares(X)

    @abstractmethod
    def without_one(self, rows: Rows, index: torch.Tensor) -> tuple[torch.Tensor, Elsewhere]:
        """f^(-i)(x_i) for the training rows i of ``index``, and a function that gives f^(-i)(x) for rows x.

        Of shapes (i, outputs) and (outputs, x, i); ``rows`` are those the machine was trained on. Kernel, λ
        and, where there are any, centres stay fixed. What is costly is done once, whatever x.
        """

    def without_own(self, rows: Rows, index: torch.Tensor, coarse: bool = False) -> WithoutOwn:
        """A function that gives f^(-i)(x) for rows x that have a training row i of ``index`` each, (x, outputs).

        As :meth:`without_one`, which gives all x for all i, where few of these pairs are asked for. ``coarse`` allows
        roundings of f that means over many rows do not show.
        """
        _, elsewhere = self.without_one(rows, index)

        def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            parts = row_blocks(len(X), self.outputs * len(index))
            return torch.cat([elsewhere(X[part])[:, torch.arange(len(X[part])), place[part]].T for part in parts])

        return own

    def leave_one_out(self, rows: Rows) -> torch.Tensor:
        """f^(-i)(x_i) for all training rows."""
        return self.without_one(rows, torch.arange(len(rows)))[0]

    @abstractmethod
    def leave_two_out(self, rows: Rows, index: torch.Tensor) -> torch.Tensor:
        """f^(-i,-j)(x_i), the function without rows i and j at row i, for the training rows i, j of ``index``.

        Of shape (outputs, i, j); where i = j it is f^(-i)(x_i).
        """

    @abstractmethod
    def to(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Machine:
        """The machine there; ``dtype`` is that of its rows."""

    def parts_of(self) -> list[Machine]:
        """The machines that it is the mean of; itself unless said otherwise."""
        return [self]

    def compact(self) -> Machine:
        """Without what only functions without single rows need."""
        return self

    def gathered(self, pieces: Rows, origin: torch.Tensor, rows: int) -> Machine:
        """The same function on the distinct rows that the ``pieces`` it was trained on are of."""
        return self

    def check(self, features: int, rows: Rows | None) -> None:
        """Raise Malformed unless everything fits; ``rows`` are the training rows, None in a compact file."""
        check_sum(self, features)


def check_sum(machine: Machine, features: int) -> None:
    X, alpha = machine.X, machine.alpha
    expect(X.ndim == alpha.ndim == 2 and len(X) == len(alpha) > 0, "a machine's rows and coefficients differ in number")
    expect(alpha.shape[1] > 0, "a machine has no output")
    expect(X.shape[1] == features == machine.kernel.d, "a machine's rows do not fit its kernel")
    expect(X.dtype in (torch.float64, torch.float32), "a machine's rows are not numbers")
    expect(bool(X.isfinite().all()) and real(alpha), "a machine's rows or coefficients are not finite numbers")
    expect(machine.lam > 0 and machine.ridge_added >= 0, "a machine's λ is not positive")


def check_parts_of_rows(machine, rows: Rows | None) -> None:
    """Parts of the training rows that a machine is the mean over."""
    if rows is None:
        return
    expect(len(rows) == len(machine.X) and bool(machine.parts), "a machine's rows are not the training rows")
    for part in machine.parts:
        inside = part.ndim == 1 and part.dtype == torch.int64 and len(part) > 0
        expect(inside and 0 <= int(part.min()) <= int(part.max()) < len(rows), "a machine's part has unknown rows")
        expect(len(part.unique()) == len(part), "a machine's part has a row twice")


@dataclass(frozen=True, eq=False)
class Sum(Machine):
    """f = Σ_j α_j k(x_j, ·) over the rows ``X``.

    ``compressible`` says that k is one kernel for all of them, so that fewer rows may stand for all.
    """

    compressible: ClassVar[bool] = True

    kernel: Kernel
    lam: float
    X: torch.Tensor
    alpha: torch.Tensor
    ridge_added: float = 0.0

    def to(self, device=None, dtype=None):
        return replace(self, X=self.X.to(device=device, dtype=dtype), alpha=self.alpha.to(device=device))

    @property
    def coarse(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """K(X, Z), Z being the rows that f sums over, in single precision where that moves f by little.

        For means over many rows; predictions are computed more finely.
        """
        wanted = self.X.device.type == "cpu" and len(self.X) >= LOOPS_FROM
        known = wanted and all(processor.takes(kernel.architecture) for _, kernel in self.kernel.terms)
        if not known or not processor.at_hand() or bool((self.X.abs() > LARGEST_SINGLE).any()):
            return self.kernel.matrix
        sweeps = [(share, LoopSweep(kernel, self.X[:0].float(), self.X.float())) for share, kernel in self.kernel.terms]

        def rounded(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
            x, ((share, first), *others) = X.float(), sweeps
            K = first.on(x).matrix().mul_(share)
            for share, sweep in others:
                K.add_(sweep.on(x).matrix(), alpha=share)
            return K

        some = self.X[:: max(1, len(self.X) // ROUNDING_AT)]
        difference = rounded(some, self.X) @ self.alpha.float() - self.kernel.matrix(some, self.X) @ self.alpha.to(some)
        return rounded if float(difference.pow(2).mean().sqrt()) <= COARSE else self.kernel.matrix


def without_own_term(K: torch.Tensor, alpha: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """K α less, for every row, the product of K with a column of its own, times what it changes; in K's precision."""
    moved = torch.linalg.vecdot(K, columns.to(K))[:, None]
    return (K @ alpha.to(K)).to(change) - moved.to(change) * change


class Inseparable(Sum):
    """A sum of which there are no functions without single rows; ``refusal`` says why."""

    @property
    @abstractmethod
    def refusal(self) -> str: ...

    def leave_one_out(self, rows):
        raise ValueError(self.refusal)

    def without_one(self, rows, index):
        raise ValueError(self.refusal)

    def without_own(self, rows, index, coarse=False):
        raise ValueError(self.refusal)

    def leave_two_out(self, rows, index):
        raise ValueError(self.refusal)
