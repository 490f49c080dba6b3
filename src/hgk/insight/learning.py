"""How the weights were learned: training curves, and the optimism of the criterion, from ``history_``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hgk.events import Chosen, Event, Judged, Searched, Step, Watched, of_kind
from hgk.insight.fitted import Estimator, require_model


@dataclass(frozen=True)
class LearningRun:
    """One run: what its weights minimised, step by step, and the error on rows it did not see, where it was watched."""

    name: str
    steps: list[int] = field(default_factory=list)
    criterion: list[float] = field(default_factory=list)
    watched_steps: list[int] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of tree, whatever the fold."""
        return self.name.split(", fold ")[0]

    def note(self, event: Event) -> None:
        """Steps of a second round follow those of the first."""
        last = self.steps[-1] if self.steps else 0
        if isinstance(event, Step):
            self.steps.append(last + 1)
            self.criterion.append(_number(event.criterion))
        elif isinstance(event, Watched):
            self.watched_steps.append(last)
            self.watched.append(_number(event.risk))
        elif isinstance(event, Searched):  # Algorithm 1: the risk on D2 is minimised, D3 remembers the best
            self.steps.append(last + 1)
            self.criterion.append(_number(event.risk_D2))
            self.watched_steps.append(last + 1)
            self.watched.append(_number(event.risk_D3))


@dataclass(frozen=True)
class TriedKind:
    """A kind of tree: its criterion at the end, its error on rows set aside, and the difference.

    Where the label has a column for each of its values, they are sums over these.
    """

    name: str
    criterion: float
    honest: float
    optimism: float
    chosen: bool


@dataclass(frozen=True)
class Learning:
    """The runs of a fit, and the kinds of trees that were compared."""

    runs: list[LearningRun]
    kinds: list[TriedKind]


def learning_curves(model: Estimator) -> Learning:
    """Training curves and the optimism of the criterion.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import Adam, HGKRegressor
    >>> from hgk.insight import learning_curves
    >>> model = HGKRegressor(optimiser=Adam(steps=3), random_state=0).fit(*make_friedman1(30, random_state=0))
    >>> [run.name for run in learning_curves(model).runs]
    ['weights']
    """
    require_model(model)
    runs: dict[str, LearningRun] = {}
    for event in model.history_:
        if isinstance(event, Step | Watched | Searched):
            name = _run_name(event)
            runs.setdefault(name, LearningRun(name)).note(event)
    chosen = {name for event in of_kind(model.history_, Chosen) for name in event.candidates}
    kinds = [
        TriedKind(str(e.candidate), _number(e.criterion), _number(e.honest), e.optimism, e.candidate in chosen)
        for e in of_kind(model.history_, Judged)
    ]
    return Learning(list(runs.values()), kinds)


def _run_name(event: Event) -> str:
    rows = "all rows" if event.fold is None else f"fold {event.fold + 1}"
    if event.architecture is not None:
        return f"architecture {event.architecture + 1}, {rows}"
    return "weights" if event.candidate is None else f"{event.candidate}, {rows}"


def _number(value: float | None) -> float:
    return math.nan if value is None else value
