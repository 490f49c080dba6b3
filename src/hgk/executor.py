"""Who runs many small jobs: threads of a processor, or one device that works on all of them side by side.

Long searches are generators that ask for what is costly (:class:`Request`) and are sent what came of it. An executor
decides how: threads take a search each and fulfil its requests one by one; a device goes on with all searches until
each asks for something, and fulfils requests of one kind together. A cluster would be a third executor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from joblib import Parallel, delayed

from hgk.arrays import threads
from hgk.progress import at_work

Result = TypeVar("Result")
Search = Generator[Any, Any, Result]


class Request(ABC):
    """Something costly that a search asks for."""

    @abstractmethod
    def alone(self) -> Any: ...

    @classmethod
    def together(cls, requests: Sequence[Any]) -> Sequence[Any]:
        """What came of several, in their order; a class that can do better than one by one says how."""
        return [request.alone() for request in requests]

    def begin(self) -> Any:
        """Work with ``proceed() -> bool``, one piece and whether to go on; None if it is all of one piece."""
        return None


class Executor(ABC):
    """Runs jobs, searches and requests; results come in the order of what was asked."""

    workers: int = 1

    @abstractmethod
    def run(self, jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """Every job once."""

    @abstractmethod
    def drive(self, searches: Sequence[Search]) -> list:
        """Every search to its end."""

    @abstractmethod
    def fulfil(self, requests: Sequence[Request]) -> list:
        """Every request, of one kind."""

    def for_small_steps(self) -> Executor:
        """For jobs whose operations are too small to be shared by threads."""
        return self


@dataclass(frozen=True)
class Threads(Executor):
    """So many workers of a processor; ``inner`` are the threads of each, None all that there are, divided."""

    workers: int = 1
    inner: int | None = None

    def for_small_steps(self):
        return replace(self, inner=1)

    def run(self, jobs):
        def guarded(job: Callable[[], Result]) -> Result:
            with at_work():
                return job()

        count = max(1, min(self.workers, len(jobs)))
        each = max(1, torch.get_num_threads() // count) if self.inner is None else self.inner
        with threads(each):
            if count == 1:
                return [guarded(job) for job in jobs]
            return Parallel(n_jobs=count, require="sharedmem")(delayed(guarded)(job) for job in jobs)

    def drive(self, searches):
        return self.run([lambda search=search: _driven(search) for search in searches])

    def fulfil(self, requests):
        """By turns: the next piece of work by whoever is free, so that three runs keep two workers busy to the end."""
        begun = [request.begin() for request in requests]
        if any(work is None for work in begun):
            return self.run([request.alone for request in requests])
        waiting = deque(begun)

        def take_turns() -> None:
            while True:
                try:
                    work = waiting.popleft()
                except IndexError:  # the others have what is left in hand
                    return
                if work.proceed():
                    waiting.append(work)

        self.run([take_turns] * min(self.workers, len(requests)))
        return begun


def _driven(search: Search) -> Any:
    answer = None
    while True:
        try:
            request = search.send(answer)
        except StopIteration as end:
            return end.value
        answer = request.alone()


class SideBySide(Executor):
    """One device, which does one thing after another: searches go on together."""

    def run(self, jobs):
        with threads(1):
            return [job() for job in jobs]

    def drive(self, searches):
        with threads(1):
            return side_by_side(searches, _fulfilled)

    def fulfil(self, requests):
        with threads(1):
            return list(type(requests[0]).together(requests)) if requests else []


def side_by_side(searches: Sequence[Search], fulfil: Callable[[dict[int, Any]], Mapping[int, Any]]) -> list:
    """Each goes on until it asks for something, and then all are sent what ``fulfil`` has for their numbers."""
    ended: dict[int, Any] = {}
    answers: Mapping[int, Any] = dict.fromkeys(range(len(searches)))
    while answers:
        asked: dict[int, Any] = {}
        for i, answer in answers.items():
            try:
                asked[i] = searches[i].send(answer)
            except StopIteration as end:
                ended[i] = end.value
        answers = fulfil(asked) if asked else {}
    return [ended[i] for i in range(len(searches))]


def _fulfilled(asked: dict[int, Request]) -> dict[int, Any]:
    """Requests of one kind together."""
    answers: dict[int, Any] = {}
    for kind in dict.fromkeys(type(request) for request in asked.values()):
        numbers = [i for i, request in asked.items() if type(request) is kind]
        answers |= zip(numbers, kind.together([asked[i] for i in numbers]), strict=True)
    return answers
