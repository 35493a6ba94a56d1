"""A compacted topic that a worker reads from its beginning, follows, and appends to.

The records go to `on_record` in the order of their partitions. Only committed ones: under exactly
once a leader writes in transactions. What they mean is decided elsewhere.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..client.admin.admin import Admin
from ..client.admin.config_types import ConfigResource
from ..client.admin.topic_types import NewTopic
from ..client.consumer.consumer import Consumer
from ..client.errors import AdminError, ClientError, DeliveryFailed, ProducerFenced
from ..client.producer.producer import Producer
from ..client.records import ConsumerRecord
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages.describe_configs import ResourceType
from ..protocol.types import TopicPartition
from ..runtime.errors import ConfigError
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from .config_log import Row

log = logging.getLogger(__name__)

COMPACTED: Final = {"cleanup.policy": "compact"}
POLL_MS: Final = 500
REST_MS: Final = 1_000
"""Milliseconds between two attempts to read, while reading fails."""
FIRST_READ_MS: Final = 60_000
"""The longest that the first read to the end may take."""
OVERTAKEN: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
OnRecord = Callable[[ConsumerRecord[bytes, bytes]], None]


class TopicLog:
    """The reader of one compacted topic, from `start` to `close`, and its producer."""

    def __init__(
        self, runtime: Runtime, common: Mapping[str, Any], topic: NewTopic, on_record: OnRecord
    ) -> None:
        """`common` has the arguments of every client; `topic` is created if it is missing."""
        self.name = topic.name
        self._runtime = runtime
        self._common = dict(common)
        self._topic = topic
        self._on_record = on_record
        self._consumer: Consumer[bytes, bytes] = Consumer(
            runtime=runtime,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            **self._common,
        )
        self._producer: Producer[bytes, bytes] | None = None
        self._partitions: list[TopicPartition] = []
        self._reading = OwnedTask(runtime, f"reader of {topic.name}")
        self._moved = asyncio.Condition()

    async def start(self) -> None:
        """Create the topic if it is missing, read it to its end, and go on reading.

        Raise ConfigError if it is not compacted or has another number of partitions than it must
        have, TimeoutError if its end is not reached in FIRST_READ_MS.
        """
        await self._prepare()
        await self._consumer.start()
        numbers = await self._consumer.partitions_for(self.name)
        if self._topic.num_partitions == 1 and len(numbers) != 1:
            why = f"this topic must have one partition, and has {len(numbers)}"
            raise ConfigError("config.storage.topic", self.name, why)
        self._partitions = [TopicPartition(self.name, number) for number in numbers]
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning()
        self._reading.start(self._read)
        if not await self.read_to_end(FIRST_READ_MS):
            raise TimeoutError(f"{self.name}: its end was not reached in {FIRST_READ_MS} ms")

    async def close(self) -> None:
        """Stop reading and disconnect; records that are not acknowledged fail."""
        await self._reading.stop()
        if self._producer is not None:
            await self._producer.close(timeout_ms=0)
        await self._consumer.close(0)

    async def read_to_end(self, timeout_ms: int) -> bool:
        """Read what is in the topic now; return False if that takes longer than `timeout_ms`."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                ends = await self._consumer.end_offsets(self._partitions, timeout_ms=timeout_ms)
                async with self._moved:
                    while not await self._is_at(ends):
                        await self._moved.wait()
        except TimeoutError:
            return False
        except (ClientError, ProtocolError) as error:
            log.info("%s: its end is not known: %s", self.name, error)
            return False
        return True

    async def append(self, rows: Sequence[Row], partition: int | None = None) -> int:
        """Append records and wait until they are acknowledged; return the last one's offset.

        Raises what the deliveries of a Producer raise.
        """
        if self._producer is None:
            self._producer = Producer(runtime=self._runtime, **self._common)
            await self._producer.start()
        return await send_all(self._producer, self.name, rows, partition)

    # -- within

    async def _prepare(self) -> None:
        async with Admin(runtime=self._runtime, **self._common) as admin:
            configs = {**self._topic.configs, **COMPACTED}
            topic = NewTopic(
                self.name,
                self._topic.num_partitions,
                self._topic.replication_factor,
                configs=configs,
            )
            try:
                await admin.create_topics([topic])
                return
            except AdminError as error:
                if error.errors[self.name].code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            resource = ConfigResource(ResourceType.TOPIC, self.name)
            found = (await admin.describe_configs([resource]))[resource]
            policy = found["cleanup.policy"].value
            if policy != "compact":
                why = f"its cleanup.policy must be compact, and is {policy}"
                raise ConfigError("topic", self.name, why)

    async def _read(self) -> None:
        while True:
            try:
                records = await self._consumer.poll(timeout_ms=POLL_MS)
            except (ClientError, ProtocolError) as error:
                log.warning("%s cannot be read: %s", self.name, error)
                await asyncio.sleep(REST_MS / 1000)
                continue
            for record in records:
                self._on_record(record)
            async with self._moved:
                self._moved.notify_all()

    async def _is_at(self, ends: Mapping[TopicPartition, int]) -> bool:
        for partition, end in ends.items():
            if await self._consumer.position(partition) < end:
                return False
        return True


class Overtaken(ClientError):
    """A later leader has fenced this one; its write is not in the topic."""


class FencedWriter:
    """The transactional producer of a leader, which a later leader's fences (KIP-618)."""

    def __init__(self, runtime: Runtime, common: Mapping[str, Any], transactional_id: str) -> None:
        self._producer: Producer[bytes, bytes] = Producer(
            runtime=runtime, transactional_id=transactional_id, **common
        )

    async def start(self) -> None:
        """Fence earlier leaders; raises what `Producer.start` raises."""
        await self._producer.start()

    async def append(self, topic: str, rows: Sequence[Row]) -> int:
        """Append records in one transaction; raise Overtaken if another leader began."""
        try:
            async with self._producer.transaction():
                return await send_all(self._producer, topic, rows, 0)
        except DeliveryFailed as error:
            if isinstance(error, ProducerFenced) or error.error.code in OVERTAKEN:
                raise Overtaken(f"another leader writes {topic}: {error}") from error
            raise

    async def close(self) -> None:
        """Disconnect."""
        with suppress(ClientError):
            await self._producer.close(timeout_ms=0)


async def send_all(
    producer: "Producer[bytes, bytes]", topic: str, rows: Sequence[Row], partition: int | None
) -> int:
    """Send records in order, wait for all, and return the last one's offset."""
    await producer.drain()
    deliveries = [producer.send(topic, row.value, key=row.key, partition=partition) for row in rows]
    offset = -1
    for delivery in deliveries:
        offset = (await delivery).offset
    return offset
