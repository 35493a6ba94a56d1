"""Options of the source, read once into typed values: strings in, frozen values out.

Names and meanings are those of Spark's own Kafka connector; what is wrong is an OptionError before
any job starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..client.config import ConsumerConfig
from .options import (
    EARLIEST,
    LATEST,
    Offsets,
    OptionError,
    check_names,
    client_settings,
    flag,
    json_object,
    lower_names,
    whole_number,
)

_KNOWN: Final = (
    "assign",
    "commitOffsetsGroup",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "startingOffsets",
    "subscribe",
)


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
    commit_offsets_group: str | None
    """The consumer group that is told of the progress, as a hint for tools."""


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a source; OptionError names the option, its value and what is allowed."""
    options = lower_names(options)
    check_names(options, _KNOWN)
    topics, assigned = _what_to_read(options)
    max_offsets = whole_number(options, "maxOffsetsPerTrigger", at_least=1)
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
    client = client_settings(options, ConsumerConfig)
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
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        include_headers=flag(options, "includeHeaders", default=False),
        commit_offsets_group=_group(options, streaming=streaming),
    )


def parse_offsets(option: str, text: str) -> Offsets:
    """Read `{"topic":{"0":123}}`, where -2 is the earliest and -1 the latest offset."""
    found: Offsets = {}
    for topic, partitions in json_object(option, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(option, text, 'write {"topic":{"0":123}}')
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise OptionError(
                    option, text, f"partition {partition!r} needs an offset of -2 or more"
                )
            found.setdefault(topic, {})[int(partition)] = offset
    return found


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
    for topic, partitions in json_object("assign", text).items():
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


def _group(options: Mapping[str, str], *, streaming: bool) -> str | None:
    group = options.get("commitoffsetsgroup")
    if group is None:
        return None
    if not group.strip():
        raise OptionError("commitOffsetsGroup", group, "name a consumer group, or leave it out")
    if not streaming:
        raise OptionError(
            "commitOffsetsGroup", group, "only a streaming query has progress; leave it out"
        )
    return group.strip()
