"""Configurations of topics, brokers, loggers and subscriptions as plain values."""

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.messages.describe_configs import ConfigSource, ConfigType, ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation


class ConfigResource(NamedTuple):
    """The owner of settings: a topic by name, or a broker by its number ("" for all brokers).

    A BROKER_LOGGER is named by a broker's number; its settings are the levels of that broker's
    loggers. CLIENT_METRICS is a subscription to clients' metrics, with a name of the user's choice.
    """

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        """Return the resource of a topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None) -> "ConfigResource":
        """Return the resource of a broker; None means the defaults of all brokers."""
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def broker_logger(cls, node_id: int) -> "ConfigResource":
        """Return the resource of a broker's loggers (KIP-412)."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def client_metrics(cls, name: str) -> "ConfigResource":
        """Return the resource of a subscription to the metrics of clients (KIP-714)."""
        return cls(ResourceType.CLIENT_METRICS, name)

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or 'default'}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting as it applies now."""

    name: str
    value: str | None
    """The value, or None if it is a secret or not set."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()
    """(key, value, source) for each place that sets the setting; the first one applies."""

    @property
    def is_default(self) -> bool:
        """True if the setting is set nowhere, so that its default applies."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """One change of a setting; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET
