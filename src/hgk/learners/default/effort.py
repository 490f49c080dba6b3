"""How much is tried: without a budget by the number of rows, with one as much as the time buys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hgk.arrays import exact_rows, synchronise, threads
from hgk.kernels import HierarchicalKernel
from hgk.learners.default.kinds import Kind, columns_of
from hgk.learners.default.settings import Settings
from hgk.optimisers import Adam
from hgk.optimisers.recorded import RecordedRun
from hgk.optimisers.runs import AdamRun
from hgk.optimisers.steps import Steps
from hgk.progress import Progress
from hgk.search import Task


@dataclass(frozen=True)
class LearningEffort:
    """How much is tried: the first ``kinds`` kinds, steps of each and rows per step; then further ones.

    Small batches find the way at a quarter of the cost; larger ones tell more about the weights that all rows want,
    since those depend on how many rows there are. The last steps are taken by the kinds that were chosen, on all rows.
    """

    kinds: int
    steps: int
    batch: int
    more_steps: int = 0
    larger_batch: int = 0
    last_steps: int = 0
    last_batch: int = 0


ALL = 9  # kinds


def usual_effort(n: float, features: int, outputs: int = 1, settings: Settings | None = None) -> LearningEffort:
    """Without a budget. Few rows: few steps, before the criterion is overfitted. Many features: more weights to learn
    from all rows. Many outputs: a step tells more.
    """
    settings = settings or Settings()
    if settings.effort is not None:
        return settings.effort
    if n < settings.many:
        return LearningEffort(ALL, int(np.interp(n, [100, 1000, settings.many], [40, 80, 150])), 501)
    more = int(np.interp(outputs, [7, 10], settings.second_steps))
    reach = [settings.several, 2 * settings.several]
    last, rows = (int(np.interp(features, reach, ends)) for ends in (settings.last_steps, settings.last_batch))
    return LearningEffort(ALL, *settings.first, more, settings.second_batch, last, rows)


# What a budget may buy, in the order of cost: kinds, steps and rows per step of the first round; steps and rows of the
# second, and of the last one. For fewer rows the steps are cut to twice the usual ones.
FIRST = [(1, 30, 301), (1, 60, 401), (2, 60, 501), (ALL, 60, 401), (ALL, 100, 401), (ALL, 120, 501), (ALL, 150, 701)]
SECOND = [(0, 0), (20, 701), (20, 1001), (30, 1001), (40, 1001), (60, 1001), (80, 1001), (120, 1001), (120, 1501)]
SECOND += [(160, 1501), (200, 2001)]
LAST = [(0, 0), (5, 1001), (8, 1251), (10, 1501), (12, 1501), (14, 1751), (12, 2001), (20, 2001), (20, 2501)]
# Shares of the time left that rounds may take: the first where others follow, an only one, the second, the last.
SHARES = 0.4, 0.9, 0.8, 0.9
# In the plans below: operations a second of a factor; seconds for a pair of a kernel, and for a multiplication.
SPEED = 3e10
PAIR, PRODUCT = 4e-8, 3e-11


class Budget:
    """Seconds that a fit should take, and what they buy.

    The price of a step is measured on a few steps alone; that of a round then tells how much slower they are side by
    side, and the next round is planned with what is left.
    """

    def __init__(self, seconds: float, begun: float, task: Task, kinds: Sequence[Kind], rng, settings: Settings):
        self.ends, self.slowness, self.rows, self.settings = begun + seconds, 1.0, task.rows, settings
        self.usual = usual_effort(task.rows.given, columns_of(task.features), settings=settings)
        self.batch = self.usual.batch
        with threads(1):  # as the runs
            self.prices = [_seconds_per_step(kind, task, rng, self.batch, settings) for kind in kinds]
            self.pair = _seconds_per_pair(kinds, task, rng)

    def keep_for_training(self, task: Task, seconds: float) -> None:
        """For the machine: kernel matrices and a factor; centres and paths over λ take what is left."""
        n = len(task.whole)
        training = self.settings.members * self.matrix(n) / torch.get_num_threads() + n**3 / 3 / 1e11
        exact = n <= exact_rows(task.rows.X.device)
        half = 0.5 * seconds
        self.reserve = half if not task.problem.exact else min(half, training) if exact else 0.4 * seconds

    @property
    def left(self) -> float:
        """Seconds until the machine is to be trained."""
        return self.ends - self.slowness * self.reserve - time.monotonic()

    def largest(self, options: Sequence[tuple], share: float, price: Callable[..., float]) -> tuple:
        """The largest option that takes at most this share of what is left."""
        affordable = [option for option in options if self.slowness * price(*option) <= share * self.left]
        return affordable[-1] if affordable else options[0]

    def matrix(self, n: int) -> float:
        """Seconds for the kernel matrix of n rows, without the weights that hardly matter by then, about two fifths."""
        return 0.6 * self.pair * n**2 / 2

    def steps(self, steps: int, batch: int, kinds: int, folds: int = 1, workers: int = 1) -> float:
        """Seconds that so many steps of each kind take."""
        prices = self.prices[:kinds]
        each = sum(prices) * steps * _relative_cost(batch, self.batch, len(self.rows)) if steps else 0.0
        return folds * each / max(1, min(workers, folds * len(prices)))

    def judging(self, kinds: int, folds: int, workers: int) -> float:
        """Seconds for the verdicts on so many kinds, and on plain."""
        rows = min(self.settings.judge + self.settings.judged, len(self.rows))
        return folds * (1 + len(self.prices[:kinds])) * self.matrix(rows) / workers

    def learn(self, seconds: float, expected: float) -> None:
        """That a round took so long."""
        if expected > 0.02:  # below, it is mostly overhead
            self.slowness = float(np.clip(seconds / expected, 0.3, 5.0))

    # ---------------------------------------------------------------------------------------------- three rounds

    def first(self, usual: LearningEffort, folds: int, workers: int) -> LearningEffort:
        """The largest first round for a part of the time; with few rows, where it is the only one, for most of it."""
        many = self.rows.given >= self.settings.many
        options = [(kinds, steps if many else min(steps, 2 * usual.steps), batch) for kinds, steps, batch in FIRST]

        def price(kinds: int, steps: int, batch: int) -> float:
            judging = self.judging(kinds, folds, workers)
            return self.steps(steps, batch, kinds, folds, workers) + (0.35 if many else 1.0) * judging

        return LearningEffort(*self.largest(options, SHARES[0] if many else SHARES[1], price))

    def second(self, effort: LearningEffort, folds: int, workers: int) -> tuple[int, int]:
        """Steps and rows of the second round."""

        def price(steps: int, batch: int) -> float:
            return self.steps(steps, batch, effort.kinds, folds, workers) + self.judging(effort.kinds, folds, workers)

        return self.largest(SECOND, SHARES[2], price)

    def last(self, kinds: int, workers: int) -> tuple[int, int]:
        """Steps and rows of the last round."""
        return self.largest(LAST, SHARES[3], lambda steps, batch: self.steps(steps, batch, kinds, 1, workers))


def _seconds_per_step(kind: Kind, task: Task, rng, batch: int, settings: Settings) -> float:
    """The faster of two steps, after one that fills the buffers."""
    architecture = kind.build(task.features)
    kernel = HierarchicalKernel(architecture, architecture.start(task.rows.spread, rng))
    steps = Steps(Adam(batch=batch), kernel, task.rows, rng, Progress(), often=task.rows.given >= settings.few)
    # a recorded step, without the recording: an upper bound
    run, seconds = steps.begin(RecordedRun if steps.recordable else AdamRun), []
    for _ in range(3):
        start = time.perf_counter()
        run.advance()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def _seconds_per_pair(kinds: Sequence[Kind], task: Task, rng) -> float:
    """Of the first kind's kernel, in single precision, by the faster of two blocks of rows."""
    if not kinds:
        return 1e-8
    architecture, X, seconds = kinds[0].build(task.features), task.rows.X[:1000].float(), []
    kernel = HierarchicalKernel(architecture, architecture.start(task.rows.spread, rng))
    for _ in range(2):
        start = time.perf_counter()
        kernel.matrix(X[:200], X)
        synchronise(X.device)
        seconds.append(time.perf_counter() - start)
    return min(seconds) / (len(X[:200]) * len(X))


def _relative_cost(batch: int, usual: int, n: int) -> float:
    """Of a step: pairs grow with the square of the batch, the factor with its cube."""
    return (min(batch, n) / min(usual, n)) ** 2.2


def centres_for(n: int, seconds: float | None, memory: float = float("inf"), most: int = 5_000) -> int:
    """M such that the rows pass in about this time (three minutes, if there is no budget), and that seven matrices of
    M² numbers and a block of rows have room:

        seconds = n (p M + q M²),      p for a pair of the kernel, q for a multiplication of H.
    """
    seconds = 180.0 if seconds is None else max(1.0, seconds)
    p, q = PAIR, PRODUCT
    M = (-p + (p**2 + 4 * q * seconds / n) ** 0.5) / (2 * q)
    return int(min(n // 2, most, max(300, M), max(100, (0.75 * memory / 56) ** 0.5)))
