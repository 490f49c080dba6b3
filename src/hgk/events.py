"""What a fit tells: one small class for each thing that happens, handed to callbacks and kept in ``history_``.

``candidate`` is the kind of tree, ``architecture`` the number of the tree among several, ``fold`` the fold that was
held out, where an event is about one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from hgk.storable import expect, storable

# A number, None where there is none or where it is not finite.
Number = float | None
SomeEvent = TypeVar("SomeEvent", bound="Event")


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened during a fit."""

    candidate: str | None = None
    architecture: int | None = None
    fold: int | None = None

    @classmethod
    def check_parts(cls, parts: dict[str, Any]) -> None:
        for name in ("risk", "honest", "number"):
            expect(parts.get(name) is None or parts[name] >= 0, f"history.{name} is negative")

    def __str__(self) -> str:
        """On one line: what happened, and the numbers."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        words = [f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in told.items() if v is not None]
        return "  ".join([type(self).__name__.lower(), *words])

    def finite(self: SomeEvent) -> SomeEvent:
        """With None in the place of numbers that a file cannot hold."""
        kept = {f.name: _finite(getattr(self, f.name)) for f in fields(self)}
        changed = {name: value for name, value in kept.items() if value != getattr(self, name)}
        return replace(self, **changed) if changed else self


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def of_kind(history: Sequence[Event], kind: type[SomeEvent]) -> list[SomeEvent]:
    """The events of a class, in their order."""
    return [event for event in history if isinstance(event, kind)]


def last(history: Sequence[Event], kind: type[SomeEvent]) -> SomeEvent | None:
    """The last event of a class, None if there was none."""
    events = of_kind(history, kind)
    return events[-1] if events else None


@storable
@dataclass(frozen=True, kw_only=True)
class BoundsFound(Event):
    """What labels of numbers are taken not to lie below and above, and why, label by label; None where nothing is.

    Intervals stay within, unless ``predict_interval`` is told otherwise.
    """

    low: tuple[Number, ...]
    high: tuple[Number, ...]
    words: tuple[str, ...]


# ------------------------------------------------------------------------------------------------- learning weights


@storable
@dataclass(frozen=True, kw_only=True)
class Step(Event):
    """A step of Adam: the criterion on its batch, and λ."""

    step: int
    criterion: Number
    lam: Number


@storable
@dataclass(frozen=True, kw_only=True)
class Watched(Event):
    """Early stopping: the error on rows that no gradient has seen."""

    step: int
    risk: Number


@storable
@dataclass(frozen=True, kw_only=True)
class Searched(Event):
    """A search of Algorithm 1, by "start", "anneal" or "descend", and its risks."""

    round: int
    how: str
    risk_D2: Number
    risk_D3: Number
    best_D3: Number


@storable
@dataclass(frozen=True, kw_only=True)
class Guarded(Event):
    """Algorithm 1 against the plain kernel, on D3."""

    plain_D3: Number
    learned_D3: Number


# ------------------------------------------------------------------------------------------- choosing among kernels


@storable
@dataclass(frozen=True, kw_only=True)
class Planned(Event):
    """What a time budget buys: kinds of trees, steps of each, rows per step."""

    kinds: int
    steps: int
    batch: int


@storable
@dataclass(frozen=True, kw_only=True)
class Refined(Event):
    """Whether labels of few values get a column each: errors of the plain kernel on rows set aside, both ways."""

    values: int
    taken: bool
    number: Number
    level: Number


@storable
@dataclass(frozen=True, kw_only=True)
class Judged(Event):
    """A kind of tree on the rows set aside: its error there, and the criterion that its weights have minimised.

    Of classes ``wrong`` is the share of wrong ones, ``log_loss`` what kinds are compared by. ``risk`` and ``power`` are
    those of labels of few values, whose columns' errors ``honest`` sums.
    """

    criterion: Number
    honest: Number
    lam: Number
    narrowing: float = 0.0
    wrong: Number = None
    rows: int | None = None
    risk: Number = None
    power: Number = None
    log_loss: Number = None

    @property
    def optimism(self) -> float:
        return math.nan if None in (self.honest, self.criterion) else self.honest - self.criterion  # type: ignore


@storable
@dataclass(frozen=True, kw_only=True)
class Chosen(Event):
    """The kinds that are averaged, and their error on the rows set aside."""

    candidates: tuple[str, ...]
    rows: int | None = None
    risk: Number = None
    wrong: Number = None
    power: Number = None
    log_loss: Number = None


@storable
@dataclass(frozen=True, kw_only=True)
class LossesCompared(Event):
    """Log-losses on the rows set aside, of least squares and of the logistic loss; which is taken.

    ``moved`` says that kernels took steps by the logistic loss. In leaves two partitions are judged, and the losses are
    those that follow for the mean of all.
    """

    logistic: bool
    moved: bool
    rows: int
    of_squares: Number
    of_logistic: Number

    @property
    def words(self) -> str:
        """What was chosen, for people."""
        numbers = f"log-loss {self.of_squares:.4g} of least squares, {self.of_logistic:.4g} of the logistic loss"
        steps = ", for which the kernels took further steps" if self.moved else ""
        return f"{'logistic' if self.logistic else 'least squares'}{steps} (rows set aside: {numbers})"


@storable
@dataclass(frozen=True, kw_only=True)
class ClassesJudged(Event):
    """Probabilities of the rows set aside, by a machine on all others: their log-loss, and the share of wrong classes.

    ``risk`` is the mean squared error of 2p - 1 for labels ±1, summed over columns.
    """

    rows: int
    risk: Number
    log_loss: Number
    wrong: Number = None


@storable
@dataclass(frozen=True, kw_only=True)
class LeavesJudged(Event):
    """Leaves of at most ``size`` rows whose kernels take so many steps of their own: their error on rows set aside.

    Of classes ``honest`` is the squared error of 2p - 1, and ``log_loss`` what is compared.
    """

    size: int
    steps: int
    honest: Number
    rows: int
    log_loss: Number = None


@storable
@dataclass(frozen=True, kw_only=True)
class LeavesChosen(Event):
    """Whether rows are divided into leaves, and how: how many partitions, and the share of the machine on all rows.

    ``risk`` is the error on the rows set aside, ``without`` that of the machine on all rows alone. ``stopped`` says
    that a stop has left some or all of the leaves out; then there is no such error. Of classes both are squared errors
    of 2p - 1, and ``log_loss`` is what was compared.
    """

    taken: bool
    stopped: bool = False
    size: int
    steps: int
    partitions: int
    share: float
    rows: int
    risk: Number = None
    without: Number = None
    wrong: Number = None
    power: Number = None
    log_loss: Number = None

    @property
    def words(self) -> str:
        """What was done, for people."""
        if self.stopped and not self.taken:
            return "not grown: the fit was stopped before"
        if not self.taken:
            return "not taken: on the rows set aside they were no better than one machine on all rows"
        many = f"the mean of {self.partitions} partitions" if self.partitions > 1 else "one partition"
        weights = "weights and a width" if self.steps else "a width"
        whole = f"; a machine on all rows has a share of {self.share:.0%}" if self.share else ""
        left = "; the fit was stopped before all leaves were grown" if self.stopped else ""
        return (
            f"{many} of the rows into leaves of at most {self.size} rows, each with {weights} of its own{whole}{left}"
        )


@storable
@dataclass(frozen=True, kw_only=True)
class LeavesGrown(Event):
    """Leaves that have a machine, of all in a partition."""

    partition: int
    done: int
    of: int


@storable
@dataclass(frozen=True, kw_only=True)
class Optimism(Event):
    """How much larger errors on rows set aside are than leave-one-out errors of rows that the weights have seen."""

    ratio: Number


@storable
@dataclass(frozen=True, kw_only=True)
class Held(Event):
    """A tree on its held-out fold: the smallest risk over the grid."""

    risk: Number


@storable
@dataclass(frozen=True, kw_only=True)
class ArchitectureChosen(Event):
    """The risk of the chosen architecture by cross-validation, and of all."""

    risk: Number
    risks: tuple[Number, ...] = ()


# ------------------------------------------------------------------------------------------------- training machines


@storable
@dataclass(frozen=True, kw_only=True)
class GridChosen(Event):
    """λ and γ by cross-validation, and the risk there."""

    risk: Number
    gamma: Number
    lam: Number
    products: int | None = None
    rows: int | None = None
    wrong: Number = None
    few: bool = False


@storable
@dataclass(frozen=True, kw_only=True)
class LamChosen(Event):
    """λ of a loss by folds: how many folds and λ were solved; ``few`` where the time sufficed for a few rows alone."""

    risk: Number
    lam: Number
    folds: int
    lams: int
    cut: bool
    few: bool


@storable
@dataclass(frozen=True, kw_only=True)
class Trained(Event):
    """A fold's machine, and the duality gap that is left."""

    gap: Number


