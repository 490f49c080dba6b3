"""Who runs many small jobs: the same results in the same order, whoever runs them; errors and Ctrl-C come through."""

import os
import signal
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from cases import random_rows
from hgk import Adam, Algorithm1, inhomogeneous, two_layers
from hgk.arrays import threads, threads_for
from hgk.executor import Request, SideBySide, Threads
from hgk.progress import Progress

EXECUTORS = {"one thread": Threads(), "three threads": Threads(3, inner=1), "side by side": SideBySide()}
each_executor = pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
PATIENCE = 300  # seconds after which a thread that should come does not come


@dataclass(frozen=True)
class Square(Request):
    value: float

    def alone(self):
        return self.value**2


@dataclass(frozen=True)
class Root(Request):
    value: float

    def alone(self):
        return self.value**0.5


def sum_of_squares(values):
    """A search that asks for one square after the other."""
    total = 0.0
    for value in values:
        total += yield Square(value)
    return total


def fourth_root(value):
    root = yield Root(value)
    return (yield Root(root))


# ------------------------------------------------------------------------------------------------ results in order


@each_executor
def test_searches_of_any_length_end_in_their_order(executor):
    lengths = [3, 0, 5, 1]
    searches = [sum_of_squares(range(n)) for n in lengths] + [fourth_root(81.0)]
    assert executor.drive(searches) == [*(sum(i**2 for i in range(n)) for n in lengths), pytest.approx(3.0)]
    assert executor.drive([]) == []


@each_executor
def test_jobs_and_requests_give_their_results_in_order(executor):
    assert executor.run([lambda i=i: 10 * i for i in range(7)]) == [10 * i for i in range(7)]
    assert executor.fulfil([Square(i) for i in range(7)]) == [i**2 for i in range(7)]
    assert executor.run([]) == executor.fulfil([]) == []


def test_a_job_that_ends_last_keeps_its_place():
    other_is_through = threading.Event()

    def waits():
        assert other_is_through.wait(PATIENCE)
        return "first"

    def goes_ahead():
        other_is_through.set()
        return "second"

    assert Threads(2, inner=1).run([waits, goes_ahead]) == ["first", "second"]


