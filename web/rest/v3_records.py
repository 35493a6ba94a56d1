"""The v3 API of records: streams of records to write and to read, and batches.

A stream takes no more than its client takes of the answers: at most WINDOW records to write wait
for their acknowledgement, and what is read waits in the consumer's own bound.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...client.producer.delivery import Delivery
from ...client.producer.producer import Producer
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ..events import SEND_S, Events, Stream, event
from . import media
from .call import Call, to_text
from .errors import BAD_REQUEST, BATCH, BUG, RestError, answer_of
from .formats import iso_of, v3_record
from .instances import Record
from .json_stream import JsonStream
from .schemas import checked
from .sending import Typed, record_of, send, settled
from .v2 import bounds
from .v3_kinds import Object

log = logging.getLogger(__name__)

WINDOW: Final = 1_000
"""The most records of one stream that are written and not acknowledged."""
IDLE_S: Final = 300
"""The most seconds without a record, after which a stream to write ends."""
PART_BYTES: Final = 64 * 1024
"""Answers are sent in parts of about this size, sooner if there is nothing to add."""
MOST_ENTRIES: Final = 1_000
POLL_MS: Final = 500
PING_MS: Final = 15_000
"""A stream of events with nothing to tell says so this often, so that no proxy cuts it."""
BODIES: Final = (media.PLAIN, media.NDJSON)
OK: Final = 200

# -- records to write


async def write_stream(call: Call) -> Response:
    """Write records as they come, and answer each with its place or its error, in order."""
    call.desk.check_streams()
    media.check_body(call.request.headers.get("content-type"), BODIES)
    kind = media.chosen(call.request.headers.get("accept"), BODIES)
    await call.held.partitions(call.path["topic_name"])
    return _Exchange(call, await call.held.producer(), kind)


class _Exchange(Response):
    """Reads records while acknowledgements go back; neither gets ahead of the other for long."""

    def __init__(self, call: Call, producer: Producer[bytes, bytes], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._call = call
        self._producer = producer
        self._sent: asyncio.Queue[tuple[Typed | None, Delivery | RestError] | None]
        self._sent = asyncio.Queue(WINDOW)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(body: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": body, "more_body": more})

        start = {"type": "http.response.start", "status": OK, "headers": self.raw_headers}
        reading = asyncio.get_running_loop().create_task(self._read(), name="records")
        try:
            with self._call.desk.streaming(self._call.held), contextlib.suppress(TimeoutError):
                await send(start)
                async for part in self._answers():
                    await pass_on(part)
                await pass_on(b"", more=False)
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _read(self) -> None:
        stream = JsonStream(self._call.desk.settings.rest.max_body_bytes)
        try:
            async for part in self._call.parts(IDLE_S):
                for value in stream.feed(part):
                    await self._sent.put(await self._taken(value))
            for value in stream.feed(b"", is_last=True):
                await self._sent.put(await self._taken(value))
        except RestError as error:
            await self._sent.put((None, error))
        except Exception as error:
            # Whoever waits for acknowledgements has to learn that none come any more.
            log.error("a stream of records failed: %r", error, exc_info=error)
            await self._sent.put((None, RestError(BUG, "Internal Server Error")))
        await self._sent.put(None)

    async def _taken(self, value: Any) -> tuple[Typed | None, Delivery | RestError]:
        try:
            self._call.spend(1)
            typed = record_of(checked("Record", value))
        except RestError as error:
            return None, error
        topic = self._call.path["topic_name"]
        return typed, await send(self._producer, self._call.held, topic, typed.record)

    async def _answers(self) -> AsyncIterator[bytes]:
        lines: list[bytes] = []
        size = 0
        while (taken := await self._sent.get()) is not None:
            typed, delivery = taken
            if lines and isinstance(delivery, Delivery) and not delivery.done():
                yield b"".join(lines)
                lines, size = [], 0
            line = to_text(await _acknowledged(self._call, typed, delivery)) + b"\n"
            lines.append(line)
            size += len(line)
            if self._sent.empty() or size >= PART_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            yield b"".join(lines)


async def _acknowledged(call: Call, typed: Typed | None, delivery: Delivery | RestError) -> Object:
    outcome = await settled(delivery)
    if isinstance(outcome, RestError):
        return outcome.body()
    return {
        "error_code": OK,
        "cluster_id": call.site.cluster_id,
        "topic_name": outcome.topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": iso_of(outcome.timestamp_ms),
        **({} if typed is None else typed.sizes),
    }


async def write_batch(call: Call) -> Object:
    """Write several records; each entry has its id among the successes or the failures."""
    given = (await call.json("Entries", BATCH))["entries"]
    ids = [one.pop("id") for one in given]
    if len(given) > MOST_ENTRIES or len(dict.fromkeys(ids)) < len(ids):
        raise RestError(BATCH, f"entries: at most {MOST_ENTRIES}, and each id only once")
    topic: str = call.path["topic_name"]
    await call.held.partitions(topic)
    call.spend(len(given))
    producer = await call.held.producer()
    taken: list[tuple[Typed | None, Delivery | RestError]] = []
    for one in given:
        try:
            typed = record_of(one)
        except RestError as error:
            taken.append((None, error))
        else:
            taken.append((typed, await send(producer, call.held, topic, typed.record)))
    found: dict[bool, list[Object]] = {True: [], False: []}
    for each, outcome in zip(ids, taken, strict=True):
        answer = await _acknowledged(call, *outcome)
        found[answer["error_code"] == OK].append({"id": each, **answer})
    for success in found[True]:
        del success["error_code"]
    return {"successes": found[True], "failures": found[False]}


# -- records to read


class _Span(NamedTuple):
    """The records that a stream reads: up to an end or, if that is None, for ever."""

    where: TopicPartition
    start: int
    end: int | None
    limit: int | None


async def read_stream(call: Call) -> Response:
    """Stream the records of a partition as NDJSON or server-sent events.

    They begin at an offset or a time; with `follow` new ones are told as they come.
    """
    call.desk.check_streams()
    form = call.choice("format", media.FORMATS, media.BINARY)
    kind = media.chosen(call.request.headers.get("accept"), (media.NDJSON, media.EVENTS))
    span = await _span(call)
    if kind == media.NDJSON:
        lines = _told(call, span, lambda record: to_text(v3_record(record, form)) + b"\n", b"")
        return Stream(lines, media.NDJSON)

    def encode(record: Record) -> bytes:
        return event(to_text(v3_record(record, form)).decode(), event_id=record.offset)

    return Events(_told(call, span, encode, b": nothing new\n\n"))


async def _span(call: Call) -> _Span:
    offset, when, follow = call.number("offset"), call.number("timestamp"), call.flag("follow")
    if offset is not None and when is not None:
        raise RestError(BAD_REQUEST, "offset, timestamp: give one of them")
    seen = call.request.headers.get("last-event-id", "")
    if seen.isascii() and seen.isdecimal() and len(seen) < 19:
        offset, when = int(seen) + 1, None
    begin, end = await bounds(call)
    where = TopicPartition(call.path["topic_name"], call.path["partition_id"])
    if when is not None:
        found = (await (await call.admin()).list_offsets({where: when}))[where].offset
        offset = end if found < 0 else found
    elif offset is None:
        offset = end if follow else begin
    if not begin <= offset <= end:
        why = f"{where.topic}-{where.partition} has offsets from {begin} on, and ends at {end}"
        raise RestError(BAD_REQUEST, f"offset={offset}: {why}")
    return _Span(where, offset, None if follow else end, call.number("limit"))


async def _told(
    call: Call, span: _Span, encode: Callable[[Record], bytes], ping: bytes
) -> AsyncGenerator[bytes, None]:
    try:
        with call.desk.streaming(call.held):
            async with contextlib.aclosing(_read(call, span)) as turns:
                async for records in turns:
                    part = b"".join(map(encode, records))
                    if part or ping:
                        yield part or ping
    except MinikafkaError as error:
        body = to_text(answer_of(error, is_v2=False).body())
        yield event(body.decode(), "error") if ping else body + b"\n"


async def _read(call: Call, span: _Span) -> AsyncGenerator[list[Record], None]:
    """Yield records in parts of about PART_BYTES; an empty part after PING_MS without any."""
    left = span.limit
    quiet_ms, now_ms = 0, call.desk.runtime.monotonic_ms
    consumer = call.held.make_consumer(auto_offset_reset="none")
    async with call.desk.reading(consumer):
        consumer.assign([span.where])
        consumer.seek(span.where, span.start)
        at = span.start
        while not call.desk.closing.is_set() and left != 0 and (span.end is None or at < span.end):
            began_ms = now_ms()
            found = await consumer.poll(POLL_MS)
            quiet_ms = 0 if found else quiet_ms + now_ms() - began_ms
            for part in _parts(found[:left], span.end):
                quiet_ms = 0
                yield part
            left = None if left is None else max(left - len(found), 0)
            at = await consumer.position(span.where)
            if quiet_ms >= PING_MS:
                quiet_ms = 0
                yield []


def _parts(records: list[Record], end: int | None) -> list[list[Record]]:
    parts: list[list[Record]] = []
    size = PART_BYTES
    for record in records:
        if end is not None and record.offset >= end:
            break
        if size >= PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += len(record.key or b"") + len(record.value or b"")
    return parts
