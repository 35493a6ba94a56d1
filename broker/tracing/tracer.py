"""Decides which batches are traced, and queues what is told of them until it is sent.

A `Tracer` lives while `minikafka.trace.every` is on; partitions, coordinators and the Forwarder
find it as `host.tracer`, which is None otherwise. It never waits and never refuses anything: what
finds the queue full is dropped and counted.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ...protocol.control.image import MetadataImage
from ...protocol.records.batch_header import BatchHeader
from ...protocol.trace_context import first_context_of
from ...protocol.trace_points import (
    Forwarded,
    GroupPassed,
    Part,
    PointKey,
    encode,
    first_sampled,
    shortened,
)
from ...protocol.types import INTERNAL_TOPICS, NO_OFFSET, Buffer, TopicIdPartition
from ...runtime.runtime import Runtime
from ...storage.reading import end_of
from ..deadlines import Deadline, Deadlines
from .config import SAMPLED_MAX, TraceConfig
from .points import RateLimit, Told, Watch, Watched

QUEUE_MAX: Final = 4096
"""The most parts that wait to be sent, some 200 bytes each."""
NEVER_SHIFT: Final = 64
"""A shift that leaves nothing of two offsets' difference."""
PAUSE_MS: Final = 1_000
"""The fewest milliseconds between two looks at what is watched long enough."""


class Queued(NamedTuple):
    """A part of a point, encoded, that waits to be sent."""

    topic_id: bytes
    partition: int
    wall_ms: int
    key: bytes
    value: bytes


class Queue:
    """The parts that wait to be sent, from all tracers that this broker has had."""

    def __init__(self) -> None:
        self.waiting: deque[Queued] = deque()
        self.on_first: Callable[[], None] = lambda: None
        """Called when something waits again."""
        self.recorded = 0
        """The parts that a leader of the topic has taken."""
        self.dropped = 0
        """The parts that are lost, because the queue was full or they were refused, and the batches
        beyond SAMPLED_MAX."""

    def put(self, told: Iterable[tuple[PointKey, Part]], wall_ms: int) -> None:
        """Queue parts; what finds no room is dropped."""
        for key, part in told:
            if len(self.waiting) >= QUEUE_MAX:
                self.dropped += 1
                continue
            self.waiting.append(Queued(key.topic_id, key.partition, wall_ms, *encode(key, part)))
            if len(self.waiting) == 1:
                self.on_first()


class Sender(NamedTuple):
    """The client that produced a batch, and how."""

    client_id: str | None
    host: str
    principal: object
    """Shown by `str`."""
    acks: int


class Traced(Protocol):
    """A partition, as far as a tracer looks at it."""

    traced: "Trace | None"

    @property
    def key(self) -> TopicIdPartition:
        """The topic's id and the index."""

    @property
    def high_watermark(self) -> int:
        """The offset below which all is committed."""


class Trace:
    """The watched batches of one partition, with the way for what is told of them."""

    __slots__ = ("_tracer", "awaited", "watch")

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self.watch = Watch(tracer.broker)
        self.awaited = self.watch.awaited
        """That of the watch. Whoever moves below it need not tell; each batch asks."""

    def on_follower(self, broker: int, fetch_offset: int) -> None:
        """Note that a follower has everything below an offset, which is above `awaited`."""
        self.watch.on_follower(broker, fetch_offset, self._tracer.wall_ms())

    def on_committed(self, high_watermark: int) -> None:
        """Note that the high watermark has moved, above `awaited`."""
        wall_ms = self._tracer.wall_ms()
        self._put(self.watch.on_committed(high_watermark, wall_ms), wall_ms)

    def on_fetched(self, client: tuple[str, str], start: int, records: Buffer) -> None:
        """Note that a client (id, host) gets records from an offset on."""
        if self.watch.may_hold(start):
            end, wall_ms = end_of(records), self._tracer.wall_ms()
            self._put(self.watch.on_fetched(client, start, end, wall_ms), wall_ms)

    def close(self, why: str) -> None:
        """Tell of what is watched, and of why it is watched no more."""
        self._put(self.watch.close(why), self._tracer.wall_ms())

    def on_appended(self, batch: Watched, now_ms: int) -> None:
        """Watch a batch from now on."""
        self._put(self.watch.on_appended(batch, now_ms), self._tracer.wall_ms())

    def on_time(self, now_ms: int) -> None:
        """Let go of the batches whose time is over."""
        self._put(self.watch.on_time(now_ms), self._tracer.wall_ms())

    def _put(self, told: Told, wall_ms: int) -> None:
        self.awaited = self.watch.awaited
        if told:
            self._tracer.queue.put(told, wall_ms)


@dataclass(frozen=True, slots=True)
class Ground:
    """The parts of one broker that tracing uses."""

    runtime: Runtime
    deadlines: Deadlines
    broker: int
    image: Callable[[], MetadataImage]


