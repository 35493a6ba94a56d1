"""The config topic of one worker: the state that it gives, and the writes of the leader.

With exactly once a leader owns the topic by a transactional producer, so that the writes of an
earlier leader fail (KIP-618). Who may write is decided by the caller.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..client.admin.topic_types import NewTopic
from ..client.errors import ClientError
from ..client.records import ConsumerRecord
from ..protocol.errors import ProtocolError
from ..runtime.errors import MinikafkaError
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from .config_log import Change, ConfigLog, Row
from .herding import Conflict, HerderError
from .topic_log import FencedWriter, Overtaken, TopicLog

log = logging.getLogger(__name__)

WRITE_MS: Final = 30_000
"""The longest that a write may take, until it is read back."""
REST_MS: Final = 1_000
"""Milliseconds between two attempts to own the topic."""


class ConfigTopic:
    """Reads and writes the config topic; see the module."""

    def __init__(
        self,
        runtime: Runtime,
        common: Mapping[str, Any],
        topic: NewTopic,
        transactional_id: str | None,
    ) -> None:
        """`transactional_id` is that of all leaders of the group; None without exactly once."""
        self.state = ConfigLog()
        self.on_record: Callable[[], None] = lambda: None
        """Called before each record is applied."""
        self.on_change: Callable[[Change], None] = lambda change: None
        """Called with each change that a record brings, from the end of `start` on."""
        self._runtime = runtime
        self._common = common
        self._transactional_id = transactional_id
        self._log = TopicLog(runtime, common, topic, self._on_record)
        self._writer: FencedWriter | None = None
        self._is_owner = False
        self._is_started = False
        self._writing = asyncio.Lock()
        self._moved = asyncio.Event()
        """Set when a record was read, or the topic became owned; only `write` waits for it."""
        self._claiming = OwnedTask(runtime, "claim of the config topic")

    async def start(self) -> None:
        """Read the topic to its end, and go on reading; raises what `TopicLog.start` raises."""
        await self._log.start()
        self._is_started = True

    async def close(self) -> None:
        """Stop reading and writing."""
        await self.resign()
        await self._log.close()

    async def read_to_end(self, timeout_ms: int) -> bool:
        """Read what is in the topic now; return False if that takes longer than `timeout_ms`."""
        return await self._log.read_to_end(timeout_ms)

    # -- as the leader

    def claim(self) -> None:
        """Own the topic, in the background: fence the leaders before this one."""
        self._is_owner = True
        if self._transactional_id is not None and self._writer is None:
            self._claiming.start(self._own)

    async def resign(self) -> None:
        """Write no more, since another worker leads."""
        self._is_owner = False
        await self._claiming.stop()
        await self._drop_writer()

    async def write(self, rows: Sequence[Row]) -> None:
        """Append records, whole if the topic is owned by transactions, and read them back.

        Raise Conflict if the topic is not owned, or another leader owns it now, HerderError if it
        cannot be written in WRITE_MS.
        """
        async with self._writing:
            try:
                async with asyncio.timeout(WRITE_MS / 1000):
                    offset = await self._append(rows)
                    while self.state.offset <= offset:
                        self._moved.clear()
                        await self._moved.wait()
            except Overtaken as error:
                await self._drop_writer()
                raise Conflict(f"Another worker leads the group now: {error}") from error
            except HerderError:
                raise
            except (TimeoutError, MinikafkaError) as error:
                await self._drop_writer()
                if self._is_owner:
                    self.claim()
                raise HerderError(f"The config topic could not be written: {error}") from error

    async def _append(self, rows: Sequence[Row]) -> int:
        if self._transactional_id is None:
            return await self._log.append(rows, 0)
        while self._writer is None:
            if not self._claiming.is_running:
                raise Conflict("This worker does not own the config topic: try again")
            self._moved.clear()
            await self._moved.wait()
        return await self._writer.append(self._log.name, rows)

    async def _own(self) -> None:
        assert self._transactional_id is not None
        while self._writer is None:
            writer = FencedWriter(self._runtime, self._common, self._transactional_id)
            try:
                await writer.start()
                self._writer = writer
                self._moved.set()
            except (ClientError, ProtocolError) as error:
                log.warning("the config topic cannot be owned: %s", error)
                await asyncio.sleep(REST_MS / 1000)
            finally:
                if self._writer is not writer:
                    await writer.close()

    async def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()

    def _on_record(self, record: ConsumerRecord[bytes, bytes]) -> None:
        self.on_record()
        change = self.state.apply(record.key, record.value, record.offset)
        self._moved.set()
        if change is not None and self._is_started:
            self.on_change(change)
