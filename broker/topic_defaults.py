"""The defaults of topics' settings, from the broker's own keys such as Kafka's `log.*`.

A later source overrides an earlier one. The numbers are Kafka's types of config resources:

built-in default < properties file < (4, "") all brokers < (4, id) this broker < (2, topic)

This module owns this order and the table of synonyms. `Partitions` applies settings to open logs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ..protocol.control.image import MetadataImage
from ..protocol.control.records import BROKER, TOPIC
from ..protocol.messages.describe_configs import ConfigSource
from ..runtime.config import Setting, from_mapping, settings_of
from ..runtime.errors import ConfigError
from ..runtime.kafka_keys import DYNAMIC_UNUSED
from ..runtime.spelling import did_you_mean
from ..security.audit_config import AuditConfig
from ..security.listener import OF_LISTENER
from ..storage.topic_config import TopicConfig
from .admission.limits import OF_ONE_LISTENER, PER_IP_OVERRIDES, ConnectionLimits
from .config import BrokerConfig
from .coordinator.transaction.config import TransactionConfig
from .replica.rate_config import RateConfig
from .tracing.config import EVERY, TraceConfig
from .upkeep.compaction import CompactionConfig

C = TypeVar("C")
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

SYNONYMS: dict[str, dict[str, int]] = {
    "cleanup.policy": {"log.cleanup.policy": 1},
    "compression.type": {"compression.type": 1},
    "delete.retention.ms": {"log.cleaner.delete.retention.ms": 1},
    "file.delete.delay.ms": {"log.segment.delete.delay.ms": 1},
    "flush.messages": {"log.flush.interval.messages": 1},
    "flush.ms": {"log.flush.interval.ms": 1},
    "flush.policy": {"log.flush.policy": 1, "flush.policy": 1},
    "index.interval.bytes": {"log.index.interval.bytes": 1},
    "max.compaction.lag.ms": {"log.cleaner.max.compaction.lag.ms": 1},
    "max.message.bytes": {"message.max.bytes": 1},
    "message.timestamp.after.max.ms": {"log.message.timestamp.after.max.ms": 1},
    "message.timestamp.before.max.ms": {"log.message.timestamp.before.max.ms": 1},
    "message.timestamp.type": {"log.message.timestamp.type": 1},
    "min.cleanable.dirty.ratio": {"log.cleaner.min.cleanable.ratio": 1},
    "min.compaction.lag.ms": {"log.cleaner.min.compaction.lag.ms": 1},
    "minikafka.records.validation": {"minikafka.records.validation": 1},
    "min.insync.replicas": {"min.insync.replicas": 1},
    "preallocate": {"log.preallocate": 1},
    "retention.bytes": {"log.retention.bytes": 1},
    "retention.ms": {
        "log.retention.ms": 1,
        "log.retention.minutes": MINUTE_MS,
        "log.retention.hours": HOUR_MS,
    },
    "segment.bytes": {"log.segment.bytes": 1},
    "segment.index.bytes": {"log.index.size.max.bytes": 1},
    "segment.jitter.ms": {"log.roll.jitter.ms": 1, "log.roll.jitter.hours": HOUR_MS},
    "segment.ms": {"log.roll.ms": 1, "log.roll.hours": HOUR_MS},
    "unclean.leader.election.enable": {"unclean.leader.election.enable": 1},
}
"""The broker's keys for each topic key, with the factor from their unit to the topic key's unit.
The first key that is set takes effect."""

ROWS: dict[str, Setting] = {row.key: row for row in settings_of(TopicConfig)}
BROKER_KEYS: dict[str, str] = {
    synonym: key for key, synonyms in SYNONYMS.items() for synonym in synonyms
}
"""The topic key whose default each of the broker's keys in SYNONYMS sets."""
DYNAMIC_ROWS: dict[str, Setting] = {
    row.key: row
    for table in (
        BrokerConfig,
        ConnectionLimits,
        CompactionConfig,
        TransactionConfig,
        RateConfig,
        AuditConfig,
        TraceConfig,
    )
    for row in settings_of(table)
    if row.dynamic
}
"""The broker's other keys, not in SYNONYMS, that can be changed at run time."""
CHECKED_BY: dict[str, type] = {PER_IP_OVERRIDES: ConnectionLimits, EVERY: TraceConfig}
"""The tables whose own check judges a key, too."""
LISTENER_ROWS: dict[str, Setting] = {row.key: row for row in OF_ONE_LISTENER}
"""The dynamic settings that may also be set for one listener."""


class Layer(NamedTuple):
    """One source that sets a key, with the value that it gives."""

    source: ConfigSource
    name: str
    """The key that the source sets; it may be a synonym."""
    value: str
    """The value: for a topic key in that key's unit, for a broker's key as written."""


