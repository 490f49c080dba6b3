"""The runner: which runs are missing, and who does them.

A run is a data set, a split and a method. Runs are ordered by split, so that all sets have their first split before
any has its second. Each is done in a process of its own: one of ``jobs`` worker processes on this machine (joblib's
loky), or of a Dask cluster. The process that started them claims a run, waits for its row and stores it; whatever
goes wrong within a run is a row, too.

When a worker on this machine dies, all runs under way are lost with the pool; when one of a cluster dies, Dask moves
its runs to others, and gives up those that were there at too many deaths. Either way they are done again one at a
time, and the run that then kills its worker alone gets a row that says so.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import platform
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hgk import __version__
from hgk.arrays import threads
from hgk.bench import datasets
from hgk.bench.methods import METHODS, Effort
from hgk.bench.protocol import as_numbers, clipped_error, make_split
from hgk.bench.store import Row, RunKey, Store

# Seconds until a scheduler that does not answer, or has no workers, is given up.
SCHEDULER_SECONDS = 10.0
# Seconds that a cluster may be without workers.
WITHOUT_WORKERS = 60.0
GONE = "The Dask scheduler went away; start it again, and the same command goes on."
DIED = "the worker process died each time this run was tried; the system may have killed it for want of memory"


class RunnerError(Exception):
    """The runs cannot be done as asked; the message is one sentence."""


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: a known name, or a file and its target."""

    name: str
    data_home: str | None = None
    file: str | None = None
    target: str | None = None

    def load(self) -> datasets.DataSet:
        if self.file is not None and self.target is not None:
            return datasets.from_file(self.file, self.target)
        return datasets.load(self.name, self.data_home)


@dataclass(frozen=True)
class Run:
    source: Source
    split: int
    method: str
    effort: Effort

    @property
    def key(self) -> RunKey:
        return self.source.name, self.split, self.method


def plan(sources: Sequence[Source], methods: Sequence[str], splits: Iterable[int], effort: Effort) -> list[Run]:
    """All runs, by split, then set, then method.

    >>> runs = plan([Source("magic"), Source("cadata")], ["SVM"], range(2), Effort())
    >>> [run.key for run in runs]
    [('magic', 0, 'SVM'), ('cadata', 0, 'SVM'), ('magic', 1, 'SVM'), ('cadata', 1, 'SVM')]
    """
    return [Run(source, split, method, effort) for split in splits for source in sources for method in methods]


# ------------------------------------------------------------------------------------------- one run, in a worker


