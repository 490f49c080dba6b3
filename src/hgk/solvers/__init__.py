"""Solvers: ``prepare`` once, ``solve`` often; each declares what it takes, and :func:`choose` finds one."""

from hgk.losses import Loss
from hgk.solvers.base import Ask, Solution, Solver, Status, choose, register, unregister
from hgk.solvers.box import BoxDual
from hgk.solvers.convex import ConvexSolver
from hgk.solvers.krylov import Krylov
from hgk.solvers.least_squares import Cholesky, Spectral
from hgk.solvers.newton import Newton
from hgk.solvers.nystrom import Nystrom
from hgk.solvers.path import CholeskyPath
from hgk.solvers.stacked import inverse_factor, stacked_cholesky, stacked_solve

__all__ = [
    "Ask",
    "BoxDual",
    "Cholesky",
    "CholeskyPath",
    "ConvexSolver",
    "Krylov",
    "Newton",
    "Nystrom",
    "Solution",
    "Solver",
    "Spectral",
    "Status",
    "choose",
    "inverse_factor",
    "register",
    "solver_for",
    "stacked_cholesky",
    "stacked_solve",
    "unregister",
]

# An eigendecomposition before a factor: it is asked for only where there are many λ.
register(Spectral(), Cholesky(), BoxDual(), Newton(), Nystrom(), Krylov(), CholeskyPath())


def solver_for(loss: Loss, tol: float | None = None, floor: float = 0.0) -> Solver:
    """The solver that takes a loss; ``tol`` is the relative duality gap to be reached, None the solver's own.

    ``floor`` is for :class:`BoxDual`; Newton's last steps cost little.

    Examples
    --------
    >>> from hgk.losses import Hinge, Logistic
    >>> [type(solver_for(loss)).__name__ for loss in (Hinge(), Logistic())]
    ['BoxDual', 'Newton']
    """
    return choose(Ask(loss, certified=True)).to_precision(tol, floor)
