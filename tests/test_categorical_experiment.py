"""The categorical sets, the frequency table and the scores of experiments/categorical."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "experiments" / "categorical"


@pytest.fixture
def modules(monkeypatch):
    """sets, run and table, which leave no trace under these plain names."""
    monkeypatch.syspath_prepend(FOLDER)
    import run
    import sets
    import table

    yield sets, run, table
    for name in ("sets", "run", "table"):
        del sys.modules[name]


def mixed(n, rng):
    """Categories, few and many numbers; some cells of new rows were never seen."""
    codes = rng.integers(3, size=n)
    columns = {"name": pd.Categorical.from_codes(codes, ["a", "b", "c"]), "few": rng.integers(2, size=n) * 1.0}
    return pd.DataFrame(columns | {"many": rng.normal(size=n).round(1)})


def test_the_sets_are_small_repeatable_and_whole(modules):
    sets, _, _ = modules
    assert 12 <= len(sets.SETS) <= 16
    for make in sets.SETS.values():
        (X, y), (again, y_again) = make(), make()
        assert X.equals(again)
        assert np.array_equal(y, y_again)
        assert len(X) == len(y) <= 5000
        assert not X.isna().any(axis=None)
        assert {str(kind) for kind in X.dtypes} <= {"category", "float64"}
        assert np.array_equal(np.unique(y), np.arange(y.max() + 1))


def test_published_tables_have_the_published_counts(modules):
    sets, _, _ = modules
    X, y = sets.berkeley()
    counts = X.assign(admitted=y).value_counts()
    assert len(y) == 4526
    assert [counts["A", "male", 1], counts["A", "female", 0], counts["F", "female", 1]] == [512, 19, 24]
    X, y = sets.hair_and_eyes()
    assert len(y) == 592
    assert X.assign(eyes=y).value_counts()["female", "blond", 1] == 64
    X, y = sets.titanic()
    assert len(y) == 891
    assert y[(X["group"] == "child") & (X["class"] != "3rd")].all()


def test_the_numeric_set_repeats_rows_but_not_their_grades(modules):
    sets, _, _ = modules
    X, y = sets.tasted()
    repeated = X.duplicated()
    assert repeated.mean() == 0.18
    assert X.assign(y=y)[X.duplicated(keep=False)].groupby(list(X))["y"].nunique().max() > 1


def test_the_frequency_table_is_a_count(modules):
    _, run, _ = modules
    rng = np.random.default_rng(0)
    X, Z, y = mixed(60, rng), mixed(40, rng), rng.integers(3, size=60)
    edges = np.quantile(X["many"], [0.2, 0.4, 0.6, 0.8])
    cells, new = ([(a, b, sum(c > edges)) for a, b, c in table.itertuples(index=False)] for table in (X, Z))
    wanted, unseen = [], 0
    for cell in new:
        n = [sum(cell == seen and c == k for seen, c in zip(cells, y, strict=True)) for k in range(3)]
        unseen += sum(n) == 0
        wanted.append([(k + 1) / (sum(n) + 3) for k in n] if sum(n) else [np.mean(y == k) for k in range(3)])
    assert 0 < unseen < len(Z)
    np.testing.assert_allclose(run.frequency_table(X, y, 0)(Z), wanted)
    np.testing.assert_allclose(run.class_prior(X, y, 0)(Z), [[np.mean(y == k) for k in range(3)]] * len(Z))


def test_calibration_error_of_a_calibrated_prediction_is_small_and_of_a_confident_one_is_not(modules):
    _, run, _ = modules
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    hit = rng.random(len(p)) < p
    assert run.calibration_error(p, hit) < 0.005
    assert run.calibration_error((p > 0.5) * 1.0, hit) == pytest.approx(0.25, abs=0.005)
    exact = np.repeat([0.1, 0.3, 0.9], 10)
    hits = np.concatenate([np.arange(10) < 10 * q for q in (0.1, 0.3, 0.9)])
    assert run.calibration_error(exact, hits) == pytest.approx(0, abs=1e-12)
    assert run.calibration_error(exact[::-1], hits[::-1]) == pytest.approx(0, abs=1e-12)


def test_calibration_bins_have_equal_mass(modules):
    _, run, _ = modules
    p = np.linspace(0, 1, 100)
    hit = np.arange(100) % 20 < 10  # in every other tenth all are hits
    wanted = np.mean([abs(p[i : i + 10].mean() - hit[i]) for i in range(0, 100, 10)])
    assert run.calibration_error(p, hit) == pytest.approx(wanted)


def test_scores(modules):
    _, run, _ = modules
    p = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]])
    found = run.scores(p, np.array([0, 1, 0]))
    assert found["log_loss"] == pytest.approx(-(np.log(0.5) + np.log(0.8) + np.log(1e-15)) / 3)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["ece"] == pytest.approx((0.5 + 0.2 + 1) / 3)
    assert run.scores(p[:, :2], np.array([0, 1, 0]))["ece"] == pytest.approx((0.25 + 0.2 + 0.0) / 3)


def test_a_second_run_does_what_is_missing(modules, monkeypatch, tmp_path):
    _, run, _ = modules
    monkeypatch.setattr(run, "threadpool_limits", lambda n: None)  # the other tests keep their threads
    monkeypatch.setattr(run.torch, "set_num_threads", lambda n: None)
    out = tmp_path / "rows.jsonl"
    options = ["run.py", "--out", str(out), "--sets", "2x2", "iris", "--methods", "frequency table", "class prior"]
    for splits in (["0"], ["0", "1"]):
        monkeypatch.setattr(sys, "argv", [*options, "--splits", *splits])
        run.main()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == len({(row["set"], row["split"], row["method"]) for row in rows}) == 8
    assert rows[0]["n_train"] == 280
    assert all(0 <= row["ece"] <= 1 and 0 < row["log_loss"] < 2 for row in rows)


def test_the_table_counts_the_sets_that_are_worse(modules):
    _, _, table = modules
    differences = {"worse": [0.1, 0.2, 0.3], "unclear": [-0.1, 0.2, 0.0], "better": [-0.1, -0.2, -0.3]}
    rows = [
        {"set": name, "split": split, "method": method, "log_loss": 1.0 + split + (d if method == "hgk" else 0)}
        for name, values in differences.items()
        for split, d in enumerate(values)
        for method in ("hgk", "frequency table")
    ]
    assert "on 1 of 3 sets: worse (+0.2000 ± 0.0577)." in table.verdict(rows)
    assert "| better | **1.8000 ± 0.5196** | 2.0000 ± 0.5774 |" in table.table(rows, "log_loss")
    assert "No set" in table.verdict([row for row in rows if row["method"] != "hgk"])
