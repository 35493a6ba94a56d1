"""`minikafka trace`: the life of one record, and the search for records by a header."""

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import administer, bootstrap_server, command_config
from .delay import as_json, shown

if TYPE_CHECKING:
    from ..consumer.header_search import Searched
    from ..consumer.record_trace import GroupAt, RecordTrace, ReplicaOf

COMPLAINT = "Error while executing trace command"
GROUPS_SHOWN = 20
"""The most groups that are listed by name."""
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
WORDS = {
    "appended": "appended, from",
    "replicated": "had been fetched by",
    "committed": "committed",
    "fetched": "fetched by client",
    "passed": "committed past by group",
    "planned": "forwarding planned",
    "forwarded": "forwarded",
}
"""The words that are printed for each kind of moment."""


@click.command("trace")
@click.argument("topic", required=False)
@click.argument("partition", type=click.IntRange(min=0), required=False)
@click.argument("offset", type=click.IntRange(min=0), required=False)
@bootstrap_server
@command_config()
@as_json
@click.option("--header", metavar="NAME=VALUE", help="Find the records that have this header.")
@click.option("--topic", "searched", metavar="TOPIC", help="The topic to search, with --header.")
@click.option(
    "--last",
    metavar="TIME",
    default="1h",
    show_default=True,
    help="Search what is so young: a number and s, m, h or d.",
)
@click.option(
    "--max-records",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Look at so many records at most.",
)
def trace(
    topic: str | None,
    partition: int | None,
    offset: int | None,
    bootstrap: str,
    command_config: Path | None,
    is_json: bool,
    header: str | None,
    searched: str | None,
    last: str,
    max_records: int,
) -> None:
    """Tell the life of one record, or find records by a header.

    Which producer wrote it, in which batch and leader epoch; which brokers have it; what became of
    its transaction; which groups have committed past it; where it was forwarded from, and to; the
    times that brokers have recorded near it.

    \b
    minikafka trace orders 0 17 --bootstrap-server localhost:9092
    minikafka trace --header order-id=4711 --topic orders --last 1h \\
        --bootstrap-server localhost:9092
    """
    if header is not None:
        act = _search(header, searched or topic, last, max_records, is_json=is_json)
    elif topic is None or partition is None or offset is None:
        raise click.UsageError("needs TOPIC PARTITION OFFSET, or --header NAME=VALUE --topic TOPIC")
    else:
        act = _trace(topic, partition, offset, is_json=is_json)
    administer(act, COMPLAINT, bootstrap, command_config)


Act = Callable[[Any], Awaitable[int]]


def _trace(topic: str, partition: int, offset: int, *, is_json: bool) -> Act:
    async def act(admin: Any) -> int:
        from ..consumer.record_trace import RecordTracer

        told = await RecordTracer(admin).trace(topic, partition, offset)
        print("\n".join(json_lines(told) if is_json else lines_of(told)))
        return 0

    return act


def _search(header: str, topic: str | None, last: str, most: int, *, is_json: bool) -> Act:
    name, equals, value = header.partition("=")
    if not (name and equals):
        raise click.UsageError(f"--header {header}: needs NAME=VALUE")
    if topic is None:
        raise click.UsageError("--header needs --topic TOPIC")
    match = re.fullmatch(r"(\d{1,9})([smhd])", last)
    if match is None:
        raise click.UsageError(f"--last {last}: needs a number and s, m, h or d, such as 30m")
    since_ms = time.time_ns() // 1_000_000 - int(match[1]) * UNITS_MS[match[2]]

    async def act(admin: Any) -> int:
        from ..config import settings_like
        from ..consumer.consumer import Consumer
        from ..consumer.header_search import find_by_header

        await admin.describe_topics([topic])  # The error if there is none is clearer here.
        settings = settings_like(admin.config) | {"auto_offset_reset": "none"}
        async with Consumer.from_config(settings) as consumer:
            wanted = (name, value.encode())
            found = await find_by_header(consumer, topic, wanted, max(0, since_ms), most)
        print("\n".join(search_lines(found, is_json=is_json)))
        return 0

    return act


