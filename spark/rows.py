"""Turns rows into records: an Arrow batch of the sink's columns is handed to a producer.

This module decides where each row goes and refuses rows that cannot be records; the producer does
batching, partitioning by key and retries. It never opens a connection, a transaction or a commit,
and makes no Python object per row, but for those that are dead letters.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..client.errors import MessageTooLarge
from ..client.producer.columns import Columns
from ..client.producer.spans import groups_of, header_pieces, pieces_of
from ..client.sync_producer import Producer, SyncBatchDelivery
from .refused_rows import DeadLetters

Ints = NDArray[np.int64]
HEADER_SLACK = 10
"""The most bytes that a producer counts for a header beside its key and value."""


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

    def __init__(
        self, producer: Producer, topic: str | None, dead_letters: DeadLetters | None = None
    ) -> None:
        """`topic` is the topic of every row, or None if each row names its own."""
        self._producer = producer
        self._topic = topic
        self._dead_letters = dead_letters
        self._known: set[str] = set()
        self._under_way: deque[SyncBatchDelivery] = deque()

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Send a batch whose first row is row `first_row` of the task; wait only for buffer space.

        Raises RowError if a row cannot be a record, unless there are dead letters; nothing of the
        batch is sent then. Raises the producer's errors, also those for batches sent earlier.
        """
        while refused := self._refused(batch):
            if self._dead_letters is None:
                row = min(refused)
                raise RowError(first_row + row, refused[row])
            batch = self._bury(batch, refused)
        if self._dead_letters is not None and (refused := self._too_large(batch)):
            batch = self._bury(batch, refused)
        if batch.num_rows:
            self._write(batch, first_row)
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result()

    def _write(self, batch: pa.RecordBatch, first_row: int) -> None:
        columns = {
            name: batch.column(name)
            for name in ("key", "value", "headers")
            if name in batch.schema.names
        }
        if "headers" in columns and len(columns["headers"].flatten()) == 0:
            del columns["headers"]
        for place in self._places(batch):
            self._send(place, columns, first_row)

    def _bury(self, batch: pa.RecordBatch, refused: Mapping[int, str]) -> pa.RecordBatch:
        """Write rows to the dead letters; return the others."""
        assert self._dead_letters is not None
        self._under_way.append(self._dead_letters.bury(batch, refused, self._topic))
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[[*refused]] = False
        return batch.filter(pa.array(kept))

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

    def _refused(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Return rows whose content no record can have, each with the reason.

        The partitions are looked at once every row has a topic.
        """
        refused = _nameless(batch)
        if batch.num_rows == 0 or (self._topic is None and _add_without_topic(batch, refused)):
            return refused
        partitions = _partitions(batch)
        if partitions is None:
            return refused
        topics, codes = _topics(batch, self._topic)
        counts = np.array([len(self._producer.partitions_for(topic)) for topic in topics])
        named = _given(batch.column("partition"))
        outside = np.flatnonzero(named & ((partitions < 0) | (partitions >= counts[codes])))
        if len(outside):
            # Partitions may have been added since the producer asked.
            for code in dict.fromkeys(codes[outside].tolist()):
                counts[code] = len(self._producer.partitions_for(topics[code], refresh=True))
            outside = np.flatnonzero(named & ((partitions < 0) | (partitions >= counts[codes])))
        for row in outside.tolist():
            has = f"{topics[codes[row]]} has {counts[codes[row]]} partitions"
            refused.setdefault(row, f"partition {partitions[row]}, but {has}")
        return refused

    def _too_large(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Return the rows that are too large for their topics, each with the reason."""
        assert self._dead_letters is not None
        if batch.num_rows == 0:
            return {}
        topics, codes = _topics(batch, self._topic)
        limits = np.array([self._dead_letters.limit_of(topic) for topic in topics])[codes]
        sizes = _sizes({name: batch.column(name) for name in batch.schema.names})
        return {
            row: f"{sizes[row]} bytes, and {topics[codes[row]]} takes {limits[row]}"
            for row in np.flatnonzero(sizes > limits).tolist()
        }

    def _places(self, batch: pa.RecordBatch) -> list[Place]:
        """Group a batch's rows by topic and partition."""
        topics, codes = _topics(batch, self._topic)
        partitions = _partitions(batch)
        if partitions is None:
            # Learn the topic first, because rows for an unknown topic would be queued one by one.
            for topic in topics:
                if topic not in self._known:
                    self._producer.partitions_for(topic)
                    self._known.add(topic)
            return [Place(topics[code], None, rows) for code, rows in groups_of(codes)]
        width = int(partitions.max()) + 2
        found: list[Place] = []
        for choice, rows in groups_of(codes * width + partitions + 1):
            code, after = divmod(choice, width)
            found.append(Place(topics[code], after - 1 if after else None, rows))
        return found


def _add_without_topic(batch: pa.RecordBatch, refused: dict[int, str]) -> bool:
    """Refuse the rows without a topic; return True if there is one."""
    column = batch.column("topic")
    empty = np.flatnonzero(_numbers(pc.binary_length(column), null=0) == 0).tolist()
    refused.update({row: f"the topic is {column[row].as_py()!r}" for row in empty})
    return bool(empty)


def _topics(batch: pa.RecordBatch, topic: str | None) -> tuple[list[str], Ints]:
    """Return the topics in the batch, and for each row the index of its topic."""
    if topic is not None:
        return [topic], np.zeros(batch.num_rows, dtype=np.int64)
    coded = batch.column("topic").dictionary_encode()
    return coded.dictionary.to_pylist(), _numbers(coded.indices, null=0)


def _partitions(batch: pa.RecordBatch) -> Ints | None:
    """Return the partition of each row, -1 if it has none; None if no row has one."""
    if "partition" not in batch.schema.names:
        return None
    column = batch.column("partition")
    return None if column.null_count == batch.num_rows else _numbers(column, null=-1)


def _nameless(batch: pa.RecordBatch) -> dict[int, str]:
    """Return the rows that have a header without a key."""
    if "headers" not in batch.schema.names or batch.num_rows == 0:
        return {}
    column = batch.column("headers")
    headers = column.flatten()
    if len(headers) == 0:
        return {}
    nameless = np.flatnonzero(~_given(headers.flatten()[0]))
    stops = np.cumsum(_numbers(pc.list_value_length(column), null=0))
    rows = np.searchsorted(stops, nameless, side="right").tolist()
    return dict.fromkeys(rows, "a header without a key")


def _largest(columns: dict[str, Any]) -> int:
    """Return the position of the row with the most bytes."""
    return int(np.argmax(_sizes(columns)))


def _sizes(columns: Mapping[str, Any]) -> Ints:
    """Return for each row the bytes of its key, value and headers."""
    sizes: Ints = pieces_of(columns["value"])[2].clip(0)
    if "key" in columns:
        sizes = sizes + pieces_of(columns["key"])[2].clip(0)
    headers = header_pieces(columns["headers"]) if "headers" in columns else None
    if headers is None:
        return sizes
    counts = _numbers(pc.list_value_length(columns["headers"]), null=0)
    sizes = sizes + headers[2].clip(0) + HEADER_SLACK * counts
    return sizes


def _numbers(column: Any, *, null: int) -> Ints:
    numbers: Ints = column.fill_null(null).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _given(column: Any) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)
