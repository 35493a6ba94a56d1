"""The Forwarder of a broker: its source partitions, and the requests to leaders of their targets.

Requests go over a few lanes for each target broker, one request in each at a time, so that a
partition that does not commit holds up only those of its lane, and only until the request's
timeout. A plan that was not answered is sent again: its target recognises it.
"""

import asyncio
import logging
from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from ...protocol.control.image import Delta
from ...protocol.control.records import TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.forward_records import (
    ForwardedBatch,
    ForwardRecordsRequest,
    ForwardRecordsResponse,
)
from ...runtime.waiting import end_tasks
from ..partition.partition import Partition
from ..partitions import Partitions
from ..peers import PeerFailed, Peers
from ..replica.throttle import Throttle
from .leading import Leading
from .parked import RecordsDeleted
from .source import Room, Source
from .targets import Phase, TargetQueue

LANES: Final = 4
"""The requests to one broker that may be in flight at a time."""
MOST_BATCHES: Final = 32
MOST_BYTES: Final = 4 << 20
"""The most batches and bytes of one request; a single batch may be larger."""

Lane = tuple[int, int]
"""The id of the target broker, and a number below LANES."""

log = logging.getLogger(__name__)


class Sending(NamedTuple):
    """A queue whose first plan is being sent."""

    source: Source
    leading: Leading | None
    """The source's leader epoch when it was sent; what is answered in another one is ignored."""
    queue: TargetQueue

    @property
    def is_over(self) -> bool:
        """True if the source does not lead in that epoch any more, perhaps because it is deleted.

        Then other records may be at the offsets of its plans.
        """
        leading = self.source.leading
        return leading is None or leading is not self.leading or leading.is_over


