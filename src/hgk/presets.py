"""What the estimators' ``preset`` stands for: architectures to try, and who learns their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hgk.architectures import Architecture, inhomogeneous, isotropic, two_layers
from hgk.optimisers import Algorithm1


@dataclass(frozen=True)
class Preset:
    """``architectures(d, rng)`` to choose from; more than one are chosen by the paper's fold protocol."""

    architectures: Callable[[int, np.random.Generator], list[Architecture]]
    optimiser: Algorithm1


def _paper_architectures(d: int, rng: np.random.Generator) -> list[Architecture]:
    return [inhomogeneous(d), *(two_layers(d, nodes, rng=rng) for nodes in (4, 6, 8, 10, 12, 16))]


PRESETS = {
    "default": Preset(lambda d, rng: [two_layers(d, 8, rng=rng)], Algorithm1(guard=True)),
    "paper": Preset(_paper_architectures, Algorithm1.paper()),
    "plain": Preset(lambda d, rng: [isotropic(d)], Algorithm1()),
}
