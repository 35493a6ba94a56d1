"""What a leader looks at in a producer's batch, and how much of that its loop does."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.partition.forwarded import append_forwarded
from minikafka.broker.partition.intake import (
    FORWARDED_RECORDS,
    OPENED_AT_ONCE,
    OPENED_PER_EVENT,
    READ_RECORDS,
    NeedsOpening,
    may_need_opening,
)
from minikafka.broker.partition.own_batches import append_own
from minikafka.broker.partition.requests import Appended
from minikafka.protocol.compression import compress
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.expiry import TTL_MS
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records import record_backend, record_checks
from minikafka.protocol.records.batch_header import rewrite_producer
from minikafka.protocol.records.record_batch import (
    Codec,
    build,
    crc_is_valid,
    read_header,
    seal,
    stamp,
)
from minikafka.protocol.records.record_checks import RecordRules, Verdict, judge_in_full
from minikafka.protocol.records.records import NewRecord
from minikafka.runtime.errors import WorkerLost
from minikafka.storage.producer_state import FORWARD_EPOCH
from tests.support.bombs import Expanded, many_small, one_large

from .conftest import MakeBroker
from .edge_support import TOPIC, FakePartition
from .node_support import ME, WALL_MS, B, Node, state

LEAD = state(ME)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = await Node(tmp_path).start()
    await made.give(LEAD)
    yield made
    await made.stop()


def judged(node: Node, data: bytearray) -> Appended:
    """Append a batch as the produce handler does: a worker judges it where that is needed."""
    try:
        return node.append(data)
    except NeedsOpening as needed:
        verdict = judge_in_full(bytes(data), needed.rules)
    appended = node[0].append_as_leader(memoryview(data), acks=1, wall_ms=WALL_MS, verdict=verdict)
    node.partitions.write_staged()
    return appended


def is_taken_at_once(node: Node, data: bytearray) -> bool:
    """Append a batch; False if a worker is to judge it first."""
    try:
        node.append(data)
    except NeedsOpening:
        return False
    return True


# Levels.


def resealed(data: bytearray, count: int, body: bytes | None = None) -> bytearray:
    """A batch that declares so many records, over another body if one is given."""
    if body is not None:
        data[61:] = body
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[23:27] = (count - 1).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    seal(data)
    return data


def three(codec: Codec = Codec.NONE, key: bytes | None = b"k") -> bytearray:
    return build([(WALL_MS, key, b"value")] * 3, compression=codec)


ONE = bytes(build([(WALL_MS, b"k", b"value")])[61:])
# What a hostile or clumsy client may send under a good checksum, and the record to blame or -1.
GARBAGE = {
    "noise": (resealed(three(), 3, random.Random(1).randbytes(200)), 0),
    "fewer records than declared": (resealed(three(), 5), 3),
    "more records than declared": (resealed(three(), 2), -1),
    "offset deltas that stand still": (resealed(three(), 2, ONE + ONE), 1),
}
PACKED = {
    "no zstd": (resealed(three(Codec.ZSTD), 3, b"no frame"), -1),
    "compressed noise": (
        resealed(three(Codec.GZIP), 3, bytes(compress(Codec.GZIP, bytes(range(200))))),
        0,
    ),
    "fewer, compressed": (resealed(three(Codec.LZ4), 5), 3),
    "more, compressed": (resealed(three(Codec.SNAPPY), 2), -1),
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("level", ["structure", "full"])
async def test_m_18_garbage_is_refused_and_the_record_to_blame_is_named(
    node: Node, name: str, level: str
) -> None:
    await node.configure("minikafka.records.validation", level)
    data, index = GARBAGE[name]
    appended = node.append(bytearray(data), acks=-1)
    assert appended.error == ErrorCode.INVALID_RECORD
    assert appended.message
    assert [each.batch_index for each in appended.record_errors] == ([index] if index >= 0 else [])
    assert node[0].log_end_offset == 0


@pytest.mark.parametrize("name", PACKED)
async def test_m_18_compressed_garbage_is_refused_where_it_is_opened(node: Node, name: str) -> None:
    data, index = PACKED[name]
    await node.configure("minikafka.records.validation", "structure")
    assert node.append(bytearray(data)).error == ErrorCode.NONE, "nobody looks into it"
    await node.configure("minikafka.records.validation", "full")
    appended = node.append(bytearray(data))
    assert appended.error == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in appended.record_errors] == ([index] if index >= 0 else [])
    assert node[0].log_end_offset == read_header(data).record_count


@pytest.mark.parametrize("name", GARBAGE)
async def test_m_18_at_batch_only_the_header_is_looked_at(node: Node, name: str) -> None:
    await node.configure("minikafka.records.validation", "batch")
    assert node.append(bytearray(GARBAGE[name][0])).error == ErrorCode.NONE


@pytest.mark.parametrize("level", ["batch", "structure", "full"])
@pytest.mark.parametrize("codec", list(Codec))
async def test_good_batches_pass_at_every_level(node: Node, level: str, codec: Codec) -> None:
    await node.configure("minikafka.records.validation", level)
    assert node.append(three(codec, key=None)).error == ErrorCode.NONE
    await node.configure("cleanup.policy", "compact")
    assert node.append(three(codec)).error == ErrorCode.NONE
    appended = node.append(three(codec, key=None))
    assert appended.error == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in appended.record_errors] == [0, 1, 2]
    assert node[0].log_end_offset == 6


@pytest.mark.parametrize(("compiled", "index"), [(None, 1), (record_backend, 0)])
async def test_records_are_walked_by_default_where_that_is_cheap(
    node: Node, compiled: object, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_backend, "compiled", compiled)
    await node.configure("retention.ms", str(77_000 + index))  # Rules are made anew.
    found = node.append(bytearray(GARBAGE["noise"][0]))
    assert found.error == (ErrorCode.NONE, ErrorCode.INVALID_RECORD)[1 - index]


async def test_a_brokers_level_is_its_topics_default(tmp_path: Path) -> None:
    node = await Node(tmp_path).start(**{"minikafka.records.validation": "full"})
    await node.give(LEAD)
    assert node.append(bytearray(PACKED["no zstd"][0])).error == ErrorCode.INVALID_RECORD
    await node.configure("minikafka.records.validation", "batch")
    assert node.append(bytearray(PACKED["no zstd"][0])).error == ErrorCode.NONE
    await node.stop()


async def test_a_wrong_greatest_timestamp_is_set_right(node: Node) -> None:
    """Lookups by time and retention go by it."""
    await node.configure("minikafka.records.validation", "structure")
    data = three()
    data[35:43] = (WALL_MS * 1000).to_bytes(8, "big")
    seal(data)
    assert node.append(data).error == ErrorCode.NONE
    stored = node[0].log.reader.read(0, max_bytes=1 << 20, up_to=3).data
    header = read_header(stored)
    assert header.max_timestamp == WALL_MS
    assert crc_is_valid(stored, 0, header)
    found = await node[0].log.reader.max_timestamp()
    assert found is not None
    assert found.timestamp == WALL_MS


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("level", ["batch", "structure", "full"])
@pytest.mark.parametrize("said", [-1, 0, WALL_MS - 1])
async def test_a_missing_greatest_timestamp_is_found_at_every_level(
    node: Node, said: int, level: str, codec: Codec
) -> None:
    """Sarama's producer did not set it before 2025; Kafka does that for it."""
    await node.configure("minikafka.records.validation", level)
    data = build([(WALL_MS, None, b""), (WALL_MS + 7, None, b"")], compression=codec)
    data[35:43] = said.to_bytes(8, "big", signed=True)
    seal(data)
    assert node.append(data).error == ErrorCode.NONE
    stored = node[0].log.reader.read(0, max_bytes=1 << 20, up_to=2).data
    header = read_header(stored)
    assert header.max_timestamp == WALL_MS + 7
    assert crc_is_valid(stored, 0, header)


