"""Tells the leader of the audit topic what this broker sees: denials, failed logins, own changes.

They wait in a bounded queue until the leader has appended them. At most PER_SECOND are taken in one
second; what finds no room is dropped and counted. An answer that is lost repeats its events, under
the same ids.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ...protocol.audit import AUDIT_PARTITION
from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.audit_events import (
    MOST_EVENTS,
    AuditEvent,
    AuditEventsRequest,
    AuditEventsResponse,
)
from ...protocol.types import AUDIT_TOPIC
from ...runtime.runtime import Runtime
from ..peers import PeerFailed, Peers
from .happenings import Happening, message_of
from .writer import AuditWriter

PER_SECOND: Final = 1_000
QUEUE_MAX: Final = 2_000
RETRY_MS: Final = 1_000
REFUSED: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.MESSAGE_TOO_LARGE)
"""Errors that another try would get again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FeedRoom:
    """The parts of a broker that the feed uses."""

    runtime: Runtime
    broker_id: int
    image: Callable[[], MetadataImage]


class AuditFeed:
    """The events of one broker that the audit topic does not have yet."""

    def __init__(
        self, room: FeedRoom, writer: AuditWriter, peers: Peers, *, is_on: bool = False
    ) -> None:
        self.is_on = is_on
        self.told = self.dropped = 0
        """The events that the leader has appended, and those that found no room."""
        self._room = room
        self._writer = writer
        self._peers = peers
        self._queue: deque[AuditEvent] = deque()
        self._start = ""
        """A text that no other start of this broker has; empty before the first event."""
        self._number = 0
        self._second = self._taken = 0
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def note(self, happening: Happening | None) -> None:
        """Tell of something soon, unless auditing is off; None is nothing."""
        if not self.is_on or happening is None or self._is_closed:
            return
        runtime = self._room.runtime
        second = runtime.monotonic_ms() // 1000
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        if self._taken > PER_SECOND or len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            return
        self._start = self._start or runtime.rng.randbytes(6).hex()
        self._number += 1
        event_id = f"broker-{self._room.broker_id}-{self._start}-{self._number}"
        self._queue.append(message_of(happening, event_id, runtime.wall_ms()))
        if self._task is None:
            self._task = runtime.spawn(self._run(), "audit feed")

    async def close(self) -> None:
        """Stop; what is not told is lost."""
        self._is_closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while self._queue:
            batch = list(islice(self._queue, MOST_EVENTS))
            code = await self._tell(batch)
            if code and code not in REFUSED:
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            if code:
                log.error("the audit refuses %d events: %s", len(batch), code.name)
                self.dropped += len(batch)
            else:
                self.told += len(batch)
            for _ in batch:
                self._queue.popleft()
        self._task = None

    async def _tell(self, batch: Sequence[AuditEvent]) -> ErrorCode:
        topic = self._room.image().topic(AUDIT_TOPIC)
        if topic is None:
            self._writer.create_topic()
            return ErrorCode.LEADER_NOT_AVAILABLE
        leader = topic.partitions[AUDIT_PARTITION].leader
        if leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if leader == self._room.broker_id:
            return self._writer.take(batch)
        try:
            answer: AuditEventsResponse = await self._peers.ask(
                leader, AuditEventsRequest(events=list(batch)), lane="audit"
            )
        except PeerFailed as error:
            log.info("telling broker %d of denials and logins: %s", leader, error)
            return ErrorCode.NETWORK_EXCEPTION
        return ErrorCode(answer.error_code)
