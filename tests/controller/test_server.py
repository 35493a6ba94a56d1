"""Controller and control connection over real sockets and files."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.client.errors import ConnectError
from minikafka.client.net.connection import KafkaConnection
from minikafka.client.net.control import ControlConnection, ControlStream
from minikafka.controller.api import session, sessions
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control import messages as m
from minikafka.protocol.control.batches import load_snapshot
from minikafka.protocol.control.frames import encode_frame
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.runtime.errors import ConfigError

from .conftest import Lab


async def test_brokers_register_serve_and_are_told_of_topics(lab: Lab) -> None:
    brokers = [await lab.broker(broker_id) for broker_id in (1, 2, 3)]
    for broker in brokers:
        await broker.come_up()
    result = await brokers[0].create_topic("flights", 6, 3)
    assert result.error_code == 0
    assert (result.num_partitions, result.replication_factor) == (6, 3)
    await brokers[1].follow()
    assert brokers[1].image == brokers[0].image
    topic = brokers[1].image.topic("flights")
    assert topic is not None
    assert topic.topic_id == result.topic_id
    assert {state.leader for state in topic.partitions.values()} == {1, 2, 3}
    assert all(sorted(state.isr) == [1, 2, 3] for state in topic.partitions.values())


async def test_a_metadata_fetch_is_answered_the_moment_something_is_committed(lab: Lab) -> None:
    one, two = await lab.broker(1), await lab.broker(2)
    await one.come_up()
    await two.register()
    await one.follow()
    waiting = asyncio.create_task(one.follow(max_wait_ms=10_000))
    await two.follow_until(lambda image: image.offset >= two.epoch)
    assert not waiting.done()
    await two.beat()
    delta = await waiting
    assert list(delta.changed_brokers) == [2]
    assert not one.image.brokers[2].fenced


async def test_a_fetch_for_nothing_new_is_answered_empty_after_its_time(lab: Lab) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    assert not await broker.follow(max_wait_ms=20)


async def test_a_killed_broker_is_fenced_at_once_and_its_partitions_elect(lab: Lab) -> None:
    """Session time is 2 s: only the broken connection and the refused probe can be this fast."""
    one, two = await lab.broker(1), await lab.broker(2)
    await one.come_up()
    await two.come_up()
    topic = await one.create_topic("t", 4, 2)
    before = dict(one.image.topics[topic.topic_id].partitions)
    assert {state.leader for state in before.values()} == {1, 2}
    started = asyncio.get_running_loop().time()
    two.connection.abort("kill -9")  # its port 1 refuses
    await one.follow_until(lambda image: image.brokers[2].fenced)
    assert (
        asyncio.get_running_loop().time() - started
        < lab.server.config.broker_session_timeout_ms / 1000
    )
    after = one.image.topics[topic.topic_id].partitions
    assert all(state.leader == 1 and state.isr == (1,) for state in after.values())
    for index, state in after.items():
        moved = before[index].leader == 2
        assert state.leader_epoch == before[index].leader_epoch + moved


async def test_a_lost_connection_of_a_broker_that_lives_does_not_fence_it(lab: Lab) -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    two = await lab.broker(2, port=server.sockets[0].getsockname()[1])
    await two.come_up()
    two.connection.abort("network trouble")
    await two.connection.wait_until_closed()
    again = await lab.connect(2)
    two.connection = again
    assert not (await two.beat()).is_fenced
    server.close()


async def test_a_registration_whose_answer_was_lost_is_good_all_the_same(lab: Lab) -> None:
    """The connection ends between commit and answer; the broker learns its epoch elsewhere."""
    broker = await lab.broker(1)
    await broker.come_up()
    lab.server.controller.leases._leases.clear()
    broker.connection.abort("trouble")
    broker.connection = await lab.connect(1)
    assert not (await broker.beat()).is_fenced
    assert lab.server.controller.leases.is_live(1)


async def test_a_foreign_cluster_is_refused(lab: Lab) -> None:
    with pytest.raises(ApiError, match="belongs to cluster") as refused:
        await lab.connect(1, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    connection = await lab.connect(1)
    assert connection.peer.cluster_id == lab.server.controller.cluster_id


async def test_a_version_that_is_not_spoken_is_refused(lab: Lab) -> None:
    with pytest.raises(ApiError) as refused:
        await lab.connect(1, versions=(7, 9))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x03\x93\x01\x02",
        encode_frame(0, m.AllocateProducerIds(1, 1)),
        encode_frame(0, m.Refused(1)),
    ],
)
async def test_garbage_closes_its_own_connection_only(lab: Lab, garbage: bytes) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    reader, writer = await asyncio.open_connection(*lab.server.address)
    writer.write(garbage)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert not (await broker.beat()).is_fenced


async def test_garbage_of_one_kind_is_said_once_however_many_send_it(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        reader, writer = await asyncio.open_connection(*lab.server.address)
        writer.write(encode_frame(0, m.AllocateProducerIds(1, 1)))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ApiError):
            await lab.connect(1, versions=(7, 9))
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    first_words = [line.partition("closed: ")[2].split()[0] for line in said]
    assert first_words == ["AllocateProducerIds", "versions"], said


async def test_a_client_that_takes_it_for_a_broker_is_told(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConnectError, match="negotiate: it is a controller: clients need a broker"):
        await KafkaConnection.open(lab.server.runtime, *lab.server.address)
    assert "a Kafka request to a controller: clients need a broker's address" in caplog.text


@pytest.mark.parametrize("end", [ControlStream.close, ControlStream.abort])
async def test_a_connection_unwanted_before_it_is_made_ends_as_it_is_made(
    end: Callable[[ControlStream, str], None],
) -> None:
    """A loop that is behind can run the timer of a connection before its first callback."""
    reasons: list[str] = []
    stream = ControlStream(lambda frame: None, reasons.append)
    end(stream, "too late")
    server = await asyncio.get_running_loop().create_server(lambda: stream, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    server.close()
    assert reasons == ["too late"]


async def test_who_connects_and_says_nothing_is_let_go(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await lab.broker(1)
    with monkeypatch.context() as impatient:
        impatient.setattr(session, "HELLO_WITHIN_MS", 1)
        reader, writer = await asyncio.open_connection(*lab.server.address)
        writer.write(b"\x00\x00")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()
    with contextlib.suppress(ConnectionResetError):
        await writer.wait_closed()
    await broker.come_up()
    assert len(lab.server.sessions) == 1


async def close_all(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_who_has_not_said_who_it_is_may_send_little(lab: Lab) -> None:
    reader, writer = await asyncio.open_connection(*lab.server.address)
    writer.write((1 << 20).to_bytes(4, "big"))
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    with contextlib.suppress(ConnectionResetError):
        await writer.wait_closed()


async def test_nameless_connections_take_no_place_from_a_broker(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    monkeypatch.setattr(lab.server.sessions, "_most", 5)
    others = [await asyncio.open_connection(*lab.server.address) for _ in range(20)]
    result = await broker.create_topic("t", 1, 1)
    assert result.error_code == 0
    assert len(lab.server.sessions) <= 5
    await close_all([writer for _, writer in others])


async def test_half_received_requests_are_bounded_in_all(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    monkeypatch.setattr(sessions, "HELD_BYTES_MAX", 1_000_000)
    hello = bytes(encode_frame(0, m.Hello(None, 1, 1, -1, m.ROLE_TOOL, bytes(16))))
    others = [await asyncio.open_connection(*lab.server.address) for _ in range(10)]
    for _, writer in others:
        writer.write(hello + (60_000_000).to_bytes(4, "big") + bytes(300_000))
    oldest = others[0][0]
    with contextlib.suppress(ConnectionResetError):
        while await oldest.read(1000):
            pass
    assert (await broker.create_topic("t", 1, 1)).error_code == 0
    await close_all([writer for _, writer in others])


async def test_a_retry_of_create_topics_gets_the_same_answer(lab: Lab) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    first = await broker.create_topic("t", 1, 1, tag=b"once")
    again = await broker.create_topic("t", 1, 1, tag=b"once")
    assert first.error_code == 0
    assert again == first
    other = await broker.create_topic("t", 1, 1, tag=b"another")
    assert other.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_two_askings_at_once_create_one_topic(lab: Lab) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic])
    first, second = await asyncio.gather(
        broker.forward(ApiKey.CREATE_TOPICS, 7, request, b"once"),
        broker.forward(ApiKey.CREATE_TOPICS, 7, request, b"once"),
    )
    assert first == second
    assert first.topics[0].error_code == 0


async def test_what_cannot_be_forwarded_is_refused_by_an_answer(lab: Lab) -> None:
    broker = await lab.broker(1)
    produce = m.ForwardedRequest(int(ApiKey.PRODUCE), 9, b"", "User:test", 1000)
    assert (await broker.call(produce)).error == ErrorCode.UNSUPPORTED_VERSION
    broken = m.ForwardedRequest(int(ApiKey.CREATE_TOPICS), 7, b"\xff", "User:test", 1000)
    answer = await broker.call(broken)
    assert answer.error == ErrorCode.INVALID_REQUEST
    assert "CREATE_TOPICS version 7" in answer.message


async def test_a_restarted_controller_knows_what_it_answered(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "controller")
    await lab.start()
    broker = await lab.broker(1)
    await broker.come_up()
    await broker.create_topic("t", 3, 1)
    cluster_id, before = lab.server.controller.cluster_id, lab.server.controller.committed.copy()
    await lab.server.stop()
    await broker.connection.wait_until_closed()
    await lab.start()
    assert lab.server.controller.cluster_id == cluster_id
    assert lab.server.controller.committed.topics == before.topics
    assert lab.server.controller.committed.brokers == before.brokers
    assert lab.server.controller.committed.epoch == before.epoch + 1
    # The broker goes on where it was: same registration, same offset.
    broker.connection = await lab.connect(1)
    assert not (await broker.beat()).is_fenced
    await broker.follow()
    assert broker.image == lab.server.controller.committed
    await lab.close()


async def test_a_retry_after_a_restart_of_the_controller_gets_the_same_answer(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    await lab.start()
    broker = await lab.broker(1)
    await broker.come_up()
    first = await broker.create_topic("t", 2, 1, tag=b"once")
    await lab.server.stop()
    await broker.connection.wait_until_closed()
    await lab.start()
    broker.connection = await lab.connect(1)
    assert await broker.create_topic("t", 2, 1, tag=b"once") == first
    other = await broker.create_topic("t", 2, 1, tag=b"other")
    assert other.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    await lab.close()


async def test_brokers_load_the_snapshot_when_the_log_before_it_is_gone(lab: Lab) -> None:
    one = await lab.broker(1)
    await one.come_up()
    for number in range(5):
        await one.create_topic(f"t{number}", 2, 1)
    controller = lab.server.controller
    await controller.quorum.write_snapshot(controller.committed.copy())
    fetched = await one.call(m.FetchMetadata(0, -1, 0))
    assert fetched.snapshot == controller.quorum.snapshot
    parts = b""
    while True:
        part = await one.call(m.FetchSnapshot(fetched.snapshot, len(parts), max_bytes=100))
        parts += part.data
        if len(parts) == part.size:
            break
    one.image = load_snapshot(parts, fetched.snapshot)
    assert one.image == controller.committed
    await one.create_topic("after", 1, 1)
    assert one.image == controller.committed


async def test_a_broker_that_knows_more_than_the_log_starts_again(lab: Lab) -> None:
    broker = await lab.broker(1)
    fetched = await broker.call(m.FetchMetadata(1_000_000, 1, 0))
    assert fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE
    fetched = await broker.call(m.FetchMetadata(1, 77, 0))
    assert fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_directory_in_use_is_refused(lab: Lab) -> None:
    other = Lab(lab.directory)
    with pytest.raises(ConfigError, match="locked by another process"):
        await other.start()
    other.runtime.close()


async def test_a_directory_of_another_node_or_cluster_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    await lab.start()
    await lab.server.stop()
    with pytest.raises(ConfigError, match=r"belongs to node\.id=9"):
        await lab.start({"node.id": "8"})
    with pytest.raises(ConfigError, match=r"belongs to cluster\.id"):
        await lab.start({"cluster.id": "AAAAAAAAAAAAAAAAAAAAAA"})
    lab.runtime.close()


async def test_a_port_in_use_is_one_line(lab: Lab, tmp_path: Path) -> None:
    other = Lab(tmp_path / "other")
    port = lab.server.address[1]
    with pytest.raises(ConfigError, match="cannot listen") as refused:
        await other.start({"listeners": f"CONTROLLER://127.0.0.1:{port}"})
    assert "\n" not in str(refused.value)
    other.runtime.close()


async def test_calls_end_at_their_deadline_and_the_connection_goes_on(lab: Lab) -> None:
    connection = await lab.connect(1)
    with pytest.raises(ApiError) as late:
        await connection.call(m.FetchMetadata(*await end_of(lab), 10_000), timeout_ms=20)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert (await connection.call(m.FetchMetadata(0, -1, 0), timeout_ms=5000)).error == 0


async def end_of(lab: Lab) -> tuple[int, int]:
    return lab.server.controller.quorum.high_watermark, lab.server.controller.quorum.epoch


async def test_a_lost_connection_fails_what_waits_on_it(lab: Lab) -> None:
    connection = await lab.connect(1)
    call = asyncio.create_task(
        connection.call(m.FetchMetadata(*await end_of(lab), 10_000), timeout_ms=10_000)
    )
    await asyncio.sleep(0)
    connection.abort("gone")
    with pytest.raises(ApiError, match="gone") as lost:
        await call
    assert lost.value.code is ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(ApiError):
        await connection.call(m.AllocateProducerIds(1, 1), timeout_ms=1000)


async def test_a_silent_peer_does_not_hang_the_handshake() -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hello = m.Hello(None, 1, 1, 1, m.ROLE_BROKER, bytes(16))
    with pytest.raises(ApiError) as late:
        await ControlConnection.open("127.0.0.1", port, hello, timeout_ms=50)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    server.close()
    with pytest.raises(ApiError) as refused:
        await ControlConnection.open("127.0.0.1", port, hello, timeout_ms=1000)
    assert refused.value.code is ErrorCode.NETWORK_EXCEPTION


async def test_producer_ids_are_never_handed_out_twice(lab: Lab) -> None:
    one, two = await lab.broker(1), await lab.broker(2)
    await one.come_up()
    await two.come_up()
    blocks = [
        await each.call(m.AllocateProducerIds(each.broker_id, each.epoch))
        for each in (one, two, one)
    ]
    ids = [block.first_id + n for block in blocks for n in range(block.count)]
    assert len(set(ids)) == len(ids) == 3000
    stale = await one.call(m.AllocateProducerIds(1, one.epoch + 1))
    assert stale.error == ErrorCode.STALE_BROKER_EPOCH


async def test_validate_only_answers_and_writes_nothing(lab: Lab) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], validate_only=True)
    response = await broker.forward(ApiKey.CREATE_TOPICS, 7, request)
    assert response.topics[0].error_code == 0
    assert response.topics[0].num_partitions == 2
    assert not await broker.follow()
