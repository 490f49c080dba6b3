"""Solvers: prepare(K) once, solve(state, Y, lam) many times; BoxDual and Newton take a loss as well."""

from hgk.solvers.base import Solution, Solver, Status
from hgk.solvers.box import BoxDual
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
]
