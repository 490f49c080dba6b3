"""Tables of any bytes: a frame, or one sentence and exit code 2; never a traceback."""

import contextlib
import gzip
import io
import sys
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hgk import cli
from hgk.cli import tables
from strategies import examples, is_sentence

pytest.importorskip("pyarrow", reason="needs pyarrow")

FRAME = pd.DataFrame({"größe": np.arange(30) / 7, "town": ["Rom", "Ulm", "a, b"] * 10, "y": np.arange(30) ** 2})
FORMS = {
    "csv": FRAME.to_csv(index=False).encode(),
    "german": FRAME.to_csv(index=False, sep=";", decimal=",").encode(),
    "bom": FRAME.to_csv(index=False).encode("utf-8-sig"),
    "utf-16": FRAME.to_csv(index=False).encode("utf-16"),
    "utf-32": FRAME.to_csv(index=False).encode("utf-32"),
    "latin-1": FRAME.to_csv(index=False).encode("latin-1"),
    "mac": FRAME.to_csv(index=False, lineterminator="\r").encode(),
    "gzip": gzip.compress(FRAME.to_csv(index=False).encode(), mtime=0),
    "parquet": FRAME.to_parquet(None),
    "feather": (lambda sink: FRAME.to_feather(sink) or sink.getvalue())(io.BytesIO()),
}


@st.composite
def mutated(draw):
    """A table of some form with bytes changed, cut out, put in or cut off."""
    content = bytearray(FORMS[draw(st.sampled_from(sorted(FORMS)))])
    for _ in range(draw(st.integers(0, 4))):
        at, size = draw(st.integers(0, len(content))), draw(st.integers(0, 40))
        match draw(st.integers(0, 3)):
            case 0:
                content[at : at + size] = draw(st.binary(max_size=size))
            case 1:
                del content[at : at + size]
            case 2:
                content[at:at] = draw(st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b";", b"\xff", b"9" * 400]))
            case 3:
                del content[at:]
    return bytes(content)


def cells():
    return st.one_of(st.integers().map(str), st.floats().map(str), st.text(max_size=6), st.just('"'), st.just("9" * 30))


def written():
    """Lines of cells, mostly of the same number, with any delimiter and line end."""
    rows = st.lists(st.lists(cells(), min_size=1, max_size=4), min_size=1, max_size=8)
    return st.builds(
        lambda rows, mark, end: end.join(mark.join(row) for row in rows).encode("utf-8", "surrogatepass"),
        rows,
        st.sampled_from(",;\t|"),
        st.sampled_from(["\n", "\r\n", "\r"]),
    )


def anything():
    return st.one_of(mutated(), written(), st.binary(max_size=200))


@examples(250)
@given(content=anything())
@example(content=b"\xff\xfe\0\0" + b"a\0\0\0")
@example(content=b"a,b\n" + b"x" * 200_000 + b",1\n")
@example(content=",".join(f"column {i}" for i in range(9000)).encode() + b"\n" + b",".join([b"1"] * 9000) + b"\n")
@example(content=b'"' + b"x" * 300_000)
@example(content=b"\n\n , \n1,2\n")
def test_any_bytes_are_a_table_or_a_sentence(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    try:
        table, said = tables.read_table(path), ""
    except tables.TableError as error:
        table, said = None, str(error)
    if table is None:
        assert is_sentence(said), said
    else:
        assert len(table.frame)
        assert table.frame.columns.is_unique
        assert all(note.endswith(".") and "\n" not in note for note in table.notes)


@examples(25)
@given(content=anything(), target=st.sampled_from(["y", "größe", "town"]))
def test_the_command_line_fits_any_bytes_or_ends_with_a_sentence_and_2(content, target, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    (folder / "any").write_bytes(content)
    out = folder / "any.hgk"
    out.unlink(missing_ok=True)
    arguments = ["hgk", "fit", folder / "any", "--target", target, "--preset", "plain", "--out", out, "--quiet"]
    said = io.StringIO()
    with mock.patch.object(sys, "argv", [*map(str, arguments)]), contextlib.redirect_stderr(said):
        try:
            cli.run()
        except SystemExit as end:
            code = end.code
    assert code in (0, 2), said.getvalue()
    assert out.exists() == (code == 0)
    if code == 2:
        assert is_sentence(said.getvalue().rstrip("\n")), said.getvalue()
        assert "not foreseen" not in said.getvalue()


def test_every_form_that_is_whole_gives_the_same_numbers(tmp_path):
    for name, content in FORMS.items():
        (tmp_path / name).write_bytes(content)
        if name == "latin-1":
            with pytest.raises(tables.TableError, match="save it as UTF-8"):
                tables.read_table(tmp_path / name)
            continue
        table = tables.read_table(tmp_path / name)
        assert table.notes == [], name
        np.testing.assert_allclose(table.frame["größe"], FRAME["größe"], rtol=1e-12)
        assert table.frame["town"].tolist() == FRAME["town"].tolist()


def test_numbers_with_more_digits_than_an_integer_holds_stay_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n123456789012345678901234567890,1\n5,2\n")
    frame = tables.read_table(tmp_path / "t.csv").frame
    assert frame["a"].tolist() == [123456789012345678901234567890, 5]


def test_a_line_that_was_cut_off_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,3\n4,5,6\n7,8")
    assert "The last line has 2 cells and the first 3" in tables.read_table(tmp_path / "t.csv").notes[0]


def test_decimals_of_a_parquet_table_are_numbers():
    from decimal import Decimal

    found = tables.target_of(pd.Series([Decimal(i) / 7 for i in range(40)], name="y", dtype=object))
    assert not found.classes
    assert found.y.dtype == float
