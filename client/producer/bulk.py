"""Appends the records of one `send_batch` call to batches, in runs.

Pure. A run is the records of a call that went into the same batch; it gets one result.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .accumulator import Accumulator, Row, TopicQueues
from .batch import Batch
from .columns import Rows


class Run(NamedTuple):
    """The records of one call that went into `batch`; `first` is the index of the first of them."""

    batch: Batch
    first: int
    record_count: int
    timestamp_ms: int


def append_all(
    accumulator: Accumulator,
    topic: TopicQueues,
    partition: int | None,
    rows: Sequence[tuple[Row, int]],
    now_ms: int,
) -> list[Run]:
    """Append records, each given with its size in bytes; return one run per batch."""
    runs: dict[Batch, list[int]] = {}
    append = accumulator.append
    for row, size in rows:
        batch = append(topic, partition, row, size, now_ms)
        run = runs.get(batch)
        if run is None:
            runs[batch] = [batch.record_count - 1, 1, row[0]]
        else:
            run[1] += 1
    return [Run(batch, *numbers) for batch, numbers in runs.items()]


def append_rows(
    accumulator: Accumulator,
    topic: TopicQueues,
    partition: int | None,
    rows: Rows,
    now_ms: int,
) -> list[Run]:
    """Append rows, as many to each batch as fit; return one run per batch."""
    if partition is not None:
        return _fill(accumulator, topic, partition, rows, now_ms)
    runs: list[Run] = []
    for choice, some in rows.by_partition(topic.partition_count):
        runs += _fill(accumulator, topic, choice, some, now_ms)
    return runs


def _fill(
    accumulator: Accumulator,
    topic: TopicQueues,
    partition: int | None,
    rows: Rows,
    now_ms: int,
) -> list[Run]:
    runs: list[Run] = []
    start = 0
    while start < rows.count:
        target = accumulator.choose(topic, None, 1) if partition is None else partition
        queue = topic.queues.get(target) or accumulator.new_queue(topic, target)
        batch = queue.waiting[-1] if queue.waiting else None
        if batch is None or batch.is_closed or batch.size >= accumulator.batch_size:
            batch = accumulator.new_batch(queue, now_ms)
        assert batch.builder is not None
        before = batch.builder.size
        stop = rows.fill(batch.builder, start, accumulator.batch_size)
        grown = batch.builder.size - before
        if stop < rows.count:
            batch.is_closed = True
        if partition is None:
            topic.sticky.give_up() if batch.is_closed else topic.sticky.choose(grown)
        if stop > start:
            first = batch.record_count
            batch.record_count += stop - start
            batch.size += grown
            accumulator.used_bytes += grown
            runs.append(Run(batch, first, stop - start, rows.timestamp_of(start)))
        start = stop
    return runs
