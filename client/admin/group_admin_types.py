"""What an admin gets back about groups, transactions and logs.

Plain values; nothing here reads or writes.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition


class GroupListing(NamedTuple):
    """A group in brief."""

    group_id: str
    protocol_type: str
    """`consumer` for consumers; empty where a group never had members."""
    state: str
    """`Stable`, `Empty`, ...; empty where the broker is too old to say."""
    type: str
    """`classic` or `consumer`; empty where the broker is too old to say."""


class GroupMember(NamedTuple):
    """One member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Empty unless the group's members are consumers."""


class GroupDescription(NamedTuple):
    """A group of the classic protocol."""

    group_id: str
    state: str
    """`Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Dead`."""
    protocol_type: str
    protocol: str
    """What its members agreed on; for consumers the assignor."""
    members: tuple[GroupMember, ...]
    coordinator_id: int


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


class ReplicaInfo(NamedTuple):
    """One replica in a directory."""

    size: int
    """Bytes."""
    offset_lag: int
    is_future: bool
    """Is it a copy on its way from another directory?"""


class LogDirectory(NamedTuple):
    """One directory of a broker."""

    error: ApiError | None
    """Why it cannot be used."""
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    """Of its volume; None where the broker does not say."""
    usable_bytes: int | None
