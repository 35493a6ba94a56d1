"""The metadata that a replica knows: the partition's record, and the brokers that are alive.

Pure values. `partition_epoch` orders them: a replica never goes back to an older one.
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
    """The leader was elected uncleanly and has not yet reported itself recovered."""
    unclean_epoch: int = NO_EPOCH
    """The newest leader epoch that began with an unclean election; only older logs may lose
    committed records."""
    min_isr: int = 1
    """min.insync.replicas as configured; `effective_min_isr` bounds it by the replicas."""
    group_flush: bool = False
    """flush.policy=group: a copy counts as far as it is on stable storage."""
    adding: tuple[int, ...] = ()
    """Replicas of a reassignment that have yet to catch up."""

    @property
    def effective_min_isr(self) -> int:
        """Never more than there are replicas, newcomers apart, or nothing could be written."""
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
    """A replica before its first metadata, and one that is offline for good: it does nothing."""

    metadata: PartitionMetadata
    high_watermark: int
    """At most the log's end: the last role may have moved it for records that the disk refused."""


@dataclass(slots=True)
class KnownBrokers:
    """The brokers in the metadata; one shared object, replaced field by field."""

    epochs: dict[int, int] = field(default_factory=dict)
    """Broker epoch of every registered broker."""
    eligible: dict[int, int] = field(default_factory=dict)
    """The same for brokers that may join an ISR: neither fenced nor shutting down."""
