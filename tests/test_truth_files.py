"""Files as users meet them: nothing of theirs is lost, hostile ones end in a sentence, pages and pictures are true."""

import copy
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hgk
from hgk import HGKClassifier, HGKRegressor
from hgk.bench import datasets
from hgk.cli import demo, tables
from hgk.events import Refined, Watched
from hgk.insight import learning_curves, plain_remark, scores
from hgk.report.page import report
from hgk.storage import STEERING, ModelFileError, columnar, describe, files, printable, schema

pytest.importorskip("safetensors", reason="needs safetensors")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
from pyarrow import feather, parquet  # noqa: E402

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
ROW = {"set": "mine:y", "split": 0, "method": "RF", "status": "ok", "mse": 0.25, "seconds": 1.0}


def houses(n=40):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.uniform(20, 200, n).round(1), "age": rng.uniform(0, 90, n).round()})
    return frame.assign(price=(2 * frame["area"] - frame["age"] + rng.standard_normal(n)).round(2))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table, a model, recorded runs, and a file that is the user's own; current."""
    monkeypatch.chdir(tmp_path)
    frame = houses()
    frame.to_csv("houses.csv", index=False)
    hgk.save(HGKRegressor("plain", random_state=0).fit(frame[["area", "age"]], frame["price"]), "price.hgk")
    Path("rows.jsonl").write_text(json.dumps(ROW) + "\n")
    Path("mine.txt").write_text("years of work\n")
    return tmp_path


def assert_refused(result, said):
    code, out, err = result
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert err.rstrip().endswith(".")


FIT = ["fit", "houses.csv", "--target", "price", "--preset", "plain", "--quiet"]
PREDICT = ["predict", "price.hgk", "houses.csv", "--quiet"]
BENCH = ["bench", "run", "--file", "houses.csv", "--target", "price", "--methods", "svm", "--splits", "1"]

