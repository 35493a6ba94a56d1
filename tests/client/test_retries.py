"""The decisions about records that fail: waits, headers, and what is settled together."""

from collections.abc import Mapping

import pytest

from minikafka.client.consumer.retry_batch import Batch, Raw, move_of, smaller
from minikafka.client.consumer.retry_headers import (
    ATTEMPT,
    DLQ,
    FIRST_FAILED_AT,
    MESSAGE_BYTES,
    STACKTRACE_BYTES,
    TRUNCATED,
    Failure,
    attempt_of,
    dead_letter_headers,
    letter_of,
    retry_headers,
)
from minikafka.client.consumer.retry_policy import RetryPolicy, topics_of
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.delays import DELIVER_AT, DUE, HOPS, SOURCE
from minikafka.protocol.records.batch_header import TimestampType
from minikafka.protocol.types import TopicPartition

POLICY = RetryPolicy(backoff_ms=(100, 2_000))
TOPICS = topics_of("billing")
HERE = TopicPartition("orders", 0)


def record(offset: int, value: bytes = b"v", topic: str = "orders", **headers: bytes | None) -> Raw:
    named = [(name.replace("_", "-"), said) for name, said in headers.items()]
    return ConsumerRecord(topic, 0, offset, 0, TimestampType.CREATE_TIME, b"k", value, named)


def failure(of: Raw, error: Exception, at_ms: int = 50_000, stacktrace: str = "") -> Failure:
    return Failure(of.topic, of.partition, of.offset, "billing", at_ms, error, stacktrace)


def test_the_topics_of_a_group() -> None:
    assert TOPICS == ("billing.retry", "billing.again", "dlq.billing", "billing.blocked")


def test_waits_follow_the_attempts_and_then_nothing_follows() -> None:
    waits = [POLICY.wait_ms(attempt, KeyError("x"), 0.5) for attempt in range(4)]
    assert waits == [100, 2_000, None, None]
    assert RetryPolicy(backoff_ms=()).wait_ms(0, KeyError("x"), 0.5) is None


def test_what_is_not_retried_is_given_up_at_once_with_its_subclasses() -> None:
    policy = RetryPolicy(not_retried=(LookupError,))
    assert policy.wait_ms(0, KeyError("x"), 0.0) is None
    assert policy.wait_ms(0, ValueError("x"), 0.0) == 1_000


def test_jitter_adds_a_share_of_the_wait() -> None:
    policy = RetryPolicy(backoff_ms=(1_000,), jitter=0.2)
    assert [policy.wait_ms(0, ValueError(), chance) for chance in (0.0, 0.5, 1.0)] == [
        1_000,
        1_100,
        1_200,
    ]


