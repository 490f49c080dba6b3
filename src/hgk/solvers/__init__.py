"""Solvers: prepare(K) once, solve(state, Y, lam) many times; BoxDual and Newton take a loss as well."""

from hgk.losses import BoxLoss, Loss, SmoothLoss
from hgk.solvers.base import Solution, Solver, Status
from hgk.solvers.box import BoxDual
from hgk.solvers.convex import ConvexSolver
from hgk.solvers.krylov import FoldRisks, fold_risks
from hgk.solvers.least_squares import Cholesky, Spectral
from hgk.solvers.newton import Newton
from hgk.solvers.nystrom import Nystrom

__all__ = [
    "BoxDual",
    "Cholesky",
    "FoldRisks",
    "Newton",
    "Nystrom",
    "Solution",
    "Solver",
    "Spectral",
    "Status",
    "fold_risks",
    "solver_for",
]


def solver_for(loss: Loss, tol: float | None = None, floor: float = 0.0) -> ConvexSolver:
    """The solver that takes a loss; ``tol`` is the relative duality gap to be reached, None the solver's own.

    ``floor`` is for :class:`BoxDual`; Newton's last steps cost little.

    Examples
    --------
    >>> from hgk.losses import Hinge, Logistic
    >>> [type(solver_for(loss)).__name__ for loss in (Hinge(), Logistic())]
    ['BoxDual', 'Newton']
    """
    if isinstance(loss, BoxLoss):
        return BoxDual(floor=floor) if tol is None else BoxDual(tol, floor=floor)
    if isinstance(loss, SmoothLoss):
        return Newton() if tol is None else Newton(tol)
    raise TypeError(
        f"{type(loss).__name__} is neither a BoxLoss, which BoxDual solves, nor a SmoothLoss, which Newton solves; "
        "derive it from one of the two."
    )
