"""Computes the offsets of `consumer-groups --reset-offsets` from scenarios, times and CSV files."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?[\d.]+)S)?)?",
    re.IGNORECASE,
)
Offsets = dict[str, dict[TopicPartition, int]]
"""The offset of each partition of each group, by group id."""


class Scenario(Enum):
    """The ways in which the flags determine the new offset."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    DATETIME = "--to-datetime"
    DURATION = "--by-duration"
    FILE = "--from-file"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets that bound the reset of one partition."""

    begin: int
    end: int
    committed: int | None
    at_time: int | None = None
    """The first offset at or after the requested time; None if there is none."""


def new_offset(
    scenario: Scenario, amount: int, partition: TopicPartition, bounds: Bounds
) -> tuple[int, str | None]:
    """Return a partition's new offset, and a warning (or None) if it is not the one requested.

    `amount` is the offset for OFFSET, the difference for SHIFT. Raise ConfigError for SHIFT without
    a committed offset.
    """
    if scenario is Scenario.EARLIEST:
        return bounds.begin, None
    if scenario is Scenario.CURRENT and bounds.committed is not None:
        return bounds.committed, None
    if scenario in (Scenario.DATETIME, Scenario.DURATION) and bounds.at_time is not None:
        return bounds.at_time, None
    if scenario is Scenario.OFFSET or scenario is Scenario.FILE:
        return _within(amount, partition, bounds)
    if scenario is Scenario.SHIFT:
        if bounds.committed is None:
            where = f"{partition.topic}-{partition.partition}"
            why = f"cannot shift {where}: it has no committed offset"
            raise ConfigError(scenario.value, str(amount), why)
        return _within(bounds.committed + amount, partition, bounds)
    return bounds.end, None


def _within(offset: int, partition: TopicPartition, bounds: Bounds) -> tuple[int, str | None]:
    where = f"topic partition {partition.topic}-{partition.partition}"
    if offset > bounds.end:
        why = f"New offset ({offset}) is higher than latest offset for {where}."
        return bounds.end, f"{why} Value will be set to {bounds.end}"
    if offset < bounds.begin:
        why = f"New offset ({offset}) is lower than earliest offset for {where}."
        return bounds.begin, f"{why} Value will be set to {bounds.begin}"
    return offset, None


def datetime_ms(text: str) -> int:
    """Parse YYYY-MM-DDTHH:mm:SS.sss, UTC unless it names a zone, into ms since the epoch.

    Raise ConfigError for another text.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        why = "must look like 2026-01-31T10:00:00.000, with a zone or in UTC"
        raise ConfigError(Scenario.DATETIME.value, text, why) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration, PnDTnHnMnS, into ms; raise ConfigError for another text."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found[unit] for unit in ("days", "hours", "minutes", "seconds")):
        why = "must look like P1DT2H3M4S"
        raise ConfigError(Scenario.DURATION.value, text, why)
    length = timedelta(
        days=int(found["days"] or 0),
        hours=int(found["hours"] or 0),
        minutes=int(found["minutes"] or 0),
        seconds=float(found["seconds"] or 0),
    )
    total = round(length.total_seconds() * 1000)
    return -total if found["sign"] == "-" else total


def partitions_of(text: str) -> tuple[str, list[int] | None]:
    """Parse `topic` or `topic:0,1`; the partitions are None if the text has none, which means all.

    Raise ConfigError if the partitions are not numbers.
    """
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(index) for index in indexes.split(",")]
    except ValueError:
        raise ConfigError("--topic", text, "must look like topic or topic:0,1") from None


def csv_text(offsets: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    """Return the CSV of `--export`: a line per partition, with the group's name if wanted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group_id, found in offsets.items():
        for (topic, index), offset in sorted(found.items()):
            writer.writerow([*([group_id] if with_group else []), topic, index, offset])
    return out.getvalue()


def read_csv(text: str, groups: Sequence[str]) -> Offsets:
    """Parse CSV of `--export`, with or without group names; ConfigError names a bad line."""
    found: Offsets = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            if len(row) == 4:
                group_id, topic, index, offset = row
            else:
                (topic, index, offset), (group_id,) = row, groups
            where = TopicPartition(topic, int(index))
            found.setdefault(group_id, {})[where] = int(offset)
        except ValueError:
            why = "must be group,topic,partition,offset (the group only if there are several)"
            raise ConfigError("--from-file", f"line {number}", why) from None
    return found
