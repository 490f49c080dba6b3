"""The line that moves while a model learns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hgk import events
from hgk.cli.shared import errors
from hgk.estimators import HGKEstimator

# What happens, for each class of events; another class is shown by its name.
WORDS: dict[type[events.Event], str] = {
    events.BoundsFound: "reading the labels",
    events.Planned: "planning",
    events.Step: "learning weights",
    events.Watched: "checking validation rows",
    events.Searched: "searching weights",
    events.Guarded: "comparing with the plain kernel",
    events.Refined: "comparing ways to treat the labels",
    events.Judged: "judging a kernel",
    events.Chosen: "choosing kernels",
    events.LossesCompared: "comparing losses",
    events.ClassesJudged: "judging probabilities",
    events.LeavesJudged: "judging leaves",
    events.LeavesChosen: "choosing leaves",
    events.LeavesGrown: "training leaves",
    events.Optimism: "comparing errors",
    events.Held: "searching λ and γ",
    events.ArchitectureChosen: "choosing an architecture",
    events.GridChosen: "choosing λ and γ",
    events.LamChosen: "choosing λ",
    events.Trained: "training",
    events.Centres: "choosing centres",
    events.Counted: "training on centres",
    events.CompressedTo: "compressing",
}
SHOWN_NUMBERS = {"step": "step", "criterion": "criterion", "honest": "error", "risk": "error"}


def phrase(event: events.Event) -> str:
    """An event in a few words.

    Examples
    --------
    >>> from hgk.cli.progress import phrase
    >>> from hgk.events import Counted, LeavesGrown, Step
    >>> phrase(Step(candidate="mixed", fold=1, step=3, criterion=0.5, lam=None))
    'learning weights · mixed · fold 1 · step 3 · criterion 0.5'
    >>> phrase(Counted(done=3, of=9))
    'training on centres · 3 of 9 rows'
    >>> phrase(LeavesGrown(partition=0, done=16, of=64))
    'training leaves · partition 1 · 16 of 64'
    """
    parts = [WORDS.get(type(event), type(event).__name__.lower())]
    parts += [event.candidate] if event.candidate is not None else []
    parts += [f"fold {event.fold}"] if event.fold is not None else []
    if isinstance(event, events.Counted):
        parts.append(f"{event.done} of {event.of} rows")
    if isinstance(event, events.LeavesGrown):
        parts.append(f"partition {event.partition + 1} · {event.done} of {event.of}")
    values = [(word, getattr(event, name, None)) for name, word in SHOWN_NUMBERS.items()]
    return " · ".join([*parts, *(f"{word} {value:.4g}" for word, value in values if value is not None)])


@contextmanager
def watched(model: HGKEstimator, seconds: float | None, silent: bool) -> Iterator[None]:
    """Show what the model's fit is doing, where somebody watches; with a bar where there is a time budget."""
    if silent or not errors.is_terminal:
        yield
        return
    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
    columns += [BarColumn()] if seconds is not None else []
    with Progress(*columns, console=errors, transient=True) as bar:
        line, begun = bar.add_task("reading", total=seconds), time.monotonic()

        def show(event: events.Event) -> None:
            bar.update(line, description=phrase(event), completed=time.monotonic() - begun)

        model.set_params(callback=show)
        yield
        model.set_params(callback=None)
