"""The runner and the command line, with real processes: failures, deaths, kill -9, two runners, a Dask cluster."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hgk.bench import datasets, protocol, runner
from hgk.bench.methods import METHODS, Effort
from hgk.bench.runner import Processes, Run, Source, missing_runs, plan, run_all
from hgk.bench.store import Store, read

ROOT = Path(__file__).parents[1]
SHOWN = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "benchmark.md").read_text(), re.S)[1]

# Methods that do what methods should not, as a user would add them: files in a folder.
ODD = """
import os, pathlib, time
import numpy as np
from hgk.bench.methods import Fitted, Method

HERE = pathlib.Path(__file__).parent

class Zero(Method):
    name = "Zero"
    def fit(self, X, y, seed, effort):
        return Fitted(lambda X: np.zeros(len(X)), {"pid": os.getpid(), "n": np.int64(len(y)), "bad": float("nan")})

class Gate(Zero):  # from split 2 on it waits for a file; every start is recorded
    name = "Gate"
    def fit(self, X, y, seed, effort):
        with open(HERE / "begun", "a") as file:
            file.write(f"{seed} {os.getpid()}\\n")
        while seed >= 2 and not (HERE / "open").exists():
            time.sleep(0.02)
        return super().fit(X, y, seed, effort)

class Raises(Method):
    name = "Raises"
    def fit(self, X, y, seed, effort):
        raise RuntimeError("two\\nlines")

class NotANumber(Method):
    name = "NotANumber"
    def fit(self, X, y, seed, effort):
        return Fitted(lambda X: np.full(len(X), np.nan))

class Dies(Method):
    name = "Dies"
    def fit(self, X, y, seed, effort):
        os.kill(os.getpid(), 9)

class Exits(Zero):
    name = "Exits"
    def fit(self, X, y, seed, effort):
        raise SystemExit("bye")

class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError

class SaysNothing(Zero):
    name = "SaysNothing"
    def fit(self, X, y, seed, effort):
        raise Unspeakable

class OddText(Zero):
    name = "OddText"
    def fit(self, X, y, seed, effort):
        raise ValueError("file " + chr(0xDCFF))

class DiesOnce(Zero):
    name = "DiesOnce"
    def fit(self, X, y, seed, effort):
        mark = HERE / f"died-{seed}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return super().fit(X, y, seed, effort)
"""


@pytest.fixture
def odd(tmp_path, monkeypatch):
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "odd.py").write_text(ODD)
    monkeypatch.setenv("HGK_BENCH_METHODS", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    yield folder
    (folder / "open").touch()  # whatever a failed test left waiting goes on, and ends


def quick(methods, splits=1, sets=("diabetes",)):
    return plan([Source(name) for name in sets], methods, range(splits), Effort(threads=1, quick=True))


def hgk(*arguments):
    return [sys.executable, "-m", "hgk", "bench", *map(str, arguments)]


def wait_for(condition):
    for _ in range(3600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited for three minutes in vain")


def gone(pid):
    """No such process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


# ------------------------------------------------------------------------------------------------- planning, methods


def test_all_sets_get_their_first_split_first():
    runs = plan([Source("magic"), Source("cadata")], ["SVM", "RF"], range(3), Effort())
    assert [run.split for run in runs] == sorted(run.split for run in runs)
    assert {run.source.name for run in runs[:4]} == {"magic", "cadata"}
    assert len({run.key for run in runs}) == len(runs) == 12


def test_what_is_missing(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    runs = quick(["SVM", "RF", "Zero"])
    store.append({"set": "diabetes", "split": 0, "method": "SVM", "status": "ok", "mse": 0.1})
    store.append({"set": "diabetes", "split": 0, "method": "RF", "status": "failed", "mse": None})
    assert [run.method for run in missing_runs(runs, store)] == ["Zero"]
    assert [run.method for run in missing_runs(runs, store, retry_failed=True)] == ["RF", "Zero"]


@pytest.mark.filterwarnings("ignore")  # as the runner does: they are the peers' own
@pytest.mark.parametrize("name", METHODS)
def test_every_installed_method_beats_the_mean_on_linear_data(name):
    method = METHODS[name]
    if method.missing():
        pytest.skip(f"needs {', '.join(method.missing())}")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 3))
    y = (X @ [0.6, 0.3, 0.0]).clip(-1, 1)
    fitted = method.fit(X[:100], y[:100], 0, Effort(threads=1, quick=True))
    error, _ = protocol.clipped_error(np.asarray(fitted.predict(X[100:])).reshape(-1), y[100:])
    assert error < 0.5 * y[100:].var()
    json.dumps(runner._jsonable(fitted.chosen), allow_nan=False)


