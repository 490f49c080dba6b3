"""Reading and writing tables: CSV of any dialect, Parquet, Arrow, Feather, JSON, Excel, gzip, standard input.

The format is recognised by the content of a file, not by its name. The delimiter of a CSV is the one of ``, ; tab |``
that splits the first lines most evenly into the most cells. Decimal and thousands marks are detected column by column
(:mod:`hgk.inputs.numerals`), and so is the order of day and month (:mod:`hgk.inputs.dates`); where a column is
ambiguous, the other columns or ``--decimal`` and ``--dates`` decide, or the user is asked. Errors are a
:class:`TableError` of one sentence; anything unusual is a note.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import gzip
import io
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pandas as pd

from hgk.arrays import available_memory, gibibytes
from hgk.cli.expected import EXPECTED
from hgk.cli.formats import FormatError, json_table, sheet
from hgk.inputs import (
    DATE_ORDERS,
    INEXACT,
    DateForm,
    Marks,
    Reading,
    cut,
    date_reading,
    date_readings,
    id_remark,
    is_id,
    moments,
    no_numbers,
    numbers,
    reading,
    readings,
)
from hgk.storage import SentenceError, columnar, open_regular, printable, write_atomically

DELIMITERS = ",;\t|"
# What a CSV may hold in place of a value.
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", "-nan", "#N/A"]
# Memory that a table may take: times the size of its file, or times the unpacked size where the file states it.
TABLE_ROOM, COPIES = 8, 3
# Whole numbers that a target may take and still be taken for classes.
MANY_CLASSES = 10
# File endings that are written.
ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq", ".feather", ".arrow")


class TableError(SentenceError):
    """A table that cannot be used; the message is one sentence."""


EXPECTED += [TableError, FormatError]


@dataclass
class Table:
    """A frame, notes on its lines and columns, the marks of columns read from texts, and questions to the user.

    ``kept`` are columns as the file has them: of a CSV texts, of others the types that they have there.
    """

    frame: pd.DataFrame
    of_lines: list[str] = field(default_factory=list)
    of_columns: dict[str, str] = field(default_factory=dict)
    marks: dict[str, Marks | DateForm] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    kept: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def notes(self) -> list[str]:
        return self.notes_on(self.frame.columns)

    def notes_on(self, columns: Collection[str]) -> list[str]:
        """The notes on the lines, and on these columns."""
        return [*self.of_lines, *(note for name, note in self.of_columns.items() if name in set(columns))]

    def check(self, columns: Collection[str]) -> None:
        """Ask about the first of these columns that can be read in two ways."""
        for name in columns:
            if name in self.unclear:
                raise TableError(self.unclear[name])


# ------------------------------------------------------------------------------------------------------ reading


def read_table(
    path: str | Path,
    delimiter: str | None = None,
    decimal: str | None = None,
    text: Collection[str] = (),
    marks: Mapping[str, Marks | DateForm] | None = None,
    keep: Collection[str] = (),
    encoding: str | None = None,
    comment: str | None = None,
    dates: str | None = None,
) -> Table:
    """A table from a file, or from standard input where ``path`` is "-".

    ``text`` names columns whose cells are texts even where they look like numbers; ``marks`` are those of columns of
    numbers when a model was fitted; ``keep`` names columns that are wanted as the file has them, too. The other
    arguments are those of :class:`hgk.cli.dialect.Dialect`.
    """
    name = "standard input" if str(path) == "-" else str(path)
    content = _bytes(path, name)
    if content[:2] == b"\x1f\x8b":
        content = _unzipped(content, name)
    if not content.strip():
        raise TableError(f"{name} is empty; give a table with a line of names and at least two rows.")
    table = _not_csv(content, name, keep, encoding)
    if table is None:
        lines = _uncommented(_decoded(content, name, encoding), comment)
        table = _csv(lines, name, delimiter, decimal, text, marks or {}, keep)
    else:
        table.frame = _as_text(table.frame, text)
        _read_texts(table, _texts(table.frame, text), marks or {}, decimal or "", bool(decimal), silent=False)
    _read_dates(table, text, _given_order(dates))
    if not len(table.frame):
        raise TableError(f"{name} has names of columns and no rows; give at least one row.")
    return table


def _bytes(path: str | Path, name: str) -> bytes:
    most = available_memory() // TABLE_ROOM
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else open_regular(path) as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"{name} cannot be read ({reason}); give a file, or - for input.") from error
    return _fitting(content, most, name)


def _fitting(content: bytes, most: int, name: str) -> bytes:
    if len(content) > most:
        raise TableError(
            f"{name} has more than {gibibytes(most)}, and {TABLE_ROOM} times as much is not free as memory; give a "
            "part of its rows, or set HGK_MEMORY if there is more."
        )
    return content


def _unzipped(content: bytes, name: str) -> bytes:
    """What gzip packed; no more of it than fits into memory is unpacked, however small the file."""
    most = available_memory() // TABLE_ROOM
    try:
        with gzip.open(io.BytesIO(content)) as file:
            return _fitting(file.read(most + 1), most, name)
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{name} is a damaged gzip file ({_one_line(error)}); take another copy.") from error


def _not_csv(content: bytes, name: str, keep: Collection[str], encoding: str | None) -> Table | None:
    """Columnar files, sheets and JSON, whose cells have types; None for anything else."""
    columnar_parts = _columnar(content, name, lambda arrow: (_framed(arrow), _kept(arrow, keep)))
    if columnar_parts is not None:
        return Table(columnar_parts[0], kept=columnar_parts[1])
    frame = sheet(content, name, available_memory() // COPIES)
    if frame is None and content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{"):
        frame = json_table(_decoded(content, name, encoding), name)
    if frame is None:
        return None
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    _refuse_duplicates(list(frame.columns), name)
    return Table(frame, kept=frame[[c for c in frame.columns if c in keep]])


def _framed(arrow: Any) -> pd.DataFrame:
    return arrow.to_pandas().reset_index(drop=True)


def _kept(arrow: Any, keep: Collection[str]) -> pd.DataFrame:
    """Columns in the types of the file, which pandas' own would change where cells are missing."""
    columns = {name: arrow.column(name) for name in keep if name in arrow.column_names}
    return pd.DataFrame({name: pd.Series(pd.arrays.ArrowExtensionArray(cells)) for name, cells in columns.items()})


