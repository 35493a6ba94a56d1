"""Appends what a Forwarder brings to its target partition: each batch exactly once.

A Forwarder sends a batch until it knows the outcome, also from a broker that leads its source no
more. The batch's producer id and sequence number tell whether it is there. A fence ends the wait
for a batch that is not there: its marker has a newer epoch, so that no later batch of this producer
id is appended, and states the first sequence number that was missing. So every replica, and every
later leader, answers a repeated fence alike.
"""

from typing import TYPE_CHECKING

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.forwarding_keys import TARGET
from ...protocol.header_targets import BY_HEADER
from ...protocol.messages.forward_records import FENCED, OFFSET_FORGOTTEN
from ...protocol.records.batch_header import BatchHeader
from ...storage.forwarders import check_forwarded, find_forwarded
from ...storage.markers import TransactionMarker
from ...storage.producer_state import FORWARD_EPOCH, ProducedBatch
from . import intake
from .own_batches import append_marker, refuse_own, stage_own
from .requests import Appended

if TYPE_CHECKING:
    from .partition import Partition


def append_forwarded(partition: "Partition", records: memoryview, wall_ms: int) -> Appended:
    """Append a batch under acks=all; `records` must not change until it is written.

    The order of the checks matters: a batch that is there is never refused for another reason. The
    error is DUPLICATE_SEQUENCE_NUMBER if it is there and its offset is forgotten.
    """
    partition.write_staged()
    error = refuse_own(partition)
    if error:
        return Appended(error)
    try:
        header = BatchHeader(records)
        if header.producer_epoch != FORWARD_EPOCH or header.base_sequence < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no batch of a Forwarder")
        known = check_forwarded(partition.log.producers, header)
        if known is not None:
            return partition.staging.answer_known(known, partition.rules)
        if partition.rules.delay is not None and partition.rules.delay.targets:
            # Nobody's rights stand behind such a record, which would choose where it goes on to.
            why = f"nothing is forwarded to a topic with {TARGET}={BY_HEADER}"
            raise ApiError(ErrorCode.INVALID_RECORD, why)
        if partition.staging.is_full:
            # The Forwarder tries again until there is room.
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        header = intake.check(records, partition.rules, wall_ms, partition.host.openings)
    except ApiError as refusal:
        return Appended.refusing(refusal)
    except intake.NeedsOpening:
        return Appended(ErrorCode.INVALID_REQUEST, message="no batch of a Forwarder")
    appended = stage_own(partition, records, header, wall_ms)
    partition.write_staged()
    return appended


def fence(partition: "Partition", producer_id: int, sequence: int, wall_ms: int) -> Appended:
    """Prevent that the batch with this first `sequence` is appended, unless it is there.

    The result is that of the batch if it is there. Otherwise its base offset is FENCED, and its
    last offset that of the marker, or of a record behind it.
    """
    partition.write_staged()
    error = refuse_own(partition)
    if error:
        return Appended(error)
    known = find_forwarded(partition.log.producers, producer_id, sequence)
    if isinstance(known, ProducedBatch):
        return Appended(base_offset=known.base_offset, last_offset=known.last_offset)
    newest = partition.log_end_offset - 1
    if known is not None:
        # Decided earlier, by a marker or a batch that may not be committed yet.
        return Appended(base_offset=OFFSET_FORGOTTEN if known else FENCED, last_offset=newest)
    marker = TransactionMarker(producer_id, FORWARD_EPOCH + 1, sequence, is_commit=False)
    appended = append_marker(partition, marker, wall_ms)
    appended.base_offset = FENCED
    return appended
