"""Transactions and their producers as plain values: listings, descriptions, what to abort."""

from typing import NamedTuple

from ...protocol.types import TopicPartition


class TransactionListing(NamedTuple):
    """A transactional id as `list_transactions` returns it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator describes it."""

    transactional_id: str
    coordinator_id: int
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, `CompleteAbort`, ..., as Kafka names them."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """The time when the newest transaction began, in ms since the epoch; None if there was none.
    `state` tells whether it is still open."""
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer's state in one partition, as the asked replica has it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """The coordinator's epoch in the newest marker; None if there was no marker."""
    transaction_start_offset: int | None
    """The first offset of the open transaction; None if none is open."""


class OpenTransaction(NamedTuple):
    """An open transaction on one partition, for `abort_transaction`."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class FencedProducer(NamedTuple):
    """The producer id and the new epoch of a transactional id that was fenced."""

    producer_id: int
    producer_epoch: int
