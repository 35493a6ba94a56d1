"""The log of elections: who took over from whom, between two looks at the cluster. Pure."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ....client.admin.topic_types import PartitionDescription, TopicDescription
from ....protocol.types import TopicPartition
from .sight import Sight

MOST_ELECTIONS: Final = 200
MOST_NAMED: Final = 5


@dataclass(slots=True)
class Election:
    """The partitions whose leadership went from one broker to another between two looks."""

    looked_ms: int
    """The last time when the former leader was seen, in ms since the epoch."""
    seen_ms: int
    before: int
    """The broker that led, or the controller that was active; -1 if there was none."""
    after: int
    epoch: int
    """The leader epoch of the controllers, or of the first partition."""
    partitions: list[TopicPartition] = field(default_factory=list)
    """The first MOST_NAMED partitions; none if the controllers elected."""
    count: int = 0
    """The number of all these partitions."""


@dataclass(frozen=True, slots=True)
class ElectionsView:
    """The elections that were seen, newest first."""

    since_ms: int
    """The time of the console's first look at the cluster, in ms since the epoch."""
    rows: tuple[Election, ...]


class Elections:
    """Compares each look at the cluster with the one before; remembers MOST_ELECTIONS rows."""

    def __init__(self) -> None:
        self._first_ms: int | None = None
        self._last: Sight | None = None
        self._rows: deque[Election] = deque(maxlen=MOST_ELECTIONS)

    def on_sight(self, sight: Sight) -> None:
        """Note the elections since the last look; a look that is not newer is ignored."""
        last = self._last
        if last is not None and sight.at_ms <= last.at_ms:
            return
        self._last = sight
        if last is None:
            self._first_ms = sight.at_ms
            return
        rows: dict[tuple[int, int], Election] = {}
        for name, topic in sight.topics.items():
            for old, new in _changed(last.topics.get(name), topic):
                pair = old.leader_id, new.leader_id
                if pair not in rows:
                    rows[pair] = Election(last.at_ms, sight.at_ms, *pair, new.leader_epoch)
                row = rows[pair]
                row.count += 1
                if row.count <= MOST_NAMED:
                    row.partitions.append(TopicPartition(name, new.partition))
        self._rows.extendleft(rows.values())
        before, after = last.quorum, sight.quorum
        if before and after and after.leader_epoch > before.leader_epoch:
            pair = before.leader_id, after.leader_id
            self._rows.appendleft(Election(last.at_ms, sight.at_ms, *pair, after.leader_epoch))

    def view(self) -> ElectionsView:
        """Return the elections seen so far."""
        return ElectionsView(self._first_ms or 0, tuple(self._rows))


def _changed(
    before: TopicDescription | None, after: TopicDescription
) -> list[tuple[PartitionDescription, PartitionDescription]]:
    """Pair the partitions of a topic whose leader changed, or was elected again."""
    if before is None or before.topic_id != after.topic_id:
        return []
    pairs = zip(before.partitions, after.partitions, strict=False)
    return [(old, new) for old, new in pairs if new.leader_epoch > old.leader_epoch]
