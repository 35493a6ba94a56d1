"""One connection: order, overlap, backpressure, and peers that mean harm."""

import asyncio
import logging
import struct
from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .conftest import MakeBroker
from .edge_support import TOPIC, Client, FakeBroker, FakePartition, batch, settle


def produce(*values: bytes, acks: int = 1, index: int = 0, records: Any = None) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records or batch(*values or (b"v",)))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic])


def fetch(offset: int = 0, *, max_wait_ms: int = 500, min_bytes: int = 1) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, partitions=[asked])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[topic])


def paused(client: Client) -> bool:
    return client.transport.is_paused


def latest() -> ListOffsetsRequest:
    topic = ListOffsetsTopic(
        name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    return ListOffsetsRequest(topics=[topic])


def fill(broker: FakeBroker) -> None:
    """Put 2.4 MB of records into the partition."""
    for _ in range(40):
        broker.partition.append_as_leader(memoryview(batch(b"x" * 60_000)), acks=1, wall_ms=0)
    broker.partitions.write_staged()


async def test_pipelined_produces_are_written_once_and_answered_in_order_in_one_write(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client = broker.connect()
    client.feed(b"".join(client.frame(produce(b"%d" % i), 9) for i in range(20)))
    offsets = [each.responses[0].partition_responses[0].base_offset for each in client.responses()]
    assert offsets == list(range(20))
    assert broker.partitions.writes == 1
    assert client.transport.writes == 1


@pytest.mark.parametrize("at_once", [1, 3, 7, 100])
async def test_frames_may_arrive_in_any_pieces(make_broker: MakeBroker, at_once: int) -> None:
    client = make_broker().connect()
    frames = client.frame(produce(b"a"), 7) + client.frame(latest(), 6)
    client.feed(frames + client.frame(produce(b"b"), 13 - 1), at_once=at_once)
    first, offsets, second = client.responses()
    assert first.responses[0].partition_responses[0].base_offset == 0
    assert offsets.topics[0].partitions[0].offset == 1
    assert second.responses[0].partition_responses[0].base_offset == 1


async def test_produce_overlaps_produce_while_commits_are_awaited(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0, commits=False))
    client = broker.connect()
    client.send(produce(b"a", acks=-1), 9)
    client.send(produce(b"b", acks=-1), 9)
    assert [first for first, _, _ in broker.partition.batches] == [0, 1]
    assert client.responses() == []
    broker.partition.commit(2)
    await settle()
    assert len(client.responses()) == 2
    assert client.transport.writes == 1


async def test_an_answer_that_is_ready_waits_for_the_one_before_it(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0, commits=False), FakePartition(1))
    client = broker.connect()
    client.send(produce(b"slow", acks=-1), 9)
    client.send(produce(b"fast", acks=-1, index=1), 9)
    await settle()
    assert client.responses() == []
    broker.partition.commit(1)
    await settle()
    indexes = [r.responses[0].partition_responses[0].index for r in client.responses()]
    assert indexes == [0, 1]


async def test_anything_but_produce_waits_until_all_before_it_are_answered(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0, commits=False))
    client = broker.connect()
    client.send(produce(b"a", acks=-1), 9)
    client.send(latest(), 6)
    client.send(produce(b"b", acks=-1), 9)
    assert len(broker.partition.batches) == 1, "the second produce must not overtake ListOffsets"
    broker.partition.commit(1)
    await settle()
    first, offsets = client.responses()
    assert first.responses[0].partition_responses[0].error_code == 0
    assert offsets.topics[0].partitions[0].offset == 1
    assert len(broker.partition.batches) == 2
    broker.partition.commit(2)
    await settle()
    assert len(client.responses()) == 1


async def test_a_read_in_the_same_event_sees_the_appends_before_it(
    make_broker: MakeBroker,
) -> None:
    client = make_broker().connect()
    client.feed(client.frame(produce(b"a"), 9) + client.frame(fetch(), 12))
    _, fetched = client.responses()
    assert fetched.responses[0].partitions[0].high_watermark == 1


