"""The way to the controller, over real sockets, to a controller that does as the test says."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncio_dgram
import pytest

from minikafka.broker.control import controller_channel
from minikafka.broker.control.clock_ahead import ClockAhead
from minikafka.broker.control.controller_channel import ControllerChannel, Identity, Reports
from minikafka.client.net.control import ControlStream
from minikafka.protocol.control.frames import Frame
from minikafka.protocol.control.heartbeat import decode_heartbeat
from minikafka.protocol.control.messages import (
    AllocateProducerIds,
    BrokerHeartbeat,
    BrokerRegistered,
    Endpoint,
    ForwardedAnswer,
    ForwardedRequest,
    HeartbeatAnswer,
    Hello,
    HelloAnswer,
    ProducerIdsAllocated,
    Refused,
    RegisterBroker,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.principal import Origin, user

from .channel_support import config_with, until

pytestmark = pytest.mark.plain_loop

ME = RegisterBroker(
    broker_id=1,
    incarnation_id=b"i" * 16,
    directory_ids=(b"d" * 16,),
    endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092),),
    rack=None,
    features={},
)


class FakeController:
    """Answers by the type of the request; None: not at all."""

    def __init__(self) -> None:
        self.answers: dict[type, Callable[[Any], object | None]] = {
            Hello: lambda _: HelloAnswer(0, cluster_id="c"),
            RegisterBroker: lambda _: BrokerRegistered(0, broker_epoch=7),
            BrokerHeartbeat: lambda _: HeartbeatAnswer(0, is_caught_up=True, is_fenced=False),
        }
        self.requests: list[Any] = []
        self.streams: list[ControlStream] = []
        self.server: asyncio.Server

    async def listen(self) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self._accept, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        return host, port

    def _accept(self) -> ControlStream:
        def on_frame(frame: Frame) -> None:
            self.requests.append(frame.message)
            answer = self.answers[type(frame.message)](frame.message)
            if answer is not None:
                stream.send(frame.correlation_id, answer)

        stream = ControlStream(on_frame, lambda reason: None)
        self.streams.append(stream)
        return stream

    def cut(self) -> None:
        for stream in self.streams:
            stream.abort("cut")
        self.streams.clear()

    def count(self, kind: type) -> int:
        return sum(isinstance(request, kind) for request in self.requests)

    async def close(self) -> None:
        self.server.close()
        self.cut()
        await self.server.wait_closed()


@pytest.fixture
async def controller() -> AsyncIterator[FakeController]:
    made = FakeController()
    yield made
    await made.close()


MakeChannel = Callable[..., ControllerChannel]


@pytest.fixture
async def make_channel(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeChannel]:
    monkeypatch.setattr(controller_channel, "REGISTERED_WITHIN_MS", 100)
    runtime = SystemRuntime("broker-1")
    made: list[ControllerChannel] = []

    def make(
        *addresses: tuple[str, int],
        request_timeout_ms: int = 5_000,
        on_refused: Callable[[ApiError], None] = lambda error: None,
    ) -> ControllerChannel:
        config = config_with(
            controller_quorum_bootstrap_servers=",".join(f"{host}:{at}" for host, at in addresses),
            broker_heartbeat_interval_ms=20,
            broker_session_timeout_ms=600,
            request_timeout_ms=request_timeout_ms,
        )
        reports = Reports(
            metadata_offset=lambda: -1, offline_directory_ids=tuple, on_refused=on_refused
        )
        channel = ControllerChannel(runtime, config, Identity(ME), reports, ClockAhead(runtime))
        channel.start()
        made.append(channel)
        return channel

    yield make
    for channel in made:
        await channel.close()
    runtime.close()


async def test_a_broker_registers_and_learns_its_cluster(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    assert await channel.wait_until_registered() == 7
    assert channel.cluster_id == "c"
    hello = controller.requests[0]
    assert (hello.cluster_id, hello.node_id, hello.incarnation_id) == (None, 1, b"i" * 16)


async def test_it_wants_to_serve_only_when_recovered(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    await until(lambda: controller.count(BrokerHeartbeat) > 0)
    first = next(each for each in controller.requests if isinstance(each, BrokerHeartbeat))
    assert (first.want_fence, first.broker_epoch) == (True, 7)
    channel.on_recovered()
    await channel.wait_until_unfenced()
    assert controller.requests[-1].want_fence is False


async def test_a_lost_connection_is_opened_again_under_the_same_broker_epoch(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    await channel.wait_until_registered()
    controller.cut()
    heartbeats = controller.count(BrokerHeartbeat)
    await until(lambda: controller.count(BrokerHeartbeat) > heartbeats + 1)
    assert controller.count(Hello) >= 2
    assert controller.count(RegisterBroker) == 1
    assert channel.broker_epoch == 7


async def test_the_next_address_is_tried_where_one_does_not_answer(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(("127.0.0.1", 1), await controller.listen())
    assert await channel.wait_until_registered() == 7


async def test_a_silent_controller_is_given_up(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    await channel.wait_until_registered()
    working = controller.answers[BrokerHeartbeat]
    controller.answers[BrokerHeartbeat] = lambda _: None
    hellos = controller.count(Hello)
    await until(lambda: controller.count(Hello) > hellos)
    controller.answers[BrokerHeartbeat] = working


async def test_a_controller_of_another_cluster_is_final(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    wrong = HelloAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID, "another cluster")
    controller.answers[Hello] = lambda _: wrong
    refused: list[ErrorCode] = []
    make_channel(await controller.listen(), on_refused=lambda error: refused.append(error.code))
    await until(lambda: bool(refused))
    assert refused == [ErrorCode.INCONSISTENT_CLUSTER_ID]


async def test_d_05_a_duplicate_is_tried_again_for_a_while(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    duplicate = BrokerRegistered(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "alive")
    controller.answers[RegisterBroker] = lambda _: duplicate
    refused: list[ErrorCode] = []
    make_channel(await controller.listen(), on_refused=lambda error: refused.append(error.code))
    await until(lambda: bool(refused))
    assert refused == [ErrorCode.DUPLICATE_BROKER_REGISTRATION]
    assert controller.count(RegisterBroker) > 1


async def test_a_duplicate_is_said_even_where_another_controller_was_asked_first(
    controller: FakeController, make_channel: MakeChannel, caplog: pytest.LogCaptureFixture
) -> None:
    standby = FakeController()
    host, port = await controller.listen()
    active = Endpoint("CONTROLLER", host, port)
    standby.answers[Hello] = lambda _: HelloAnswer(
        0, cluster_id="c", node_id=102, active_id=103, active_controller=active
    )
    why = "two processes have this node.id, stop one of them"
    duplicate = BrokerRegistered(ErrorCode.DUPLICATE_BROKER_REGISTRATION, why)
    controller.answers[RegisterBroker] = lambda _: duplicate
    refused: list[ErrorCode] = []
    make_channel(await standby.listen(), on_refused=lambda error: refused.append(error.code))
    await until(lambda: bool(refused))
    await standby.close()
    warnings = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert sum("node 103 is the active controller" in each for each in warnings) == 1
    assert sum(why in each for each in warnings) == 1
    assert controller.count(RegisterBroker) > 1


async def test_a_controller_that_forgot_us_is_told_again(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    await channel.wait_until_registered()
    working = controller.answers[BrokerHeartbeat]
    stale = HeartbeatAnswer(ErrorCode.STALE_BROKER_EPOCH)
    controller.answers[RegisterBroker] = lambda _: BrokerRegistered(0, broker_epoch=90)
    controller.answers[BrokerHeartbeat] = lambda r: stale if r.broker_epoch == 7 else working(r)
    await until(lambda: channel.broker_epoch == 90)


async def test_a_forwarded_request_survives_a_lost_connection_with_one_key(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    await channel.wait_until_registered()
    controller.answers[ForwardedRequest] = lambda _: None
    alice = Origin(user("alice"), "10.0.0.7", "CLIENTS", "app")
    task = asyncio.ensure_future(channel.forward(19, 7, b"body", alice))
    await until(lambda: controller.count(ForwardedRequest) == 1)
    controller.answers[ForwardedRequest] = lambda _: ForwardedAnswer(0, body=b"answer")
    controller.cut()
    assert await task == b"answer"
    first, *_, last = (r for r in controller.requests if isinstance(r, ForwardedRequest))
    assert first.idempotency_key == last.idempotency_key
    assert last.deadline_ms <= first.deadline_ms
    told = {(each.principal, each.host, each.listener, each.client_id) for each in (first, last)}
    assert told == {("User:alice", "10.0.0.7", "CLIENTS", "app")}


async def test_what_the_controller_refuses_is_the_callers_error(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    refused = Refused(ErrorCode.POLICY_VIOLATION, "no")
    controller.answers[ForwardedRequest] = lambda _: refused
    with pytest.raises(ApiError, match="POLICY_VIOLATION"):
        await channel.forward(19, 7, b"body")


async def test_without_a_controller_a_call_ends_at_its_deadline(make_channel: MakeChannel) -> None:
    channel = make_channel(("127.0.0.1", 1), request_timeout_ms=50)
    with pytest.raises(ApiError, match="REQUEST_TIMED_OUT"):
        await channel.forward(19, 7, b"body")


async def test_producer_ids_come_in_blocks(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    block = ProducerIdsAllocated(0, first_id=5_000, count=1_000)
    controller.answers[AllocateProducerIds] = lambda _: block
    channel = make_channel(await controller.listen())
    assert await channel.allocate_producer_ids() == (5_000, 1_000)


async def test_leaving_waits_for_the_controllers_leave(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    channel.on_recovered()
    await channel.wait_until_unfenced()

    def let_go(request: BrokerHeartbeat) -> HeartbeatAnswer:
        return HeartbeatAnswer(0, is_fenced=False, should_shut_down=request.want_shutdown)

    controller.answers[BrokerHeartbeat] = let_go
    assert await channel.shut_down(within_ms=5_000)


async def test_leaving_without_a_controller_is_bounded(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    channel = make_channel(await controller.listen())
    await channel.wait_until_registered()
    controller.answers[BrokerHeartbeat] = lambda _: None
    controller.cut()
    assert not await channel.shut_down(within_ms=50)


async def test_heartbeats_go_out_by_udp_with_growing_sequence(
    controller: FakeController, make_channel: MakeChannel
) -> None:
    address = await controller.listen()
    stream = await asyncio_dgram.bind(address)
    make_channel(address)
    read = [decode_heartbeat((await asyncio.wait_for(stream.recv(), 5))[0]) for _ in range(3)]
    seen = [each.heartbeat for each in read]
    stream.close()
    assert [each.sequence for each in seen] == [1, 2, 3]
    assert {(e.cluster_id, e.broker_id, e.broker_epoch) for e in seen} == {("c", 1, 7)}
