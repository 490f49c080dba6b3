"""The script that does runs on a machine without pandas, on tiny sets."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hgk.bench import datasets
from hgk.bench.protocol import make_split

FOLDER = Path(__file__).parents[1] / "experiments" / "table1"


@pytest.fixture
def script(monkeypatch):
    """The script with these options, in this process; its worker finds it on the path."""
    monkeypatch.syspath_prepend(FOLDER)
    import bare

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["bare.py", *map(str, options)])
        bare.main()

    return call


def test_it_runs_what_is_missing_and_appends_rows_of_the_store(tmp_path, script):
    rng = np.random.default_rng(0)
    arrays = {}
    for name in ("cadata", "magic", "higgs"):
        X = rng.uniform(-1, 1, (150, 3))
        arrays |= {f"{name}/X": X, f"{name}/y": X[:, 0] * X[:, 1], f"{name}/data": np.array("f" + name)}
    arrays["magic/y"][:] = np.nan
    sets, out = tmp_path / "sets.npz", tmp_path / "rows.jsonl"
    np.savez(sets, **arrays)
    asked = ["run", "--npz", sets, "--out", out, "--methods", "RF", "--sets", "cadata", "magic", "--splits", 0, 1]
    script(*asked, "--limit", 0)
    assert not out.exists()
    done = [("cadata", 0), ("magic", 1)]
    known = [json.dumps({"set": s, "split": i, "method": "RF", "status": "ok"}) for s, i in done]
    out.write_text("\n".join([*known, '{"set": "ca']))
    script(*asked, "--quick")
    *_, torn, failed, row = out.read_text().splitlines()
    assert torn == '{"set": "ca'
    failed, row = json.loads(failed), json.loads(row)
    assert [failed["set"], failed["split"], failed["status"], failed["mse"]] == ["magic", 0, "failed", None]
    assert "NaN" in failed["reason"]
    assert [row["set"], row["split"], row["status"], row["reason"]] == ["cadata", 1, "ok", None]
    split = make_split("cadata", pd.DataFrame(arrays["cadata/X"]), arrays["cadata/y"], 1, quick=True)
    assert row["mse"] < np.mean((split.y_test - split.y.mean()) ** 2)
    assert [row["method"], row["n_train"], row["n_test"], row["data"]] == ["RF", 100, 50, "fcadata"]
    assert failed.keys() == row.keys() - {"data"}


def test_prepared_sets_are_the_sets(tmp_path, script):
    try:
        data = datasets.load("pendigits")
    except datasets.DataError as error:
        pytest.skip(str(error))
    script("prepare", "--sets", "pendigits", "--out", tmp_path / "sets.npz")
    with np.load(tmp_path / "sets.npz") as stored:
        theirs = make_split("pendigits", stored["pendigits/X"].astype(float), stored["pendigits/y"], 3)
        assert stored["pendigits/X"].dtype == np.int8
    ours = make_split("pendigits", data.X, data.y, 3)
    for part in ("X", "y", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(theirs, part), getattr(ours, part))


def test_runs_need_no_pandas(tmp_path):
    (tmp_path / "pandas.py").write_text("raise ImportError('there is none')")
    code = "import bare; print(len(bare.METHODS))"
    path = ":".join([str(tmp_path), str(FOLDER), str(FOLDER.parents[1] / "src")])
    run = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
