"""Every number that the default learner rests on, in one place.

Why they are what they are: docs/experiments/default.md. ``experiments/default/ablate.py`` varies them by
``dataclasses.replace``, and ``Default(settings)`` learns with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hgk.learners.default.kinds import KINDS, Kind

if TYPE_CHECKING:
    import torch

    from hgk.learners.default.effort import LearningEffort
    from hgk.targets import Refinement, Target


def of_the_target(target: Target, Y: torch.Tensor, given: float) -> Sequence[Refinement]:
    return target.refinements(Y, given)


@dataclass(frozen=True)
class Settings:
    """What is tried, how hard, and who judges it."""

    kinds: tuple[Kind, ...] = KINDS
    # How much is tried without a budget; None: by the numbers of rows, features and outputs.
    effort: LearningEffort | None = None
    # Then, from ``many`` rows: steps and rows per step of the first round; steps of the second with few and with many
    # outputs, and its rows per step; steps and rows per step of the last, each with few and with many features.
    first: tuple[int, int] = (100, 401)
    second_steps: tuple[int, int] = (40, 25)
    second_batch: int = 1001
    last_steps: tuple[int, int] = (8, 20)
    last_batch: tuple[int, int] = (1251, 2001)

    # Folds that are set aside in turn, with few rows and with more.
    aside: tuple[int, int] = (3, 2)
    # Rows: below ``fewest`` nothing but λ and γ is learned; below ``few`` more folds are set aside; from ``many`` there
    # is a second round of larger batches, and a last one on all rows.
    fewest: int = 50
    few: int = 1000
    many: int = 3000
    # Features, without steps, from which there is more to learn: further last steps, and the kind "oblique".
    several: int = 32

    # A kind is judged by a machine on at most so many rows, at most so many held-out ones, at so many λ.
    judge: int = 2_000
    judged: int = 3_000
    judged_lams: int = 16
    # Rows that early stopping watches; rows seen, and as many set aside, by which optimism is measured.
    watched: int = 500
    seen: int = 1000
    # More rows want a narrower kernel: the best γ goes as n^-e, with e > 0 where detail is still to be had from more
    # rows. The e that are tried, where a judge has so many times the rows of a batch.
    narrowing: tuple[float, ...] = (0.0, 1 / 6)
    more_rows: float = 1.5
    # Outputs beyond which a factor for each λ is cheaper than a Krylov space for each output.
    outputs: int = 3
    # Rows on which the plain kernel's width is chosen, and with many outputs.
    plain_rows: int = 1500
    plain_rows_of_many_outputs: int = 1000
    # Rows squared times outputs up to which a grid over all folds takes seconds.
    grid: float = 5e7

    # How much log K may change when weights that hardly matter are dropped; a tenth of it between rounds.
    pruning: float = 0.01
    # Kinds averaged at most: each costs a kernel matrix of all rows, and time in every prediction.
    members: int = 3
    # Trees for what the chosen ones leave, and rows whose residuals they see, at most.
    remainders: int = 2
    remainder_rows: int = 20_000
    # Other ways to treat labels, which are compared with the labels as they are; rows from which a label of two values
    # has a power.
    refinements: Callable[[Target, torch.Tensor, float], Sequence[Refinement]] = of_the_target
    sharpened: int = 3000

    # Of classes, by the logistic loss: steps and rows per step, and their peak rate.
    logistic_steps: tuple[int, int] = (20, 1001)
    logistic_rate: float = 0.1

    # Peak rates of the three rounds, and the penalty on linear maps.
    rates: tuple[float, float, float] = (0.3, 0.2, 0.03)
    map_penalty: float = 0.1

    # Different rows beyond which leaves are tried. Where a machine on all rows is exact, these shares of them are the
    # sizes of leaves to choose from, beyond these numbers of rows; then steps of a node and their rate, with an exact
    # machine and beyond, and rows per step: a quarter of a leaf, and at least so many.
    divided: int = 10_000
    leaf_shares: tuple[float, ...] = (0.5,)
    leaf_rows: tuple[int, ...] = (1000, 2000, 4000)
    leaf_steps: tuple[int, int] = (8, 5)
    leaf_rates: tuple[float, float] = (0.05, 0.2)
    leaf_batch: int = 501
    # Leaves are judged in so many branches of so many rows.
    branches: int = 4
    branch_rows: int = 8_000
    # Partitions that are averaged: at most and at least so many, and so many rows in all in between.
    partitions: tuple[int, int] = (4, 2)
    partitioned: float = 1e6
    # Standard errors by which leaves have to be better than a machine on all rows.
    leaf_margin: float = 0.0
    # A smaller share of the machine on all rows is none: it takes time in every prediction.
    least_share: float = 0.15
    # With another loss than least squares: rows of a leaf at most, and partitions.
    leaf_of_loss: int = 1_000
    partitions_of_loss: int = 2
    # Centres of that machine where it is not exact, and rows by which it is judged.
    centres_beside: int = 1_000
    beside: int = 50_000

    # Centres beyond the rows of an exact machine: at most so many, and rows that choose λ among these multiples.
    centres: int = 5_000
    rows_for_lam: int = 20_000
    lams_around: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
