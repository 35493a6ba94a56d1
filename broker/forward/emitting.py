"""The batch that a plan sends: its records with other headers, timestamps and a producer.

Pure. The batch of a plan has the same records in the same order at every attempt.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ...protocol.delays import AT_ONCE, IMMEDIATE, DelayRule, dead_letter_headers, forwarded_headers
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.header_targets import read_partition
from ...protocol.header_times import LATEST_MS
from ...protocol.partitioning import partition_for_key
from ...protocol.records.records import BatchBuilder, Record
from ...protocol.types import TopicPartition
from ...storage.delay_config import DUE, NAMED, ORIGINAL, SAME, DelayConfig
from ...storage.producer_state import FORWARD_EPOCH
from ...storage.topic_config import TopicConfig
from .steps import Plan

_SAID: Final = {
    ErrorCode.REQUEST_TIMED_OUT: "EXPIRED: minikafka-ttl-ms or minikafka-expires-at has passed.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "UNTARGETED: minikafka-target names no topic that it may.",
    ErrorCode.RESOURCE_NOT_FOUND: "UNROUTED: no rule of minikafka.route.rules matches.",
}
"""Messages of dead letters, where the text of the error code would say something else."""
ADDED_BYTES: Final = 128
"""About as many bytes as forwarding adds to a record beside its source."""


def build(
    plan: Plan, found: Mapping[int, Record], source: TopicPartition, config: TopicConfig
) -> bytearray:
    """Return the batch of a plan, from its records by offset."""
    builder = BatchBuilder()
    rule = config.forwarding_rule or DelayRule(config.delay.by)
    keeps_time = config.delay.timestamp == ORIGINAL or rule.by == IMMEDIATE
    moved = {offset: due_ms for due_ms, offset in plan.moved}
    for offset in plan.offsets:
        record = found[offset]
        due_ms = moved.get(offset, -1)
        if due_ms < 0:
            due_ms = rule.due_or_at_once(record.timestamp, record.headers)
        is_timed = due_ms != AT_ONCE
        name = f"{source.topic}/{source.partition}/{offset}"
        said_ms = due_ms if is_timed else plan.planned_ms
        headers = forwarded_headers(record.headers, name, said_ms)
        if plan.kind.is_dead:
            why = ErrorCode(plan.code)
            place = (source.topic, source.partition, offset)
            said = _SAID.get(why) or f"{why.name}: {why.doc}"
            headers = dead_letter_headers(headers, place, said)
        timestamp = plan.planned_ms
        if config.delay.timestamp == DUE and is_timed:
            timestamp = due_ms
        elif keeps_time and record.timestamp >= 0:
            # A log that nobody checked may hold a greater one.
            timestamp = min(record.timestamp, LATEST_MS)
        builder.append(timestamp, record.key, record.value, headers)
    return builder.build(
        producer_id=plan.producer_id,
        producer_epoch=FORWARD_EPOCH,
        base_sequence=plan.base_sequence,
    )


def partition_of(record: Record, source: TopicPartition, count: int, config: DelayConfig) -> int:
    """Return the partition, of `count`, to which a record is forwarded."""
    if config.partition == NAMED:
        try:
            named = read_partition(record.headers)
        except ApiError:  # Written before records were asked for it.
            named = None
        if named is not None:
            return named % count
    if record.key is None or config.partition == SAME:
        return source.partition % count
    return partition_for_key(record.key, count)


def size_of(record: Record) -> int:
    """Return about how many bytes a record takes in the batch of a plan."""
    headers: Sequence[tuple[str, bytes | None]] = record.headers
    sizes = [len(name) + len(value or b"") + 4 for name, value in headers]
    return len(record.key or b"") + len(record.value or b"") + sum(sizes) + ADDED_BYTES
