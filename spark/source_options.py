"""Options of the source, read once into typed values: strings in, frozen values out.

Names, meanings and precedence are those of Spark's own Kafka connector (KafkaSourceProvider). A
wrong or contradictory option raises OptionError before any job starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..client.config import ConsumerConfig
from .options import (
    EARLIEST,
    LARGEST,
    LATEST,
    Offsets,
    OptionError,
    check_names,
    client_settings,
    flag,
    is_partition,
    json_object,
    lower_names,
    milliseconds,
    whole_number,
)

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of every row, in their order; `headers` follows them if it is asked for."""
MAX_DELAY_MS: Final = 900_000
_STREAMING_ONLY: Final = {
    "commitOffsetsGroup": "only a streaming query has progress",
    "maxOffsetsPerTrigger": "only a streaming query has triggers",
    "maxTriggerDelay": "only a streaming query has triggers",
    "minOffsetsPerTrigger": "only a streaming query has triggers",
}
_BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_WHAT: Final = ("subscribe", "subscribePattern", "assign")
_KNOWN: Final = (
    *_WHAT,
    *_STREAMING_ONLY,
    *_BATCH_ONLY,
    "columns",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
)


@dataclass(frozen=True, slots=True)
class AtTime:
    """A bound by timestamp, in ms since 1970: one time for all partitions, or one for each.

    It means the first record at or after that time. If there is none, it means the end of the
    partition if `or_latest`, and an error otherwise.
    """

    times_ms: int | Offsets
    or_latest: bool


class Bound(NamedTuple):
    """The start or end of a query, and the option that gives it."""

    option: str
    at: str | Offsets | AtTime
    """Either "earliest" or "latest", or offsets, or times."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The bounds of a micro-batch's size, in offsets; None means no bound."""

    min_offsets: int | None = None
    max_offsets: int | None = None
    max_delay_ms: int = MAX_DELAY_MS
    """After this time a micro-batch begins even if it is smaller than `min_offsets`."""


@dataclass(frozen=True, slots=True)
class Splitting:
    """The rule for splitting ranges into tasks; without bounds each partition read is one task."""

    min_partitions: int | None = None
    max_records: int | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of waiting for a cluster."""

    poll_timeout_ms: int = 120_000
    """The time limit for records that are known to exist."""
    retries: int = 3
    """The number of retries of a request for offsets or topics that no broker answered."""
    retry_interval_ms: int = 10


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a source; one of `topics`, `pattern` and `assigned` names what is read."""

    client: dict[str, str]
    """Client settings: the kafka.* options without their prefix."""
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    """A regular expression: topics whose names contain a match are read, even if created later."""
    assigned: dict[str, tuple[int, ...]]
    starting: Bound
    ending: Bound
    admission: Admission
    splitting: Splitting
    patience: Patience
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    """The columns of the rows, in their order."""
    commit_offsets_group: str | None
    """The consumer group to which progress is committed, as a hint for tools."""


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a source; OptionError names the option, its value and what is allowed."""
    options = lower_names(options)
    check_names(options, _KNOWN)
    _check_kind(options, streaming=streaming)
    _check_one_of(options)
    starting, ending = _starting(options, streaming=streaming), _ending(options)
    _check_order(starting, ending)
    return SourceOptions(
        client=_client(options),
        topics=_topics(options),
        pattern=_pattern(options),
        assigned=_assigned(options),
        starting=starting,
        ending=ending,
        admission=_admission(options),
        splitting=Splitting(
            min_partitions=whole_number(options, "minPartitions", at_least=1),
            max_records=whole_number(options, "maxRecordsPerPartition", at_least=1),
        ),
        patience=_patience(options),
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        columns=parse_columns(options),
        commit_offsets_group=_name(options, "commitOffsetsGroup"),
    )


def check_source(options: Mapping[str, str]) -> None:
    """Raise OptionError for options that neither a batch nor a streaming query could use.

    This is called when the frame is made. Spark does not say then whether the query is a batch or a
    stream. Options that name nothing to read are not checked here, because they may be a sink's.
    """
    if not any(option.lower() in lower_names(options) for option in _WHAT):
        return
    try:
        parse_source(options, streaming=True)
    except OptionError as as_stream:
        try:
            parse_source(options, streaming=False)
        except OptionError:
            # The options mix both kinds. An option that only streams have shows that a stream is
            # meant.
            if any(option.lower() in lower_names(options) for option in _STREAMING_ONLY):
                raise as_stream from None
            raise


def parse_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of the rows: all, or those that the option `columns` names.

    Names of options may be in any case. Raise OptionError if a name is unknown or there twice.
    """
    options = lower_names(options)
    headers = flag(options, "includeHeaders", default=False)
    every = (*COLUMNS, "headers") if headers else COLUMNS
    text = options.get("columns")
    if text is None:
        return every
    by_lower = {name.lower(): name for name in every}
    named = [name.strip() for name in text.split(",")]
    found = [by_lower[name.lower()] for name in named if name.lower() in by_lower]
    if len(found) < len(named) or len(set(found)) < len(found):
        raise OptionError("columns", text, f"name some of {', '.join(every)}, each once")
    return tuple(found)