@storable
@dataclass(frozen=True, kw_only=True)
class Centres(Event):
    """How many rows are centres."""

    centres: int
    rows: int


@storable
@dataclass(frozen=True, kw_only=True)
class Counted(Event):
    """Rows that have passed by the centres."""

    done: int
    of: int


@storable
@dataclass(frozen=True, kw_only=True)
class CompressedTo(Event):
    """Rows that a compressed model has kept, and its error on rows that had no say, before and after.

    ``spread`` is the standard error of the difference.
    """

    kept: int
    of: int
    rows: int
    before: Number
    after: Number
    spread: Number

    @property
    def words(self) -> str:
        unit = 100 / self.before if self.before else 0.0
        more, spread = unit * ((self.after or 0.0) - (self.before or 0.0)), unit * (self.spread or 0.0)
        changed = f"changed by {more:+.2g} % ± {spread:.2g} %"
        return f"{self.kept} of {self.of} rows; the error on {self.rows} rows that had no say {changed}"


# --------------------------------------------------------------------------------------------------- what they tell

ASIDE, BY_FOLDS = "rows set aside", "5-fold cross-validation"


def honest_error(
    history: Sequence[Event],
) -> tuple[str, ClassesJudged | Chosen | LeavesChosen | ArchitectureChosen | GridChosen] | None:
    """How the fit judged what it chose on rows that no gradient had seen, and the event that has the risk there."""
    leaves = last(history, LeavesChosen)
    chosen = leaves if leaves is not None and leaves.taken else last(history, ClassesJudged) or last(history, Chosen)
    if chosen is not None:
        return ASIDE, chosen
    searched = [event for event in of_kind(history, GridChosen) if event.products is not None]
    event = last(history, ArchitectureChosen) or (searched[-1] if searched else None)
    return None if event is None else (BY_FOLDS, event)


def condensed(history: Sequence[Event], most: int) -> list[Event]:
    """The events, of every run of steps at most ``most``, evenly spaced, with the first and the last."""
    runs: dict[tuple, list[int]] = {}
    for i, event in enumerate(history):
        runs.setdefault((type(event), event.candidate, event.architecture, event.fold), []).append(i)
    kept = [run[round(k * (len(run) - 1) / (most - 1))] for run in runs.values() for k in range(most)]
    return [history[i] for i in sorted(set(kept))]
