"""Writes the audit: this broker's replica of the audit topic's partition, while there is one.

The leader reads the last event of its log once, which says what is written, and then appends each
newer request of the metadata image. What a deposed leader appended and did not commit is truncated
as any record, and its successor writes it again: no request is missing or there twice. The topic is
created by the live broker with the lowest id, once a request was audited.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...protocol.audit import AUDIT_PARTITION, Link, link_behind
from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages.audit_events import AuditEvent
from ...protocol.records.batch_header import headers
from ...protocol.records.records import records
from ...protocol.types import AUDIT_TOPIC
from ...runtime.runtime import Runtime
from ..deadlines import Deadline, Deadlines
from ..partition.own_batches import append_own
from ..partition.own_reading import read_own
from ..partition.partition import Partition
from ..partitions import Partitions
from .entries import BATCH_BYTES, more_links, next_links
from .happenings import events_of

RETRY_MS: Final = 1_000
"""Milliseconds after which a failed append, read or creation is tried again."""
TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Room:
    """The parts of a broker that the audit uses."""

    runtime: Runtime
    deadlines: Deadlines
    broker_id: int
    image: Callable[[], MetadataImage]
    write_staged: Callable[[], None]
    create: Callable[[], None]
    """Has the controller create the topic, unless that was refused a moment ago."""


class AuditWriter:
    """The replica of the audit topic's partition on one broker, if it has one."""

    is_follower = False  # As a waiter of the partition: it is told of commits, not of appends.

    def __init__(self, room: Room, partitions: Partitions) -> None:
        self.partition: Partition | None = None
        self.link: Link | None = None
        """The end of the chain; None while this broker does not lead, or has not read it yet."""
        self._room = room
        self._partitions = partitions
        self.is_blocked = False
        """True while the last try to write, as leader, has failed."""
        self._epoch = -1
        self._woken = asyncio.Event()
        self._alarm: Deadline | None = None
        self._task: asyncio.Task[None] | None = None

    async def on_metadata(self) -> None:
        """Follow the partition to or from this broker, and write what was audited since."""
        topic_id = self._room.image().topic_ids.get(AUDIT_TOPIC)
        found = None if topic_id is None else self._partitions.get(topic_id, AUDIT_PARTITION)
        partition = found if isinstance(found, Partition) else None
        if partition is not self.partition:
            await self.close()
            if partition is not None:
                self._attach(partition)
        self._look()

    def create_topic(self) -> None:
        """Have the topic created, unless that was refused a moment ago."""
        self._room.create()

    def take(self, messages: Sequence[AuditEvent]) -> ErrorCode:
        """Append events of a broker, in their order; return why nothing is appended, or NONE.

        They are not committed yet. While this broker does not lead, or has not read the end of the
        chain yet, the error is NOT_LEADER_OR_FOLLOWER.
        """
        partition, link = self.partition, self.link
        if partition is None or link is None or self._epoch != partition.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        events = events_of(messages)
        if events is None:
            return ErrorCode.INVALID_REQUEST
        room = self._room
        wall_ms, cluster_id = room.runtime.wall_ms(), room.image().cluster_id or ""
        made = more_links(events, link, cluster_id, wall_ms)
        if made is None:
            return ErrorCode.NONE
        appended = append_own(partition, made.batch, wall_ms)
        if not appended.error:
            self.link = made.link
            room.write_staged()
        return appended.error

    async def close(self) -> None:
        """End the writing; the next leader goes on."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        partition, self.partition = self.partition, None
        task, self._task = self._task, None
        self.link, self.is_blocked = None, False
        if partition is not None:
            partition.data_waiters.remove(self)
            partition.log.segments.keep_from = None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def on_data(self, partition: Partition | None = None) -> None:
        """Wake up, because the high watermark or the role has changed."""
        self._woken.set()

    def note(self, partition: Partition) -> None:
        """Ignore the call, which matters only to fetches."""

    def _attach(self, partition: Partition) -> None:
        self.partition = partition
        # Without its last record, no leader would know what is written.
        partition.log.segments.keep_from = lambda: partition.log_end_offset - 1
        partition.data_waiters.add(self)
        self._woken.set()
        self._task = self._room.runtime.spawn(self._run(partition), "audit")

    def _look(self) -> None:
        """Write, or have the topic created that is needed for it."""
        image = self._room.image()
        self._woken.set()
        if not image.audited.newest or AUDIT_TOPIC in image.topic_ids:
            return
        live = [each.broker_id for each in image.brokers.values() if each.is_active]
        if live and min(live) == self._room.broker_id:
            self.create_topic()
            self._try_again()

    def _try_again(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._room.deadlines.after(RETRY_MS, self._look)

    async def _run(self, partition: Partition) -> None:
        while True:
            self._woken.clear()
            self.is_blocked = not await self._write(partition)
            if self.is_blocked:
                self._try_again()
            await self._woken.wait()

    async def _write(self, partition: Partition) -> bool:
        """Append what is not written yet; return False if that is to be tried again."""
        while partition.leader is not None and not partition.offline_because:
            if self.link is None or self._epoch != partition.leader_epoch:
                self.link, epoch = None, partition.leader_epoch
                link = await self._read_link(partition)
                if link is None or partition.leader is None or partition.leader_epoch != epoch:
                    return False
                self.link, self._epoch = link, epoch
            written, newest = self.link.number, self._room.image().audited.newest
            if written > newest:
                if not self.is_blocked:
                    log.error(
                        "%r: the audit is of %d requests, the metadata of %d: nothing is written",
                        partition,
                        written,
                        newest,
                    )
                return False
            appended = self._append(partition, self.link)
            if appended is None:
                return True
            if appended:
                log.info("%r: the audit waits: %s", partition, appended.name)
                return False
            await asyncio.sleep(0)
        self.link = None
        return True

    def _append(self, partition: Partition, link: Link) -> ErrorCode | None:
        """Append the next batch, a smaller one if it is too large; None if all is written."""
        room, most_bytes = self._room, BATCH_BYTES
        image, wall_ms = room.image(), room.runtime.wall_ms()
        while True:
            made = next_links(image.audited, link, image.cluster_id or "", wall_ms, most_bytes)
            if made is None:
                return None
            appended = append_own(partition, made.batch, wall_ms)
            if appended.error not in TOO_LARGE or not most_bytes:
                break
            most_bytes //= 2
        if not appended.error:
            self.link = made.link
            room.write_staged()
        return appended.error

    async def _read_link(self, partition: Partition) -> Link | None:
        """Read the last event of the log; None if it cannot be read now, or if there is none.

        Records that are no events, such as markers, are passed over: the chain goes on behind the
        event before them. A log that has only such records is not written.
        """
        partition.write_staged()
        end = offset = partition.log_end_offset
        if end <= partition.log_start_offset:
            return Link()
        while offset > partition.log_start_offset:
            data = await read_own(partition, offset - 1, end)
            if data is None:
                return None
            link, first = None, offset - 1
            try:
                for position, header in headers(data):
                    first = min(first, header.base_offset)
                    for record in records(data, position):
                        link = link_behind(record.value) or link
            except RemoteProtocolError as error:
                log.error("%r: the last records of the audit: %s", partition, error)
                return None
            if link is not None:
                return link
            end = offset = first
            await asyncio.sleep(0)
        log.error("%r: no record is an event of the audit: nothing is written", partition)
        return None
