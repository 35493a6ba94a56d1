"""Fetch sessions (KIP-227): the partitions of a client's last fetch, which it need not name again.

Pure: from requests and times this module decides which partitions to read and which to put into the
response. The number of sessions and the total of their partitions are bounded.

    epoch -1   the request uses no session, and closes the session that it names, if any
    epoch  0   the request names all its partitions; it closes the session that it names, if any,
               and opens a new one if there is room
    epoch  n   must be the next epoch of the session; request and response carry only changes
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import UNKNOWN_HIGH_WATERMARK
from ..partition.requests import FetchAnswer

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = 0x7FFFFFFF
SESSION_ID_MAX = 0x7FFFFFFF
EVICTION_MS = 120_000
"""Milliseconds. A session unused for longer may be evicted for any new one. A session created
longer ago may be evicted for a more valuable one: a follower's, or one of the same kind with more
partitions. A follower's new session may evict a less valuable one of any age."""

Key = tuple[bytes | str, int]
"""Topic id (or, before version 13, name) and partition index."""


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request. It skips 0, which asks for a new session."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


@dataclass(slots=True)
class FetchPartition:
    """One partition of a fetch, and the offsets that the session last sent for it."""

    key: Key
    max_bytes: int
    fetch_offset: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    """The log start offset of the follower; -1 from a consumer."""
    flushed_offset: int = -1
    """The offset up to which the follower's log is on stable storage; -1 if not stated."""
    known_high_watermark: int = UNKNOWN_HIGH_WATERMARK
    """The high watermark that the client knows; if it is outdated, the fetch does not wait
    (KIP-1166)."""
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def update(self, asked: "FetchPartition") -> None:
        """Apply the client's changes, but keep the offsets that were sent to it."""
        self.max_bytes = asked.max_bytes
        self.fetch_offset = asked.fetch_offset
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        self.flushed_offset = asked.flushed_offset
        self.known_high_watermark = asked.known_high_watermark


@dataclass(slots=True)
class FetchSession:
    """One client's partitions, in the order in which they are read."""

    session_id: int
    is_privileged: bool
    """True for a follower's session, which is more valuable than any consumer's."""
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    epoch: int
    partitions: dict[Key, FetchPartition]


@dataclass(slots=True)
class SessionRequest:
    """The part of a Fetch request that concerns its session."""

    session_id: int
    epoch: int
    is_privileged: bool
    uses_topic_ids: bool
    partitions: tuple[FetchPartition, ...]
    forgotten: tuple[Key, ...] = ()


