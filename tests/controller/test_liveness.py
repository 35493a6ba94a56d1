"""Heartbeats and probes over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncio_dgram
import pytest

from minikafka.controller.leases import LeaseExpired, Leases
from minikafka.controller.liveness import Liveness
from minikafka.protocol.control.heartbeat import Heartbeat, encode_heartbeat
from minikafka.protocol.control.image import BrokerRegistration
from minikafka.protocol.control.messages import Endpoint
from minikafka.runtime.runtime import SystemRuntime

pytestmark = pytest.mark.plain_loop

INCARNATION = b"i" * 16


class Post:
    """Liveness of one broker, 1 in epoch 5, whose listener is where `endpoint` says."""

    def __init__(self, session_ms: int) -> None:
        self.crashes: list[str] = []
        self.runtime = SystemRuntime("test", on_crash=lambda *what: self.crashes.append(str(what)))
        self.leases = Leases(session_ms)
        self.expired: asyncio.Queue[LeaseExpired] = asyncio.Queue()
        self.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 1)
        self.liveness = Liveness(
            self.runtime,
            self.leases,
            admits=lambda read: read.heartbeat.cluster_id == "cluster",
            on_expired=self.expired.put_nowait,
            endpoint_of=lambda broker_id: self.endpoint,
        )
        self.sender: Any = None

    async def open(self) -> None:
        await self.liveness.listen("127.0.0.1", 0)
        self.sender = await asyncio_dgram.connect(self.liveness._stream.sockname)
        broker = BrokerRegistration(1, 5, INCARNATION, (), (), None, {})
        self.leases.on_registered(broker, self.runtime.monotonic_ms())
        self.leases.on_connection_opened(1, 5, self.runtime.monotonic_ms())
        self.liveness.set_timer()

    async def close(self) -> None:
        self.sender.close()
        await self.liveness.close()
        self.runtime.close()
        # One turn for transports to close in.
        await asyncio.sleep(0)
        assert self.crashes == []

    async def beat(self, sequence: int, cluster: str = "cluster") -> None:
        heartbeat = Heartbeat(cluster, 1, 5, INCARNATION, sequence)
        await self.sender.send(encode_heartbeat(heartbeat))


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    made = Post(session_ms=200)
    await made.open()
    yield made
    await made.close()


async def reached(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


async def test_a_burst_is_drained_and_the_newest_counts(post: Post) -> None:
    for sequence in (3, 1, 900, 2):
        await post.beat(sequence)
    for noise in (b"", b"noise", bytes(5000)):
        await post.sender.send(noise)
    await post.beat(10_000, cluster="another")
    await post.beat(901)
    await reached(lambda: post.leases[1].sequence >= 901)
    assert post.leases[1].sequence == 901
    assert post.liveness._stream._recvq.empty()


async def test_silence_ends_the_lease(post: Post) -> None:
    expired = await post.expired.get()
    assert (expired.broker_id, expired.broker_epoch) == (1, 5)


async def test_an_error_on_the_socket_does_not_end_the_receiving(post: Post) -> None:
    """A datagram of ours that found nobody comes back as ConnectionRefusedError."""
    post.liveness._stream._excq.put_nowait(ConnectionRefusedError("planted"))
    post.liveness._stream._excq.put_nowait(OSError("planted"))
    for sequence in range(3):
        await post.beat(sequence)
    await reached(lambda: post.leases[1].sequence == 2)


async def test_a_refused_probe_after_a_lost_connection_is_a_crash() -> None:
    post = Post(session_ms=60_000)
    await post.open()
    post.liveness.carry_out(post.leases.on_connection_lost(1, 5))
    expired = await post.expired.get()
    assert "crashed" in expired.reason
    await post.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_name_of_several_addresses_refuses_too(host: str) -> None:
    post = Post(session_ms=60_000)
    post.endpoint = Endpoint("PLAINTEXT", host, 1)
    await post.open()
    post.liveness.carry_out(post.leases.on_connection_lost(1, 5))
    async with asyncio.timeout(10):
        assert "crashed" in (await post.expired.get()).reason
    await post.close()


async def test_an_answered_probe_is_not() -> None:
    post = Post(session_ms=60_000)
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    post.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", server.sockets[0].getsockname()[1])
    await post.open()
    post.liveness.carry_out(post.leases.on_connection_lost(1, 5))
    await reached(lambda: post.leases[1].probing is None)
    assert post.leases.is_live(1)
    assert post.expired.empty()
    server.close()
    await post.close()


async def test_a_listener_that_outlives_its_process_for_a_moment_is_no_answer() -> None:
    """The kernel accepts, then resets, until the killed process is wholly taken apart."""
    accepted: asyncio.Queue[None] = asyncio.Queue()

    class Dying(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()
            accepted.put_nowait(None)

    post = Post(session_ms=60_000)
    server = await asyncio.get_running_loop().create_server(Dying, "127.0.0.1", 0)
    post.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", server.sockets[0].getsockname()[1])
    await post.open()
    post.liveness.carry_out(post.leases.on_connection_lost(1, 5))
    await accepted.get()
    server.close()
    async with asyncio.timeout(10):
        assert "crashed" in (await post.expired.get()).reason
    await post.close()