# ------------------------------------------------------------------------------------- what is there is not lost


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ([*FIT, "--out"], "houses.csv"),
        ([*FIT, "--out", "m.hgk", "--report"], "houses.csv"),
        ([*PREDICT, "--out"], "houses.csv"),
        ([*BENCH, "--out"], "houses.csv"),
        (["bench", "page", "rows.jsonl", "--out"], "rows.jsonl"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else value,
)
@pytest.mark.parametrize("way", ["itself", "symbolic link", "hard link", "another way to it"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_no_command_writes_over_what_it_reads(call, folder, arguments, target, way, force):
    name = f"other{Path(target).suffix}"
    if way == "symbolic link":
        Path(name).symlink_to(target)
    elif way == "hard link":
        os.link(target, name)
    else:
        name = target if way == "itself" else f"../{folder.name}/{target}"
    before = Path(target).read_bytes()
    assert_refused(call(*arguments, name, *force), "which it would overwrite; give another file")
    assert Path(target).read_bytes() == before
    assert not Path("m.hgk").exists()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([*FIT, "--out"], "mine.txt"),
        ([*FIT, "--out", "m.hgk", "--report"], "mine.html"),
        ([*PREDICT, "--out"], "mine.csv"),
        ([*PREDICT, "--out"], "mine.csv.gz"),
        ([*PREDICT, "--out"], "mine.parquet"),
        ([*PREDICT, "--out"], "mine.feather"),
        ([*BENCH, "--out"], "mine.csv"),
        (["bench", "page", "rows.jsonl", "--out"], "mine.html"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else value,
)
def test_a_file_of_the_users_is_replaced_only_by_force(call, folder, arguments, name):
    for content in (b"years of work\n", b"id,prediction\n1,2\n"):
        Path(name).write_bytes(content)
        assert_refused(call(*arguments, name), f"{name} exists and is not ")
        assert Path(name).read_bytes() == content
        assert not Path("m.hgk").exists()
    assert "--force" in call(*arguments, name)[2]
    code, _, err = call(*arguments, name, "--force")
    assert code == 0, err
    assert Path(name).read_bytes() != content


def test_a_command_given_twice_replaces_its_own_files(call, folder):
    for name in ("p.csv", "p.csv.gz", "p.parquet", "p.feather"):
        for _ in range(2):
            assert call(*PREDICT, "--out", name)[0] == 0
    for more in ([], ["--interval", "0.9"]):
        assert call(*PREDICT, "--out", "p.csv", *more)[0] == 0
    for _ in range(2):
        assert call(*FIT, "--out", "m.hgk", "--report", "m.html")[0] == 0
        assert call("bench", "page", "rows.jsonl", "--out", "results.html")[0] == 0
        assert call("bench", "figures", "rows.jsonl", "--out", "figures")[0] == 0
        assert call(*BENCH, "--out", "more.jsonl")[0] == 0
    Path("empty.hgk").touch()
    assert call(*FIT, "--out", "empty.hgk")[0] == 0
    assert call(*FIT, "--out", os.devnull)[0] == 0


def test_figures_leave_other_files_of_their_names_alone(call, folder):
    Path("figures").mkdir()
    (Path("figures") / "seconds.svg").write_text("<svg>mine</svg>")
    assert_refused(call("bench", "figures", "rows.jsonl"), "figures/seconds.svg exists and is not a figure of hgk")
    assert [p.name for p in Path("figures").iterdir()] == ["seconds.svg"]
    assert call("bench", "figures", "rows.jsonl", "--force")[0] == 0


@pytest.mark.parametrize("name", ["known.csv", "new.csv", "predictions.csv", "model.hgk"])
def test_the_demo_leaves_files_of_its_names_alone(call, folder, name):
    shutil.copy("price.hgk", "model.hgk")
    Path("predictions.csv").write_text("prediction\n1.5\n")
    Path("known.csv").write_text("years,of\nwork,1\n")
    Path("new.csv").write_text("years,of\nwork,2\n")
    for other in {"known.csv", "new.csv", "predictions.csv", "model.hgk"} - {name}:
        Path(other).unlink()
    content = Path(name).read_bytes()
    before = sorted(p.name for p in folder.iterdir())
    assert_refused(call("demo", "--out", "."), f"{name} exists and is not ")
    assert Path(name).read_bytes() == content
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_demo_is_shown_again_in_its_folder(call, folder, monkeypatch):
    monkeypatch.setattr(demo, "friedman_table", lambda n, friedman=demo.friedman_table: friedman(160))
    for _ in range(2):
        code, _, err = call("demo", "--out", "demo", "--quiet")
        assert code == 0, err
    Path("demo/new.csv").write_text("x0,y\n1,2\n")
    assert_refused(call("demo", "--out", "demo", "--quiet"), "demo/new.csv exists and is not of the demo")
    assert call("demo", "--out", "demo", "--quiet", "--force")[0] == 0


def test_a_store_that_was_torn_at_its_first_row_is_gone_on_with(call, folder):
    Path("torn.jsonl").write_bytes(b'{"set": "houses:pr')
    code, out, err = call(*BENCH, "--out", "torn.jsonl")
    assert code == 0, err
    assert "1 runs done" in out


def test_save_replaces_models_and_nothing_else(folder):
    model = hgk.load("price.hgk")
    hgk.save(model, "price.hgk", compact=True)
    with pytest.raises(ModelFileError, match=r"mine\.txt exists and is not a model file of hgk; .* force=True"):
        hgk.save(model, "mine.txt")
    assert Path("mine.txt").read_text() == "years of work\n"
    hgk.save(model, "mine.txt", force=True)
    assert hgk.load("mine.txt").n_features_in_ == 2


# ------------------------------------------------------------------------------------------------ the terminal

HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[red]b[/red][/x]:bomb:"


def assert_harmless(text):
    found = STEERING.findall(text.replace("\n", ""))
    assert not found, found


def test_nothing_from_a_table_or_a_model_steers_the_terminal(call, folder):
    frame = houses().rename(columns={"area": HOSTILE})
    frame["kind"] = np.where(frame["price"] > 200, f"large {HOSTILE}", f"small {HOSTILE}")
    frame.to_csv(f"t{HOSTILE.replace('/', '')}.csv", index=False)
    (table,) = Path().glob("t*.csv")
    out = f"m{HOSTILE.replace('/', '')}.hgk"
    options = ["--drop", "price", "--preset", "plain"]
    said = [call("fit", table, "--target", "kind", "--out", out, *options)]
    note = {"target": HOSTILE, HOSTILE: HOSTILE}
    hgk.save(hgk.load(out), "noted.hgk", note=note)
    commands = [["info", out], ["info", "noted.hgk"], ["explain", out], ["explain", out, "--row", "0"]]
    commands += [["explain", out, "--row", "0", "--data", table], ["predict", out, table, "--out", f"p{out}.csv"]]
    commands += [["predict", out, table, "--json", "--proba"], ["info", "noted.hgk", "--json"]]
    commands += [["fit", table, "--target", f"{HOSTILE}?", "--out", "x.hgk"], ["predict", "price.hgk", table]]
    commands += [["info", f"none{HOSTILE}"], ["fit", f"none{HOSTILE}", "--target", "y", "--out", "x"]]
    commands += [["info", out, f"--{HOSTILE}"], ["bench", "run", "--sets", HOSTILE], ["bench", "table", f"x{HOSTILE}"]]
    said += [call(*command) for command in commands]
    for code, printed, err in said:
        assert_harmless(printed)
        assert_harmless(err)
        assert "unforeseen" not in err
        assert code in (0, 2)
    assert all("[red]b[/red][/x]:bomb:" in "".join(said[i][1:]).replace("\n", "") for i in (1, 2))
    assert json.loads(call("info", "noted.hgk", "--json")[1])["note"] == note


def test_results_of_a_hostile_store_are_printed_harmlessly(call, folder):
    Path("rows.jsonl").write_text(json.dumps({**ROW, "set": HOSTILE, "method": HOSTILE}) + "\n\x1b[2J\n")
    code, out, err = call("bench", "table", "rows.jsonl")
    assert code == 0
    assert_harmless(out)
    assert_harmless(err)


def test_a_file_that_is_not_yet_verified_steers_nothing(call, folder):
    description, header, body = parted(Path("price.hgk").read_bytes())
    description["schema"], description["versions"]["hgk"] = 99, "\x1b[2J\x1b]0;"
    Path("newer.hgk").write_bytes(sealed(description, header, body, checksum=False))
    result = call("info", "newer.hgk")
    assert_refused(result, "written by a newer hgk")
    assert not STEERING.findall(result[2].rstrip("\n"))


def test_predictions_on_a_terminal_are_escaped_and_in_a_file_as_they_are(monkeypatch, capsys, tmp_path):
    frame = pd.DataFrame({"prediction": [HOSTILE, "größe\u200d"]})
    tables.write_table(frame, "-")
    assert HOSTILE in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tables.write_table(frame, "-")
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert "größe\u200d\n" in shown
    tables.write_table(frame, tmp_path / "p.csv")
    assert tables.read_table(tmp_path / "p.csv").frame["prediction"].tolist() == frame["prediction"].tolist()


def test_letters_of_all_languages_are_printed_as_they_are():
    for text in ("größe, 尺寸 🙂", "été", "עברית", "भाषा", "a\u00a0b"):
        assert printable(text) == text


# ----------------------------------------------------------------------------------------- what is no regular file


def made(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    return Path("/dev/zero") if kind == "device" else path


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(call, folder, kind):
    path = made(kind, folder / "odd.csv")
    for command in (
        ["info", path],
        ["explain", path],
        ["predict", path, "houses.csv"],
        ["predict", "price.hgk", path],
        ["fit", path, "--target", "y", "--out", "m.hgk"],
        ["explain", "price.hgk", "--row", "0", "--data", path],
        ["bench", "table", path],
        [*BENCH, "--out", path],
        ["bench", "run", "--file", path, "--target", "y"],
    ):
        assert_refused(call(*command), str(path))


def test_standard_input_may_be_a_pipe(folder):
    command = f"cat houses.csv | {sys.executable} -m hgk predict price.hgk - | head -2"
    ended = subprocess.run(command, shell=True, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("prediction\n")


# ------------------------------------------------------------------------------------------- what unpacks to more


def written(write, table, **options):
    buffer = io.BytesIO()
    write(table, buffer, **options)
    return buffer.getvalue()


def as_stream(table, buffer):
    with pa.ipc.new_stream(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)


def zeros():
    return pa.table({"a": pa.array(np.zeros(5_000_000))})


def one_text():
    """The same 50,000 letters 200,000 times."""
    places = pa.array(np.zeros(200_000, dtype=np.int32))
    return pa.table({"a": pa.DictionaryArray.from_arrays(places, pa.array(["x" * 50_000]))})


BOMBS = {
    "zeros.parquet": lambda: written(parquet.write_table, zeros(), compression="zstd"),
    "runs.parquet": lambda: written(parquet.write_table, zeros(), compression="none"),
    "text.parquet": lambda: written(parquet.write_table, one_text(), store_schema=False),
    "zeros.feather": lambda: written(feather.write_feather, zeros(), compression="zstd", chunksize=5_000_000),
    "nothing.feather": lambda: written(feather.write_feather, pa.table({"a": pa.nulls(10**9)}), chunksize=10**9),
    "zeros.arrows": lambda: written(as_stream, zeros()),
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_of_large_tables_are_refused_before_they_are_unpacked(monkeypatch, tmp_path, name):
    content = BOMBS[name]()
    assert len(content) < 2**20
    (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("HGK_MEMORY", "100M")
    with pytest.raises(tables.TableError, match=r"unpacks to .* or more, and 3 times as much .* set HGK_MEMORY"):
        tables.read_table(tmp_path / name)
    monkeypatch.setenv("HGK_MEMORY", "70M")
    if name.endswith(".parquet"):
        with pytest.raises(datasets.DataError, match=r"unpacks to .* HGK_MEMORY"):
            datasets.from_file(tmp_path / name, "a")


@pytest.mark.parametrize("name", ["text.parquet", "runs.parquet"])
def test_a_footer_that_says_less_than_there_is_does_not_help(monkeypatch, name):
    """The sizes that a Parquet file states may be anything; what comes is counted."""
    monkeypatch.setattr(columnar, "_stated", lambda metadata: 0)
    with pytest.raises(columnar.TooLarge):
        columnar.read_columnar(BOMBS[name](), 30_000_000)


def test_tables_of_all_kinds_are_read_as_pyarrow_reads_them():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.integers(9, size=300), "yes": rng.random(300) > 0.5})
    frame["text"], frame["x.y"] = rng.choice(["", "yy", None], 300), [str(i) for i in range(300)]
    frame["kind"], frame["day"] = pd.Categorical(rng.choice(["u", "v"], 300)), pd.date_range("2020", periods=300)
    for some in (frame, frame[:0]):
        for options in ({}, {"compression": "zstd", "row_group_size": 100}, {"use_dictionary": False}):
            buffer = io.BytesIO()
            parquet.write_table(pa.Table.from_pandas(some), buffer, **options)
            expected = parquet.read_table(io.BytesIO(buffer.getvalue()))
            assert columnar.read_columnar(buffer.getvalue(), 10**8).to_pandas().equals(expected.to_pandas())
        for compression in ("uncompressed", "lz4", "zstd"):
            buffer = io.BytesIO()
            feather.write_feather(some, buffer, compression=compression)
            assert columnar.read_columnar(buffer.getvalue(), 10**8).equals(
                feather.read_table(io.BytesIO(buffer.getvalue()))
            )


# ------------------------------------------------------------------------------------------- altered model files


def parted(blob):
    """Description, entries of arrays, arrays."""
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    return json.loads(header.pop("__metadata__")["hgk"]), header, blob[8 + length :]


def sealed(description, header, body, checksum=True, letters=()):
    text = description if isinstance(description, str) else json.dumps({**description, "checksum": schema.BLANK})
    raw = json.dumps({"__metadata__": {"hgk": text}, **header}, separators=(",", ":")).encode()
    for plain in letters:
        raw = raw.replace(plain, letters[plain])
    raw += b" " * (-len(raw) % 8)
    blob = bytearray(len(raw).to_bytes(8, "little") + raw + body)
    if checksum:
        blob[schema.digits(blob)] = schema.checksum(blob).encode()
    return bytes(blob)


@pytest.fixture(scope="module")
def learned():
    """A model with a history of all kinds of events, as bytes."""
    frame = houses(60)
    model = HGKRegressor(random_state=0).fit(frame[["area", "age"]], frame["price"])
    more = Watched(candidate="smooth", step=1, risk=0.5), Refined(values=2, taken=False, number=0.5, level=0.4)
    model.restore(replace(model.model_, history=model.history_ + more), model.feature_names_in_)
    with tempfile.TemporaryDirectory() as folder:
        hgk.save(model, f"{folder}/m.hgk", note={"target": "price"})
        return Path(f"{folder}/m.hgk").read_bytes()


def test_millions_of_entries_are_refused_before_they_are_read(learned, tmp_path, monkeypatch):
    description, header, body = parted(learned)
    text = json.dumps({**description, "checksum": schema.BLANK})[:-1] + ', "more": [' + "[]," * 6_000_000 + "[]]}"
    path = tmp_path / "bomb.hgk"
    path.write_bytes(sealed(text, header, body))
    with pytest.raises(ModelFileError, match=r"it has .* million entries, more than any model"):
        hgk.load(path)
    path.write_bytes(sealed(description, {**header, "x": {"dtype": "F64", "shape": [[]] * 6_000_000}}, body))
    with pytest.raises(ModelFileError, match="million entries, more than any model"):
        describe(path)
    monkeypatch.setattr(schema, "MOST_ENTRIES", 100_000)
    text = text.replace("[]," * 6_000_000, "\x01\x02" * 200_000)  # the same in other letters of JSON
    path.write_bytes(sealed(text, header, body, letters={b"\\u0001": b"\\u005b\\u005d", b"\\u0002": b"\\u002c"}))
    with pytest.raises(ModelFileError, match="million entries, more than any model"):
        hgk.load(path)
    monkeypatch.setattr(files, "MOST_ENTRIES", 1_000)
    with pytest.raises(ModelFileError, match=r"million entries, .* leave out columns"):
        hgk.save(hgk.HGKRegressor("plain").fit(np.eye(40), np.arange(40)), tmp_path / "m.hgk")


def leaves(document, way=()):
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for key, part in parts:
        yield (*way, key)
        if isinstance(part, dict | list):
            yield from leaves(part, (*way, key))


def replaced(document, way, value):
    document = copy.deepcopy(document)
    target = document
    for step in way[:-1]:
        target = target[step]
    target[way[-1]] = value
    return document


WRONG = [None, True, -1, 10**400, 1e308, "x", "\x1b[2J", [], [None], [["x"]], {}, {"x": 1}]


def test_a_history_of_other_types_is_refused_or_shown(learned, tmp_path):
    """What the report and ``explain`` read of the history, for every entry of it and every wrong value."""
    description, header, body = parted(learned)
    history = description["model"]["model"]["history"]
    kinds = {event["type"]: event for event in history}
    assert {"Step", "Watched", "Judged", "Chosen", "Refined"} <= set(kinds)
    short = replaced(description, ("model", "model", "history"), list(kinds.values()))
    ways = [("history",), *(("history", *way) for way in leaves(list(kinds.values())))]
    refused, path = 0, tmp_path / "m.hgk"
    rng = np.random.default_rng(0)
    for way in ways:
        for value in [WRONG[i] for i in rng.permutation(len(WRONG))[:5]]:
            path.write_bytes(sealed(replaced(short, ("model", "model", *way), value), header, body))
            try:
                model = hgk.load(path)
            except ModelFileError:
                refused += 1
                continue
            learning_curves(model)
            scores(model, compare=False)
            plain_remark(model)
    assert refused > len(ways)


def test_a_summary_of_other_types_is_refused_or_shown(call, learned, tmp_path):
    description, header, body = parted(learned)
    ways = [way for way in leaves(description) if way[0] in ("summary", "versions", "note")]
    path, rng, refused = tmp_path / "m.hgk", np.random.default_rng(0), 0
    for way in ways:
        for value in [WRONG[i] for i in rng.permutation(len(WRONG))[:5]]:
            path.write_bytes(sealed(replaced(description, way, value), header, body))
            code, out, err = call("info", path)
            assert_harmless(out)
            if code:
                assert_refused((code, out, err), "damaged or was altered")
                refused += 1
    assert refused > len(ways)


def test_a_report_of_an_altered_history_is_a_report_or_a_sentence(learned, tmp_path):
    description, header, body = parted(learned)
    chosen = next(i for i, e in enumerate(description["model"]["model"]["history"]) if e["type"] == "Chosen")
    path = tmp_path / "m.hgk"
    for way, value, works in (
        (("history", chosen, "risk"), None, True),
        (("history", chosen, "risk"), -1.0, False),
        (("history", chosen, "candidates"), "plain", False),
        (("history", chosen), {"type": "Chosen"}, False),
        (("history", 0, "fold"), "one", False),
    ):
        path.write_bytes(sealed(replaced(description, ("model", "model", *way), value), header, body))
        if works:
            assert "<h2>Error</h2>" in report(hgk.load(path))
        else:
            with pytest.raises(ModelFileError, match="damaged or was altered"):
                hgk.load(path)


# -------------------------------------------------------------------------------------------------------- the report


def test_a_report_says_the_users_words_as_they_are():
    """With another loss, what we call leave-one-out is called held-out; a column or a class keeps its name."""
    frame = houses().rename(columns={"area": "Leave-one-out", "age": "leave-one-out area"})
    y = np.where(frame.pop("price") > 200, "leave-one-out", "Leave-one-out class")
    page = report(HGKClassifier("plain", loss="hinge", random_state=0).fit(frame, y), title="Our leave-one-out rows")
    assert "<h1>Our leave-one-out rows</h1>" in page
    for name in ("Leave-one-out", "leave-one-out area"):
        assert f'<th scope="row" data-value="{name}">{name}</th>' in page
    assert ">predicted leave-one-out<" in page
    assert ">predicted Leave-one-out class<" in page
    assert "Held-out predictions by class" in page
    assert "largest held-out errors" in page
    own = re.sub(r"<title>.*?</h1>|<t[hd].*?</t[hd]>|<h3>[Ll]eave-one-out( area)?</h3>", "", page, flags=re.DOTALL)
    own = re.sub(r'<script type="application/json".*?</script>|<p class="lead">.*?</p>', "", own, flags=re.DOTALL)
    assert not re.search("leave-one-out", own, re.IGNORECASE)


def far_away():
    """Labels near 1e18 that differ by hundreds; neighbouring numbers differ by 128 there."""
    frame = houses(80)
    return frame[["area", "age"]], 1e18 + 300 * frame["price"].to_numpy().round()


@pytest.fixture(scope="module")
def far():
    X, y = far_away()
    return HGKRegressor("plain", random_state=0).fit(X, y)


def embedded(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def ticks_of(ranges):
    """As the report's script finds them, in a process that must come to an end."""
    script = (ROOT / "src" / "hgk" / "report" / "web" / "report.js").read_text()
    function = re.search(r"^function ticks.*?^}", script, re.DOTALL | re.MULTILINE)[0]
    program = f"{function}\nconsole.log(JSON.stringify({json.dumps(ranges)}.map(r => ticks(r, 8))))"
    ended = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(ended.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_ticks_are_few_in_order_and_inside_however_large_the_numbers(far):
    parts = embedded(report(far))["predictions"]["coverage"]["parts"]
    ranges = [[min(p["low"] for p in parts), max(p["high"] for p in parts)], [0, 1], [-3, 7], [0.1, 0.10001]]
    ranges += [[1e18, 1e18 + 256], [-1e308, 1e308], [5e-324, 1e-323], [2**53, 2**53 + 2], [1e300, 1.0000001e300]]
    for (low, high), ticks in zip(ranges, ticks_of(ranges), strict=True):
        assert len(ticks) <= 10
        assert ticks == sorted(set(ticks))
        margin = 1e-6 * (high / 2 - low / 2)
        assert all(low - margin <= tick <= high + margin for tick in ticks)
    assert ticks_of([[0, 1], [-3, 7]]) == [[0, 0.2, 0.4, 0.6, 0.8, 1], [-2, 0, 2, 4, 6]]


def test_points_far_from_zero_keep_their_distances(far):
    (output,) = embedded(report(far))["predictions"]["outputs"]
    assert len(set(output["actual"])) > 50
    assert np.ptp(output["actual"]) == pytest.approx(np.ptp(far_away()[1]), rel=1e-2)


def test_a_report_of_labels_near_1e18_is_drawn(browser, tmp_path, far):
    from hgk.report import write_report

    browser.set_page_load_timeout(300)
    browser.get(write_report(far, tmp_path / "far.html").as_uri())
    assert browser.execute_script("return document.querySelectorAll('figure svg').length") > 5


# ---------------------------------------------------------------------------------------------------------- Ctrl-C

COMMANDS = {"python -m hgk": ["-m", "hgk"], "hgk": ["-c", "from hgk.__main__ import main; main()"]}
SLOW = """
import time
try:
    print("importing", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    {after}
"""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("package", ["torch", "numpy", "typer", "rich"])
@pytest.mark.parametrize("after", ["raise", "raise ImportError('half of it is there')"])
def test_ctrl_c_while_packages_are_imported_is_one_line(tmp_path, command, package, after):
    (tmp_path / f"{package}.py").write_text(SLOW.format(after=after))
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"}
    arguments = [sys.executable, *COMMANDS[command], "info", "m.hgk"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, env=environment, cwd=tmp_path, **pipes) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "hgk: stopped.\n")


def test_names_and_modules_are_there_without_imports_of_their_own():
    program = (
        "import hgk, sys; assert 'torch' not in sys.modules; hgk.losses.Hinge; hgk.HGKRegressor; print(hgk.nothing)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert ended.stderr.rstrip().endswith("AttributeError: module 'hgk' has no attribute 'nothing'")
    assert set(hgk.__all__) <= set(dir(hgk))


# ----------------------------------------------------------------------------------- what is recorded, what is said


@pytest.fixture(scope="module")
def picture():
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_picture_shows_what_is_recorded(picture, mode):
    """Places along the axis are a line in the logarithm of what experiments/default/rows.jsonl gives now."""
    drawn = (ROOT / "docs" / "_static" / f"hgk-{mode}.svg").read_text()
    found, places, values = picture.ratios(), [], []
    for peer in picture.PEERS:
        group = re.search(rf'<g id="errors-{peer}">(.*?)\n   </g>', drawn, re.DOTALL)[1]
        places += [(float(x), float(y)) for x, y in re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', group)]
        values += [(found[name][peer], i) for i, name in enumerate(picture.in_order(found)) if peer in found[name]]
    assert len(places) == len(values) == 6 * 14
    for axis, expected in ((0, np.log([ratio for ratio, _ in values])), (1, [float(i) for _, i in values])):
        drawn_at = np.array(places)[:, axis]
        line = np.polyfit(expected, drawn_at, 1)
        np.testing.assert_allclose(np.polyval(line, expected), drawn_at, atol=0.05)  # hundredths of a point


def test_the_picture_and_the_table_of_the_readme_agree(picture):
    head, _, *lines = re.findall(r"^\| .*|^\|---.*", (ROOT / "README.md").read_text(), re.MULTILINE)
    methods = [{"random forest": "RF"}.get(name, name) for name in head.strip("| ").split(" | ")[2:]]
    found = picture.ratios()
    assert len(lines) == len(found)
    for line in lines:
        name, ours, *others = line.replace("*", "").strip("| ").split(" | ")
        for method, error in zip(methods, others, strict=True):
            assert found[name][method] == pytest.approx(float(error) / float(ours), rel=0.02)


def test_no_point_of_the_picture_lies_in_its_legend(picture):
    figure, ax = picture.plt.subplots(figsize=(6, 4.1), layout="constrained")
    picture.draw_errors(ax, picture.ratios(), "light")
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    points = np.vstack([ax.transData.transform(line.get_xydata()) for line in ax.lines if line.get_gid()])
    assert len(points) == 6 * 14
    assert not any(legend.padded(8).contains(x, y) for x, y in points)
    assert all(ax.bbox.contains(x, y) for x, y in points)
    picture.plt.close(figure)


def test_building_the_site_redraws_the_picture():
    source = (ROOT / "docs" / "conf.py").read_text()
    assert re.search(r'app\.connect\("builder-inited", redraw\)', source)
    assert re.search(r"def redraw.*?picture\.main\(\)", source, re.DOTALL)


def test_all_pages_tell_the_same_seconds_of_the_same_fit():
    recorded = json.loads((ROOT / "benchmarks" / "results" / "processor.json").read_text())["fit"]
    seconds = [recorded[name]["seconds"] for name in ("letter-recognition", "bank-marketing")]
    said = f"{round(min(seconds))} to {round(max(seconds))} s"
    for page in ("README.md", "docs/compare.md", "docs/howto/budget.md"):
        (line,) = [line for line in (ROOT / page).read_text().splitlines() if re.search(r"7000 (×|rows of) 16", line)]
        assert said in line, page
