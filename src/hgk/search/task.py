"""What a learner is given: rows, their folds, the λ to try, features, the target, and the problem to be solved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.inputs import Feature
from hgk.machines import Machine, Part, Rows
from hgk.search.problems import SQUARES, Problem
from hgk.targets import Refinement, Target


@dataclass(frozen=True)
class Task:
    """Rows with labels scaled by the ``target``, and what is to be solved in the end.

    With a ``refinement`` of the target the rows' labels are its columns.

    Where rows were given several times, ``rows`` are pieces of them, each in one fold, and ``origin`` says of which of
    the ``distinct`` rows, on which machines are trained in the end.
    """

    rows: Rows
    fold_of: np.ndarray
    lams: np.ndarray
    target: Target
    features: tuple[Feature, ...] = ()
    problem: Problem = SQUARES
    distinct: Rows | None = None
    origin: torch.Tensor | None = None
    refinement: Refinement | None = None

    @property
    def clip(self) -> float:
        return self.problem.clip

    @property
    def whole(self) -> Rows:
        """The distinct rows."""
        return self.rows if self.distinct is None else self.distinct

    def refined(self, target: Refinement) -> Task:
        """With another way to treat the labels."""

        def columns(rows: Rows) -> Rows:
            return replace(rows, Y=target.expand(rows.Y))

        distinct = None if self.distinct is None else columns(self.distinct)
        return replace(self, rows=columns(self.rows), distinct=distinct, refinement=target)

    def part(self, fold: int) -> Part:
        """The distinct rows that a machine without this fold is trained on, and their weights there."""
        index = self.training_part(fold)
        if self.origin is None:
            return index, self.rows.weight[index]
        weight = torch.zeros_like(self.whole.weight)
        weight.index_add_(0, self.origin[index].to(weight.device), self.rows.weight[index])
        return (present := weight.nonzero()[:, 0].cpu()), weight[present]

    def gathered(self, machine: Machine) -> Machine:
        """A machine on pieces as a machine on the distinct rows."""
        return machine if self.origin is None else machine.gathered(self.rows, self.origin, len(self.whole))

    @property
    def squared(self) -> Task:
        """The same rows with least squares, by which kernels are learned."""
        return replace(self, problem=SQUARES)

    @property
    def folds(self) -> range:
        return range(int(self.fold_of.max()) + 1)

    def training_part(self, fold: int) -> torch.Tensor:
        return torch.from_numpy(np.flatnonzero(self.fold_of != fold))
