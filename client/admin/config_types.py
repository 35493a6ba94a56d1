"""Settings of topics, brokers and loggers as plain values: whose, as in force, and changed."""

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.messages.describe_configs import ConfigSource, ConfigType, ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation


class ConfigResource(NamedTuple):
    """The owner of settings: a topic by name, or a broker by its number ("" for all brokers).

    A BROKER_LOGGER is a broker's number too: its settings are the levels of that broker's loggers.
    """

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

    @classmethod
    def broker_logger(cls, node_id: int) -> "ConfigResource":
        """Name the loggers of a broker (KIP-412)."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

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
    """The sources of the value, the one in force first."""

    @property
    def is_default(self) -> bool:
        """True where nobody has set it: the default is in force."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """One change of a setting; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET
