"""Parquet, Arrow and Feather files as tables, none larger than memory allows.

A file of a few kilobytes may stand for gigabytes: its pages are compressed, a text is kept once however often it
occurs, and of a column without values only the length. So before anything is unpacked the sizes that the file states
are added up:

    Parquet     rows, pages, and the values of every column times their width
    Arrow       before each compressed buffer of a message, the length that it had

Then it is read in batches, whose true sizes are counted, since a file may state anything. Texts of Parquet are kept
once until it is known how much they are when written out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

# By their first bytes.
FILE_KINDS = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"FEA1": "Feather", b"\xff\xff\xff\xff": "Arrow"}
# Every cell is a number or a reference in the end.
PER_CELL = 8
# Bytes of Parquet's values by their kinds; others are texts, of which no width is known.
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
BATCH = 65536


class TooLarge(ValueError):
    """A table of more than the bytes that were allowed; it has at least ``size``."""

    def __init__(self, size: int):
        super().__init__(f"at least {size} bytes")
        self.size = size


def file_kind(content: bytes) -> str | None:
    return next((kind for magic, kind in FILE_KINDS.items() if content.startswith(magic)), None)


def read_columnar(content: bytes, most: int) -> Any:
    """The table of :mod:`pyarrow` in these bytes; TooLarge if it takes more than ``most`` of them."""
    import pyarrow as pa
    from pyarrow import feather

    buffer = pa.py_buffer(content)
    if content.startswith(b"PAR1"):
        return _parquet(buffer, most)
    if content.startswith(b"FEA1"):  # the first Feather, which compressed nothing
        return feather.read_table(pa.BufferReader(buffer))
    stream = not content.startswith(b"ARROW1")
    _check_messages(_messages_of_stream(buffer) if stream else _messages_of_file(buffer), most)
    with (pa.ipc.open_stream if stream else pa.ipc.open_file)(pa.BufferReader(buffer)) as reader:
        batches = reader if stream else map(reader.get_batch, range(reader.num_record_batches))
        return pa.Table.from_batches(_within(batches, most), reader.schema)


def _check(size: int, most: int) -> None:
    if size > most:
        raise TooLarge(size)


def _within(batches: Iterable[Any], most: int) -> Iterator[Any]:
    """The batches, as long as all of them together are not too large."""
    total = 0
    for batch in batches:
        total += max(sum(map(_expanded, batch.columns)), PER_CELL * batch.num_rows * batch.num_columns)
        _check(total, most)
        yield batch


def _expanded(array: Any) -> int:
    """Bytes of a column with every text written out."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type) and array.type.value_type in _texts():
        lengths = _lengths(array.dictionary)[array.indices.drop_null().to_numpy(zero_copy_only=False)]
    elif array.type in _texts():
        lengths = _lengths(array)
    else:
        return array.nbytes
    return PER_CELL * len(array) + int(lengths.sum(dtype=np.int64))


def _texts() -> tuple[Any, ...]:
    import pyarrow as pa

    return pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view()


def _lengths(array: Any) -> np.ndarray:
    """Of texts, from where each ends; of views, from the first four of the sixteen bytes that stand for each."""
    if not len(array):
        return np.zeros(0, dtype=np.int64)
    wide = str(array.type).startswith("large")
    places = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
    if str(array.type).endswith("view"):
        return places[::4][array.offset :][: len(array)]
    return np.diff(places[array.offset :][: len(array) + 1])


# -------------------------------------------------------------------------------------------------------- Parquet


def _parquet(buffer: Any, most: int) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    plain = parquet.ParquetFile(pa.BufferReader(buffer))
    _check(_stated(plain.metadata), most)
    texts = [field.name for field in plain.schema_arrow if field.type in _texts()]
    file = parquet.ParquetFile(pa.BufferReader(buffer), read_dictionary=texts)
    batches = list(_within(file.iter_batches(BATCH), most))
    if not batches:
        return plain.schema_arrow.empty_table()
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    written_out = [field.with_type(views.get(field.type, field.type)) for field in plain.schema_arrow]
    return pa.Table.from_batches(batches).cast(pa.schema(written_out, plain.schema_arrow.metadata))


def _stated(metadata: Any) -> int:
    """What the file says that it unpacks to, at least."""
    pages = values = 0
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        pages += group.total_byte_size
        for c in range(group.num_columns):
            chunk = group.column(c)
            values += chunk.num_values * WIDTHS.get(chunk.physical_type, max(1, metadata.schema.column(c).length))
    return max(pages, values, PER_CELL * metadata.num_rows * metadata.num_columns)


# ---------------------------------------------------------------------------------------------------------- Arrow


def _messages_of_stream(buffer: Any) -> Iterator[Any]:
    import pyarrow as pa

    return iter(pa.ipc.MessageReader.open_stream(pa.BufferReader(buffer)))


def _messages_of_file(buffer: Any) -> Iterator[Any]:
    """Those of dictionaries, then of batches, where the footer says that they are."""
    import pyarrow as pa

    data = memoryview(buffer)
    (size,) = struct.unpack_from("<i", data, len(data) - 10)
    footer = data[len(data) - 10 - size : len(data) - 10]
    root = _table(footer, 0)
    for number in (2, 3):
        if not (field := _field(footer, root, number)):
            continue
        blocks = _table(footer, field)
        for i in range(*struct.unpack_from("<I", footer, blocks)):
            offset, head, body = struct.unpack_from("<qi4xq", footer, blocks + 4 + 24 * i)
            yield pa.ipc.read_message(pa.BufferReader(buffer.slice(offset, head + body)))


def _check_messages(messages: Iterable[Any], most: int) -> None:
    total = 0
    for message in messages:
        total += _unpacked(message)
        _check(total, most)


def _unpacked(message: Any) -> int:
    """Bytes that a message's buffers have without compression: each compressed one begins with that number, or -1."""
    data, body = memoryview(message.metadata), message.body
    if message.type not in ("record batch", "dictionary") or body is None:
        return 0
    batch = _table(data, _field(data, _table(data, 0), 2))
    if message.type == "dictionary":
        batch = _table(data, _field(data, batch, 1))
    if not _field(data, batch, 3):
        return body.size
    start = _table(data, _field(data, batch, 2))
    total, content = 0, memoryview(body)
    for i in range(*struct.unpack_from("<I", data, start)):
        offset, length = struct.unpack_from("<qq", data, start + 4 + 16 * i)
        if length:
            (size,) = struct.unpack_from("<q", content, offset)
            total += length if size < 0 else size
    return total


def _table(data: memoryview, place: int) -> int:
    """Where that begins to which the number at ``place`` points; Arrow's messages are FlatBuffers."""
    return place + struct.unpack_from("<I", data, place)[0]


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a table is, 0 if it has none."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", data, fields)[0]:
        return 0
    offset = struct.unpack_from("<H", data, fields + place)[0]
    return table + offset if offset else 0
