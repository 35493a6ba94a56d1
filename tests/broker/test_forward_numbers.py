"""Whatever a record says, its time and its place fit 64 bits, and so does what is made of them."""

import dataclasses
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.forward.due_index import RUN_ENTRIES, DueIndex
from minikafka.broker.forward.emitting import build
from minikafka.broker.forward.folding import SourceState
from minikafka.broker.forward.steps import Kind, Plan
from minikafka.protocol.codec import encode_bytes
from minikafka.protocol.delays import DELAY_MS, DELIVER_AT, DUE, DelayRule
from minikafka.protocol.expiry import EXPIRES_AT, NEVER, TTL_MS, TtlRule
from minikafka.protocol.messages import describe_forwarding as df
from minikafka.protocol.messages import list_delayed as ld
from minikafka.protocol.records.batch_header import BatchHeader, TimestampType
from minikafka.protocol.records.records import NewRecord, Record, records
from minikafka.protocol.records.records import build as build_batch
from minikafka.protocol.types import TopicIdPartition, TopicPartition
from minikafka.runtime.config import from_mapping
from minikafka.storage.delay_config import DelayConfig
from minikafka.storage.topic_config import TopicConfig

LARGEST = (1 << 63) - 1
numbers = st.integers(0, 10**20) | st.sampled_from([LARGEST, LARGEST + 1, 10**19 - 1])
said = st.lists(
    st.tuples(
        st.sampled_from([DELIVER_AT, DELAY_MS, TTL_MS, EXPIRES_AT]),
        numbers.map(lambda each: b"%d" % each) | st.binary(max_size=20),
    ),
    max_size=3,
)
timestamps = st.integers(-(1 << 64), 1 << 64)
rules = st.builds(
    DelayRule, st.sampled_from(["header", "timestamp", "fixed", "immediate"]), numbers
)


@given(rules, timestamps, said)
def test_a_record_is_due_within_64_bits(
    rule: DelayRule, timestamp: int, headers: Sequence[tuple[str, bytes]]
) -> None:
    assert 0 <= rule.due_or_at_once(timestamp, headers) <= LARGEST


@given(st.integers(-1, LARGEST), timestamps, said)
def test_a_record_expires_within_64_bits_or_never(
    ttl_ms: int, timestamp: int, headers: Sequence[tuple[str, bytes]]
) -> None:
    assert 0 <= TtlRule(ttl_ms, by_header=True).expires_of(timestamp, headers) <= NEVER


@given(st.integers(-1, LARGEST), rules, said)
def test_whatever_a_batch_says_it_is_indexed_listed_and_forwarded(
    timestamp: int, rule: DelayRule, headers: Sequence[tuple[str, bytes]]
) -> None:
    batch = build_batch([NewRecord(timestamp, b"k", b"v", headers)])
    folded = SourceState().fold(BatchHeader(batch), records(batch), rule, lambda *_: None)
    ((due_ms, offset),) = folded.entries
    index = DueIndex()
    index.add(folded.entries * RUN_ENTRIES)
    assert index.next_due_ms == due_ms
    assert [*index.packed()]
    listed = ld.ListedPartitionResult(
        partition_index=0,
        records=[ld.DelayedRecord(due_ms=due_ms, offset=offset)],
        next_due_ms=due_ms,
    )
    topic = ld.ListedTopicResult(name="later", partitions=[listed])
    assert encode_bytes(ld.ListDelayedResponse(topics=[topic]), 0)
    status = df.ForwardingStatus(partition_index=0, next_due_ms=due_ms)
    of_topic = df.ForwardingTopicResult(name="later", partitions=[status])
    assert encode_bytes(df.DescribeForwardingResponse(topics=[of_topic]), 0)


@given(timestamps, said, st.sampled_from(["due", "original", "now"]))
def test_whatever_a_record_says_it_is_forwarded(
    timestamp: int, headers: Sequence[tuple[str, bytes]], mode: str
) -> None:
    record = Record(0, timestamp, TimestampType.CREATE_TIME, b"k", b"v", headers)
    plan = Plan(1, TopicIdPartition(b"t" * 16, 0), 7, 0, Kind.DUE, 0, 5, (0,))
    said_so = DelayConfig(target="now", timestamp=mode)
    config = dataclasses.replace(from_mapping(TopicConfig, {}), delay=said_so)
    built = build(plan, {0: record}, TopicPartition("later", 0), config)
    (forwarded,) = records(built)
    assert 0 <= forwarded.timestamp <= LARGEST
    assert 0 <= int(dict(forwarded.headers)[DUE] or b"") <= LARGEST