async def test_a_failed_write_is_the_answer_to_every_request_of_the_event(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    broker.partition.disk_fails = True
    client = broker.connect()
    client.feed(b"".join(client.frame(produce(b"x", acks=acks), 9) for acks in (1, -1)))
    errors = [r.responses[0].partition_responses[0].error_code for r in client.responses()]
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_acks_0_is_not_answered(make_broker: MakeBroker) -> None:
    broker = make_broker()
    client = broker.connect()
    client.feed(client.frame(produce(b"a", acks=0), 9) + client.frame(produce(b"b"), 9))
    (response,) = client.responses()
    assert response.responses[0].partition_responses[0].base_offset == 1


async def test_an_acks_0_error_closes_after_earlier_answers(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    broker.partitions.all[1].error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    client = broker.connect()
    late = client.frame(produce(b"late"), 9)
    bad = client.frame(produce(b"b", acks=0, index=1), 9)
    client.feed(client.frame(produce(b"a"), 9) + bad + late)
    assert len(client.responses()) == 1
    assert client.transport.is_closed
    (line,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "acks=0" in line.getMessage()


async def test_a_closed_connection_removes_its_waiters_at_once(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0, commits=False))
    producer, consumer = broker.connect(), broker.connect()
    producer.send(produce(b"a", acks=-1), 9)
    consumer.send(fetch(), 12)
    assert len(broker.partition.data_waiters.waiting or ()) == 1
    assert [waiter.done is None for waiter, _ in broker.partition.uncommitted] == [False]
    for client in (producer, consumer):
        client.connection.connection_lost(None)
    assert broker.partition.data_waiters.waiting is None
    assert [waiter.done is None for waiter, _ in broker.partition.uncommitted] == [True]
    assert broker.edge.doors.connections == []
    broker.partition.commit(1)
    await settle()
    assert producer.responses() == consumer.responses() == []


async def test_nothing_is_written_to_a_transport_whose_peer_is_gone(
    make_broker: MakeBroker,
) -> None:
    """A transport closes by itself, and says so only in a later turn of the loop."""
    broker = make_broker()
    client, other = broker.connect(), broker.connect()
    client.send(fetch(), 12)
    client.transport.is_closed = True
    other.send(produce(b"news"), 9)
    await settle()
    assert client.transport.writes == 0
    client.connection.connection_lost(None)
    assert broker.partition.data_waiters.waiting is None


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 5000])
async def test_m_01_an_impossible_frame_size_closes_at_once_without_allocation(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    client = make_broker(socket_request_max_bytes="4999").connect()
    client.feed(client.frame(latest(), 6) + struct.pack(">i", size) + b"x" * 64)
    assert len(client.responses()) == 1
    assert client.transport.is_closed
    assert client.connection._reader.capacity <= 1 << 18
    (line,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "10.0.0.9:5555" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
        struct.pack(">ihhih", 10, 1, 12, 1, 500),
        struct.pack(">ihhih", 14, 3, 9, 1, -1) + b"\x00\xff\xff\xff",
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 0, 2, 1, -1),
    ],
    ids=["http", "half-header", "empty", "client-id", "array", "unknown-api", "produce-2"],
)
async def test_garbage_closes_its_connection_with_one_log_line_and_nobody_elses(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    broker = make_broker()
    bad, good = broker.connect(), broker.connect()
    bad.feed(garbage)
    assert bad.transport.is_closed
    assert bad.transport.sent == b""
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert good.ask(latest(), 6).topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("api_key", [27, 52, 56, 63])
async def test_m_08_apis_of_brokers_and_controllers_are_not_spoken_to_clients(
    make_broker: MakeBroker, api_key: int
) -> None:
    client = make_broker().connect()
    client.feed(struct.pack(">ihhih", 14, api_key, 0, 1, -1) + b"\0\0\0\0")
    assert client.transport.is_closed
    assert client.transport.sent == b""


async def test_a_bug_in_a_handler_ends_its_connection_only(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broker.partition, "list_offset", fail)
    bad, good = broker.connect(), broker.connect()
    bad.send(latest(), 6)
    assert bad.transport.is_aborted
    assert "ZeroDivisionError" in caplog.text
    assert good.ask(produce(b"a"), 9).responses[0].partition_responses[0].error_code == 0


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    make_broker: MakeBroker,
) -> None:
    client = make_broker().connect()
    frame = bytearray(client.frame(ApiVersionsRequest(), 4))
    struct.pack_into(">h", frame, 6, 99)
    client.asked[1] = (18, 0)
    client.feed(bytes(frame))
    (response,) = client.responses()
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (row,) = response.api_keys
    assert (row.api_key, row.min_version, row.max_version) == (18, 0, 4)
    assert not client.transport.is_closed


