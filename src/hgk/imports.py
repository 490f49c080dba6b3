"""Imports that take seconds, during which Ctrl-C ends the program with one line."""

from __future__ import annotations

import os
import signal
import threading
from importlib import import_module
from types import ModuleType


def imported(name: str) -> ModuleType:
    """The module; Ctrl-C ends all at once meanwhile, since not every package lets it through."""
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _leave)
    try:
        return import_module(name)
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os.write(2, b"hgk: stopped.\n")
    os._exit(130)
