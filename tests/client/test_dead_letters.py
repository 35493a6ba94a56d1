"""Which dead letters are settled, and which are meant."""

import random

import pytest

from minikafka.client.consumer.letter_filter import choice_of
from minikafka.client.consumer.letter_progress import (
    METADATA_BYTES,
    LetterProgress,
    TooManyGaps,
)
from minikafka.client.consumer.retry_batch import Raw
from minikafka.client.consumer.retry_headers import (
    ATTEMPT,
    DLQ,
    REQUEUED,
    Failure,
    dead_letter_headers,
    is_truncated,
    requeued_headers,
    truncated,
)
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.records.batch_header import TimestampType


def open_of(progress: LetterProgress, end: int) -> list[int]:
    return [offset for offset in range(end) if progress.is_open(offset)]


def test_what_is_settled_in_the_middle_is_remembered_by_the_metadata() -> None:
    progress = LetterProgress()
    progress.settle(3, 5)
    progress.settle(8, 9)
    assert progress.to_commit() == OffsetAndMetadata(0, "1;3.2,3.1")
    progress.settle(0, 1)
    assert progress.to_commit() == OffsetAndMetadata(1, "1;2.2,3.1")
    progress.settle(1, 3)
    assert progress.to_commit() == OffsetAndMetadata(5, "1;3.1")
    progress.settle(5, 8)
    assert progress.to_commit() == OffsetAndMetadata(9, "")


def test_any_order_of_settling_gives_what_a_set_would() -> None:
    rng = random.Random(7)
    for _ in range(300):
        progress, settled = LetterProgress(), [False] * 40
        for _ in range(rng.randrange(1, 14)):
            start = rng.randrange(40)
            end = min(40, start + rng.randrange(6))
            progress.settle(start, end)
            settled[start:end] = [True] * (end - start)
        expected = [offset for offset, done in enumerate(settled) if not done]
        assert open_of(progress, 40) == expected
        assert progress.first_open == next(iter(expected), 40)
        again = LetterProgress.of_commit(progress.to_commit())
        assert open_of(again, 40) == expected


def test_more_gaps_than_a_commit_can_name_are_refused() -> None:
    progress = LetterProgress()
    for offset in range(1, 4 * METADATA_BYTES, 2):
        progress.settle(offset, offset + 1)
    with pytest.raises(TooManyGaps, match="above offset 0"):
        progress.to_commit()
    progress.settle(0, 4 * METADATA_BYTES)
    assert progress.to_commit().metadata == ""


@pytest.mark.parametrize("text", ["somebody's", "1;", "1;0.1", "1;1", "1;1.0", "1;-1.2", "1;1.1,"])
def test_metadata_of_others_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="metadata"):
        LetterProgress.of_commit(OffsetAndMetadata(5, text))


def letter(**told: str) -> Raw:
    named = {DLQ + name: text for name, text in told.items()}
    headers = [(name, text.encode()) for name, text in named.items()]
    return ConsumerRecord("dlq.g", 0, 4, 9, TimestampType.CREATE_TIME, b"k1", b"v", headers)


@pytest.mark.parametrize(
    ("conditions", "is_met"),
    [
        ((), True),
        (("topic=orders",), True),
        (("topic!=orders",), False),
        (("topic=order",), False),
        (("message~no .*price",), True),
        (("message~^price",), False),
        (("exception~KeyError$", "key=k1"), True),
        (("exception~KeyError$", "key=k2"), False),
        ((" partition = 3",), False),
        (("group=",), True),
        (("message~=",), True),
    ],
)
def test_conditions(conditions: tuple[str, ...], is_met: bool) -> None:
    one = letter(topic="orders", partition="3", exception="a.KeyError", message="no good price=")
    assert choice_of(conditions)(one) is is_met


@pytest.mark.parametrize("condition", ["", "orders", "topics=x", "message~(", "=x", "topic<3"])
def test_what_is_no_condition_says_so(condition: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        choice_of([condition])


def test_a_requeued_letter_keeps_its_origin_and_has_all_attempts_again() -> None:
    failure = Failure("orders", 3, 7, "billing", 50, KeyError("x"), "trace")
    buried = dead_letter_headers([("mine", b"1"), (ATTEMPT, b"4")], failure)
    told = dict(requeued_headers(buried))
    assert told == {
        "mine": b"1",
        DLQ + "topic": b"orders",
        DLQ + "partition": b"3",
        DLQ + "offset": b"7",
        DLQ + "group": b"billing",
        "minikafka-first-failed-at": b"50",
        REQUEUED: b"1",
    }
    assert dict(requeued_headers([*told.items()]))[REQUEUED] == b"2"
    assert not is_truncated(buried)
    assert is_truncated(truncated(buried))
