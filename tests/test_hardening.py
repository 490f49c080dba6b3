"""Bad days: no memory, no disk, signals, threads and processes."""

import io
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from joblib.externals import loky
from sklearn.base import clone

import hgk
from hgk import HGKClassifier, HGKRegressor, arrays
from hgk.bench.store import Store
from hgk.cli import tables
from hgk.report import write_report
from hgk.storage import write_atomically

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("HGK_MEMORY", None)


def rows(n=40, seed=0):
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1]


# -------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("text", "count"), [("1000", 1000), ("2k", 2048), ("500M", 500 * 2**20), ("1.5 GiB", 1.5 * 2**30), ("1T", 2**40)]
)
def test_the_limit_of_memory_is_a_setting(monkeypatch, text, count):
    monkeypatch.setenv("HGK_MEMORY", text)
    assert arrays.memory._asked() == count
    assert arrays.available_memory() <= count


@pytest.mark.parametrize("preset", ["default", "plain", "algorithm1"])
def test_a_fit_beyond_the_limit_is_refused_before_it_begins(monkeypatch, preset):
    events = []
    X, y = rows(200)
    monkeypatch.setenv("HGK_MEMORY", "500k")
    with pytest.raises(
        MemoryError, match=r"needs .* MiB and [\d.]+ MiB are allowed by HGK_MEMORY; (use at most about|make room)"
    ):
        HGKRegressor(preset, callback=events.append).fit(X, y)
    assert events == []
    monkeypatch.setenv("HGK_MEMORY", "200M")
    HGKRegressor("plain").fit(X, y)


@pytest.mark.parametrize(("free", "advice"), [(320_000, "about 94 do, so fit on"), (640_000, "fit again")])
def test_running_out_of_memory_names_what_fits_or_says_that_others_had_it(monkeypatch, free, advice):
    """100 rows want four matrices of 80,000 bytes, in nine tenths of what is free."""
    monkeypatch.setattr(arrays.memory, "available_memory", lambda *device: free)
    sentence = f"100 rows did not fit.*{advice}"
    with pytest.raises(MemoryError, match=sentence), arrays.on_device(100, torch.device("cpu")):
        raise torch.OutOfMemoryError


def test_models_and_tables_larger_than_the_limit_are_refused(monkeypatch, tmp_path):
    import gzip

    hgk.save(HGKRegressor("plain", random_state=0).fit(*rows()), tmp_path / "m.hgk")
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10**6))
    assert (tmp_path / "bomb.csv.gz").stat().st_size < 10**5
    monkeypatch.setenv("HGK_MEMORY", "4k")
    with pytest.raises(hgk.ModelFileError, match="needs three times as much memory"):
        hgk.load(tmp_path / "m.hgk")
    monkeypatch.setenv("HGK_MEMORY", "1M")
    with pytest.raises(tables.TableError, match="set HGK_MEMORY"):
        tables.read_table(tmp_path / "bomb.csv.gz")


# ------------------------------------------------------------------------------------------- full disks, signals


