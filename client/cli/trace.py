"""`minikafka trace`: the life of one record, from its producer to the groups behind it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import administer, bootstrap_server, command_config
from .delay import as_json, record, shown

if TYPE_CHECKING:
    from ..consumer.record_trace import GroupAt, RecordTrace, ReplicaOf

COMPLAINT = "Error while executing trace command"
GROUPS_SHOWN = 20
"""The most groups that are listed by name."""


@click.command("trace")
@click.argument("topic")
@record
@bootstrap_server
@command_config()
@as_json
def trace(
    topic: str,
    partition: int,
    offset: int,
    bootstrap: str,
    command_config: Path | None,
    is_json: bool,
) -> None:
    """Tell the life of one record.

    Which producer wrote it, in which batch and leader epoch; which brokers have it; what became of
    its transaction; which groups have committed past it; where it was forwarded from, and to.

    \b
    minikafka trace orders 0 17 --bootstrap-server localhost:9092
    """

    async def act(admin: Any) -> int:
        from ..consumer.record_trace import RecordTracer

        told = await RecordTracer(admin).trace(topic, partition, offset)
        print("\n".join(json_lines(told) if is_json else lines_of(told)))
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)


def lines_of(told: "RecordTrace") -> list[str]:
    """Return what is printed for people."""
    rows = [row for part in (_written(told), _kept(told), _moved(told)) for row in part]
    width = max(len(name) for name, _ in rows)
    one = told.record
    title = f"{one.topic}-{one.partition}@{one.offset}"
    return [title, *(f"  {name:<{width}}  {text}" for name, text in rows)]


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
        "forwarding": None if forwarding is None else _fields(forwarding),
    }
    return [json.dumps(document)]


def _fields(each: Any) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__dataclass_fields__}