def test_what_a_method_trains_on_does_not_see_the_test_rows():
    data = datasets.load("diabetes")
    split = protocol.make_split("diabetes", data.X, data.y, 0, quick=True)
    train, test = protocol.split_rows(len(data.y), len(split.y), 0, protocol.QUICK_TEST_ROWS)
    changed = data.X.copy()
    changed.iloc[test] = changed.iloc[test].to_numpy()[::-1] * 7
    again = protocol.make_split("diabetes", changed, data.y, 0, quick=True)
    np.testing.assert_array_equal(split.X, again.X)
    np.testing.assert_array_equal(split.y, data.y[train])


# -------------------------------------------------------------------------------------------- processes on a machine


def test_failures_and_deaths_are_rows_and_the_others_go_on(odd, tmp_path):
    """Beside them the method of the documentation, which is one short file."""
    (odd / "neighbours.py").write_text(SHOWN)
    assert SHOWN.count("\n") < 40
    store = Store(tmp_path / "rows.jsonl")
    bad = ["Raises", "NotANumber", "Exits", "SaysNothing", "OddText", "Dies"]
    runs = quick(["Zero", *bad[:2], "kNN", *bad[2:]]) + quick(["Zero"], sets=["digits"])
    reported = []
    summary = run_all(runs, store, Processes(2, 1), report=lambda row, left: reported.append(len(left)))
    rows = {(r["set"], r["method"]): r for r in store.rows()}
    assert (summary.ok, summary.failed, summary.elsewhere) == (3, 6, 0)
    assert len(rows) == len(reported) == 9
    assert reported[-1] == 0
    assert rows["diabetes", "Raises"]["reason"] == "RuntimeError: two lines"
    assert rows["diabetes", "Exits"]["reason"] == "SystemExit: bye"
    assert rows["diabetes", "SaysNothing"]["reason"] == "Unspeakable"
    assert rows["diabetes", "OddText"]["reason"].startswith("ValueError: file")
    assert rows["diabetes", "Dies"]["reason"] == runner.DIED
    assert "0 finite" in rows["diabetes", "NotANumber"]["reason"]
    assert set(rows["diabetes", "kNN"]["chosen"]) == {"n_neighbors"}
    assert rows["diabetes", "kNN"]["mse"] < rows["diabetes", "Zero"]["mse"]

    row, data = rows["diabetes", "Zero"], datasets.load("diabetes")
    split = protocol.make_split("diabetes", data.X, data.y, 0, quick=True)
    assert (row["mse"], row["standard_error"]) == protocol.clipped_error(np.zeros(len(split.y_test)), split.y_test)
    assert (row["n_train"], row["n_test"]) == (len(split.y), len(split.y_test))
    assert row["chosen"]["n"] == len(split.y)
    assert row["chosen"]["bad"] == "nan"
    assert row["chosen"]["pid"] != os.getpid()
    fields = "set split method status mse standard_error seconds predict_seconds n_train n_test chosen reason threads"
    assert {*fields.split(), "device", "machine", "versions", "finished"} <= set(row)
    assert run_all(runs, store, Processes(1, 1)) == runner.RunCounts(0, 0, 0)


def test_a_set_that_cannot_be_had_is_a_failed_row_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HGK_DATA_HOME", raising=False)
    monkeypatch.setattr(Processes, "submit", lambda self, run: pytest.fail("a worker was asked"))
    store = Store(tmp_path / "rows.jsonl")
    summary = run_all(quick(["SVM", "RF"], sets=["thyroid-ann"]), store, Processes(1, 1))
    assert summary.failed == 2
    assert all("thyroid-ann is not here" in row["reason"] for row in store.rows())


