"""Reads the broker's configuration from properties, and refuses unknown keys.

A file may be shared with a controller, and may have keys of coordinators that this broker does not
have. Both kinds of keys are accepted without a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..runtime.config import Setting, check_keys, from_mapping, settings_of
from ..runtime.errors import ConfigError
from ..runtime.kafka_keys import KNOWN_UNUSED
from ..runtime.spelling import did_you_mean
from ..security.audit_config import AuditConfig
from ..security.authorizer_config import AuthorizerConfig
from ..security.control_settings import ControlSettings, ControlTlsConfig
from ..security.listener import (
    OF_LISTENER,
    SecurityProtocol,
    listener_properties,
    parse_listeners,
)
from ..security.sasl.oauth_settings import HANDLER, OAuthBearerConfig
from ..security.sasl.oauthbearer import OAUTHBEARER
from ..security.sasl.settings import (
    BETWEEN_BROKERS,
    ENABLED,
    JAAS,
    MECHANISMS,
    REAUTH,
    ListenerSasl,
    SaslConfig,
    read_listeners,
)
from ..security.tls_config import ListenerTlsConfig
from .admission.limits import OF_ONE_LISTENER, ConnectionLimits, bounds_of
from .config import (
    BrokerConfig,
    bound_listeners,
    inter_broker_listener,
    names_of_listeners,
    tls_listeners,
)
from .control.metadata_position import MetadataConfig
from .coordinator.group.config import GroupConfig
from .coordinator.transaction.config import TransactionConfig
from .replica.rate_config import RateConfig
from .replica.selector import ReplicaSelectorConfig
from .telemetry.config import TelemetryConfig
from .topic_defaults import BROKER_KEYS, TopicDefaults
from .tracing.config import TraceConfig
from .upkeep.compaction import CompactionConfig

CONTROLLER_KEYS = frozenset(
    {
        "auto.leader.rebalance.enable",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
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
    RateConfig,
    ReplicaSelectorConfig,
    GroupConfig,
    TransactionConfig,
    MetadataConfig,
    TelemetryConfig,
    TraceConfig,
    AuthorizerConfig,
    AuditConfig,
    ControlTlsConfig,
    SaslConfig,
    OAuthBearerConfig,
    ListenerTlsConfig,
)
"""The tables of a broker's settings, except the defaults of topics."""
PER_LISTENER = (
    *settings_of(ListenerTlsConfig),
    *settings_of(OAuthBearerConfig),
    *(row for row in settings_of(SaslConfig) if row.key in (ENABLED, BETWEEN_BROKERS, REAUTH)),
    *OF_ONE_LISTENER,
)
"""The settings that may also be set for one listener."""
PER_MECHANISM = (JAAS, REAUTH)
"""The keys that may be set for one mechanism of one listener."""
COORDINATOR_PREFIXES = ("group.", "offsets.", "transaction.", "transactional.", "producer.id.")
"""Prefixes of coordinators' keys. Unknown keys with such a prefix are accepted without a
warning."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A checked configuration, the properties that it was read from, and warnings about them."""

    config: BrokerConfig
    properties: dict[str, str] = field(repr=False)
    warnings: list[str]

    @property
    def control(self) -> ControlSettings:
        """The settings of the control plane's security."""
        tls = from_mapping(ControlTlsConfig, self.properties)
        return ControlSettings(self.config.control_security, self.config.control_psk_file, tls)


def sasl_of(config: BrokerConfig, properties: Mapping[str, str]) -> dict[str, ListenerSasl]:
    """Return the SASL settings of each listener with SASL; raise ConfigError if a key is wrong."""
    names = [
        listener.name
        for listener in bound_listeners(config)
        if SecurityProtocol(listener.security_protocol).has_sasl
    ]
    return read_listeners(properties, names, inter_broker_listener(config))


def read_settings(properties: Mapping[str, str]) -> Settings:
    """Check properties and return the settings.

    Raise ConfigError for an unknown key or a bad value.
    """
    own = {key: value for key, value in properties.items() if not _is_elsewhere(key)}
    warnings = check_keys(own, *TABLES, known_unused=KNOWN_UNUSED)
    for table in TABLES:
        from_mapping(table, properties)
    config = from_mapping(BrokerConfig, properties)
    warnings += _check_listener_keys(config, properties)
    sasl_of(config, properties)
    for name in tls_listeners(config):
        from_mapping(ListenerTlsConfig, listener_properties(properties, name))
    bounds_of(properties, names_of_listeners(config))
    TopicDefaults(config.node_id, properties)
    return Settings(config, dict(properties), warnings)


def _is_elsewhere(key: str) -> bool:
    return (
        key in BROKER_KEYS
        or key in CONTROLLER_KEYS
        or _is_of_listener(key)
        or (key.startswith(COORDINATOR_PREFIXES) and key not in KNOWN_UNUSED)
    )


def _check_listener_keys(config: BrokerConfig, properties: Mapping[str, str]) -> list[str]:
    """Return warnings for keys of one listener that have no effect.

    Raise ConfigError for any other key that no listener has; the error suggests the nearest one.
    """
    listeners = [each.name for each in parse_listeners("listeners", config.listeners)]
    names = dict.fromkeys(each.lower() for each in (*listeners, *config.controller_listener_names))
    rests = _keys_of_listener()
    common = {key for table in TABLES for row in settings_of(table) for key in _keys_of(row)}
    warnings: list[str] = []
    for key in filter(_is_of_listener, properties):
        name, _, rest = key.removeprefix(OF_LISTENER).partition(".")
        is_known = key.startswith(OF_LISTENER) and name in names
        if is_known and rest in rests:
            continue
        if is_known and rest in KNOWN_UNUSED:
            warnings.append(f"{key} has no effect: {KNOWN_UNUSED[rest]}")
        elif is_known and rest in common:
            warnings.append(f"{key} has no effect: {rest} is for all listeners together")
        else:
            known = (f"{OF_LISTENER}{each}.{end}" for each in names for end in rests)
            is_elsewhere = key.startswith(OF_LISTENER) and name not in names
            why = f"there is no listener {name}" if is_elsewhere else "unknown key"
            raise ConfigError(key, None, why + did_you_mean(key, known))
    return warnings


def _is_of_listener(key: str) -> bool:
    """True if a key is, or was perhaps meant to be, one listener's; Kafka's are in lower case."""
    return key.lower().startswith(("listener.name", "listeners.name"))


def _keys_of_listener() -> dict[str, None]:
    """Return what may come after `listener.name.<listener>.` in a key."""
    keys = [key for row in PER_LISTENER for key in _keys_of(row)]
    keys += [f"{name.lower()}.{key}" for name in MECHANISMS for key in PER_MECHANISM]
    of_tokens = (HANDLER, *(row.key for row in settings_of(OAuthBearerConfig)))
    keys += [f"{OAUTHBEARER.lower()}.{key}" for key in of_tokens]
    return dict.fromkeys(keys)


def _keys_of(row: Setting) -> tuple[str, ...]:
    return (row.key, *row.aliases)
