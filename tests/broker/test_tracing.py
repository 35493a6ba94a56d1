"""The way of trace points to their topic: batches to leaders, what is tried again, what is lost."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from minikafka.broker.deadlines import Deadline, Deadlines
from minikafka.broker.peers import PeerFailed
from minikafka.broker.tracing.config import SAMPLED_MAX, WATCHED_MS, TraceConfig
from minikafka.broker.tracing.tracer import Ground, Queue, Sender, Trace, Tracer
from minikafka.broker.tracing.tracing import PARTITIONS, Tracing, trace_topic
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import PartitionRecord, TopicRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.write_trace import WriteTraceRequest, WriteTraceResponse
from minikafka.protocol.records.batch_header import BatchHeader
from minikafka.protocol.records.records import build, records
from minikafka.protocol.trace_points import Fetched, PointKey, decode
from minikafka.protocol.types import TRACE_TOPIC, TopicIdPartition
from minikafka.runtime.config import from_mapping
from minikafka.runtime.runtime import SystemRuntime

from .edge_support import settle

Answer = Sequence[ErrorCode] | PeerFailed


class Turns(Deadlines):
    """Deadlines that come when the test says so."""

    def __init__(self) -> None:
        super().__init__(SystemRuntime())
        self.due: list[tuple[int, Callable[[], None]]] = []

    def after(self, delay_ms: int, expire: Callable[[], None]) -> Deadline:
        self.due.append((delay_ms, expire))
        return Deadline(self, 0, 0)

    def at(self, deadline_ms: int, expire: Callable[[], None]) -> Deadline:
        return self.after(deadline_ms, expire)

    async def turn(self) -> int:
        """Let the one deadline come; return its delay."""
        ((delay_ms, expire),) = self.due
        self.due.clear()
        expire()
        await settle()
        return delay_ms


class Lab:
    """One broker's trace points, a topic with a partition led by broker 1 and one by broker 2."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.image = MetadataImage()
        self.answers: dict[int, list[Answer]] = {1: [], 2: []}
        """What each broker answers next; what is not given is well."""
        self.taken: list[tuple[int, int, list[int]]] = []
        """Broker, partition of the topic, and the times of what arrived."""
        self.created = 0
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while a request is on its way."""
        self.tracers: list[Tracer | None] = []
        ground = Ground(SystemRuntime(), self.turns, 1, lambda: self.image)
        self.tracing = Tracing(ground, self._ask)
        self.tracing.install = self.tracers.append
        self.tracing.create = self._create

    def _create(self) -> None:
        self.created += 1

    async def _ask(self, broker: int, request: WriteTraceRequest) -> WriteTraceResponse:
        self.meanwhile()
        answers = self.answers[broker]
        answer = answers.pop(0) if answers else [ErrorCode.NONE] * len(request.batches)
        if isinstance(answer, PeerFailed):
            raise answer
        for each in request.batches:
            found = [decode(one.key, one.value) for one in records(each.records)]
            times = [one[1].ms for one in found if one is not None and isinstance(one[1], Fetched)]
            self.taken.append((broker, each.partition_index, times))
        return WriteTraceResponse(results=[int(each) for each in answer])

    def make_topic(self, *leaders: int) -> None:
        made = [TopicRecord(TRACE_TOPIC, b"t" * 16)]
        places = [
            PartitionRecord(b"t" * 16, index, (leader,), (leader,), leader)
            for index, leader in enumerate(leaders)
        ]
        for offset, record in enumerate((*made, *places)):
            self.image.apply(record, offset)

    def tell(self, ms: int, topic_id: bytes = bytes(16)) -> None:
        part = Fetched(1, 0, 0, "c", "h", ms)
        self.tracing.queue.put([(PointKey(topic_id, 0, 0), part)], ms)


@pytest.fixture
async def lab() -> Lab:
    return Lab()


async def test_what_is_told_is_gathered_and_sent_in_order_once_the_topic_is_there(lab: Lab) -> None:
    lab.tell(1)
    lab.tell(2)
    assert (await lab.turns.turn(), lab.created, lab.taken) == (200, 1, [])
    lab.make_topic(1)
    assert await lab.turns.turn() == 1000
    assert lab.taken == [(1, 0, [1, 2])]
    assert (lab.tracing.queue.recorded, lab.turns.due, lab.tracing.is_busy) == (2, [], False)


@pytest.mark.parametrize("fault", [PeerFailed("away"), [ErrorCode.NOT_LEADER_OR_FOLLOWER]])
async def test_what_a_leader_does_not_take_now_is_sent_again_before_what_came_since(
    lab: Lab, fault: Answer
) -> None:
    lab.make_topic(1)
    lab.answers[1] = [fault]

    def meanwhile() -> None:
        lab.meanwhile = lambda: None
        lab.tell(2)

    lab.meanwhile = meanwhile
    lab.tell(1)
    await lab.turns.turn()
    lab.taken.clear()
    assert await lab.turns.turn() == 1000
    assert lab.taken == [(1, 0, [1, 2])]
    assert (lab.tracing.queue.recorded, lab.tracing.queue.dropped) == (2, 0)


async def test_one_leader_that_is_away_holds_up_no_other(lab: Lab) -> None:
    lab.make_topic(1, 2, -1)
    lab.answers[2] = [PeerFailed("away")] * 3
    owners = [bytes([each]) * 16 for each in range(20)]
    for ms, owner in enumerate(owners):
        lab.tell(ms, owner)
    await lab.turns.turn()
    assert {each[0] for each in lab.taken} == {1}
    count = sum(len(each[2]) for each in lab.taken)
    assert len(lab.tracing.queue.waiting) == 20 - count
    assert 0 < count < 20


async def test_what_is_refused_for_good_is_dropped_and_counted(lab: Lab) -> None:
    lab.make_topic(1)
    lab.answers[1] = [[ErrorCode.MESSAGE_TOO_LARGE], []]
    lab.tell(1)
    await lab.turns.turn()
    lab.tell(2)
    await lab.turns.turn()
    queue = lab.tracing.queue
    assert (queue.dropped, queue.recorded, len(queue.waiting)) == (2, 0, 0)


async def test_a_tracer_is_there_while_tracing_is_on(lab: Lab) -> None:
    def config(every: int) -> TraceConfig:
        return from_mapping(TraceConfig, {"minikafka.trace.every": str(every)})

    for every in (0, 4, 4, 8, 0):
        lab.tracing.on_config(config(every))
    assert [None if each is None else each.every for each in lab.tracers] == [4, 8, None]
    await lab.tracing.close()
    lab.tracing.on_config(config(4))
    lab.tell(1)
    assert (len(lab.tracers), lab.turns.due) == (3, [])


class OnePartition:
    """A partition as a tracer sees it."""

    traced: Trace | None = None
    key = TopicIdPartition(bytes(16), 0)
    high_watermark = 0


def tracer_of_all(lab: Lab, now: list[int], queue: Queue) -> Tracer:
    """A tracer of every batch, with a clock that the test moves."""
    runtime = SystemRuntime()
    runtime.monotonic_ms = lambda: now[0]  # type: ignore[method-assign]
    config = from_mapping(TraceConfig, {"minikafka.trace.every": "1"})
    return Tracer(Ground(runtime, lab.turns, 1, lambda: lab.image), config, queue)


async def test_batches_are_let_go_when_their_time_is_over(lab: Lab) -> None:
    now, queue = [5_000], Queue()
    tracer, partition = tracer_of_all(lab, now, queue), OnePartition()
    sender = Sender("c", "h", "User:c", 1)

    def append(offset: int) -> None:
        batch = build([(1, None, b"")], base_offset=offset, leader_epoch=0)
        tracer.on_appended(partition, batch, BatchHeader(batch), (1, 2), sender)

    append(0)
    append(0)
    now[0] += 100
    append(1)
    now[0] = 5_000 + WATCHED_MS
    assert await lab.turns.turn() == 35_000
    assert [decode(each.key, each.value) is not None for each in queue.waiting] == [True]
    now[0] += 1_000
    assert await lab.turns.turn() == 36_000
    assert (len(queue.waiting), partition.traced, lab.turns.due) == (2, None, [])
    append(2)
    tracer.close()
    assert (len(queue.waiting), partition.traced) == (3, None)


async def test_so_many_batches_a_second_are_watched_and_then_none_is_looked_at(lab: Lab) -> None:
    now, queue = [5_000], Queue()
    tracer, partition = tracer_of_all(lab, now, queue), OnePartition()
    partition.high_watermark = 1 << 40
    sender = Sender("c", "h", "User:c", 1)

    def append(offsets: range) -> list[int]:
        """Append batches of one record; return the offsets that a caller would look at."""
        looked_at = [each for each in offsets if (each - 1 ^ each) >> tracer.shift]
        for offset in offsets:
            batch = build([(1, None, b"")], base_offset=offset, leader_epoch=0)
            tracer.on_appended(partition, batch, BatchHeader(batch), (1,), sender)
        return looked_at

    for second in range(2):
        now[0] = 5_100 + 1_000 * second
        start = 1_000 * second + 1
        assert len(append(range(start, start + SAMPLED_MAX + 10))) == SAMPLED_MAX + 10
        assert append(range(start + 500, start + 510)) == []
        assert queue.dropped == second + 1
        until, go_on = lab.turns.due.pop()
        assert until == 6_000 + 1_000 * second
        go_on()
    tracer.close()


async def test_a_broker_that_stops_waits_for_nobody(lab: Lab) -> None:
    lab.make_topic(1)
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(broker: int, request: WriteTraceRequest) -> None:
        await gone

    lab.tracing._ask = ask
    lab.tell(1)
    await lab.turns.turn()
    assert lab.tracing.is_busy
    await lab.tracing.close()
    assert gone.cancelled()
    assert lab.turns.due == []


def test_the_topic_has_as_many_replicas_as_there_are_brokers_three_at_most() -> None:
    assert [trace_topic(count).replication_factor for count in (0, 1, 2, 3, 9)] == [1, 1, 2, 3, 3]
    configs = {each.name: each.value for each in trace_topic(3).configs}
    assert int(configs["retention.bytes"] or 0) * PARTITIONS == 1 << 30
    assert configs["retention.ms"] == "86400000"
