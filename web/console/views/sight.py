"""The cluster as one look at it finds it: what the overview and the lists are made of. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ....client.admin.cluster_types import ClusterDescription, MetadataQuorum
from ....client.admin.topic_types import PartitionDescription, Reassignment, TopicDescription
from ....protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Sight:
    """Brokers, topics and controllers, asked for at the same time."""

    at_ms: int
    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]
    moving: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    quorum: MetadataQuorum | None = None
    """None where the cluster does not tell."""
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas of topics that have fewer replicas in sync than replicas."""

    def partitions(self) -> Iterator[tuple[str, PartitionDescription]]:
        """Go through every partition, with its topic."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                yield topic.name, partition


@dataclass(slots=True)
class Troubles:
    """The partitions that lack something, by what they lack."""

    under_replicated: list[TopicPartition] = field(default_factory=list)
    offline: list[TopicPartition] = field(default_factory=list)
    under_min_isr: list[TopicPartition] = field(default_factory=list)
    not_preferred: list[TopicPartition] = field(default_factory=list)
    """Led by another replica than their first one, which is in sync."""


def is_under_replicated(one: PartitionDescription) -> bool:
    """True where a replica is not in sync."""
    return len(one.isr) < len(one.replicas)


def troubles_of(sight: Sight) -> Troubles:
    """Sort the partitions that lack something."""
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
