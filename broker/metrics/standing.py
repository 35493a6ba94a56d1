"""Metric lines about the replicas of a led partition, kept until its metadata changes.

Pure.
"""

from typing import Final, Protocol

from ..replica.leader import LeaderReplica

_OF_PARTITION: Final = "kafka_topic_partition_"
_OF_CLUSTER: Final = "kafka_cluster_partition_"
FACTS: Final = (
    (_OF_PARTITION + "leader", "Id of the leader."),
    (_OF_PARTITION + "leader_is_preferred", "1 if the preferred replica leads."),
    (_OF_PARTITION + "replicas", "Number of replicas of the partition."),
    (_OF_PARTITION + "in_sync_replica", "Number of replicas in sync."),
    (_OF_PARTITION + "under_replicated_partition", "1 if a replica is not in sync."),
    (_OF_CLUSTER + "underminisr", "1 if the ISR is smaller than min.insync.replicas."),
    (_OF_CLUSTER + "atminisr", "1 if the ISR has exactly min.insync.replicas members."),
)
"""The metrics of `Standing.lines`, in order."""


class Lines(Protocol):
    """Lines about one partition: its labels with a value."""

    zero: str
    one: str

    def line(self, value: int) -> str:
        """Return the line with this value; `zero` and `one` are the lines of 0 and 1."""


class Standing:
    """The replicas of a partition that this broker leads, by its newest metadata."""

    __slots__ = (
        "is_at_min_isr",
        "is_ordinary",
        "is_reassigning",
        "is_under_min_isr",
        "is_under_replicated",
        "lines",
        "metadata",
    )

    def __init__(self, leader: LeaderReplica, lines: Lines) -> None:
        self.metadata = metadata = leader.metadata
        in_sync, least = len(metadata.isr), leader.min_isr
        self.is_under_replicated = in_sync < len(metadata.replicas) - len(metadata.adding)
        self.is_under_min_isr = in_sync < least
        self.is_at_min_isr = in_sync == least
        self.is_reassigning = bool(metadata.adding)
        self.is_ordinary = least < in_sync == len(metadata.replicas) and not metadata.adding
        """True if all of the four above are False, so that nothing needs to be counted."""
        zero, one = lines.zero, lines.one
        self.lines = (
            lines.line(leader.broker_id),
            one if metadata.replicas[0] == leader.broker_id else zero,
            lines.line(len(metadata.replicas)),
            lines.line(in_sync),
            one if self.is_under_replicated else zero,
            one if self.is_under_min_isr else zero,
            one if self.is_at_min_isr else zero,
        )
        """The lines of FACTS, in order, without the metrics' names."""
