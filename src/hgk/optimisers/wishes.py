"""Generators that ask for what is costly, driven side by side, so that all are answered at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

Wish = TypeVar("Wish")
End = TypeVar("End")


def side_by_side(
    searches: Sequence[Generator[Wish, Any, End]], fulfil: Callable[[dict[int, Wish]], Mapping[int, Any]]
) -> list[End]:
    """Each goes on until it asks for something, and then all are sent what ``fulfil`` has for their numbers."""
    ended: dict[int, End] = {}
    answers: Mapping[int, Any] = dict.fromkeys(range(len(searches)))
    while answers:
        wishes: dict[int, Wish] = {}
        for i, answer in answers.items():
            try:
                wishes[i] = searches[i].send(answer)
            except StopIteration as end:
                ended[i] = end.value
        answers = fulfil(wishes) if wishes else {}
    return [ended[i] for i in range(len(searches))]
