import asyncio
import itertools
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.aio import Consumer, Producer
from minikafka.client.errors import (
    ConnectError,
    ConnectionLost,
    RequestTimedOut,
    UnsupportedVersion,
)
from minikafka.client.net.address import Address
from minikafka.client.net.backoff import Backoff
from minikafka.client.net.connection import ConnectionOptions, KafkaConnection, body_position
from minikafka.client.net.pool import CONTROL, PRODUCE, Pool
from minikafka.client.net.watched import WatchedConnection
from minikafka.protocol import codec
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control.frames import encode_frame
from minikafka.protocol.control.messages import Refused
from minikafka.protocol.errors import ErrorCode, RemoteProtocolError
from minikafka.protocol.messages import api_versions as av
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.records.record_batch import NewRecord, build
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.keepalive import LOST_AFTER_S
from minikafka.runtime.runtime import SystemRuntime

from .fake_broker import Close, FakeCluster, FakeNode, Garbage, Silence

RUNTIME = SystemRuntime("test")


async def connect(cluster: FakeCluster, **options: Any) -> KafkaConnection:
    node = cluster.nodes[1]
    made = ConnectionOptions(**{"request_timeout_ms": 5_000, **options})
    return await KafkaConnection.open(RUNTIME, "127.0.0.1", node.port, made)


def on(key: ApiKey, fault: BaseException) -> Callable[[FakeNode, int, Any], None]:
    def plant(node: FakeNode, api: int, request: Any) -> None:
        if api == key:
            raise fault

    return plant


async def test_the_highest_common_version_is_chosen() -> None:
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.METADATA] = (0, 9)
        cluster.versions[ApiKey.FETCH] = (4, 99)
        del cluster.versions[ApiKey.INIT_PRODUCER_ID]
        connection = await connect(cluster)
        assert connection.versions.of(ApiKey.METADATA) == 9
        assert connection.versions.of(ApiKey.FETCH) == 18
        assert connection.versions.of(ApiKey.FETCH, at_most=12) == 12
        assert not connection.versions.supports(ApiKey.INIT_PRODUCER_ID)
        with pytest.raises(UnsupportedVersion, match="INIT_PRODUCER_ID"):
            connection.versions.of(ApiKey.INIT_PRODUCER_ID)
        await connection.close()


@pytest.mark.parametrize("newest", [0, 1, 2, 3])
async def test_an_older_broker_names_the_versions_to_use(newest: int) -> None:
    """It answers ApiVersions v4 with error 35 in version 0 (KIP-511)."""
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.API_VERSIONS] = (0, newest)
        connection = await connect(cluster)
        response: MetadataResponse = await connection.request(MetadataRequest(topics=[]))
        assert response.cluster_id == "fake"
        await connection.close()


async def test_an_error_35_without_anything_else_means_version_0() -> None:
    answered: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := int.from_bytes(await reader.read(4), "big"):
            header, _ = codec.decode_request_header(memoryview(await reader.readexactly(size)))
            answered.append(header.api_version)
            body = b"\x00\x23"
            if header.api_version == 0:
                one = av.ApiVersion(api_key=3, min_version=0, max_version=5)
                body = codec.encode_bytes(av.ApiVersionsResponse(api_keys=[one]), 0)
            frame = header.correlation_id.to_bytes(4, "big") + body
            writer.write(len(frame).to_bytes(4, "big") + frame)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await KafkaConnection.open(RUNTIME, "127.0.0.1", port)
        assert answered == [4, 0]
        assert connection.versions.of(ApiKey.METADATA) == 5
        await connection.close()


async def test_answers_go_to_the_requests_in_order() -> None:
    async with FakeCluster() as cluster:
        cluster.create("a")
        connection = await connect(cluster)
        futures = [
            connection.send(MetadataRequest(topics=None)),
            connection.send(MetadataRequest(topics=[])),
            connection.send(MetadataRequest(topics=None)),
        ]
        assert connection.in_flight_count == 3
        answers: list[MetadataResponse] = await asyncio.gather(*futures)
        assert [len(answer.topics) for answer in answers] == [1, 0, 1]
        assert connection.in_flight_count == 0
        await connection.close()


async def test_a_cancelled_request_does_not_shift_the_answers() -> None:
    async with FakeCluster() as cluster:
        cluster.create("a")
        connection = await connect(cluster)
        first = connection.send(MetadataRequest(topics=[]))
        second = connection.send(MetadataRequest(topics=None))
        first.cancel()
        answer: MetadataResponse = await second
        assert len(answer.topics) == 1
        await connection.close()


