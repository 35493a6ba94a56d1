"""Offsets of the source in terms of the target: which syncs are written, and what they tell.

A sync says that one record is at `upstream` in the source and at `downstream` in the target.
Records of a partition keep their order, so that of everything behind that record it is known only
that it lies behind `downstream`. A translated offset is therefore never ahead of what was mirrored:
a group that goes on there may read records again, and skips none (KAFKA-12468, KAFKA-14610).
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from ...protocol.types import TopicPartition
from .codec import OffsetSync

MOST_SYNCS = 64
"""The most syncs that are kept of a partition, as in Kafka."""


class OffsetSyncStore:
    """The syncs of each partition: all of few, else dense near the newest and sparse far behind.

    One too many costs the sync that is missed least: whose neighbours are close to each other,
    compared with how far it is behind the newest. So the sync before an offset is, after some
    thousand million records, about half as far from it as the offset is from the newest.
    """

    def __init__(self) -> None:
        self._syncs: dict[TopicPartition, list[tuple[int, int]]] = {}

    def add(self, sync: OffsetSync) -> None:
        """Take a sync, in the order of the topic.

        One that goes back, upstream or downstream, or is where another record was, tells that a
        topic was made anew or is mirrored again: what was known before is forgotten.
        """
        upstream, downstream = sync.upstream, sync.downstream
        kept = self._syncs.setdefault(sync.partition, [])
        if kept and upstream == kept[-1][0] and downstream >= kept[-1][1]:
            kept.pop()
        elif kept and (upstream < kept[-1][0] or downstream <= kept[-1][1]):
            kept.clear()
        kept.append((upstream, downstream))
        if len(kept) > MOST_SYNCS:
            del kept[_least_missed([at for at, _ in kept])]

    def read(self, key: bytes, value: bytes) -> None:
        """Take a record of the topic; raise BadMirrorRecord if it is none."""
        self.add(OffsetSync.decode(key, value))

    def translate(self, partition: TopicPartition, upstream: int) -> int | None:
        """Return the offset at the target from which a group at `upstream` goes on.

        Return None if no sync at or before `upstream` is known.
        """
        kept = self._syncs.get(partition, [])
        found = bisect_right(kept, upstream, key=itemgetter(0))
        if not found:
            return None
        at, downstream = kept[found - 1]
        return downstream if at == upstream else downstream + 1

    def newest(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return (upstream, downstream) of the newest sync of a partition."""
        kept = self._syncs.get(partition)
        return kept[-1] if kept else None

    def count(self, partition: TopicPartition) -> int:
        """Return how many syncs of a partition are kept."""
        return len(self._syncs.get(partition, ()))


def _least_missed(offsets: list[int]) -> int:
    """Return the index of the offset to leave out; never the first or one of the newest two."""
    newest = offsets[-1]
    inner = range(1, len(offsets) - 2)
    return min(inner, key=lambda i: (offsets[i + 1] - offsets[i - 1]) / (newest - offsets[i]))


@dataclass(slots=True)
class _Last:
    """The newest mirrored record of a partition, and the newest sync that was due."""

    upstream: int = -1
    downstream: int = -1
    synced: int | None = None
    """The downstream offset of that sync; None before the first in this task's life."""


@dataclass(slots=True)
class SyncEmitter:
    """Decides of which mirrored records a sync is written; at most one per partition waits."""

    lag_max: int
    """The most records that a group may read again because a sync is old (offset.lag.max)."""
    _last: dict[TopicPartition, _Last] = field(default_factory=dict)
    _due: dict[TopicPartition, OffsetSync] = field(default_factory=dict)
    _later: dict[TopicPartition, OffsetSync] = field(default_factory=dict)
    _sent: dict[TopicPartition, OffsetSync] = field(default_factory=dict)

    def on_mirrored(self, sync: OffsetSync) -> None:
        """Take the places of a record that is at the target for good.

        A sync is due at once with the first record, behind a gap at the source, if the target went
        back, and every `lag_max` records; else with the next commit of offsets.
        """
        last = self._last.setdefault(sync.partition, _Last())
        is_due = (
            last.synced is None
            or sync.downstream - (last.synced + 1) >= self.lag_max
            or sync.upstream - last.upstream != 1
            or sync.downstream <= last.downstream
        )
        last.upstream, last.downstream = sync.upstream, sync.downstream
        if is_due:
            last.synced = sync.downstream
            self._later.pop(sync.partition, None)
            self._due[sync.partition] = sync
        else:
            self._later[sync.partition] = sync

    def on_commit(self) -> None:
        """Make the newest place of every partition due, so that a quiet partition is exact."""
        self._due |= self._later
        self._later.clear()

    def again(self, sync: OffsetSync) -> None:
        """Make a sync due again that was not written, unless a newer one waits or was sent.

        A reader takes one that comes behind a newer one for a topic made anew.
        """
        if sync.partition not in self._later and self._sent.get(sync.partition) == sync:
            self._due.setdefault(sync.partition, sync)

    def next_due(self) -> OffsetSync | None:
        """Return a sync to write now, and count it as written; None if there is none."""
        if not self._due:
            return None
        partition, sync = next(iter(self._due.items()))
        self._sent[partition] = sync
        return self._due.pop(partition)
