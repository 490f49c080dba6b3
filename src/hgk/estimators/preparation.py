"""From checked columns to a learner's task: reading, merging, encoding, folds; and who does the work."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from joblib import effective_n_jobs

from hgk.arrays import device_of, exact_rows, require_memory
from hgk.estimators import checks
from hgk.executor import Executor, SideBySide, Threads
from hgk.inputs import (
    DateForm,
    Encoder,
    Feature,
    Inputs,
    Marks,
    Merged,
    Reader,
    column_remarks,
    merge_rows,
    read_columns,
)
from hgk.kernels import Kernel
from hgk.learners import Learner
from hgk.losses import Loss
from hgk.machines import Rows
from hgk.model import AT_REST
from hgk.search import FOLDS, Task, divide, lam_grid, problem_for
from hgk.targets import Target

# Copies of a table while its equal rows are found and its columns are learned.
MERGED = 6
# Rows from which columns get steps: few do not carry a warp.
STEPPED = 1000
# Double-precision n x n matrices that a fit holds with another loss than least squares, whose paths keep coefficients.
OF_LOSS = 5

_log = logging.getLogger("hgk")


@dataclass(frozen=True, eq=False)
class Prepared:
    """How tables are turned into features, the distinct rows, features of those without weight, and remarks."""

    inputs: Inputs
    merged: Merged
    left_out: np.ndarray
    remarks: list[str]

    @property
    def rows(self) -> Rows:
        merged = self.merged
        return Rows(*map(torch.from_numpy, (self.inputs.encoder(merged.X), merged.y, merged.weight, merged.count)))


def prepare_table(
    columns: Sequence[np.ndarray],
    names: Sequence[str],
    Y: np.ndarray,
    weight: np.ndarray,
    count: np.ndarray,
    learner: Learner,
    kernel: Kernel | None = None,
    steps: bool = True,
    marks: Mapping[str, Marks | DateForm] | None = None,
) -> Prepared:
    """Read, merge and encode; a given ``kernel`` brings its inputs, or takes the columns as they are.

    ``steps`` allows for steps of columns, where the learner has a use for them.
    """
    given, remarks = inputs_of(kernel), list[str]()
    if given is None:
        reader, remarks = read_columns(columns, names, marks)
    else:
        reader = given.reader
    require_memory(len(Y), len(columns) + Y.shape[1], MERGED, torch.float64, "A table whose equal rows are merged")
    table = reader(columns)
    merged = merge_rows(table, Y, weight, count)
    checks.enough_rows(merged.X)
    remarks += column_remarks(merged.X, reader.names)
    if given is not None:
        encoder = given.encoder
    elif kernel is not None:
        encoder = Encoder.identity(reader)
    else:
        encoder, told = _encoder(merged, reader, learner, steps)
        remarks += told
    require_memory(len(merged.X), len(encoder.features), 3, torch.float64, "A table of features")
    return Prepared(Inputs(encoder.columns), merged, encoder(table[merged.place < 0]), remarks)


def inputs_of(kernel: Kernel | None) -> Inputs | None:
    """What a kernel that was learned by an estimator brings along."""
    inputs = None if kernel is None else kernel.inputs
    return inputs if isinstance(inputs, Inputs) else None


def _encoder(merged: Merged, reader: Reader, learner: Learner, steps: bool) -> tuple[Encoder, list[str]]:
    steps = steps and learner.steps and merged.count.sum() >= STEPPED and len(merged.X) <= exact_rows(AT_REST)
    weight = merged.weight * (merged.count.sum() / merged.weight.sum())  # as many as rows were given
    encoder = Encoder.of(merged.X, weight, reader, learner.ranks, learner.robust, steps)
    return encoder, encoder.remarks(weight)


def task_of(
    rows: Rows, target: Target, loss: Loss, features: tuple[Feature, ...], lam: float | None, rng: np.random.Generator
) -> Task:
    """Repetitions of a row go to all folds; in fewer pieces, if there would be too many for a kernel matrix of all."""
    count, problem = rows.repetitions.cpu().numpy(), problem_for(loss, target)
    limit = exact_rows(rows.X.device if problem.exact else AT_REST)
    most = limit if len(rows) <= limit else float("inf")
    folds, strata = min(FOLDS, int(rows.given)), target.strata(rows.Y.cpu().numpy())
    for portions in (float("inf"), 2, 1):
        pieces = divide(count, folds, rng, strata, portions)
        if len(pieces.origin) <= most:
            break
    lams = lam_grid(rows.size) if lam is None else np.array([float(lam)])
    task = Task(pieces.of(rows), pieces.fold_of, lams, target, features, problem)
    divided = len(pieces.origin) > len(rows)
    return replace(task, distinct=rows, origin=torch.from_numpy(pieces.origin)) if divided else task


def device_for(name: str, rows: Rows, target: Target, loss: Loss, learner: Learner) -> torch.device:
    """Where a fit is computed: other losses than least squares are solved in main memory, so that leaves of theirs are
    grown there.
    """
    in_leaves = learner.any_loss_in_leaves and len(rows) > exact_rows(AT_REST)
    return AT_REST if in_leaves and not problem_for(loss, target).exact else device_of(name)


def executor_for(device: str | torch.device, n_jobs: int | None, learner: Learner) -> Executor:
    """``n_jobs`` workers; None is one, or as many as torch has threads for a learner that does not use them itself."""
    if device_of(device) != AT_REST:
        return SideBySide()  # the device does one thing after another
    if n_jobs is None and learner.in_small_steps:
        return Threads(torch.get_num_threads())
    return Threads(effective_n_jobs(1 if n_jobs is None else n_jobs))


def check_size(learner: Learner, task: Task, executor: Executor) -> None:
    """Say before working that the kernel matrix does not fit, or that there will be none."""
    n, loss = len(task.rows), type(task.problem.loss).__name__
    if not task.problem.exact:  # these solvers work in main memory
        in_leaves = learner.any_loss_in_leaves and task.rows.X.device == AT_REST
        if n > (most := exact_rows(AT_REST)) and not in_leaves:
            raise ValueError(
                f"{n} different rows were given with the loss {loss}, which is solved on kernel matrices of at most "
                f"{most} rows, unless the default preset divides the rows on a CPU; take that, give a sample of the "
                "rows, or take loss='least_squares'."
            )
        if n <= most:  # beyond, the matrices are those of small leaves
            require_memory(n, n, OF_LOSS, torch.float64, "A fit with this loss on kernel matrices", AT_REST)
    learner.check_size(task, executor.workers)
    if n > (most := exact_rows(task.rows.X.device)):
        _log.info("%d rows are more than the exact machine takes (%d); using leaves, or centres.", n, most)
