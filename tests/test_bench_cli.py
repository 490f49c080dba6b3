"""The command line: sentences, exit codes, and the methods and commands that the documentation shows."""

import json
import re
import sys
from pathlib import Path

import pytest

from hgk import cli
from hgk.__main__ import main
from hgk.bench import datasets
from hgk.bench.methods import METHODS
from hgk.bench.store import read
from hgk.cli import bench as commands
from hgk.cli.shared import Console

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "bench.md").read_text()


@pytest.fixture
def call(monkeypatch, capfd):
    """``hgk bench …`` in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["hgk", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.run()
        return ended.value.code, *capfd.readouterr()

    return call


def test_list_names_all_sets_and_methods(call, monkeypatch):
    monkeypatch.setattr(commands, "console", Console(width=200))
    code, out, _ = call("bench", "list")
    assert code == 0
    assert all(name in out for name in [*datasets.known(), *METHODS])
    lacking = [method for method in METHODS.values() if method.missing()]
    assert out.count("no: ") == len(lacking)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sets", "magik"], "The data set 'magik' is unknown; the known ones are bank-marketing, cadata"),
        (["--methods", "SVM,Magic"], "The method 'Magic' is unknown; the known ones are SVM,"),
        (["--file", "t.csv"], "Only one of --file and --target was given"),
        (["--data", "/no/such/folder"], "The data folder /no/such/folder does not exist"),
        (["--device", "abacus"], "--device='abacus' was given; 'cpu', 'cuda'"),
        (["--out", "/no/such/rows.jsonl"], "The folder /no/such of the store does not exist; create it first"),
        (["--scheduler", "nonsense"], "No Dask scheduler answers at 'nonsense'"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(call, tmp_path, monkeypatch, arguments, said):
    if "--scheduler" in arguments:
        pytest.importorskip("distributed", reason="needs distributed")
    monkeypatch.chdir(tmp_path)
    code, _, err = call("bench", "run", "--preset", "quick", *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert not list(tmp_path.glob("rows.jsonl"))


def test_a_method_that_is_not_installed_is_named_with_what_it_needs(call, monkeypatch):
    monkeypatch.setattr(type(METHODS["RF"]), "requires", ("no_such_package",))
    code, _, err = call("bench", "run", "--methods", "rf")
    assert code == 2
    assert "The method RF needs no_such_package" in err
    assert "RF" not in commands._methods(None)


def test_results_of_a_store_that_is_not_there_or_empty(call, tmp_path):
    (tmp_path / "empty").touch()
    for name, said in {"none": "There is no store at", "empty": "has no rows yet"}.items():
        code, _, err = call("bench", "table", tmp_path / name)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1


def test_a_run_is_resumed_and_failures_are_remembered(call, tmp_path):
    out, table = tmp_path / "rows.jsonl", tmp_path / "mine.csv"
    table.write_text("a,b,y\n" + "".join(f"{i},{i % 3},{i}\n" for i in range(30)))
    row = {"set": "mine:y", "split": 0, "method": "SVM", "status": "failed", "mse": None, "reason": "a reason"}
    out.write_text("torn\n" + json.dumps(row | {"seconds": 0.0}))
    arguments = ["bench", "run", "--file", table, "--target", "y", "--methods", "svm", "--out", out]
    code, said, err = call(*arguments, "--splits", 1)
    assert code == 1
    assert "0 runs done, 0 failed" in said
    assert "1 runs failed earlier" in said
    assert "line 1 is not a row and is passed over" in err
    code, said, _ = call(*arguments, "--splits", 2, "--retry-failed")
    assert code == 0
    assert "2 runs done, 0 failed" in said
    assert "mine:y, split 1, SVM: " in said
    rows, _ = read(out)
    assert [(r["status"], r["split"]) for r in rows] == [("failed", 0), ("ok", 0), ("ok", 1)]
    assert [(r["n_train"], r["n_test"]) for r in rows[1:]] == [(20, 10), (20, 10)]


def test_a_fault_of_our_own_is_a_sentence_too_unless_debug_asks_for_the_traceback(call, tmp_path, monkeypatch):
    monkeypatch.setattr(commands.store, "read", lambda path: 1 / 0)
    monkeypatch.setenv("HGK_DEBUG", "")
    (tmp_path / "rows.jsonl").touch()
    code, _, err = call("bench", "table", tmp_path / "rows.jsonl")
    fault = "An unexpected error occurred (ZeroDivisionError: division by zero)"
    assert (code, err) == (2, f"hgk: {fault}; `hgk --debug …` shows where.\n")
    with pytest.raises(ZeroDivisionError):
        call("--debug", "bench", "table", tmp_path / "rows.jsonl")


def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "hgk.cli")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "The command line needs the package typer; pip install 'hgk[cli]'.\n"


def test_the_options_of_the_documentation_exist(call):
    helps = {}
    for line in re.findall(r"^    (?:HGK_\S+ )?hgk (?:--debug )?bench (\w+)(.*)$", PAGE, re.M):
        name, rest = line
        if name not in helps:
            helps[name] = call("bench", name, "--help")[1]
        for option in re.findall(r"--[a-z-]+", rest.split("#")[0]):
            assert option in helps[name], f"{option} of bench {name}"
    assert set(helps) == {"run", "list", "table", "figures", "page"}
