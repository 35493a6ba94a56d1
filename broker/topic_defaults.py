"""The defaults of topics: Kafka's `log.*` keys of the broker, laid under their settings.

    built-in default < properties file < (4, "") all brokers < (4, id) this broker < (2, topic)

Owns that order and the table of synonyms. Decides nothing for a log already open.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ..protocol.control.image import MetadataImage
from ..protocol.control.records import BROKER, TOPIC
from ..protocol.messages.describe_configs import ConfigSource
from ..runtime.config import Setting, from_mapping, settings_of
from ..runtime.errors import ConfigError
from ..runtime.kafka_keys import DYNAMIC_UNUSED
from ..storage.topic_config import TopicConfig
from .admission.limits import ConnectionLimits
from .config import BrokerConfig
from .coordinator.transaction.config import TransactionConfig
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
"""By topic key, the broker's keys for it, the first one winning, and the factor of each."""

ROWS: dict[str, Setting] = {row.key: row for row in settings_of(TopicConfig)}
BROKER_KEYS: dict[str, str] = {
    synonym: key for key, synonyms in SYNONYMS.items() for synonym in synonyms
}
"""By broker's key, the topic key whose default it is."""
DYNAMIC_ROWS: dict[str, Setting] = {
    row.key: row
    for table in (BrokerConfig, ConnectionLimits, CompactionConfig, TransactionConfig)
    for row in settings_of(table)
    if row.dynamic
}
"""The keys of brokers that are no topic's default and can still be changed at run time."""


class Layer(NamedTuple):
    """One place that gives a topic key its value."""

    source: ConfigSource
    name: str
    """The key under which the place has it."""
    value: str
    """The value in the topic key's unit."""


class TopicDefaults:
    """The layers under a topic's own settings, for one broker."""

    def __init__(self, node_id: int, file_settings: Mapping[str, str]) -> None:
        """ConfigError when the file says something that no topic could have."""
        self._node = str(node_id)
        self._settings = file_settings
        self._file = {
            row.key: text
            for row in ROWS.values()
            if (text := _synonym(row, file_settings)) is not None
        }
        from_mapping(TopicConfig, self._file)

    def config_of(self, image: MetadataImage, topic: str) -> TopicConfig:
        """The configuration that the topic's logs obey."""
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
        """A table of the broker's own keys as it is at this moment, dynamic settings included."""
        merged = dict(self._settings)
        for name in ("", self._node):
            dynamic = image.configs.get((BROKER, name), {})
            merged |= {key: value for key, value in dynamic.items() if key in DYNAMIC_ROWS}
        return from_mapping(table, merged)

    def layers(self, image: MetadataImage, topic: str | None, key: str) -> Iterator[Layer]:
        """Every place that gives the key a value, the one that wins first."""
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
        """Yield the places that set this key of the broker, each as it is written there.

        Where several keys stand for one topic key, in different units, each has its own value; the
        default is shown in the coarsest unit, and the finer keys have none, as in Kafka.
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


def check_dynamic(key: str, value: str | None) -> None:
    """ConfigError unless a broker's key may be changed to this at run time, or back (None).

    Keys that Kafka changes at run time and that mean nothing here pass, with Kafka's bounds.
    """
    own = DYNAMIC_ROWS.get(key) or DYNAMIC_UNUSED.get(key)
    if own is not None:
        if value is not None:
            own.parse(value, key)
        return
    topic_key = BROKER_KEYS.get(key)
    if topic_key is None:
        raise ConfigError(key, value, "cannot be changed while the broker runs")
    if value is not None:
        row = ROWS[topic_key]
        replace(row, aliases={key: SYNONYMS[topic_key][key]}).parse(value, key)


def _synonym(row: Setting, settings: Mapping[str, str]) -> str | None:
    """The topic key's value as the broker's keys give it; ConfigError names the broker's key."""
    for key, factor in SYNONYMS.get(row.key, {}).items():
        if key not in settings:
            continue
        text = settings[key].strip()
        return row.format(replace(row, aliases={key: factor}).parse(text, key))
    return None
