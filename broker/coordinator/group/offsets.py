"""Committed offsets of the groups of one shard, and those that transactions are about to commit.

Only replayed records change offsets. A transaction's offsets are pending, by producer, until its
marker. A commit marker makes each of these offsets effective, unless a later record of the log has
already set another offset (KIP-98).
"""

from collections.abc import Iterator
from typing import NamedTuple

from ....protocol.coordinator_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from ....protocol.types import NO_TIMESTAMP


class Committed(NamedTuple):
    """One committed offset, and when it was committed."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_wall_ms: int
    expire_wall_ms: int
    """The wall time in ms at which the offset expires; -1 if the client set no retention."""
    position: int
    """The log offset of the record that commits it."""

    @classmethod
    def of(cls, value: OffsetCommitValue, position: int) -> "Committed":
        """Make a committed offset from a record's value; `position` is the record's log offset."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            position,
        )


Place = tuple[str, int]
"""Topic and partition."""
OfGroup = dict[Place, Committed]
NOTHING: OfGroup = {}


class Offsets:
    """Offsets by group, and pending ones by producer and group."""

    def __init__(self) -> None:
        self._groups: dict[str, OfGroup] = {}
        self._pending: dict[int, dict[str, OfGroup]] = {}
        self._pending_producers: dict[str, dict[int, None]] = {}
        """Producers with pending offsets, by group."""

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def of(self, group: str) -> OfGroup:
        """Return the offsets committed in a group; for reading only."""
        return self._groups.get(group, NOTHING)

    def groups(self) -> Iterator[str]:
        """Iterate over the groups with committed or pending offsets."""
        yield from self._groups
        yield from (group for group in self._pending_producers if group not in self._groups)

    def is_pending(self, group: str, place: Place) -> bool:
        """True if an open transaction contains an offset of the group for this partition."""
        producers = self._pending_producers.get(group)
        return producers is not None and any(
            place in self._pending[producer][group] for producer in producers
        )

    def has_pending(self, group: str) -> bool:
        """True if an open transaction contains any offset of the group."""
        return group in self._pending_producers

    def of_producer(self, producer_id: int) -> dict[str, OfGroup]:
        """Return the pending offsets of a producer's transaction by group; for reading only."""
        return self._pending.get(producer_id, {})

    def pending(self, group: str) -> list[Place]:
        """Return the partitions for which open transactions contain offsets of the group."""
        places: dict[Place, None] = {}
        for producer in self._pending_producers.get(group, ()):
            places |= dict.fromkeys(self._pending[producer][group])
        return list(places)

    # Replaying.

    def replay(self, record: OffsetCommitRecord, position: int, producer_id: int | None) -> None:
        """Apply a record at log offset `position`.

        `producer_id` is None unless the record belongs to a transaction.
        """
        key, value = record.key, record.value
        place = (key.topic, key.partition)
        if value is None:
            self._forget(key.group, place)
            return
        committed = Committed.of(value, position)
        if producer_id is None:
            self._groups.setdefault(key.group, {})[place] = committed
            return
        pending = self._pending.setdefault(producer_id, {})
        pending.setdefault(key.group, {})[place] = committed
        self._pending_producers.setdefault(key.group, {})[producer_id] = None

    def complete(self, producer_id: int, *, is_commit: bool) -> list[str]:
        """End a producer's transaction; return the groups that had offsets pending in it."""
        ended = self._pending.pop(producer_id, {})
        for group, places in ended.items():
            producers = self._pending_producers[group]
            del producers[producer_id]
            if not producers:
                del self._pending_producers[group]
            if not is_commit:
                continue
            offsets = self._groups.setdefault(group, {})
            for place, committed in places.items():
                present = offsets.get(place)
                if present is None or present.position < committed.position:
                    offsets[place] = committed
        return list(ended)

    def _forget(self, group: str, place: Place) -> None:
        """Forget a partition's committed and pending offsets, because of a tombstone."""
        offsets = self._groups.get(group)
        if offsets is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._groups[group]
        for producer in list(self._pending_producers.get(group, ())):
            pending = self._pending[producer]
            pending[group].pop(place, None)
            if pending[group]:
                continue
            del pending[group], self._pending_producers[group][producer]
            if not pending:
                del self._pending[producer]
        if group in self._pending_producers and not self._pending_producers[group]:
            del self._pending_producers[group]


def tombstone(group: str, place: Place) -> OffsetCommitRecord:
    """Return the record that deletes a committed offset."""
    topic, partition = place
    return OffsetCommitRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def is_expired(committed: Committed, unused_since_ms: int, wall_ms: int, retention_ms: int) -> bool:
    """True if the offset's own expiry time has passed, or, without one, the broker's retention."""
    if committed.expire_wall_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_wall_ms
    return wall_ms - unused_since_ms >= retention_ms
