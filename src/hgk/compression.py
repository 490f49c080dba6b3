"""The same model on fewer rows.

A part of the rows has no say: a machine g like the model's, trained without them, is compressed to g_C on more and more
centres, until the error of g_C on these rows is hardly larger than that of g. Then f is compressed to as large a share
of all rows. Where there is no such g at hand, with losses other than least squares and the logistic one and on centres,
g is f. It has seen these rows, and f_C has not, so that the difference of their errors is rather too large.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hgk.arrays import require_memory
from hgk.events import CompressedTo
from hgk.machines import Compression, Exact, Machine, OfClasses, Rows, Sum, train, train_classes
from hgk.model import Model
from hgk.targets import Classes, Quantiles, Target

# Rows that have no say: a share of all, and at most so many.
SHARE_JUDGED, MOST_JUDGED = 0.2, 2000
# What their weights amount to below which nothing is decided.
FEWEST_EFFECTIVE = 20
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
            f"A model whose machine is {type(machine).__name__} was given to compress, which takes a sum of one kernel "
            "over one set of rows; a model in leaves looks at one leaf of each partition already, so save it as it is."
        )
    model = replace(model, target=model.calibrated, memo={})
    rng = np.random.default_rng(0)
    rows = training.rows[torch.from_numpy(rng.permutation(len(training.rows))[:MOST_ROWS])]
    require_memory(len(rows), min(len(rows), len(machine.X)) // 2, 4, torch.float64, "Compression")
    there, share, before, after = _judged(model, machine, rows, tolerance, rng)
    if share < 1:
        centres = Compression(machine.kernel, rows.X, machine(rows.X), rows.weight, rng)
        *_, _ = centres.blocks(min(int(np.ceil(share * len(rows))), len(machine.X)))
        small = replace(model, machine=centres.compressed(machine), training=None, memo={})
    else:
        small = model.compact()
    risk, (more, spread) = there.mean(before)[0], there.mean(after - before)
    kept, of = len(small.machine.X), len(machine.X)
    told = CompressedTo(kept=kept, of=of, rows=len(there), before=risk, after=risk + more, spread=spread)
    return replace(small, history=(*model.history, told))


def _judged(
    model: Model, machine: Sum, rows: Rows, tolerance: float, rng: np.random.Generator
) -> tuple[Rows, float, torch.Tensor, torch.Tensor]:
    """The rows that had no say, the share of the others that are centres (1: too many), and losses before and after."""
    judged, clip = torch.arange(min(MOST_JUDGED, max(1, int(SHARE_JUDGED * len(rows))))), machine.clip
    others, there = len(rows) - len(judged), rows[judged]
    g = _without(model, rows[len(judged) :]) or machine
    before = _losses(model.target, g(there.X), clip, there)
    trial = Compression(machine.kernel, rows.X, g(rows.X), rows.weight.index_fill(0, judged, 0.0), rng)
    most = int(min(MOST_CENTRES * others, len(machine.X) // 2)) if there.size >= FEWEST_EFFECTIVE else 0
    for t in trial.blocks(most):
        losses = _losses(model.target, t[judged], clip, there)
        if there.mean(losses - before)[0] <= tolerance * there.mean(before)[0]:
            return there, len(trial.index) / others, before, losses
    return there, 1.0, before, before


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
