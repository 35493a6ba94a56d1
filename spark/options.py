"""Options of the source and the sink, read once into typed values.

Pure: strings in, frozen values out, OptionError for what makes no sense. Names and meanings are
those of Spark's own Kafka connector; an option that the connector has and we lack is refused, not
ignored. Spark hands options over with lower-case names.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..client.config import ConsumerConfig, ProducerConfig, configured
from ..runtime.errors import ConfigError, MinikafkaError

EARLIEST: Final = -2
"""In a JSON of offsets: the first offset there is."""
LATEST: Final = -1
"""In a JSON of offsets: the offset that the next record gets."""

Offsets = dict[str, dict[int, int]]
"""Topic -> partition -> offset."""

_NOT_YET: Final = (
    "subscribepattern",
    "startingtimestamp",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "endingtimestamp",
    "endingoffsetsbytimestamp",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "minpartitions",
    "maxrecordsperpartition",
    "groupidprefix",
    "kafka.group.id",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
)
_OURS_TO_SET: Final = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "kafka.key.deserializer",
    "kafka.key.serializer",
    "kafka.value.deserializer",
    "kafka.value.serializer",
)
_CLIENT_OWN: Final = "kafka."
_SOURCE: Final = (
    "assign",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "startingOffsets",
    "subscribe",
)
_SINK: Final = ("includeHeaders", "topic")
_SPARKS_OWN: Final = ("checkpointlocation", "outputmode", "queryname")
"""Spark keeps these among the options of a streaming query."""


class OptionError(MinikafkaError, ValueError):
    """An option that is missing, wrong, or contradicts another."""

    def __init__(self, option: str, value: object, why: str) -> None:
        super().__init__(f"option {option!r} = {value!r}: {why}")
        self.option = option


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. Offsets are a word ("earliest", "latest") or given per partition."""

    client: dict[str, str]
    """Client settings: the kafka.* options without their prefix."""
    topics: tuple[str, ...]
    """From `subscribe`; empty when `assign` names the partitions."""
    assigned: dict[str, tuple[int, ...]]
    starting: str | Offsets
    ending: str | Offsets
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    include_headers: bool


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write."""

    client: dict[str, str]
    topic: str | None
    """For every row; None when each row names its own."""


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a source; OptionError names the option, its value and what is allowed."""
    options = {name.lower(): value for name, value in options.items()}
    _check_names(options, _SOURCE)
    topics, assigned = _what_to_read(options)
    max_offsets = _whole_number(options, "maxOffsetsPerTrigger", at_least=1)
    if streaming and "endingoffsets" in options:
        raise OptionError(
            "endingOffsets", options["endingoffsets"], "a streaming query has no end; leave it out"
        )
    if max_offsets is not None and not streaming:
        raise OptionError(
            "maxOffsetsPerTrigger", max_offsets, "only a streaming query has triggers; leave it out"
        )
    starting = _starting(options, streaming=streaming)
    ending = _ending(options)
    _check_order(starting, ending)
    client = _client_settings(options, ConsumerConfig)
    if client.get("isolation.level", "read_uncommitted") != "read_uncommitted":
        raise OptionError(
            "kafka.isolation.level", client["isolation.level"], "not supported by this source"
        )
    return SourceOptions(
        client=client,
        topics=topics,
        assigned=assigned,
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=max_offsets,
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        include_headers=_flag(options, "includeHeaders", default=False),
    )


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink."""
    options = {name.lower(): value for name, value in options.items()}
    _check_names(options, _SINK)
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", topic, "name a topic, or leave it out and give a topic column")
    client = _client_settings(options, ProducerConfig)
    if client.get("acks") == "0":
        raise OptionError("kafka.acks", "0", "a task must know what was written: all or 1")
    return SinkOptions(client=client, topic=topic)


def parse_offsets(option: str, text: str) -> Offsets:
    """Read `{"topic":{"0":123}}`, where -2 is the earliest and -1 the latest offset."""
    found: Offsets = {}
    for topic, partitions in _json_object(option, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(option, text, 'write {"topic":{"0":123}}')
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise OptionError(
                    option, text, f"partition {partition!r} needs an offset of -2 or more"
                )
            found.setdefault(topic, {})[int(partition)] = offset
    return found


def _check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse names that nobody reads: a misspelt startingOffsets would skip records silently."""
    by_lower = {name.lower(): name for name in known}
    for name, value in options.items():
        if name in by_lower or name in _SPARKS_OWN:
            continue
        if name in _NOT_YET:
            raise OptionError(name, value, "not supported yet")
        if not name.startswith(_CLIENT_OWN):
            nearest = difflib.get_close_matches(name, by_lower, n=1)
            hint = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
            raise OptionError(name, value, f"unknown option{hint}")


