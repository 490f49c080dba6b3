"""Mini-batch Adam: its settings, and the search for a kernel's weights by it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from hgk.criteria import Criterion
from hgk.kernels import Architecture, HierarchicalKernel
from hgk.machines import Rows
from hgk.optimisers.steps import Steps
from hgk.progress import Progress
from hgk.storable import storable


@storable
@dataclass(frozen=True)
class Adam:
    """Mini-batch Adam.

    Parameters
    ----------
    steps, batch : int
        Number of steps, rows per step (at most all).
    rate : float
        The peak of the one-cycle rate.
    shrink, map_penalty : float
        Strengths of the penalties.
    criterion : Criterion, optional
        What is minimised on every batch; None is leave-one-out.
    """

    steps: int = 300
    batch: int = 1000
    rate: float = 0.1
    shrink: float = 0.0
    map_penalty: float = 0.0
    criterion: Criterion | None = None

    def __post_init__(self) -> None:
        whole = all(isinstance(v, Integral) for v in (self.steps, self.batch))
        if not (whole and self.steps >= 1 and self.batch >= 2 and 0 < self.rate < math.inf):
            raise ValueError(
                f"steps={self.steps!r}, batch={self.batch!r}, rate={self.rate!r} were given; whole numbers >= 1 and "
                ">= 2 and a finite number > 0 are expected."
            )
        if not (0 <= self.shrink < math.inf and 0 <= self.map_penalty < math.inf):
            raise ValueError(
                f"shrink={self.shrink!r}, map_penalty={self.map_penalty!r} were given; finite numbers >= 0 are "
                "expected."
            )

    def search(
        self, architecture: Architecture, rows: Rows, rng: np.random.Generator, progress: Progress, problem=None
    ):
        """The kernel at the end of the run; its criterion is the same, whatever the problem."""
        kernel = HierarchicalKernel(architecture, architecture.start(rows.spread, rng))
        if architecture.tied:
            return kernel
        run = yield Steps(self, kernel, rows, rng, progress)
        return run.result()