def search_lines(found: "Searched", *, is_json: bool) -> list[str]:
    """Return what is printed of a search: a line for each record, and how far it went."""
    if is_json:
        lines = [
            json.dumps(
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "offset": each.offset,
                    "timestamp_ms": each.timestamp_ms,
                }
            )
            for each in found.found
        ]
        told = {"looked_at": found.looked_at, "found": len(found.found), "is_cut": found.is_cut}
        return [*lines, json.dumps(told)]
    lines = [
        f"{each.topic}-{each.partition}@{each.offset}  {shown(each.timestamp_ms)}"
        for each in found.found
    ]
    count = len(found.found)
    end = "; there are more that were not looked at: see --max-records" if found.is_cut else ""
    return [*lines, f"{count} found, {found.looked_at:,} looked at{end}"]


def lines_of(told: "RecordTrace") -> list[str]:
    """Return what is printed for people."""
    rows = [row for part in (_written(told), _kept(told), _moved(told)) for row in part]
    width = max(len(name) for name, _ in rows)
    one = told.record
    title = f"{one.topic}-{one.partition}@{one.offset}"
    return [title, *(f"  {name:<{width}}  {text}" for name, text in rows), *_times(told)]


def _written(told: "RecordTrace") -> Iterator[tuple[str, str]]:
    one, batch = told.record, told.batch
    key = "no key" if one.key is None else f"key {one.key.decode(errors='backslashreplace')!r}"
    value = "no value" if one.value is None else f"value of {len(one.value):,} bytes"
    headers = ", ".join(name for name, _ in one.headers)
    yield "Record", f"{key}, {value}" + (f", headers {headers}" if headers else "")
    yield "Timestamp", f"{shown(one.timestamp_ms)} ({one.timestamp_type.name})"
    producer = "no idempotent producer"
    if batch.producer_id >= 0:
        sequence = batch.base_sequence + one.offset - batch.base_offset
        producer = f"id {batch.producer_id}, epoch {batch.producer_epoch}, sequence {sequence}"
    yield "Producer", producer
    records = "1 record" if batch.record_count == 1 else f"{batch.record_count} records"
    size = f"{records}, {batch.size:,} bytes, {batch.compression.name.lower()}"
    yield "Batch", f"offsets {batch.base_offset} to {batch.last_offset}, {size}"
    if told.outcome != "none":
        yield "Transaction", told.outcome.value
    if told.trace_context is not None:
        context = told.trace_context
        sampled = "sampled" if context.is_sampled else "not sampled"
        yield "Trace", f"{context.trace_id}, span {context.span_id}, {sampled}"


def _kept(told: "RecordTrace") -> Iterator[tuple[str, str]]:
    start = "" if told.epoch_start is None else f", which began at offset {told.epoch_start}"
    yield "Written in", f"leader epoch {told.batch.leader_epoch}{start}"
    yield "Led now by", f"broker {told.leader_id}, leader epoch {told.leader_epoch}"
    yield "Committed", f"yes: the high watermark is {told.high_watermark}"
    for each in told.replicas:
        yield f"Broker {each.broker_id}", _replica(each)


def _replica(each: "ReplicaOf") -> str:
    role = "leader" if each.is_leader else "in sync" if each.is_in_sync else "out of sync"
    if each.has_it is None:
        return f"did not answer: {each.error} ({role})"
    has = "has it" if each.has_it else "does not have it"
    return f"{has}, its log ends at {each.log_end_offset} ({role})"


