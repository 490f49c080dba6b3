"""Errors that end a command in one sentence; this module is imported before anything that takes time."""

from __future__ import annotations


class Unusable(Exception):
    """The request cannot be carried out; the message is one sentence."""


EXPECTED: list[type[Exception]] = [Unusable, MemoryError]
