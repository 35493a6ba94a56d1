"""Turns rows into records: an Arrow batch of the sink's columns is handed to a producer.

This module decides where each row goes and refuses rows that cannot be records; the producer does
batching, partitioning by key and retries. It never opens a connection, a transaction or a commit,
and makes no Python object per row.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..client.errors import MessageTooLarge
from ..client.producer.columns import Columns
from ..client.producer.spans import groups_of, header_pieces, pieces_of
from ..client.sync_producer import Producer, SyncBatchDelivery

Ints = NDArray[np.int64]


class RowError(ValueError):
    """A row that cannot become a record; the text names its position in the task, from 0."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row} of the task: {why}")


class Place(NamedTuple):
    """The rows of a batch that go to one topic and partition."""

    topic: str
    partition: int | None
    """The partition; None if the partitioner chooses it by the key."""
    rows: Ints | None
    """The rows' positions in the batch, rising; None for all rows."""


class RowWriter:
    """Hands the rows of one task to a producer, in their order."""

    def __init__(self, producer: Producer, topic: str | None) -> None:
        """`topic` is the topic of every row, or None if each row names its own."""
        self._producer = producer
        self._topic = topic
        self._known: set[str] = set()
        self._under_way: deque[SyncBatchDelivery] = deque()

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Send a batch whose first row is row `first_row` of the task; wait only for buffer space.

        Raises RowError if a row cannot be a record; nothing of the batch is sent then. Raises the
        producer's errors, also those for batches sent earlier.
        """
        if batch.num_rows == 0:
            return
        columns = {
            name: batch.column(name)
            for name in ("key", "value", "headers")
            if name in batch.schema.names
        }
        _check_headers(columns, first_row)
        for place in self._places(batch, first_row):
            self._send(place, columns, first_row)
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result()

    def finish(self) -> None:
        """Wait until every row is acknowledged; raise if one is not."""
        self._producer.flush()
        while self._under_way:
            self._under_way.popleft().result()

    def _send(self, place: Place, columns: dict[str, Any], first_row: int) -> None:
        if place.rows is not None:
            which = pa.array(place.rows)
            columns = {name: column.take(which) for name, column in columns.items()}
        records: Columns[Any, Any] = Columns(
            columns["value"], columns.get("key"), headers=columns.get("headers")
        )
        try:
            sent = self._producer.send_batch(place.topic, records, partition=place.partition)
        except MessageTooLarge as error:
            index = _largest(columns)
            row = index if place.rows is None else int(place.rows[index])
            raise RowError(first_row + row, str(error)) from error
        self._under_way.append(sent)

    def _places(self, batch: pa.RecordBatch, first_row: int) -> list[Place]:
        """Group a batch's rows by topic and partition.

        Raise RowError for a partition that does not exist.
        """
        topics, codes = _topics(batch, self._topic, first_row)
        partitions = _partitions(batch)
        if partitions is None:
            # Learn the topic first, because rows for an unknown topic would be queued one by one.
            for topic in topics:
                if topic not in self._known:
                    self._producer.partitions_for(topic)
                    self._known.add(topic)
            return [Place(topics[code], None, rows) for code, rows in groups_of(codes)]
        counts = np.array([len(self._producer.partitions_for(topic)) for topic in topics])
        named = _given(batch.column("partition"))
        outside = np.flatnonzero(named & ((partitions < 0) | (partitions >= counts[codes])))
        if len(outside):
            # Partitions may have been added since the producer asked.
            for code in dict.fromkeys(codes[outside].tolist()):
                counts[code] = len(self._producer.partitions_for(topics[code], refresh=True))
            outside = np.flatnonzero(named & ((partitions < 0) | (partitions >= counts[codes])))
        if len(outside):
            row = int(outside[0])
            topic = topics[codes[row]]
            why = f"partition {partitions[row]}, but {topic} has {counts[codes[row]]} partitions"
            raise RowError(first_row + row, why)
        width = int(counts.max()) + 1
        found: list[Place] = []
        for choice, rows in groups_of(codes * width + partitions + 1):
            code, after = divmod(choice, width)
            found.append(Place(topics[code], after - 1 if after else None, rows))
        return found


def _topics(batch: pa.RecordBatch, topic: str | None, first_row: int) -> tuple[list[str], Ints]:
    """Return the topics in the batch, and for each row the index of its topic.

    Raise RowError for a row without a topic.
    """
    if topic is not None:
        return [topic], np.zeros(batch.num_rows, dtype=np.int64)
    column = batch.column("topic")
    empty = np.flatnonzero(_numbers(pc.binary_length(column), null=0) == 0)
    if len(empty):
        row = int(empty[0])
        raise RowError(first_row + row, f"the topic is {column[row].as_py()!r}")
    coded = column.dictionary_encode()
    return coded.dictionary.to_pylist(), _numbers(coded.indices, null=0)


def _partitions(batch: pa.RecordBatch) -> Ints | None:
    """Return the partition of each row, -1 if it has none; None if no row has one."""
    if "partition" not in batch.schema.names:
        return None
    column = batch.column("partition")
    return None if column.null_count == batch.num_rows else _numbers(column, null=-1)


def _check_headers(columns: dict[str, Any], first_row: int) -> None:
    """Drop the column if no row has headers; raise RowError for a header without a key."""
    column = columns.get("headers")
    if column is None:
        return
    headers = column.flatten()
    if len(headers) == 0:
        del columns["headers"]
        return
    nameless = np.flatnonzero(~_given(headers.flatten()[0]))
    if len(nameless):
        stops = np.cumsum(_numbers(pc.list_value_length(column), null=0))
        row = int(np.searchsorted(stops, nameless[0], side="right"))
        raise RowError(first_row + row, "a header without a key")


def _largest(columns: dict[str, Any]) -> int:
    """Return the position of the row with the most bytes."""
    sizes = sum(pieces_of(columns[name])[2].clip(0) for name in ("key", "value") if name in columns)
    headers = header_pieces(columns["headers"]) if "headers" in columns else None
    return int(np.argmax(sizes if headers is None else sizes + headers[2].clip(0)))


def _numbers(column: Any, *, null: int) -> Ints:
    numbers: Ints = column.fill_null(null).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _given(column: Any) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)