class TopicDefaults:
    """The defaults of topics on one broker, and the broker's own dynamic settings."""

    def __init__(self, node_id: int, file_settings: Mapping[str, str]) -> None:
        """Raise ConfigError if the file sets a default that is not valid for a topic."""
        self._node = str(node_id)
        self._settings = file_settings
        self._file = {
            row.key: text
            for row in ROWS.values()
            if (text := _synonym(row, file_settings)) is not None
        }
        from_mapping(TopicConfig, self._file)

    def config_of(self, image: MetadataImage, topic: str) -> TopicConfig:
        """Return the configuration of a topic's logs, from all sources."""
        merged = dict(self._file)
        for dynamic in (
            image.configs.get((BROKER, ""), {}),
            image.configs.get((BROKER, self._node), {}),
        ):
            for row in ROWS.values():
                text = _synonym(row, dynamic)
                if text is not None:
                    merged[row.key] = text
        own = image.configs.get((TOPIC, topic), {})
        return from_mapping(TopicConfig, {**merged, **own})

    def broker_value(self, image: MetadataImage, key: str) -> int:
        """Return the present value of one of `DYNAMIC_ROWS` for this broker."""
        row = DYNAMIC_ROWS[key]
        winner = next(self.broker_layers(image, key), None)
        return int(row.default if winner is None else row.parse(winner.value, key))

    def table_of(self, image: MetadataImage, table: type[C]) -> C:
        """Return a table of the broker's own settings with their present, also dynamic, values."""
        return from_mapping(table, self.properties_of(image))

    def properties_of(self, image: MetadataImage) -> dict[str, str]:
        """Return the broker's own keys with their present, also dynamic, values."""
        merged = dict(self._settings)
        for name in ("", self._node):
            dynamic = image.configs.get((BROKER, name), {})
            merged |= {key: value for key, value in dynamic.items() if _row_of(key) is not None}
        return merged

    def layers(self, image: MetadataImage, topic: str | None, key: str) -> Iterator[Layer]:
        """Yield every source that sets a topic key, in order of precedence."""
        row = ROWS[key]
        if topic is not None:
            own = image.configs.get((TOPIC, topic), {})
            if key in own:
                yield Layer(ConfigSource.TOPIC_CONFIG, key, own[key])
        first = next(iter(SYNONYMS.get(key, {key: 1})))
        for source, name in (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self._node),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ""),
        ):
            text = _synonym(row, image.configs.get((BROKER, name), {}))
            if text is not None:
                yield Layer(source, first, text)
        if key in self._file:
            yield Layer(ConfigSource.STATIC_BROKER_CONFIG, first, self._file[key])
        yield Layer(ConfigSource.DEFAULT_CONFIG, first, row.format(row.default))

    def broker_layers(self, image: MetadataImage, key: str) -> Iterator[Layer]:
        """Yield every source that sets a key of the broker, in order of precedence, as written.

        If several keys with different units set the same topic key, each has its own value. Only
        the key with the coarsest unit has the default, as in Kafka.
        """
        for source, settings in (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, image.configs.get((BROKER, self._node), {})),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, image.configs.get((BROKER, ""), {})),
            (ConfigSource.STATIC_BROKER_CONFIG, self._settings),
        ):
            if key in settings:
                yield Layer(source, key, settings[key].strip())
        topic_key = BROKER_KEYS.get(key)
        if topic_key is None:
            return
        synonyms, row = SYNONYMS[topic_key], ROWS[topic_key]
        if key == max(synonyms, key=lambda each: synonyms[each]):
            default = row.default
            if synonyms[key] > 1:
                default //= synonyms[key]
            yield Layer(ConfigSource.DEFAULT_CONFIG, key, row.format(default))


def check_dynamic(key: str, value: str | None, listeners: Iterable[str] = ()) -> None:
    """Raise ConfigError if a key of the broker cannot be set to `value` at run time.

    If `value` is None, the key is unset. Keys that Kafka can change at run time and that have no
    effect here are accepted, within Kafka's bounds. A key of one listener must name one of
    `listeners`.
    """
    own = _row_of(key) or DYNAMIC_UNUSED.get(key)
    if own is not None:
        keys = [key_of_listener(name, each) for name in listeners for each in LISTENER_ROWS]
        if key.startswith(OF_LISTENER) and key not in keys:
            raise ConfigError(key, value, f"there is no such listener{did_you_mean(key, keys)}")
        if value is not None:
            own.parse(value, key)
            table = CHECKED_BY.get(key)
            if table is not None:
                from_mapping(table, {key: value})
        return
    topic_key = BROKER_KEYS.get(key)
    if topic_key is None:
        raise ConfigError(key, value, "cannot be changed while the broker runs")
    if value is not None:
        row = ROWS[topic_key]
        replace(row, aliases={key: SYNONYMS[topic_key][key]}).parse(value, key)


def key_of_listener(listener: str, key: str) -> str:
    """Return the key by which one listener has a setting for itself."""
    return f"{OF_LISTENER}{listener.lower()}.{key}"


def _row_of(key: str) -> Setting | None:
    """Return the setting of a dynamic key, also of one listener's; None for any other key."""
    if key.startswith(OF_LISTENER):
        row = LISTENER_ROWS.get(key.removeprefix(OF_LISTENER).partition(".")[2])
        return None if row is None else replace(row, key=key)
    return DYNAMIC_ROWS.get(key)


def _synonym(row: Setting, settings: Mapping[str, str]) -> str | None:
    """Return a topic key's value as the broker's keys set it, in the topic key's unit, or None."""
    for key, factor in SYNONYMS.get(row.key, {}).items():
        if key not in settings:
            continue
        text = settings[key].strip()
        return row.format(replace(row, aliases={key: factor}).parse(text, key))
    return None
