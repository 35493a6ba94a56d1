"""The decisions that keep records of a key in order: whose turn it is, and what blocks a key."""

import pytest

from minikafka.client.consumer.retry_batch import Batch, Raw, move_behind, move_of, smaller
from minikafka.client.consumer.retry_headers import (
    ATTEMPT,
    DLQ,
    FIRST_FAILED_AT,
    ORDER,
    Failure,
    dead_letter_headers,
    requeued_headers,
)
from minikafka.client.consumer.retry_order import (
    EARLY_MS,
    GONE_MS,
    Blocked,
    Changes,
    KeyOrder,
    Outcome,
    Place,
)
from minikafka.client.consumer.retry_policy import topics_of
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.delays import DELIVER_AT
from minikafka.protocol.delays import DUE as DUE_HEADER
from minikafka.protocol.header_times import LATEST_MS
from minikafka.protocol.records.batch_header import TimestampType

TOPICS = topics_of("billing")
NOW = 50_000
DUE = NOW + 10_000


def record(
    offset: int,
    key: bytes | None = b"k",
    place: Place | None = None,
    topic: str = "orders",
    due_ms: int = LATEST_MS,
) -> Raw:
    """A record of lane 3; with a place it has come back, and was due at `due_ms`."""
    due = DUE_HEADER, str(due_ms).encode()
    headers = [] if place is None else [(ORDER, place.to_header().encode()), due]
    name = topic if place is None else TOPICS.again
    return ConsumerRecord(name, 3, offset, 0, TimestampType.CREATE_TIME, key, b"v", headers)


def order_of(max_keys: int = 10) -> KeyOrder:
    order = KeyOrder(TOPICS.again, max_keys)
    order.begin(3, {})
    return order


def happens(order: KeyOrder, of: Raw, outcome: Outcome, due_ms: int = DUE) -> Place:
    """Something becomes of a record, and that is committed."""
    changes: Changes = {}
    place = order.place_of(of, changes)
    assert place is not None
    order.note(changes, of, place, outcome, due_ms)
    order.adopt(changes)
    return place


def waits(order: KeyOrder, of: Raw, now_ms: int = NOW) -> int | None:
    place = order.place_of(of, {})
    assert place is not None
    return order.waits_until(of, place, {}, now_ms)


def test_a_key_is_blocked_until_its_newest_record_is_done() -> None:
    order = order_of()
    assert waits(order, record(5)) is None
    failed = happens(order, record(5), Outcome.FAILED)
    assert failed == Place("orders", 5, 4)
    assert waits(order, record(9)) == DUE
    follower = happens(order, record(9), Outcome.BEHIND)
    assert follower == Place("orders", 9, 5)
    assert waits(order, record(1, place=failed)) is None
    happens(order, record(1, place=failed), Outcome.FAILED, DUE + 500)
    assert waits(order, record(2, place=follower)) == DUE + 500, "the other one failed again"
    happens(order, record(3, place=failed), Outcome.DONE)
    assert waits(order, record(4, place=follower)) is None
    assert waits(order, record(12)) == DUE + 500, "the one before is not done yet"
    happens(order, record(4, place=follower), Outcome.DONE)
    assert order.lanes == {3: {}}
    assert waits(order, record(12)) is None


def test_what_comes_back_too_early_when_its_key_is_due_waits_a_little() -> None:
    order = order_of()
    happens(order, record(5), Outcome.FAILED)
    follower = happens(order, record(6), Outcome.BEHIND)
    assert waits(order, record(1, place=follower), DUE + 7) == DUE + 7 + EARLY_MS
    assert waits(order, record(7), DUE + 7) == DUE + 7, "a new one comes back behind it"


def test_other_keys_other_topics_and_records_without_a_key_are_free() -> None:
    order = order_of()
    happens(order, record(5), Outcome.FAILED)
    assert waits(order, record(6, b"other")) is None
    assert waits(order, record(6, topic="payments")) is None
    assert order.place_of(record(6, None), {}) is None
    requeued = record(6)._replace(topic=TOPICS.again, headers=[(ATTEMPT, b"1")])
    assert order.place_of(requeued, {}) is None, "a letter that is handled again has no order"


def test_what_follows_a_record_that_was_cancelled_is_handled_after_a_while() -> None:
    order = order_of()
    happens(order, record(5), Outcome.FAILED)
    first = happens(order, record(6), Outcome.BEHIND)
    second = happens(order, record(7), Outcome.BEHIND)
    late = DUE + GONE_MS
    assert waits(order, record(1, place=first), DUE - 1) is not None
    assert waits(order, record(1, place=first), late - 1) is not None
    assert waits(order, record(1, place=second), late) is not None, "another waits before it"
    assert waits(order, record(1, place=first), late) is None
    happens(order, record(1, place=first), Outcome.DONE)
    assert waits(order, record(1, place=second), late) is None
    happens(order, record(1, place=second), Outcome.FAILED, late + 50)
    ((blocked),) = order.lanes[3].values()
    assert blocked == Blocked(6, 7, late + 50, 7)


def test_if_the_first_that_waits_is_cancelled_too_the_next_takes_its_place() -> None:
    order = order_of()
    happens(order, record(5), Outcome.FAILED)
    first = happens(order, record(6), Outcome.BEHIND)
    second = happens(order, record(7), Outcome.BEHIND)
    assert waits(order, record(1, place=first), DUE) is not None
    for at_ms in range(DUE, DUE + 2 * GONE_MS, 1_000):
        assert waits(order, record(1, place=second), at_ms) is not None
    assert waits(order, record(1, place=second), DUE + 2 * GONE_MS) is None