async def test_request_waits_for_a_place_in_flight() -> None:
    async with FakeCluster() as cluster:
        connection = await connect(cluster, max_in_flight=2)
        answers = await asyncio.gather(
            *(connection.request(MetadataRequest(topics=[])) for _ in range(7))
        )
        assert len(answers) == 7
        connection.send(MetadataRequest(topics=[]))
        connection.send(MetadataRequest(topics=[]))
        with pytest.raises(ConnectionLost, match="too many"):
            connection.send(MetadataRequest(topics=[]))
        await connection.close()


async def test_a_request_past_its_deadline_ends_the_connection() -> None:
    async with FakeCluster() as cluster:
        connection = await connect(cluster)
        cluster.fault = on(ApiKey.METADATA, Silence())
        slow = connection.send(MetadataRequest(topics=[]), timeout_ms=20)
        behind = connection.send(MetadataRequest(topics=[]), timeout_ms=10_000)
        with pytest.raises(RequestTimedOut, match="METADATA"):
            await slow
        with pytest.raises(ConnectionLost, match="METADATA was not answered in time"):
            await behind
        assert not connection.is_open
        with pytest.raises(ConnectionLost):
            connection.send(MetadataRequest(topics=[]))


async def test_an_earlier_deadline_is_kept_beside_a_later_one() -> None:
    async with FakeCluster() as cluster:
        connection = await connect(cluster)
        cluster.fault = on(ApiKey.METADATA, Silence())
        long = connection.send(MetadataRequest(topics=[]), timeout_ms=60_000)
        short = connection.send(MetadataRequest(topics=[]), timeout_ms=20)
        with pytest.raises(RequestTimedOut):
            await short
        with pytest.raises(ConnectionLost):
            await long


async def test_a_lost_connection_fails_what_was_in_flight() -> None:
    async with FakeCluster() as cluster:
        connection = await connect(cluster)
        cluster.fault = on(ApiKey.METADATA, Close())
        with pytest.raises(ConnectionLost, match="closed by the broker"):
            await connection.request(MetadataRequest(topics=[]))
        assert not connection.is_open


async def test_garbage_ends_the_connection_and_names_itself() -> None:
    async with FakeCluster() as cluster:
        connection = await connect(cluster)
        cluster.fault = on(ApiKey.METADATA, Garbage(b"\x00\xff\xff\xff\xff\xff"))
        with pytest.raises(RemoteProtocolError, match="MetadataResponse"):
            await connection.request(MetadataRequest(topics=[]))
        assert not connection.is_open


async def serve_bytes(data: bytes) -> tuple[asyncio.Server, int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer speaks HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the peer speaks TLS, this end plain text"),
        (encode_frame(0, Refused(42)), "it is a controller: clients need a broker's address"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "answer 99 came where 1 was due"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
    ],
)
async def test_what_is_not_kafka_is_told_at_once(data: bytes, cause: str) -> None:
    server, port = await serve_bytes(data)
    async with server:
        with pytest.raises(ConnectError, match=cause) as caught:
            await KafkaConnection.open(RUNTIME, "127.0.0.1", port)
        assert caught.value.attempt.phase == "negotiate"
        assert caught.value.attempt.address == f"127.0.0.1:{port}"


async def test_a_peer_that_hangs_up_on_the_first_words_may_be_no_broker_for_plain_text() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match=f"^127.0.0.1:{port}: negotiate: closed without an"):
            await KafkaConnection.open(RUNTIME, "127.0.0.1", port)


async def test_a_refused_port_is_phase_connect() -> None:
    async with FakeCluster() as cluster:
        port = cluster.nodes[1].port
    with pytest.raises(ConnectError) as caught:
        await KafkaConnection.open(RUNTIME, "127.0.0.1", port)
    assert caught.value.attempt.phase == "connect"


async def test_an_unknown_host_is_phase_resolve() -> None:
    with pytest.raises(ConnectError) as caught:
        await KafkaConnection.open(RUNTIME, "no-such-host.invalid", 9092)
    assert caught.value.attempt.phase == "resolve"


async def test_a_silent_server_is_given_up() -> None:
    server, port = await serve_bytes(b"")
    async with server:
        with pytest.raises(ConnectError, match="no answer within 50 ms"):
            await KafkaConnection.open(
                RUNTIME, "127.0.0.1", port, ConnectionOptions(connect_timeout_ms=50)
            )


