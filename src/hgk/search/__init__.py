"""The search for λ and γ: folds, grids, paths and races; and problems, which know how theirs is done."""

from hgk.search.folds import FOLDS, Pieces, divide, fold_numbers, shuffled, three_parts
from hgk.search.grids import Family, Grid, GridResult, gamma_grid, lam_grid, search, search_all
from hgk.search.problems import SQUARES, Convex, Either, Problem, Squares, mean_kernel, problem_for
from hgk.search.races import FEWER, Choice, Folds, LossGrid, choose_lams
from hgk.search.task import Task

__all__ = [
    "FEWER",
    "FOLDS",
    "SQUARES",
    "Choice",
    "Convex",
    "Either",
    "Family",
    "Folds",
    "Grid",
    "GridResult",
    "LossGrid",
    "Pieces",
    "Problem",
    "Squares",
    "Task",
    "choose_lams",
    "divide",
    "fold_numbers",
    "gamma_grid",
    "lam_grid",
    "mean_kernel",
    "problem_for",
    "search",
    "search_all",
    "shuffled",
    "three_parts",
]
