"""HttpSink: each record, or a JSON array of records, in a request to a web API.

At least once, in the order of each partition. A header names topic, partition and offset, by which
the receiver recognises what comes again.
"""

import asyncio
from collections.abc import Sequence

from ...protocol.types import TopicPartition
from ..api import AsyncSinkTask, ConnectError, Props, Retry, SinkConnector, SinkContext
from ..config_def import ConfigDef
from ..records import SinkRecord
from .http_client import HTTP_KEYS, HttpClient, Refused, Unavailable
from .keys import choice, text, whole
from .plain_json import to_json

ANSWER_MOST = 1 << 16
"""Bytes of an answer that are read; it says nothing but what is wrong."""


class HttpSinkTask(AsyncSinkTask):
    """Sends partitions side by side, and the requests of one partition one after the other."""

    _client: HttpClient | None = None

    async def start(self, props: Props, context: SinkContext) -> None:
        """Make the client; nothing is sent yet."""
        await super().start(props, context)
        self._settings = settings = HttpSink.config.parse(props)
        self._client = HttpClient(settings, ANSWER_MOST)
        self._room = asyncio.Semaphore(settings["concurrency"])
        self._sent: dict[TopicPartition, int] = {}
        """By partition, the offset behind what was sent of a batch that comes again."""

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """Send a batch. Raise Retry if a part of it is to be sent later; only that part is."""
        lanes: dict[TopicPartition, list[SinkRecord]] = {}
        for record in records:
            if record.offset >= self._sent.get(record.origin, 0):
                lanes.setdefault(record.origin, []).append(record)
        ends = await asyncio.gather(*map(self._send_lane, lanes.values()), return_exceptions=True)
        failures = [end for end in ends if end is not None]
        waits = [failure for failure in failures if isinstance(failure, Unavailable)]
        for failure in failures:
            if not isinstance(failure, Unavailable):
                raise failure
        if waits:
            raise self._retry(waits[0])
        self._sent.clear()

    async def stop(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    def _retry(self, failure: Unavailable) -> Exception:
        assert self._client is not None
        wait_ms, most = self._client.wait_ms(failure), self._settings["max.retries"]
        if 0 <= most < self._client.failures:
            return ConnectError(f"{failure}; given up after {most} retries (max.retries)")
        return Retry(str(failure), wait_ms)

    async def _send_lane(self, records: list[SinkRecord]) -> None:
        size = self._settings["batch.max.records"] if self._is_array else 1
        for first in range(0, len(records), size):
            chunk = records[first : first + size]
            async with self._room:
                await self._send(chunk)
            self._sent[chunk[-1].origin] = chunk[-1].offset + 1

    @property
    def _is_array(self) -> bool:
        return bool(self._settings["batch"] == "array")

    async def _send(self, chunk: list[SinkRecord]) -> None:
        """Send a request. Of an array that is refused, each record is sent alone."""
        assert self._client is not None
        first, last = chunk[0], chunk[-1]
        topic, partition = first.origin
        place = f"{topic}-{partition}-{first.offset}"
        if len(chunk) > 1:
            place += f"-{last.offset}"
        headers = {
            "Content-Type": self._settings["content.type"],
            self._settings["idempotency.header"]: place,
        }
        try:
            await self._client.request(
                self._settings["method"], data=self._body(chunk), headers=headers
            )
        except Refused as error:
            if len(chunk) == 1:
                await self.context.report(first, error)
                return
            for record in chunk:
                await self._send([record])

    def _body(self, chunk: list[SinkRecord]) -> bytes:
        value = chunk[0].value
        if isinstance(value, bytes) and not self._is_array:
            return value
        try:
            if self._is_array:
                return f"[{','.join(to_json(record.value) for record in chunk)}]".encode()
            return (value if isinstance(value, str) else to_json(value)).encode()
        except ValueError as error:
            raise Refused(f"a value has no form: {error}") from None


class HttpSink(SinkConnector):
    """Tasks that send what they are assigned."""

    task = HttpSinkTask
    config = ConfigDef(
        [
            *HTTP_KEYS,
            choice("method", "The method of the requests.", ("POST", "PUT", "PATCH")),
            choice(
                "batch",
                "One record in a request: a text or bytes as they are, another value as JSON; or a "
                "JSON array of the values of one partition.",
                ("single", "array"),
            ),
            whole("batch.max.records", "Records of an array, at most.", 100, 1, 100_000),
            text("content.type", "The header Content-Type.", "application/json"),
            text(
                "idempotency.header",
                "The header that holds TOPIC-PARTITION-OFFSET, of an array with the last offset "
                "behind it.",
                "Idempotency-Key",
            ),
            whole(
                "concurrency", "Requests of a task at once, each of another partition.", 4, 1, 100
            ),
            whole("max.retries", "Failures in a row before the task fails; -1: no end.", 10, -1),
        ]
    )

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return as many tasks as there may be."""
        return [self.props] * max_tasks
