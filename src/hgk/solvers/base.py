"""What every solver of the machine promises, and how one is chosen.

The machine, for a kernel matrix K, labels y, sample weights s (1 where not given) and n = Σ s_i:

    min_f  λ‖f‖² + (1/n) Σ s_i L(y_i, f(x_i)),        f = Σ_i α_i k(x_i, ·),  no offset.

``prepare`` does what depends on the matrix, the weights and the folds alone, once; ``solve`` is then called for many
labels and λ. Solvers receive matrices, never kernels, and return what happened instead of warning or printing.

A solver declares what it takes. :func:`choose` returns the first one registered that takes what is asked for, so that a
mismatch is reported before any work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

import torch

from hgk.losses import LeastSquares, Loss

SQUARED = LeastSquares()


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
    UNRESOLVED = "No λ was resolved within the steps allowed; a larger λ or more steps would help."


def nothing() -> torch.Tensor:
    return torch.empty(0)


@dataclass(frozen=True)
class Solution:
    """What a solver returns; what was not asked for is empty.

    Parameters
    ----------
    alpha : (n, k) tensor
        Coefficients, one column per output; of the centres, where there are some.
    status : Status
    stats : dict
        Figures about the solve, such as ``ridge_added``, ``gap`` or ``steps``.
    residuals : (n, k) tensor
        Leave-one-out residuals.
    risks : (l,) tensor
        At each λ the mean squared error of clipped held-out predictions, summed over outputs; infinite where it was not
        computed, or is not final. With a leading axis where K has one.
    predictions : (l, n, k) tensor
        Clipped predictions of each row by the machine trained without its fold; they mean nothing for rows that are
        never held out. With a leading axis where K has one.
    """

    alpha: torch.Tensor = field(default_factory=nothing)
    status: Status = Status.SOLVED
    stats: dict[str, Any] = field(default_factory=dict)
    residuals: torch.Tensor = field(default_factory=nothing)
    risks: torch.Tensor = field(default_factory=nothing)
    predictions: torch.Tensor = field(default_factory=nothing)


@dataclass(frozen=True)
class Ask:
    """What a solver is wanted for.

    Parameters
    ----------
    loss : Loss or None
        None stands for any.
    held_out : bool
        Risks and predictions of held-out rows at several λ, instead of coefficients.
    centres : bool
        Over the span of a few centres, instead of all rows.
    certified : bool
        With a duality gap in ``stats["gap"]``.
    outputs, lams : int
        How many columns of labels and how many λ there are.
    """

    loss: Loss | None = SQUARED
    held_out: bool = False
    centres: bool = False
    certified: bool = False
    outputs: int = 1
    lams: int = 1


class Solver(ABC):
    """``prepare`` once, ``solve`` often. Class attributes declare what a solver takes:

    ``needs``
        What it asks of a loss, by name: attributes that are there and neither None nor False.
    ``held_out``, ``centres``, ``certified``
        As in :class:`Ask`.
    ``most_outputs``, ``fewest_lams``
        It is made for at most so many outputs (None: any number), and worth its time from so many λ.
    ``idle_rows``
        Whether rows may have weight 0; α is 0 there.

    Examples
    --------
    >>> from hgk.losses import Hinge
    >>> from hgk.solvers import Ask, choose
    >>> solver = choose(Ask(Hinge(), certified=True))
    >>> state = solver.prepare(torch.eye(2))
    >>> solver.solve(state, torch.tensor([[1.0], [-1.0]]), 0.25, Hinge()).alpha.tolist()
    [[1.0], [-1.0]]
    """

    needs: ClassVar[tuple[str, ...]] = ()
    held_out: ClassVar[bool] = False
    centres: ClassVar[bool] = False
    certified: ClassVar[bool] = False
    most_outputs: ClassVar[int | None] = None
    fewest_lams: ClassVar[int] = 1
    idle_rows: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, K: torch.Tensor, sample_weight: torch.Tensor | None = None) -> Any:
        """The state that ``solve`` starts from.

        A solver of held-out risks also takes ``fold_of``, a solver on centres ``centres``.
        """

    @abstractmethod
    def solve(self, state: Any, Y: Any, lam: Any, loss: Loss = SQUARED, start: Solution | None = None) -> Solution:
        """The machine at λ for labels ``Y``, one column per output.

        A solver of held-out risks takes several λ. ``start`` is a solution at another λ or for other weights: the
        answer is the same, the way there shorter.
        """

    def path(self, state: Any, Y: Any, lams: Sequence[float], loss: Loss = SQUARED) -> list[Solution]:
        """The machines at all ``lams``, in their order."""
        return [self.solve(state, Y, lam, loss) for lam in lams]

    def to_precision(self, tol: float | None = None, floor: float = 0.0) -> Solver:
        """This solver, ending at the relative duality gap ``tol``; for ``floor`` see :class:`BoxDual`."""
        return self

    def missing(self, loss: Loss) -> list[str]:
        """What this solver needs and the loss does not have."""
        values = {name: getattr(loss, name, None) for name in self.needs}
        return [name for name, value in values.items() if value is None or value is False]

    def check(self, loss: Loss) -> None:
        """Raise TypeError for a loss that this solver cannot take."""
        if missing := self.missing(loss):
            raise TypeError(
                f"{type(self).__name__} was given {type(loss).__name__}, which has no {' and no '.join(missing)}; "
                "hgk.solvers.choose finds a solver that takes it."
            )

    def refusal(self, ask: Ask) -> str:
        """Why this solver does not take what is asked, in words that follow its name; empty if it does."""
        missing = self.missing(ask.loss) if ask.loss is not None else []
        reasons = {
            f"gives {'held-out risks' if self.held_out else 'coefficients'}": self.held_out != ask.held_out,
            f"works {'on centres' if self.centres else 'on all rows'}": self.centres != ask.centres,
            "gives no duality gap": ask.certified and not self.certified,
            f"takes at most {self.most_outputs} outputs": ask.outputs > (self.most_outputs or ask.outputs),
            f"needs {self.fewest_lams} λ": ask.lams < self.fewest_lams,
            f"needs {' and '.join(missing)}": bool(missing),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


# In order of preference.
_SOLVERS: list[Solver] = []


def register(*solvers: Solver, first: bool = False) -> None:
    """Let :func:`choose` find these solvers, after those it knows, or ``first``.

    Examples
    --------
    >>> from hgk.solvers import Cholesky, register, unregister
    >>> class Verbose(Cholesky):
    ...     needs = ("verbosity",)
    >>> verbose = Verbose()
    >>> register(verbose)  # taken for losses with this attribute
    >>> unregister(verbose)
    """
    place = 0 if first else len(_SOLVERS)
    _SOLVERS[place:place] = solvers


def unregister(solver: Solver) -> None:
    """Let :func:`choose` forget a solver that was registered."""
    _SOLVERS.remove(solver)


def choose(ask: Ask) -> Solver:
    """The first solver registered that takes what is asked.

    Examples
    --------
    >>> from hgk.losses import Logistic
    >>> asks = Ask(), Ask(lams=50), Ask(Logistic(), certified=True), Ask(held_out=True), Ask(held_out=True, outputs=9)
    >>> [type(choose(ask)).__name__ for ask in asks]
    ['Cholesky', 'Spectral', 'Newton', 'Krylov', 'CholeskyPath']
    """
    for solver in _SOLVERS:
        if not solver.refusal(ask):
            return solver
    but_for_the_loss = [solver for solver in _SOLVERS if not solver.refusal(replace(ask, loss=None))]
    reasons = ", ".join(f"{type(one).__name__} {one.refusal(ask)}" for one in but_for_the_loss or _SOLVERS)
    remedy = "give the loss what one of them needs" if but_for_the_loss else "ask for what one of them gives"
    raise TypeError(
        f"No solver takes the loss {type(ask.loss).__name__} as asked: {reasons}; {remedy}, or hgk.solvers.register a "
        "solver that takes it."
    )


def check_lam(lam: float) -> float:
    """λ, if it is one."""
    if not (lam >= 0 and lam < float("inf")):
        raise ValueError(f"lam={lam} was given; the regularisation must be a finite number >= 0 (try 1e-3).")
    return float(lam)