async def test_a_peer_that_does_not_read_is_not_read_from(make_broker: MakeBroker) -> None:
    broker = make_broker()
    fill(broker)
    client = broker.connect()
    client.transport.is_stuck = True
    frames = b"".join(client.frame(fetch(), 12) for _ in range(50))
    client.feed(frames)
    assert paused(client)
    assert broker.edge.load.response_bytes == client.transport.unread
    assert client.transport.unread < 6 << 20, "answered on although nothing was read"
    before = len(client.responses())
    assert before < 50
    client.transport.relieve()
    await settle()
    assert before + len(client.responses()) == 50
    assert broker.edge.load.response_bytes == broker.edge.load.request_bytes == 0
    assert not paused(client)


async def test_requests_behind_a_parked_one_are_bounded(make_broker: MakeBroker) -> None:
    broker = make_broker()
    client = broker.connect()
    client.send(fetch(0, max_wait_ms=60_000), 12)
    big = produce(b"x" * 100_000)
    while not paused(client):
        client.send(big, 9)
    assert broker.edge.load.request_bytes < 2 << 20
    other = broker.connect()
    other.send(produce(b"data"), 9)
    await settle()
    assert client.responses()
    assert not paused(client)
    assert broker.edge.load.request_bytes == 0


async def test_unanswered_produces_are_bounded(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0, commits=False))
    client = broker.connect()
    frames = b"".join(client.frame(produce(b"%d" % i, acks=-1), 9) for i in range(3000))
    client.feed(frames[: len(frames) // 2])
    assert paused(client)
    assert len(broker.partition.batches) <= 1024
    broker.partition.commit(1024)
    await settle()
    broker.partition.commit(3000)
    await settle()
    assert not paused(client)


async def test_peers_that_do_not_read_are_cut_and_others_served_all_the_while(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(minikafka_queued_max_response_bytes="8000000")
    fill(broker)
    follower = broker.connect()
    follower.connection.is_replica = True
    follower.transport.is_stuck = True
    follower.send(fetch(), 12)
    hogs = [broker.connect() for _ in range(40)]
    good = broker.connect()
    for hog in hogs:
        hog.transport.is_stuck = True
        hog.feed(b"".join(hog.frame(fetch(), 12) for _ in range(3)))
        assert good.ask(produce(b"v"), 9).responses[0].partition_responses[0].error_code == 0
        assert good.ask(fetch(), 12).responses[0].partitions[0].records
        assert not paused(good)
        assert broker.edge.load.response_bytes <= 8_000_000
    closed = [hog.transport.is_aborted for hog in hogs]
    assert 0 < sum(closed) < 40
    assert closed == sorted(closed, reverse=True), "the oldest first"
    assert not follower.transport.is_closed
    await settle()
    assert broker.edge.load.response_bytes > 0
    for client in [*hogs, follower]:
        client.transport.abort()
    await settle()
    assert broker.edge.load.response_bytes == broker.edge.load.request_bytes == 0


async def test_a_peer_that_takes_nothing_is_closed_though_its_requests_wait_in_line(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(minikafka_connections_max_stall_ms="20")
    fill(broker)
    hung = broker.connect()
    hung.transport.is_stuck = True
    hung.feed(b"".join(hung.frame(fetch(), 12) for _ in range(3)))
    assert paused(hung)
    async with asyncio.timeout(10):
        await hung.transport.closed.wait()


async def test_a_parked_fetch_counts_with_what_it_has_read(make_broker: MakeBroker) -> None:
    broker = make_broker()
    fill(broker)
    client = broker.connect()
    client.send(fetch(min_bytes=1 << 30, max_wait_ms=60_000), 12)
    assert client.responses() == []
    assert broker.edge.load.response_bytes > 900_000
    client.connection.connection_lost(None)
    assert broker.edge.load.response_bytes == 0


async def test_large_frames_wait_for_memory_and_small_requests_do_not(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(queued_max_request_bytes="4000000")
    hogs = [broker.connect() for _ in range(30)]
    for hog in hogs:
        frame = struct.pack(">i", 50_000_000) + bytes(900_000)
        for at in range(0, len(frame), 16_384):
            if not paused(hog):
                hog.feed(frame[at : at + 16_384])
    assert sum(paused(hog) for hog in hogs) > 20
    assert broker.edge.load.request_bytes <= 4_000_000 + 2_000_000
    good, follower = broker.connect(), broker.connect()
    follower.connection.is_replica = True
    for _ in range(5):
        assert (
            good.ask(produce(b"x" * 30_000), 9).responses[0].partition_responses[0].error_code == 0
        )
    assert follower.ask(produce(b"x" * 900_000), 9)
    for hog in hogs:
        hog.connection.connection_lost(None)
    assert broker.edge.load.request_bytes <= follower.connection._reader.capacity


async def test_whole_requests_in_line_are_held_once(make_broker: MakeBroker) -> None:
    broker = make_broker()
    client = broker.connect()
    client.send(fetch(0, max_wait_ms=60_000), 12)
    client.send(produce(b"x" * 5_000_000), 9)
    assert paused(client)
    assert 5_000_000 < broker.edge.load.request_bytes < 5_100_000
    client.connection.connection_lost(None)
    assert broker.edge.load.request_bytes == 0


async def test_m_12_half_frames_hold_what_they_sent_and_are_closed_when_idle(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    slow = [broker.connect() for _ in range(200)]
    for client in slow:
        # Claims 50 MB, sends 8 KB.
        client.feed(struct.pack(">i", 50_000_000) + b"\0" * 8192)
    assert sum(client.connection._reader.capacity for client in slow) <= 200 * 16 * 1024
    good = broker.connect()
    assert good.ask(latest(), 6).topics[0].partitions[0].error_code == 0
    for client in [*slow, good]:
        client.feed(b"\0" if client in slow else b"")
        client.connection._idleness.look()
    assert all(client.transport.is_closed for client in slow)
    assert good.ask(latest(), 6).topics[0].partitions[0].error_code == 0


async def test_a_client_that_asks_nothing_for_the_idle_time_is_closed(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(connections_max_idle_ms="20")
    waiting, idle = broker.connect(), broker.connect()
    waiting.send(fetch(max_wait_ms=60_000), 12)
    async with asyncio.timeout(10):
        await idle.transport.closed.wait()
    assert not waiting.transport.is_closed, "a long poll is not idle"


async def test_connections_beyond_the_maximum_are_closed(make_broker: MakeBroker) -> None:
    broker = make_broker(max_connections="1")
    silent, first = broker.connect(), broker.connect()
    assert silent.transport.is_closed, "it had asked for nothing"
    await settle()
    assert first.ask(MetadataRequest(topics=[]), 9).cluster_id == "c1uster"
    assert broker.connect().transport.is_closed
    assert not first.transport.is_closed
    first.connection.connection_lost(None)
    assert not broker.connect().transport.is_closed


async def test_a_connection_that_is_made_after_the_broker_closed_its_doors_is_closed(
    make_broker: MakeBroker,
) -> None:
    """The loop makes it some turns after it was accepted."""
    broker = make_broker()
    broker.edge.doors.close()
    assert broker.connect().transport.is_closed
    assert not broker.edge.doors.connections
