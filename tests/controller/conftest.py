"""A controller on real sockets and files, and brokers that consist of a connection to it only."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from minikafka.client.net.control import ControlConnection
from minikafka.controller.config import read_config
from minikafka.controller.server import ControllerServer
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode, encode_bytes, response_class
from minikafka.protocol.control import messages as m
from minikafka.protocol.control.batches import replay
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.control.records import SUPPORTED_FEATURES
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.runtime.runtime import SystemRuntime

WAIT_MS = 10_000


@dataclass
class FakeBroker:
    """Registers, beats, follows metadata; stores nothing."""

    broker_id: int
    connection: ControlConnection
    incarnation: int = 1
    port: int = 1
    directory: int = 0
    epoch: int = -1
    image: MetadataImage = field(default_factory=MetadataImage)

    async def call(self, request: m.Request[Any]) -> Any:
        return await self.connection.call(request, timeout_ms=WAIT_MS)

    async def register(self) -> m.BrokerRegistered:
        answer: m.BrokerRegistered = await self.call(
            m.RegisterBroker(
                self.broker_id,
                bytes([self.broker_id, self.incarnation]) * 8,
                (bytes([self.broker_id, self.directory]) * 8,),
                (m.Endpoint("PLAINTEXT", "127.0.0.1", self.port),),
                None,
                SUPPORTED_FEATURES,
            )
        )
        self.epoch = answer.broker_epoch
        return answer

    async def beat(
        self, *, want_fence: bool = False, want_shutdown: bool = False
    ) -> m.HeartbeatAnswer:
        answer: m.HeartbeatAnswer = await self.call(
            m.BrokerHeartbeat(
                self.broker_id, self.epoch, self.image.offset, want_fence, want_shutdown
            )
        )
        return answer

    async def follow(self, max_wait_ms: int = 0) -> Delta:
        fetched: m.MetadataFetched = await self.call(
            m.FetchMetadata(self.image.offset + 1, self.image.epoch, max_wait_ms)
        )
        assert fetched.error == 0, fetched
        return replay(self.image, fetched.records)

    async def follow_until(self, reached: Callable[[MetadataImage], bool]) -> None:
        async with asyncio.timeout(WAIT_MS / 1000):
            while not reached(self.image):
                await self.follow(max_wait_ms=1000)

    async def come_up(self) -> None:
        """Register, catch up, be unfenced."""
        assert not (await self.register()).error
        await self.follow_until(lambda image: image.offset >= self.epoch)
        assert not (await self.beat()).is_fenced
        await self.follow()

    async def forward(self, key: ApiKey, version: int, body: object, tag: bytes = b"") -> Any:
        data = encode_bytes(body, version)
        answer = await self.call(
            m.ForwardedRequest(int(key), version, data, "User:test", WAIT_MS, tag)
        )
        assert answer.error == 0, answer
        return decode(response_class(key), version, answer.body)

    async def create_topic(self, name: str, partitions: int, factor: int, tag: bytes = b"") -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        request = CreateTopicsRequest(topics=[topic])
        response = await self.forward(ApiKey.CREATE_TOPICS, 7, request, tag)
        await self.follow()
        return response.topics[0]


class Lab:
    """Starts controllers in one directory, and connects brokers to the newest one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = SystemRuntime("controller-9", on_crash=self._on_crash)
        self.server: ControllerServer
        self.failures: list[str] = []
        self._connections: list[ControlConnection] = []

    def _on_crash(self, task: str, error: BaseException) -> None:
        self.failures.append(f"{task}: {error!r}")

    async def start(self, overrides: Mapping[str, str] | None = None) -> ControllerServer:
        properties = {
            "node.id": "9",
            "listeners": "CONTROLLER://127.0.0.1:0",
            "log.dirs": str(self.directory),
            **(overrides or {}),
        }
        config, _ = read_config(properties)
        self.server = await ControllerServer.start(self.runtime, config, self.failures.append)
        return self.server

    async def connect(
        self, node_id: int, cluster_id: str | None = None, versions: tuple[int, int] = (1, 1)
    ) -> ControlConnection:
        hello = m.Hello(cluster_id, *versions, node_id, m.ROLE_BROKER, bytes(16))
        host, port = self.server.address
        connection = await ControlConnection.open(host, port, hello, timeout_ms=WAIT_MS)
        self._connections.append(connection)
        return connection

    async def broker(self, broker_id: int, **how: Any) -> FakeBroker:
        return FakeBroker(broker_id, await self.connect(broker_id), **how)

    async def close(self) -> None:
        for connection in self._connections:
            connection.abort("the test is over")
            await connection.wait_until_closed()
        await self.server.stop()
        self.runtime.close()
        assert self.failures == []


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = Lab(tmp_path / "controller")
    await made.start()
    yield made
    await made.close()
