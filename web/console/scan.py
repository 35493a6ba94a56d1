"""Reads messages for one page: seeks, filters, or waits for new ones, up to fixed bounds.

A scan has its own consumer, which belongs to no group. It yields the records found and its
progress. It ends when the visitor closes the page.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...client.admin.admin import Admin
from ...client.consumer.consumer import Consumer
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from . import asking
from .link import Link
from .views.messages import ALL, Question
from .views.records import Record, RecordRow, row_of

MOST_SCANNED: Final = 1_000_000
"""The most records that a scan reads before it stops and offers to continue."""
MOST_MS: Final = 30_000
MOST_TAILED: Final = 2_000
"""The most new records that a scan which waits for new ones shows before it stops."""
TAIL_PER_TURN: Final = 50
"""The most new records that one update of the page shows; the rest is only counted."""
TURN_RECORDS: Final = 2_000
"""Records that are read before the scan yields to the event loop."""
POLL_MS: Final = 500
MAX_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a scan, and the records found since the previous update."""

    rows: tuple[RecordRow, ...]
    scanned: int
    found: int
    skipped: int = 0
    """Matching new records that were not shown because there were too many."""
    end: str = ""
    """Why the scan is over, as a sentence; empty while it runs."""
    go_on_at: int | None = None
    """The offset from which to continue; only for a scan of one partition that reached its bound.
    """


@dataclass(slots=True)
class Range:
    """The start and end offsets of a scan, by partition."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


async def scan(link: Link, question: Question) -> AsyncGenerator[Progress, None]:
    """Scan messages; MinikafkaError if the cluster refuses, or the search is not valid."""
    span = await link.ask(lambda admin: _range(admin, question))
    if not span.starts:
        yield Progress((), 0, 0, end="There is nothing to read.")
        return
    isolation = "read_committed" if question.committed_only else "read_uncommitted"
    settings = {"isolation.level": isolation, "fetch.max.bytes": str(MAX_BYTES)}
    async with link.consumer(**settings) as consumer:
        consumer.assign(span.starts)
        for partition, offset in span.starts.items():
            consumer.seek(partition, offset)
        if question.begin == "tail":
            turns = _tail(consumer, question)
        else:
            turns = _until(consumer, question, span, link.runtime.monotonic_ms)
        async for progress in turns:
            yield progress


async def _range(admin: Admin, question: Question) -> Range:
    """Look up the start offsets of a scan, and as its end the present ends of the logs."""
    described = (await admin.describe_topics([question.topic]))[question.topic]
    wanted = [
        TopicPartition(question.topic, one.partition)
        for one in described.partitions
        if one.leader_id >= 0 and question.partition in (ALL, one.partition)
    ]
    starts, ends = await asking.bounds(admin, wanted)
    if question.committed_only and wanted:
        stable = await admin.list_offsets(
            dict.fromkeys(wanted, LATEST_TIMESTAMP), isolation_level=1
        )
        ends = {where: one.offset for where, one in stable.items()}
    span = Range()
    at_time: Mapping[TopicPartition, int] = {}
    if question.begin == "time" and wanted:
        listed = await admin.list_offsets(dict.fromkeys(wanted, question.time_ms))
        at_time = {where: one.offset for where, one in listed.items() if one.offset >= 0}
    for where in wanted:
        if where not in starts or where not in ends:
            continue
        begin, end = starts[where], ends[where]
        match question.begin:
            case "tail":
                begin = end
            case "newest":
                reach = MOST_SCANNED // len(wanted) if question.filter else question.limit
                begin = max(begin, end - reach)
            case "offset":
                begin = max(begin, question.offset)
            case "time":
                begin = at_time.get(where, end)
        if begin < end or question.begin == "tail":
            span.starts[where], span.ends[where] = begin, end
    return span


async def _until(
    consumer: Consumer[bytes, bytes], question: Question, span: Range, now_ms: Callable[[], int]
) -> AsyncIterator[Progress]:
    """Scan up to the ends; a search for the newest records shows them when all are known."""
    match, newest = question.match, question.begin == "newest"
    latest: deque[Record] = deque(maxlen=question.limit)
    scanned = found = 0
    left = dict(span.ends)
    deadline_ms = now_ms() + MOST_MS
    while left and (newest or found < question.limit):
        if scanned >= MOST_SCANNED or now_ms() > deadline_ms:
            break
        rows: list[RecordRow] = []
        for record in await consumer.poll(POLL_MS, TURN_RECORDS):
            where = record.topic_partition
            if where not in left or record.offset >= left[where]:
                continue
            scanned += 1
            if match is not None and not match(record):
                continue
            if newest:
                latest.append(record)
            elif found < question.limit:
                rows.append(row_of(record, question.form))
            found += 1
        for where in list(left):
            if await consumer.position(where, timeout_ms=POLL_MS * 10) >= left[where]:
                del left[where]
                consumer.pause(where)
        yield Progress(tuple(rows), scanned, found)
        await asyncio.sleep(0)
    shown = sorted(latest, key=lambda one: (-one.timestamp_ms, one.partition, -one.offset))
    at = None
    if left and len(span.starts) == 1:
        (where,) = span.starts
        at = await consumer.position(where, timeout_ms=POLL_MS * 10)
    rows_shown = tuple(row_of(record, question.form) for record in shown)
    found = min(found, question.limit)
    yield Progress(rows_shown, scanned, found, end=_end(question, left, found), go_on_at=at)


def _end(question: Question, left: Mapping[TopicPartition, int], found: int) -> str:
    if found >= question.limit:
        return f"{question.limit} records are shown, as many as were asked for."
    if left:
        return "The scan stopped at its bounds, not at the end of the log."
    return "That is all there is."


async def _tail(consumer: Consumer[bytes, bytes], question: Question) -> AsyncIterator[Progress]:
    """Show new records until the visitor closes the page, or MOST_TAILED are shown."""
    match = question.match
    scanned = found = skipped = 0
    while found - skipped < MOST_TAILED:
        rows: list[RecordRow] = []
        for record in await consumer.poll(POLL_MS, TURN_RECORDS):
            scanned += 1
            if match is not None and not match(record):
                continue
            found += 1
            if len(rows) < TAIL_PER_TURN:
                rows.append(row_of(record, question.form))
            else:
                skipped += 1
        yield Progress(tuple(reversed(rows)), scanned, found, skipped)
        # Whoever reads does not see more than this.
        await asyncio.sleep(POLL_MS / 1000 if rows else 0)
    yield Progress((), scanned, found, skipped, f"The tail stopped after {MOST_TAILED} records.")