def execute(run: Run) -> Row:
    """The run's row; an exception of any kind becomes a row that says why."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(), threads(run.effort.threads), threadpool_limits(run.effort.threads):
            warnings.simplefilter("ignore")
            return _execute(run)
    except BaseException as error:  # also sys.exit() and KeyboardInterrupt within a method: it is the run's failure
        return failed(run, _said(error), time.perf_counter() - start)


def _said(error: BaseException) -> str:
    """An exception on one line; one whose text cannot be had is named by its kind."""
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception:
        return type(error).__name__


def _execute(run: Run) -> Row:
    method, data = METHODS[run.method], _load(run.source)
    effort = run.effort if method.accelerated else replace(run.effort, device="cpu")
    split = make_split(run.source.name, data.X, data.y, run.split, effort.quick)
    start = time.perf_counter()
    fitted = method.fit(split.X, split.y, run.split, effort)
    seconds = time.perf_counter() - start
    t = np.asarray(fitted.predict(split.X_test), dtype=float)
    predict_seconds = time.perf_counter() - start - seconds
    if t.size != len(split.y_test) or not np.isfinite(t).all():
        raise ValueError(f"{t.shape} predictions for {len(split.y_test)} rows, {int(np.isfinite(t).sum())} finite")
    mse, standard_error = clipped_error(t.reshape(-1), split.y_test)
    return _row(
        run,
        status="ok",
        mse=mse,
        standard_error=standard_error,
        seconds=round(seconds, 3),
        predict_seconds=round(predict_seconds, 3),
        n_train=len(split.y),
        n_test=len(split.y_test),
        chosen=_jsonable(fitted.chosen),
        device=effort.device,
        data=fingerprint(run.source),
    )


def failed(run: Run, reason: str, seconds: float = 0.0) -> Row:
    return _row(run, status="failed", seconds=round(seconds, 3), reason=reason[:1000])


def _row(run: Run, **filled: Any) -> Row:
    name, split, method = run.key
    empty: Row = {"set": name, "split": split, "method": method, "status": "failed", "mse": None}
    empty |= {"standard_error": None, "seconds": 0.0, "predict_seconds": None, "n_train": 0, "n_test": 0}
    empty |= {"chosen": {}, "reason": None, "threads": run.effort.threads, "device": run.effort.device}
    empty |= {"machine": _machine(), "versions": _versions(method), "finished": _now()}
    return empty | {"preset": "quick" if run.effort.quick else "paper"} | filled


@lru_cache(maxsize=2)
def fingerprint(source: Source) -> str:
    """Of the columns and labels in their order: splits are pairs only where it is the same."""
    data = _load(source)
    return hashlib.sha256(np.column_stack([as_numbers(data.X), data.y]).tobytes()).hexdigest()[:16]


@lru_cache(maxsize=2)
def _load(source: Source) -> datasets.DataSet:
    """The runs of a set follow one another, so that two sets are enough to keep."""
    return source.load()


def _jsonable(value: Any) -> Any:
    """numpy's numbers and arrays as Python's, numbers that JSON lacks and other objects as text."""
    if isinstance(value, dict):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_jsonable(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value)):
        return value
    return str(value)


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def _versions(method: str) -> dict[str, str]:
    packages = {"torch": "torch", "sklearn": "scikit-learn", "numpy": "numpy"}
    packages |= {name: name.replace("_", "-") for name in (METHODS[method].requires if method in METHODS else ())}
    versions = {"hgk": __version__, "python": platform.python_version()}
    for name, package in packages.items():
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# ------------------------------------------------------------------------------------------------- who does the runs


class Workers(ABC):
    """Takes runs, and gives back rows; ``local`` workers see the files that the runner sees."""

    local = True

    @property
    @abstractmethod
    def width(self) -> int:
        """So many runs are under way at a time."""

    @abstractmethod
    def submit(self, run: Run) -> Any:
        """A future of the run's row."""

    @abstractmethod
    def wait(self, under_way: Iterable[Any]) -> set[Any]:
        """The futures, one at least, that are through."""

    @abstractmethod
    def result(self, future: Any, run: Run) -> Row | None:
        """The row, or None when the worker died."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the workers, whatever they do."""


class Processes(Workers):
    """``jobs`` processes on this machine."""

    def __init__(self, jobs: int, threads: int):
        self.jobs, self.threads = jobs, threads

    @property
    def width(self) -> int:
        return self.jobs

    def _pool(self):
        from joblib.externals.loky import get_reusable_executor

        limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        return get_reusable_executor(
            self.jobs,
            timeout=3600,
            env=dict.fromkeys(limits, str(self.threads)),
            initializer=_begin,
            initargs=(os.getpid(),),
        )

    def submit(self, run: Run):
        return self._pool().submit(execute, run)

    def wait(self, under_way):
        return futures.wait(list(under_way), return_when=futures.FIRST_COMPLETED).done

    def result(self, future, run):
        try:
            return future.result()
        except BrokenProcessPool:
            return None
        except Exception as error:
            return failed(run, f"the worker could not do the run ({_said(error)})")

    def close(self) -> None:
        self._pool().shutdown(wait=True, kill_workers=True)


