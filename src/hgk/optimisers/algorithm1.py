"""The paper's Algorithm 1: weights by annealing and gradient descent between grid searches.

    split D into D1, D2, D3
    repeat M times
        train f on D1 with k_W, λ and γ by grid search
        anneal R_D2 over W for N1 steps
        repeat L times
            anneal for N2 steps if the last descent reached a local minimum, else descend for N3 steps
            remember W if its risk on D3 is the smallest so far
        if D3's risk did not fall: deal D1 ∪ D2 out anew
    return the remembered W

Choices that the paper leaves open: the weights start as in :meth:`Architecture.start`, and count as the
first candidate on D3; λ and γ are chosen by five folds of D1; a local minimum is reached when no Armijo
step exists or the last one gained less than 10⁻⁵ of the risk; a width γ found by one grid search is the
kernel's until the next. With another loss than least squares α, λ and γ are those of the loss, and so are the
risks on D2 and D3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
import torch

from hgk.events import Guarded, Searched
from hgk.executor import Search
from hgk.kernels import Architecture, HierarchicalKernel, Weights, isotropic
from hgk.machines import Rows
from hgk.optimisers.annealing import Annealing
from hgk.optimisers.armijo import Descending
from hgk.optimisers.objective import Objective, Risk
from hgk.progress import Progress
from hgk.search import FOLDS, SQUARES, Problem, fold_numbers, lam_grid, three_parts
from hgk.storable import storable

# With fewer rows than this D2 has no more than two of them, and a risk on two rows teaches nothing.
FEWEST_TO_DIVIDE = 12


@storable
@dataclass(frozen=True)
class Algorithm1:
    """Algorithm 1 with its parameters.

    Parameters
    ----------
    M, L : int
        Rounds, and searches per round.
    N1, N2, N3 : int
        Annealing steps at the start of a round, annealing steps of a search, descent steps of a search.
    guard : bool, default=False
        Return the plain Gaussian kernel unless the learned one is better on D3. Not in the paper.

    Examples
    --------
    >>> from hgk import Algorithm1
    >>> Algorithm1.paper()
    Algorithm1(M=15, L=10, N1=1000, N2=500, N3=10, guard=False)
    """

    M: int = 2
    L: int = 2
    N1: int = 60
    N2: int = 40
    N3: int = 6
    guard: bool = False

    def __post_init__(self) -> None:
        for name in ("M", "L", "N1", "N2", "N3"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} was given to Algorithm1; a whole number >= 1 is expected.")

    @classmethod
    def paper(cls) -> Algorithm1:
        """The values of the paper's experiments."""
        return cls(M=15, L=10, N1=1000, N2=500, N3=10)

    def search(
        self,
        architecture: Architecture,
        rows: Rows,
        rng: np.random.Generator,
        progress: Progress,
        problem: Problem = SQUARES,
    ) -> Search[HierarchicalKernel]:
        """The kernel whose weights had the smallest risk on D3, of the problem's loss."""
        kernel = HierarchicalKernel(architecture, architecture.start(rows.spread, rng))
        if architecture.tied or len(rows) < FEWEST_TO_DIVIDE:
            return kernel
        return (yield from _Run(self, kernel, rows, rng, progress, problem).run())


class _Run:
    """The state of one run: D1, D2, D3, the current weights, and the best so far."""

    def __init__(self, settings: Algorithm1, kernel, rows: Rows, rng, progress: Progress, problem: Problem):
        self.settings, self.kernel, self.given, self.problem = settings, kernel, rows, problem
        self.rows = replace(rows, Y=problem.labels(rows.Y))
        self.rng, self.progress = rng, progress
        self.D1, self.D2, D3 = three_parts(len(rows), rng)
        self.D3 = self.rows[torch.from_numpy(D3)]
        self.best, self.best_risk = kernel.W, float("inf")
        plain = isotropic(kernel.architecture.d)
        self.plain = HierarchicalKernel(plain, plain.start(rows.spread, rng))

    def run(self) -> Search[HierarchicalKernel]:
        W = self.kernel.W
        for i in range(self.settings.M):
            if self.progress.cut():
                break
            objective = yield from self._train(W)
            yield from self._remember(objective, W, (yield Risk(objective, W)), i, "start")
            before = self.best_risk
            W = (yield Annealing(objective, W, self.settings.N1, self.rng, self.progress)).W
            W = yield from self._searches(objective, W, i)
            if self.best_risk >= before:
                self._reshuffle()
        if self.settings.guard and not (yield from self._beats_plain()):
            return self.plain
        return self.kernel.with_weights(self.best)

    def _beats_plain(self) -> Search[bool]:
        """Is the best risk on D3 below the plain Gaussian machine's, by two standard errors of the difference?

        Two, because the weights were chosen on D3, if only among a handful of candidates.
        """
        D3 = self.D3
        plain = yield from self._train(self.plain.W, self.plain)
        learned = yield from self._train(self.best)
        losses = [o.losses(o.kernel.multiply(D3.X, o.X1, o.alpha), D3) for o in (plain, learned)]
        gain, error = D3.mean(losses[0] - losses[1])
        self.progress.report(Guarded(plain_D3=D3.mean(losses[0])[0], learned_D3=D3.mean(losses[1])[0]))
        return gain > 2 * error

    def _train(self, W: Weights, kernel: HierarchicalKernel | None = None) -> Search[Objective]:
        """α on D1, with λ and γ by cross-validation on D1."""
        part, D2 = (self.rows[torch.from_numpy(D)] for D in (self.D1, self.D2))
        kernel = (kernel or self.kernel).with_weights(W)
        fold_of = fold_numbers(len(part), min(FOLDS, len(part)), self.rng)
        given = self.given[torch.from_numpy(self.D1)]
        lams = lam_grid(part.size)
        grid = yield self.problem.grid(kernel, given, fold_of, lams, progress=self.progress)
        kernel = kernel.with_gamma(grid.choice.gamma)
        return Objective(kernel, part.X, self.problem.coefficients(kernel, part, grid.choice), D2, self.problem)

    def _searches(self, objective: Objective, W: Weights, i: int) -> Search[Weights]:
        at_minimum = False
        for _ in range(self.settings.L):
            if self.progress.cut():
                break
            if at_minimum:
                moved = yield Annealing(objective, W, self.settings.N2, self.rng, self.progress)
                at_minimum, how = False, "anneal"
            else:
                moved = yield Descending(objective, W, self.settings.N3, self.progress)
                at_minimum, how = moved.at_minimum, "descend"
            W = moved.W
            yield from self._remember(objective, W, moved.risk, i, how)
        return W

    def _remember(self, objective: Objective, W: Weights, risk_D2: float, i: int, how: str) -> Search[None]:
        risk = yield Risk(objective, W, self.D3)
        if risk < self.best_risk:
            self.best, self.best_risk = W, risk
        self.progress.report(Searched(round=i, how=how, risk_D2=risk_D2, risk_D3=risk, best_D3=self.best_risk))

    def _reshuffle(self) -> None:
        together = self.rng.permutation(np.concatenate([self.D1, self.D2]))
        self.D1, self.D2 = together[: len(self.D1)], together[len(self.D1) :]