def forked(work, *arguments):
    """A process that has everything imported, and the end of a pipe to it."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe()
    process = context.Process(target=work, args=(its, *arguments))
    process.start()
    return process, mine


def on_a_full_disk(pipe, write, path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # as a full disk: writing fails half-way
    try:
        write(path)
    except Exception as error:
        pipe.send(str(error))


FAILED = {"set": "s", "split": 0, "method": "RF", "status": "failed", "reason": "x" * 9000}
WRITERS = {
    "model": lambda path: hgk.save(HGKRegressor("plain", random_state=0).fit(*rows()), path, force=True),
    "report": lambda path: write_report(HGKRegressor("plain", random_state=0).fit(*rows()), path),
    "csv": lambda path: tables.write_table(pd.DataFrame({"a": np.arange(9000)}), path),
    "store": lambda path: Store(path).append(FAILED),
}


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path, what):
    path = tmp_path / "out"
    path.write_bytes(b"old\n")
    process, pipe = forked(on_a_full_disk, WRITERS[what], path)
    assert pipe.poll(300)
    reason = "it took a part of a row, the disk may be full" if what == "store" else "File too large"
    assert f"could not be written ({reason}) and is as it was before; make room" in pipe.recv()
    process.join()
    assert path.read_bytes() == b"old\n"
    assert {p.name for p in tmp_path.iterdir()} <= {"out", "out.lock"}


def writing_slowly(pipe, path):
    def write(file):
        file.write(b"x" * 100_000)
        file.flush()
        pipe.send("half")
        time.sleep(600)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stderr = io.StringIO()  # the traceback of Ctrl-C
    write_atomically(path, write)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_signal_in_the_middle_of_a_write_leaves_what_was_there_and_nothing_else(tmp_path, number):
    path = tmp_path / "model.hgk"
    path.write_bytes(b"old")
    process, pipe = forked(writing_slowly, path)
    assert pipe.recv() == "half"
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode != 0
    assert path.read_bytes() == b"old"
    if number == signal.SIGINT or hasattr(os, "O_TMPFILE"):
        assert list(tmp_path.iterdir()) == [path]


def test_a_system_without_unnamed_files_writes_whole_files_too(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    tables.write_table(pd.DataFrame({"a": [1]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "a\n1\n"
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
    write_report(HGKRegressor("plain", random_state=0).fit(*rows()), tmp_path / "r.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "t.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_one_sentence(tmp_path):
    X, y = rows()
    hgk.save(HGKRegressor("plain", random_state=0).fit(pd.DataFrame(X, columns=list("abc")), y), tmp_path / "m.hgk")
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "hgk", "predict", tmp_path / "m.hgk", tmp_path / "t.csv"],
            env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = "Standard output could not be written (No space left on device); make room, or give --out."
    assert (process.returncode, process.stderr) == (2, f"hgk: {said}\n")


# ----------------------------------------------------------------------------------------- threads and processes


def predictions(seed=0):
    """Of both estimators, with both presets, as bytes."""
    X, y = rows()
    found = [HGKRegressor(preset, random_state=seed).fit(X, y).predict(X) for preset in ("plain", "default")]
    found += [HGKRegressor("plain", random_state=seed).fit(X, y).predict_interval(X)]
    found.append(HGKClassifier("plain", random_state=seed).fit(X, y > 1).predict_proba(X))
    return b"".join(part.tobytes() for part in found)


def test_threads_and_processes_of_joblib_give_the_same_bits():
    expected = predictions()
    assert joblib.Parallel(2, "threading")(joblib.delayed(predictions)() for _ in range(2)) == [expected] * 2
    assert loky.get_reusable_executor(max_workers=1).submit(predictions).result() == expected


@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_processes_give_the_same_bits_also_after_torch_has_used_threads(way):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {way} here")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.randn(1500, 1500) @ torch.randn(1500, 1500)  # starts the threads that a fork does not copy
        context = multiprocessing.get_context(way)
        with context.Pool(1) as pool:
            assert pool.apply_async(predictions).get(timeout=600) == predictions()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("preset", ["plain", "default"])
def test_the_same_seed_gives_the_same_bits_however_many_jobs_and_after_cloning(preset):
    X, y = rows()
    model = HGKRegressor(preset, random_state=3)
    expected = model.fit(X, y).predict(X)
    assert np.array_equal(clone(model).fit(X, y).predict(X), expected)
    assert np.array_equal(clone(model).set_params(n_jobs=2).fit(X, y).predict(X), expected)
    assert np.array_equal(model.fit(X, y).predict(X), expected)


def test_one_model_predicts_in_several_threads_at_once():
    X, y = rows()
    model = HGKClassifier("plain", random_state=0).fit(X, y > 1)
    expected = clone(model).fit(X, y > 1).predict_proba(X)
    several = joblib.Parallel(4, "threading")(joblib.delayed(model.predict_proba)(X) for _ in range(8))
    assert all(np.array_equal(p, expected) for p in several)
