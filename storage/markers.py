"""The control batch that ends a producer's transaction in one partition, as storage sees it.

Pure. protocol/records/records.py has its byte format; here a marker also names its producer.
"""

from dataclasses import dataclass

from ..protocol.errors import RemoteProtocolError
from ..protocol.records.batch_header import BatchHeader
from ..protocol.records.records import (
    EndTransactionMarker,
    build_end_transaction_batch,
    parse_end_transaction_marker,
    records,
)
from ..protocol.types import Buffer


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The outcome of a transaction, and the coordinator that decided it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition. A marker with an older epoch is from a
    coordinator that was replaced since.
    """
    is_commit: bool
    transaction_version: int = 0
    """The version of the transaction protocol. From 2 on each marker has a new epoch, so that a
    marker of an equal epoch is late (KIP-1228)."""


def encode_marker(marker: TransactionMarker, timestamp_ms: int) -> bytearray:
    """Return the marker as a batch at offset 0."""
    ending = EndTransactionMarker(marker.is_commit, marker.coordinator_epoch)
    producer_id, epoch = marker.producer_id, marker.producer_epoch
    return build_end_transaction_batch(ending, producer_id, epoch, timestamp_ms)


def read_marker(header: BatchHeader, batch: Buffer) -> TransactionMarker | None:
    """Return the marker in a control batch.

    Return None for another kind of control record, or if compaction has removed the record.
    """
    if header.producer_id < 0:
        return None
    try:
        found = records(batch)
        ending = parse_end_transaction_marker(found[0].key, found[0].value) if found else None
    except RemoteProtocolError:
        return None
    if ending is None:
        return None
    return TransactionMarker(
        header.producer_id, header.producer_epoch, ending.coordinator_epoch, ending.commit
    )
