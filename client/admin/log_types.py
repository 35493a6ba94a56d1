"""A broker's directories as plain values: how full they are, and which replicas are in them."""

from collections.abc import Mapping
from typing import NamedTuple

from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition


class ReplicaInfo(NamedTuple):
    """One replica in a directory."""

    size: int
    """In bytes."""
    offset_lag: int
    is_future: bool
    """True for a copy that is on its way here from another directory."""


class LogDirectory(NamedTuple):
    """One directory of a broker."""

    error: ApiError | None
    """The reason why it cannot be used; None where it can."""
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    """The size of the directory's volume; None if the broker does not say."""
    usable_bytes: int | None
    """The free bytes of that volume; None if the broker does not say."""