def fetch_request(cluster: FakeCluster, offset: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="a", topic_id=cluster.topics["a"].topic_id, partitions=[wanted])
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])


async def test_a_raw_answer_is_the_body_as_received() -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create("a")
        topic.partitions[0].append(build([(1, None, b"x" * 100_000)]))
        connection = await connect(cluster)
        version = connection.versions.of(ApiKey.FETCH)
        for _ in range(3):
            view = await connection.send_raw(fetch_request(cluster))
            decoded = codec.decode(FetchResponse, version, view)
            data = decoded.responses[0].partitions[0].records
            assert bytes(data or b"") == bytes(topic.partitions[0].batches[0])
        await connection.close()


async def test_records_of_a_decoded_answer_outlive_the_next_one() -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create("a")
        topic.partitions[0].append(build([(1, None, b"first")]))
        topic.partitions[0].append(build([(1, None, b"other")]))
        connection = await connect(cluster)
        one: FetchResponse = await connection.request(fetch_request(cluster))
        records = one.responses[0].partitions[0].records
        before = bytes(records or b"")
        for _ in range(5):
            await connection.request(fetch_request(cluster, offset=1))
        assert bytes(records or b"") == before
        await connection.close()


async def test_bytes_nobody_asked_for_do_not_reach_a_raw_answer() -> None:
    """The answer lies in the receive buffer: what a broken peer adds must not overwrite it."""
    first_answered = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keys = [av.ApiVersion(api_key=k, min_version=0, max_version=9) for k in (3, 18)]
        for body in (codec.encode_bytes(av.ApiVersionsResponse(api_keys=keys), 4), b"\x00A" * 9):
            size = int.from_bytes(await reader.readexactly(4), "big")
            frame = await reader.readexactly(size)
            answer = frame[4:8] + body
            writer.write(len(answer).to_bytes(4, "big") + answer)
        await first_answered.wait()
        writer.write(b"\x00\x00\x00\x12" + b"Z" * 18)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await KafkaConnection.open(RUNTIME, "127.0.0.1", port)
        view = await connection.send_raw(MetadataRequest(topics=[]))
        assert bytes(view) == (b"\x00A" * 9)[1:]
        first_answered.set()
        await connection._lost
        with pytest.raises(ConnectionLost, match="no request had asked"):
            connection.send(MetadataRequest(topics=[]))
        assert bytes(view) == (b"\x00A" * 9)[1:]


def test_header_tags_are_skipped_within_the_frame() -> None:
    frame = b"\x00\x00\x00\x01" + b"\x01\x05\x02hi" + b"body"
    assert body_position(MetadataResponse, 9, memoryview(frame)) == 9
    assert body_position(MetadataResponse, 8, memoryview(frame)) == 4
    assert body_position(av.ApiVersionsResponse, 4, memoryview(frame)) == 4
    with pytest.raises(RemoteProtocolError):
        body_position(MetadataResponse, 9, memoryview(b"\x00\x00\x00\x01\x01\x05\x7fhi"))
    with pytest.raises(RemoteProtocolError):
        body_position(MetadataResponse, 9, memoryview(b"\x00\x00\x00\x01"))


