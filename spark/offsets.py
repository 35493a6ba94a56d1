"""The offsets that a query or a micro-batch reads: arithmetic on topic -> partition -> offset.

Never talks to a broker. The JSON form that Spark writes into its checkpoint is
`{"topic": {"0": 123}}`, the same as the JVM connector's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace

from ..runtime.errors import MinikafkaError
from .options import EARLIEST, LATEST, Offsets, OptionError, is_partition
from .source_options import Bound, Splitting


class DataLoss(RuntimeError):
    """Records that a query should read are gone; `failOnDataLoss` decides if the query fails."""


class ForeignOffsets(MinikafkaError, ValueError):
    """The offsets in a checkpoint are not those of this source."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition from `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = field(default="", compare=False)
    """The id of the topic when the range was planned; empty if not known."""

    @property
    def size(self) -> int:
        """The number of offsets; there are at most as many records."""
        return self.end - self.start


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets in the form of a checkpoint: partition numbers become strings."""
    return {
        topic: {str(partition): offset for partition, offset in sorted(by_partition.items())}
        for topic, by_partition in sorted(offsets.items())
    }


def from_json(offsets: object) -> Offsets:
    """Read offsets that `to_json` or the JVM connector wrote. Raise ForeignOffsets for others."""
    if isinstance(offsets, Mapping) and all(
        isinstance(by, Mapping) and all(map(_is_offset, by.items())) for by in offsets.values()
    ):
        return {
            topic: {int(partition): offset for partition, offset in by.items()}
            for topic, by in offsets.items()
        }
    raise ForeignOffsets(
        f"the checkpoint holds {offsets!r}, which is no offset of this source "
        '({"topic":{"0":123}}): give this query a checkpointLocation of its own'
    )


def _is_offset(item: tuple[object, object]) -> bool:
    partition, offset = item
    return isinstance(partition, str) and is_partition(partition) and type(offset) is int


def resolve(bound: Bound, earliest: Offsets, latest: Offsets) -> Offsets:
    """Turn a bound into an offset for every partition there is.

    A JSON of offsets must name exactly the partitions that are read: a partition left out would be
    a silent gap, and an extra one is a typing error. Raise OptionError otherwise.
    """
    if bound.at == "earliest":
        return _copy(earliest)
    if bound.at == "latest":
        return _copy(latest)
    assert isinstance(bound.at, dict)
    check_names_all(bound.option, bound.at, latest)
    special = {EARLIEST: earliest, LATEST: latest}
    return {
        topic: {
            partition: special[offset][topic][partition] if offset in special else offset
            for partition, offset in by.items()
        }
        for topic, by in bound.at.items()
    }


def check_names_all(option: str, wanted: Offsets, existing: Offsets) -> None:
    """Raise OptionError if offsets do not name exactly the partitions there are."""
    known = {(topic, partition) for topic, by in existing.items() for partition in by}
    named = {(topic, partition) for topic, by in wanted.items() for partition in by}
    if known != named:
        differing = ", ".join(f"{topic}-{p}" for topic, p in sorted(known ^ named))
        why = f"name every partition that is read and no other: {differing}"
        raise OptionError(option, to_json(wanted), why)


def check_not_reversed(starting: Bound, start: Offsets, ending: Bound, end: Offsets) -> None:
    """Raise OptionError for a start after the end.

    Bounds of different kinds show this only when they are resolved.
    """
    for topic, by in sorted(end.items()):
        for partition, last in sorted(by.items()):
            if last < start[topic][partition]:
                first = start[topic][partition]
                why = f"{topic}-{partition} would end at {last}, before its start at {first}"
                raise OptionError(ending.option, ending.at, f"{why} ({starting.option})")


def limited(start: Offsets, latest: Offsets, limit: int | None) -> Offsets:
    """Move from `start` towards `latest` by at most `limit` records.

    Each partition that is behind gets one record before any gets more, so that small partitions are
    not starved by large ones; the rest is shared in proportion to how far each is behind. If the
    limit is below the number of partitions, they take turns from call to call. A partition whose
    log now ends before `start` goes back to that end: the loss was reported, and later records are
    read.
    """
    behind = {
        (topic, partition): max(0, offset - start[topic][partition])
        for topic, by in latest.items()
        for partition, offset in by.items()
    }
    if limit is None or sum(behind.values()) <= limit:
        return _copy(latest)
    waiting = sorted(each for each, count in behind.items() if count > 0)
    # The sum of the offsets decides whose turn it is. It grows by the limit, so no partition is
    # passed over.
    first = sum(sum(by.values()) for by in start.values()) % len(waiting)
    in_turn = [*waiting[first:], *waiting[:first]]
    shares = _shares({each: behind[each] for each in in_turn}, limit)
    return {
        topic: {
            partition: min(start[topic][partition] + shares.get((topic, partition), 0), offset)
            for partition, offset in by.items()
        }
        for topic, by in latest.items()
    }


def _shares(behind: dict[tuple[str, int], int], limit: int) -> dict[tuple[str, int], int]:
    """Share out a limit below the sum: in proportion, but at least one to each if possible."""
    if limit <= len(behind):
        return dict.fromkeys(list(behind)[:limit], 1)
    shares: dict[tuple[str, int], int] = {}
    left, wanting = limit, sum(behind.values())
    # The smallest comes first, and each gets its part of what is left. So shares that are rounded
    # up cost only larger partitions, and nothing remains in the end.
    for each, want in sorted(behind.items(), key=lambda item: item[1]):
        shares[each] = max(1, left * want // wanting)
        left -= shares[each]
        wanting -= want
    return shares


def at_most(offsets: Offsets, target: Offsets, start: Offsets) -> Offsets:
    """Lower each offset to its target; a partition without a target stays at its start.

    A partition that has no start either is left out, for a later query.
    """
    ends = {
        topic: {p: min(offset, target[topic][p]) for p, offset in by.items() if p in target[topic]}
        for topic, by in offsets.items()
        if topic in target
    }
    for topic, by in offsets.items():
        for partition in by:
            if partition in start.get(topic, {}) and partition not in target.get(topic, {}):
                ends.setdefault(topic, {})[partition] = start[topic][partition]
    return ends


def with_new_partitions(start: Offsets, end: Offsets, earliest: Offsets) -> Offsets:
    """Give each partition of `end` a start: its earliest offset if `start` lacks it."""
    return {
        topic: {p: start[topic][p] if p in start.get(topic, {}) else earliest[topic][p] for p in by}
        for topic, by in end.items()
    }


def new_partitions(start: Offsets, end: Offsets) -> dict[str, tuple[int, ...]]:
    """List the partitions of `end` that `start` lacks."""
    found = {t: tuple(p for p in by if p not in start.get(t, {})) for t, by in end.items()}
    return {topic: partitions for topic, partitions in found.items() if partitions}


def ranges(
    start: Offsets, end: Offsets, topic_ids: Mapping[str, str] | None = None
) -> list[OffsetRange]:
    """List the ranges from `start` to `end`, without empty ones, in a fixed order."""
    known = topic_ids or {}
    return [
        OffsetRange(topic, partition, start[topic][partition], offset, known.get(topic, ""))
        for topic, by in sorted(end.items())
        for partition, offset in sorted(by.items())
        if offset > start[topic][partition]
    ]


def split(ranges: list[OffsetRange], how: Splitting) -> list[OffsetRange]:
    """Cut ranges into about equal parts, so that more tasks read them; keep their order.

    No part has more offsets than `max_records`. Then the largest ranges are cut further, until
    there are `min_partitions` parts, or every part is a single offset.
    """
    most = how.max_records
    parts = [1 if most is None else -(-each.size // most) for each in ranges]
    wanted = 0 if how.min_partitions is None else how.min_partitions
    largest = [
        (-each.size / count, i) for i, (each, count) in enumerate(zip(ranges, parts, strict=True))
    ]
    heapify(largest)
    for _ in range(wanted - sum(parts)):
        if not largest or largest[0][0] >= -1:
            break
        i = largest[0][1]
        parts[i] += 1
        heapreplace(largest, (-ranges[i].size / parts[i], i))
    return [
        replace(
            each,
            start=each.start + each.size * n // count,
            end=each.start + each.size * (n + 1) // count,
        )
        for each, count in zip(ranges, parts, strict=True)
        for n in range(count)
    ]


def has_shrunk(start: Offsets, latest: Offsets) -> bool:
    """True if a log ends before the offset to start from."""
    return any(offset < start[topic][p] for topic, by in latest.items() for p, offset in by.items())


def waiting(start: Offsets, end: Offsets) -> int:
    """Count the offsets from `start` to `end`."""
    return sum(each.size for each in ranges(start, end))


def losses(previous: Offsets, latest: Offsets) -> list[str]:
    """Describe the partitions that are gone, and the logs that end before `previous`."""
    found: list[str] = []
    for topic, by in sorted(previous.items()):
        for partition, offset in sorted(by.items()):
            now = latest.get(topic, {}).get(partition)
            if now is None:
                found.append(
                    f"{topic}-{partition} was read up to {offset} and is gone, or read no more"
                )
            elif now < offset:
                found.append(
                    f"{topic}-{partition} was read up to {offset} and now ends at {now}: "
                    "the topic was made anew or lost records"
                )
    return found


def outside(wanted: Offsets, earliest: Offsets, latest: Offsets) -> list[str]:
    """Describe the offsets that the logs do not hold: deleted already, or not written yet."""
    found: list[str] = []
    for topic, by in sorted(wanted.items()):
        for partition, offset in sorted(by.items()):
            first, last = earliest[topic][partition], latest[topic][partition]
            if not first <= offset <= last:
                found.append(
                    f"{topic}-{partition} holds offsets {first} to {last}, wanted was {offset}"
                )
    return found


def clamped(wanted: Offsets, earliest: Offsets, latest: Offsets) -> Offsets:
    """Move offsets outside a log to its nearest end."""
    return {
        topic: {
            p: min(max(offset, earliest[topic][p]), latest[topic][p]) for p, offset in by.items()
        }
        for topic, by in wanted.items()
    }


def _copy(offsets: Offsets) -> Offsets:
    return {topic: dict(by) for topic, by in offsets.items()}
