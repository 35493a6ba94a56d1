"""Notes the partitions of a follower's fetch session that changed since its last fetch.

A session may have a thousand partitions of which one changes. So the session is watched while its
connection is open: partitions report their changes to a `FollowerWatch`, and a fetch reads only the
changed ones. A partition is skipped only if reading it again would change nothing, because the
follower is in the ISR, holds the whole log and has been sent the newest offsets.
"""

from ..net.connection import Connection
from ..partition.partition import Partition
from ..partition.requests import FetchAnswer
from .fetch_sessions import FetchPartition, FetchSession, Key, SessionRequest


class FollowerWatch:
    """The partitions of a follower's session, with those that its next fetch must read."""

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
        """The partitions that the next fetch reads; those that just returned records come last."""
        self.called: dict[Key, None] = {}
        """The partitions of `unread` that changed since the waiting fetch read them."""
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
        """Record a partition's answer, and decide whether the next fetch must read it again."""
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
        """Note a partition with new data or another role, and wake a waiting fetch to read it."""
        self.note(partition)
        if self.is_parked:
            self._connection.wake()

    def note(self, partition: Partition) -> None:
        """Note a partition that the next fetch must read, without waking a waiting fetch."""
        key = partition.key
        asked = self.session.partitions.get(key)
        if asked is None:
            return
        if key not in self.unread:
            self.unread[key] = asked
            self._vouch(partition)
        self.called[key] = None

    def take_called(self) -> list[FetchPartition]:
        """Return the changed partitions that the waiting fetch must read, and clear `called`."""
        if not self.called:
            return []
        partitions = self.session.partitions
        called = [partitions[key] for key in self.called if key in partitions]
        self.called.clear()
        return called

    def close(self) -> None:
        """Stop watching, because the connection or the session is gone."""
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
        """Count the fetches that skipped this partition as fetches at the end of its log."""
        leader = partition.leader
        if leader is not None:
            leader.on_idle_fetches(self._follower, self._fetched_at_ms)


def watch_of(connection: Connection, session: FetchSession, follower: int) -> FollowerWatch:
    """Return the connection's watch of this session; replace its watch of another session."""
    watch = connection.session.watch
    if not isinstance(watch, FollowerWatch) or watch.session is not session:
        if watch is not None:
            watch.close()
        watch = connection.session.watch = FollowerWatch(connection, session, follower)
    return watch
