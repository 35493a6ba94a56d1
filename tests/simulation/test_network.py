"""Sockets of the simulated world behave as a program on Linux sees them."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import asyncio_dgram
import pytest

from .world import SimRuntime, World

Main = Callable[[SimRuntime], Any]


class Collector(asyncio.BufferedProtocol):
    """Takes bytes into one reused buffer, like the product's connections."""

    def __init__(self) -> None:
        self.buffer = bytearray(1000)
        self.received = bytearray()
        self.reads = 0
        self.events: list[str] = []
        self.closed: asyncio.Future[BaseException | None] = (
            asyncio.get_running_loop().create_future()
        )

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.events.append("made")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        self.received += self.buffer[:nbytes]

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.events.append("lost")
        self.closed.set_result(exc)


class Pair:
    """A server process and a client process, with the values that both use."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.left = self.world.add_host("left")
        self.right = self.world.add_host("right")
        self.served: list[Collector] = []

    async def listen(self, runtime: SimRuntime) -> None:
        loop = asyncio.get_running_loop()

        def serve() -> Collector:
            self.served.append(Collector())
            return self.served[-1]

        server = await loop.create_server(serve, "0.0.0.0", 9092)
        await server.serve_forever()

    def run(self, client: Main, *, limit: float = 1000) -> Any:
        result: list[Any] = []

        async def story() -> None:
            self.server = self.world.start(self.right, "server", self.listen)
            await asyncio.sleep(0.01)
            done = asyncio.get_running_loop().create_future()

            async def body(runtime: SimRuntime) -> None:
                result.append(await client(runtime))
                done.set_result(None)

            self.client = self.world.start(self.left, "client", body)
            await done

        self.world.run(story(), limit=limit)
        return result[0]


async def connect(host: str = "right", port: int = 9092) -> tuple[Any, Collector]:
    return await asyncio.get_running_loop().create_connection(Collector, host, port)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_however_they_are_split(seed: int) -> None:
    pair = Pair(seed)
    rng = random.Random(seed)
    pieces = [rng.randbytes(rng.choice((1, 10, 1000, 100_000))) for _ in range(200)]

    async def client(runtime: SimRuntime) -> None:
        transport, _ = await connect()
        for piece in pieces:
            transport.write(piece)
            await asyncio.sleep(rng.choice((0, 0, 0.0001)))
        transport.close()
        await asyncio.sleep(5)

    pair.run(client)
    (served,) = pair.served
    assert served.received == b"".join(pieces)
    assert served.events == ["made", "eof", "lost"]
    assert served.reads > len(pieces)


def test_a_buffer_changed_after_write_arrives_changed() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> None:
        transport, _ = await connect()
        buffer = bytearray(b"before")
        transport.write(buffer)
        buffer[:] = b"after!"
        await asyncio.sleep(1)

    pair.run(client)
    assert pair.served[0].received == b"after!"


def test_a_reader_that_pauses_makes_the_writer_pause() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> list[str]:
        transport, protocol = await connect()
        await asyncio.sleep(1)
        pair.served[0].transport.pause_reading()
        for _ in range(200):
            transport.write(bytes(100_000))
        await asyncio.sleep(1)
        assert transport.get_write_buffer_size() > 64 * 1024
        assert len(pair.served[0].received) < 20_000_000
        pair.served[0].transport.resume_reading()
        await asyncio.sleep(60)
        assert len(pair.served[0].received) == 20_000_000
        return protocol.events

    assert pair.run(client) == ["made", "pause", "resume"]


def test_nobody_listening_is_refused_and_a_dark_host_times_out() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> float:
        with pytest.raises(ConnectionRefusedError):
            await connect(port=1)
        pair.world.power_off(pair.right)
        started = pair.world.now()
        with pytest.raises(OSError, match="timed out"):
            await connect()
        return pair.world.now() - started

    assert 100 < pair.run(client) < 130


def test_a_killed_peer_is_noticed_and_what_it_wrote_still_arrives() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> tuple[bytes, BaseException | None]:
        _, protocol = await connect()
        await asyncio.sleep(0.01)
        served = pair.served[0]
        served.transport.write(b"last words")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pair.world.kill(pair.server)
        error = await protocol.closed
        return bytes(protocol.received), error

    received, error = pair.run(client)
    assert received == b"last words"
    assert error is None
    assert pair.served[0].events == ["made"], "the dead are told nothing"


def test_after_power_loss_a_connection_is_half_open_until_somebody_writes() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> BaseException | None:
        transport, protocol = await connect()
        pair.world.power_off(pair.right)
        await asyncio.sleep(60)
        transport.write(b"anybody?")
        await asyncio.sleep(60)
        assert not protocol.closed.done(), "a dark host answers nothing"
        pair.world.power_on(pair.right)
        return await protocol.closed

    assert isinstance(pair.run(client), ConnectionResetError)


def test_a_partition_delays_and_does_not_lose_tcp() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> None:
        transport, _ = await connect()
        pair.world.network.block(pair.left, pair.right)
        transport.write(b"held ")
        await asyncio.sleep(30)
        assert pair.served[0].received == b""
        pair.served[0].transport.write(b"the other way is open")
        pair.world.network.heal()
        transport.write(b"back")
        await asyncio.sleep(5)
        assert transport.get_protocol().received == b"the other way is open"

    pair.run(client)
    assert pair.served[0].received == b"held back"


def test_a_stopped_process_still_accepts_connections() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> None:
        pair.world.pause(pair.server)
        transport, _ = await connect()
        transport.write(b"hello")
        await asyncio.sleep(10)
        assert pair.served == []
        pair.world.resume(pair.server)
        await asyncio.sleep(1)
        assert pair.served[0].received == b"hello"

    pair.run(client)


def test_abort_resets_the_peer() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> BaseException | None:
        transport, _ = await connect()
        await asyncio.sleep(1)
        transport.abort()
        return await pair.served[0].closed

    assert isinstance(pair.run(client), ConnectionResetError)


def test_streams_run_unchanged() -> None:
    pair = Pair()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    async def client(runtime: SimRuntime) -> list[bytes]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        assert host == "127.0.0.1"
        reader, writer = await asyncio.open_connection("localhost", port)
        writer.write(b"one\ntwo\n")
        lines = [await reader.readline(), await reader.readline()]
        assert writer.get_extra_info("peername")[1] == port
        writer.close()
        await writer.wait_closed()
        server.close()
        return lines

    assert pair.run(client) == [b"ONE\n", b"TWO\n"]


def test_asyncio_dgram_runs_unchanged() -> None:
    pair = Pair()
    pair.world.network.datagram_duplication = 0.2
    pair.world.network.datagram_loss = 0.2
    seen: list[int] = []

    async def client(runtime: SimRuntime) -> None:
        inbox = await asyncio_dgram.bind(("0.0.0.0", 9999))

        async def receive() -> None:
            while True:
                data, source = await inbox.recv()
                seen.append(int(data))
                await inbox.send(b"got it", source)

        task = asyncio.get_running_loop().create_task(receive())
        stream = await asyncio_dgram.connect(("left", 9999))
        for number in range(1000):
            await stream.send(b"%d" % number)
        assert await stream.recv() == (b"got it", ("10.0.0.1", 9999))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        stream.close()
        inbox.close()

    pair.run(client)
    assert len(set(seen)) < 900, "some are lost"
    assert len(set(seen)) < len(seen), "some come twice"
    assert seen != sorted(seen), "some overtake others"


def test_a_datagram_to_nobody_is_refused_on_a_connected_socket() -> None:
    pair = Pair()
    pair.world.network.datagram_loss = 0

    async def client(runtime: SimRuntime) -> None:
        stream = await asyncio_dgram.connect(("right", 7))
        await stream.send(b"x")
        await asyncio.sleep(1)
        with pytest.raises(ConnectionRefusedError):
            await stream.send(b"y")
        stream.close()

    pair.run(client)


def test_a_port_in_use_is_refused_and_free_again_after_a_kill() -> None:
    pair = Pair()

    async def client(runtime: SimRuntime) -> None:
        other = pair.world.start(pair.right, "other", pair.listen)
        await asyncio.sleep(1)
        assert not other.alive

    with pytest.raises(AssertionError, match="address already in use"):
        pair.run(client)

    pair = Pair()

    async def restart(runtime: SimRuntime) -> None:
        pair.world.kill(pair.server)
        pair.server = pair.world.start(pair.right, "server", pair.listen)
        await asyncio.sleep(0.1)
        await connect()
        await asyncio.sleep(0.1)
        assert len(pair.served) == 1

    pair.run(restart)