def _moved(told: "RecordTrace") -> Iterator[tuple[str, str]]:
    if told.source:
        due = "" if told.source_due_ms is None else f", {_due(told.source_due_ms)}"
        yield "From", f"{told.source}{due}"
    if told.forwarding is not None:
        to = told.forwarding
        due = _due(to.due_ms)
        place = f"{to.target}-{to.partition}@{to.offset}, with timestamp {shown(to.timestamp_ms)}"
        yield (
            "To",
            {
                "waits": f"{to.target}: waits, {due}",
                "forwarded": f"{place}, {due}",
                "unknown": f"{to.target}: neither waits ({due}) nor is found there: cancelled, at "
                "another time, on its way, or deleted since",
            }[to.state.value],
        )
    for each in told.groups[:GROUPS_SHOWN]:
        yield f"Group {each.group_id}", _group(told.record.offset, each)
    if len(told.groups) > GROUPS_SHOWN:
        yield "Groups", f"{len(told.groups) - GROUPS_SHOWN} more (--json has all)"
    if not told.groups:
        yield "Groups", "none has committed an offset in this partition"


def _times(told: "RecordTrace") -> Iterator[str]:
    """Yield the lines of the recorded times, which stand below the others."""
    times = told.times
    if times.why:
        yield f"  Times: {times.why}"
    for line in times.lines:
        span = f"{line.base_offset} to {line.last_offset}"
        is_own = line.base_offset <= told.record.offset <= line.last_offset
        own = (
            "its batch"
            if is_own
            else "a batch "
            + ("before it" if line.base_offset < told.record.offset else "behind it")
        )
        trace_id = f", trace {line.trace_id}" if line.trace_id else ""
        yield f"  Times of offsets {span}, {own}{trace_id}"
        start_ms = next((one.ms for one in line.moments if one.what == "appended"), None)
        for one in line.moments:
            since = "" if start_ms is None else f"{one.ms - start_ms:+,} ms"
            by = "the source's leader" if one.broker is None else f"broker {one.broker}"
            what = " ".join(filter(None, (WORDS[one.what.value], one.who)))
            detail = f" ({one.detail})" if one.detail else ""
            yield f"    {shown(one.ms)}  {since:>10}  {by}: {what}{detail}"
        for text in line.missing:
            yield f"    not known: {text}"
    if times.is_cut:
        yield f"  Times: only the first {times.looked_at:,} trace points were looked at"


def _due(due_ms: int) -> str:
    return f"due {shown(due_ms)}" if due_ms else "due at once"


def _group(offset: int, each: "GroupAt") -> str:
    at = each.committed_offset
    if each.is_past:
        return f"has committed past it: {at}"
    return "reads it next" if at == offset else f"has not come to it: {at}, {offset - at} before it"


def json_lines(told: "RecordTrace") -> list[str]:
    """Return the line of JSON."""
    one, batch = told.record, told.batch
    forwarding = told.forwarding
    document = {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "timestamp_type": one.timestamp_type.name,
        "key": None if one.key is None else one.key.decode(errors="backslashreplace"),
        "value_bytes": None if one.value is None else len(one.value),
        "headers": [
            [name, None if value is None else value.decode(errors="backslashreplace")]
            for name, value in one.headers
        ],
        "batch": {
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "records": batch.record_count,
            "bytes": batch.size,
            "compression": batch.compression.name.lower(),
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "leader_epoch": batch.leader_epoch,
        },
        "transaction": told.outcome.value,
        "trace": None if told.trace_context is None else told.trace_context._asdict(),
        "leader": told.leader_id,
        "leader_epoch": told.leader_epoch,
        "epoch_start": told.epoch_start,
        "high_watermark": told.high_watermark,
        "replicas": [_fields(each) for each in told.replicas],
        "groups": [_fields(each) for each in told.groups],
        "source": told.source or None,
        "source_due_ms": told.source_due_ms,
        "times": {
            "lines": [
                _fields(each) | {"moments": [_fields(one) for one in each.moments]}
                for each in told.times.lines
            ],
            "why": told.times.why or None,
            "looked_at": told.times.looked_at,
            "is_cut": told.times.is_cut,
        },
        "forwarding": None if forwarding is None else _fields(forwarding),
    }
    return [json.dumps(document)]


def _fields(each: Any) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__dataclass_fields__}
