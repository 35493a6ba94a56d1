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
    """A transactional id as its coordinator knows it."""

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
    """A producer as the leader of a partition remembers it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """The epoch that the newest marker carried; None where there was no marker."""
    transaction_start_offset: int | None
    """The first offset of the open transaction; None where none is open."""


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