def test_what_comes_long_after_a_record_that_was_cancelled_is_handled_at_once() -> None:
    """So it is if another member has taken the lane over, and the key is free then."""
    order, late = order_of(), DUE + GONE_MS
    happens(order, record(5), Outcome.FAILED)
    due_ms = waits(order, record(9), late)
    assert due_ms == late, "what is read meanwhile may be before it"
    follower = happens(order, record(9), Outcome.BEHIND, due_ms)
    next_one = happens(order, record(12), Outcome.BEHIND, late + 1)
    heir = order_of()
    heir.begin(3, order.lanes[3])
    early = record(2, place=next_one, due_ms=late + 1)
    assert waits(heir, early, late + 1) is not None, "it follows another one"
    assert waits(heir, record(1, place=follower, due_ms=due_ms), late + 1) is None
    happens(heir, record(1, place=follower, due_ms=due_ms), Outcome.DONE)
    assert waits(heir, record(3, place=next_one), late + 2) is None
    happens(heir, record(3, place=next_one), Outcome.DONE)
    assert heir.lanes == {3: {}}


def test_what_is_only_read_long_after_has_not_waited() -> None:
    order, late = order_of(), DUE + 3 * GONE_MS
    happens(order, record(5), Outcome.FAILED)
    first = happens(order, record(6), Outcome.BEHIND)
    second = happens(order, record(7), Outcome.BEHIND)
    for place in (first, second):
        assert waits(order, record(1, place=place, due_ms=DUE), late) is not None


def test_only_so_many_keys_are_blocked() -> None:
    order = order_of(max_keys=2)
    happens(order, record(5, b"a"), Outcome.FAILED)
    draft: Changes = {}
    b, c = record(6, b"b"), record(7, b"c")
    place_b, place_c = Place("orders", 6, 5), Place("orders", 7, 6)
    assert order.has_room(b, place_b, draft)
    order.note(draft, b, place_b, Outcome.FAILED, DUE)
    assert not order.has_room(c, place_c, draft)
    assert order.has_room(record(8, b"b"), place_b, draft)
    assert order.has_room(c, place_c, {})


def test_a_lane_is_taken_over_as_it_was_written() -> None:
    order, heir = order_of(), KeyOrder(TOPICS.again, 10)
    happens(order, record(5), Outcome.FAILED)
    follower = happens(order, record(6), Outcome.BEHIND)
    written = {key: blocked.to_value() for key, blocked in order.lanes[3].items()}
    assert [*written.values()] == [b"4/6/60000/5"]
    heir.begin(3, {key: Blocked.of(value) for key, value in written.items()})
    assert waits(heir, record(9)) == DUE
    assert waits(heir, record(1, place=follower)) is not None
    for strange in (b"", b"1/2/3", b"1/2/3/4/5", b"a/b/c/d"):
        with pytest.raises(ValueError, match=r"values to unpack|literal"):
            Blocked.of(strange)
    order.forget()
    assert order.lanes == {}


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"",
        b"orders",
        b"orders/5",
        b"/5/4",
        b"orders/x/4",
        b"orders/5/",
        b"orders/5/y",
        b"\xff",
    ],
)
def test_a_header_that_says_nothing_gives_no_place(said: bytes | None) -> None:
    assert Place.of([(ORDER, said)]) is None


def test_the_first_record_of_a_topic_has_a_place() -> None:
    place = Place("orders", 0, -1)
    assert Place.of([(ORDER, place.to_header().encode())]) == place


def test_a_record_that_follows_keeps_its_attempts_and_its_origin() -> None:
    place = Place("orders", 9, 5)
    fresh = record(9)
    first = move_behind(fresh, "billing", DUE, TOPICS, place)
    assert dict(first.headers) == {
        DLQ + "topic": b"orders",
        DLQ + "partition": b"3",
        DLQ + "offset": b"9",
        DLQ + "group": b"billing",
        DELIVER_AT: b"60000",
        ORDER: b"orders/9/5",
    }
    assert (first.topic, first.lane, first.value) == (TOPICS.retry, 3, b"v")
    back = fresh._replace(topic=TOPICS.again, offset=2, headers=[*first.headers, (ATTEMPT, b"2")])
    again = dict(move_behind(back, "billing", DUE + 1, TOPICS, place).headers)
    assert (again[ATTEMPT], again[DLQ + "offset"]) == (b"2", b"9")
    failure = Failure(TOPICS.again, 3, 2, "billing", NOW, ValueError())
    tried = move_of(back, failure, 10, TOPICS, place)
    told = dict(tried.headers)
    assert (told[ATTEMPT], told[ORDER], told[FIRST_FAILED_AT]) == (b"3", b"orders/9/5", b"50000")
    assert (tried.lane, tried.due_ms) == (3, NOW + 10)
    letter = dead_letter_headers(back.headers, failure)
    assert ORDER not in dict(letter)
    assert ORDER not in dict(requeued_headers(tried.headers))


def test_what_was_not_handled_is_never_buried() -> None:
    assert (
        smaller(move_behind(record(9), "billing", DUE, TOPICS, Place("orders", 9, 5)), TOPICS)
        is None
    )


def test_a_lane_is_left_as_a_whole_from_a_record_on() -> None:
    come_back = record(70, place=Place("orders", 5, 4))
    other_lane = record(1)._replace(partition=4)
    batch = Batch([come_back, record(8), other_lane, record(9)], has_lanes=True)
    for each in batch.records:
        batch.done(each)
    batch.stop_before(come_back)
    assert batch.settled == [other_lane]
    assert [*batch.held] == [come_back.topic_partition]
    assert batch.stuck == {come_back.topic_partition: 70, record(8).topic_partition: 8}
