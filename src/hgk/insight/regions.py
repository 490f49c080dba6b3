"""Where which column matters: the first partition of a model in leaves, as a tree of its upper splits.

For a region of rows, a node of that tree:

    mixes     which columns its split combines: a_f² var(x_f), summed over the features f of a column, as shares
    columns   the share of the exponent that columns carry in the leaves below it
    error     the mean squared error of leaving one out, of labels scaled to [-1, 1], over its rows
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hgk.insight.fitted import Estimator, column_names, left_out, require_model, training_of
from hgk.machines import InLeaves

# Splits below each other that are told, leaves of a region whose importances are averaged, and rows of each.
DEPTH, LEAVES_SEEN, ROWS_SEEN = 3, 4, 100


@dataclass(frozen=True)
class Region:
    """Rows that lie together: where they begin and end when leaf follows leaf, and what is known of them."""

    depth: int
    start: int
    stop: int
    leaves: int
    error: float
    columns: dict[str, float]
    mixes: dict[str, float]

    @property
    def rows(self) -> int:
        return self.stop - self.start


def regions(model: Estimator, depth: int = DEPTH) -> list[Region]:
    """The regions of the first partition, from the top, left first; none where the model has no leaves.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import regions
    >>> regions(HGKRegressor("plain").fit(*make_friedman1(30, random_state=0)))
    []
    """
    require_model(model)
    machines = [machine for machine in model.machine_.parts_of() if isinstance(machine, InLeaves)]
    if not machines:
        return []
    rows = training_of(model).rows
    losses = ((left_out(model) - rows.Y) ** 2).sum(1)
    told = list[Region]()
    waiting = [(0, machines[0].partition.top)]
    while waiting:
        level, node = waiting.pop()
        told.append(_region(model, machines[0], level, node, losses, rows.weight))
        if node >= 0 and level < depth:
            left, right = machines[0].partition.children[node].tolist()
            waiting += [(level + 1, right), (level + 1, left)]
    return told


def _region(
    model: Estimator, machine: InLeaves, level: int, node: int, losses: torch.Tensor, weight: torch.Tensor
) -> Region:
    parts = machine.partition
    (first, last), members = parts.span(node), parts.members(node)
    start, stop = int(parts.ends[first]), int(parts.ends[last])
    error = float(weight[members] @ losses[members] / weight[members].sum()) if len(members) else float("nan")
    mixes = np.zeros(machine.X.shape[1])
    if node >= 0 and len(members) > 1:
        sample = machine.X[members[:: max(1, len(members) // 1000)]].double()
        mixes = (parts.directions[node] ** 2 * sample.var(0)).numpy()
    shares = _shares(machine, first, last)
    return Region(level, start, stop, last - first, error, _by_column(model, shares), _by_column(model, mixes))


def _shares(machine: InLeaves, first: int, last: int) -> np.ndarray:
    """Of the exponent, by feature: the mean over some leaves."""
    filled = [leaf for leaf in range(first, last) if len(machine.partition.rows(leaf))]
    looked_at = filled[:: -(-len(filled) // LEAVES_SEEN)] if filled else []
    total = np.zeros(machine.X.shape[1])
    for leaf in looked_at:
        rows = machine.partition.rows(leaf)
        sample = machine.X[rows[:: -(-len(rows) // ROWS_SEEN)]].double()
        total += machine.kernel_of(leaf).relevance(sample) / len(looked_at)
    return total


def _by_column(model: Estimator, values: np.ndarray) -> dict[str, float]:
    """Shares of columns, the largest first."""
    names, owner = column_names(model), model.model_.inputs.encoder.owner
    sums = np.bincount(owner, weights=values, minlength=len(names))
    order = np.argsort(-sums, kind="stable")
    return {names[j]: float(sums[j] / sums.sum()) for j in order if sums[j] > 0}
