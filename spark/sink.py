"""The sink: rows to records, at least once.

Each task writes its rows with acks=all and answers only when every one was acknowledged; a task
that Spark runs again writes its rows again. Owns the columns a row may have and the refusal of rows
that cannot be records; the producer owns batching, partitioning and retries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from .cluster import cluster_for
from .options import OptionError, SinkOptions

_TEXT = (StringType, BinaryType)


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    records: int


class RowError(ValueError):
    """A row that cannot become a record; the text names its position in the task."""


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse, before any job starts, columns that the sink does not know or cannot write."""
    types = {field.name: field.dataType for field in schema}
    for name, data_type in types.items():
        if name not in ("key", "value", "headers", "topic", "partition"):
            raise OptionError(
                "columns", name, "a row has key, value, headers, topic and partition, no more"
            )
        if not _fits(name, data_type):
            raise OptionError("columns", f"{name} {data_type.simpleString()}", _allowed(name))
    if "value" not in types:
        raise OptionError("columns", ", ".join(types), "a column 'value' is needed")
    if "topic" not in types and options.topic is None:
        raise OptionError("topic", None, "give the option topic, or a column 'topic'")


def _fits(name: str, data_type: DataType) -> bool:
    if name == "partition":
        return isinstance(data_type, IntegerType)
    if name == "topic":
        return isinstance(data_type, StringType)
    if name == "headers":
        element = data_type.elementType if isinstance(data_type, ArrayType) else None
        return isinstance(element, StructType) and [
            (f.name, type(f.dataType)) for f in element
        ] == [("key", StringType), ("value", BinaryType)]
    return isinstance(data_type, _TEXT)


def _allowed(name: str) -> str:
    return {
        "partition": "an int is needed",
        "topic": "a string is needed",
        "headers": "array<struct<key string, value binary>> is needed",
    }.get(name, "a string or binary is needed")


class _Writing:
    """What batch and streaming writers share: the task's work."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write a task's rows; returns when all were acknowledged by every in-sync replica."""
        producer = cluster_for(self.options.client).producer()
        records = 0
        for batch in iterator:
            for rows in _by_topic(batch, self.options.topic, records):
                producer.send_batch(**rows)
            records += batch.num_rows
        producer.flush()
        return Written(records)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: every record was acknowledged before its task answered."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was acknowledged stays, as at-least-once says."""


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: every record was acknowledged before its task answered."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was acknowledged stays, as at-least-once says."""


def _by_topic(batch: pa.RecordBatch, topic: str | None, first_row: int) -> Iterator[dict[str, Any]]:
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() for name in batch.schema.names
    }
    count = batch.num_rows
    topics = [topic] * count if topic is not None else columns["topic"]
    if None in topics:
        raise RowError(f"row {first_row + topics.index(None)} of the task has a null topic")
    keys = [_bytes(key) for key in columns.get("key", [None] * count)]
    values = [_bytes(value) for value in columns["value"]]
    partitions = columns.get("partition", [None] * count)
    headers = [_headers(each) for each in columns.get("headers", [None] * count)]
    for name in dict.fromkeys(topics):
        mine = [row for row in range(count) if topics[row] == name]
        yield {
            "topic": name,
            "values": [values[row] for row in mine],
            "keys": [keys[row] for row in mine],
            "partitions": [partitions[row] for row in mine],
            "headers": [headers[row] for row in mine],
        }


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _headers(row: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in row or ()]
