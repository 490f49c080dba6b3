"""The (λ, γ) grid, and held-out risks of least squares over it.

For a kernel with γ-free exponent S of mean S̄ over pairs of rows, n rows and d columns:

    γ    10 values, geometric, from 5·√S̄ down to 0.2·√S̄·n^(-1/max(d, 3))
    λ    10 values, geometric, from 0.1 down to 10⁻⁴/n

At the largest γ the exponent is about 1/25 on a typical pair, a nearly linear machine; the smallest is
below the distance between neighbours, which shrinks like n^(-1/d) for n rows spread over d dimensions
(data of one or two columns are taken as d = 3, because their spacing is uneven and the grid would become
too coarse). λ = 0.1 nearly ignores labels in [-1, 1]; λ = 10⁻⁴/n, that is nλ = 10⁻⁴ against the kernel's
unit diagonal, nearly interpolates them. The scalings in n and d are those of liquidSVM's default grid,
whose λ end at 10⁻³/n: too early for labels without noise. With sample weights s of rows that were given m times n
is the effective number of repetitions (Σ s)² / Σ s²/m: the machine at a given λ does not change when all weights are
doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from hgk.arrays import accelerated, in_loads, require_memory
from hgk.executor import Request
from hgk.kernels import Kernel
from hgk.machines import Rows
from hgk.progress import Progress
from hgk.solvers import Krylov
from hgk.solvers.krylov import MOST_PRODUCTS

SIZE = 10
# Kernel matrices held together by one Krylov run, in elements: all widths for a few hundred rows, one
# width at a time from about 1500 rows.
STACK = 2**21


def gamma_grid(mean_exponent: float, n: int, d: int, size: int = SIZE) -> np.ndarray:
    root = np.sqrt(mean_exponent) if mean_exponent > 0 else 1.0
    return np.geomspace(5 * root, 0.2 * root * n ** (-1 / max(d, 3)), size)


def lam_grid(n: float, size: int = SIZE) -> np.ndarray:
    return np.geomspace(0.1, 1e-4 / n, size)


@dataclass(frozen=True)
class GridResult:
    """Held-out risks over the grid, by γ and λ.

    A cell is resolved when its risk is final to statistical precision. The others were left when they
    could no longer win; they are not chosen.
    """

    gammas: np.ndarray
    lams: np.ndarray
    risks: np.ndarray
    resolved: np.ndarray
    products: int  # with a kernel matrix

    @property
    def best(self) -> tuple[int, int]:
        if not self.resolved.any():
            raise ValueError(
                "No cell of the (λ, γ) grid could be resolved in single precision; check the labels for values that "
                "differ by many orders of magnitude, or give lam."
            )
        candidates = np.where(self.resolved, self.risks, np.inf)
        i, j = np.unravel_index(int(np.argmin(candidates)), candidates.shape)
        return int(i), int(j)

    @classmethod
    def mean(cls, grids: Sequence[GridResult]) -> GridResult:
        """The mean risk over folds, whose γ grids are matched by position."""
        return cls(
            np.mean([g.gammas for g in grids], axis=0),
            grids[0].lams,
            np.mean([g.risks for g in grids], axis=0),
            np.all([g.resolved for g in grids], axis=0),
            sum(g.products for g in grids),
        )

    @property
    def choice(self) -> GridResult:
        """What has γ, λ and their risk."""
        return self

    @property
    def gamma(self) -> float:
        return float(self.gammas[self.best[0]])

    @property
    def lam(self) -> float:
        return float(self.lams[self.best[1]])

    @property
    def risk(self) -> float:
        return float(self.risks[self.best])


@dataclass(frozen=True, eq=False)
class Grid(Request):
    """What is asked: the held-out risks over the (λ, γ) grid.

    Rows with ``fold_of = -1`` are never held out.
    """

    kernel: Kernel
    rows: Rows
    fold_of: np.ndarray
    lams: np.ndarray
    clip: float
    dtype: torch.dtype = torch.float32
    complete: bool = False
    progress: Progress | None = None

    def alone(self) -> GridResult:
        return search_all([self])[0]

    @classmethod
    def together(cls, requests):
        return search_all(requests)


def search(
    kernel: Kernel,
    rows: Rows,
    fold_of: np.ndarray,
    lams: np.ndarray,
    clip: float,
    dtype: torch.dtype = torch.float32,
    complete: bool = False,
    progress: Progress | None = None,
) -> GridResult:
    """The risks of one :class:`Grid`.

    The γ-free exponent is computed once; each γ costs one exponential of it and a few dozen to a few
    hundred products, shared by all folds, outputs and λ (see :mod:`hgk.solvers.krylov`). Single
    precision is enough here: the search ranks risks whose sampling error is above 1 %, and the chosen
    machines are solved again in double precision. A wish to stop is granted between widths.
    """
    return _search_together([Grid(kernel, rows, fold_of, lams, clip, dtype, complete, progress)])[0]


def search_all(grids: Sequence[Grid]) -> list[GridResult]:
    """Of many; on an accelerator those that are alike go together, as many as fit into half of its memory."""
    results: dict[int, GridResult] = {}
    for load in _loads(grids):
        results |= zip(map(id, load), _search_together(load), strict=True)
    return [results[id(grid)] for grid in grids]


def _loads(grids: Sequence[Grid]) -> list[list[Grid]]:
    alike: dict[tuple, list[Grid]] = {}
    for grid in grids:
        alone = not accelerated(grid.rows.X)
        key = grid.rows.X.device, grid.dtype, grid.clip, grid.complete, grid.rows.Y.shape[1], len(grid.lams)
        alike.setdefault((id(grid),) if alone else key, []).append(grid)
    return [load for group in alike.values() for load in in_loads(group, _bytes, group[0].rows.X.device)]


def _bytes(grid: Grid) -> float:
    """Of S, K, an exponential, and a basis that is copied when it grows."""
    n, vectors = len(grid.rows), (int(grid.fold_of.max()) + 1) * grid.rows.Y.shape[1] * MOST_PRODUCTS
    return (3 * n**2 + 1.5 * vectors * n) * grid.dtype.itemsize


def _search_together(grids: Sequence[Grid]) -> list[GridResult]:
    """All with the same settings; the shorter ones are filled up by rows without weight."""
    first, many, n = grids[0], len(grids), max(len(grid.rows) for grid in grids)
    terms = max(len(grid.kernel.terms) for grid in grids)
    require_memory(n, n, 3 + terms, first.dtype, "The grid search's kernel matrix", first.rows.X.device)
    families = [Family(grid.kernel, grid.rows.X.to(first.dtype)) for grid in grids]
    gammas = np.stack([family.gammas for family in families])
    shape = many, gammas.shape[1], len(first.lams)
    risks, resolved, products = np.full(shape, np.inf), np.zeros(shape, dtype=bool), 0
    padded = [_padded(grid, n) for grid in grids]
    parts = padded[0] if many == 1 else [torch.stack(part) for part in zip(*padded, strict=True)]
    room = (
        STACK if not accelerated(first.rows.X) else 64 * STACK
    )  # there, launches cost more than steps that are not needed
    for stack in widths_from_the_middle(shape[1], max(1, room // (many * n**2))):
        K = torch.zeros(many * len(stack), n, n, dtype=first.dtype, device=first.rows.X.device)
        for out, (p, i) in zip(K, product(range(many), stack), strict=True):
            families[p].fill(gammas[p, i], out[: families[p].n, : families[p].n])
        known = torch.from_numpy(np.where(resolved, risks, np.inf).min((1, 2))).repeat_interleave(len(stack))
        Y, folds, weight, lams = parts if many == 1 else (part.repeat_interleave(len(stack), 0) for part in parts)
        solver = Krylov()
        state = solver.prepare(K, weight, folds)
        solution = solver.solve(state, Y, lams, clip=first.clip, complete=first.complete, known=known)
        risks[:, stack] = solution.risks.cpu().numpy().reshape(many, len(stack), -1)
        products += solution.stats["steps"] * len(stack)
        resolved = np.isfinite(risks)
        all_begun = bool(resolved.any((1, 2)).all())
        if any(grid.progress is not None and grid.progress.cut(when=all_begun) for grid in grids):
            break
    return [GridResult(gammas[p], np.asarray(g.lams), risks[p], resolved[p], products) for p, g in enumerate(grids)]


def _padded(grid: Grid, n: int) -> list[torch.Tensor]:
    """Y, folds, weights and λ on the rows' device; up to n rows, those added without weight and never held out."""
    rows, more = grid.rows, n - len(grid.rows)
    Y = torch.nn.functional.pad(rows.Y.to(grid.dtype), (0, 0, 0, more))
    folds = torch.from_numpy(np.pad(grid.fold_of, (0, more), constant_values=-1)).to(Y.device)
    weight = torch.nn.functional.pad(rows.weight, (0, more))
    return [Y, folds, weight, torch.as_tensor(grid.lams).to(Y.device)]


class Family:
    """A kernel's matrices over all pairs of rows, one for each width."""

    def __init__(self, kernel: Kernel, X: torch.Tensor):
        self.terms, self.n = kernel.exponents(X), len(X)
        mean = sum(p * float(S.mean(dtype=torch.float64)) for p, S in self.terms)
        columns = max(len(set().union(*term.architecture.coordinates)) for _, term in kernel.terms)
        self.gammas = gamma_grid(mean * self.n / max(1, self.n - 1), self.n, columns)

    def fill(self, gamma: float, out: torch.Tensor) -> torch.Tensor:
        """K at this width, written to ``out``."""
        (p, S), *others = self.terms
        out.copy_(S).mul_(-(float(gamma) ** -2)).exp_()
        if others:
            out.mul_(p)
        for p, S in others:
            out.add_(torch.mul(S, -(float(gamma) ** -2)).exp_(), alpha=p)
        return out


def widths_from_the_middle(size: int, at_once: int) -> list[list[int]]:
    """Indices ordered from the middle outwards: good widths first give later ones a risk to give up at."""
    order = sorted(range(size), key=lambda i: abs(i - (size - 1) / 2))
    return [order[i : i + at_once] for i in range(0, size, at_once)]
