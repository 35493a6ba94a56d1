"""Formats of files in an object store: Parquet, JSON lines, and values as they are (raw).

A file of Parquet or JSON lines tells the offset behind its last record: in its footer, or in its
last line. A raw file is the value of one record, and its name tells the offset.
"""

import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..api import ConnectError
from ..data import Schema
from ..records import SinkRecord
from .arrow_values import arrow_type, to_arrow
from .object_store import ObjectStore
from .plain_json import to_json

NEXT_OFFSET = b"minikafka.next_offset"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_BASE = pa.schema([("offset", pa.int64()), ("timestamp_ms", pa.int64())])
_TAIL_BYTES = 65_536
_LINE = "line"


class Rows(NamedTuple):
    """Records of one partition, as a format takes them."""

    batch: pa.RecordBatch
    """Columns `offset` and `timestamp_ms`, and those of the format."""
    sizes: pa.Array
    """Bytes of each record, by which files are ended; the same for the same record always."""

    def slice(self, start: int, count: int) -> "Rows":
        """Return a part."""
        return Rows(self.batch.slice(start, count), self.sizes.slice(start, count))


class Format(NamedTuple):
    """One format: how rows are made, how a file is made of them, and what a file tells."""

    extension: str
    rows_of_records: Callable[[Sequence[SinkRecord]], Rows]
    """Takes records of one schema. Raises ValueError, ConnectError or pyarrow's errors."""
    rows_of_columns: Callable[[pa.RecordBatch], Rows]
    encode: Callable[[Sequence[pa.RecordBatch], int, str], bytes | None]
    """From rows, the offset behind them, and the compression; None if there is nothing to keep."""
    next_offset: Callable[[ObjectStore, str, int], int]
    """From a file's path and the offset in its name."""


# ------------------------------------------------------------------------------------- Parquet


def _parquet_rows(records: Sequence[SinkRecord]) -> Rows:
    keys = _column([each.key for each in records], records[0].key_schema)
    values = _column([each.value for each in records], records[0].value_schema)
    headers = [
        [{"key": each.key, "value": _text(each.value)} for each in record.headers]
        for record in records
    ]
    columns = [*_base(records), keys, values, pa.array(headers, _HEADERS)]
    names = ["offset", "timestamp_ms", "key", "value", "headers"]
    return Rows(pa.RecordBatch.from_arrays(columns, names), _sizes(records))


def _column(values: Sequence[Any], schema: Schema | None) -> pa.Array:
    """Return a column of values with one schema; without one, of bytes or else of JSON texts."""
    if schema is not None:
        return pa.array([to_arrow(each, schema) for each in values], arrow_type(schema))
    if all(each is None for each in values):
        return pa.nulls(len(values))
    if any(isinstance(each, bytes) for each in values):
        return pa.array(values, pa.binary())
    return pa.array([_text(each) for each in values], pa.string())


def _parquet_columns(batch: pa.RecordBatch) -> Rows:
    lengths = [
        pc.fill_null(pc.binary_length(batch.column(name)), 0).cast(pa.int64())
        for name in ("key", "value")
    ]
    return Rows(batch, pc.add(*lengths))


def _parquet_file(batches: Sequence[pa.RecordBatch], next_offset: int, compression: str) -> bytes:
    tables = [pa.Table.from_batches([each]) for each in batches]
    table = pa.concat_tables(tables, promote_options="default")
    fields = [
        each.with_type(pa.string()) if pa.types.is_null(each.type) else each
        for each in table.schema
    ]
    table = table.cast(pa.schema(fields)).combine_chunks()
    table = table.replace_schema_metadata({NEXT_OFFSET: str(next_offset)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression=compression, use_dictionary=["key"])
    return buffer.getvalue()


def _parquet_end(store: ObjectStore, path: str, first: int) -> int:
    with store.fs.open(store.path(path), "rb") as file:
        metadata = pq.read_metadata(file).metadata or {}
    if NEXT_OFFSET not in metadata:
        raise ConnectError(
            f"{path} was not written by ObjectSink, and stands where its files are; move it away"
        )
    return int(metadata[NEXT_OFFSET])


# ---------------------------------------------------------------------------------- JSON lines


def _line(record: SinkRecord) -> bytes:
    line = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_named("key", record.key),
        **_named("value", record.value),
    }
    if record.headers:
        line["headers"] = [[each.key, each.value] for each in record.headers]
    return to_json(line).encode()


def _named(name: str, value: Any) -> dict[str, Any]:
    """Return a field; bytes have another name, so that a reader can tell them from texts."""
    return {f"{name}_base64" if isinstance(value, bytes) else name: value}


