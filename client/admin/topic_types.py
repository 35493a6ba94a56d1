"""Topics and partitions as plain values: new topics, descriptions, reassignments.

Topic ids are URL-safe base64 text, as in Kafka's tools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...protocol.messages.create_topics import BROKER_DEFAULT
from ...protocol.messages.elect_leaders import ElectionType as ElectionType


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 for partitions or replication factor means the cluster's default."""

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Sequence[int]] | None = None
    """The brokers of each partition, preferred leader first, in place of the two numbers."""
    configs: Mapping[str, str] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """A topic that was created, or with `validate_only` could be created."""

    name: str
    topic_id: str
    num_partitions: int
    """The number of partitions, or -1 if the broker is too old to return it."""
    replication_factor: int


class TopicListing(NamedTuple):
    """A topic's name and id."""

    name: str
    topic_id: str
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as a broker sees it."""

    partition: int
    leader_id: int
    """The leader's id, or -1 if there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    """The eligible leader replicas (KIP-966); None if the broker does not return them."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as a broker sees it; partitions by number."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class Reassignment(NamedTuple):
    """The replicas of a partition that is being moved to other brokers."""

    replicas: tuple[int, ...]
    """All brokers that have a replica or will have one, preferred leader first."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The brokers that will have replicas after the move, preferred leader first."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)
