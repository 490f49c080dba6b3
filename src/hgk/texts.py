"""Texts that may come from anybody, for a terminal."""

from __future__ import annotations

import re

# Control characters, marks of direction, and halves of characters, which some terminals obey or cannot show.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, keep: str = "") -> str:
    r"""A text that may come from anybody, for a terminal: what could steer it is written as \x1b or \u202e.

    Examples
    --------
    >>> from hgk.texts import printable
    >>> print(printable("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return STEERING.sub(lambda c: c[0] if c[0] in keep else c[0].encode("unicode_escape").decode(), str(text))


class SentenceError(ValueError):
    """Says in one sentence what is wrong; names in it may come from anybody."""

    def __init__(self, text: str):
        super().__init__(printable(text))


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