def _columnar(content: bytes, name: str, take: Callable[[Any], Any] = _framed) -> Any:
    """What is taken from Parquet, Feather, Arrow's files and streams; None for anything else."""
    kind = columnar.file_kind(content)
    if kind is None:
        return None
    try:
        table = columnar.read_columnar(content, available_memory() // COPIES)
        _refuse_duplicates(table.column_names, name)
        return take(table)
    except ModuleNotFoundError as error:
        raise TableError(f"{name} is a {kind} file, which needs pyarrow; pip install 'hgk[cli]'.") from error
    except columnar.TooLarge as error:
        raise TableError(
            f"{name} unpacks to {gibibytes(error.size)} or more, and {COPIES} times as much is not free as memory; "
            "give a part of its rows, or set HGK_MEMORY if there is more."
        ) from error
    except TableError:
        raise
    except Exception as error:  # a reader of bytes that may be anything: Arrow's errors, Thrift's, overflows
        raise TableError(f"{name} is a damaged {kind} file ({_one_line(error)}); take another copy.") from error


def _as_text(frame: pd.DataFrame, text: Collection[str]) -> pd.DataFrame:
    """Numbers in columns of texts, as a CSV would have them."""
    for column in [c for c in frame.columns if c in text and pd.api.types.is_numeric_dtype(frame[c].dtype)]:
        whole = frame[column].dropna().mod(1).eq(0).all()
        cells = [None if v != v else str(int(v)) if whole else str(v) for v in frame[column].astype(object)]
        frame[column] = pd.Series(cells, dtype=object, index=frame.index)
    return frame


def _decoded(content: bytes, name: str, given: str | None = None) -> str:
    if given is not None:
        _check_encoding(given)
    # UTF-32 first: its mark begins with that of UTF-16
    marks = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    encoding = next((encoding for mark, encoding in marks.items() if content.startswith(mark)), "utf-8-sig")
    try:
        text = content.decode(given or encoding)
    except UnicodeError as error:
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        if given is not None:
            raise TableError(f"{name} is no text in the encoding {given}{where}; give another --encoding.") from error
        raise TableError(
            f"{name} is neither UTF-8 text nor Parquet, Arrow or Feather{where}; save it as UTF-8, or give its "
            "encoding, such as --encoding cp1252."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TableError(
            f"{name} is neither text nor Parquet, Arrow or Feather (a zero byte in line {line}); give a table in one "
            "of these forms."
        )
    return text


def _check_encoding(given: str) -> None:
    try:
        "".encode(given)
    except (LookupError, ValueError) as error:
        raise TableError(
            f"--encoding {given!r} was given; one such as utf-8, latin-1 or cp1252 is expected."
        ) from error


def _uncommented(text: str, comment: str | None) -> str:
    """Without the lines that begin with a comment mark, unless they are within quotes."""
    if comment is None:
        return text
    if not comment.strip() or any(c in comment for c in '"\r\n'):
        raise TableError(f"--comment {comment!r} was given; the beginning of a line is expected, such as '#'.")
    kept, quoted = [], False
    for line in text.splitlines(keepends=True):
        if not quoted and line.lstrip().startswith(comment):
            continue
        kept.append(line)
        quoted ^= line.count('"') % 2 == 1
    return "".join(kept)


def _csv(
    text: str,
    name: str,
    delimiter: str | None,
    decimal: str | None,
    as_text: Collection[str],
    marks: Mapping[str, Marks | DateForm],
    keep: Collection[str] = (),
) -> Table:
    given = _given_delimiter(delimiter)
    delimiter, first_rows = _first_rows(text, name, given)
    decimal = _given_decimal(decimal, given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = _parsed(text, delimiter, dtype={c: str for c in first_rows[0] if c.strip() in as_text})
            _refuse_duplicates(list(frame.columns), name)
            hint = decimal or _proven(frame, first_rows, as_text)
            doubtful = _doubtful(frame, text, delimiter, hint, marks) - set(as_text)
            places = [i for i, c in enumerate(frame.columns) if c in doubtful]
            written = _parsed(text, delimiter, dtype=str, usecols=places) if places else frame[[]]
            wanted = [i for i, c in enumerate(frame.columns) if c in keep]
            kept = _parsed(text, delimiter, dtype=str, na_filter=False, usecols=wanted) if wanted else frame[[]]
    except TableError:
        raise
    except (pd.errors.ParserWarning, ValueError, OverflowError) as error:  # pandas' errors are ValueErrors
        raise TableError(
            f"{name} is no even table with the delimiter {delimiter!r} ({_one_line(error)}); correct that line, or "
            "give --delimiter."
        ) from error
    table = Table(frame, _short_rows(text, first_rows, delimiter), kept=kept)
    texts = _texts(frame, as_text) | _texts(written, ())
    _read_texts(table, texts, marks, hint, bool(decimal), silent=True)
    return table


def _first_rows(text: str, name: str, delimiter: str | None) -> tuple[str, list[list[str]]]:
    """The delimiter, and the cells of the first lines, of which the first must hold names."""
    sample = _beginning(text)
    try:
        delimiter = delimiter or guess_delimiter(sample)
        rows = [row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise TableError(f"{name} is no CSV ({_one_line(error)}); correct it, or save it as Parquet.") from error
    if not rows:
        raise TableError(f"{name} has no names of columns; give a table with a line of names and at least two rows.")
    names = [cell.strip() for cell in rows[0]]
    _refuse_duplicates([n for n in names if n], name)
    if all(re.fullmatch(NUMBER, cell) for cell in names):
        raise TableError(f"The first line of {name} holds numbers only; give a first line with the columns' names.")
    return delimiter, rows


def _parsed(text: str, delimiter: str, **options: Any) -> pd.DataFrame:
    frame = pd.read_csv(
        io.StringIO(text), sep=delimiter, index_col=False, skipinitialspace=True, keep_default_na=False,
        na_values=MISSING, low_memory=False, **options,
    )  # fmt: skip
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    return frame


def _proven(frame: pd.DataFrame, rows: Sequence[Sequence[str]], as_text: Collection[str]) -> str:
    """The decimal mark that the first rows of some columns prove, "" if none or both."""
    width = len(frame.columns)
    columns = list(zip(*(row for row in rows[1:] if len(row) == width), strict=True)) or [()] * width
    cells = [list(c) for name, c in zip(frame.columns, columns, strict=True) if name not in as_text]
    proven = {r.proven for r in readings(cells) if r is not None and r.proven}
    # a dot is the decimal mark by default; it is proven where it cannot be a thousands mark
    proven |= {"."} if any(re.fullmatch(DOTTED, cell.strip()) for c in cells for cell in c) else set()
    return proven.pop() if len(proven) == 1 else ""


def _doubtful(frame: pd.DataFrame, text: str, delimiter: str, hint: str, marks: Mapping[str, Any]) -> set[str]:
    """Columns of numbers that pandas may have misread, and that must be looked at as texts.

    Codes with leading zeros; whole numbers beyond 2^53, which missing cells turn into floats; numbers whose dot may be
    a thousands mark, judging by their shape, or because the decimal mark of other columns, or of this column in the
    training table, is a comma.
    """
    numeric = [c for c in frame.columns if frame[c].dtype.kind in "iuf"]
    whole = {c for c in numeric if frame[c].dropna().mod(1).eq(0).all()}
    padded = re.search(rf"(?:^|[{re.escape(delimiter)}\"])[ \t]*0\d", text, re.MULTILINE) is not None
    floats = {c for c in numeric if frame[c].dtype.kind == "f"}
    doubtful = whole if padded else {c for c in whole & floats if frame[c].abs().max() >= INEXACT}
    doubtful |= {c for c in frame.columns if frame[c].dtype.kind == "O" and not _is_text(frame[c])} if padded else set()
    doubtful |= {c for c in floats if not hint and _like_thousands(frame[c].dropna().to_numpy())}
    return doubtful | {c for c in floats if "," in (hint, getattr(marks.get(c), "decimal", ""))}


def _like_thousands(x: np.ndarray) -> bool:
    """Whether there are numbers with up to three decimals and whole ones below 1000, such as 6.511 and 863."""
    if not np.isfinite(x).all():
        return False
    whole = x % 1 == 0
    parts = np.abs(x[~whole])
    fits = (parts > 1) & (parts < 1000) & (np.abs(1000 * parts - np.round(1000 * parts)) < 1e-6)
    return bool(whole.any() and fits.any() and fits.all() and (np.abs(x[whole]) < 1000).all())


# A number, of which a line of names does not consist, and one whose dot cannot be a thousands mark.
NUMBER = r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*"
DOTTED = r"[-+]?(?:0\.\d+|\d{4,}\.\d+|\d*\.(?:\d{1,2}|\d{4,}))(?:[eE][-+]?\d+)?"


@dataclass(frozen=True)
class TextCells:
    """The cells of a column as texts, None where missing; made anew in each pass, so that they take no memory."""

    column: pd.Series

    def __iter__(self) -> Iterator[str | None]:
        for value, gone in zip(self.column.tolist(), self.column.isna().tolist(), strict=True):
            yield None if gone else str(value)


def _texts(frame: pd.DataFrame, as_text: Collection[str]) -> dict[str, TextCells]:
    """The columns that hold texts."""
    return {c: TextCells(frame[c]) for c in frame.columns if c not in as_text and _is_text(frame[c])}


def _is_text(column: pd.Series) -> bool:
    kind = column.dtype
    return isinstance(kind, pd.StringDtype) or (kind.kind == "O" and any(isinstance(v, str) for v in column))


def _read_texts(
    table: Table, texts: Mapping[str, TextCells], marks: Mapping[str, Any], hint: str, asked: bool, silent: bool
) -> None:
    """Replace columns of texts that are numbers by numbers.

    ``asked``: the user has given the decimal mark, so no note on it is needed. ``silent``: nor is one where a decimal
    mark is all that was found.
    """
    for (name, column), r in zip(texts.items(), cast(list[Reading], readings(list(texts.values()), hint)), strict=True):
        cells = list(column)
        if name in marks:
            r = _as_fitted(cells, marks[name], r, hint)
        r = replace(r, borrowed=r.borrowed and not asked)
        numeric = not _is_text(table.frame[name])
        if numeric and _read_rightly(r):
            continue
        if r.unclear:
            table.unclear[name] = r.question(f"Column {name!r}", "give --decimal . or --decimal ,")
        if r.marks is not None:
            table.frame[name] = _whole_if_possible(numbers(cells, r.marks)[0], cells, r)
            table.marks[name] = r.marks
        elif numeric:
            table.frame[name] = pd.Series(cells, dtype=object, index=table.frame.index)
        plain = r.marks is not None and r.lacking is None and not r.borrowed and replace(r.marks, decimal="") == Marks()
        if not (plain and (silent or name in marks)) and (note := _note(name, r, cells)):
            table.of_columns[name] = note


def _given_order(dates: str | None) -> str:
    if dates is not None and dates not in DATE_ORDERS:
        raise TableError(f"--dates {dates!r} was given; dmy (the day first) or mdy (the month first) is expected.")
    return dates or ""


def _read_dates(table: Table, as_text: Collection[str], order: str) -> None:
    """Notes and questions on texts that are dates; the model itself reads them, as they are.

    ``as_text`` are columns that a fitted model knows how to read; ``order`` is what the user has said.
    """
    texts = {name: cells for name, cells in _texts(table.frame, as_text).items() if name not in table.unclear}
    plain = [name for name, cells in texts.items() if no_numbers(reading(list(cells)))]
    found = date_readings([texts[name] for name in plain], [order] * len(plain))
    for name, r in zip(plain, found, strict=True):
        assert r is not None
        if r.unclear:
            table.unclear[name] = r.question(f"Column {name!r}", "give --dates dmy or --dates mdy")
        if r.form is not None:
            table.marks[name] = r.form
        if r.dates:
            table.of_columns.pop(name, None)  # dates may differ in every row, and are no ids
        if note := replace(r, borrowed=r.borrowed and not order).remark(name):
            table.of_columns[name] = note


def with_dates(frame: pd.DataFrame, marks: Mapping[str, Marks | DateForm]) -> pd.DataFrame:
    """The frame with times in the place of the texts that are dates, so that parts of it are read alike."""
    times = {}
    for name in [name for name in frame.columns if isinstance(marks.get(name), DateForm)]:
        cells = list(TextCells(frame[name]))
        zoned = date_reading(cells, cast(DateForm, marks[name]).order).zoned
        values = np.round(moments(cells, cast(DateForm, marks[name]), zoned)[0] * 1e6)
        times[name] = pd.to_datetime(pd.Series(values, index=frame.index), unit="us", utc=zoned)
    return frame.assign(**times)


def _read_rightly(r: Reading) -> bool:
    """Whether pandas reads numbers that are written like this."""
    comma = r.marks is not None and "," in (r.marks.decimal, r.marks.thousands)
    return not (r.padded or r.merged or r.unclear or comma)


def _as_fitted(cells: Sequence[str | None], fitted: Marks, r: Reading, hint: str) -> Reading:
    """By the marks of the training table's column, if they allow all cells and no other column contradicts.

    Numbers of another unit stay texts, which the model then refuses.
    """
    if r.marks is not None and _of_another_unit(r.marks, fitted):
        return Reading()
    if r.proven or (hint and fitted.decimal and hint != fitted.decimal) or numbers(cells, fitted)[1]:
        return r
    dotted = next((c for c in cells if c is not None and "." in c), None)
    if dotted is not None and fitted.decimal == "," and not fitted.thousands and not hint:
        return Reading(such=dotted, unclear="in which '.' may mark thousands or decimals")
    return replace(r, marks=fitted, unclear="", padded=False)


def _of_another_unit(marks: Marks, fitted: Marks) -> bool:
    other = bool(fitted.currency) and marks.currency not in ("", fitted.currency)
    return other or (marks.percent and not fitted.percent)


def _whole_if_possible(values: np.ndarray, cells: Sequence[str | None], r: Reading) -> Any:
    """Floats; whole numbers that floats would merge in an integer type, if one holds them."""
    if not r.merged:
        return values
    whole = [None if np.isnan(v) else int(str(c)) for c, v in zip(cells, values, strict=True)]
    for kind in ("Int64", "UInt64"):
        with contextlib.suppress(OverflowError, TypeError, ValueError):
            return pd.array(whole, dtype=kind)
    return pd.array(whole, dtype=object)


def _note(name: str, r: Reading, cells: Sequence[str | None]) -> str:
    """What a user should know about a column of texts."""
    said = r.remark(name).replace("; give it as categories if these are codes.", ".")
    if r.marks is not None or r.stray is not None:
        return said
    present = np.array([c for c in cells if c is not None], dtype=object)
    distinct = len(set(present))
    said = id_remark(name, distinct) if is_id(distinct, len(present)) else said
    return said.replace("leave it out", "leave it out with --drop")


def _beginning(text: str, lines: int = 20, least: int = 65536, most: int = 2**23) -> str:
    """The first lines, whole ones: those of wide tables are long."""
    end = -1
    for _ in range(lines):
        newline = text.find("\n", end + 1, most)
        if newline < 0:
            break
        end = newline
    end = max(end, text.rfind("\n", 0, least))
    return text[: end + 1] if end >= 0 and len(text) > least else text[:most]


def _short_rows(text: str, rows: Sequence[Sequence[str]], delimiter: str) -> list[str]:
    """A note on lines with fewer cells than names: among the first ones, and the last, where a copy may be cut off."""
    line = re.split(r"[\r\n]", text[-65536:].rstrip("\r\n"))[-1]
    last = next(csv.reader([line], delimiter=delimiter), [])
    width = len(rows[0])
    if '"' not in "".join(last) and 0 < len(last) < width and len(rows) > 1:
        return [f"The last line has {len(last)} cells and the first {width}; those that lack count as missing."]
    short = next((row for row in rows[1:-1] if len(row) < width), None)
    if short is None:
        return []
    start = delimiter.join(short)[:40]
    return [f"A line has {len(short)} cells and the first {width} ({start!r}); those that lack count as missing."]


def _given_decimal(decimal: str | None, delimiter: str | None) -> str | None:
    if decimal is not None and decimal not in (".", ","):
        raise TableError(f"--decimal {decimal!r} was given; . or , is expected.")
    if decimal is not None and decimal == delimiter:
        raise TableError(f"--decimal {decimal!r} was given, which also separates the cells; give another --delimiter.")
    return decimal


def _given_delimiter(delimiter: str | None) -> str | None:
    named = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
    character = named.get(delimiter or "", delimiter)
    if character is not None and (len(character) != 1 or character in '\r\n"'):
        raise TableError(f"--delimiter {delimiter!r} was given; one character is expected, or tab.")
    return character


def guess_delimiter(sample: str) -> str:
    """The character that splits the first lines most evenly into the most cells.

    Examples
    --------
    >>> from hgk.cli.tables import guess_delimiter
    >>> guess_delimiter("a;b\\n1,5;2\\n")
    ';'
    """

    def merit(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row][:200]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return round(sum(w == widths[0] for w in widths) / len(widths), 1), widths[0]

    return max(DELIMITERS, key=merit)


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(
            f"{where} has several columns named {', '.join(map(repr, twice[:5]))}; give each its own name."
        )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


# ----------------------------------------------------------------------------------------- columns and targets


def column(frame: pd.DataFrame, name: str, what: str) -> str:
    """The name itself if the frame has it; else a sentence with those that come close."""
    if name in frame.columns:
        return name
    raise TableError(f"{what} {name!r} is not a column; {_instead([name], list(frame.columns))}.")


def _instead(names: Sequence[str], known: Sequence[str]) -> str:
    folded = {str(k).casefold(): str(k) for k in known}
    close = [folded[c] for n in names for c in difflib.get_close_matches(n.casefold(), list(folded), 3, 0.6)]
    if close:
        return f"did you mean {', '.join(map(repr, dict.fromkeys(close)))}"
    return f"the columns are {', '.join(repr(str(k)) for k in known[:8])}{' …' if len(known) > 8 else ''}"


def fitted_columns(frame: pd.DataFrame, names: Sequence[str] | None, count: int) -> pd.DataFrame:
    """The columns that a model was fitted on, in its order; others are ignored."""
    if names is None:
        if frame.shape[1] != count:
            raise TableError(
                f"The table has {frame.shape[1]} columns and the model {count}, without names; give these."
            )
        return frame
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        listed = ", ".join(map(repr, lacking[:5])) + (" …" if len(lacking) > 5 else "")
        raise TableError(f"The table lacks {listed}, which the model needs; {_instead(lacking, list(frame.columns))}.")
    return frame[list(names)]


@dataclass
class Labels:
    """Labels, whether they are classes, why, and the rows that have one."""

    y: np.ndarray
    classes: bool
    reason: str
    present: np.ndarray


def target_of(column: pd.Series, task: str = "auto") -> Labels:
    """Labels for ``task`` "regression", "classification" or "auto", which decides by their type and number."""
    name, present = str(column.name), column.notna().to_numpy()
    cells = column[present]
    if not len(cells):
        raise TableError(f"The target {name!r} has no values; give a column with labels.")
    _refuse_stray(name, cells)
    numbers, distinct = _numbers(cells), len(pd.unique(cells))
    if task == "auto":
        classes, reason = _decide(name, cells, numbers, distinct)
    else:
        classes, reason = task == "classification", f"{task}, as asked"
    _check_target(name, cells, numbers, distinct, classes)
    y = _classes(cells, numbers, distinct) if classes else np.asarray(numbers, dtype=float)
    return Labels(y, classes, reason, present)


def _check_target(name: str, cells: pd.Series, numbers: np.ndarray | None, distinct: int, classes: bool) -> None:
    """Refuse texts for regression, and too few or too many classes."""
    many = distinct > len(cells) / 2 and distinct > MANY_CLASSES
    if not classes and numbers is None:
        odd = next((v for v in cells if not isinstance(v, int | float | np.number)), cells.iloc[0])
        advice = "another target, or turn it into numbers" if many else "--task classification"
        raise TableError(f"The target {name!r} holds {odd!r}; regression needs numbers, so give {advice}.")
    if classes and distinct < 2:
        raise TableError(f"The target {name!r} has the single value {cells.iloc[0]!r}; there is nothing to learn.")
    if classes and many:
        advice = "--task regression, or another target" if numbers is not None else "another target"
        raise TableError(
            f"The target {name!r} has {distinct} different values in {len(cells)} rows, too many for classes; give "
            f"{advice}."
        )


def _classes(cells: pd.Series, numbers: np.ndarray | None, distinct: int) -> np.ndarray:
    """Integers where a type holds all of them apart, floats where they are not whole, else texts."""
    if numbers is not None and cells.dtype != bool:
        if pd.api.types.is_integer_dtype(cells.dtype):  # beyond 2^53 floats would merge them
            return cells.to_numpy(dtype=np.uint64 if cells.max() >= 2**63 else np.int64)
        if len(np.unique(numbers)) == distinct:
            exact = bool((np.abs(numbers) < 2**53).all() and (numbers % 1 == 0).all())
            return numbers.astype(np.int64) if exact else numbers
    return cells.astype(str).to_numpy(dtype=object)


def _refuse_stray(name: str, cells: pd.Series) -> None:
    """Refuse a target of many numbers in which one cell is a text, which would make classes of them."""
    if not _is_text(cells) or len(pd.unique(cells)) <= MANY_CLASSES:
        return
    stray = reading([str(v) for v in cells]).stray
    if stray is not None:
        cell, place, count = stray
        row = cells.index[place] if pd.api.types.is_integer_dtype(cells.index.dtype) else place
        raise TableError(
            f"The target {name!r} holds {cut(repr(cell))} (row {row}, counted from 0) among {count} numbers; correct "
            "this cell and others like it, or leave them empty."
        )


def _numbers(cells: pd.Series) -> np.ndarray | None:
    if pd.api.types.is_bool_dtype(cells.dtype) or pd.api.types.is_numeric_dtype(cells.dtype):
        return cells.to_numpy(dtype=float)
    if cells.dtype == object and all(isinstance(v, Real | Decimal) and not isinstance(v, bool) for v in cells):
        return np.array([float(v) for v in cells])  # Parquet's decimals
    return None


def _decide(name: str, cells: pd.Series, numbers: np.ndarray | None, distinct: int) -> tuple[bool, str]:
    if numbers is None or pd.api.types.is_bool_dtype(cells.dtype):
        return True, f"classification, since {name!r} holds {distinct} different texts or truth values"
    whole = bool(np.isfinite(numbers).all() and (numbers % 1 == 0).all())
    if whole and (distinct == 2 or (distinct <= MANY_CLASSES and len(cells) >= 10 * distinct)):
        return True, f"classification, since {name!r} takes {distinct} whole numbers; --task regression if they measure"
    return False, f"regression, since {name!r} takes {distinct} different numbers"


# ------------------------------------------------------------------------------------------------------- writing


def check_ending(path: str | Path) -> None:
    """Refuse a file ending of a format that is not written; a name without an ending is a CSV."""
    name = Path(path).name.lower()
    ending = "".join(Path(name).suffixes[-2:] if name.endswith(".gz") else Path(name).suffixes[-1:])
    if ending and ending != ".gz" and not name.endswith(ENDINGS):
        raise TableError(f"{path} ends in {ending}; {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} is expected.")


def names_in(file: BinaryIO, path: str | Path) -> list[str]:
    """The names of the columns of an open file that :func:`write_table` may have written to ``path``."""
    name = str(path).lower()
    if name.endswith((".parquet", ".pq")):
        from pyarrow import parquet

        return list(parquet.read_schema(file).names)
    if name.endswith((".feather", ".arrow")):
        from pyarrow import ipc

        return list(ipc.open_file(file).schema.names)
    with gzip.GzipFile(fileobj=file) if name.endswith(".gz") else contextlib.nullcontext(file) as unpacked:
        beginning = unpacked.read(2**20).decode("utf-8", errors="replace")
    return next(csv.reader(io.StringIO(beginning, newline="")), [])


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write CSV, zipped for .gz, or Parquet or Feather, by the ending; "-" is standard output. Never half a file.

    On a terminal, control characters are escaped.
    """
    if str(path) == "-":
        try:
            text = frame.to_csv(index=False)
            sys.stdout.write(printable(text, "\r\n\t") if sys.stdout.isatty() else text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise  # whoever reads has enough
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or _one_line(error)
            raise TableError(f"Standard output could not be written ({reason}); make room, or give --out.") from error
        return
    check_ending(path)
    name, buffer = str(path).lower(), io.BytesIO()
    if name.endswith((".parquet", ".pq")):
        frame.to_parquet(buffer, index=False)
    elif name.endswith((".feather", ".arrow")):
        frame.to_feather(buffer)
    else:
        text = frame.to_csv(index=False).encode()
        buffer.write(gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))


def decoded_row(model: Any, row: np.ndarray) -> dict[str, Any]:
    """A row of ``X_fit_`` as the table had it: names, numbers, texts; None for missing cells."""
    reader = model.model_.inputs.reader
    return {name: reader.shown(j, cell) for j, (name, cell) in enumerate(zip(reader.names, row, strict=True))}
