"""Rows to records: an Arrow batch of the sink's columns handed to a producer.

Owns where each row goes and the refusal of rows that cannot be records; the producer owns
batching, partitioning by key and retries. Never opens a connection, a transaction or a commit.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ..client.records import ProducerRecord
from ..client.sync_producer import Producer, SyncBatchDelivery


class RowError(ValueError):
    """A row that cannot become a record; the text names its position in the task, from 0."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row} of the task: {why}")


class RowWriter:
    """Hands the rows of one task to a producer, in their order."""

    def __init__(self, producer: Producer, topic: str | None) -> None:
        """`topic` is for every row; None when each row names its own."""
        self._producer = producer
        self._topic = topic
        self._under_way: deque[SyncBatchDelivery] = deque()

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Send a batch, whose first row is the task's `first_row`-th; waits only for room.

        RowError for a row that cannot be a record, and whatever the producer raises, also for
        batches written earlier.
        """
        for place, rows in _by_place(batch, self._topic, first_row).items():
            self._check_place(place, rows.first_row)
            self._under_way.append(
                self._producer.send_batch(place.topic, rows.records, partition=place.partition)
            )
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result()

    def finish(self) -> None:
        """Wait until every row was acknowledged; raise if one was not."""
        self._producer.flush()
        while self._under_way:
            self._under_way.popleft().result()

    def _check_place(self, place: "Place", row: int) -> None:
        topic, partition = place
        if partition is None:
            return
        known = self._producer.partitions_for(topic)
        if partition not in known:
            raise RowError(row, f"partition {partition}, but {topic} has {len(known)} partitions")


class Place(NamedTuple):
    """Where rows go."""

    topic: str
    partition: int | None
    """None: as the key says."""


@dataclass
class Rows:
    """Rows of one place, in their order."""

    first_row: int
    records: list[ProducerRecord]


def _by_place(batch: pa.RecordBatch, topic: str | None, first_row: int) -> dict[Place, Rows]:
    """Sort a batch's rows by where they go, in their order."""
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() for name in batch.schema.names
    }
    nothing = [None] * batch.num_rows
    rows = zip(
        nothing if topic is not None else columns["topic"],
        columns.get("partition", nothing),
        columns.get("key", nothing),
        columns["value"],
        columns.get("headers", nothing),
        strict=True,
    )
    places: dict[Place, Rows] = {}
    for row, (named, partition, key, value, headers) in enumerate(rows, start=first_row):
        place = Place(named if topic is None else topic, partition)
        if not place.topic:
            raise RowError(row, f"the topic is {place.topic!r}")
        record = ProducerRecord(_bytes(value), _bytes(key), _headers(row, headers))
        known = places.get(place)
        if known is None:
            places[place] = Rows(row, [record])
        else:
            known.records.append(record)
    return places


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _headers(
    row: int, headers: list[dict[str, Any] | None] | None
) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for header in headers or ():
        if header is None or header["key"] is None:
            raise RowError(row, "a header without a key")
        found.append((header["key"], header["value"]))
    return found