class Tracer:
    """Chooses and watches batches on one broker, under one state of the settings."""

    def __init__(self, ground: Ground, config: TraceConfig, queue: Queue) -> None:
        """`config.every` is not 0."""
        self.wall_ms = ground.runtime.wall_ms
        self.broker = ground.broker
        self.every = config.every
        self.queue = queue
        self._image = ground.image
        self._monotonic_ms = ground.runtime.monotonic_ms
        self._deadlines = ground.deadlines
        self._shift = config.every.bit_length() - 1
        self._looked_at = self.shift = 0 if config.headers else self._shift
        """A batch may be traced if `(base offset - 1 ^ last offset) >> shift` is not 0: one that N
        divides is between them. Callers ask that themselves, because it is for each batch."""
        self._rest: Deadline | None = None
        """Set while no more batches are traced because of their offsets, up to the next second."""
        self._sampled = RateLimit(SAMPLED_MAX)
        self._limit = RateLimit(config.rate) if config.headers else None
        self._traces: dict[Traced, None] = {}
        """The partitions with batches that are watched."""
        self._alarm: Deadline | None = None

    # Batches.

    def on_appended(
        self,
        partition: Traced,
        batch: Buffer,
        header: BatchHeader,
        in_sync: tuple[int, ...],
        sender: Sender,
    ) -> None:
        """Watch a batch that has just got its offsets, if it is one to trace."""
        now_ms = self._monotonic_ms()
        base, last = header.base_offset, header.last_offset
        trace = partition.traced
        if trace is not None and base < trace.watch.end:
            return  # A repeat of a batch that is there.
        offset = first_sampled(base, last, self.every)
        if offset != NO_OFFSET and not self._sampled.may(now_ms):
            self._rest_from(now_ms)
            return
        context, limit = None, self._limit
        if limit is not None and (offset != NO_OFFSET or limit.may(now_ms)):
            context = first_context_of(batch, header)
        if offset == NO_OFFSET:
            if limit is None or context is None or not context.is_sampled:
                return
            limit.spend()
            offset = base
        else:
            self._sampled.spend()
        if trace is None:
            trace = partition.traced = Trace(self)
        written = {
            "broker": self.broker,
            "leader_epoch": header.leader_epoch,
            "size": header.size,
            "acks": sender.acks,
            "client_id": shortened(sender.client_id),
            "host": sender.host,
            "principal": shortened(str(sender.principal)),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "appended_ms": self.wall_ms(),
            "in_sync": in_sync,
            "trace_id": "" if context is None else context.trace_id,
        }
        watched = Watched(PointKey(*partition.key, offset), base, last, written)
        trace.on_appended(watched, now_ms)
        if partition.high_watermark > last:  # It is written already.
            trace.on_committed(partition.high_watermark)
        self._traces[partition] = None
        if self._alarm is None:
            self._alarm = self._deadlines.at(watched.until_ms, self._on_time)

    def _rest_from(self, now_ms: int) -> None:
        """Have no batch looked at for its offsets in this second, since too many were sampled."""
        if self._rest is None:
            self.queue.dropped += 1
            if self._limit is None:
                self.shift = NEVER_SHIFT
            self._rest = self._deadlines.at((now_ms // 1000 + 1) * 1000, self._go_on)

    def _go_on(self) -> None:
        self._rest, self.shift = None, self._looked_at

    def on_role_changed(self, partition: Traced) -> None:
        """Watch a partition no more, because its leader has changed or it is gone."""
        trace, partition.traced = partition.traced, None
        self._traces.pop(partition, None)
        if trace is not None:
            trace.close("its leader epoch has ended")

    def close(self) -> None:
        """Watch nothing more, because the settings have changed or the broker stops."""
        for each in (self._alarm, self._rest):
            if each is not None:
                each.cancel()
        for partition in [*self._traces]:
            trace, partition.traced = partition.traced, None
            if trace is not None:
                trace.close("tracing was changed")
        self._traces.clear()

    def _on_time(self) -> None:
        """Let go of what was watched long enough; come again when the next one is due."""
        self._alarm, now_ms = None, self._monotonic_ms()
        for partition in [*self._traces]:
            trace = partition.traced
            if trace is None:
                continue
            trace.on_time(now_ms)
            if not trace.watch:
                del self._traces[partition]
                partition.traced = None
        if self._traces:
            next_ms = min(
                each.traced.watch.until_ms for each in self._traces if each.traced is not None
            )
            self._alarm = self._deadlines.at(max(next_ms, now_ms + PAUSE_MS), self._on_time)

    # What others tell.

    def sampled_below(self, before: int, after: int) -> int:
        """Return the newest sampled offset from `before` up to `after`, without it; or NO_OFFSET.

        `before` is -1 for a group that had no offset.
        """
        offset = (after - 1) >> self._shift << self._shift
        return offset if offset >= max(before, 0) and after > 0 else NO_OFFSET

    def on_passed(self, topic: str, index: int, part: GroupPassed) -> None:
        """Tell of a group that went past sampled offsets, unless the topic is an internal one."""
        topic_id = self._image().topic_ids.get(topic)
        if topic_id is not None and topic not in INTERNAL_TOPICS:
            offset = self.sampled_below(part.before, part.after)
            self.queue.put([(PointKey(topic_id, index, offset), part)], part.ms)

    def on_forwarded(
        self, key: TopicIdPartition, offsets: Iterable[int], base_offset: int, part: Forwarded
    ) -> None:
        """Tell of the sampled ones of records that their target has got, from `base_offset` on.

        `part.offset` is not looked at. A `base_offset` below 0 says that it is not known.
        """
        mask = self.every - 1
        for place, offset in enumerate(offsets):
            if not offset & mask:
                there = base_offset + place if base_offset >= 0 else NO_OFFSET
                told = part._replace(offset=there)
                self.queue.put([(PointKey(*key, offset), told)], part.answered_ms)
