"""What an admin hands in and gets back: topics, cluster and settings as plain values.

Ids are shown as Kafka shows them: URL-safe base64 text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...protocol.messages.create_topics import BROKER_DEFAULT
from ...protocol.messages.describe_configs import ConfigSource, ConfigType, ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation


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
    """-1: none."""
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


class BrokerDescription(NamedTuple):
    """One broker of the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class ClusterDescription(NamedTuple):
    """The cluster as a broker sees it."""

    cluster_id: str
    controller_id: int
    """A broker that takes admin requests; -1: none is known."""
    brokers: tuple[BrokerDescription, ...]


class ConfigResource(NamedTuple):
    """Whose settings: a topic by name, or a broker by its number as text ("" for all brokers)."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        """Name a topic's settings."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None) -> "ConfigResource":
        """Name a broker's settings; None for the defaults of all brokers."""
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or 'default'}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting in force."""

    name: str
    value: str | None
    """None where it is a secret or has no value."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()
    """Where the value could come from, the one in force first."""

    @property
    def is_default(self) -> bool:
        """Has nobody set it?"""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """One change of a setting; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET
