"""The state of the cluster at one moment, from which the overview and lists are made. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ....client.admin.cluster_types import ClusterDescription, MetadataQuorum
from ....client.admin.topic_types import PartitionDescription, Reassignment, TopicDescription
from ....protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Sight:
    """Brokers, topics and controllers, all read at the same time."""

    at_ms: int
    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]
    moving: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    quorum: MetadataQuorum | None = None
    """The controllers; None if the cluster does not report them."""
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas of the topics that have a replica out of sync."""

    def partitions(self) -> Iterator[tuple[str, PartitionDescription]]:
        """Yield every partition, with its topic."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                yield topic.name, partition


@dataclass(slots=True)
class Troubles:
    """The partitions that have a problem, grouped by problem."""

    under_replicated: list[TopicPartition] = field(default_factory=list)
    offline: list[TopicPartition] = field(default_factory=list)
    under_min_isr: list[TopicPartition] = field(default_factory=list)
    not_preferred: list[TopicPartition] = field(default_factory=list)
    """Partitions whose preferred replica is in sync and does not lead."""


def is_under_replicated(one: PartitionDescription) -> bool:
    """True if a replica of the partition is not in sync."""
    return len(one.isr) < len(one.replicas)


def troubles_of(sight: Sight) -> Troubles:
    """Group the partitions that have a problem."""
    found = Troubles()
    for topic, one in sight.partitions():
        where = TopicPartition(topic, one.partition)
        if one.leader_id < 0:
            found.offline.append(where)
        elif one.leader_id != one.replicas[0] and one.replicas[0] in one.isr:
            found.not_preferred.append(where)
        if is_under_replicated(one):
            found.under_replicated.append(where)
            if len(one.isr) < sight.min_isr.get(topic, 0):
                found.under_min_isr.append(where)
    return found
