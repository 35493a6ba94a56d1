"""The offsets, members and lag of the groups that a broker coordinates, named as kafka_exporter's.

As in kafka_exporter, lag is the distance to the high watermark. `minikafka_consumergroup_lag_*`
counts only records that a consumer would get, so no markers and no records of aborted transactions.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ...runtime.metrics import Family, Sample, gauge, labels
from ..edge import Edge
from .group_lag import NAME_MAX, OFFSETS_MAX, GroupLag, Unread

_GROUP = "kafka_consumergroup_"
_LAG = "minikafka_consumergroup_lag_"
NOTHING = Unread(0, 0, -1)


class Row(NamedTuple):
    """One committed offset, with its labels (`tail`) and its lag."""

    tail: str
    of_topic: tuple[str, str]
    """The group and the topic."""
    offset: int
    lag: int | None
    """The lag in offsets; None if the leader has not reported its high watermark."""
    unread: Unread | None


class GroupMetrics:
    """Collects the offsets and the lag of the groups that a broker coordinates."""

    def __init__(self, edge: Edge, lag: GroupLag) -> None:
        self._edge = edge
        self._lag = lag

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of a scrape; lags come from earlier answers of the leaders."""
        self._lag.ask_soon()
        rows: list[Row] = []
        yield gauge(
            _GROUP + "current_offset", "Offset that a group has committed.", self._walk(rows)
        )
        yield gauge(
            _GROUP + "current_offset_sum",
            "Sum of the offsets that a group has committed in a topic.",
            _sums((row.of_topic, row.offset) for row in rows),
        )
        yield gauge(
            _GROUP + "lag",
            "Offsets between a group's committed offset and the high watermark.",
            ((row.tail, row.lag) for row in rows if row.lag is not None),
        )
        yield gauge(
            _GROUP + "lag_sum",
            "Sum of a group's lag in a topic.",
            _sums((row.of_topic, row.lag) for row in rows if row.lag is not None),
        )
        yield from self._unread(rows)
        yield gauge(_GROUP + "members", "Members of a group.", self._members())
        yield gauge(
            "minikafka_consumergroup_offsets_left_out",
            f"Committed offsets beyond the first {OFFSETS_MAX}, or of groups with ids longer than "
            f"{NAME_MAX} characters, which are not reported.",
            sum(len(shard.state.offsets) for shard in self._edge.groups.shards) - len(rows),
        )

    def _walk(self, rows: list[Row]) -> Iterator[Sample]:
        lag = self._lag
        for group, place, offset in lag.committed():
            tail, end = _of_offset(group, *place), lag.end_of(place)
            missing = None if end is None else max(0, end - offset)
            unread = NOTHING if missing == 0 else lag.unread(group, place)
            rows.append(Row(tail, (group, place[0]), offset, missing, unread))
            yield tail, offset

    def _unread(self, rows: list[Row]) -> Iterator[Family]:
        wall_ms = self._edge.runtime.wall_ms()
        known = [(row.tail, row.unread) for row in rows if row.unread is not None]
        yield gauge(
            _LAG + "records",
            "Records that a group has not read yet.",
            ((tail, unread.records) for tail, unread in known),
        )
        yield gauge(
            _LAG + "bytes",
            "Bytes of the batches that a group has not read yet.",
            ((tail, unread.size_bytes) for tail, unread in known),
        )
        yield gauge(
            _LAG + "seconds",
            "Age in seconds of the oldest record that a group has not read; 0 if there is none.",
            ((tail, _age(unread.oldest_ms, wall_ms)) for tail, unread in known),
        )

    def _members(self) -> Iterator[Sample]:
        shards = list(self._edge.groups.shards)
        every = [group for shard in shards for group in shard.state.groups.values()]
        named = [group for group in every if len(group.group_id) <= NAME_MAX]
        for group in named[:OFFSETS_MAX]:
            yield labels(consumergroup=group.group_id), len(group.roster.members)


def _age(oldest_ms: int, wall_ms: int) -> float:
    return 0 if oldest_ms < 0 else max(0, wall_ms - oldest_ms) / 1000


def _sums(values: Iterator[tuple[tuple[str, str], int]]) -> Iterator[Sample]:
    sums: dict[tuple[str, str], int] = {}
    for key, value in values:
        sums[key] = sums.get(key, 0) + value
    return ((labels(consumergroup=group, topic=topic), sums[group, topic]) for group, topic in sums)


@lru_cache(maxsize=2 * OFFSETS_MAX)
def _of_offset(group: str, topic: str, partition: int) -> str:
    return labels(consumergroup=group, topic=topic, partition=partition)
