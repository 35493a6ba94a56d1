"""A broker's log directories as plain values: their sizes, and the replicas in them."""

from collections.abc import Mapping
from typing import NamedTuple

from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition


class ReplicaInfo(NamedTuple):
    """One replica in a log directory."""

    size: int
    """The bytes of the replica's log."""
    offset_lag: int
    is_future: bool
    """True for a replica that is being moved into this directory from another one."""


class LogDirectory(NamedTuple):
    """One directory of a broker."""

    error: ApiError | None
    """The error if the directory cannot be used, else None."""
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    """The bytes of the directory's volume; None if the broker does not return them."""
    usable_bytes: int | None
    """The free bytes of that volume; None if the broker does not return them."""


class TopicPartitionReplica(NamedTuple):
    """The replica of one partition on one broker; as text it is `topic-partition-broker`."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"
