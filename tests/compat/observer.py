"""Observes the requests on their way to a broker: which API, in which version, in which test.

    client -> port of the observer -> port of the broker        (bytes pass untouched)
                     |
                     +- length, API key, version of every request -> Observations
                     +- offsets and sizes of every Fetch request

Runs in a thread with a loop of its own. A client's connection belongs to the test that was running
when it was opened: what it still sends while the next test runs is not put down to that one.
"""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode_at, decode_request_header
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.messages.fetch import FetchRequest

from ..support.cluster import Cluster, free_ports

BROKERS = "brokers"
"""Who talks on the listener between brokers."""
HEADER = 8
"""Length, API key and version: the first bytes of every request."""


class Test(NamedTuple):
    """A running test, and the client library it is about."""

    name: str
    client: str


class Fetched(NamedTuple):
    """What a Fetch request asks of one partition."""

    offset: int
    most_bytes: int


@dataclass
class Observations:
    """The requests by test; those of failed tests are dropped."""

    running: Test | None = None
    clients: dict[str, str] = field(default_factory=dict)
    """Which client each test is about."""
    seen: dict[Test, dict[tuple[int, int], int]] = field(default_factory=dict)
    fetched: dict[Test, list[Fetched]] = field(default_factory=dict)
    """What each test's client has asked of partitions, in the order in which it did."""
    passed: dict[str, None] = field(default_factory=dict)

    def note(self, test: Test, api_key: int, version: int) -> None:
        """Take in one request."""
        counts = self.seen.setdefault(test, {})
        counts[api_key, version] = counts.get((api_key, version), 0) + 1

    def save(self, path: Path) -> None:
        """Write the requests seen in tests that passed."""
        rows = [
            {"test": test.name, "client": test.client, "requests": sorted(counts)}
            for test, counts in self.seen.items()
            if test.name in self.passed
        ]
        passed = {name: self.clients[name] for name in sorted(self.passed) if name in self.clients}
        path.write_text(json.dumps({"passed": passed, "observed": rows}, indent=1) + "\n")


OBSERVATIONS = Observations()


class Requests:
    """Reads the beginnings of the requests in a stream of bytes, and nothing more."""

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield API key and version of every request that begins in `data`."""
        position = 0
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                continue
            taken = data[position : position + HEADER - len(self._head)]
            self._head += taken
            position += len(taken)
            if len(self._head) == HEADER:
                size, key, version = (
                    int.from_bytes(self._head[begin:end], "big", signed=True)
                    for begin, end in ((0, 4), (4, 6), (6, 8))
                )
                self._head = b""
                self._skip = size - 4
                yield key, version


class Fetches:
    """Reads the Fetch requests in a stream of bytes, whole."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Fetched]:
        """Yield what each Fetch request that ends in `data` asks of each partition."""
        self._data += data
        while len(self._data) >= HEADER:
            end = 4 + int.from_bytes(self._data[:4], "big")
            if len(self._data) < end:
                return
            frame = bytes(self._data[4:end])
            del self._data[:end]
            if int.from_bytes(frame[:2], "big") == ApiKey.FETCH:
                yield from _asked(memoryview(frame))


def _asked(frame: memoryview) -> list[Fetched]:
    try:
        header, position = decode_request_header(frame)
        request = decode_at(FetchRequest, header.api_version, frame, position)
    except RemoteProtocolError:
        return []
    return [
        Fetched(each.fetch_offset, each.partition_max_bytes)
        for topic in request.topics
        for each in topic.partitions
    ]


class _Side(asyncio.Protocol):
    """One end of a connection; what it receives goes out at the other."""

    def __init__(self, observer: "Observer") -> None:
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.other: _Side | None = None
        self._observer = observer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._observer.hold(self, True)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._observer.hold(self, False)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Asking(_Side):
    """The client's end: reads along."""

    def __init__(self, observer: "Observer", target: tuple[str, int], client: str | None) -> None:
        super().__init__(observer)
        self._target = target
        self._requests = Requests()
        self._fetches = Fetches()
        self._client = client
        self._test = OBSERVATIONS.running

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self._observer.begin(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        answering = _Side(self._observer)
        answering.other = self
        try:
            await loop.create_connection(lambda: answering, *self._target)
        except OSError:
            self.transport.abort()
            return
        self.other = answering
        if self.transport.is_closing():
            answering.transport.abort()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        test = self._test
        if self._client is not None and (running := OBSERVATIONS.running) is not None:
            # Brokers keep their connections: what they say belongs to the test that runs.
            test = Test(running.name, self._client)
        if test is not None:
            for key, version in self._requests.feed(data):
                OBSERVATIONS.note(test, key, version)
        if test is not None and self._client is None:
            OBSERVATIONS.fetched.setdefault(test, []).extend(self._fetches.feed(data))
        super().data_received(data)


class Observer:
    """Stands between the clients and the brokers of a cluster."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._servers: dict[int, asyncio.Server] = {}
        self._sides: dict[_Side, None] = {}
        self._is_quiet = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="observer")
        self._thread.start()

    def __enter__(self) -> "Observer":
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def begin(self, work: Any) -> None:
        """Run a coroutine of a connection; the loop is this thread's."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def listen(self, port: int, target: tuple[str, int], client: str | None = None) -> None:
        """Accept at a port what is meant for `target`, on behalf of `client` or the test's own."""
        opening = self._loop.create_server(
            lambda: _Asking(self, target, client), "127.0.0.1", port, reuse_address=True
        )
        server = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        self._servers[port] = server

    def refuse(self, port: int) -> None:
        """Refuse connections at a port, because its broker is about to be killed."""
        self._loop.call_soon_threadsafe(self._servers[port].close)

    def hold(self, side: "_Side", is_open: bool) -> None:
        """Know which connections are open."""
        if is_open:
            self._sides[side] = None
        else:
            self._sides.pop(side, None)
        if not self._sides:
            self._is_quiet.set()

    async def _end(self) -> None:
        for server in self._servers.values():
            server.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sides:
            self._is_quiet.clear()
            for side in self._sides:
                side.transport.abort()
            await self._is_quiet.wait()


def observe(observer: Observer, cluster: Cluster) -> Mapping[int, int]:
    """Set every broker up so that all who talk to it pass the observer. Before it is started.

    Gives the port at which clients find each broker.
    """
    found: dict[int, int] = {}
    for broker in cluster.brokers:
        inside, outside, shown_inside, shown_outside = free_ports(4)
        broker.settings |= {
            "listeners": f"CLIENTS://127.0.0.1:{outside},BROKERS://127.0.0.1:{inside}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{shown_outside},"
            f"BROKERS://127.0.0.1:{shown_inside}",
            "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
        }
        observer.listen(shown_outside, ("127.0.0.1", outside))
        observer.listen(shown_inside, ("127.0.0.1", inside), BROKERS)
        found[broker.node_id] = shown_outside
    return found


def start_observed(observer: Observer, cluster: Cluster) -> Cluster:
    """Start a cluster behind the observer; `cluster.bootstrap` names the observer's ports."""
    ports = observe(observer, cluster)
    cluster.start()
    for broker in cluster.brokers:
        broker.port = ports[broker.node_id]
    return cluster
