"""What a replica learns from metadata: the partition's record and who is alive.

Pure values. `partition_epoch` orders them: a replica never goes back to an older one.
"""

from dataclasses import dataclass, field

from ...protocol.types import NO_EPOCH


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
    """The newest leader epoch that began with an unclean election: only logs older than it may
    lose what was committed."""
    min_isr: int = 1
    """min.insync.replicas as configured; `effective_min_isr` bounds it by the replicas."""
    group_flush: bool = False
    """flush.policy=group: a copy counts as far as it is on stable storage."""

    @property
    def effective_min_isr(self) -> int:
        """Never more than there are replicas, or nothing could ever be written."""
        return min(self.min_isr, len(self.replicas))


@dataclass(slots=True)
class KnownBrokers:
    """Brokers as metadata has them; one shared object, replaced field by field."""

    epochs: dict[int, int] = field(default_factory=dict)
    """Broker epoch of every registered broker."""
    eligible: dict[int, int] = field(default_factory=dict)
    """The same for brokers that may join an ISR: neither fenced nor shutting down."""
