"""Solvers: prepare(K) once, solve(state, Y, lam) many times."""

from hgk.solvers.base import Solution, Solver, Status
from hgk.solvers.krylov import FoldRisks, fold_risks
from hgk.solvers.least_squares import Cholesky, Spectral
from hgk.solvers.nystrom import Nystrom

__all__ = ["Cholesky", "FoldRisks", "Nystrom", "Solution", "Solver", "Spectral", "Status", "fold_risks"]
