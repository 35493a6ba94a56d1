"""The metadata that a replica knows: the partition's record, and the brokers that are alive.

Pure values. `partition_epoch` orders a partition's records; a replica ignores older ones.
"""

from dataclasses import dataclass, field
from typing import Self

from ...protocol.control.image import PartitionState
from ...protocol.types import NO_EPOCH
from ...storage.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The controller's record of one partition, with the setting that replication needs."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    recovering: bool = False
    """True if the leader was elected uncleanly and has not yet reported itself recovered."""
    unclean_epoch: int = NO_EPOCH
    """The newest leader epoch that began with an unclean election. A log loses committed records by
    truncation only if its newest epoch is older."""
    min_isr: int = 1
    """min.insync.replicas as configured; see `effective_min_isr` for its bound."""
    group_flush: bool = False
    """True under flush.policy=group, where a copy counts only up to its flushed offset."""
    adding: tuple[int, ...] = ()
    """The replicas that a reassignment adds and that have not caught up yet."""

    @property
    def effective_min_isr(self) -> int:
        """`min_isr`, but at most the number of replicas that are not being added."""
        return min(self.min_isr, len(self.replicas) - len(self.adding))

    @classmethod
    def of(cls, state: PartitionState, config: TopicConfig) -> Self:
        """Combine a partition's record with its topic's settings."""
        return cls(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            recovering=state.recovering,
            unclean_epoch=state.unclean_epoch,
            min_isr=config.min_insync_replicas,
            group_flush=config.is_group_flush,
            adding=state.adding,
        )


@dataclass(frozen=True, slots=True)
class NoRole:
    """The role of a replica before its first metadata, and of one that is offline for good."""

    metadata: PartitionMetadata
    high_watermark: int
    """The high watermark, at most the log's end: the disk may have refused the last records."""


@dataclass(slots=True)
class KnownBrokers:
    """The brokers in the metadata. All leaders share one object, whose fields are replaced."""

    epochs: dict[int, int] = field(default_factory=dict)
    """The broker epoch of every registered broker, by id."""
    eligible: dict[int, int] = field(default_factory=dict)
    """The broker epochs, by id, of the brokers that may join an ISR: neither fenced nor shutting
    down."""
