"""The script that fills the DNN column elsewhere, on tiny splits."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "experiments" / "table1"


@pytest.fixture
def script(monkeypatch):
    """The script with these options, in this process; its worker finds it on the path."""
    monkeypatch.syspath_prepend(FOLDER)
    import gpu_dnn

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["gpu_dnn.py", "--quick", "--device", "cpu", *map(str, options)])
        gpu_dnn.main()

    return call


def test_it_runs_what_is_missing_and_appends_rows_of_the_store(tmp_path, script):
    rng = np.random.default_rng(0)
    arrays = {}
    for run in ("cadata/0", "cadata/1", "magic/0", "higgs/0", "magic/2"):
        X = rng.uniform(-1, 1, (150, 3))
        arrays |= {f"{run}/X": X, f"{run}/y": X[:, 0] * X[:, 1], f"{run}/n": np.array(100)}
    arrays["magic/0/X"][0, 0] = np.nan
    splits, out = tmp_path / "splits.npz", tmp_path / "rows.jsonl"
    np.savez(splits, **arrays)
    script("--npz", splits, "--out", out, "--limit", 0)
    assert not out.exists()
    out.write_text(json.dumps({"set": "cadata", "split": 0, "method": "DNN", "status": "ok"}) + '\n{"set": "ca')
    script("--npz", splits, "--out", out, "--sets", "cadata", "magic", "--splits", 0, 1)
    _, torn, failed, row = out.read_text().splitlines()
    assert torn == '{"set": "ca'
    failed, row = json.loads(failed), json.loads(row)
    assert [failed["set"], failed["split"], failed["status"], failed["mse"]] == ["magic", 0, "failed", None]
    assert "missing or infinite" in failed["reason"]
    assert [row["set"], row["split"], row["status"], row["reason"]] == ["cadata", 1, "ok", None]
    assert row["mse"] < np.var(arrays["cadata/1/y"])
    assert [row["method"], row["n_train"], row["n_test"]] == ["DNN", 100, 50]
    assert row.keys() == failed.keys()