@each_executor
def test_optimisers_end_where_they_end_alone(executor):
    rows = random_rows(60)
    settings = [(Adam(4, 30), inhomogeneous(5)), (Algorithm1(1, 1, 8, 4, 2), two_layers(5, 2)), (Adam(3, 40), None)]

    def searches():
        for seed, (optimiser, tree) in enumerate(settings):
            yield optimiser.search(tree or two_layers(5, 3), rows, np.random.default_rng(seed), Progress())

    with threads(1):  # more of them add up in another order
        kernels = executor.drive(list(searches()))
        others = [Threads().drive([search])[0] for search in searches()]
    for kernel, alone in zip(kernels, others, strict=True):
        for w, v in zip(kernel.W, alone.W, strict=True):
            torch.testing.assert_close(w, v, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------- who works when


def test_requests_of_one_kind_are_fulfilled_together():
    """Three searches ask twice, in the same turns; the third ends a turn earlier than the others."""
    sizes = []

    @dataclass(frozen=True)
    class Counted(Square):
        @classmethod
        def together(cls, requests):
            sizes.append(len(requests))
            return super().together(requests)

    def asks(times):
        for _ in range(times):
            yield Counted(2.0)
        return (yield Root(16.0))

    assert SideBySide().drive([asks(2), asks(2), asks(1)]) == [4.0] * 3
    assert sizes == [3, 2]
    assert SideBySide().fulfil([Counted(1.0)] * 5) == [1.0] * 5
    assert sizes[-1] == 5


def test_as_many_jobs_run_at_a_time_as_there_are_workers():
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def job():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(PATIENCE)  # breaks unless two are here at a time
        with lock:
            running -= 1

    Threads(2, inner=1).run([job] * 6)
    assert most == 2


def test_threads_of_torch_are_divided_among_workers_and_given_back():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        for executor, jobs, inner in (
            (Threads(2), 6, 2),
            (Threads(8), 8, 1),
            (Threads(8), 2, 2),  # no more workers than jobs
            (Threads(3, inner=2), 3, 2),
            (Threads(2).for_small_steps(), 6, 1),
            (SideBySide(), 2, 1),
        ):
            assert set(executor.run([torch.get_num_threads] * jobs)) == {inner}
            assert torch.get_num_threads() == 4
        assert Threads(2).for_small_steps().workers == 2
    finally:
        torch.set_num_threads(before)


class Pieces:
    """Work of so many pieces, which nobody may begin while another is at it."""

    def __init__(self, pieces):
        self.left, self.hands = pieces, threading.Lock()

    def proceed(self):
        assert self.hands.acquire(blocking=False)
        time.sleep(0.001)
        self.left -= 1
        self.hands.release()
        return self.left > 0


@dataclass(frozen=True)
class InPieces(Request):
    pieces: int

    def alone(self):
        raise AssertionError("work in pieces is taken by turns")

    def begin(self):
        return Pieces(self.pieces)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_work_in_pieces_is_taken_by_turns_to_its_end(workers):
    asked = [InPieces(n) for n in (3, 20, 1)]
    through = Threads(workers, inner=1).fulfil(asked)
    assert [work.left for work in through] == [0, 0, 0]


def test_whoever_is_free_takes_the_next_piece():
    """Three runs keep two workers busy: while one is held up by the first run, the other takes the others by turns."""
    order, others_are_through = [], threading.Event()

    class Noted(Pieces):
        def __init__(self, name, pieces):
            super().__init__(pieces)
            self.name = name

        def proceed(self):
            assert self.name != "a" or others_are_through.wait(PATIENCE)
            order.append(self.name)
            if len(order) == 20:
                others_are_through.set()
            return super().proceed()

    @dataclass(frozen=True)
    class Named(Request):
        name: str

        def alone(self): ...

        def begin(self):
            return Noted(self.name, 10)

    Threads(2, inner=1).fulfil([Named(name) for name in "abc"])
    assert "".join(order) == 10 * "bc" + 10 * "a"


# ------------------------------------------------------------------------------------------------ errors and Ctrl-C


class Fails(Request):
    def alone(self):
        raise ArithmeticError("no such root")


class FailsInTurns(Fails):
    def begin(self):
        return self

    def proceed(self):
        return self.alone()


def asks_for_what_fails():
    yield Square(1.0)
    yield Fails()


def fails_itself():
    yield Square(1.0)
    raise ArithmeticError("no such root")


@each_executor
@pytest.mark.parametrize("search", [asks_for_what_fails, fails_itself])
def test_an_error_in_a_search_comes_through(executor, search):
    before = torch.get_num_threads()
    with pytest.raises(ArithmeticError, match="no such root"):
        executor.drive([sum_of_squares(range(3)), search()])
    assert torch.get_num_threads() == before


@each_executor
def test_an_error_in_a_job_or_request_comes_through(executor):
    before = torch.get_num_threads()
    with pytest.raises(ArithmeticError, match="no such root"):
        executor.run([lambda: 1, Fails().alone])
    for kind in (Fails, FailsInTurns):
        with pytest.raises(ArithmeticError, match="no such root"):
            executor.fulfil([kind(), kind()])
    assert torch.get_num_threads() == before


@pytest.fixture
def fresh(monkeypatch):
    """No Ctrl-C was pressed lately."""
    monkeypatch.setattr(Progress, "last_press", float("-inf"))


def press():
    os.kill(os.getpid(), signal.SIGINT)


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.usefixtures("fresh")
@each_executor
def test_a_first_ctrl_c_lets_searches_end_with_what_they_have(executor):
    with Progress() as progress:

        def search(number):
            for i in range(1000):
                if number == 0 and i == 5:
                    press()
                    until(lambda: progress.stopped)
                if progress.cut():
                    return number, i
                yield Square(i)
            return number, None

        ended = executor.drive([search(0), search(1)])
    assert [number for number, _ in ended] == [0, 1]
    assert ended[0][1] == 5
    assert progress.shortened
    assert not progress.aborted


@pytest.mark.usefixtures("fresh")
@each_executor
def test_a_second_ctrl_c_interrupts(executor):
    begun = time.monotonic()
    with Progress() as progress:

        def impatient():
            press()
            until(lambda: progress.stopped)
            press()
            until(lambda: progress.aborted)

        with pytest.raises(KeyboardInterrupt):
            executor.run([impatient, lambda: until(lambda: progress.aborted)])
    assert progress.aborted
    assert time.monotonic() - begun < PATIENCE


def test_threads_that_take_one_thread_at_the_same_time_leave_the_setting_as_it_was():
    """As two predictions of a server: the first to come is not the last to go."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        first, second = threads_for(1), threads_for(1)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        second.__exit__(None, None, None)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
