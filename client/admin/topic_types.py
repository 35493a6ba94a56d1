"""Topics and partitions as plain values: to be created, as they are, and on the move.

Topic ids are shown as Kafka shows them: URL-safe base64 text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...protocol.messages.create_topics import BROKER_DEFAULT
from ...protocol.messages.elect_leaders import ElectionType as ElectionType


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 leaves number or factor to the cluster's settings."""

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Sequence[int]] | None = None
    """Brokers per partition, preferred leader first; instead of the two numbers."""
    configs: Mapping[str, str] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """A topic that was created (or with validate_only could be)."""

    name: str
    topic_id: str
    num_partitions: int
    """-1 where the broker is too old to say."""
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
    """-1 where there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    """None where the cluster does not keep them (KIP-966)."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as a broker sees it; partitions by number."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class Reassignment(NamedTuple):
    """The brokers of a partition's copies, now and after the move."""

    replicas: tuple[int, ...]
    """All brokers that hold the partition or will hold it, preferred leader first."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the move is done."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)
