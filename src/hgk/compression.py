"""The same model on fewer rows.

A part of the rows has no say: a machine g like the model's, trained without them, is compressed to g_C on more and more
centres, until the error of g_C on these rows is hardly larger than that of g. Then f is compressed to as large a share
of all rows. Where there is no such g at hand, with losses other than least squares and the logistic one and on centres,
g is f, and its error is that of predictions without single rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hgk.events import CompressedTo
from hgk.machines import Compression, Exact, Machine, OfClasses, Rows, Sum, train, train_classes
from hgk.model import Model
from hgk.targets import Classes, Quantiles, Target

# Rows that have no say: a share of all, and at most so many.
SHARE_JUDGED, MOST_JUDGED = 0.2, 2000
# Rows that centres are chosen from, at most.
MOST_ROWS = 20_000
# The share of the rows beyond which there is nothing to win.
MOST_CENTRES = 0.5


def compressed(model: Model, tolerance: float) -> Model:
    """The model on as few centres as make its error on rows that have no say at most (1 + tolerance) times as large.

    All rows are kept where half of them do not suffice.
    """
    training, machine = model.need_training("Compression needs"), model.machine
    if not (isinstance(machine, Sum) and machine.compressible):
        raise ValueError(
            f"A model whose machine is {type(machine).__name__} was given to compress, which takes a sum over one set "
            "of rows; a model in leaves looks at one leaf of each partition already, so save it as it is."
        )
    rng, clip = np.random.default_rng(0), machine.clip
    model = replace(model, target=model.calibrated, memo={})
    index = torch.from_numpy(rng.permutation(len(training.rows))[:MOST_ROWS])
    rows, judged = training.rows[index], torch.arange(min(MOST_JUDGED, max(1, int(SHARE_JUDGED * len(index)))))
    g = _without(model, rows[len(judged) :])
    there, t_0 = rows[judged], g(rows.X[judged]) if g else model.leave_one_out()[index[judged]]
    known = t_0.isfinite().all(1)  # a fit that was stopped early has not held out all rows
    there, before = there[known], _losses(model.target, t_0[known], clip, there[known])

    def share_and_losses() -> tuple[float, torch.Tensor]:
        trial = Compression(machine.kernel, rows.X, (g or machine)(rows.X), rows.weight.index_fill(0, judged, 0.0), rng)
        others = len(rows) - len(judged)
        for t in trial.blocks(int(MOST_CENTRES * others)):
            losses = _losses(model.target, t[judged][known], clip, there)
            if there.mean(losses - before)[0] <= tolerance * there.mean(before)[0]:
                return len(trial.index) / others, losses
        return 1.0, before

    share, after = share_and_losses()
    if share < 1:
        centres = Compression(machine.kernel, rows.X, machine(rows.X), rows.weight, rng)
        *_, _ = centres.blocks(int(np.ceil(share * len(rows))))
        small = replace(model, machine=centres.compressed(machine), training=None, memo={})
    else:
        small = model.compact()
    risk, (more, spread) = there.mean(before)[0], there.mean(after - before)
    told = CompressedTo(
        kept=len(small.machine.X),
        of=len(training.rows),
        rows=len(there),
        before=risk,
        after=risk + more,
        spread=spread,
    )
    return replace(small, history=(*model.history, told))


def _without(model: Model, rows: Rows) -> Machine | None:
    """A machine like the model's on these rows alone; nλ is the same."""
    machine, all_rows = model.machine, model.need_training("Compression needs").rows
    lam = machine.lam * float(all_rows.weight.sum() / rows.weight.sum())
    if isinstance(machine, Exact):
        return train(machine.kernel, model.columns(rows), lam)
    if isinstance(machine, OfClasses):
        return train_classes(machine.kernel, model.columns(rows), lam)
    return None


def _losses(target: Target, t: torch.Tensor, clip: float, rows: Rows) -> torch.Tensor:
    """Row by row: of classes the log-loss, of quantiles the pinball loss, else the squared error of scaled labels."""
    t = t.clamp(-clip, clip)
    if isinstance(target, Classes):
        p, number = target.probabilities(t), (rows.Y[:, 0] > 0).long() if target.single else rows.Y.argmax(1)
        return -torch.from_numpy(p).gather(1, number[:, None])[:, 0].clamp_min(1e-300).log()
    r = rows.Y - target.decode(t)
    if isinstance(target, Quantiles):
        levels = torch.from_numpy(target.levels)
        return torch.maximum(levels * r, (levels - 1) * r).mean(1)
    return (r**2).sum(1)
