"""What all commands use: where to print, and what is expected to go wrong."""

from __future__ import annotations

from rich.console import Console

from hgk.arrays import device_of
from hgk.files import ModelFileError

console, errors = Console(highlight=False), Console(stderr=True, highlight=False)


class Unusable(Exception):
    """What was asked for cannot be done; the message is one sentence."""


# Errors whose message is a sentence for people; commands add theirs.
EXPECTED: list[type[Exception]] = [Unusable, ModelFileError, MemoryError]


def check_device(name: str) -> str:
    """The device of this name; one that is not there is told before any work."""
    try:
        return str(device_of(name))
    except ValueError as error:
        raise Unusable(f"--{str(error).partition(' (set_params')[0].rstrip('.')}.") from error
