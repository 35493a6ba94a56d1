"""Which offsets a query or a micro-batch reads: pure arithmetic on topic -> partition -> offset.

Never talks to a broker. The JSON form that Spark writes into its checkpoint is
`{"topic": {"0": 123}}`, the same as the JVM connector's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .options import EARLIEST, LATEST, Offsets, OptionError


class DataLoss(RuntimeError):
    """Records that the query should read are gone; `failOnDataLoss` decides what that means."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Give offsets the form of a checkpoint: partition numbers become strings."""
    return {
        topic: {str(partition): offset for partition, offset in sorted(by_partition.items())}
        for topic, by_partition in sorted(offsets.items())
    }


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read what `to_json` made."""
    return {
        topic: {int(partition): offset for partition, offset in by_partition.items()}
        for topic, by_partition in offsets.items()
    }


def resolve(option: str, wanted: str | Offsets, earliest: Offsets, latest: Offsets) -> Offsets:
    """Turn a word or a JSON of offsets into an offset for every partition there is.

    A JSON must name exactly the partitions that are read: one that is forgotten would be
    a silent gap, one too many a typing error.
    """
    if wanted == "earliest":
        return earliest
    if wanted == "latest":
        return latest
    assert isinstance(wanted, dict)
    known = {(topic, partition) for topic, by in latest.items() for partition in by}
    named = {(topic, partition) for topic, by in wanted.items() for partition in by}
    if known != named:
        differing = ", ".join(f"{topic}-{p}" for topic, p in sorted(known ^ named))
        raise OptionError(
            option, to_json(wanted), f"name every partition that is read and no other: {differing}"
        )
    special = {EARLIEST: earliest, LATEST: latest}
    return {
        topic: {
            partition: special[offset][topic][partition] if offset in special else offset
            for partition, offset in by.items()
        }
        for topic, by in wanted.items()
    }


def limited(start: Offsets, latest: Offsets, limit: int | None) -> Offsets:
    """Move from `start` towards `latest` by at most about `limit` records.

    Each partition gets its share by how far it is behind, at least one record while the limit
    lasts, so that a small partition is not starved by a large one.
    """
    behind = {
        (topic, partition): max(0, offset - start[topic][partition])
        for topic, by in latest.items()
        for partition, offset in by.items()
    }
    total = sum(behind.values())
    if limit is None or total <= limit:
        return {
            topic: {p: max(offset, start[topic][p]) for p, offset in by.items()}
            for topic, by in latest.items()
        }
    left = limit
    end: Offsets = {topic: dict(start[topic]) for topic in latest}
    for topic, partition in sorted(behind):
        share = min(behind[topic, partition], max(1, limit * behind[topic, partition] // total))
        share = min(share, left) if behind[topic, partition] else 0
        end[topic][partition] = start[topic][partition] + share
        left -= share
    return end


def with_new_partitions(start: Offsets, latest: Offsets, earliest: Offsets) -> Offsets:
    """Add partitions that appeared since `start`: they are read from their beginning."""
    return {
        topic: {p: start.get(topic, {}).get(p, earliest[topic][p]) for p in by}
        for topic, by in latest.items()
    }


def ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """List what lies between, without empty ranges, in a fixed order."""
    return [
        OffsetRange(topic, partition, start[topic][partition], offset)
        for topic, by in sorted(end.items())
        for partition, offset in sorted(by.items())
        if offset > start[topic][partition]
    ]


def check_progress(previous: Offsets, current: Offsets) -> None:
    """Refuse partitions that vanished or whose log ends before what was read: DataLoss."""
    for topic, by in sorted(previous.items()):
        for partition, offset in sorted(by.items()):
            now = current.get(topic, {}).get(partition)
            if now is None:
                raise DataLoss(f"{topic}-{partition} was read up to {offset} and is gone")
            if now < offset:
                raise DataLoss(
                    f"{topic}-{partition} was read up to {offset} and now ends at {now}: "
                    "the topic was made anew or lost records"
                )


def never_behind(start: Offsets, latest: Offsets) -> Offsets:
    """Keep partitions that vanished or shrank at where they were read up to."""
    kept = {topic: dict(by) for topic, by in latest.items()}
    for topic, by in start.items():
        for partition, offset in by.items():
            there = kept.setdefault(topic, {})
            there[partition] = max(offset, there.get(partition, offset))
    return kept
