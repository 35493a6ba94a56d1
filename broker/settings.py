"""Reads the broker's configuration from properties, and refuses unknown keys.

A file may be shared with a controller, and may have keys of coordinators that do not exist yet;
neither is an error or worth a warning.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ..runtime.config import check_keys, from_mapping, settings_of
from ..runtime.errors import ConfigError
from ..runtime.kafka_keys import KNOWN_UNUSED
from ..runtime.spelling import did_you_mean
from ..security.authorizer_config import AuthorizerConfig
from ..security.listener import (
    OF_LISTENER,
    SecurityProtocol,
    listener_properties,
    parse_listeners,
)
from ..security.sasl.settings import JAAS, REAUTH, ListenerSasl, SaslConfig, read_listeners
from ..security.tls_config import ListenerTlsConfig
from .admission.limits import ConnectionLimits
from .config import BrokerConfig, bound_listeners, inter_broker_listener, tls_listeners
from .control.metadata_position import MetadataConfig
from .coordinator.group.config import GroupConfig
from .coordinator.transaction.config import TransactionConfig
from .replica.selector import ReplicaSelectorConfig
from .telemetry.config import TelemetryConfig
from .topic_defaults import BROKER_KEYS, TopicDefaults
from .upkeep.compaction import CompactionConfig

CONTROLLER_KEYS = frozenset(
    {
        "auto.leader.rebalance.enable",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "leader.lease.enable",
        "metadata.log.dir",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metadata.log.segment.bytes",
        "metadata.log.segment.ms",
        "metadata.max.retention.bytes",
        "metadata.max.retention.ms",
        "minikafka.metadata.log.cut.at",
    }
)
TABLES = (
    BrokerConfig,
    ConnectionLimits,
    CompactionConfig,
    ReplicaSelectorConfig,
    GroupConfig,
    TransactionConfig,
    MetadataConfig,
    TelemetryConfig,
    AuthorizerConfig,
    SaslConfig,
    ListenerTlsConfig,
)
"""The tables of a broker's settings, except the defaults of topics."""
PER_MECHANISM = (JAAS, REAUTH)
"""Keys that belong to one mechanism of one listener."""
NOT_PER_LISTENER = ("max.connections", "max.connection.creation.rate")
"""Keys that Kafka also has for one listener, and that have no effect there."""
COORDINATOR_PREFIXES = ("group.", "offsets.", "transaction.", "transactional.", "producer.id.")
"""Prefixes of coordinators' keys. Unknown keys with such a prefix pass without a warning."""


class Settings(NamedTuple):
    """A checked configuration, the properties that it was read from, and warnings about them."""

    config: BrokerConfig
    properties: dict[str, str]
    warnings: list[str]


def sasl_of(config: BrokerConfig, properties: Mapping[str, str]) -> dict[str, ListenerSasl]:
    """Return the logins of each listener with SASL; raise ConfigError if a key is wrong."""
    names = [
        listener.name
        for listener in bound_listeners(config)
        if SecurityProtocol(listener.security_protocol).has_sasl
    ]
    return read_listeners(properties, names, inter_broker_listener(config))


def read_settings(properties: Mapping[str, str]) -> Settings:
    """Check properties and return the settings.

    Raise ConfigError for an unknown key or bad value.
    """
    own = {key: value for key, value in properties.items() if not _is_elsewhere(key)}
    warnings = check_keys(own, *TABLES, known_unused=KNOWN_UNUSED)
    for table in TABLES:
        from_mapping(table, properties)
    config = from_mapping(BrokerConfig, properties)
    sasl_of(config, properties)
    warnings += _check_listener_keys(config, properties)
    for name in tls_listeners(config):
        from_mapping(ListenerTlsConfig, listener_properties(properties, name))
    TopicDefaults(config.node_id, properties)
    return Settings(config, dict(properties), warnings)


def _is_elsewhere(key: str) -> bool:
    return (
        key in BROKER_KEYS
        or key in CONTROLLER_KEYS
        or key.startswith(OF_LISTENER)
        or (key.startswith(COORDINATOR_PREFIXES) and key not in KNOWN_UNUSED)
    )


def _check_listener_keys(config: BrokerConfig, properties: Mapping[str, str]) -> list[str]:
    """Return warnings for keys of one listener that have no effect.

    Raise ConfigError if a key is unknown, or names a listener that does not exist.
    """
    listeners = [each.name for each in parse_listeners("listeners", config.listeners)]
    names = dict.fromkeys([*listeners, *config.controller_listener_names])
    rows = [*settings_of(ListenerTlsConfig), *settings_of(SaslConfig)]
    known = {row.key: None for row in rows}
    warnings: list[str] = []
    for key in properties:
        if not key.startswith(OF_LISTENER):
            continue
        name, _, rest = key.removeprefix(OF_LISTENER).partition(".")
        if name.upper() not in names:
            raise ConfigError(key, None, f"there is no listener {name.upper()}")
        if rest in NOT_PER_LISTENER:
            warnings.append(f"{key} has no effect: {rest} is for all listeners together")
        elif rest not in known and rest.partition(".")[2] not in PER_MECHANISM:
            raise ConfigError(key, None, f"unknown key{did_you_mean(rest, known)}")
    return warnings
