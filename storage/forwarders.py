"""The batches of Forwarders in a partition: which of them is there, and which can still come.

Pure. A Forwarder's batch is known by its producer id and its first sequence number. Its sequences
have no gap, not even before the first batch that is known, and its id is remembered for long.
"""

from ..protocol.errors import ErrorCode
from ..protocol.records.batch_header import BatchHeader
from .producer_state import FORWARD_EPOCH, ProducedBatch, ProducerState


def check_forwarded(
    producers: ProducerState, header: BatchHeader
) -> ProducedBatch | ErrorCode | None:
    """Check a Forwarder's batch, and return as `ProducerState.check` does.

    UNKNOWN_PRODUCER_ID and OUT_OF_ORDER_SEQUENCE_NUMBER mean that an earlier batch is lost here,
    INVALID_PRODUCER_EPOCH that the id is fenced, and DUPLICATE_SEQUENCE_NUMBER that the batch is
    there and its offset is forgotten.
    """
    producer = producers.known(header.producer_id)
    if producer is None:
        return ErrorCode.UNKNOWN_PRODUCER_ID if header.base_sequence else None
    if producer.epoch != header.producer_epoch or not producer.batches:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    known = producer.duplicate_of(header)
    if known is not None:
        return known if known.base_offset >= 0 else ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    newest = producer.batches[-1].last_sequence
    if header.base_sequence <= newest:
        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    is_next = header.base_sequence == newest + 1
    return None if is_next else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def find_forwarded(
    producers: ProducerState, producer_id: int, sequence: int
) -> ProducedBatch | bool | None:
    """Return the batch of a Forwarder that begins with this sequence number.

    Return True if it was appended and its offset is forgotten, False if its id was fenced before it
    was appended, and None if neither happened: it may still come.
    """
    producer = producers.known(producer_id)
    if producer is None:
        return None
    if producer.epoch != FORWARD_EPOCH:
        # The marker that fenced the id states the first sequence number that was not there.
        return sequence < producer.coordinator_epoch
    found = [each for each in producer.batches if each.first_sequence == sequence]
    if found:
        return found[0]
    return True if producer.batches and producer.batches[-1].last_sequence >= sequence else None