async def test_a_broker_that_refuses_the_handshake_is_named() -> None:
    async with FakeCluster() as cluster:
        refusal = codec.encode_bytes(
            av.ApiVersionsResponse(
                error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), api_keys=[]
            ),
            4,
        )
        cluster.fault = on(ApiKey.API_VERSIONS, Garbage(refusal))
        with pytest.raises(ConnectError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await connect(cluster)


async def test_the_kernel_watches_for_a_peer_that_is_gone_without_a_word() -> None:
    async with FakeCluster() as cluster:
        connection = await connect(cluster)
        made = connection._transport
        assert made is not None
        found = made.get_extra_info("socket")
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            idle, every, count = (found.getsockopt(socket.IPPROTO_TCP, each) for each in options)
            assert idle + every * count == LOST_AFTER_S
            unacknowledged_ms = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert unacknowledged_ms == LOST_AFTER_S * 1000
        await connection.close()


async def test_a_watched_connection_gives_a_silent_peer_up() -> None:
    async with FakeCluster() as cluster:
        port = cluster.nodes[1].port
        connection = await WatchedConnection.open(RUNTIME, "127.0.0.1", port)
        connection.patience_ms = 20
        connection._look(connection._received)  # what negotiating had set is over
        cluster.fault = on(ApiKey.METADATA, Silence())
        with pytest.raises(ConnectionLost, match="silent for 20 ms"):
            await connection.request(MetadataRequest(topics=[]))


async def test_a_watched_connection_waits_while_bytes_come_or_nothing_is_due() -> None:
    async with FakeCluster() as cluster:
        port = cluster.nodes[1].port
        connection = await WatchedConnection.open(RUNTIME, "127.0.0.1", port)
        connection._look(connection._received)
        assert connection.is_open, "nothing is due"
        cluster.fault = on(ApiKey.METADATA, Silence())
        answer = connection.send(MetadataRequest(topics=[]))
        connection._look(connection._received - 1)
        assert connection.is_open, "something had come since the last look"
        connection._look(connection._received)
        with pytest.raises(ConnectionLost, match="silent"):
            await answer


THROTTLE_MS = 150


def arrivals(cluster: FakeCluster, key: ApiKey) -> list[int]:
    """Return a list that gets the time in ms at which each request of an API arrives."""
    times: list[int] = []

    def note(node: FakeNode, api: int, request: Any) -> None:
        if api == key:
            times.append(RUNTIME.monotonic_ms())

    cluster.fault = note
    cluster.throttle_ms[key] = THROTTLE_MS
    return times


def gaps(times: list[int]) -> list[int]:
    return [after - before for before, after in itertools.pairwise(times)]


async def test_a_throttled_producer_waits_as_long_as_it_is_told() -> None:
    """KIP-219: brokers answer at once, and clients keep still afterwards."""
    async with FakeCluster() as cluster:
        cluster.create("t")
        times = arrivals(cluster, ApiKey.PRODUCE)
        async with Producer(cluster.bootstrap) as producer:
            for _ in range(3):
                await producer.send("t", b"v")
        assert len(times) == 3
        assert min(gaps(times)) >= THROTTLE_MS


async def test_a_throttled_consumer_waits_as_long_as_it_is_told() -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create("t")
        times = arrivals(cluster, ApiKey.FETCH)
        async with Consumer(cluster.bootstrap, fetch_max_wait_ms=1) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek_to_beginning(TopicPartition("t", 0))
            async with asyncio.timeout(20):
                for number in range(3):
                    topic.partitions[0].append(build([NewRecord(1, None, b"%d" % number, ())]))
                    cluster.notify()
                    while not await consumer.poll(1_000):
                        pass
        assert len(times) >= 3
        assert min(gaps(times)) >= THROTTLE_MS


async def test_a_throttle_ends_with_its_connection() -> None:
    async with FakeCluster() as cluster:
        pool = Pool(RUNTIME, ConnectionOptions(), Backoff(1, 1))
        address = Address("127.0.0.1", cluster.nodes[1].port)
        connection = await pool.get(address, CONTROL)
        connection.throttle.until_ms = RUNTIME.monotonic_ms() + 3_600_000
        assert pool.ready(address, CONTROL) is None
        waiting = asyncio.ensure_future(pool.get(address, CONTROL))
        await asyncio.sleep(0)
        connection.abort()
        async with asyncio.timeout(20):
            assert await waiting is not connection
        await pool.close()


async def test_a_broker_that_throttles_is_not_suspected_of_being_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each client over its quota would ask for metadata twice a second."""
    async with FakeCluster() as cluster, Producer(cluster.bootstrap) as producer:
        cluster.create("t")
        await producer.send("t", b"v")
        sender = producer._engine._sender
        assert sender is not None
        metadata = sender._metadata
        connection = metadata.pool.ready(metadata.view.brokers[1].address, PRODUCE)
        assert connection is not None
        connection.throttle.until_ms = RUNTIME.monotonic_ms() + 3_600_000
        avoided: list[int | None] = []
        monkeypatch.setattr(metadata, "refresh_soon", lambda *, avoid=None: avoided.append(avoid))
        start, waits = metadata.pool.start, asyncio.Event()

        def noted(address: Address, lane: str) -> Any:
            waits.set()
            return start(address, lane)

        monkeypatch.setattr(metadata.pool, "start", noted)
        sent = asyncio.ensure_future(producer.send("t", b"w"))
        async with asyncio.timeout(20):
            await waits.wait()
        later_ms = RUNTIME.monotonic_ms() + 60_000
        try:
            assert sender._ask_about_slow_brokers(later_ms) is not None
            assert avoided == []
            connection.throttle.until_ms = 0
            sender._ask_about_slow_brokers(later_ms + 60_000)
            assert avoided == [1]
        finally:
            connection.abort()
        async with asyncio.timeout(20):
            await sent
