"""A kernel that keeps its weights; only (λ, γ) are chosen."""

from __future__ import annotations

from dataclasses import dataclass

from hgk.kernels import Kernel
from hgk.learners.base import Learned
from hgk.learners.paper import OnMatrices


@dataclass(frozen=True)
class Given(OnMatrices):
    """The machine of a given kernel."""

    kernel: Kernel

    def learn(self, task, rng, progress, executor):
        return Learned(task.problem.machine(self.kernel, task, progress), task.target)
