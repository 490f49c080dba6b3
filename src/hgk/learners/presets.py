"""What the estimators' ``preset`` stands for."""

from __future__ import annotations

import numpy as np

from hgk.kernels import Architecture, inhomogeneous, isotropic, two_layers
from hgk.learners.base import Learner
from hgk.learners.default.learner import Default
from hgk.learners.paper import ByOptimiser
from hgk.optimisers import Algorithm1


def paper_architectures(d: int, rng: np.random.Generator) -> list[Architecture]:
    return [inhomogeneous(d), *(two_layers(d, nodes, rng=rng) for nodes in (4, 6, 8, 10, 12, 16))]


PRESETS: dict[str, Learner] = {
    "default": Default(),
    "algorithm1": ByOptimiser(lambda d, rng: [two_layers(d, 8, rng=rng)], Algorithm1(guard=True)),
    "paper": ByOptimiser(paper_architectures, Algorithm1.paper()),
    "plain": ByOptimiser(lambda d, rng: [isotropic(d)], Algorithm1()),
}


def register(name: str, learner: Learner) -> None:
    """Let ``preset=name`` stand for a learner of yours."""
    if not isinstance(learner, Learner):
        raise TypeError(f"{learner!r} was given as the preset {name!r}; a Learner of hgk.learners is expected.")
    PRESETS[name] = learner
