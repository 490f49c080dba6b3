"""Tables that are neither CSV nor columnar: JSON, lines of JSON, Excel's sheets.

JSON is a list of objects, one for each row, or an object of columns, each a list; lines of JSON are an object for each
row. A cell that a row does not name is missing. Sheets are read by pandas, which needs openpyxl for .xlsx.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from typing import Any

import pandas as pd

from hgk.storage import SentenceError

# The first bytes of zipped files, such as .xlsx and .ods, and of old Excel's.
ZIPPED, OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class FormatError(SentenceError):
    """A file of another form that cannot be used; the message is one sentence."""


def sheet(content: bytes, name: str, most: int) -> pd.DataFrame | None:
    """The first sheet of an Excel file that unpacks to at most so many bytes; None for anything else."""
    if content.startswith(OLD_OFFICE):
        raise FormatError(f"{name} is a file of Excel before 2007; save it as .xlsx or CSV.")
    if not content.startswith(ZIPPED):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            names, size = parts.namelist(), sum(part.file_size for part in parts.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise FormatError(f"{name} is a damaged zip or Excel file ({_reason(error)}); take another copy.") from error
    if not any(part.startswith("xl/") for part in names):
        raise FormatError(f"{name} is a zip file and not an Excel sheet; unpack it, or save it as .xlsx or CSV.")
    if size > most:
        raise FormatError(
            f"{name} unpacks to {size:,} bytes, more than there is memory for; save it as CSV or Parquet."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and the like
            return pd.read_excel(io.BytesIO(content))
    except ImportError as error:
        raise FormatError(
            f"{name} is an Excel file, which needs openpyxl; pip install openpyxl, or save it as CSV."
        ) from error
    except Exception as error:  # of whichever package reads it
        raise FormatError(f"{name} is an Excel file that cannot be read ({_reason(error)}); save it as CSV.") from error


def json_table(text: str, name: str) -> pd.DataFrame | None:
    """The rows of a JSON document, or of lines of JSON; None for anything else.

    Examples
    --------
    >>> from hgk.cli.formats import json_table
    >>> json_table('{"a": 1, "b": "x"}\\n{"a": 2}', "t.jsonl").to_dict("list")
    {'a': [1, 2], 'b': ['x', None]}
    """
    begun = text.lstrip()
    if not begun.startswith(("[", "{")):
        return None
    try:
        rows = _document(begun)
    except ValueError as error:
        if begun.startswith("{") and '"' not in begun.partition("\n")[0]:
            return None  # a CSV whose first name begins with a brace
        raise FormatError(
            f"{name} begins like JSON and is none ({_reason(error)}); correct it, or save it as CSV."
        ) from error
    columns = _columns_of(rows, name)
    if not columns:
        raise FormatError(f"{name} is JSON without rows; give a list of objects, one for each row.")
    return pd.DataFrame({key: _typed(cells) for key, cells in columns.items()})


def _document(text: str) -> Any:
    """What one document holds; else the objects of the lines."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
        if not text.startswith("{") or len(lines) < 2:
            raise
    return [json.loads(line, object_pairs_hook=_unique) for line in lines]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in [k for k, _ in pairs[:i]])
        raise ValueError(f"an object names {twice!r} twice")
    return found


def _columns_of(rows: Any, name: str) -> dict[str, list[Any]]:
    """The cells of each column; None where a row does not name it."""
    if isinstance(rows, dict) and rows and all(isinstance(cells, list) for cells in rows.values()):
        if len({len(cells) for cells in rows.values()}) > 1:
            raise FormatError(f"{name} is JSON of columns of different lengths; give as many cells in each.")
        return rows
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FormatError(
            f"{name} is JSON and not a list of objects; give one object for each row, or columns as lists."
        )
    names = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in names}


def _typed(cells: list[Any]) -> pd.Series:
    """Numbers where all cells that are there are numbers; truth values likewise; else objects."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {bool} and None not in cells:
        return pd.Series(cells)
    if kinds == {int} and all(abs(cell) < 2**63 for cell in cells if cell is not None):
        large = any(abs(cell) > 2**53 for cell in cells if cell is not None)
        return pd.Series(cells, dtype="Int64" if large else float if None in cells else int)
    if kinds and kinds <= {int, float}:
        return pd.Series([float("nan") if cell is None else float(cell) for cell in cells])
    return pd.Series(cells, dtype=object)


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:160].rstrip(".")
