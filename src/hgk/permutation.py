"""How much worse predictions of unseen rows become when columns are permuted.

With f^(-i), the function that has not seen row i, and x_i' the row i with the cells of column j of another row,

    importance of j  =  Σ_i s_i (L(y_i, f^(-i)(x_i')) - L(y_i, f^(-i)(x_i))) / Σ_i s_i min_t L(y_i, t)

where L is the squared error of labels, the loss that a regression was fitted by, or the log-loss of classes. All
features of a column move together: its copies, steps, indicators and the mark of missing cells. Several columns that
form a group move together, too.

The rows lie in random order on a circle, each as long as its weight, and each takes the cells of the row that lies a
random distance ahead. So a row of weight 2 is two rows, no row takes its own cells, and with equal weights every row
gives its cells once. Equal rows are left out together: a function that keeps one of them has seen the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import cast

import numpy as np
import torch

from hgk.arrays import device_of, on_device, single_blas, threads_for
from hgk.importance import Importance
from hgk.losses import LeastSquares, Loss
from hgk.machines import OfLoss, Rows, WithoutOwn
from hgk.model import AT_REST, Model
from hgk.search import Convex
from hgk.targets import Classes

# Pairs of a permuted row and a training row, rows that f is taken to sum over at most, and permuted rows at most: about
# a second of kernel values on two cores.
PERMUTED_PAIRS, SUMMED, PERMUTED = 2e8, 10_000, 60_000
# Permutations of a column, and rows that they are judged by.
FEWEST_REPEATS, MOST_REPEATS, FEWEST_ROWS = 3, 10, 100
# Probabilities that are smaller count as this.
LEAST_PROBABILITY = 1e-15
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False)
class Scored:
    """The loss that predictions are judged by.

    Attributes
    ----------
    measure : str
    scores : callable
        From values of a machine to labels as they are scaled, or to logarithms of probabilities.
    losses : callable
        L(y, scores) for rows of labels and of scores, which need not be those of a distribution.
    of_best_constant : float
    """

    measure: str
    scores: Callable[[torch.Tensor], torch.Tensor]
    losses: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    of_best_constant: float

    @classmethod
    def of(cls, model: Model) -> Scored:
        rows, target = model.need_training("The importance of columns needs").rows, model.calibrated
        share = rows.weight / rows.weight.sum()
        if isinstance(target, Classes):
            frequency = (share @ indicators(rows.Y)).clamp_min(LEAST_PROBABILITY)
            return cls("log-loss", partial(_logarithms, target), _log_loss, -float(frequency @ frequency.log()))
        loss = getattr(model.machine.parts_of()[0], "loss", None) or LeastSquares()

        def losses(Y: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            return loss.value(Y, scores).sum(1)

        name = "mean squared error" if isinstance(loss, LeastSquares) else f"{loss.name.replace('_', '-')} loss"
        return cls(name, target.decode, losses, best_constant(loss, loss.spread(rows.Y), share))


def indicators(Y: torch.Tensor) -> torch.Tensor:
    """1 for the class of a row, one column per class, from labels ±1."""
    return (torch.cat([-Y, Y], 1) if Y.shape[1] == 1 else Y).gt(0).double()


def _logarithms(target: Classes, t: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(target.probabilities(t)).clamp_min(LEAST_PROBABILITY).log()


def _log_loss(Y: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return -(indicators(Y) * torch.log_softmax(scores, 1)).sum(1)


def best_constant(loss: Loss, Y: torch.Tensor, share: torch.Tensor) -> float:
    """Σ over columns of min_t Σ_i share_i L(y_i, t), by golden sections: it is convex in t."""

    def total(t: torch.Tensor) -> torch.Tensor:
        return share @ loss.value(Y, t.expand_as(Y))

    low, high = Y.min(0).values, Y.max(0).values
    for _ in range(60):
        width = GOLDEN * (high - low)
        left, right = high - width, low + width
        nearer = total(left) < total(right)
        low, high = torch.where(nearer, low, left), torch.where(nearer, right, high)
    return float(total((low + high) / 2).sum())


def without_own(model: Model, index: torch.Tensor, coarse: bool = False) -> WithoutOwn:
    """A function that gives f^(-i)(x), clipped, for rows x and the place in ``index`` of a training row i for each.

    A row leaves with all its repetitions: a function that keeps some of them has seen it. ``coarse`` allows roundings
    that means over many rows do not show. With another loss than least squares, see
    :meth:`hgk.machines.of_loss.ByFolds.without_own`.
    """
    rows = replace(model.need_training("Functions without single rows need").rows, count=None)
    device, clip, n = device_of(model.device), model.machine.clip, len(rows)
    with threads_for(n, device), on_device(n, device):
        there = model.machine.to(device).without_own(model.columns(rows).to(device), index.to(device), coarse)

    def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        with threads_for(isqrt(n * max(1, len(X))), device), on_device(len(X), device):
            return there(X.to(device), place.to(device)).clamp(-clip, clip).to(AT_REST)

    return own


@dataclass(frozen=True, eq=False)
class Unseen:
    """Some training rows, and f^(-i) for each of them."""

    index: torch.Tensor
    rows: Rows
    values: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    @classmethod
    def of(cls, model: Model, most: int, rng: np.random.Generator) -> Unseen:
        """At most so many, of those that some function has not seen."""
        rows = model.need_training("The importance of columns needs").rows
        known, machine = np.arange(len(rows)), model.machine
        folds = FoldMachines.of(model) if isinstance(machine, OfLoss) else None
        if folds is not None and bool(folds.without.any()):
            known = np.flatnonzero(folds.without.any(1).numpy())
        elif machine.held_out is not None:  # a fit that was stopped early has not held out all rows
            known, folds = np.flatnonzero(model.leave_one_out().isfinite().all(1).numpy()), None
        index = torch.from_numpy(np.sort(rng.permutation(known)[:most]))
        values = without_own(model, index, coarse=True) if folds is None else partial(folds.values, index)
        return cls(index, replace(rows[index], count=None), values)

    def at(self, features: torch.Tensor) -> torch.Tensor:
        """f^(-i)(x) for features (…, rows i, features), of shape (…, rows i, outputs)."""
        flat = features.reshape(-1, features.shape[-1])
        place = torch.arange(len(self.index)).repeat(len(flat) // len(self.index))
        return self.values(flat, place).reshape(*features.shape[:-1], -1)


@dataclass(frozen=True, eq=False)
class FoldMachines:
    """The machines of another loss than least squares that were trained without one fold each, trained once more.

    Attributes
    ----------
    machine : OfLoss
        Their mean, which does not keep them.
    alpha : tensor of shape (rows, folds, outputs)
    without : tensor of shape (rows, folds)
        Which rows a fold's machine has not seen.
    """

    machine: OfLoss
    alpha: torch.Tensor
    without: torch.Tensor

    @classmethod
    def of(cls, model: Model) -> FoldMachines:
        machine, rows = cast(OfLoss, model.machine), model.columns(model.need_training("FoldMachines need").rows)
        K, solved = machine.kernel.matrix(rows.X), Convex(cast(Loss, machine.loss))
        alpha = torch.zeros(len(rows), len(machine.parts), machine.outputs, dtype=torch.float64)
        without = torch.ones(len(rows), len(machine.parts), dtype=torch.bool)
        with threads_for(len(rows)), single_blas():
            for fold, part in enumerate(machine.parts):
                of_part = K[part[:, None], part], rows.Y[part], rows.weight[part]
                alpha[part, fold] = solved.solve(*of_part, machine.lams, start=machine.alpha[part])[0]
                without[part, fold] = False
        return cls(machine, alpha, without)

    def values(self, index: torch.Tensor, X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """The mean, clipped, of the machines that have not seen the row of a place in ``index``."""
        t = self.machine.kernel.multiply(X, self.machine.X, self.alpha.flatten(1), often=True)
        share = self.without[index][place].to(t)
        mean = (share[:, :, None] * t.reshape(len(X), *self.alpha.shape[1:])).sum(1) / share.sum(1, keepdim=True)
        return mean.clamp(-self.machine.clip, self.machine.clip)


def permutation_importance(
    model: Model,
    groups: Sequence[Sequence[int]] | None = None,
    names: Sequence[str] | None = None,
    repeats: int | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> Importance:
    """The importance of columns, or of groups of columns by their numbers; ``rows`` and ``repeats`` have bounds that
    keep the work to seconds.
    """
    if groups is None:
        groups, names = [[j] for j in range(len(model.inputs.columns))], model.inputs.reader.names
    given = model.need_training("The importance of columns needs").rows
    most, many = _effort(len(given), len(groups))
    rng = np.random.default_rng(seed)
    judge, unseen = Scored.of(model), Unseen.of(model, rows or most, rng)
    owner, before = model.inputs.encoder.owner, judge.losses(unseen.rows.Y, judge.scores(unseen.at(unseen.rows.X)))
    features = [np.flatnonzero(np.isin(owner, columns)) for columns in groups]
    total = torch.zeros(len(groups), len(before), dtype=torch.float64)
    means = np.empty((repeats or many, len(groups)))
    for repeat in range(len(means)):
        for g, of_group in enumerate(features):
            moved = unseen.rows.X.clone()
            moved[:, of_group] = given.X[donors(given.weight.numpy(), rng)][unseen.index][:, of_group]
            more = judge.losses(unseen.rows.Y, judge.scores(unseen.at(moved))) - before
            total[g] += more / len(means)
            means[repeat, g] = unseen.rows.mean(more)[0]
    unit, (base, _) = judge.of_best_constant or 1.0, unseen.rows.mean(before)
    errors = np.array([unseen.rows.mean(more)[1] for more in total])
    said, optimism = tuple(map(str, names or ())), max(0.0, model.optimism - 1) * base / len(model.inputs.columns)
    return Importance(said, means / unit, errors / unit, base / unit, judge.measure, len(unseen.index), optimism / unit)


def _effort(n: int, columns: int) -> tuple[int, int]:
    """Rows and repeats."""
    of_column = min(PERMUTED, PERMUTED_PAIRS / min(n, SUMMED)) / columns
    repeats = int(np.clip(of_column / n, FEWEST_REPEATS, MOST_REPEATS))
    return max(FEWEST_ROWS, int(of_column / repeats)), repeats


def donors(weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For every row the row whose cells it takes."""
    order = rng.permutation(len(weight))
    ends, longest = weight[order].cumsum(), weight.max()
    shift = rng.uniform(longest, max(longest, ends[-1] - longest))
    places = np.searchsorted(ends, (ends - weight[order] / 2 + shift) % ends[-1], side="right")
    taken = np.empty_like(order)
    taken[order] = order[np.minimum(places, len(order) - 1)]
    return taken
