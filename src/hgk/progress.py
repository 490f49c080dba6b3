"""What a long fit tells while it runs, and how it is stopped without losing what it has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


class Progress:
    """Collects events, hands them to a callback, and carries the wish to stop.

    Used as a context manager in the main thread it takes Ctrl-C (the first one) as a wish to stop: loops
    look at ``stopped`` after each step and return the best they have. A second Ctrl-C interrupts at once.
    A callback that returns True asks for the same.
    """

    def __init__(self, callback: Callable[[Event], Any] | None = None):
        self.history: list[Event] = []
        self.callback = callback
        self.stopped = False
        self.through = 0  # parts of the work that are complete and can stand alone

    def report(self, **event: Any) -> None:
        self.history.append(event)
        if self.callback is not None and self.callback(event):
            self.stopped = True

    def of(self, **tags: Any) -> Progress:
        """The same progress, with ``tags`` added to every event."""
        return _Tagged(self, tags)

    def _on_interrupt(self, signum, frame) -> None:
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True

    def __enter__(self) -> Progress:
        self._previous = None
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *exc) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


class _Tagged(Progress):
    def __init__(self, parent: Progress, tags: Event):
        self.parent, self.tags = parent, tags

    def report(self, **event: Any) -> None:
        self.parent.report(**self.tags, **event)

    @property
    def history(self) -> list[Event]:  # type: ignore[override]
        return self.parent.history

    @property
    def stopped(self) -> bool:  # type: ignore[override]
        return self.parent.stopped

    @property
    def through(self) -> int:
        return self.parent.through

    @through.setter
    def through(self, value: int) -> None:
        self.parent.through = value
