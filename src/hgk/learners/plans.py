"""What the estimators' ``preset`` stands for: who learns the kernel, and which machines are averaged.

A plan turns a task (rows, folds, λ to try, clipping bound, loss) into machines whose clipped mean predicts. That of the
default is :mod:`hgk.learners.gradients`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hgk.kernels import Architecture, HierarchicalKernel, inhomogeneous, isotropic, two_layers
from hgk.learners.gradients import LeaveOneOutGradients
from hgk.optimisers import Algorithm1
from hgk.optimisers.adam import Adam
from hgk.search.selection import Plan, kernel_per_fold, one_kernel

Architectures = Callable[[int, np.random.Generator], list[Architecture]]


@dataclass(frozen=True)
class Preset:
    """How to encode the inputs, and the plan."""

    plan: Plan
    ranks: bool = False
    robust: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Given(Plan):
    """A kernel that keeps its weights; only (λ, γ) are chosen."""

    kernel: HierarchicalKernel

    def machines(self, task, rng, progress, n_jobs=None):
        return [one_kernel(self.kernel, task, progress)]


@dataclass(frozen=True)
class Learned(Plan):
    """One architecture learns on all rows; several, on every fold's training part, as in the paper."""

    architectures: Architectures
    optimiser: Algorithm1 | Adam

    def machines(self, task, rng, progress, n_jobs=None):
        architectures = self.architectures(task.rows.X.shape[1], rng)
        if len(architectures) > 1:
            return kernel_per_fold(architectures, self.optimiser, task, rng, progress, n_jobs)
        kernel = self.optimiser.learn(architectures[0], task.rows, task.clip, rng, progress, task.problem)
        return [one_kernel(kernel, task, progress)]


def paper_architectures(d: int, rng: np.random.Generator) -> list[Architecture]:
    return [inhomogeneous(d), *(two_layers(d, nodes, rng=rng) for nodes in (4, 6, 8, 10, 12, 16))]


PRESETS = {
    "default": Preset(LeaveOneOutGradients(), ranks=True, robust=True, steps=True),
    "algorithm1": Preset(Learned(lambda d, rng: [two_layers(d, 8, rng=rng)], Algorithm1(guard=True))),
    "paper": Preset(Learned(paper_architectures, Algorithm1.paper())),
    "plain": Preset(Learned(lambda d, rng: [isotropic(d)], Algorithm1())),
}
