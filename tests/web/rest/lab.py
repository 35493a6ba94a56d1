"""A proxy in this process, in front of brokers in this process, and clients that read slowly."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from minikafka.runtime.runtime import Runtime, SystemRuntime
from minikafka.web.rest.app import application
from minikafka.web.rest.call import Desk
from minikafka.web.rest.server import LIMITS, desk_for
from minikafka.web.rest.settings import divided
from minikafka.web.serving import make_server

from ...client.fake_broker import FakeCluster

ONE, TWO = "http://one.example:8082", "http://two.example:8082"
JSON = {"content-type": "application/vnd.kafka.json.v2+json"}
BINARY = {"content-type": "application/vnd.kafka.binary.v2+json"}
V2 = {"content-type": "application/vnd.kafka.v2+json"}
V3 = {"content-type": "application/json"}
WITHIN_S = 60


@dataclass
class Proxy:
    """The proxy, and a client of it."""

    desk: Desk
    app: Any
    http: httpx.AsyncClient


@contextlib.asynccontextmanager
async def proxy(
    bootstrap: list[str],
    *,
    url: str = ONE,
    peers: tuple[str, ...] = (),
    runtime: Runtime | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Proxy]:
    usual = {"bootstrap.servers": ",".join(bootstrap), "consumer.heartbeat.interval.ms": "50"}
    own = runtime or SystemRuntime("rest")
    desk = desk_for(own, divided({**usual, **(settings or {})}), url, peers)
    app = application(desk)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=url) as http:
        try:
            yield Proxy(desk, app, http)
        finally:
            await desk.close()


@dataclass
class Slow:
    """A client over plain ASGI: it takes parts of the answer when the test says so."""

    app: Any
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    """The parts of the body to send; None in `asked` has it wait for more."""
    asked: int = 0
    """How many parts of the body the proxy has taken."""
    taken: list[bytes] = field(default_factory=list)
    status: int = 0
    is_over: bool = False
    _may_take: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _left: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False
    _task: "asyncio.Task[None] | None" = None

    async def __aenter__(self) -> "Slow":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *reason: object) -> None:
        assert self._task is not None
        self._left.set()
        self._more.set()
        self.take(1000)
        async with asyncio.timeout(WITHIN_S):
            await self._task

    def say(self, part: bytes) -> None:
        self.parts.append(part)
        self._more.set()

    def end(self) -> None:
        self._ended = True
        self._more.set()

    def take(self, count: int = 1) -> None:
        for _ in range(count):
            self._may_take.release()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                self._moved.clear()
                await self._moved.wait()

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.taken).splitlines()

    async def _run(self) -> None:
        path, _, query = self.target.partition("?")
        scope = {
            "type": "http",
            "method": self.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in self.headers.items()],
            "scheme": "http",
            "server": ("localhost", 80),
            "http_version": "1.1",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }
        await self.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        while True:
            if self.asked < len(self.parts):
                self.asked += 1
                self._moved.set()
                return {
                    "type": "http.request",
                    "body": self.parts[self.asked - 1],
                    "more_body": True,
                }
            if self._left.is_set():
                return {"type": "http.disconnect"}
            if self._ended:
                self._ended = False
                return {"type": "http.request", "body": b"", "more_body": False}
            self._more.clear()
            await self._more.wait()

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._moved.set()
            return
        if message["body"]:
            await self._may_take.acquire()
            self.taken.append(message["body"])
        self.is_over = not message.get("more_body", False)
        self._moved.set()


class Clock(SystemRuntime):
    """A runtime whose time can be moved on."""

    later_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.later_ms


@contextlib.asynccontextmanager
async def served(one: Proxy, listener: socket.socket) -> AsyncIterator[None]:
    """Serve a proxy on an address, for other proxies and for sockets."""
    server = make_server(one.app, one.desk.closing, LIMITS)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def values(cluster: FakeCluster, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return cluster.topics[topic].partitions[partition].values()
