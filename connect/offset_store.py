"""Keeps the source offsets of a worker: in the offsets topic, or in a file of JSON lines.

The topic is read to its end when it is asked for, not all the time: before a task starts, and
for the REST API. Never here: which offsets may be committed.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..client.admin.admin import Admin
from ..client.admin.topic_types import NewTopic
from ..client.consumer.consumer import Consumer
from ..client.errors import AdminError
from ..client.producer.columns import Columns
from ..client.producer.producer import Producer
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.types import TopicPartition
from ..runtime.errors import MinikafkaError
from ..runtime.runtime import Runtime
from ..storage.files import Files
from .offsets import Bytes, OffsetMap, Pair

log = logging.getLogger(__name__)

END = -1
_MAY_NOT_CREATE = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
READ_WITHIN_MS = 60_000
"""How long a read to the end may take: open transactions may have to end first."""


class OffsetsUnreadable(MinikafkaError):
    """The offsets cannot be read, so no source may start."""


class OffsetStore(Protocol):
    """Keeps source offsets durably."""

    map: OffsetMap

    async def start(self) -> None:
        """Open the store; raise OffsetsUnreadable if it cannot be read."""

    async def refresh(self) -> None:
        """Bring `map` to what is stored now."""

    async def write(self, connector: str, pairs: Sequence[Pair]) -> None:
        """Store offsets durably, then bring them into `map`."""

    async def close(self) -> None:
        """Close the store."""


async def create_topic(admin: Admin, topic: NewTopic) -> bool:
    """Create a topic; return False if it is there already, or may not be created.

    As in Kafka's Connect a topic that the principal may not create is taken to be there.
    """
    try:
        await admin.create_topics([topic])
    except AdminError as error:
        refused = error.errors.get(topic.name)
        if refused is not None and refused.code in _MAY_NOT_CREATE:
            log.info("topic %s is not created, and is taken to be there: %s", topic.name, refused)
            return False
        if refused is not None and refused.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


class TopicOffsets:
    """The offsets in a compacted topic, in the bytes of Kafka's Connect."""

    def __init__(
        self,
        runtime: Runtime,
        topic: NewTopic,
        settings: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """`settings` has the arguments of `producer`, `consumer` and `admin`."""
        self.map = OffsetMap()
        self.topic = topic.name
        self._new_topic = topic
        self._runtime = runtime
        self._settings = settings
        self._producer: Producer[bytes, bytes] | None = None
        self._starting = asyncio.Lock()
        self._reading = asyncio.Lock()
        self.is_started = False
        self._partitions: list[TopicPartition] = []
        reading = {
            **settings["consumer"],
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
        }
        self._consumer: Consumer[bytes, bytes] = Consumer(runtime=runtime, **reading)
        self._admin = Admin(runtime=runtime, **settings["admin"])

    async def start(self) -> None:
        """Create the topic if it is missing, and read it to its end."""
        self.is_started = True
        await self._admin.start()
        await self._consumer.start()
        await create_topic(self._admin, self._new_topic)
        numbers = await self._consumer.partitions_for(self.topic)
        self._partitions = [TopicPartition(self.topic, number) for number in numbers]
        self._consumer.assign(self._partitions)
        await self.refresh()

    async def refresh(self) -> None:
        """Read to the end: also what open transactions will have written once they end."""
        async with self._reading:
            try:
                async with asyncio.timeout(READ_WITHIN_MS / 1000):
                    await self._read_to_end()
            except TimeoutError:
                why = f"{self.topic}: its end was not reached within {READ_WITHIN_MS} ms"
                raise OffsetsUnreadable(why + "; is a transaction open?") from None

    async def _read_to_end(self) -> None:
        # Not the last stable offset: what a fenced task has committed must be seen by its
        # successor, even behind an open transaction of another task (KIP-618).
        ends = await self._admin.list_offsets(dict.fromkeys(self._partitions, END))
        self._consumer.resume(*self._partitions)
        for partition, end in ends.items():
            while await self._consumer.position(partition) < end.offset:
                for columns in await self._consumer.poll_columns(500):
                    keys = columns.keys or [None] * len(columns.values)
                    for key, value in zip(keys, columns.values, strict=True):
                        why = self.map.apply(key, value)
                        if why is not None:
                            log.warning("%s: a record is no offset, %s", self.topic, why)
        # Until the next time nothing is fetched ahead, which would only take memory.
        self._consumer.pause(*self._partitions)

    async def write(self, connector: str, pairs: Sequence[Pair]) -> None:
        """Write offsets and wait for their acknowledgement."""
        records = self.map.records(connector, pairs)
        async with self._starting:
            if self._producer is None:
                producer = Producer(runtime=self._runtime, **self._settings["producer"])
                self._producer = await producer.start()
        keys, values = zip(*records, strict=True) if records else ((), ())
        await self._producer.send_batch(self.topic, Columns(list(values), list(keys)))
        self.take(records)

    def take(self, records: Sequence[Bytes]) -> None:
        """Bring records that are in the topic into `map`."""
        for key, value in records:
            self.map.apply(key, value)

    async def close(self) -> None:
        """Close the clients."""
        if self._producer is not None:
            await self._producer.close(timeout_ms=0)
        await self._consumer.close(0)
        await self._admin.close()


class FileOffsets:
    """The offsets in a file: a JSON object {"key", "value"} per line, replaced as a whole."""

    def __init__(self, runtime: Runtime, path: str) -> None:
        self.map = OffsetMap()
        self._runtime = runtime
        self._path = path if "/" in path else f"./{path}"
        self._writing = asyncio.Lock()

    def _files(self) -> Files:
        # Anew each time: a disk that was full may be used again.
        return Files(self._runtime.fs, self._path.rpartition("/")[0] or "/")

    async def start(self) -> None:
        """Read the file; a missing one has no offsets."""
        data = self._files().read_small(self._path) or b""
        for number, line in enumerate(data.splitlines(), 1):
            try:
                row = json.loads(line)
                key, value = row["key"], row["value"]
            except (ValueError, TypeError, KeyError) as error:
                raise OffsetsUnreadable(
                    f"{self._path}, line {number}: {error!r}; a file of Apache Kafka's standalone"
                    " worker is another format: name a new file"
                ) from None
            self.map.apply(
                json.dumps(key, separators=(",", ":")).encode(), json.dumps(value).encode()
            )

    async def refresh(self) -> None:
        """Do nothing: only this worker writes the file."""

    async def write(self, connector: str, pairs: Sequence[Pair]) -> None:
        """Write the whole file beside the old one, flush it, and put it in place."""
        async with self._writing:
            after = OffsetMap()
            changes = self.map.records(connector, pairs)
            for key, value in (*self.map.all_records(), *changes):
                after.apply(key, value)
            lines = [
                b'{"key":%s,"value":%s}\n' % (key, value)
                for key, value in after.all_records()
                if value is not None
            ]
            await self._files().replace_durably(self._path, b"".join(lines))
            for key, value in changes:
                self.map.apply(key, value)

    async def close(self) -> None:
        """Do nothing: each write is whole."""


def is_gone(error: Exception) -> bool:
    """True if a broker says that the group or topic is not there."""
    gone = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(error, AdminError):
        return all(one.code in gone for one in error.errors.values())
    return isinstance(error, ApiError) and error.code in gone
