"""Any convex loss in leaves, beyond the rows that one kernel matrix may have.

Kernels are handed down by least squares, as for the machine on all rows, without the fold that was set aside: its rows
choose c = nλ, in some leaves for all, and speak for the machine. In every leaf the machine is the mean of those that
were trained without one fold each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from hgk.arrays import single_blas
from hgk.events import LeavesGrown
from hgk.learners.default.division import Division, handed
from hgk.learners.default.leaves import LEAST_C, Handed, HandingTree, direction_of, metric
from hgk.machines import LossInLeaves, Machine, MeanOfMachines, OfLoss, Partition, Rows, partition
from hgk.progress import Progress
from hgk.search import Choice, Convex, Folds, choose_lams, lam_grid

if TYPE_CHECKING:
    from hgk.learners.default.average import Trial
    from hgk.learners.default.learner import Fit

# Leaves in which c is chosen, and rows of the machine that stands in for leaves a stop has left out.
CHOOSING, STOOD_IN = 4, 2000


class LeafOfLoss(NamedTuple):
    """A leaf's kernel, and its machine."""

    handed: Handed
    machine: OfLoss


def leaf_of_loss(problem: Convex, handed: Handed, rows: Rows, fold_of: np.ndarray, c: torch.Tensor) -> LeafOfLoss:
    """The mean of the machines without one fold each, at c = nλ of every column."""
    choice = Choice(float("nan"), tuple((c / float(rows.weight.sum())).tolist()), float("nan"))
    return LeafOfLoss(handed, problem.mean_machine([(handed.kernel, 1.0)], rows, fold_of, choice, Progress()))


class LossLeaves:
    """The problem on the rows of a fit, the fold set aside, and what is to be grown."""

    def __init__(self, fit: Fit, division: Division, chosen: Sequence[Trial]):
        self.fit, self.division, self.task = fit, division, fit.wanted
        self.problem, self.rows = cast(Convex, self.task.problem), self.task.rows
        self.aside = next(iter(fit.judges))
        self.seen = torch.from_numpy(self.task.fold_of != self.aside)
        self.kernels = handed(chosen, float(self.rows.weight.sum()))
        self.c: torch.Tensor | None = None
        if len(self.task.lams) == 1:
            columns = self.problem.labels(self.rows.Y[:1]).shape[1]
            self.c = torch.full((columns,), float(self.task.lams[0] * self.rows.weight.sum()), dtype=torch.float64)

    @single_blas()
    def grow(self) -> Machine:
        """The mean of the partitions; after a stop, of those that are complete, or the first with a stand-in."""
        grown: list[LossInLeaves] = []
        for number in range(self.division.event.partitions):
            if number and self.fit.progress.cut():
                break
            machine = self._partition(number, self.kernels[number % len(self.kernels)])
            if not grown or machine.stand_in is None:
                grown.append(machine)
        return grown[0] if len(grown) == 1 else MeanOfMachines(tuple(grown))

    def _partition(self, number: int, top: Handed) -> LossInLeaves:
        fit, rows, plan = self.fit, self.rows, self.division.plan
        parts = partition(rows.X, metric(top.kernel, rows.X), plan.size, fit.rng, direction_of(number))
        seed, penalty = int(fit.rng.integers(2**32)), fit.settings.map_penalty
        tree = HandingTree(fit.task.rows, parts, seed, penalty, fit.progress, self.seen)
        nodes = [-1 - leaf for leaf in range(len(parts))]
        known = tree.hand_down(top, nodes, plan, fit.executor.fulfil)
        if self.c is None:
            self.c = self._choose_c(parts, [known[node] for node in nodes])
        leaves, at_once = list[LeafOfLoss](), 4 * fit.executor.workers
        for start in range(0, len(nodes), at_once):
            if fit.progress.cut():
                break
            due = range(start, min(start + at_once, len(nodes)))
            leaves += fit.executor.run([partial(self._leaf, known[-1 - leaf], parts.rows(leaf)) for leaf in due])
            fit.progress.report(LeavesGrown(partition=number, done=len(leaves), of=len(nodes)))
        return self._assembled(parts, leaves, top)

    def _leaf(self, handed: Handed, members: torch.Tensor) -> LeafOfLoss:
        c, fold_of = cast(torch.Tensor, self.c), self.task.fold_of[members.numpy()]
        return leaf_of_loss(self.problem, handed, self.rows[members], fold_of, c)

    def _choose_c(self, parts: Partition, known: Sequence[Handed]) -> torch.Tensor:
        """By the rows set aside in some leaves, each on its own; the geometric mean, for every column."""
        chosen = []
        for leaf in range(0, len(parts), -(-len(parts) // CHOOSING)):
            members = parts.rows(leaf)
            rows, fold_of = self.rows[members], self.task.fold_of[members.numpy()]
            if not (fold_of == self.aside).any() or (fold_of == self.aside).all():
                continue
            state = Folds.of(self.problem, known[leaf].kernel, rows, fold_of)
            choice, _ = choose_lams({self.aside: state}, lam_grid(rows.size), Progress())
            chosen.append(np.log(choice.lams) + np.log(float(rows.weight.sum())))
        if not chosen:  # these leaves have no row that was set aside
            columns = self.problem.labels(self.rows.Y[:1]).shape[1]
            return torch.full((columns,), max(known[0].c, LEAST_C), dtype=torch.float64)
        return torch.from_numpy(np.exp(np.mean(chosen, axis=0)))

    def _assembled(self, parts: Partition, leaves: Sequence[LeafOfLoss], top: Handed) -> LossInLeaves:
        rows, c = self.rows, cast(torch.Tensor, self.c)
        lacking = len(parts) - len(leaves)
        parts = parts.first_leaves(len(leaves))
        alpha = torch.zeros(len(rows), len(c), dtype=torch.float64)
        held_out = torch.full_like(alpha, torch.nan)
        for number, (_, machine) in enumerate(leaves):
            alpha[parts.rows(number)] = machine.alpha
            held_out[parts.rows(number)] = cast(torch.Tensor, machine.held_out)
        kernels = [leaf.handed.kernel for leaf in leaves] + [top.kernel] * lacking
        W = tuple(torch.stack(arrays) for arrays in zip(*(kernel.W for kernel in kernels), strict=True))
        lams = (c / float(rows.weight.sum())).tolist()
        return LossInLeaves(
            top.kernel,
            float(np.exp(np.mean(np.log(lams)))),
            rows.X.float(),
            alpha,
            partition=parts,
            W=W if self.division.plan.steps else (),
            gammas=torch.tensor([kernel.gamma for kernel in kernels], dtype=torch.float64),
            cs=torch.full((len(parts),), float(c.log().mean().exp()), dtype=torch.float64),
            stand_in=self._stand_in(top) if lacking else None,
            loss=self.problem.loss,
            lams=tuple(lams),
            held_out=held_out,
            aside=(~self.seen).double(),
            gap_left=max((leaf.machine.gap_left for leaf in leaves), default=0.0),
        )

    def _stand_in(self, top: Handed) -> Machine:
        order = torch.from_numpy(np.sort(self.fit.rng.permutation(len(self.rows))[:STOOD_IN]))
        return self._leaf(top, order).machine.compact()
