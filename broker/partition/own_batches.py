"""Appends this broker's own batches to a partition: records of coordinators, and markers.

These batches skip the checks of clients' batches, and have no sequence numbers. The caller waits
for the commit as a producer with acks=all does.
"""

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import TRANSACTIONAL_BIT, BatchHeader
from ...storage.markers import TransactionMarker, encode_marker
from .requests import Appended
from .verification import Verification

if TYPE_CHECKING:
    from .partition import Partition


def append_own(
    partition: "Partition", batch: bytearray, wall_ms: int, guard: Verification | None = None
) -> Appended:
    """Stage a batch under acks=all, after a check of producer epoch, role, min ISR and size.

    If a transactional batch begins its transaction here, `guard` must be the producer's newest
    verification. Without a `guard` the caller itself has verified the transaction.
    """
    header = BatchHeader(batch)
    is_transactional = header.attributes & TRANSACTIONAL_BIT
    if is_transactional:
        error = partition.verifications.refuse_own(partition.log.producers, header, guard)
        if error:
            return Appended(error)
    error = refuse_own(partition)
    if error:
        return Appended(error)
    if len(batch) > partition.rules.max_message_bytes:
        return Appended(ErrorCode.MESSAGE_TOO_LARGE)
    appended = stage_own(partition, memoryview(batch), header, wall_ms)
    if is_transactional:
        partition.verifications.end(header.producer_id, header.producer_epoch)
    return appended


def append_marker(partition: "Partition", marker: TransactionMarker, wall_ms: int) -> Appended:
    """Write a marker, which ends a producer's transaction in this partition once committed.

    The result's error is INVALID_PRODUCER_EPOCH if the partition knows a newer epoch of the
    producer, and TRANSACTION_COORDINATOR_FENCED if a newer coordinator has written to the
    partition. A marker without an open transaction is written too.
    """
    partition.write_staged()
    error = refuse_own(partition) or partition.log.producers.check_marker(marker)
    if error:
        return Appended(error)
    # A batch that was verified before this marker must not begin it again (KAFKA-14884).
    partition.verifications.end_by(marker)
    records = memoryview(encode_marker(marker, wall_ms))
    appended = stage_own(partition, records, BatchHeader(records), wall_ms)
    partition.write_staged()
    return appended


def refuse_own(partition: "Partition") -> ErrorCode:
    """Return the error if nothing may be appended under acks=all; NONE if it may."""
    leader = partition.leader
    if leader is None:
        return partition.error_without_leader
    return ErrorCode.NONE if leader.has_min_isr else ErrorCode.NOT_ENOUGH_REPLICAS


def stage_own(
    partition: "Partition", records: memoryview, header: BatchHeader, wall_ms: int
) -> Appended:
    """Stage a batch that has passed all checks."""
    staging = partition.staging
    if staging.batches is None:
        partition.host.dirty.append(partition)
    return staging.add(records, header, partition.leader_epoch, partition.rules, wall_ms)