def parse_offsets(option: str, text: str) -> Offsets:
    """Read `{"topic":{"0":123}}`, where -2 is the earliest and -1 the latest offset."""
    return _by_partition(option, text, at_least=EARLIEST, what="an offset of -2 or more")


def _by_partition(option: str, text: str, *, at_least: int, what: str) -> Offsets:
    found: Offsets = {}
    for topic, partitions in json_object(option, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(option, text, 'write {"topic":{"0":123}}')
        for partition, number in partitions.items():
            is_number = type(number) is int and at_least <= number <= LARGEST
            if not is_partition(partition) or not is_number:
                raise OptionError(option, text, f"partition {partition!r} needs {what}")
            found.setdefault(topic, {})[int(partition)] = number
    if not found:
        raise OptionError(option, text, "name the partitions that are read")
    return found


# -- what to read


def _check_kind(options: Mapping[str, str], *, streaming: bool) -> None:
    if streaming:
        for option in _BATCH_ONLY:
            if option.lower() in options:
                value = options[option.lower()]
                raise OptionError(option, value, "a streaming query has no end; leave it out")
        return
    for option, why in _STREAMING_ONLY.items():
        if option.lower() in options:
            raise OptionError(option, options[option.lower()], f"{why}; leave it out")


def _check_one_of(options: Mapping[str, str]) -> None:
    given = [option for option in _WHAT if option.lower() in options]
    if len(given) != 1:
        value = options[given[0].lower()] if given else None
        have = f"; given are {', '.join(given)}" if given else ""
        why = f"give exactly one of {', '.join(_WHAT)}{have}"
        raise OptionError(given[0] if given else "subscribe", value, why)


def _topics(options: Mapping[str, str]) -> tuple[str, ...]:
    text = options.get("subscribe")
    if text is None:
        return ()
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise OptionError("subscribe", text, "name at least one topic, separated by commas")
    return topics


def _pattern(options: Mapping[str, str]) -> re.Pattern[str] | None:
    text = options.get("subscribepattern")
    if text is None:
        return None
    if not text.strip():
        raise OptionError("subscribePattern", text, "the pattern is empty")
    try:
        return re.compile(text.strip())
    except re.error as error:
        why = f"not a regular expression of Python: {error}"
        raise OptionError("subscribePattern", text, why) from error


def _assigned(options: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    text = options.get("assign")
    if text is None:
        return {}
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in json_object("assign", text).items():
        if not isinstance(partitions, list) or not all(
            type(partition) is int and partition >= 0 for partition in partitions
        ):
            raise OptionError("assign", text, 'write {"topic":[0,1]}')
        assigned[topic] = tuple(sorted(set(partitions)))
    if not any(assigned.values()):
        raise OptionError("assign", text, "name at least one partition")
    return assigned


# -- from where to where


def _starting(options: Mapping[str, str], *, streaming: bool) -> Bound:
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy", strategy, "write error or latest")
    by_time = _by_time(options, "starting", or_latest=strategy == "latest")
    if by_time is not None:
        return by_time
    option = "startingOffsets"
    text = options.get("startingoffsets", "latest" if streaming else "earliest").strip()
    if text.lower() in ("earliest", "latest"):
        if text.lower() == "latest" and not streaming:
            raise OptionError(option, text, "a batch query cannot start at the latest")
        return Bound(option, text.lower())
    offsets = parse_offsets(option, text)
    if not streaming and any(LATEST in by.values() for by in offsets.values()):
        raise OptionError(option, text, "a batch query cannot start at -1, the latest")
    return Bound(option, offsets)


def _ending(options: Mapping[str, str]) -> Bound:
    by_time = _by_time(options, "ending", or_latest=True)
    if by_time is not None:
        return by_time
    option = "endingOffsets"
    text = options.get("endingoffsets", "latest").strip()
    if text.lower() == "latest":
        return Bound(option, "latest")
    if text.lower() == "earliest":
        raise OptionError(option, text, "a query cannot end at the earliest")
    offsets = parse_offsets(option, text)
    if any(EARLIEST in by.values() for by in offsets.values()):
        raise OptionError(option, text, "a query cannot end at -2, the earliest")
    return Bound(option, offsets)


def _by_time(options: Mapping[str, str], end: str, *, or_latest: bool) -> Bound | None:
    """Read the timestamp option for all partitions, else that by partition; None without both."""
    option = f"{end}Timestamp"
    everywhere = whole_number(options, option, at_least=0)
    if everywhere is not None:
        return Bound(option, AtTime(everywhere, or_latest))
    option = f"{end}OffsetsByTimestamp"
    text = options.get(option.lower())
    if text is None:
        return None
    times = _by_partition(option, text, at_least=0, what="a time in milliseconds since 1970")
    return Bound(option, AtTime(times, or_latest))


def _check_order(starting: Bound, ending: Bound) -> None:
    """Raise OptionError for two bounds of one kind that contradict each other.

    Bounds of different kinds are checked later.
    """
    first, last = starting.at, ending.at
    if isinstance(first, AtTime) and isinstance(last, AtTime):
        first_ms, last_ms = first.times_ms, last.times_ms
        if isinstance(first_ms, int) and isinstance(last_ms, int):
            if last_ms < first_ms:
                raise OptionError(
                    ending.option, last_ms, f"is before {starting.option}, {first_ms}"
                )
        elif isinstance(first_ms, dict) and isinstance(last_ms, dict):
            _check_each(starting.option, first_ms, ending.option, last_ms)
    elif isinstance(first, dict) and isinstance(last, dict):
        _check_each(starting.option, first, ending.option, last)


def _check_each(start_option: str, first: Offsets, end_option: str, last: Offsets) -> None:
    begins = {(topic, p): start for topic, by in first.items() for p, start in by.items()}
    ends = {(topic, p): end for topic, by in last.items() for p, end in by.items()}
    if begins.keys() != ends.keys():
        names = ", ".join(f"{topic}-{p}" for topic, p in sorted(begins.keys() ^ ends.keys()))
        why = f"must name the partitions that {start_option} names: {names}"
        raise OptionError(end_option, last, why)
    for (topic, partition), end in ends.items():
        start = begins[topic, partition]
        if 0 <= end < start:
            why = f"{topic}-{partition} would end before its start, {start}"
            raise OptionError(end_option, end, why)


# -- how


def _client(options: Mapping[str, str]) -> dict[str, str]:
    """Return the consumer's settings, without a group: partitions are assigned, not joined."""
    _name(options, "kafka.group.id")
    _name(options, "groupIdPrefix")
    client = client_settings(options, ConsumerConfig)
    client.pop("group.id", None)
    return client


def _admission(options: Mapping[str, str]) -> Admission:
    found = Admission(
        min_offsets=whole_number(options, "minOffsetsPerTrigger", at_least=1),
        max_offsets=whole_number(options, "maxOffsetsPerTrigger", at_least=1),
        max_delay_ms=milliseconds(options, "maxTriggerDelay", default=MAX_DELAY_MS),
    )
    least, most = found.min_offsets, found.max_offsets
    if least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", least, f"is above maxOffsetsPerTrigger, {most}")
    return found


def _patience(options: Mapping[str, str]) -> Patience:
    given = {
        "poll_timeout_ms": whole_number(options, "kafkaConsumer.pollTimeoutMs", at_least=1),
        "retries": whole_number(options, "fetchOffset.numRetries", at_least=0),
        "retry_interval_ms": whole_number(options, "fetchOffset.retryIntervalMs", at_least=0),
    }
    return Patience(**{name: number for name, number in given.items() if number is not None})


def _name(options: Mapping[str, str], option: str) -> str | None:
    text = options.get(option.lower())
    if text is not None and not text.strip():
        raise OptionError(option, text, "name a consumer group, or leave it out")
    return None if text is None else text.strip()
