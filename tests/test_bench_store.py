"""The store: durable, safe with several writers, and clear about damage."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from hgk.bench import store as store_module
from hgk.bench.store import Store, StoreError, latest, read


def row(split=0, method="RF", status="ok", mse=0.5, **more):
    return {"set": "magic", "split": split, "method": method, "status": status, "mse": mse, **more}


# The store alone, without the library around it, which takes seconds to import.
ALONE = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("store", {store_module.__file__!r})
sys.modules["store"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["store"])
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", ALONE + textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_rows_come_back_as_they_were(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    rows = [row(s, chosen={"λ": 0.1, "text": "two\nlines"}) for s in range(3)]
    for r in rows:
        store.append(r)
    assert store.rows() == rows
    assert (tmp_path / "rows.jsonl").read_bytes().count(b"\n") == 3


def test_a_tear_at_any_byte_costs_that_row_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    whole, last = json.dumps(row(0)).encode() + b"\n", json.dumps(row(1)).encode() + b"\n"
    for cut in range(len(last) + 1):
        path.write_bytes(whole + last[:cut])
        store = Store(path)
        store.append(row(2))
        complete = cut >= len(last) - 1  # all but the line break
        assert [r["split"] for r in store.rows()] == ([0, 1, 2] if complete else [0, 2])
        assert [d.line for d in store.damages()] == ([] if complete or cut == 0 else [2])


def test_damaged_rows_are_reported_by_line_and_passed_over(tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [
        json.dumps(row(0)),
        "{broken",
        "[1, 2]",
        json.dumps(row("1")),
        "",
        json.dumps(row(2, status="odd")),
        json.dumps(row(3, mse=float("nan"))),
        json.dumps(row(True)),
        json.dumps(row(4)),
        json.dumps(row(5, mse=True)),
        json.dumps(row(6, mse=-1)),
        json.dumps(row(7, mse=10**400)),
        "[" * 100_000,
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    rows, damages = read(path)
    assert [r["split"] for r in rows] == [0, 4]
    assert [d.line for d in damages] == [2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 14]
    assert "status='odd'" in str(damages[3])


def test_a_row_is_on_the_disk_when_append_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    store = Store(tmp_path / "rows.jsonl")
    store.append(row(0))
    assert synced[0] == store.path.stat().st_size  # the file, whole; then its folder
    assert len(synced) == 2


def test_success_counts_more_than_failure_and_later_more_than_earlier():
    rows = [row(status="failed", mse=None), row(mse=0.1), row(status="failed", mse=None), row(mse=0.2)]
    assert latest(rows)[0]["mse"] == 0.2
    assert latest(rows[:3])[0]["mse"] == 0.1
    assert latest([row(status="failed", mse=None, reason=r) for r in "ab"])[0]["reason"] == "b"


def test_a_number_that_json_lacks_is_refused_and_leaves_no_trace(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        store.append(row(mse=float("inf")))
    assert store.rows() == []


def test_a_store_that_cannot_be_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(StoreError, match="is a folder; give a file"):
        Store(tmp_path)
    with pytest.raises(StoreError, match="does not exist; create it first"):
        Store(tmp_path / "missing" / "rows.jsonl")


WRITER = """
    import sys
    from store import Store
    store, number, most = Store(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print("ready", flush=True)
    sys.stdin.readline()
    for split in range(most):
        store.append({"set": "s" * 5000, "split": split, "method": str(number), "status": "ok", "mse": 0.0})
        print(split, flush=True)
"""


def test_several_writers_do_not_disturb_one_another_and_a_killed_one_loses_nothing_it_confirmed(tmp_path):
    path = tmp_path / "rows.jsonl"
    writers = [start(WRITER, path, number, 30 if number < 2 else 10**9) for number in range(3)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    victim = writers[2]
    for _ in range(20):
        victim.stdout.readline()
    victim.send_signal(signal.SIGKILL)
    confirmed = 20 + sum(1 for _ in victim.stdout)
    for writer in writers[:2]:
        writer.communicate(timeout=300)
    victim.communicate()
    rows, damages = read(path)
    assert len(damages) <= 1
    by_method = {m: sorted(r["split"] for r in rows if r["method"] == m) for m in "012"}
    assert by_method["0"] == by_method["1"] == list(range(30))
    assert set(range(confirmed)) <= set(by_method["2"])


def test_a_claim_is_held_by_one_and_falls_with_its_holder(tmp_path):
    path, key = tmp_path / "rows.jsonl", ("magic", 0, "RF")
    holder = start(
        """
        import sys, time
        from store import Store
        claim = Store(sys.argv[1]).claim(("magic", 0, "RF"))
        print(claim is not None, flush=True)
        time.sleep(600)
        """,
        path,
    )
    assert holder.stdout.readline() == "True\n"
    store = Store(path)
    assert store.claim(key) is None
    other = store.claim(("magic", 1, "RF"))
    assert other is not None
    assert Store(path).claim(("magic", 1, "RF")) is None
    holder.kill()
    holder.communicate()
    claim = store.claim(key)
    assert claim is not None
    claim.release()
    assert Store(path).claim(key) is not None