class FetchContext:
    """The partitions that one Fetch reads, and those that its response carries."""

    __slots__ = ("_asked", "_epoch", "_is_new", "error", "session")

    def __init__(
        self,
        asked: tuple[FetchPartition, ...],
        *,
        session: FetchSession | None = None,
        is_new: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self._is_new = is_new
        self._epoch = session.epoch if session is not None else FINAL_EPOCH
        self._asked = asked
        self.session = session
        self.error = error

    @property
    def partitions(self) -> list[FetchPartition]:
        """The partitions that the fetch asks for, in the order in which they are read."""
        if self._is_new or self.session is None:
            return list(self._asked)
        return list(self.session.partitions.values())

    @property
    def session_id(self) -> int:
        """The session id for the response; NO_SESSION without a session."""
        return NO_SESSION if self.session is None else self.session.session_id

    def verify(self) -> ErrorCode:
        """Return an error if the session's epoch has changed since this request, else NONE."""
        if self.session is not None and self.session.epoch != self._epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return ErrorCode.NONE

    def tells(self, partition: FetchPartition, answer: FetchAnswer) -> bool:
        """True if the response must carry this partition; its offsets are recorded as sent."""
        if self.session is None:
            return True
        is_news = self._is_new or (
            len(answer.records) > 0
            or answer.error != ErrorCode.NONE
            or answer.high_watermark != partition.told_high_watermark
            or answer.log_start_offset != partition.told_log_start_offset
            or answer.diverging is not None
            or answer.preferred_read_replica >= 0
        )
        # After an error or a divergence the next good answer must be sent even if its offsets are
        # the old ones, so forget the high watermark.
        is_good = not answer.error and answer.diverging is None
        partition.told_high_watermark = answer.high_watermark if is_good else -1
        partition.told_log_start_offset = answer.log_start_offset
        if len(answer.records) > 0:
            # Fairness: a partition that returned bytes is read last next time.
            cached = self.session.partitions.pop(partition.key, None)
            if cached is not None:
                self.session.partitions[partition.key] = cached
        return is_news


class FetchSessions:
    """The sessions of one broker."""

    def __init__(
        self, draw_id: Callable[[int, int], int], *, slots: int, partitions_max: int
    ) -> None:
        """`draw_id` returns a random integer between two bounds, both included."""
        self._draw_id = draw_id
        self._slots = slots
        self._partitions_max = partitions_max
        # Least recently used first.
        self._sessions: dict[int, FetchSession] = {}
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def resolve(self, request: SessionRequest, now_ms: int) -> FetchContext:
        """Find, open or close the session of a request, and return what the request reads.

        If there is an error, the request reads nothing.
        """
        if request.epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._resume(request, now_ms)
        self._drop(request.session_id)
        if request.epoch == FINAL_EPOCH:
            return FetchContext(request.partitions)
        session = self._open(request, now_ms)
        return FetchContext(request.partitions, session=session, is_new=True)

    def _resume(self, request: SessionRequest, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            return self._refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.epoch:
            return self._refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != request.uses_topic_ids:
            return self._refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._change(session, request)
        if not session.partitions:
            self._drop(session.session_id)
            return FetchContext(())
        session.epoch = next_epoch(session.epoch)
        session.used_ms = now_ms
        if self._sessions.pop(session.session_id, None) is not None:
            self._sessions[session.session_id] = session
        return FetchContext((), session=session)

    def _refused(self, error: ErrorCode) -> FetchContext:
        return FetchContext((), error=error)

    def _change(self, session: FetchSession, request: SessionRequest) -> None:
        partitions = session.partitions
        before = len(partitions)
        for asked in request.partitions:
            known = partitions.get(asked.key)
            if known is not None:
                known.update(asked)
            else:
                partitions[asked.key] = asked
        for key in request.forgotten:
            partitions.pop(key, None)
        self.partition_count += len(partitions) - before
        if self.partition_count > self._partitions_max:
            self._make_room(session)

    def _open(self, request: SessionRequest, now_ms: int) -> FetchSession | None:
        """Open a session for a full request; None if there is no room or nothing to remember."""
        partitions = {asked.key: asked for asked in request.partitions}
        if not partitions or not self._has_room(request, len(partitions), now_ms):
            return None
        session_id = self._fresh_id()
        session = FetchSession(
            session_id=session_id,
            is_privileged=request.is_privileged,
            uses_topic_ids=request.uses_topic_ids,
            created_ms=now_ms,
            used_ms=now_ms,
            epoch=next_epoch(INITIAL_EPOCH),
            partitions=partitions,
        )
        self._sessions[session_id] = session
        self.partition_count += len(partitions)
        return session

    def _has_room(self, request: SessionRequest, size: int, now_ms: int) -> bool:
        """Evict idle or less valuable sessions until the new one fits; False if it cannot."""
        if size > self._partitions_max:
            return False
        while (
            len(self._sessions) >= self._slots or self.partition_count + size > self._partitions_max
        ):
            victim = self._victim((request.is_privileged, size), now_ms)
            if victim is None:
                return False
            self._drop(victim.session_id)
        return True

    def _victim(self, value: tuple[bool, int], now_ms: int) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            return oldest
        least: FetchSession | None = None
        for session in self._sessions.values():
            is_settled = now_ms - session.created_ms > EVICTION_MS
            if (is_settled or value[0]) and _value(session) < value:
                if session.is_privileged and not is_settled:
                    continue
                if least is None or _value(session) < _value(least):
                    least = session
        return least

    def _make_room(self, keep: FetchSession) -> None:
        """Drop sessions, least recently used first and `keep` last, because `keep` has grown."""
        for session in list(self._sessions.values()):
            if self.partition_count <= self._partitions_max:
                return
            if session is not keep:
                self._drop(session.session_id)
        if self.partition_count > self._partitions_max:
            self._drop(keep.session_id)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)

    def _fresh_id(self) -> int:
        while True:
            session_id = self._draw_id(1, SESSION_ID_MAX)
            if session_id not in self._sessions:
                return session_id


def _value(session: FetchSession) -> tuple[bool, int]:
    return (session.is_privileged, len(session.partitions))