async def test_the_brokers_own_time_needs_no_look_at_the_records(node: Node) -> None:
    await node.configure("minikafka.records.validation", "batch")
    await node.configure("message.timestamp.type", "LogAppendTime")
    data = bytearray(GARBAGE["noise"][0])
    data[35:43] = (-1).to_bytes(8, "big", signed=True)
    seal(data)
    assert node.append(data).error == ErrorCode.NONE
    assert (
        read_header(node[0].log.reader.read(0, max_bytes=1 << 20, up_to=3).data).max_timestamp > 0
    )


@pytest.mark.parametrize("level", ["batch", "structure"])
async def test_times_out_of_bounds_are_refused_by_record(node: Node, level: str) -> None:
    await node.configure("minikafka.records.validation", level)
    await node.configure("message.timestamp.after.max.ms", "1000")
    await node.configure("message.timestamp.before.max.ms", "2000")
    assert node.append(build([(WALL_MS, None, b""), (WALL_MS + 999, None, b"")])).error == 0
    assert node.append(build([(-1, None, b"no time")])).error == 0
    for times, index in (([0, 1001], 1), ([-2001, 0], 0)):
        appended = node.append(build([(WALL_MS + at, None, b"") for at in times]))
        assert appended.error == ErrorCode.INVALID_TIMESTAMP
        named = [each.batch_index for each in appended.record_errors]
        assert named == ([index] if level == "structure" else [])
    await node.configure("message.timestamp.type", "LogAppendTime")
    assert node.append(build([(5, None, b"")])).error == 0


