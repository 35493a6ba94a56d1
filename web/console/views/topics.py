"""The list of topics, and one topic with its partitions. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ....client.admin.topic_types import PartitionDescription, TopicDescription
from ....protocol.types import TopicPartition
from .pages import Page, page_of
from .sight import Sight, is_under_replicated

ONLY: Final = ("", "offline", "under-min-isr", "under-replicated", "internal")


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list."""

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    under_min_isr: int
    offline: int


@dataclass(frozen=True, slots=True)
class TopicList:
    """The topics of one page."""

    page: Page[TopicRow]
    only: str


def topics_of(sight: Sight, query: str, only: str, number: int) -> TopicList:
    """List topics by name; `only` restricts the list to those in trouble, or to internal ones."""
    only = only if only in ONLY else ""
    rows = [_row(sight, sight.topics[name]) for name in sorted(sight.topics)]
    kept = [row for row in rows if _is_wanted(row, only)]
    return TopicList(page_of(kept, query, number, lambda row: row.name), only)


def _is_wanted(row: TopicRow, only: str) -> bool:
    match only:
        case "offline":
            return row.offline > 0
        case "under-min-isr":
            return row.under_min_isr > 0
        case "under-replicated":
            return row.under_replicated > 0
        case "internal":
            return row.is_internal
    return not row.is_internal


def _row(sight: Sight, topic: TopicDescription) -> TopicRow:
    least = sight.min_isr.get(topic.name, 0)
    return TopicRow(
        topic.name,
        topic.is_internal,
        len(topic.partitions),
        max((len(one.replicas) for one in topic.partitions), default=0),
        sum(is_under_replicated(one) for one in topic.partitions),
        sum(len(one.isr) < least for one in topic.partitions),
        sum(one.leader_id < 0 for one in topic.partitions),
    )


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of a topic."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[tuple[int, str], ...]
    """Each replica's broker and its role: leader, in-sync, eligible, behind or offline."""
    start: int | None
    end: int | None
    is_under_replicated: bool
    is_preferred: bool

    @property
    def count(self) -> int | None:
        """The number of offsets in the log, an upper bound of its records.

        None if it is unknown.
        """
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as it is shown."""

    name: str
    topic_id: str
    is_internal: bool
    rows: tuple[PartitionRow, ...]
    """The first `MOST_PARTITIONS` partitions."""
    partitions: int
    moving: tuple[int, ...]

    @property
    def count(self) -> int | None:
        """The number of offsets in all partitions that are shown.

        None if that of one is unknown.
        """
        known = [row.count for row in self.rows if row.count is not None]
        return sum(known) if len(known) == len(self.rows) else None


MOST_PARTITIONS: Final = 1_000


def topic_of(
    topic: TopicDescription,
    moving: Iterable[TopicPartition],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> TopicView:
    """Return the view of a topic; `moving` are the partitions that are being reassigned."""
    rows = []
    for one in topic.partitions[:MOST_PARTITIONS]:
        where = TopicPartition(topic.name, one.partition)
        rows.append(
            PartitionRow(
                one.partition,
                one.leader_id,
                one.leader_epoch,
                tuple((broker, part_of(broker, one)) for broker in one.replicas),
                starts.get(where),
                ends.get(where),
                is_under_replicated(one),
                bool(one.replicas) and one.leader_id == one.replicas[0],
            )
        )
    return TopicView(
        topic.name,
        topic.topic_id,
        topic.is_internal,
        tuple(rows),
        len(topic.partitions),
        tuple(index for _, index in moving),
    )


def part_of(broker: int, one: PartitionDescription) -> str:
    """Return the role of a broker in a partition."""
    if broker == one.leader_id:
        return "leader"
    if broker in one.isr:
        return "in-sync"
    if broker in (one.eligible_leader_replicas or ()):
        return "eligible"
    return "offline" if broker in one.offline_replicas else "behind"
