"""A run of Adam as something that a search asks for: one by one, or side by side on an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hgk.arrays import accelerated
from hgk.executor import Request
from hgk.kernels import HierarchicalKernel, compiled
from hgk.machines import Rows
from hgk.optimisers.recorded import RecordedRun, run_together
from hgk.optimisers.runs import AdamRun
from hgk.progress import Progress

if TYPE_CHECKING:
    from hgk.optimisers.adam import Adam


@dataclass(frozen=True, eq=False)
class Steps(Request):
    """All steps of a run from ``kernel`` and ``lam``; what comes back is the :class:`AdamRun`.

    ``often`` says that very many runs follow, so that compiled code pays on processors, too.
    """

    settings: Adam
    kernel: HierarchicalKernel
    rows: Rows
    rng: np.random.Generator
    progress: Progress
    watched: Rows | None = None
    clip: float = 1.0
    lam: float = 1e-3
    often: bool = False

    def begin(self, kind: type[AdamRun] = AdamRun) -> AdamRun:
        return kind(self)

    def alone(self) -> AdamRun:
        run = self.begin()
        run.run()
        return run

    @property
    def recordable(self) -> bool:
        """Whether a step can be recorded, to be launched as one graph."""
        usual = accelerated(self.rows.X) and self.settings.criterion is None  # another may wait for the device
        return usual and compiled.suits(self.kernel.architecture, self.rows.X)

    @classmethod
    def together(cls, requests: Sequence[Steps]) -> list[AdamRun]:
        runs = {i: r.begin(RecordedRun) for i, r in enumerate(requests) if r.recordable}
        for steps in {run.settings.steps for run in runs.values()}:
            run_together([run for run in runs.values() if run.settings.steps == steps])  # type: ignore[misc]
        return [runs[i] if i in runs else request.alone() for i, request in enumerate(requests)]
