"""The batches of one partition that are watched: who has them, who fetched them, and when.

Pure. Events go in with their wall time in ms, finished parts of trace points come out. A batch is
open until it is committed; then it is watched for fetches, until others take its place, its time is
over, or this broker leads no more.

    open     followers and the high watermark pass  ->  Written
    told     a client gets records of it, at most CLIENTS_MAX  ->  Fetched
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from ...protocol.trace_points import (
    Fetched,
    Part,
    PointKey,
    Written,
    shortened,
)
from .config import CLIENTS_MAX, PENDING_MAX, WATCHED_MS

NEVER: Final = 1 << 63
"""An offset above all others."""

Told = list[tuple[PointKey, Part]]
"""Parts of points that are finished, with their keys."""


@dataclass(slots=True)
class Watched:
    """A batch that is watched."""

    key: PointKey
    base_offset: int
    last_offset: int
    written: dict[str, Any]
    """The fields of its `Written` that are known when it is appended, but for these offsets."""
    until_ms: int = 0
    """Monotonic ms."""
    followers: dict[int, int] = field(default_factory=dict)
    clients: dict[tuple[str, str], None] = field(default_factory=dict)

    def told(self, committed_ms: int, why: str = "") -> tuple[PointKey, Written]:
        """Return what is told of the append and the replication."""
        written = Written(
            base_offset=self.base_offset,
            last_offset=self.last_offset,
            committed_ms=committed_ms,
            followers=tuple(self.followers),
            followers_ms=tuple(self.followers.values()),
            why=why,
            **self.written,
        )
        return self.key, written


class Watch:
    """The watched batches of one partition that this broker leads, in the order of offsets."""

    __slots__ = ("_broker", "_open", "_told", "end")

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._open: deque[Watched] = deque()
        self._told: deque[Watched] = deque()
        self.end = 0
        """The offset behind the newest batch that was watched; what is before it is a repeat."""

    def __bool__(self) -> bool:
        return bool(self._open or self._told)

    @property
    def awaited(self) -> int:
        """The last offset of the oldest batch that is not committed yet; NEVER if there is none."""
        return self._open[0].last_offset if self._open else NEVER

    @property
    def until_ms(self) -> int:
        """The monotonic ms at which the first batch is not watched any more; there must be one."""
        return (self._told or self._open)[0].until_ms

    def on_appended(self, batch: Watched, now_ms: int) -> Told:
        """Watch a batch from now on. It must be behind all others."""
        batch.until_ms = now_ms + WATCHED_MS
        self.end = batch.last_offset + 1
        self._open.append(batch)
        if len(self._open) + len(self._told) <= PENDING_MAX:
            return []
        if self._told:
            self._told.popleft()
            return []
        return [self._open.popleft().told(-1, f"{PENDING_MAX} newer batches came")]

    def on_follower(self, broker: int, fetch_offset: int, wall_ms: int) -> None:
        """Note that a follower has everything below an offset."""
        for batch in self._open:
            if batch.last_offset >= fetch_offset:
                return
            batch.followers.setdefault(broker, wall_ms)

    def on_committed(self, high_watermark: int, wall_ms: int) -> Told:
        """Return what is told of the batches below the high watermark."""
        told: Told = []
        batches = self._open
        while batches and batches[0].last_offset < high_watermark:
            batch = batches.popleft()
            told.append(batch.told(wall_ms))
            self._told.append(batch)
        return told

    def may_hold(self, start: int) -> bool:
        """True if a fetch from this offset on may get a batch that is watched."""
        told = self._told
        return bool(told) and told[-1].last_offset >= start

    def on_fetched(self, client: tuple[str, str], start: int, end: int, wall_ms: int) -> Told:
        """Note that a client (id, host) gets the records from one offset up to another."""
        told: Told = []
        for batch in reversed(self._told):
            if batch.last_offset < start:
                break
            clients = batch.clients
            if batch.base_offset >= end or client in clients or len(clients) >= CLIENTS_MAX:
                continue
            clients[client] = None
            name, host = shortened(client[0]), client[1]
            batch_is = (self._broker, batch.base_offset, batch.last_offset)
            part = Fetched(*batch_is, name, host, wall_ms)
            told.append((batch.key, part))
        return told

    def on_time(self, now_ms: int) -> Told:
        """Let go of the batches whose time is over."""
        while self._told and self._told[0].until_ms <= now_ms:
            self._told.popleft()
        told: Told = []
        while self._open and self._open[0].until_ms <= now_ms:
            told.append(self._open.popleft().told(-1, f"not within {WATCHED_MS // 1000} s"))
        return told

    def close(self, why: str) -> Told:
        """Let go of all batches, because this broker watches no more."""
        told: Told = [batch.told(-1, why) for batch in self._open]
        self._open.clear()
        self._told.clear()
        return told


class RateLimit:
    """Lets through so many a second of the monotonic clock."""

    __slots__ = ("_count", "_second", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._second = -1
        self._count = 0

    def may(self, now_ms: int) -> bool:
        """True if one more may pass now; it counts once `spend` is called."""
        second = now_ms // 1000
        if second != self._second:
            self._second, self._count = second, 0
        return self._count < self.most

    def spend(self) -> None:
        """Count one that has passed."""
        self._count += 1
