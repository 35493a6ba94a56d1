"""Leases for leaders (`leader.lease.enable`): until when they run, and which elections wait.

With `leader.lease.enable`, the answer to each heartbeat says for how long the broker may act as a
leader (acks 0 and 1, leader reads). While a broker may still act as a leader, nobody is elected in
its place: such a partition is leaderless (in a new leader epoch) until the old leader

    has applied the metadata that ends its lead,
    has let its lease run out,
    has given up its lease itself, to be fenced or to shut down,
    or has been started anew, with a directory that the old start would still have locked.

A grant ends at most a full lease after the newest time at which a majority of voters is known to
have elected no newer controller. A controller that becomes active assumes that another controller
has granted every broker a full lease at that moment.

The controller counts a grant from the heartbeat's arrival, the broker from its sending, which is
earlier. The broker is also granted a little less, because clocks do not run equally fast.
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
"""A broker's grant is shortened by 1/`DRIFT`, because clocks do not run equally fast."""

Released = tuple[TopicIdPartition, ...]
NOTHING: Final[Released] = ()


class Waiting(NamedTuple):
    """A leaderless partition's old leader, which must stop before another is elected."""

    leader: int
    """The old leader's id; -1 if it is not known."""
    offset: int
    """Offset of the metadata record that ended its lead, or a later one."""


class LeaderLeases:
    """The leader leases that were granted to brokers, as the active controller knows them."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._until: dict[int, int] = {}
        """The time on our clock when a broker's last grant ends, by broker id; -1 stands for any
        unknown broker."""
        self._leaders: dict[TopicIdPartition, int] = {}
        self._waiting: dict[TopicIdPartition, Waiting] = {}
        self._to_hear: dict[int, int] = {}
        """The offset of the newest metadata that ended one of a broker's leads, by broker id."""

    # Decisions.

    def must_wait(self, partition: TopicIdPartition, leader: int) -> bool:
        """True if `leader`, or an earlier leader, may still act as the partition's leader."""
        return partition in self._waiting or (leader != NO_LEADER and leader in self._until)

    def grant(self, broker_id: int, applied: int, now_ms: int, majority_ms: int) -> int:
        """Return for how many ms the broker whose heartbeat came may act as a leader.

        Return -1 if it may not. `applied` is the metadata offset that it has applied. Before
        `majority_ms` no newer controller was elected; it is -1 if no such time is known.
        """
        if applied < self._to_hear.get(broker_id, -1):
            # It may believe that it leads partitions that others lead or will lead.
            return NONE_GRANTED
        until_ms = majority_ms + self.lease_ms
        if majority_ms < 0 or until_ms <= now_ms:
            return NONE_GRANTED
        self._until[broker_id] = max(self._until.get(broker_id, until_ms), until_ms)
        left_ms = until_ms - now_ms
        return left_ms - left_ms // DRIFT or NONE_GRANTED

    # Events.

    def restart(self, image: MetadataImage, now_ms: int) -> None:
        """Start over, as this controller has become active.

        Earlier controllers may have granted each broker a full lease that ends after `now_ms`.
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
        """Note changes of leaders in records just applied to the image, the last at `offset`."""
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
        """Return the partitions that waited for this broker, which acts as a leader no more.

        The broker said so, a newer start of it holds its disk, or its lease has ended.
        """
        self._until.pop(broker_id, None)
        return self._release(broker_id)

    def on_applied(self, broker_id: int, offset: int) -> Released:
        """Return the partitions that waited for this broker to apply metadata up to `offset`."""
        return self._release(broker_id, offset)

    def next_deadline_ms(self) -> int | None:
        """Return the time when the next lease ends; None if none runs."""
        return min(self._until.values(), default=None)

    def on_deadline(self, now_ms: int) -> Released:
        """Return the partitions that waited for leases which have ended."""
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
