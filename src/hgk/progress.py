"""What a long fit tells while it runs, and how it is stopped without losing what it has."""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hgk.events import Event

# Seconds within which a second Ctrl-C means "stop everything", whichever fit it meets: a loop over many fits
# (a cross-validation, say) could not be left otherwise.
IMPATIENT = 3.0


class Progress:
    """Collects events, hands them to a callback, and carries the wish to stop.

    Used as a context manager in the main thread it takes Ctrl-C as a wish to stop: loops ask ``cut`` after
    each step and return the best they have. A second Ctrl-C, in the same fit or within three seconds of the
    last one, interrupts at once. A callback that returns True asks for the same as the first.
    """

    last_press = float("-inf")  # shared by all fits of the process

    def __init__(self, callback: Callable[[Event], Any] | None = None):
        self.history: list[Event] = []
        self.callback = callback
        self.stopped = False
        self.aborted = False  # nobody waits for the result any more
        self.shortened = False  # whether anything was left out because of the wish to stop
        self.deadline = float("inf")  # of time.monotonic(); a budget, which is kept without a warning
        self.through = 0  # parts of the work that are complete and can stand alone
        self._lock = threading.RLock()

    def report(self, event: Event) -> None:
        with self._lock:  # folds may run in threads
            self.history.append(event)
            try:
                if self.callback is not None and self.callback(event):
                    self.stopped = True
            except BaseException:
                self.stopped = True  # other threads must not go on
                raise

    def cut(self, when: bool = True) -> bool:
        """Whether to leave the loop now; a loop that must not be empty passes ``when``."""
        if self.stopped and when:
            self.shortened = True
            return True
        return when and time.monotonic() > self.deadline

    @property
    def hurried(self) -> bool:
        """Whether time is short: there is a deadline, or somebody wishes to stop."""
        return self.stopped or self.deadline < float("inf")

    def of(self, **tags: Any) -> Progress:
        """The same progress, with ``tags`` (candidate, architecture, fold) on every event."""
        return _Tagged(self, tags)

    def _on_interrupt(self, signum, frame) -> None:
        now = time.monotonic()
        impatient = now - Progress.last_press < IMPATIENT
        Progress.last_press = now
        again = self.stopped or impatient
        self.stopped = True
        if again:
            self.aborted = True
            raise KeyboardInterrupt
        sys.stderr.write("hgk: stopping, and keeping the best weights so far; press Ctrl-C again to abort.\n")

    def __enter__(self) -> Progress:
        self._previous = None
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *exc) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


_at_work: set[int] = set()


@contextmanager
def at_work() -> Iterator[None]:
    """Around work in a thread that may outlive an abort: the process waits for it before it ends.

    Python ends by stopping its threads in the middle of what they do; within torch that is a crash.
    """
    me = threading.get_ident()
    _at_work.add(me)
    try:
        yield
    finally:
        _at_work.discard(me)


@atexit.register
def _wait() -> None:
    me, patience = threading.get_ident(), time.monotonic() + 60
    while _at_work - {me} and time.monotonic() < patience:
        time.sleep(0.01)


class _Tagged(Progress):
    """Everything but the tags is the parent's."""

    def __init__(self, parent: Progress, tags: dict[str, Any]):
        self.__dict__["parent"], self.__dict__["tags"] = parent, tags

    def report(self, event: Event) -> None:
        self.parent.report(replace(event, **self.tags))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.parent, name, value)
