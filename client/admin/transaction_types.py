"""Transactions and their producers as plain values: listed, described, to be ended by hand."""

from typing import NamedTuple

from ...protocol.types import TopicPartition


class TransactionListing(NamedTuple):
    """A transactional id in brief."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """What its coordinator knows of a transactional id."""

    transactional_id: str
    coordinator_id: int
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, `CompleteAbort`, ..., as Kafka names them."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """When the open transaction began, wall clock; None where none is open."""
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """What a partition's leader remembers of a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """Of the newest marker; None where there was none."""
    transaction_start_offset: int | None
    """First offset of the open transaction; None where none is open."""


class OpenTransaction(NamedTuple):
    """A transaction on one partition, to be aborted by hand."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class FencedProducer(NamedTuple):
    """The producer id and epoch that a transactional id now has."""

    producer_id: int
    producer_epoch: int
