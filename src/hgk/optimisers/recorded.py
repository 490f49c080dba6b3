"""Runs of Adam on an accelerator: one step of all of them, side by side, is recorded and then launched as one graph.

A step is a few dozen small operations, which a device does faster than a processor can ask for them. So nothing in it
may wait for the device: θ, its moments, λ and the number of the step live there, all batches are drawn beforehand, and
rates lie in a table. What the steps found comes back at the checks of early stopping.

A factorisation that breaks down cannot be tried again with a ridge; such a step has no gradient (what moves the weights
is left over from earlier ones) and raises log λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from hgk.arrays import recorded, synchronise
from hgk.criteria import LeaveOneOut
from hgk.kernels import Weights
from hgk.kernels.sweeps.compiled.sweep import FusedSweep, layout_of
from hgk.optimisers.runs import LAM_BOUNDS, AdamRun, pace

if TYPE_CHECKING:
    from hgk.optimisers.steps import Steps


class RecordedRun(AdamRun):
    """A run whose parameters live where the rows are, and whose step waits for nothing."""

    def __init__(self, asked: Steps):
        super().__init__(asked)
        # double precision throughout: single saves a fifth of a step here, and cannot be decided on without waiting
        self.criterion = self.settings.criterion or LeaveOneOut()
        device = self.rows.X.device
        self.layout = layout_of(self.kernel.architecture, device)
        self.theta, self.start, self.live = (
            [t.to(device) for t in group] for group in (self.theta, self.start, self.live)
        )
        self.moments = [(m.to(device), s.to(device)) for m, s in self.moments]
        steps = range(self.settings.steps)
        self.batches = torch.from_numpy(np.stack([self.draw() for _ in steps])).to(device)
        self.paces = torch.tensor([pace(i, self.settings) for i in steps], dtype=torch.float64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.found = torch.zeros(len(steps), 2, dtype=torch.float64, device=device)  # J and log λ

    @property
    def W(self) -> Weights:
        return tuple(w.cpu() for w in self.weights)

    def _sweep(self, W: Weights, X: torch.Tensor):
        return FusedSweep(self.layout, W, self.kernel.gamma, X)

    def make(self) -> None:
        """One step, on the device alone."""
        index = self.batches.index_select(0, self.place)[0]
        value, gradient = self.gradient(self.rows[index])
        sound = torch.stack([g.isfinite().all() for g in gradient]).all()
        pace = self.paces.index_select(0, self.place)[0]
        self._update([torch.where(sound, g, 0.0) for g in gradient], pace)
        self.theta[-1].add_(torch.where(sound, 0.0, pace)).clamp_(*LAM_BOUNDS)
        self.found.index_copy_(0, self.place, torch.stack([value, self.theta[-1]])[None])
        self.place += 1

    def state(self) -> list[torch.Tensor]:
        """What a step changes."""
        return [*self.theta, *(part for pair in self.moments for part in pair), self.place, self.found]

    def advance(self) -> None:
        self.make()
        self.step += 1
        synchronise(self.rows.X.device)
        self.catch_up()

    def catch_up(self) -> None:
        """Tell what the steps since the last time found."""
        for value, log_lam in self.found[len(self.values) : self.step].tolist():
            self._tell(value, float(np.exp(log_lam)))


def run_together(runs: Sequence[RecordedRun]) -> None:
    """All steps of runs that have the same number of them, on one device."""
    if not runs:
        return
    launch, going = _record(runs), list(runs)
    first = runs[0]
    while first.step < first.settings.steps and not first.progress.cut():
        launch()
        for run in runs:
            run.step += 1
        if first.due:
            for run in runs:
                run.catch_up()
            going = [run for run in going if not run.check()]
            if not going:
                break
    for run in runs:
        run.catch_up()


def _record(runs: Sequence[RecordedRun]):
    """The graph of one step of every run; the steps made before, to compile what they need, are undone."""
    before = [[t.clone() for t in run.state()] for run in runs]
    for run in runs:
        run.make()
    synchronise(first := runs[0].rows.X.device)
    for run, kept in zip(runs, before, strict=True):
        for now, then in zip(run.state(), kept, strict=True):
            now.copy_(then)
    return recorded([run.make for run in runs], first)
