"""Reads messages for one page: seeks, filters, or waits for new ones, up to fixed bounds.

A scan has its own consumer, which belongs to no group. It yields the records found and its
progress. It ends when the visitor closes the page.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from typing import Final

from ...client.admin.admin import Admin
from ...client.consumer.consumer import Consumer
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from . import asking
from .link import Link
from .views.messages import ALL, Question
from .views.records import MOST_BYTES, Record, RecordRow, row_of
from .views.words import plural

MOST_SCANNED: Final = 1_000_000
"""The most records that a scan reads before it stops and offers to continue."""
MOST_MS: Final = 30_000
MOST_TAILED: Final = 2_000
"""The most new records that a scan shows before it stops, if it waits for new ones."""
TAIL_PER_TURN: Final = 50
"""The most new records that one update of the page shows; the rest is only counted."""
TURN_RECORDS: Final = 2_000
"""The most records between two updates of the page."""
SLICE_RECORDS: Final = 100
"""Records that are matched before the scan yields to the event loop."""
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
    older: int = 0
    """Offsets before the starts that a search for the newest records leaves out."""


async def scan(link: Link, question: Question) -> AsyncGenerator[Progress, None]:
    """Scan messages; raise MinikafkaError if the cluster refuses, or the search is not valid."""
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
        async with aclosing(turns):
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
                span.older += max(end - reach - begin, 0)
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
) -> AsyncGenerator[Progress, None]:
    """Scan up to the end offsets; a search for the newest records shows them at the end."""
    match, limit = question.match, question.limit
    newest = Newest(limit, question.form) if question.begin == "newest" else None
    scanned = found = 0
    at, left = dict(span.starts), dict(span.ends)
    deadline_ms = now_ms() + MOST_MS
    while left and (newest is not None or found < limit):
        if scanned >= MOST_SCANNED or now_ms() > deadline_ms:
            break
        rows: list[RecordRow] = []
        for number, record in enumerate(await consumer.poll(POLL_MS, TURN_RECORDS)):
            if number % SLICE_RECORDS == 0:
                await asyncio.sleep(0)
            where = record.topic_partition
            if where not in left or record.offset >= left[where]:
                continue
            scanned += 1
            at[where] = record.offset + 1
            if match is not None and not match(record):
                continue
            found += 1
            if newest is not None:
                newest.add(record)
                continue
            rows.append(row_of(record, question.form))
            if found == limit:
                break
        else:
            for where in list(left):
                at[where] = await consumer.position(where, timeout_ms=POLL_MS * 10)
                if at[where] >= left[where]:
                    del left[where]
                    consumer.pause(where)
        yield Progress(tuple(rows), scanned, found)
    unread = {where: end - at[where] for where, end in left.items() if at[where] < end}
    yield Progress(
        () if newest is None else newest.rows(),
        scanned,
        min(found, limit),
        end=_end(question, scanned, found, unread, span.older),
        go_on_at=at[next(iter(unread))] if len(span.starts) == len(unread) == 1 else None,
    )


class Newest:
    """Keeps the newest records that are added, by their timestamps, up to a limit."""

    def __init__(self, limit: int, form: str) -> None:
        self._limit = limit
        self._form = form
        self._kept: list[tuple[int, int, int, Record | RecordRow]] = []
        """A heap, the oldest record first."""

    def add(self, record: Record) -> None:
        """Keep a record if it is newer than one of those kept, or there is room."""
        when = record.timestamp_ms, -record.partition, record.offset
        is_full = len(self._kept) == self._limit
        if is_full and when < self._kept[0][:3]:
            return
        size = len(record.value or b"") + len(record.key or b"")
        # A large record is kept as it is shown, cut: hundreds of them would not fit in memory.
        kept = record if size <= MOST_BYTES else row_of(record, self._form)
        if is_full:
            heapreplace(self._kept, (*when, kept))
        else:
            heappush(self._kept, (*when, kept))

    def rows(self) -> tuple[RecordRow, ...]:
        """Return the rows of the records, the newest first."""
        newest_first = sorted(self._kept, key=lambda one: (-one[0], -one[1], -one[2]))
        return tuple(
            kept if isinstance(kept, RecordRow) else row_of(kept, self._form)
            for *_, kept in newest_first
        )


def _end(
    question: Question, scanned: int, found: int, unread: Mapping[TopicPartition, int], older: int
) -> str:
    """Say why and where a scan ended; `unread` and `older` count offsets beyond its range."""
    is_newest = question.begin == "newest"
    if unread and (is_newest or found < question.limit):
        where = f"after {plural(scanned, 'record')}, at its bounds of"
        bounds = f"{plural(MOST_SCANNED, 'record')} or {MOST_MS // 1000} s"
        left = f"{plural(sum(unread.values()), 'offset')} of {_named(unread)} are left"
        return f"The scan stopped {where} {bounds}: {left}."
    if found >= question.limit:
        return f"{question.limit} records are shown, as many as were asked for."
    if older:
        seen = f"These are all in the newest {plural(scanned, 'record')}"
        how = "begin at the oldest, an offset or a time to search them"
        return f"{seen}; {plural(older, 'older offset')} were not read: {how}."
    return "That is all there is."


def _named(unread: Mapping[TopicPartition, int]) -> str:
    if len(unread) > 1:
        return plural(len(unread), "partition")
    (where,) = unread
    return f"partition {where.partition}"


async def _tail(
    consumer: Consumer[bytes, bytes], question: Question
) -> AsyncGenerator[Progress, None]:
    """Show new records until the visitor closes the page, or MOST_TAILED are shown."""
    match = question.match
    scanned = found = skipped = 0
    while found - skipped < MOST_TAILED:
        rows: list[RecordRow] = []
        for number, record in enumerate(await consumer.poll(POLL_MS, TURN_RECORDS)):
            if number % SLICE_RECORDS == 0:
                await asyncio.sleep(0)
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
