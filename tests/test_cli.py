"""``hgk fit``, ``predict``, ``explain``, ``info``, ``demo``: tables of all forms, sentences, exit codes."""

import contextlib
import errno
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hgk
from hgk import cli
from hgk.cli import demo, fit, progress, shared, tables
from hgk.cli.dialect import Dialect
from hgk.cli.rows import read_rows
from hgk.cli.shared import Console
from hgk.events import ClassesJudged, Counted, Event, Step, last
from hgk.insight import contributions, influence, scores
from hgk.progress import Progress
from tasks import quickly

pytest.importorskip("safetensors", reason="needs safetensors")
pytest.importorskip("pyarrow", reason="needs pyarrow")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "cli.md").read_text()


def houses(n=80):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"living area": rng.uniform(20, 200, n).round(1), "größe": rng.uniform(0, 1, n).round(3)})
    frame["town"] = np.array(["Rom", "Ulm", "Bari"])[rng.integers(3, size=n)]
    frame.loc[::9, "größe"] = np.nan
    frame["price"] = (frame["living area"] * (1 + (frame["town"] == "Rom")) + rng.standard_normal(n)).round(2)
    frame["sold"] = np.where(frame["price"] > 150, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, and two models of it."""
    folder = tmp_path_factory.mktemp("houses")
    frame = houses()
    frame.to_csv(folder / "houses.csv", index=False)
    X = frame[["living area", "größe", "town"]]
    hgk.save(
        hgk.HGKRegressor("plain", random_state=0).fit(X, frame["price"]), folder / "price.hgk", note={"target": "price"}
    )
    hgk.save(hgk.HGKClassifier("plain", random_state=0).fit(X, frame["sold"]), folder / "sold.hgk")
    hgk.save(hgk.load(folder / "price.hgk"), folder / "compact.hgk", compact=True)
    return folder


# --------------------------------------------------------------------------------------------- the whole way round


def test_fit_predict_explain_info_from_one_csv(call, tmp_path, folder):
    model, out = tmp_path / "m.hgk", tmp_path / "p.csv"
    data = folder / "houses.csv"
    code, said, err = call("fit", data, "--target", "price", "--drop", "sold", "--preset", "plain", "--out", model)
    assert code == 0
    assert said.startswith("by 5-fold cross-validation: a root mean squared error of ")
    assert "leave-one-out, by a kernel and λ that have seen the row: RMSE" in said
    assert f"model in {model}" in said
    assert "columns that matter most: living area" in said
    assert "tells nothing about" in said
    assert "regression, since 'price' takes 80 different numbers: 80 rows, 3 columns" in err
    code, said, _ = call("predict", model, data, "--interval", "0.8", "--out", out)
    assert (code, said) == (0, f"80 predictions in {out}\n")
    frame, loaded = houses(), hgk.load(model)
    X = frame[list(loaded.feature_names_in_)]
    written = pd.read_csv(out)
    np.testing.assert_allclose(written["prediction"], loaded.predict(X), rtol=1e-12)
    np.testing.assert_allclose(written[["lower", "upper"]], loaded.predict_interval(X, 0.8), rtol=1e-12)
    code, said, _ = call("info", model)
    assert code == 0
    assert "HGKRegressor of 'price'" in said
    assert "living area, größe, town" in said
    assert re.search(r"matter +living area \d\.?\d* ± 0\.\d+", said)
    assert "kernel         the kernel is the plain Gaussian one" in said
    code, said, _ = call("explain", model)
    assert code == 0
    assert "Importance of columns" in said
    assert "increase of the mean squared error of unseen rows" in said
    assert "nteraction" in said
    assert "shares of its exponent" not in said
    kernel = call("explain", model, "--kernel")[1]
    assert "the kernel is the plain Gaussian one" in kernel
    assert "shares of its exponent, which are not importances" in kernel
    direct = hgk.HGKRegressor("plain", random_state=0).fit(X, frame["price"])
    assert np.array_equal(direct.predict(X), loaded.predict(X))


def test_json_is_one_document_and_quiet_says_nothing(call, tmp_path, folder):
    model, data = tmp_path / "m.hgk", folder / "houses.csv"
    arguments = ["fit", data, "--target", "sold", "--drop", "price", "--preset", "plain", "--out", model]
    code, said, err = call(*arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(said)
    assert found["task"] == "HGKClassifier"
    assert found["rows"] == 80
    assert set(found["importance"]["columns"]) == {"living area", "größe", "town"}
    assert 0.5 < found["leave_one_out"]["accuracy"] <= 1
    assert call(*arguments, "--quiet") == (0, "", "")
    found = json.loads(call("predict", model, data, "--proba", "--json")[1])
    assert set(found[0]) == {"prediction", "probability of no", "probability of yes"}
    assert all(row["probability of no"] + row["probability of yes"] == pytest.approx(1) for row in found)
    assert json.loads(call("info", model, "--json")[1])["summary"]["classes"] == ["no", "yes"]
    assert {"importance", "interactions", "notes"} == set(json.loads(call("explain", model, "--json")[1]))
    assert {"columns", "nodes", "plain"} == set(json.loads(call("explain", model, "--kernel", "--json")[1])["kernel"])


def test_a_row_is_explained_by_columns_that_add_up_and_rows_that_it_leans_on(call, folder):
    data, frame, model = folder / "houses.csv", houses(), hgk.load(folder / "price.hgk")
    by_data = json.loads(call("explain", folder / "price.hgk", "--row", 17, "--data", data, "--top", 3, "--json")[1])
    stored = json.loads(call("explain", folder / "price.hgk", "--row", 17, "--top", 3, "--json")[1])
    assert by_data == stored
    X = frame[["living area", "größe", "town"]]
    (output,), prediction = stored["reasons"], model.predict(X)[17]
    assert {column["column"] for column in output["columns"]} == set(X)
    assert {column["column"]: column["cell"] for column in output["columns"]}["town"] == frame["town"][17]
    assert output["base"] + sum(column["adds"] for column in output["columns"]) == pytest.approx(prediction)
    assert output["base"] == pytest.approx(model.predict(X).mean())
    (output,), change = stored["rows"], influence(model, X[17:18])[0]
    assert output["value"] == pytest.approx(prediction)
    assert [abs(row["adds"]) for row in output["rows"]] == pytest.approx(np.sort(np.abs(change))[::-1][:3])
    for row in output["rows"]:
        assert row["adds"] == pytest.approx(change[row["row"]])
        assert row["without"] == pytest.approx(prediction - row["adds"])
        assert row["label"] == pytest.approx(frame["price"][row["row"]])
    shown = call("explain", folder / "price.hgk", "--row", 17)[1]
    assert shown.index("mean prediction") < shown.index("without it")
    assert "similarity" not in shown
    assert "leaves them out" in call("explain", folder / "compact.hgk", "--row", 3, "--data", data)[2]
    assert "none were kept" in call("explain", folder / "compact.hgk")[2]


def test_the_terms_of_the_sum_are_told_on_request(call, folder):
    data = folder / "houses.csv"
    asked = "explain", folder / "price.hgk", "--row", 17, "--terms", "--top", 3, "--json"
    stored = json.loads(call(*asked)[1])
    (output,) = stored["terms"]["outputs"]
    total = output["base"] + sum(row["contribution"] for row in output["rows"]) + output["rest"]
    assert total == pytest.approx(output["value"])
    frame, model = houses(), hgk.load(folder / "price.hgk")
    assert stored["prediction"] == pytest.approx(model.predict(frame[["living area", "größe", "town"]])[17])
    for row in output["rows"]:
        assert row["label"] == pytest.approx(frame["price"][row["row"]])
        assert row["cells"]["town"] == frame["town"][row["row"]]
    expected = contributions(model, frame.iloc[17:18][["living area", "größe", "town"]], 3)
    np.testing.assert_allclose([row["contribution"] for row in output["rows"]], expected.contribution[0, 0])
    shown = call("explain", folder / "sold.hgk", "--row", 3, "--terms")[1]
    assert "similarity" in shown
    assert "prediction no" in shown or "prediction yes" in shown
    assert "not kept" in call("explain", folder / "compact.hgk", "--row", 3, "--data", data, "--terms")[1]


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (hgk.HGKRegressor("plain"), np.linspace(-3, 7, 30)),
        (hgk.HGKRegressor("plain"), np.linspace(-3, 7, 60).reshape(30, 2)),
        (hgk.HGKQuantileRegressor("plain", quantiles=[0.2, 0.8]), np.linspace(-3, 7, 30)),
        (hgk.HGKClassifier("plain"), np.array(["no", "yes"] * 15)),
        (hgk.HGKClassifier("plain"), np.arange(30) % 3),
        (hgk.HGKClassifier("plain", multi_class="ava"), np.arange(30) % 3),
    ],
)
def test_labels_come_back_from_what_machines_are_trained_on(model, y):
    target = model.fit(np.linspace(0, 1, 30)[:, None], y).model_.target
    labels = target.labels(target.encode(y))
    assert labels.shape == y.shape
    if target.classes:
        assert (labels == y).all()
    else:
        np.testing.assert_allclose(labels, y, rtol=1e-12)
    assert target.decoding == {}


def test_groups_and_the_task_are_kept(call, tmp_path, folder):
    model = tmp_path / "m.hgk"
    group = "--group", "home=living area,größe", "--group", "place=town"
    code, _, _ = call("fit", folder / "houses.csv", "--target", "price", "--drop", "sold", *group, "--out", model, "-q")
    assert code == 0
    assert re.search(r"matter +living area \d", call("info", model)[1])
    assert hgk.load(model).groups == {"home": ["living area", "größe"], "place": ["town"]}
    nodes = {node["node"] for node in json.loads(call("explain", model, "--kernel", "--json")[1])["kernel"]["nodes"]}
    assert nodes == {"home", "place"}


def test_info_tells_the_error_that_the_report_tells(call, folder, tmp_path):
    for name in ("price", "sold"):
        (score, *_) = scores(hgk.load(folder / f"{name}.hgk"), compare=False)
        said = call("info", folder / f"{name}.hgk")[1]
        what = f"a root mean squared error of {score.rmse:.4g}" if name == "price" else f"error of {score.risk:.4g} for"
        assert re.search(rf"^error +by 5-fold cross-validation: .*{re.escape(what)}.*, R² {score.r2:.3f}$", said, re.M)
    frame = houses(60)
    with quickly():
        model = hgk.HGKClassifier(random_state=0).fit(frame[["living area", "größe", "town"]], frame["sold"])
    hgk.save(model, tmp_path / "m.hgk", compact=True)
    chosen = last(model.history_, ClassesJudged)
    said = call("info", tmp_path / "m.hgk")[1]
    where = f"on {chosen.rows} rows set aside, which chose among kernels"
    what = f"{chosen.wrong:.1%} of the classes wrong, a log-loss of {chosen.log_loss:.4g}, a mean"
    assert f"error          {where}: {what}" in said
    pinball = hgk.HGKRegressor("plain", loss="pinball", random_state=0).fit(frame[["living area"]], frame["price"])
    hgk.save(pinball, tmp_path / "p.hgk")
    assert re.search(r"^error +by 5-fold cross-validation: a root mean", call("info", tmp_path / "p.hgk")[1], re.M)


def test_the_demo_shows_its_commands(call, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "friedman_table", lambda n, friedman=demo.friedman_table: friedman(160))
    code, said, err = call("demo", "--out", tmp_path / "demo")
    assert code == 0, err
    assert re.findall(r"^\$ hgk (\w+)", said, re.M) == ["fit", "predict", "explain", "explain"]
    assert (tmp_path / "demo" / "model.hgk").is_file()


# ---------------------------------------------------------------------------------------------------- tables


def same(frame, expected):
    pd.testing.assert_frame_equal(
        frame.astype({"town": object, "sold": object}), expected.astype({"town": object, "sold": object})
    )


def test_every_form_of_a_table_gives_the_same_frame(tmp_path, monkeypatch):
    frame = houses()
    forms = {
        "a.csv": lambda p: frame.to_csv(p, index=False),
        "a.tsv": lambda p: frame.to_csv(p, index=False, sep="\t"),
        "german.csv": lambda p: frame.to_csv(p, index=False, sep=";", decimal=","),
        "pipe.txt": lambda p: frame.to_csv(p, index=False, sep="|"),
        "bom.csv": lambda p: frame.to_csv(p, index=False, encoding="utf-8-sig"),
        "utf16.csv": lambda p: frame.to_csv(p, index=False, encoding="utf-16"),
        "a.csv.gz": lambda p: frame.to_csv(p, index=False),
        "a.parquet": lambda p: frame.to_parquet(p),
        "a.feather": lambda p: frame.to_feather(p),
        "named.after.nothing": lambda p: p.write_bytes(gzip.compress(frame.to_parquet(None))),
    }
    for name, write in forms.items():
        write(tmp_path / name)
        table = tables.read_table(tmp_path / name)
        same(table.frame, frame)
        assert table.notes == [], name
    for name in ("a.csv", "a.parquet", "a.csv.gz"):
        content = (tmp_path / name).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        same(tables.read_table("-").frame, frame)


def test_arrow_streams_are_read():
    import pyarrow as pa

    sink, table = io.BytesIO(), pa.table({"a": [1.0, 2.0]})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    assert tables._columnar(sink.getvalue(), "x")["a"].tolist() == [1.0, 2.0]


def test_written_tables_come_back(tmp_path):
    frame = houses()
    for name in ("a.csv", "a.csv.gz", "a.parquet", "a.feather"):
        tables.write_table(frame, tmp_path / name)
        same(tables.read_table(tmp_path / name).frame, frame)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.csv.gz", "a.feather", "a.parquet"]


def test_detection_is_overridden(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a b c\n1,5 2 3\n2,5 4 5\n")
    frame = tables.read_table(path, delimiter="space", decimal=",").frame
    assert frame.values.tolist() == [[1.5, 2, 3], [2.5, 4, 5]]
    path.write_text('name;text\n1,5;"a;b"\n2,25;"c, d"\n')
    assert tables.read_table(path).frame["name"].tolist() == [1.5, 2.25]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"a,b\n", "no rows"),
        (b"a,b,a\n1,2,3\n4,5,6\n", "several columns named 'a'"),
        (b"1,2\n3,4\n5,6\n", "holds numbers only"),
        (b"a,b\n1,2\n3,4,5\n", "line 3"),
        (b"a,b\n\xff\xfe\xfa,2\n", "save it as UTF-8"),
        (b"\x1f\x8bnonsense", "damaged gzip"),
        (b"PAR1nonsense", "damaged Parquet"),
        (b"ARROW1nonsense", "damaged Arrow"),
        (b"a\0b\0c\0", "neither text nor Parquet"),
    ],
)
def test_tables_that_cannot_be_used(call, tmp_path, content, said):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    code, out, err = call("fit", path, "--target", "b", "--out", tmp_path / "m.hgk")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "m.hgk").exists()


def test_numbers_in_a_column_of_texts_stay_texts_when_predicting(tmp_path):
    frame = pd.DataFrame({"code": ["7", "A", "7", "B"] * 10, "x": np.arange(40.0) / 7})
    model = hgk.HGKRegressor("plain", random_state=0).fit(frame, np.arange(40.0) + 5 * (frame["code"] == "7"))
    for name, write in {"n.csv": "to_csv", "n.parquet": "to_parquet"}.items():
        new = pd.DataFrame({"code": [7, 7], "x": [1.0, 2.0]})
        getattr(new, write)(tmp_path / name, index=False)
        X = read_rows(model, str(tmp_path / name), Dialect(), [])
        np.testing.assert_array_equal(model.predict(X), model.predict(new.assign(code=["7", "7"])))


def test_odd_columns_are_remarked_on(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{i},{i}.5,id-{i}" for i in range(150)]
    path.write_text("\n".join(["n,m,id", *rows, "oops,1.5,id-x"]))
    first, second = tables.read_table(path).notes
    assert "Column 'n' holds 'oops' (row 150, counted from 0) among 150 numbers" in first
    assert "Column 'id' has 151 different texts, nearly one for each row" in second


def test_dates_in_a_csv_are_remarked_on(tmp_path):
    days = pd.date_range("2020-01-25", periods=60)
    forms = {"iso": "%Y-%m-%d", "time": "%Y-%m-%dT%H:%M:%S", "de": "%d.%m.%Y", "us": "%m/%d/%Y", "short": "%d.%m.%y"}
    frame = pd.DataFrame({name: days.strftime(form) for name, form in forms.items()})
    frame = frame.assign(version=[f"1.2.{i % 10}" for i in range(60)], town=["Ulm", "Rom"] * 30, n=np.arange(60.0))
    frame.loc[:9, "iso"] = "unknown"
    frame.to_csv(tmp_path / "t.csv", index=False)
    notes = tables.read_table(tmp_path / "t.csv").of_columns
    assert set(notes) == {"iso", "de", "us", "short"}
    assert notes["de"] == "Column 'de' is read as dates from texts such as '25.01.2020', with the day first."
    assert notes["us"].endswith("with the month first.")
    assert "; 10 cells such as 'unknown' counted as missing." in notes["iso"]


def test_notes_come_before_the_fit_and_not_about_columns_that_are_not_used(call, tmp_path, monkeypatch):
    frame = houses(60).assign(day=pd.date_range("2020-01-01", periods=60).strftime("%d.%m.%Y"))
    frame["shown"], frame["price"] = frame["day"], frame["price"].astype(object)
    frame.to_csv(tmp_path / "t.csv", index=False)
    seen = []

    def fit(self, X, y):
        seen.append(shared.errors.file.getvalue())
        raise ValueError("Enough was seen.")

    monkeypatch.setattr(hgk.HGKRegressor, "fit", fit)
    monkeypatch.setattr(shared, "errors", Console(file=io.StringIO()))
    call("fit", tmp_path / "t.csv", "--target", "price", "--drop", "day", "--out", tmp_path / "m.hgk")
    assert seen[0].count("note: ") == 1
    assert "note: Column 'shown' is read as dates" in seen[0]


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        ([0.5, 1.5, 2.25] * 10, "auto", False),
        (["a", "b"] * 10, "auto", True),
        ([True, False] * 10, "auto", True),
        ([0, 1] * 10, "auto", True),
        ([1, 2, 3] * 20, "auto", True),
        (list(range(40)), "auto", False),
        ([1, 2, 3] * 2, "auto", False),
        ([1, 2, 3] * 20, "regression", False),
        ([0.0, 1.0, None] * 10, "auto", True),
        ([1, 2, 3, 4] * 3, "classification", True),
    ],
)
def test_the_task_is_decided_by_type_and_number_of_values(values, task, classes):
    found = tables.target_of(pd.Series(values, name="y"), task)
    assert found.classes is classes
    assert found.reason.startswith("classification" if classes else "regression")
    assert len(found.y) == sum(v is not None for v in values)


@pytest.mark.parametrize(
    ("values", "task", "said"),
    [
        ([None, None], "auto", "has no values"),
        (["a", "b"], "regression", "give --task classification"),
        (["a", "a"], "auto", "single value 'a'"),
        ([f"t{i}" for i in range(40)], "auto", r"too many for classes; give another target\.$"),
        ([f"t{i}" for i in range(40)], "regression", "so give another target, or turn it into numbers"),
        ([float(i) for i in range(40)], "classification", "give --task regression, or another target"),
    ],
)
def test_targets_that_cannot_be_learned(values, task, said):
    with pytest.raises(tables.TableError, match=said):
        tables.target_of(pd.Series(values, name="y", dtype=object), task)


def test_rows_without_a_target_are_left_out_and_counted(call, tmp_path):
    frame = houses(60)
    frame.loc[:4, "price"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call(
        "fit",
        tmp_path / "t.csv",
        "--target",
        "price",
        "--drop",
        "sold",
        "--preset",
        "plain",
        "--out",
        tmp_path / "m.hgk",
    )
    assert code == 0
    assert "note: 5 rows without a value of 'price' were left out." in err


# ------------------------------------------------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["fit", "DATA", "--target", "prise", "--out", "m"],
            "The target 'prise' is not a column; did you mean 'price'",
        ),
        (["fit", "DATA", "--target", "PRICE", "--out", "m"], "did you mean 'price'"),
        (["fit", "DATA", "--target", "zzz", "--out", "m"], "the columns are 'living area'"),
        (["fit", "nowhere.csv", "--target", "y", "--out", "m"], "nowhere.csv cannot be read"),
        (["fit", "DATA", "--target", "price", "--out", "no/m"], "no/m cannot be written"),
        (["fit", "DATA", "--target", "price", "--out", "m", "--time-budget", "soon"], "90s, 2m or 1h30m"),
        (["fit", "DATA", "--target", "price", "--out", "m", "--group", "town"], "such as size=width,height"),
        (["fit", "DATA", "--target", "price", "--out", "m", "--group", "a=twon"], "did you mean 'town'"),
        (["fit", "DATA", "--target", "price", "--out", "m", "--drop", "twon"], "did you mean 'town'"),
        (["fit", "DATA", "--target", "sold", "--out", "m", "--task", "regression"], "give --task classification"),
        (["fit", "DATA", "--target", "price", "--out", "m", "--delimiter", "xx"], "one character is expected"),
        (["predict", "price.hgk", "other.csv"], "The table lacks 'living area', 'größe', 'town'"),
        (["predict", "price.hgk", "DATA", "--proba"], "give --interval 0.9 to see how certain it is"),
        (["predict", "sold.hgk", "DATA", "--interval", "0.9"], "give --proba to see how certain it is"),
        (["predict", "price.hgk", "DATA", "--interval", "90"], "between 0 and 1"),
        (["predict", "compact.hgk", "DATA", "--interval", "0.9"], "compact files and compressed models leave out"),
        (["predict", "DATA", "DATA"], "is not a model file of hgk"),
        (["predict", "none.hgk", "DATA"], "cannot be read"),
        (["predict", "price.hgk", "DATA", "--out", "no/p.csv"], "cannot be written"),
        (["predict", "price.hgk", "DATA", "--out", "p.xlsx"], "p.xlsx ends in .xlsx; .csv, .csv.gz, .parquet"),
        (["predict", "price.hgk", "DATA", "--out", "p.txt.gz"], "p.txt.gz ends in .txt.gz"),
        (["explain", "price.hgk", "--row", "999"], "the model saw 80 rows"),
        (["explain", "price.hgk", "--row", "999", "--data", "DATA"], "the table has 80 rows"),
        (["explain", "price.hgk", "--data", "DATA"], "without --row"),
        (["explain", "price.hgk", "--terms"], "without --row"),
        (["explain", "compact.hgk", "--row", "1"], "compact files and compressed models leave out"),
        (["info", "DATA"], "is not a model file of hgk"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(call, folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    (folder / "other.csv").write_text("a,b\n1,2\n")
    before = sorted(p.name for p in folder.iterdir())
    code, out, err = call(*(a.replace("DATA", "houses.csv") for a in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert err.rstrip().endswith(".")
    assert sorted(p.name for p in folder.iterdir()) == before


def test_what_the_estimators_refuse_is_a_sentence_too(call, tmp_path):
    pd.DataFrame({"a": [1.0, np.inf, 3.0] * 10, "y": np.arange(30.0)}).to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m.hgk")
    assert code == 2
    assert "infinity" in err
    assert err.count("\n") <= 2
    assert "Traceback" not in err


def test_a_disk_that_is_full_is_a_sentence_and_leaves_nothing(call, folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "p.csv"
    monkeypatch.setattr(os, "replace", full)
    code, said, err = call("predict", folder / "price.hgk", folder / "houses.csv", "--out", out)
    assert (code, said) == (2, "")
    assert err.startswith(f"hgk: {out} could not be written (No space left on device) and is as it was before; make")
    assert not list(tmp_path.iterdir())


def test_debug_shows_where(call, tmp_path):
    with pytest.raises(tables.TableError):
        call("--debug", "fit", tmp_path / "none.csv", "--target", "y", "--out", tmp_path / "m.hgk")
    os.environ["HGK_DEBUG"] = ""


def test_a_report_without_its_module_is_refused_before_the_fit(call, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "hgk.report.page", None)
    arguments = ["fit", folder / "houses.csv", "--target", "price", "--out", tmp_path / "m.hgk"]
    code, _, err = call(*arguments, "--report", tmp_path / "r.html")
    assert code == 2
    assert "--report needs hgk.report.page" in err
    assert not list(tmp_path.iterdir())


def test_the_report_is_written_beside_the_model(call, folder, tmp_path):
    arguments = ["fit", folder / "houses.csv", "--target", "price", "--preset", "plain", "--out", tmp_path / "m.hgk"]
    code, said, _ = call(*arguments, "--report", tmp_path / "r.html")
    assert code == 0
    assert f"report in {tmp_path / 'r.html'}" in said
    page = (tmp_path / "r.html").read_text()
    assert "<h1>price, from houses.csv</h1>" in page


def test_a_model_is_compressed(call, folder, tmp_path):
    code, said, _ = call("compress", folder / "price.hgk", "--out", tmp_path / "small.hgk", "--tolerance", "0.05")
    assert code == 0
    assert re.search(r"^\d+ of \d+ rows; the error on \d+ rows that had no say changed by .* KiB in ", said)
    assert "compressed" in call("info", tmp_path / "small.hgk")[1]
    told = json.loads(call("info", tmp_path / "small.hgk", "--json")[1])
    assert told["note"] == json.loads(call("info", folder / "price.hgk", "--json")[1])["note"]
    assert call("predict", tmp_path / "small.hgk", folder / "houses.csv")[0] == 0
    again = call("compress", tmp_path / "small.hgk", "--out", tmp_path / "smaller.hgk")
    assert again[0] == 2
    assert "compressed models leave out" in again[2]
    same = call("compress", folder / "price.hgk", "--out", folder / "price.hgk")
    assert "is also MODEL, which it would overwrite" in same[2]
    as_json = call("compress", folder / "price.hgk", "--out", tmp_path / "small.hgk", "--json")[1]
    assert set(json.loads(as_json)) == {"out", "rows", "of", "before", "after", "bytes", "bytes_before"}


def test_without_the_packages_of_the_bench_the_rest_works(call, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "filelock", None)
    for name in [n for n in sys.modules if n.startswith(("hgk.bench", "hgk.cli.bench"))]:
        monkeypatch.delitem(sys.modules, name)
    code, _, err = call("bench", "list")
    assert code == 2
    assert "hgk bench needs the package filelock; pip install 'hgk[bench]'." in err
    assert call("info", folder / "price.hgk")[0] == 0


def test_options_and_completion_are_offered():
    runner = CliRunner()
    said = runner.invoke(cli.app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert all(name in said for name in (*cli.COMMANDS, "completion"))
    for command in ("fit", "predict", "evaluate", "compare", "explain", "info", "compress", "demo"):
        assert runner.invoke(cli.app, [command, "--help"]).exit_code == 0


def test_the_help_says_of_commands_what_they_say_themselves():
    for name, said in cli.COMMANDS.items():
        assert (cli.command(name).help or "").startswith(said.rstrip(".")), name


def test_the_help_imports_no_large_package():
    """Nor does a wrong word: what takes seconds to import is imported when a command is called."""
    program = (
        "import sys; from hgk.cli import run; sys.argv = ['hgk', *sys.argv[1:]]\n"
        "try: run()\nfinally: print(sorted({'torch', 'numpy', 'pandas', 'sklearn', 'numba'} & set(sys.modules)))"
    )
    for words in (["--help"], ["--version"], ["fti"]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
        assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr


def test_the_options_of_the_documentation_exist(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = re.findall(
        r"^    hgk (?:--debug )?(fit|predict|evaluate|compare|explain|info|compress|demo)(.*)$", PAGE, re.M
    )
    assert {name for name, _ in lines} == {
        "fit",
        "predict",
        "evaluate",
        "compare",
        "explain",
        "info",
        "compress",
        "demo",
    }
    for name, rest in lines:
        said = call(name, "--help")[1]
        for option in re.findall(r"--[a-z-]+", rest.split("#")[0]):
            assert option in said, f"{option} of {name}"


# ---------------------------------------------------------------------------------------------- in a process


def started(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "hgk", *map(str, arguments)], env=environment, **pipes, **options)


def test_standard_input_to_standard_output(folder):
    content = (folder / "houses.csv").read_bytes()
    out, err = started("predict", folder / "sold.hgk", "-", "--proba").communicate(content)
    assert err == b""
    frame = pd.read_csv(io.BytesIO(out))
    assert list(frame.columns) == ["prediction", "probability of no", "probability of yes"]
    assert len(frame) == 80


def test_errors_are_one_sentence_in_a_process_too(tmp_path):
    process = started("predict", tmp_path / "none.hgk", "-")
    out, err = process.communicate(b"")
    assert (process.returncode, out) == (2, b"")
    assert err.decode() == (
        f"hgk: {tmp_path / 'none.hgk'} cannot be read (No such file or directory); give a file that hgk.save wrote.\n"
    )


@pytest.fixture
def pressing(monkeypatch):
    """Ctrl-C, pressed so many times at the tenth event of a fit."""

    def press(times):
        @contextlib.contextmanager
        def watched(model, seconds, silent):
            events = []

            def tell(event):
                events.append(event)
                for _ in range(times if len(events) == 10 else 0):
                    before, patience = Progress.last_press, time.monotonic() + 300
                    os.kill(os.getpid(), signal.SIGINT)
                    while Progress.last_press == before and time.monotonic() < patience:
                        time.sleep(0.01)  # two that come at once count as one

            model.callback = tell
            yield

        monkeypatch.setattr(fit, "watched", watched)
        monkeypatch.setattr(Progress, "last_press", float("-inf"))

    return press


def test_ctrl_c_keeps_the_best_so_far_and_writes_the_model(call, folder, tmp_path, pressing):
    pressing(1)
    arguments = ["fit", folder / "houses.csv", "--target", "price", "--out", tmp_path / "m.hgk", "--json"]
    code, out, err = call(*arguments)
    assert code == 0
    assert "stopping, and keeping the best weights so far" in err
    assert json.loads(out)["stopped_early"]
    assert any("stopped early" in note for note in json.loads(out)["notes"])
    assert np.isfinite(hgk.load(tmp_path / "m.hgk").predict(houses().drop(columns="price"))).all()
    assert [p.name for p in tmp_path.iterdir()] == ["m.hgk"]


def test_a_second_ctrl_c_ends_with_130_and_writes_nothing(call, folder, tmp_path, pressing):
    pressing(2)
    code, out, err = call("fit", folder / "houses.csv", "--target", "price", "--out", tmp_path / "m.hgk", "--quiet")
    assert (code, out) == (130, "")
    assert err.endswith("hgk: stopped; nothing was written.\n")
    assert not list(tmp_path.iterdir())


def test_progress_is_told_in_a_few_words(monkeypatch, tmp_path):
    step = Step(candidate="mixed", fold=1, step=3, criterion=0.5, lam=None)
    assert progress.phrase(step) == "learning weights · mixed · fold 1 · step 3 · criterion 0.5"
    assert progress.phrase(Counted(done=3, of=9)) == "training on centres · 3 of 9 rows"
    shown = io.StringIO()
    monkeypatch.setattr(progress, "errors", Console(file=shown, force_terminal=True, width=100))
    frame = houses(60)
    model = hgk.HGKRegressor("plain", random_state=0)
    with progress.watched(model, 5.0, silent=False):
        model.fit(frame[["living area"]], frame["price"])
    assert "choosing λ and γ · error" in shown.getvalue()
    assert model.callback is None


def test_every_class_of_events_has_its_words_and_one_from_outside_its_name():
    @dataclass(frozen=True, kw_only=True)
    class Paused(Event):
        risk: float

    assert set(progress.WORDS) == {cls for cls in Event.__subclasses__() if cls.__module__ == Event.__module__}
    assert progress.phrase(Paused(risk=0.25, fold=2)) == "paused · fold 2 · error 0.25"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5h", 5400), ("2m", 120), ("1h 30m 10s", 5410), ("5min", 300)]
)
def test_durations(text, seconds):
    assert fit.duration(text) == seconds


TELLS_STEPS = """
import sys
from hgk.__main__ import main
from hgk.events import Step
from hgk.progress import Progress

report = Progress.report

def told(self, event):
    report(self, event)
    if isinstance(event, Step):
        sys.stderr.write("a step\\n")

Progress.report = told
main()
"""


def test_two_ctrl_c_from_outside_end_with_130_and_no_crash(folder, tmp_path):
    """As a person presses them: threads are in the midst of their work when the process ends."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(4000, 8)), columns=[f"c{j}" for j in range(8)])
    table.assign(y=np.sin(5 * table["c0"]) + table["c1"]).to_csv(tmp_path / "t.csv", index=False)
    command = [sys.executable, "-c", TELLS_STEPS, "fit", "t.csv", "--target", "y", "--out", "m.hgk"]
    two = {**os.environ, "OMP_NUM_THREADS": "2"}  # threads, wherever this runs
    process = subprocess.Popen(command, cwd=tmp_path, env=two, stderr=subprocess.PIPE, text=True)
    said = ""
    for awaited in ("a step", "press Ctrl-C again"):  # two that come at once count as one
        while awaited not in said:
            said += (line := process.stderr.readline())
            assert line, said
        process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=600)[1]
    assert process.returncode == 130, said
    assert "terminate" not in said
    assert not (tmp_path / "m.hgk").exists()
