"""Every bad input of the list gets its error, in one sentence, and docs/errors.md shows it."""

import subprocess
import sys

import pytest

import bad_inputs
from bad_inputs import CASES, PAGE, provoked, workplace
from strategies import is_sentence

pytest.importorskip("pyarrow", reason="needs pyarrow")
pytest.importorskip("filelock", reason="needs filelock")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad")
    with workplace(path):
        yield path


@pytest.mark.parametrize("case", CASES, ids=[f"{c.area}: {c.given}" for c in CASES])
def test_a_bad_input_gets_its_error_in_one_sentence(case, folder):
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    error = provoked(case)
    assert type(error) is case.error, repr(error)
    if not case.theirs:
        assert is_sentence(str(error)), str(error)
    after = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    assert after == before  # nothing is written, nothing is lost


def test_no_case_is_listed_twice():
    assert len({(c.area, c.given) for c in CASES}) == len(CASES)


def test_the_page_is_current(tmp_path):
    """In an interpreter of its own: other tests register losses and solvers, which sentences list."""
    written = tmp_path / "errors.md"
    subprocess.run([sys.executable, bad_inputs.__file__, written], check=True, capture_output=True)
    said = written.read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == said, "docs/errors.md is not what the cases give; run make errors"