def _json_rows(records: Sequence[SinkRecord]) -> Rows:
    lines = pa.array([_line(each) for each in records], pa.binary())
    columns = [*_base(records), lines]
    names = ["offset", "timestamp_ms", _LINE]
    return Rows(pa.RecordBatch.from_arrays(columns, names), _sizes(records))


def _json_columns(batch: pa.RecordBatch) -> Rows:
    lines = []
    for row in batch.to_pylist():
        named = {**_named("key", row["key"]), **_named("value", row["value"])}
        times = {"offset": row["offset"], "timestamp_ms": row["timestamp_ms"]}
        lines.append(to_json({**times, **named}).encode())
    columns = [batch.column("offset"), batch.column("timestamp_ms"), pa.array(lines, pa.binary())]
    sized = _parquet_columns(batch).sizes
    return Rows(pa.RecordBatch.from_arrays(columns, ["offset", "timestamp_ms", _LINE]), sized)


def _json_file(batches: Sequence[pa.RecordBatch], next_offset: int, compression: str) -> bytes:
    lines = [line for batch in batches for line in batch.column(_LINE).to_pylist()]
    return b"\n".join([*lines, b""])


def _json_file_gz(batches: Sequence[pa.RecordBatch], next_offset: int, compression: str) -> bytes:
    return gzip.compress(_json_file(batches, next_offset, compression), mtime=0)


def _json_end(store: ObjectStore, path: str, first: int) -> int:
    whole = store.path(path)
    size, length = store.fs.size(whole), _TAIL_BYTES
    while True:
        tail = store.fs.cat_file(whole, start=max(0, size - length), end=size)
        line = tail.rstrip(b"\n").rpartition(b"\n")
        if line[1] or length >= size:
            return _offset_of_line(line[2], path) + 1
        length *= 4


def _json_end_gz(store: ObjectStore, path: str, first: int) -> int:
    lines = gzip.decompress(store.fs.cat_file(store.path(path))).rstrip(b"\n")
    return _offset_of_line(lines.rpartition(b"\n")[2], path) + 1


def _offset_of_line(line: bytes, path: str) -> int:
    try:
        return int(json.loads(line)["offset"])
    except (ValueError, KeyError, TypeError):
        raise ConnectError(
            f"{path} was not written by ObjectSink, and stands where its files are; move it away"
        ) from None


# ----------------------------------------------------------------------------------------- raw


def _raw_rows(records: Sequence[SinkRecord]) -> Rows:
    values = [
        each.value
        if each.value is None or isinstance(each.value, bytes)
        else _text(each.value).encode()
        for each in records
    ]
    columns = [*_base(records), pa.array(values, pa.binary())]
    names = ["offset", "timestamp_ms", "value"]
    return Rows(pa.RecordBatch.from_arrays(columns, names), _sizes(records))


def _raw_columns(batch: pa.RecordBatch) -> Rows:
    return Rows(batch.drop_columns(["key"]), _parquet_columns(batch).sizes)


def _raw_file(
    batches: Sequence[pa.RecordBatch], next_offset: int, compression: str
) -> bytes | None:
    (batch,) = batches
    value: bytes | None = batch.column("value")[0].as_py()
    return value


def _raw_end(store: ObjectStore, path: str, first: int) -> int:
    return first + 1


# ------------------------------------------------------------------------------------- shared


def _base(records: Sequence[SinkRecord]) -> list[pa.Array]:
    return [
        pa.array([each.offset for each in records], pa.int64()),
        pa.array([each.timestamp_ms for each in records], pa.int64()),
    ]


def _sizes(records: Sequence[SinkRecord]) -> pa.Array:
    return pa.array([_size(each.key) + _size(each.value) for each in records], pa.int64())


def _size(value: Any) -> int:
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _size(each) for name, each in value.items())
    if isinstance(value, list):
        return sum(map(_size, value))
    return 0 if value is None else 8


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else to_json(value)


FORMATS = {
    "parquet": Format("parquet", _parquet_rows, _parquet_columns, _parquet_file, _parquet_end),
    "jsonl": Format("jsonl", _json_rows, _json_columns, _json_file, _json_end),
    "jsonl.gz": Format("jsonl.gz", _json_rows, _json_columns, _json_file_gz, _json_end_gz),
    "raw": Format("bin", _raw_rows, _raw_columns, _raw_file, _raw_end),
}
BY_EXTENSION = {each.extension: each for each in FORMATS.values()}
