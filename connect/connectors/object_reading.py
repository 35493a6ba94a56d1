"""Rows of one file in an object store as records: Parquet, JSON lines, or a whole value (raw).

Files that ObjectSink wrote become the records that they were made of; other files become one record
for each row or line.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..api import ConnectError
from ..data import BYTES, STRING, Schema
from ..records import Header
from .arrow_schemas import Rows
from .object_formats import NEXT_OFFSET
from .object_store import ObjectStore

MAX_BYTES = 16 * 2**20
"""Bytes of a line, and of a raw file, at most."""
SUFFIXES = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson.gz": "jsonl",
    ".bin": "raw",
}
_SINK_NAME = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\+(?P<partition>\d+)\+\d+\.\w+(\.gz)?")


class ReadRow(NamedTuple):
    """One record as a file tells it."""

    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


def origin_of(path: str) -> tuple[str, int] | None:
    """Return topic and partition of a file that is named as ObjectSink names files."""
    match = _SINK_NAME.fullmatch(path.rpartition("/")[2])
    return (match["topic"], int(match["partition"])) if match is not None else None


def format_of(path: str, chosen: str) -> str | None:
    """Return the format of a file; None if it is not to be read."""
    for suffix, form in SUFFIXES.items():
        if path.endswith(suffix):
            return form if chosen in ("auto", form) else None
    return None if chosen == "auto" else chosen


def read_rows(store: ObjectStore, path: str, form: str, start: int) -> Iterator[ReadRow]:
    """Yield the rows of a file from the index `start` on. Raise ConnectError if it has no form."""
    if form == "parquet":
        return _parquet(store, path, start)
    return _lines(store, path, start) if form == "jsonl" else _whole(store, path, start)


def _parquet(store: ObjectStore, path: str, start: int) -> Iterator[ReadRow]:
    with store.fs.open(store.path(path), "rb") as opened:
        try:
            file = pq.ParquetFile(opened)
        except pa.ArrowException as error:
            raise ConnectError(f"{path} is no file of Parquet that can be read: {error}") from None
        rows = Rows(file.schema_arrow, path)
        is_ours = NEXT_OFFSET in (file.schema_arrow.metadata or {})
        schemas = dict(rows.schema.fields)
        skip, groups = start, list(range(file.num_row_groups))
        while groups and skip >= (count := file.metadata.row_group(groups[0]).num_rows):
            skip -= count
            del groups[0]
        for batch in file.iter_batches(batch_size=1024, row_groups=groups):
            part = batch.slice(min(skip, batch.num_rows))
            skip -= batch.num_rows - part.num_rows
            for row in rows.values(part):
                yield _ours(row, schemas) if is_ours else ReadRow(row, rows.schema)


def _ours(row: dict[str, Any], schemas: dict[str, Schema]) -> ReadRow:
    return ReadRow(
        row["value"],
        schemas["value"],
        row["key"],
        schemas["key"],
        row["timestamp_ms"],
        tuple(Header(each["key"], each["value"], STRING) for each in row.get("headers") or ()),
    )


def _lines(store: ObjectStore, path: str, start: int) -> Iterator[ReadRow]:
    is_ours = origin_of(path) is not None
    with store.fs.open(store.path(path), "rb", compression="infer") as file:
        index = -1
        while line := file.readline(MAX_BYTES + 1):
            index += 1
            if len(line) > MAX_BYTES:
                raise ConnectError(f"{path}, line {index + 1}: longer than {MAX_BYTES} bytes")
            if index < start:
                continue
            try:
                value = json.loads(line)
                yield _line_of_ours(value) if is_ours else ReadRow(value)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConnectError(
                    f"{path}, line {index + 1}: no record in JSON: {error}"
                ) from None


def _line_of_ours(line: dict[str, Any]) -> ReadRow:
    return ReadRow(
        *_named(line, "value"),
        *_named(line, "key"),
        line["timestamp_ms"],
        tuple(Header(name, value) for name, value in line.get("headers", ())),
    )


def _named(line: dict[str, Any], name: str) -> tuple[Any, Schema | None]:
    if (text := line.get(f"{name}_base64")) is None:
        return line[name], None
    try:
        return base64.b64decode(text, validate=True), BYTES
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _whole(store: ObjectStore, path: str, start: int) -> Iterator[ReadRow]:
    if start == 0:
        with store.fs.open(store.path(path), "rb") as file:
            value = file.read(MAX_BYTES + 1)
        if len(value) > MAX_BYTES:
            raise ConnectError(f"{path} is longer than {MAX_BYTES} bytes")
        yield ReadRow(value, BYTES)
