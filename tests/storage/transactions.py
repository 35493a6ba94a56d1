"""Batches of transactions and their markers, and what a reader of committed ones is to be told."""

from collections.abc import Sequence
from typing import NamedTuple

from minikafka.protocol.records import record_batch
from minikafka.protocol.records.records import BatchBuilder
from minikafka.storage.aborted import AbortedTransaction
from minikafka.storage.log import Log
from minikafka.storage.markers import TransactionMarker, encode_marker
from tests.storage.support import Made


class Writer(NamedTuple):
    """A producer in one of its epochs."""

    id: int
    epoch: int = 0


def transactional(
    offset: int, writer: Writer, sequence: int = 0, *, count: int = 1, epoch: int = 0
) -> Made:
    """A stamped batch of a transaction."""
    builder = BatchBuilder(is_transactional=True)
    for number in range(count):
        builder.append(1_000, b"k%d" % number, b"v" * 20)
    built = builder.build(
        producer_id=writer.id, producer_epoch=writer.epoch, base_sequence=sequence
    )
    header = record_batch.read_header(built)
    record_batch.stamp(built, header, offset, epoch)
    return header, built


def marker(
    offset: int, writer: Writer, *, commits: bool, coordinator: int = 0, epoch: int = 0
) -> Made:
    """A stamped control batch that ends the writer's transaction."""
    ending = TransactionMarker(writer.id, writer.epoch, coordinator, commits)
    built = encode_marker(ending, 1_000)
    header = record_batch.read_header(built)
    record_batch.stamp(built, header, offset, epoch)
    return header, built


def append(log: Log, *made: Made) -> None:
    log.append(list(made))


def stable_offset(log: Log, high_watermark: int | None = None) -> int:
    """The last stable offset of a replica with this high watermark, by default the log's end."""
    end = log.log_end_offset if high_watermark is None else high_watermark
    log.producers.settle(end)
    return log.producers.first_undecided(end)


def aborted_in(log: Log) -> list[AbortedTransaction]:
    """All that the indexes of the log's segments say."""
    return [
        segment.aborted.index[at]
        for segment in log.segments
        if segment.aborted.index is not None
        for at in range(len(segment.aborted.index))
    ]


def naive_aborted(made: Sequence[Made]) -> list[tuple[int, int, int]]:
    """Producer, first offset and marker of every aborted transaction, found the slow way."""
    begun: dict[int, int] = {}
    found: list[tuple[int, int, int]] = []
    for header, buffer in made:
        if header.is_control:
            ((_, _, _, key, _, _),) = record_batch.records(buffer)
            first = begun.pop(header.producer_id, None)
            assert key is not None
            if first is not None and key[3] == 0:
                found.append((header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return found


def naive_open(made: Sequence[Made]) -> dict[int, int]:
    """First offsets of the transactions that are open, by producer."""
    begun: dict[int, int] = {}
    for header, _ in made:
        if header.is_control:
            begun.pop(header.producer_id, None)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return begun