def test_a_table_of_one_s_own_that_changes_is_another_one(tmp_path):
    table = tmp_path / "mine.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x", "y", "z"])
    frame.to_csv(table, index=False)
    store = Store(tmp_path / "rows.jsonl")

    def done(target):
        source = Source(datasets.from_file(table, target).name, file=str(table), target=target)
        return run_all(plan([source], ["RF"], [0], Effort(threads=1, quick=True)), store, Here())

    assert done("y").ok == 1
    assert done("y").ok == 0  # it is there
    assert done("z").ok == 1  # another target is another set
    assert {row["set"] for row in store.rows()} == {"mine:y", "mine:z"}
    runner._load.cache_clear()
    runner.fingerprint.cache_clear()
    (frame + 1e-3).to_csv(table, index=False)
    with pytest.raises(runner.RunnerError, match="holds rows of another table named 'mine:y'"):
        done("y")


class Here(runner.Workers):
    """Does runs at once, in this process."""

    width = 1

    def submit(self, run):
        return Done(runner.execute(run))

    def wait(self, under_way):
        return set(under_way)

    def result(self, future, run):
        return future.row

    def close(self):
        pass


class Done:
    def __init__(self, row):
        self.row = row


def test_quick_rows_and_real_ones_do_not_mix(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    store.append(runner.failed(quick(["SVM"])[0], "a reason"))
    with pytest.raises(runner.RunnerError, match=r"holds rows of the preset 'quick' and 'paper' is asked for"):
        runner.check_preset(store, [Run(Source("diabetes"), 0, "SVM", Effort())])


def test_two_runners_share_the_work_and_kill_9_of_one_loses_the_run_it_had_under_way(odd, tmp_path):
    """One is a command that comes to a halt in split 2, the other this process, which then has split 3 under way."""
    out, begun = tmp_path / "rows.jsonl", odd / "begun"
    command = "run --preset quick --sets diabetes --methods Gate --splits 6 --threads 1 --out"
    first = subprocess.Popen(hgk(*command.split(), out), stdout=subprocess.DEVNULL)
    wait_for(lambda: begun.exists() and begun.read_text().count("\n") == 3)
    before, _ = read(out)
    assert [row["split"] for row in before] == [0, 1]

    def kill_and_open() -> None:
        wait_for(lambda: begun.read_text().count("\n") == 4)
        first.send_signal(signal.SIGKILL)
        first.wait()
        try:
            wait_for(lambda: gone(before[0]["chosen"]["pid"]))  # its worker ends with it
        finally:
            (odd / "open").touch()

    helper = threading.Thread(target=kill_and_open)
    helper.start()
    try:
        summary = run_all(quick(["Gate"], splits=6), Store(out), Processes(1, 1))
    finally:
        helper.join()
        first.kill()
    assert summary == runner.RunCounts(ok=4)
    rows, damages = read(out)
    assert damages == []
    assert [row["split"] for row in rows] == [0, 1, 3, 4, 5, 2]
    assert Counter(line.split()[0] for line in begun.read_text().splitlines()) == Counter("0123452")


# --------------------------------------------------------------------------------------------------------------- Dask


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_survives_deaths_and_gives_up_a_deadly_run(odd, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs distributed")
    import dask

    monkeypatch.setattr(runner, "SCHEDULER_SECONDS", 300.0)  # workers start slowly on a busy machine
    monkeypatch.setattr(runner, "WITHOUT_WORKERS", 300.0)
    at_once = {"distributed.scheduler.allowed-failures": 0}  # Dask gives a run up at the first death
    store = Store(tmp_path / "rows.jsonl")
    with (
        dask.config.set(at_once),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
    ):
        workers = runner.Cluster(cluster.scheduler_address)
        assert workers.width == 2
        summary = run_all(quick(["Zero", "DiesOnce", "Dies"]), store, workers)
    rows = {r["method"]: r for r in store.rows()}
    assert (summary.ok, summary.failed) == (2, 1)
    assert rows["DiesOnce"]["status"] == rows["Zero"]["status"] == "ok"
    assert rows["Dies"]["reason"] == runner.DIED


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_does_not_answer_ends_in_a_sentence(monkeypatch):
    pytest.importorskip("distributed", reason="needs distributed")
    monkeypatch.setattr(runner, "SCHEDULER_SECONDS", 1.0)
    with pytest.raises(runner.RunnerError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        runner.Cluster("tcp://127.0.0.1:9")
    with pytest.raises(runner.RunnerError, match="No Dask scheduler answers at 'nonsense'"):
        runner.Cluster("nonsense")
