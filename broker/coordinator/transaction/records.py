"""Encodes a transaction as a record of `__transaction_state`, and decodes it.

Pure. As in Kafka, the log does not keep the last epoch. If the end of a transaction raised the
epoch, the last epoch is derived from the other fields. Otherwise the last epoch is lost, and a new
coordinator does not recognise a retried request.
"""

from collections.abc import Iterable

from ....protocol.coordinator_records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    TransactionRecord,
    encode_record,
)
from ....protocol.types import NO_EPOCH, TopicPartition
from .transaction import BUMPING_VERSION, EPOCH_MAX, EXHAUSTED_EPOCH, State, Transaction

PLAIN, TAGGED = 0, 1


def encode(transaction: Transaction, level: int) -> tuple[bytes, bytes | None]:
    """Return the key and value of a transaction's record.

    With level 0 of transaction.version the record has no tagged fields unless it needs them.
    """
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=[
            TransactionPartitions(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
        ],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    plain = level < 1 and transaction.client_version < BUMPING_VERSION
    record = TransactionRecord(
        TransactionLogKey(transactional_id=transaction.transactional_id), value
    )
    return encode_record(record, version=PLAIN if plain else TAGGED)


def encode_tombstone(transactional_id: str) -> tuple[bytes, bytes | None]:
    """Return the key and value (None) of a transactional id's tombstone."""
    key = TransactionLogKey(transactional_id=transactional_id)
    return encode_record(TransactionRecord(key, None))


def from_record(record: TransactionRecord) -> Transaction | None:
    """Decode a transaction; return None for a tombstone or a state that is not one of `State`."""
    value = record.value
    if value is None or value.transaction_status not in tuple(State):
        return None
    transaction = Transaction(
        transactional_id=record.key.transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        last_epoch=_last_epoch(value),
        timeout_ms=value.transaction_timeout_ms,
        state=State(value.transaction_status),
        partitions={
            TopicPartition(each.topic, index): None
            for each in value.transaction_partitions or ()
            for index in each.partition_ids
        },
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
    return transaction


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions' indexes by topic, in their order."""
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _last_epoch(value: TransactionLogValue) -> int:
    """Return the epoch before the transaction's end raised it; -1 if the end did not raise it."""
    if value.client_transaction_version < BUMPING_VERSION:
        return NO_EPOCH
    if value.transaction_status in (State.EMPTY, State.ONGOING):
        return NO_EPOCH
    was_rotated = value.producer_epoch == 0 and value.previous_producer_id != value.producer_id
    if was_rotated or value.producer_epoch == EPOCH_MAX:
        return EXHAUSTED_EPOCH
    return value.producer_epoch - 1
