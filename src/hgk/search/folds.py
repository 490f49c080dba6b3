"""Splits of the rows: folds, which divide repetitions, and the paper's three parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hgk.machines import Rows

FOLDS = 5


def three_parts(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The paper's D1, D2, D3: 44.44 %, 22.22 % and 33.33 % of the rows, at random."""
    order = rng.permutation(n)
    ends = round(n * 4 / 9), round(n * 6 / 9)
    D1, D2, D3 = np.split(order, ends)
    return D1, D2, D3


def fold_numbers(n: int, folds: int, rng: np.random.Generator, strata: np.ndarray | None = None) -> np.ndarray:
    """The fold in which each row is held out; sizes differ by at most one, per stratum if there are any."""
    return divide(np.ones(n), folds, rng, strata).fold_of


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows divided among folds: a piece holds those repetitions of one row that are held out together.

    Rows that were given once are one piece each. ``origin`` is the row that a piece is of, ``share`` how many of its
    repetitions it holds.
    """

    origin: np.ndarray
    fold_of: np.ndarray
    share: np.ndarray

    def of(self, rows: Rows) -> Rows:
        index, share = torch.from_numpy(self.origin), torch.from_numpy(self.share)
        if len(index) == len(rows):
            return rows
        return rows.portion(index, rows.weight[index] * share.to(rows.weight.device))


# Repetitions that are dealt out one by one, over all rows; beyond, in equal portions.
DEALT = 2_000_000


def divide(
    count: np.ndarray,
    folds: int,
    rng: np.random.Generator,
    strata: np.ndarray | None = None,
    most: float = float("inf"),
) -> Pieces:
    """Deal the repetitions of all rows out to the folds at random; sizes differ by at most one, per stratum if any.

    Those of one row are shuffled among all others: dealt out evenly, every fold would repeat the frequencies that the
    other folds have, and a held-out error would be that of the training rows. A row with more than ``most`` repetitions
    is dealt out in so many equal portions.
    """
    portions = np.minimum(count, min(most, max(folds, DEALT // len(count)))).astype(np.int64)
    row = np.repeat(np.arange(len(count)), portions)
    fold_of = np.empty(len(row), dtype=np.int64)
    fold_of[shuffled(len(row), rng, None if strata is None else strata[row])] = np.arange(len(row)) % folds
    dealt = np.bincount(row * folds + fold_of, minlength=len(count) * folds).reshape(-1, folds)
    origin, fold_of = np.nonzero(dealt)
    return Pieces(origin, fold_of, dealt[origin, fold_of] / portions[origin])


def shuffled(n: int, rng: np.random.Generator, strata: np.ndarray | None = None) -> np.ndarray:
    """Rows in random order; those of a stratum, if there are any, one after the other, so that every fold has some."""
    order = rng.permutation(n)
    return order if strata is None else order[np.argsort(strata[order], kind="stable")]
