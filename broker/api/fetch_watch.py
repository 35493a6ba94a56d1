"""Watches one follower's session: notes the partitions that changed since its last fetch.

A follower names a thousand partitions and waits; one of them changes. Its session is watched for
as long as the connection lives: partitions note their changes here, and a fetch reads only changed
partitions. A partition is skipped only if reading it again would change nothing: the follower is in
the ISR, holds all of the log, and was told the rest. Reads nothing itself.
"""

from ..net.connection import Connection
from ..partition.partition import Partition
from ..partition.requests import FetchAnswer
from .fetch_sessions import FetchPartition, FetchSession, Key, SessionRequest


class FollowerWatch:
    """The partitions of one follower's session, on its connection."""

    is_follower = True
    __slots__ = (
        "_connection",
        "_fetched_at_ms",
        "_follower",
        "_sources",
        "called",
        "is_parked",
        "session",
        "unread",
    )

    def __init__(self, connection: Connection, session: FetchSession, follower: int) -> None:
        self._connection = connection
        self._follower = follower
        self._sources: dict[Key, Partition] = {}
        self._fetched_at_ms = 0
        self.session = session
        self.unread: dict[Key, FetchPartition] = dict(session.partitions)
        """The partitions that the next fetch reads; those that returned bytes last come last."""
        self.called: dict[Key, None] = {}
        """The partitions of `unread` that changed since the parked fetch read them."""
        self.is_parked = False

    def begin(self, request: SessionRequest, now_ms: int) -> list[FetchPartition]:
        """Begin a fetch and return the partitions that it has to read."""
        partitions, unread = self.session.partitions, self.unread
        for asked in request.partitions:
            cached = partitions.get(asked.key)
            if cached is not None:
                unread[asked.key] = cached
        for key in request.forgotten:
            self._forget(key)
        self._fetched_at_ms = now_ms
        self.called.clear()
        return list(unread.values())

    def on_read(self, asked: FetchPartition, source: Partition, answer: FetchAnswer) -> None:
        """Note a partition that a fetch has read, and decide if the next reads it again."""
        key = asked.key
        if self._sources.get(key) is not source:
            self._watch(key, source)
        if answer.records:
            # Fairness: a partition that returned bytes is read last next time.
            self.unread.pop(key, None)
            self.unread[key] = asked
        elif (
            not answer.error
            and answer.diverging is None
            and answer.cold is None
            and source.leader is not None
            and source.leader.is_followed_to_the_end(self._follower)
        ):
            self.unread.pop(key, None)
        else:
            self.unread[key] = asked

    def on_data(self, partition: Partition) -> None:
        """Note a partition with data or another role: a parked fetch must read it at once."""
        self.note(partition)
        if self.is_parked:
            self._connection.wake()

    def note(self, partition: Partition) -> None:
        """Note a partition that the next fetch must read; a parked one is not answered for it."""
        key = partition.key
        asked = self.session.partitions.get(key)
        if asked is None:
            return
        if key not in self.unread:
            self.unread[key] = asked
            self._vouch(partition)
        self.called[key] = None

    def take_called(self) -> list[FetchPartition]:
        """Return the partitions to read again for the parked fetch."""
        if not self.called:
            return []
        partitions = self.session.partitions
        called = [partitions[key] for key in self.called if key in partitions]
        self.called.clear()
        return called

    def close(self) -> None:
        """The connection is gone, or the session."""
        sources, self._sources = self._sources, {}
        for key, partition in sources.items():
            partition.data_waiters.remove(self)
            if key not in self.unread:
                self._vouch(partition)

    def _watch(self, key: Key, source: Partition) -> None:
        old = self._sources.get(key)
        if old is not None:
            old.data_waiters.remove(self)
        self._sources[key] = source
        source.data_waiters.add(self)

    def _forget(self, key: Key) -> None:
        partition = self._sources.pop(key, None)
        if partition is not None:
            partition.data_waiters.remove(self)
            if key not in self.unread:
                self._vouch(partition)
        self.unread.pop(key, None)

    def _vouch(self, partition: Partition) -> None:
        """Report the fetches that skipped this partition: each was one at the end of its log."""
        leader = partition.leader
        if leader is not None:
            leader.on_idle_fetches(self._follower, self._fetched_at_ms)


def watch_of(connection: Connection, session: FetchSession, follower: int) -> FollowerWatch:
    """The connection's watch of this session, begun anew where it watched another."""
    watch = connection.watch
    if not isinstance(watch, FollowerWatch) or watch.session is not session:
        if watch is not None:
            watch.close()
        watch = connection.watch = FollowerWatch(connection, session, follower)
    return watch
