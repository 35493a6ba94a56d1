"""The status topic of one worker: what is known of all workers, and what this one tells.

Only the newest status of each item waits to be written, so that a cluster that cannot be written to
fills no memory. A write that fails is tried again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..client.admin.topic_types import NewTopic
from ..client.errors import ClientError
from ..client.records import ConsumerRecord
from ..protocol.errors import ProtocolError
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from .config_log import Row
from .states import Status, TaskId
from .status_store import StatusTable, status_row, topic_row
from .topic_log import TopicLog

log = logging.getLogger(__name__)

REST_MS: Final = 1_000
LAST_MS: Final = 3_000
"""The longest that the last statuses are waited for when the worker ends."""


class StatusTopic:
    """Reads and writes the status topic."""

    def __init__(self, runtime: Runtime, common: Mapping[str, Any], topic: NewTopic) -> None:
        self.table = StatusTable()
        self._runtime = runtime
        self._log = TopicLog(runtime, common, topic, self._on_record)
        self._unsent: dict[bytes, Row] = {}
        self._telling = OwnedTask(runtime, "statuses")
        self._told = asyncio.Event()

    async def start(self) -> None:
        """Read the topic to its end, and go on reading; raises what `TopicLog.start` raises."""
        await self._log.start()

    async def close(self) -> None:
        """Write what waits, for LAST_MS at most, and disconnect."""
        while self._unsent and self._telling.is_running:
            self._told.clear()
            try:
                async with asyncio.timeout(LAST_MS / 1000):
                    await self._told.wait()
            except TimeoutError:
                break
        await self._telling.stop()
        await self._log.close()

    def tell(self, item: TaskId, status: Status) -> None:
        """Write a status of a connector or task, unless a later generation has said something."""
        if self.table.may_write(item, status):
            self._tell(status_row(item, status))

    def tell_topic(self, task: TaskId, topic: str) -> None:
        """Write that a connector uses a topic, once (KIP-558)."""
        if topic not in self.table.topics.get(task.connector, {}):
            self._tell(topic_row(task, topic, self._runtime.wall_ms()))

    def forget_topics(self, name: str) -> None:
        """Delete the topics that a connector uses."""
        for topic in list(self.table.topics.get(name, {})):
            self._tell(topic_row(TaskId(name, 0), topic, None))

    def drop_others(self, configured: Iterable[TaskId]) -> None:
        """Delete what is told of connectors and tasks that are not configured."""
        items = tuple(configured)
        for item in self.table.of_others(items):
            self._tell(status_row(item, None))
        names = {item.connector: None for item in items}
        for name in [each for each in self.table.topics if each not in names]:
            self.forget_topics(name)

    def _tell(self, row: Row) -> None:
        self._unsent.pop(row.key, None)
        self._unsent[row.key] = row
        self.table.apply(row.key, row.value)
        self._telling.start(self._tell_all)

    async def _tell_all(self) -> None:
        while self._unsent:
            rows = list(self._unsent.values())
            try:
                await self._log.append(rows)
            except (ClientError, ProtocolError) as error:
                log.warning("statuses are not written: %s", error)
                await asyncio.sleep(REST_MS / 1000)
                continue
            for row in rows:
                if self._unsent.get(row.key) is row:
                    del self._unsent[row.key]
        self._told.set()

    def _on_record(self, record: ConsumerRecord[bytes, bytes]) -> None:
        if record.key not in self._unsent:
            self.table.apply(record.key, record.value)
