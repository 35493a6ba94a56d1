"""Leases for leaders (`leader.lease.enable`): until when they hold, and which elections wait.

With `leader.lease.enable` a broker acts as a leader (acks 0 and 1, leader reads) for so long after
each heartbeat as its answer says. While a broker may still act as a leader, nobody is elected in
its place: such a partition is leaderless (in a new leader epoch) until the old leader

    has applied the metadata that says so,
    has let its lease run out,
    has given it up itself, to be fenced or to shut down,
    or has been started anew, with a directory that the old start would still have locked.

A controller grants from what it has heard of a majority of voters: nobody else led before that
time. So no grant reaches further beyond that time than a full lease. A controller that becomes
active assumes that another has granted every broker a lease at that very moment.

The counting is the controller's: a grant begins when the heartbeat arrives, which is later than
its sending, from which the broker counts; and the broker is told of a little less, for clocks that
run unevenly.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...protocol.control.image import MetadataImage
from ...protocol.control.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from ...protocol.types import NO_LEADER, TopicIdPartition

OFF: Final = 0
NONE_GRANTED: Final = -1
DRIFT: Final = 20
"""Brokers are told of a grant less one part in so many."""

Released = tuple[TopicIdPartition, ...]
NOTHING: Final[Released] = ()


class Waiting(NamedTuple):
    """The old leader that a leaderless partition waits for."""

    leader: int
    """-1: the old leader is not known here."""
    offset: int
    """Offset of the metadata that ended its lead, or later."""


class LeaderLeases:
    """The leases of the active controller's brokers."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._until: dict[int, int] = {}
        """By broker id, the time on our clock when its last grant is over; -1 is any unknown
        broker."""
        self._leaders: dict[TopicIdPartition, int] = {}
        self._waiting: dict[TopicIdPartition, Waiting] = {}
        self._to_hear: dict[int, int] = {}
        """Offset of the newest metadata by which a broker leads something no more."""

    # What it decides.

    def must_wait(self, partition: TopicIdPartition, leader: int) -> bool:
        """True if `leader`, or any leader before, may still act as the leader of the partition."""
        return partition in self._waiting or (leader != NO_LEADER and leader in self._until)

    def grant(self, broker_id: int, applied: int, now_ms: int, majority_ms: int) -> int:
        """Return for how many ms the broker whose heartbeat came may act as a leader.

        -1: not at all. `applied`: the metadata offset that it has acted upon. `majority_ms`: nobody
        but us led the controllers before that time; -1 if it is not known.
        """
        if applied < self._to_hear.get(broker_id, -1):
            # It may believe that it leads what others lead, or are about to.
            return NONE_GRANTED
        until_ms = majority_ms + self.lease_ms
        if majority_ms < 0 or until_ms <= now_ms:
            return NONE_GRANTED
        self._until[broker_id] = max(self._until.get(broker_id, until_ms), until_ms)
        left_ms = until_ms - now_ms
        return left_ms - left_ms // DRIFT or NONE_GRANTED

    # What happens.

    def restart(self, image: MetadataImage, now_ms: int) -> None:
        """Start over: this controller is active.

        Grants of others are over a full lease from now.
        """
        until_ms = now_ms + self.lease_ms
        self._until = dict.fromkeys((NO_LEADER, *sorted(image.brokers)), until_ms)
        self._to_hear = dict.fromkeys(sorted(image.brokers), image.offset)
        self._leaders = {key: state.leader for key, state in image.partitions()}
        self._waiting = {
            key: Waiting(NO_LEADER, image.offset)
            for key, leader in self._leaders.items()
            if leader == NO_LEADER
        }

    def on_replayed(self, records: Sequence[MetadataRecord], offset: int) -> None:
        """Take in records that decisions see from now on; the last of them is at `offset`."""
        for record in records:
            match record:
                case PartitionRecord():
                    key = TopicIdPartition(record.topic_id, record.partition)
                    self._leaders[key] = record.leader
                case PartitionChangeRecord(leader=leader) if leader is not None:
                    key = TopicIdPartition(record.topic_id, record.partition)
                    self._on_leader(key, leader, offset)
                case RemoveTopicRecord(topic_id=topic_id):
                    for key in [each for each in self._leaders if each.topic_id == topic_id]:
                        del self._leaders[key]
                        self._waiting.pop(key, None)

    def _on_leader(self, key: TopicIdPartition, leader: int, offset: int) -> None:
        old = self._leaders.get(key, NO_LEADER)
        self._leaders[key] = leader
        if old not in (leader, NO_LEADER):
            self._to_hear[old] = offset
        if leader != NO_LEADER:
            self._waiting.pop(key, None)
        elif old != NO_LEADER and old in self._until:
            self._waiting[key] = Waiting(old, offset)

    def on_given_up(self, broker_id: int) -> Released:
        """Release the partitions of a broker that acts as a leader no more.

        It said so, or another start of it has its disk.
        """
        self._until.pop(broker_id, None)
        return self._release(broker_id)

    def on_applied(self, broker_id: int, offset: int) -> Released:
        """The broker has acted upon the metadata up to this offset."""
        return self._release(broker_id, offset)

    def next_deadline_ms(self) -> int | None:
        """Return the time when the next lease is over."""
        return min(self._until.values(), default=None)

    def on_deadline(self, now_ms: int) -> Released:
        """Release the partitions of the leases that are over."""
        over = [broker_id for broker_id, until_ms in self._until.items() if until_ms <= now_ms]
        released: list[TopicIdPartition] = []
        for broker_id in over:
            released.extend(self.on_given_up(broker_id))
        return tuple(released)

    def _release(self, broker_id: int, offset: int | None = None) -> Released:
        if not self._waiting:
            return NOTHING
        released = tuple(
            key
            for key, waiting in self._waiting.items()
            if waiting.leader == broker_id and (offset is None or waiting.offset <= offset)
        )
        for key in released:
            del self._waiting[key]
        return released
