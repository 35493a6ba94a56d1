"""Reassignments: those under way, and a plan for a topic with the bytes it would copy. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ....client.admin.log_types import LogDirectory
from ....client.admin.topic_types import Reassignment, TopicDescription
from ....client.cli.reassignment import Placement, propose, to_json
from ....protocol.types import TopicPartition

MOST_MOVING: Final = 200


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition that is being reassigned."""

    where: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]
    cancel: str
    """The plan that cancels the reassignment, as JSON."""

    @property
    def arrived(self) -> int:
        """The number of new replicas that are in sync already."""
        return sum(broker in self.isr for broker in self.adding)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A partition in a plan, with its present and its planned replicas."""

    where: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int | None
    """Bytes that the plan copies for this partition; None if the leader's size is unknown."""

    @property
    def is_moved(self) -> bool:
        """True if the plan changes this partition's replicas."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class MovesView:
    """Reassignments and the plan, as they are shown."""

    moving: tuple[MoveRow, ...]
    """The first `MOST_MOVING` partitions that are being reassigned."""
    moving_count: int
    topic: str
    brokers: str
    wrong: str
    plan: tuple[PlanRow, ...]
    plan_text: str

    @property
    def copied(self) -> int | None:
        """Bytes that the whole plan copies; None if the size of a partition is unknown."""
        sizes = [row.size for row in self.plan if row.is_moved]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def moving_rows(
    moving: Mapping[TopicPartition, Reassignment], topics: Mapping[str, TopicDescription]
) -> tuple[MoveRow, ...]:
    """List the first MOST_MOVING partitions that are being reassigned."""
    rows = []
    for where, one in sorted(moving.items())[:MOST_MOVING]:
        topic = topics.get(where.topic)
        isr = (
            next((p.isr for p in topic.partitions if p.partition == where.partition), ())
            if topic
            else ()
        )
        cancel = to_json({where: one.replicas})
        rows.append(MoveRow(where, one.replicas, one.adding, one.removing, isr, cancel))
    return tuple(rows)


def placement_of(topic: TopicDescription) -> Placement:
    """Return where the replicas of a topic are."""
    return {TopicPartition(topic.name, one.partition): one.replicas for one in topic.partitions}


def plan_rows(
    topic: TopicDescription,
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
) -> tuple[PlanRow, ...]:
    """Plan a topic's replicas on the brokers in `racks`; raise ConfigError if they are too few."""
    before = placement_of(topic)
    after = propose(before, racks)
    return tuple(
        PlanRow(
            where,
            tuple(before[where]),
            tuple(after[where]),
            _copied(where, tuple(before[where]), tuple(after[where]), sizes),
        )
        for where in sorted(before)
    )


def _copied(
    where: TopicPartition,
    before: tuple[int, ...],
    after: tuple[int, ...],
    sizes: Mapping[TopicPartition, int],
) -> int | None:
    new = sum(broker not in before for broker in after)
    return sizes[where] * new if where in sizes else None if new else 0


def largest_sizes(
    log_dirs: Mapping[int, Mapping[str, LogDirectory]], topic: str
) -> dict[TopicPartition, int]:
    """Return the size of each partition of a topic, taken from its largest replica."""
    sizes: dict[TopicPartition, int] = {}
    for directories in log_dirs.values():
        for directory in directories.values():
            for where, replica in directory.replicas.items():
                if where.topic == topic:
                    sizes[where] = max(sizes.get(where, 0), replica.size)
    return sizes
