"""What every learner promises: from a task to one machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hgk.executor import Executor
from hgk.inputs import Feature
from hgk.kernels import Architecture
from hgk.machines import Machine
from hgk.progress import Progress
from hgk.search import Task
from hgk.targets import Target


class Learned(NamedTuple):
    """A machine on the task's rows, and how its columns are to be read."""

    machine: Machine
    target: Target


class Wanted(NamedTuple):
    """What a user asks of a learner: trees, an optimiser, seconds; and the features that trees are on."""

    architectures: Sequence[Architecture]
    optimiser: Any
    budget: float | None
    features: Sequence[Feature]


class Learner(ABC):
    """Who learns the kernel, and which machine is trained on it.

    Attributes
    ----------
    ranks, robust, steps : bool
        How a numeric column is encoded for this learner: with a rank copy, bent beyond three robust deviations, with
        steps where rows are many.
    """

    ranks: bool = False
    robust: bool = False
    steps: bool = False
    # whether its operations are too small to be shared by threads, so that workers take them
    in_small_steps: bool = False
    # whether rows beyond those of a kernel matrix are divided, so that every loss takes them
    any_loss_in_leaves: bool = False

    @abstractmethod
    def learn(self, task: Task, rng: np.random.Generator, progress: Progress, executor: Executor) -> Learned: ...

    def adapted(self, wanted: Wanted) -> Learner:
        """The learner that honours what is wanted."""
        if wanted.architectures or wanted.optimiser is not None:
            raise ValueError(
                f"An architecture or an optimiser was given to {type(self).__name__}, which brings its own; leave it "
                "out, or take another preset."
            )
        return self

    @abstractmethod
    def check_size(self, task: Task, workers: int) -> None:
        """Raise MemoryError, before working, if the task does not fit."""