def test_growing_waits_have_a_bound() -> None:
    policy = RetryPolicy.growing(attempts=5, initial_ms=100, factor=3, max_ms=2_000)
    assert policy.backoff_ms == (100, 300, 900, 2_000, 2_000)
    # Long before its last wait the factor's power is no longer a number that floats can hold.
    assert RetryPolicy.growing(attempts=2_000, initial_ms=1).backoff_ms[-1] == 3_600_000


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"backoff_ms": (10, -1)}, "backoff_ms"),
        ({"jitter": 1.5}, "jitter"),
        ({"jitter": float("nan")}, "jitter"),
        ({"pause_ms": -1}, "pause_ms"),
        ({"order": "keys"}, "order"),
        ({"order": "key", "is_transactional": False}, "transactions"),
        ({"max_blocked_keys": 0}, "max_blocked_keys"),
        ({"on_dlq_failure": "ignore"}, "on_dlq_failure"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        RetryPolicy(**settings)  # type: ignore[arg-type]


def test_a_retry_says_what_it_was_first_and_which_attempt_comes() -> None:
    first = record(7, mine=b"kept")
    headers = retry_headers(first.headers, failure(first, ValueError("once")), 50_100)
    returned = record(3, topic="billing.again", **dict(headers))  # type: ignore[arg-type]
    assert attempt_of(returned.headers) == 1
    travelled = [*headers, (DUE, b"1"), (HOPS, b"1"), (SOURCE, b"billing.retry-0@2")]
    told = dict(retry_headers(travelled, failure(returned, KeyError("twice"), 60_000), 62_000))
    assert told == {
        "mine": b"kept",
        DLQ + "topic": b"orders",
        DLQ + "partition": b"0",
        DLQ + "offset": b"7",
        DLQ + "group": b"billing",
        FIRST_FAILED_AT: b"50000",
        ATTEMPT: b"2",
        DELIVER_AT: b"62000",
    }


@pytest.mark.parametrize("said", [b"", b"-1", b"x", b"9" * 400, None])
def test_an_attempt_that_is_no_number_counts_as_none(said: bytes | None) -> None:
    assert attempt_of([(ATTEMPT, said)]) == 0


def test_a_dead_letter_tells_the_last_error_within_bounds() -> None:
    of = record(7, minikafka_attempt=b"2")
    long = "ä" * MESSAGE_BYTES
    trace = "x" * STACKTRACE_BYTES + "the end"
    told = dict(dead_letter_headers(of.headers, failure(of, KeyError(long), stacktrace=trace)))
    assert told[DLQ + "exception"] == b"builtins.KeyError"
    assert told[DLQ + "delivery.count"] == b"3"
    assert len(told[DLQ + "message"] or b"") <= MESSAGE_BYTES
    (told[DLQ + "message"] or b"").decode()
    assert (told[DLQ + "stacktrace"] or b"").endswith(b"the end")
    assert len(told[DLQ + "stacktrace"] or b"") == STACKTRACE_BYTES
    half = dict(dead_letter_headers([], failure(of, ValueError("customer \ud800"))))
    assert half[DLQ + "message"] == b"customer ?"

    class Mute(Exception):
        def __str__(self) -> str:
            raise TypeError

    assert dict(dead_letter_headers([], failure(of, Mute())))[DLQ + "message"] == b"Mute"
    silent = dict(dead_letter_headers([], failure(of, ValueError())))
    assert silent[DLQ + "message"] == b"ValueError"


def test_where_a_record_goes() -> None:
    fresh, late = record(1), record(2, minikafka_attempt=b"2")
    waits = move_of(fresh, failure(fresh, ValueError()), 100, TOPICS, None)
    assert (waits.topic, waits.is_dead, dict(waits.headers)[DELIVER_AT]) == (
        TOPICS.retry,
        False,
        b"50100",
    )
    ends = move_of(late, failure(late, ValueError()), None, TOPICS, None)
    assert (ends.topic, ends.is_dead, ends.value) == (TOPICS.dead_letters, True, b"v")


def test_what_is_too_large_is_buried_then_loses_its_value_and_then_has_nowhere_to_go() -> None:
    fresh = record(1)
    dead = smaller(move_of(fresh, failure(fresh, ValueError()), 100, TOPICS, None), TOPICS)
    assert dead is not None
    assert (dead.topic, dead.value) == (TOPICS.dead_letters, b"v")
    empty = smaller(dead, TOPICS)
    assert empty is not None
    assert (empty.value, dict(empty.headers)[TRUNCATED]) == (None, b"true")
    assert smaller(empty, TOPICS) is None


def test_a_batch_settles_what_was_done_up_to_where_a_partition_is_stuck() -> None:
    other = record(90, topic="other")
    records = [record(5), record(6), record(7), other]
    batch = Batch(records)
    assert batch.offsets == {}
    for each in records[:3]:
        batch.done(each)
        batch.move(move_of(each, failure(each, ValueError()), 100, TOPICS, None))
    assert batch.offsets == {HERE: 8}, "the other is not done"
    batch.done(other)
    batch.stop_before(batch.moves[1].record)
    assert batch.offsets == {HERE: 6, other.topic_partition: 91}
    assert [move.record.offset for move in batch.moves] == [5]
    batch.stop_before(batch.moves[0].record)
    assert batch.offsets == {other.topic_partition: 91}
    assert batch.stuck == {HERE: 5}
    assert batch.begins == {HERE: 5, other.topic_partition: 90}


LETTERS: Mapping[str, Mapping[str, bytes | None]] = {
    "ours": dict(dead_letter_headers([], failure(record(7), ValueError("why"), 1))),
    "connect": {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"7",
        "__connect.errors.exception.class.name": b"builtins.ValueError",
        "__connect.errors.exception.message": b"why",
    },
    "streams": {
        "__streams.errors.topic": b"orders",
        "__streams.errors.partition": b"0",
        "__streams.errors.offset": b"7",
        "__streams.errors.exception": b"builtins.ValueError",
        "__streams.errors.message": b"why",
    },
    "spring": {
        "kafka_dlt-original-topic": b"orders",
        "kafka_dlt-original-partition": (0).to_bytes(4),
        "kafka_dlt-original-offset": (7).to_bytes(8),
        "kafka_dlt-exception-fqcn": b"builtins.ValueError",
        "kafka_dlt-exception-message": b"why",
    },
}


@pytest.mark.parametrize("kind", LETTERS)
def test_dead_letters_of_others_are_read_too(kind: str) -> None:
    letter = letter_of([*LETTERS[kind].items()])
    assert (letter.topic, letter.partition, letter.offset) == ("orders", "0", "7")
    assert (letter.exception, letter.message) == ("builtins.ValueError", "why")


def test_a_record_that_tells_nothing_is_read_as_a_letter_without_a_story() -> None:
    assert set(letter_of([("x", None), (DLQ + "topic", None)])) == {""}
    assert letter_of([(DLQ + "topic", b"\xff")]).topic == "\ufffd"
