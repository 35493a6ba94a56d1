"""Markers on their way: every partition gets one, whatever is away; nobody else's are sent."""

import pytest

from minikafka.broker.coordinator.transaction.markers import (
    GONE,
    PARTITIONS_MAX,
    Batch,
    Ending,
    Markers,
)
from minikafka.broker.coordinator.transaction.transaction import State, Transaction
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import NO_LEADER, TopicPartition

OK = ErrorCode.NONE
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A0: 1, A1: 2, B0: 2}


def ending(name: str = "app", *partitions: TopicPartition, shard: int = 0) -> Ending:
    transaction = Transaction(
        transactional_id=name,
        producer_id=7,
        epoch=1,
        timeout_ms=1,
        state=State.PREPARE_COMMIT,
        partitions=dict.fromkeys(partitions),
    )
    return Ending(transaction, shard, coordinator_epoch=3)


def names(batch: Batch) -> list[tuple[str, list[TopicPartition]]]:
    return [(each.transaction.transactional_id, partitions) for each, partitions in batch]


def routed(*endings: Ending, leaders: dict[TopicPartition, int] | None = None) -> Markers:
    markers = Markers()
    for each in endings:
        markers.add(each)
    markers.route((leaders or LEADERS).__getitem__)
    markers.check_invariants()
    return markers


def answer(markers: Markers, leader: int, error: ErrorCode = OK) -> None:
    markers.on_answered(leader, markers.take(leader), lambda ending, partition: error)
    markers.check_invariants()


def test_each_leader_gets_its_own_in_one_request() -> None:
    markers = routed(ending("x", A0, A1), ending("y", B0, A0))
    assert markers.ready() == [1, 2]
    assert names(markers.take(1)) == [("x", [A0]), ("y", [A0])]
    assert markers.ready() == [2]
    assert names(markers.take(2)) == [("x", [A1]), ("y", [B0])]
    assert markers.ready() == []


def test_a_transaction_is_finished_when_every_partition_has_its_marker() -> None:
    one = ending("x", A0, A1)
    markers = routed(one)
    answer(markers, 1)
    assert markers.finished() == []
    assert list(one.missing) == [A1]
    assert markers.get("x") is one
    answer(markers, 2)
    assert markers.finished() == [one]
    assert markers.finished() == []
    assert markers.get("x") is None


def test_a_transaction_without_partitions_is_finished_at_once() -> None:
    one = ending("x")
    markers = routed(one)
    assert markers.finished() == [one]


def test_a_leader_has_one_request_in_flight() -> None:
    markers = routed(ending("x", A0))
    batch = markers.take(1)
    markers.add(ending("y", A0))
    markers.route(LEADERS.__getitem__)
    assert markers.ready() == []
    markers.on_answered(1, batch, lambda ending, partition: OK)
    assert names(markers.take(1)) == [("y", [A0])]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_is_refused_for_now_is_tried_again_elsewhere(error: ErrorCode) -> None:
    one = ending("x", A0)
    markers = routed(one)
    answer(markers, 1, error)
    assert markers.is_resting
    assert markers.ready() == []
    markers.wake()
    markers.route(lambda partition: 3)
    assert markers.ready() == [3]
    answer(markers, 3)
    assert markers.finished() == [one]


def test_what_was_not_answered_is_tried_again() -> None:
    one = ending("x", A0, A1)
    markers = routed(one, leaders={A0: 1, A1: 1})
    markers.on_failed(1, markers.take(1))
    markers.wake()
    markers.route(LEADERS.__getitem__)
    markers.check_invariants()
    answer(markers, 1)
    answer(markers, 2)
    assert markers.finished() == [one]


def test_a_partition_without_a_leader_is_waited_for() -> None:
    markers = routed(ending("x", A0, A1), leaders={A0: NO_LEADER, A1: 2})
    assert markers.ready() == [2]
    assert markers.is_resting
    markers.wake()
    markers.route(LEADERS.__getitem__)
    assert markers.ready() == [2, 1]


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    one = ending("x", A0, A1)
    markers = routed(one, leaders={A0: GONE, A1: 2})
    answer(markers, 2)
    assert markers.finished() == [one]


def test_a_partition_with_a_later_epoch_needs_no_marker() -> None:
    """Nothing of ours will ever end anything there; to wait would be for ever."""
    one = ending("x", A0)
    markers = routed(one)
    answer(markers, 1, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert markers.finished() == [one]


def test_a_fenced_coordinator_sends_no_more() -> None:
    one = ending("x", A0, A1)
    markers = routed(one, ending("y", A1))
    answer(markers, 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert markers.get("x") is None
    assert names(markers.take(2)) == [("y", [A1])]
    assert markers.finished() == []


def test_a_shard_that_is_lost_takes_its_transactions_along() -> None:
    lost, kept = ending("x", A0, shard=1), ending("y", A1, shard=2)
    markers = routed(lost, kept)
    batch = markers.take(1)
    markers.drop_shard(1)
    assert list(markers) == [kept]
    markers.on_answered(1, batch, lambda ending, partition: OK)
    assert markers.finished() == []
    assert markers.ready() == [2]


def test_a_lost_shard_that_is_waited_for_leaves_no_empty_request() -> None:
    markers = routed(ending("x", A0, shard=1))
    markers.drop_shard(1)
    assert markers.ready() == []
    assert not markers.is_resting


def test_the_answer_to_an_earlier_coordinator_ends_nothing_of_the_next() -> None:
    """The shard was lost and won again while a request was in flight."""
    markers = routed(ending("x", A0))
    batch = markers.take(1)
    again = ending("x", A0)
    markers.add(again)
    markers.on_answered(1, batch, lambda ending, partition: OK)
    assert markers.finished() == []
    assert list(again.missing) == [A0]


def test_a_large_transaction_takes_several_requests() -> None:
    many = [TopicPartition("a", index) for index in range(PARTITIONS_MAX)]
    markers = routed(ending("x", *many), ending("y", A0), leaders=dict.fromkeys(many, 1))
    batch = markers.take(1)
    assert [name for name, _ in names(batch)] == ["x"]
    markers.on_answered(1, batch, lambda ending, partition: OK)
    assert [name for name, _ in names(markers.take(1))] == ["y"]


def test_a_marker_that_is_counted_twice_would_be_seen() -> None:
    """Planted: a marker counted as written that is still queued is seen."""
    one = ending("x", A0)
    markers = routed(one)
    del one.missing[A0]
    with pytest.raises(AssertionError):
        markers.check_invariants()
