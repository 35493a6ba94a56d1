"""Turns tracing on and off, and sends what is told to the leaders of the topic of trace points.

Sleeps until something is told, then gathers it for GATHER_MS. What could not be sent waits for the
next try; the queue's bound is the only one, so that a topic that is away costs new points, and
nothing else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ...protocol.control.image import Topic
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ...protocol.messages.write_trace import TraceBatch, WriteTraceRequest, WriteTraceResponse
from ...protocol.records.records import BatchBuilder
from ...protocol.trace_points import place_of
from ...protocol.types import TRACE_TOPIC
from ...runtime.config import MiB, from_mapping
from ...runtime.waiting import end_tasks
from ..deadlines import Deadline
from ..peers import PeerFailed
from .config import TraceConfig
from .tracer import Ground, Queue, Queued, Traced, Tracer

GATHER_MS: Final = 200
REST_MS: Final = 1_000
"""Milliseconds to wait before what could not be sent is tried again."""
MOST_AT_ONCE: Final = 1_000
"""The most parts that are sent at a time."""
PARTITIONS: Final = 8
REPLICAS_MAX: Final = 3
_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(24 * 60 * 60 * 1000),
    "retention.bytes": str(1024 * MiB // PARTITIONS),
    "segment.bytes": str(16 * MiB),
    "segment.ms": str(60 * 60 * 1000),
    "min.insync.replicas": "1",
}
PASSING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors after which the same parts are sent again."""

Ask = Callable[[int, WriteTraceRequest], Awaitable[Any]]
"""Sends a request to a broker; raises PeerFailed."""

log = logging.getLogger(__name__)


def trace_topic(live_brokers: int) -> CreatableTopic:
    """Describe the topic that keeps trace points; settings that an operator changes stay."""
    return CreatableTopic(
        name=TRACE_TOPIC,
        num_partitions=PARTITIONS,
        replication_factor=min(REPLICAS_MAX, max(1, live_brokers)),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in _CONFIG.items()],
    )


class Tracing:
    """The trace points of one broker: its tracer while tracing is on, and their way to the topic.

    `install` is called with each new tracer, or None; `create` has the topic created.
    """

    def __init__(self, ground: Ground, ask: Ask) -> None:
        self._ground = ground
        self._ask = ask
        self._config = from_mapping(TraceConfig, {})
        self._tracer: Tracer | None = None
        self.queue = Queue()
        self.queue.on_first = self._wake
        self.install: Callable[[Tracer | None], None] = lambda tracer: None
        self.create: Callable[[], None] = lambda: None
        self._alarm: Deadline | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """True if something waits to be sent, or is being sent."""
        return bool(self.queue.waiting) or self._task is not None

    def on_config(self, config: TraceConfig) -> None:
        """Trace as `config` says from now on."""
        if config == self._config or self._is_closed:
            return
        self._config = config
        if self._tracer is not None:
            self._tracer.close()
        self._tracer = Tracer(self._ground, config, self.queue) if config.every else None
        self.install(self._tracer)

    def on_role_changed(self, partition: Traced) -> None:
        """Note that a partition's leader has changed, or that it is gone."""
        if self._tracer is not None:
            self._tracer.on_role_changed(partition)

    async def close(self) -> None:
        """Trace and send no more; what waits is lost."""
        self._is_closed = True
        if self._tracer is not None:
            self._tracer.close()
        if self._alarm is not None:
            self._alarm.cancel()
        await end_tasks([] if self._task is None else [self._task])

    def _wake(self, after_ms: int = GATHER_MS) -> None:
        if self._alarm is None and self._task is None and not self._is_closed:
            self._alarm = self._ground.deadlines.after(after_ms, self._start)

    def _start(self) -> None:
        self._alarm = None
        self._task = self._ground.runtime.spawn(self._run(), "send trace points")

    async def _run(self) -> None:
        is_well = True
        try:
            while is_well and self.queue.waiting:
                is_well = await self._send()
        finally:
            self._task = None
            if self.queue.waiting:
                self._wake(REST_MS)

    async def _send(self) -> bool:
        """Send the oldest parts; return False if some of them have to wait."""
        topic = self._ground.image().topic(TRACE_TOPIC)
        if topic is None:
            self.create()
            return False
        waiting = self.queue.waiting
        taken = [waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(waiting)))]
        by_leader: dict[int, dict[int, list[Queued]]] = {}
        for each in taken:
            index = place_of(each.topic_id, each.partition, len(topic.partitions))
            by_place = by_leader.setdefault(_leader_of(topic, index), {})
            by_place.setdefault(index, []).append(each)
        left = by_leader.pop(-1, {})
        for leader, places in by_leader.items():
            left |= await self._send_to(leader, places)
        again = [each for parts in left.values() for each in parts]
        waiting.extendleft(reversed(again))
        return not again

    async def _send_to(
        self, leader: int, places: dict[int, list[Queued]]
    ) -> dict[int, list[Queued]]:
        """Send to one broker; return what has to be sent again."""
        batches = [
            TraceBatch(partition_index=index, records=_batch(parts))
            for index, parts in places.items()
        ]
        try:
            answer: WriteTraceResponse = await self._ask(leader, WriteTraceRequest(batches=batches))
        except PeerFailed as error:
            log.info("trace points for broker %d: %s", leader, error)
            return places
        again: dict[int, list[Queued]] = {}
        results = answer.results if not answer.error_code else []
        for place, (index, parts) in enumerate(places.items()):
            missing = answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
            code = ErrorCode(results[place] if place < len(results) else missing)
            if code in PASSING:
                again[index] = parts
            elif code:
                log.warning("trace points for broker %d: %s", leader, code.name)
                self.queue.dropped += len(parts)
            else:
                self.queue.recorded += len(parts)
        return again


def _leader_of(topic: Topic, index: int) -> int:
    state = topic.partitions.get(index)
    return -1 if state is None else state.leader


def _batch(parts: Sequence[Queued]) -> bytearray:
    builder = BatchBuilder()
    for each in parts:
        builder.append(each.wall_ms, each.key, each.value)
    return builder.build()