def _begin(parent: int) -> None:
    """What a worker does first: it ends with its parent, leaves Ctrl-C to it, and keeps the methods' chatter in."""
    os.setpgrp()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if not os.environ.get("HGK_DEBUG"):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class Cluster(Workers):
    """A Dask cluster, by its scheduler's address."""

    local = False

    def __init__(self, address: str):
        try:
            self.dask = importlib.import_module("distributed")
        except ImportError:
            raise RunnerError("A Dask cluster needs the package distributed; pip install 'hgk[dask]'.") from None
        if not os.environ.get("HGK_DEBUG"):
            logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # what matters is said by our own errors
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
        try:
            self.client = self.dask.Client(address, timeout=SCHEDULER_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise RunnerError(
                f"No Dask scheduler answers at {address!r} ({type(error).__name__}); "
                "check the address and that `dask scheduler` runs there."
            ) from error
        try:
            self.client.wait_for_workers(1, timeout=SCHEDULER_SECONDS)
        except TimeoutError:
            self.client.close()
            raise RunnerError(
                f"The Dask scheduler at {address!r} has no workers; start some with `dask worker {address}`."
            ) from None

    @property
    def width(self) -> int:
        """A run per thread of a worker; workers may come and go."""
        return max(1, self._threads())

    def _threads(self) -> int:
        try:
            return sum(self.client.nthreads().values())
        except (OSError, TimeoutError) as error:
            raise RunnerError(GONE) from error

    def submit(self, run: Run):
        return self.client.submit(execute, run, pure=False)

    def wait(self, under_way):
        """Look after the cluster now and then: a scheduler or workers that are gone for good send no word."""
        seen = time.monotonic()
        while time.monotonic() - seen < WITHOUT_WORKERS:
            try:
                return self.dask.wait(list(under_way), timeout=2, return_when="FIRST_COMPLETED").done
            except (TimeoutError, self.dask.TimeoutError):
                seen = time.monotonic() if self._threads() else seen
            except futures.CancelledError:
                raise RunnerError(GONE) from None
        raise RunnerError("The Dask cluster has no workers left; start some, and run the same command again to resume.")

    def result(self, future, run):
        if future.status == "cancelled":
            raise RunnerError(GONE)
        try:
            return future.result()
        except self.dask.KilledWorker:
            return None
        except futures.CancelledError:
            raise RunnerError(GONE) from None
        except Exception as error:  # a worker without hgk, say
            return failed(run, f"the worker could not do the run ({_said(error)})")

    def close(self) -> None:
        self.client.close(timeout=2)


# --------------------------------------------------------------------------------------------------------- the loop


@dataclass(frozen=True)
class RunCounts:
    """How many runs ended well, how many failed, and how many another runner had under way at the end."""

    ok: int = 0
    failed: int = 0
    elsewhere: int = 0


OnRow = Callable[[Row, list[Run]], Any]  # a row that came in, and the runs that are left


def missing_runs(runs: Iterable[Run], store: Store, retry_failed: bool = False) -> list[Run]:
    """The runs that have no row yet; with ``retry_failed``, also those whose row is of a failure."""
    rows = store.rows()
    done = {(r["set"], r["split"], r["method"]) for r in rows if r["status"] == "ok" or not retry_failed}
    return [run for run in runs if run.key not in done]


def run_all(
    runs: Sequence[Run],
    store: Store,
    workers: Workers,
    retry_failed: bool = False,
    report: OnRow = lambda row, left: None,
) -> RunCounts:
    """Do what is missing in the store; every row is stored as soon as it is there.

    A run that another runner has claimed is left to it, and looked at again in the end.
    """
    loop = _Loop(store, workers, retry_failed, report)
    try:
        check_preset(store, runs)
        check_own(store, runs)
        loop.do(missing_runs(runs, store, retry_failed))
        again, loop.elsewhere = missing_runs(loop.elsewhere, store, retry_failed), []
        loop.do(again)
    finally:
        loop.release()
        workers.close()
    left = missing_runs(loop.elsewhere, store, retry_failed)
    return RunCounts(loop.count["ok"], loop.count["failed"], len(left))


def check_own(store: Store, runs: Iterable[Run]) -> None:
    """A table of one's own that has changed since its rows were stored is another one."""
    for source in {run.source for run in runs if run.source.file is not None}:
        known = {row["data"] for row in store.rows() if row["set"] == source.name and "data" in row}
        if known - {fingerprint(source)}:
            raise RunnerError(
                f"The store {store.path} holds rows of another table named {source.name!r}; give another --out, or "
                "rename the file."
            )


def check_preset(store: Store, runs: Iterable[Run]) -> None:
    """Quick rows and real ones do not mix."""
    presets = {"quick" if run.effort.quick else "paper" for run in runs}
    others = {row.get("preset", "paper") for row in store.rows()} - presets
    if presets and others:
        raise RunnerError(
            f"The store {store.path} holds rows of the preset {others.pop()!r} and {presets.pop()!r} is asked for; "
            "give another --out."
        )


class _Loop:
    """Runs under way with their claims, runs to be done, and runs to be done alone because a worker died."""

    def __init__(self, store: Store, workers: Workers, retry_failed: bool, report: OnRow):
        self.store, self.workers, self.retry_failed, self.report = store, workers, retry_failed, report
        self.under_way: dict[Any, Run] = {}
        self.suspects: deque[Run] = deque()
        self.alone: Run | None = None  # the suspect that is under way
        self.claims: dict[RunKey, Any] = {}
        self.elsewhere: list[Run] = []
        self.count = {"ok": 0, "failed": 0}

    def do(self, runs: Iterable[Run]) -> None:
        waiting = deque(runs)
        while True:
            self._fill(waiting)
            if not self.under_way:
                return
            for future in self.workers.wait(self.under_way):
                self._take(future, waiting)

    def _fill(self, waiting: deque[Run]) -> None:
        """Suspects are done alone; otherwise as many as the workers take."""
        if self.suspects:
            if not self.under_way:
                self.alone = self.suspects.popleft()
                self._start(self.alone)
            return
        while waiting and not self.alone and len(self.under_way) < self.workers.width:
            run = waiting.popleft()
            if self._claim(run):
                reason = _unavailable(run.source) if self.workers.local else None
                if reason is None:
                    self._start(run)
                else:
                    self._finish(run, failed(run, reason), waiting)

    def _claim(self, run: Run) -> bool:
        claim = self.store.claim(run.key)
        if claim is None:
            self.elsewhere.append(run)
            return False
        if self.store.has(run.key, self.retry_failed):  # another runner was through with it in between
            claim.release()
            return False
        self.claims[run.key] = claim
        return True

    def _start(self, run: Run) -> None:
        self.under_way[self.workers.submit(run)] = run

    def _take(self, future: Any, waiting: deque[Run]) -> None:
        run = self.under_way.pop(future)
        row = self.workers.result(future, run)
        suspect, self.alone = self.alone is run, None
        if row is None and not suspect:
            self.suspects.append(run)
        else:
            self._finish(run, row or failed(run, DIED), waiting)

    def _finish(self, run: Run, row: Row, waiting: deque[Run]) -> None:
        self.store.append(row)
        self.claims.pop(run.key).release()
        self.count[row["status"]] += 1
        self.report(row, [*self.under_way.values(), *self.suspects, *waiting])

    def release(self) -> None:
        for claim in self.claims.values():
            claim.release()


@cache
def _unavailable(source: Source) -> str | None:
    """Why the set's file cannot be had; asked once per set, so that workers do not all download it."""
    if source.name not in datasets.SPECS or source.file is not None:
        return None
    try:
        datasets.locate(datasets.SPECS[source.name], source.data_home)
    except datasets.DataError as error:
        return f"DataError: {error}"
    return None


def seconds_left(left: Sequence[Run], rows: Sequence[Row], width: int) -> float | None:
    """What the runs that are left will take: each as long as its method took in the mean so far.

    >>> rows = [{"method": "RF", "seconds": 2.0, "status": "ok"}, {"method": "SVM", "seconds": 6.0, "status": "ok"}]
    >>> seconds_left([Run(Source("magic"), 1, "RF", Effort()), Run(Source("magic"), 1, "new", Effort())], rows, 2)
    3.0
    """
    times: dict[str, list[float]] = {}
    for row in rows:
        seconds = (row.get("seconds") or 0.0) + (row.get("predict_seconds") or 0.0)
        times.setdefault(row["method"], []).append(seconds)
    if not times:
        return None
    mean = {method: float(np.mean(seconds)) for method, seconds in times.items()}
    everywhere = float(np.mean([s for seconds in times.values() for s in seconds]))
    return sum(mean.get(run.method, everywhere) for run in left) / width
