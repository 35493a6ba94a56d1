"""HttpSource: the records of a web API that answers in JSON, by cursor, ETag or page.

At least once: a request that is repeated after a restart is taken to have the same answer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ..api import AsyncSourceTask, Props, SourceConnector, SourceContext
from ..data import STRING
from ..records import SourceRecord
from .http_client import HTTP_KEYS, HttpClient, Unavailable
from .http_paging import Answer, Cursor, Etag, Mode, Numbered, Offset, Page, pointed, wrong_pointer
from .keys import BATCH_SIZE, TOPIC, choice, text, whole
from .plain_json import to_json
from .ruled import RuledDef

log = logging.getLogger(__name__)


class HttpSourceTask(AsyncSourceTask):
    """Asks, hands out what is new, and asks again: at once while there is more."""

    _client: HttpClient | None = None

    async def start(self, props: Props, context: SourceContext) -> None:
        """Go on at the committed place; nothing is asked yet."""
        await super().start(props, context)
        self._settings = settings = HttpSource.config.parse(props)
        self._mode = _mode_of(settings)
        self._client = HttpClient(settings, settings["body.max.bytes"])
        self._partition = {"url": self._client.shown}
        self._offset: Offset = context.offsets.read(self._partition) or {}

    async def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        """Yield the records of each answer by `batch.size`."""
        size = self._settings["batch.size"]
        while True:
            page = self._mode.page(self._offset, await self._ask())
            for first in range(0, len(page.records), size):
                yield self._batch(page, first, first + size)
            self._offset = page.following
            if not page.more:
                await asyncio.sleep(self._settings["interval.ms"] / 1000)

    async def stop(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    async def _ask(self) -> Answer:
        """Return an answer, however long it takes; raise ConnectError if none will ever come."""
        assert self._client is not None
        parameters, headers = self._mode.request(self._offset)
        while True:
            try:
                return await self._client.request("GET", params=parameters, headers=headers)
            except Unavailable as failure:
                wait_ms = self._client.wait_ms(failure)
                log.warning("%s; asked again in %d ms", failure, wait_ms)
                await asyncio.sleep(wait_ms / 1000)

    def _batch(self, page: Page, first: int, end: int) -> list[SourceRecord]:
        return [
            self._record(value, offset)
            for value, offset in zip(page.records[first:end], page.offsets[first:end], strict=True)
        ]

    def _record(self, value: Any, offset: Offset) -> SourceRecord:
        pointer = self._settings["key.pointer"]
        key = pointed(value, pointer, None) if pointer else None
        if key is not None and not isinstance(key, str):
            key = to_json(key)
        return SourceRecord(
            topic=self._settings["topic"],
            key=key,
            key_schema=None if key is None else STRING,
            value=value,
            source_partition=self._partition,
            source_offset=offset,
        )


def _mode_of(settings: Mapping[str, Any]) -> Mode:
    records = settings["records.pointer"]
    if settings["mode"] == "etag":
        return Etag(records)
    if settings["mode"] == "cursor":
        return Cursor(records, settings["cursor.pointer"], settings["cursor.param"])
    size, parameter = settings["page.size"], settings["page.size.param"]
    return Numbered(records, settings["page.param"], settings["page.start"], size, parameter)


def _rules(settings: Mapping[str, Any]) -> Mapping[str, str]:
    if settings["mode"] == "cursor" and not settings["cursor.pointer"]:
        return {"cursor.pointer": "must be set with mode=cursor"}
    return {}


class HttpSource(SourceConnector):
    """One task that reads one address."""

    task = HttpSourceTask
    config = RuledDef(
        [
            *HTTP_KEYS,
            TOPIC,
            choice(
                "mode",
                "How to go on: with a cursor that each answer holds, with the whole answer once "
                "its ETag changes, or with numbered pages.",
                ("cursor", "etag", "page"),
            ),
            text("records.pointer", "JSON pointer to the list of records.", "", wrong_pointer),
            text("key.pointer", "JSON pointer in a record to its key.", "", wrong_pointer),
            text("cursor.pointer", "JSON pointer to the next cursor.", "", wrong_pointer),
            text("cursor.param", "The parameter of the query that takes the cursor.", "cursor"),
            text("page.param", "The parameter that takes the number of the page.", "page"),
            whole("page.start", "The number of the first page.", 1),
            whole("page.size", "Records of a full page; shorter ones are asked again.", 100, 1),
            text("page.size.param", "The parameter that takes page.size, if there is one.", None),
            whole("interval.ms", "The wait when there is nothing more for now.", 10_000, 1),
            whole("body.max.bytes", "Bytes of an answer, at most.", 1 << 24, 1, 1 << 30),
            BATCH_SIZE,
        ],
        _rules,
    )

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Take any offset: only the server knows its cursors, ETags and pages."""
        return True