async def test_own_batches_and_what_followers_take_are_not_walked(node: Node) -> None:
    data = bytearray(GARBAGE["noise"][0])
    assert append_own(node[0], bytearray(data), WALL_MS).error == ErrorCode.NONE
    node.partitions.write_staged()
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    stamp(data, read_header(data), 3, 2)
    node.follow(data)
    assert node[0].log_end_offset == 6


# Bombs.


@pytest.mark.parametrize("bomb", [one_large(WALL_MS), many_small(WALL_MS, 300_000)])
async def test_m_04_a_batch_that_expands_far_is_not_opened_on_the_loop(
    node: Node, bomb: bytearray, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.configure("cleanup.policy", "compact")
    expanded = Expanded(monkeypatch)
    with pytest.raises(NeedsOpening) as needed:
        node.append(bytearray(bomb))
    assert expanded.largest <= OPENED_AT_ONCE
    assert needed.value.rules == RecordRules(needs_keys=True)
    assert node[0].log_end_offset == 0
    assert judged(node, bomb).error == ErrorCode.NONE
    assert node[0].log_end_offset == read_header(bomb).record_count


async def test_m_04_one_read_event_opens_only_so_much(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.configure("cleanup.policy", "compact")
    expanded = Expanded(monkeypatch)
    batch = one_large(WALL_MS, size=OPENED_AT_ONCE // 2)
    found = [is_taken_at_once(node, bytearray(batch)) for _ in range(20)]
    assert found == sorted(found, reverse=True), "first on the loop, then elsewhere"
    assert 4 <= sum(found) <= 2 * OPENED_PER_EVENT // OPENED_AT_ONCE
    assert sum(expanded.sizes) <= 4 * OPENED_PER_EVENT


async def test_m_04_records_of_a_large_batch_need_keys_too(node: Node) -> None:
    await node.configure("cleanup.policy", "compact")
    appended = judged(node, one_large(WALL_MS, key=None))
    assert appended.error == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in appended.record_errors] == [0]


async def test_m_04_a_batch_too_large_for_anybody_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.protocol.records.record_checks.MAX_DECOMPRESSED_BYTES", 1 << 20)
    verdict = judge_in_full(bytes(one_large(WALL_MS, size=129 << 20)), RecordRules())
    assert verdict.error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("count", "codec"), [((1 << 20) + 1, Codec.ZSTD), (20, Codec.NONE)])
async def test_m_04_no_more_records_are_declared_than_anybody_can_hold(
    node: Node, count: int, codec: Codec
) -> None:
    data = build([(WALL_MS, b"k", b"v" * 50)], compression=codec)
    data[23:27] = (count - 1).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    seal(data)
    assert node.append(data).error == ErrorCode.INVALID_RECORD
    assert node[0].log_end_offset == 0


# Topics whose records every replica reads, or whose records say when they expire.

ROUTES = '[{"else": true, "to": ["t"]}]'
FORWARDING = [("minikafka.delay.target", "t"), ("minikafka.route.rules", ROUTES)]


@pytest.mark.parametrize(("key", "value"), FORWARDING)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_a_topic_that_forwards_takes_batches_of_so_many_records(
    node: Node, key: str, value: str, codec: Codec
) -> None:
    await node.configure(key, value)
    most = build([(WALL_MS, None, b"")] * FORWARDED_RECORDS, compression=codec)
    assert node.append(most).error == ErrorCode.NONE
    appended = node.append(build([(WALL_MS, None, b"")] * (FORWARDED_RECORDS + 1)))
    assert appended.error == ErrorCode.MESSAGE_TOO_LARGE
    assert appended.message == "10001 records in a batch, 10000 in this topic"
    assert node[0].log_end_offset == FORWARDED_RECORDS


@pytest.mark.parametrize(("key", "value"), FORWARDING)
@pytest.mark.parametrize("level", ["batch", "structure", "full"])
async def test_a_topic_that_forwards_takes_no_batch_that_expands_far(
    node: Node, key: str, value: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.configure("minikafka.records.validation", level)
    assert is_taken_at_once(node, one_large(WALL_MS)) is (level != "full"), "as other topics do"
    await node.configure(key, value)
    expanded = Expanded(monkeypatch)
    appended = node.append(one_large(WALL_MS))
    assert appended.error == ErrorCode.MESSAGE_TOO_LARGE
    assert appended.message == f"decompressed: zstd: more than {OPENED_AT_ONCE} bytes"
    assert expanded.largest <= OPENED_AT_ONCE
    assert node.append(one_large(WALL_MS, size=OPENED_AT_ONCE - 100)).error == ErrorCode.NONE
    await node.configure("max.message.bytes", str(10 << 20))
    assert not is_taken_at_once(node, one_large(WALL_MS)), "a worker opens it"
    assert judged(node, one_large(WALL_MS)).error == ErrorCode.NONE
    assert judged(node, one_large(WALL_MS, size=11 << 20)).error == ErrorCode.MESSAGE_TOO_LARGE


async def test_headers_of_many_records_are_not_read_on_the_loop(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*said: Any) -> None:
        raise AssertionError(said)

    await node.configure("minikafka.ttl.enable", "true")
    plain = [NewRecord(WALL_MS, None, b"", [("x", b"")])] * (READ_RECORDS + 1)
    said = [*plain, NewRecord(WALL_MS, None, b"", [(TTL_MS, b"5")])]
    with monkeypatch.context() as patch:
        patch.setattr(record_checks, "read_expiry", read)
        assert node.append(build(plain)).error == ErrorCode.NONE, "none says when it expires"
    for codec in (Codec.NONE, Codec.ZSTD):
        batch = build(said, compression=codec)
        assert not is_taken_at_once(node, bytearray(batch))
        assert may_need_opening(node[0].rules, read_header(batch))
        assert judged(node, batch).error == ErrorCode.NONE
    wrong = build([*plain, NewRecord(WALL_MS, None, b"", [(TTL_MS, b"soon")])])
    appended = judged(node, wrong)
    assert appended.error == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in appended.record_errors] == [READ_RECORDS + 1]


async def test_a_forwarder_brings_no_batch_that_a_worker_must_open(node: Node) -> None:
    await node.configure("cleanup.policy", "compact")
    batch = one_large(WALL_MS)
    rewrite_producer(batch, 0, producer_id=7, epoch=FORWARD_EPOCH, base_sequence=0)
    appended = append_forwarded(node[0], memoryview(batch), WALL_MS)
    assert appended.error == ErrorCode.INVALID_REQUEST
    assert node[0].log_end_offset == 0


# What the handler does with one that must be opened elsewhere.


class OpeningPartition(FakePartition):
    """Has batches opened whose value begins with `large`."""

    def append_as_leader(self, records: memoryview, *given: Any, **rest: Any) -> Appended:
        if b"large" in bytes(records) and rest.get("verdict") is None:
            raise NeedsOpening(RecordRules())
        verdict = rest.get("verdict")
        if verdict is not None and verdict.error:
            return Appended(verdict.error, message=verdict.detail)
        return super().append_as_leader(records, *given, **rest)


def produce(value: bytes, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=build([(0, b"k", value)]))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


class Worker:
    """The worker process, which answers when it is told to."""

    def __init__(self, broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = asyncio.Event()
        self.batches: list[bytes] = []
        self.answer: Verdict | Exception = Verdict()
        monkeypatch.setattr(broker.runtime, "offload", self.offload)

    async def offload(self, job: Any, batch: bytes, rules: RecordRules) -> Verdict:
        assert job is judge_in_full
        self.batches.append(batch)
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("repeats", [False, True])
async def test_a_producers_order_holds_while_a_batch_is_opened(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, acks: int, repeats: bool
) -> None:
    broker = make_broker(OpeningPartition(0))
    worker = Worker(broker, monkeypatch)
    client = broker.connect()
    before = 1 if repeats else 0
    for _ in range(before):
        client.ask(produce(b"other", acks), 9)
    client.send(produce(b"large", acks), 9)
    client.send(produce(b"small", acks), 9)
    await settle()
    assert len(broker.partition.batches) == before, "what comes after it must not overtake it"
    assert client.responses() == []
    worker.gate.set()
    await settle()
    values = [batch[2] for batch in broker.partition.batches[before:]]
    assert [b"large" in value for value in values] == [True, False]
    offsets = [r.responses[0].partition_responses[0].base_offset for r in client.responses()]
    assert offsets == [before, before + 1]
    assert broker.edge.load.request_bytes == 0


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Verdict(error=ErrorCode.INVALID_RECORD), ErrorCode.INVALID_RECORD),
        (WorkerLost("killed"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_batch_that_a_worker_refuses_is_not_appended(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, answer: Any, error: ErrorCode
) -> None:
    broker = make_broker(OpeningPartition(0))
    worker = Worker(broker, monkeypatch)
    worker.answer = answer
    worker.gate.set()
    client = broker.connect()
    client.send(produce(b"large"), 9)
    await settle()
    (response,) = client.responses()
    assert response.responses[0].partition_responses[0].error_code == error
    assert broker.partition.batches == []


async def test_nothing_is_appended_for_a_client_that_left(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker(OpeningPartition(0))
    worker = Worker(broker, monkeypatch)
    client = broker.connect()
    client.send(produce(b"large"), 9)
    await settle()
    client.transport.close()
    worker.gate.set()
    await settle()
    assert len(worker.batches) == 1
    assert broker.partition.batches == []
    assert broker.edge.load.request_bytes == 0


async def test_what_is_appended_at_once_waits_for_its_own_commit_while_another_is_opened(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is replaced meanwhile, what is committed in its place does not stand for it."""
    other = FakePartition(1)
    other.commits = False
    broker = make_broker(OpeningPartition(0), other)
    worker = Worker(broker, monkeypatch)
    client = broker.connect()
    request = produce(b"large")
    data = PartitionProduceData(index=1, records=build([(0, b"k", b"small")]))
    request.topic_data[0].partition_data.append(data)
    client.send(request, 9)
    await settle()
    # Another leader's records take the place of ours: waiters hear of it, nobody else.
    other.commit(other.end, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    worker.gate.set()
    await settle()
    (response,) = client.responses()
    codes = [each.error_code for each in response.responses[0].partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