def _what_to_read(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    given = [name for name in ("subscribe", "assign") if name in options]
    if len(given) != 1:
        raise OptionError(
            "subscribe", options.get("subscribe"), "give exactly one of subscribe and assign"
        )
    if given == ["subscribe"]:
        text = options["subscribe"]
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError("subscribe", text, "name at least one topic, separated by commas")
        return topics, {}
    text = options["assign"]
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _json_object("assign", text).items():
        if not isinstance(partitions, list) or not all(
            type(partition) is int and partition >= 0 for partition in partitions
        ):
            raise OptionError("assign", text, 'write {"topic":[0,1]}')
        assigned[topic] = tuple(sorted(set(partitions)))
    if not any(assigned.values()):
        raise OptionError("assign", text, "name at least one partition")
    return (), assigned


def _starting(options: Mapping[str, str], *, streaming: bool) -> str | Offsets:
    text = options.get("startingoffsets", "latest" if streaming else "earliest")
    if text.strip().lower() in ("earliest", "latest"):
        if text.strip().lower() == "latest" and not streaming:
            raise OptionError("startingOffsets", text, "a batch query cannot start at the latest")
        return text.strip().lower()
    offsets = parse_offsets("startingOffsets", text)
    if not streaming and any(LATEST in by.values() for by in offsets.values()):
        raise OptionError("startingOffsets", text, "a batch query cannot start at -1, the latest")
    return offsets


def _ending(options: Mapping[str, str]) -> str | Offsets:
    text = options.get("endingoffsets", "latest")
    if text.strip().lower() == "latest":
        return "latest"
    if text.strip().lower() == "earliest":
        raise OptionError("endingOffsets", text, "a query cannot end at the earliest")
    offsets = parse_offsets("endingOffsets", text)
    if any(EARLIEST in by.values() for by in offsets.values()):
        raise OptionError("endingOffsets", text, "a query cannot end at -2, the earliest")
    return offsets


def _check_order(starting: str | Offsets, ending: str | Offsets) -> None:
    if isinstance(starting, str) or isinstance(ending, str):
        return
    for topic, by in ending.items():
        for partition, end in by.items():
            start = starting.get(topic, {}).get(partition, EARLIEST)
            if 0 <= end < start:
                raise OptionError(
                    "endingOffsets", end, f"{topic}-{partition} would end before its start, {start}"
                )


def _client_settings(
    options: Mapping[str, str], table: type[ConsumerConfig] | type[ProducerConfig]
) -> dict[str, str]:
    for name in _OURS_TO_SET:
        if name in options:
            raise OptionError(name, options[name], "this source and sink set it themselves")
    client = {
        name.removeprefix(_CLIENT_OWN): value
        for name, value in sorted(options.items())
        if name.startswith(_CLIENT_OWN)
    }
    if not client.get("bootstrap.servers", "").strip():
        raise OptionError(
            "kafka.bootstrap.servers", client.get("bootstrap.servers"), "give HOST:PORT,HOST:PORT"
        )
    try:
        configured(table, None, client)
    except ConfigError as error:
        raise OptionError(_CLIENT_OWN + error.key, error.value, error.why) from error
    return client


def _json_object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(option, text, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OptionError(option, text, "a JSON object of topics is needed")
    return value


def _flag(options: Mapping[str, str], option: str, *, default: bool) -> bool:
    text = options.get(option.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(option, text, "write true or false")
    return text.strip().lower() == "true"


def _whole_number(options: Mapping[str, str], option: str, *, at_least: int) -> int | None:
    text = options.get(option.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise OptionError(option, text, f"a whole number of at least {at_least} is needed")
    return number