class Forwarder:
    """The sources of one broker."""

    def __init__(self, room: Room, partitions: Partitions, peers: Peers) -> None:
        self.sources: dict[Partition, Source] = {}
        self._room = room
        self._partitions = partitions
        self._peers = peers
        self._waiting: dict[Lane, list[Sending]] = {}
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        self._to_look_at: dict[Source, None] = {}
        self._is_closed = False

    async def on_metadata(self, delta: Delta) -> None:
        """Begin and end sources, as settings and replicas have changed."""
        if self._is_closed:
            return
        concerns_all = delta.is_snapshot or delta.touches_broker_settings or delta.deleted_topics
        if concerns_all or any(kind == TOPIC for kind, _ in delta.changed_configs):
            changed = [*self._partitions]
        else:
            found = [self._partitions.get(*key) for key in delta.changed_partitions]
            changed = [each for each in found if isinstance(each, Partition)]
        for partition in changed:
            if partition not in self.sources and _is_source(partition):
                self.sources[partition] = Source(self._room, partition)
        for partition, source in [*self.sources.items()]:
            if _is_source(partition) and self._partitions.get(*partition.key) is partition:
                source.on_data()
            else:
                del self.sources[partition]
                await source.close()

    async def close(self) -> None:
        """End all sources and requests, because the broker stops."""
        self._is_closed = True
        sources, self.sources = self.sources, {}
        for source in sources.values():
            await source.close(saves=True)
        tasks, self._tasks = self._tasks, {}
        await end_tasks(tasks.values())

    def on_clock_noted(self) -> None:
        """Have all sources look again, because the clock was ahead of the other brokers'."""
        for source in self.sources.values():
            source.on_data()

    def send(self, source: Source) -> None:
        """Send what a source has ready, soon."""
        if not self._to_look_at and not self._is_closed:
            asyncio.get_running_loop().call_soon(self._look)
        self._to_look_at[source] = None

    def _look(self) -> None:
        """Put all queues that are ready into their lanes."""
        sources, self._to_look_at = self._to_look_at, {}
        if self._is_closed:
            return
        now_ms = self._room.runtime.monotonic_ms()
        for source in sources:
            if source.leading is not None:
                for queue in source.leading.targets.ready(now_ms):
                    self._route(source, queue, now_ms)

    def _route(self, source: Source, queue: TargetQueue, now_ms: int) -> None:
        image, target = self._room.image(), queue.target
        state = image.partition(*target)
        if state is None:
            limit_ms = source.partition.log.config.delay.undeliverable_ms
            source.on_outcome(queue.on_gone(now_ms, limit_ms))
        elif state.leader < 0:
            queue.rest(ErrorCode.LEADER_NOT_AVAILABLE, now_ms)
            source.on_outcome(None)
        else:
            queue.phase = Phase.SENT
            lane = (state.leader, target.partition % LANES)
            self._waiting.setdefault(lane, []).append(Sending(source, source.leading, queue))
            if lane not in self._tasks:
                name = f"forward to broker {lane[0]}, {lane[1]}"
                self._tasks[lane] = self._room.runtime.spawn(self._run(lane), name)

    async def _run(self, lane: Lane) -> None:
        """Send what waits in a lane, until nothing does."""
        throttle = self._partitions.host.throttles.forward
        waiting: list[Sending] = []
        while waiting := [*waiting, *self._waiting.pop(lane, ())]:
            if throttle.is_on:
                waiting = in_turn(waiting)
                if await self._is_too_early(throttle):
                    continue
            size, count = 0, 0
            batches: list[ForwardedBatch] = []
            while count < len(waiting) and count < MOST_BATCHES and size < MOST_BYTES:
                if waiting[count].is_over:
                    waiting.pop(count)
                    continue
                batch = await _batch_of(waiting[count])
                if waiting[count].is_over:
                    continue
                if batch is None:
                    self._rest(waiting.pop(count))
                    continue
                batches.append(batch)
                size += len(batch.records or b"")
                count += 1
                if throttle.is_on and size >= throttle.rate:
                    break
            sending, waiting = waiting[:count], waiting[count:]
            if sending:
                if throttle.is_on:
                    throttle.spend(size, self._room.runtime.monotonic_ms())
                await self._ask(lane, sending, batches)
        del self._tasks[lane]

    async def _is_too_early(self, throttle: Throttle) -> bool:
        """Return True after a pause, if more was forwarded than the rate allows."""
        now_ms = self._room.runtime.monotonic_ms()
        if not throttle.is_exceeded(now_ms):
            return False
        await asyncio.sleep((throttle.free_at_ms(now_ms) - now_ms) / 1000)
        return True

    async def _ask(self, lane: Lane, sending: list[Sending], batches: list[ForwardedBatch]) -> None:
        request = ForwardRecordsRequest(batches=batches)
        try:
            answer: ForwardRecordsResponse = await self._peers.ask(
                lane[0], request, lane=f"forward-{lane[1]}"
            )
        except PeerFailed as error:
            log.info("forwarding to broker %d: %s", lane[0], error)
            for each in sending:
                self._rest(each)
            return
        if answer.error_code or len(answer.batches) != len(sending):
            code = ErrorCode(answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
            log.warning("forwarding to broker %d: %s", lane[0], code.name)
            for each in sending:
                self._rest(each, code)
            return
        now_ms = self._room.runtime.monotonic_ms()
        for each, result in zip(sending, answer.batches, strict=True):
            if not each.is_over:
                code = ErrorCode(result.error_code)
                each.source.on_outcome(each.queue.on_answer(code, result.base_offset, now_ms))

    def _rest(self, each: Sending, code: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> None:
        each.queue.rest(code, self._room.runtime.monotonic_ms())
        each.source.on_outcome(None)


def in_turn(waiting: Sequence[Sending]) -> list[Sending]:
    """Return what waits with one of each source first, then the second of each, and so on.

    A source that leads no more in the epoch of its plan is left out.
    """
    turns: dict[Source, int] = {}
    order: list[tuple[int, Sending]] = []
    for each in waiting:
        if each.source.leading is each.leading:
            turn = turns[each.source] = turns.get(each.source, 0) + 1
            order.append((turn, each))
    return [each for _, each in sorted(order, key=itemgetter(0))]


def _is_source(partition: Partition) -> bool:
    return partition.log.config.is_source and not partition.offline_because


async def _batch_of(sending: Sending) -> ForwardedBatch | None:
    """Return what is sent for the first plan of a queue; None if it cannot be read now."""
    queue = sending.queue
    plan = queue.plans[0]
    batch = ForwardedBatch(
        topic_id=plan.target.topic_id,
        partition_index=plan.target.partition,
        producer_id=plan.producer_id,
        base_sequence=plan.base_sequence,
    )
    if not queue.is_fencing:
        try:
            records = await sending.source.parked.batch_of(plan)
        except RecordsDeleted:
            # It may have been sent before, and must not be sent in part now.
            queue.is_fencing, queue.code = True, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            if records is None:
                return None
            batch.records = records
    batch.is_fence = queue.is_fencing
    return batch
