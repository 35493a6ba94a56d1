"""A small asyncio program of streams, datagrams, files and faults, to test the simulator itself.

`python -m tests.simulation.toy SEED` prints the hash of its trace.
"""

import asyncio
import sys
from typing import Any

import asyncio_dgram

from .world import SimRuntime, World


async def serve(runtime: SimRuntime) -> None:
    """Echo lines, receive datagrams, and write both to a file that is synced now and then."""
    file = runtime.fs.open("/log", create=True)
    end = file.size()

    def append(data: bytes) -> None:
        nonlocal end
        end += file.pwritev([data], end)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                append(line)
                if runtime.rng.random() < 0.2:
                    await file.fdatasync()
                writer.write(line)
        except ConnectionError:
            pass
        finally:
            writer.close()

    inbox = await asyncio_dgram.bind(("0.0.0.0", 5000))
    server = await asyncio.start_server(echo, "0.0.0.0", 5000)

    async def drain() -> None:
        while True:
            data, _ = await inbox.recv()
            append(data)

    runtime.spawn(drain(), "drain")
    await server.serve_forever()


async def converse(world: World, runtime: SimRuntime, names: set[str]) -> None:
    reader, writer = await asyncio.open_connection("server", 5000)
    datagrams = await asyncio_dgram.connect(("server", 5000))
    try:
        for count, name in enumerate(sorted(names)):
            writer.write(name.encode() + b"\n")
            await datagrams.send(name.encode())
            await reader.readline()
            world.trace.emit(runtime.name, "echoed", count, name)
    finally:
        writer.close()
        datagrams.close()


async def call(world: World, runtime: SimRuntime) -> None:
    names = {f"word-{runtime.rng.randrange(10**6)}" for _ in range(20)}
    while True:
        try:
            async with asyncio.timeout(2):
                await converse(world, runtime, names)
        except OSError as error:
            world.trace.emit(runtime.name, "error", type(error).__name__)
        await asyncio.sleep(runtime.rng.random() / 10)


def run(seed: int, seconds: float = 10) -> World:
    world = World(seed)
    hosts = [world.add_host(name) for name in ("server", "one", "two")]
    dice = world.rng("faults")

    async def story() -> None:
        server = world.start(hosts[0], "server", serve)
        for host in hosts[1:]:

            def caller(runtime: SimRuntime) -> Any:
                return call(world, runtime)

            world.start(host, f"caller-{host.name}", caller)
        while world.now() < seconds:
            await asyncio.sleep(dice.random())
            fault = dice.choice(("kill", "power", "block", "pause"))
            other = dice.choice(hosts[1:])
            if fault == "kill":
                world.kill(server)
            elif fault == "power":
                world.power_off(hosts[0])
            elif fault == "block":
                world.network.block(hosts[0], other)
            else:
                world.pause(server)
            await asyncio.sleep(dice.random())
            if not hosts[0].up:
                world.power_on(hosts[0])
            world.network.heal()
            world.resume(server)
            if not server.alive:
                server = world.start(hosts[0], "server", serve)

    world.run(story())
    return world


if __name__ == "__main__":
    print(run(int(sys.argv[1])).trace.digest())
