"""Fetch sessions as a pure thing: what is read, what is told, who is evicted (KIP-227)."""

import random
from collections.abc import Sequence

from minikafka.broker.api.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    LAST_EPOCH,
    FetchContext,
    FetchPartition,
    FetchSessions,
    SessionRequest,
    next_epoch,
)
from minikafka.broker.partition.requests import FetchAnswer
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import OffsetAndEpoch

ID = b"i" * 16


def partition(index: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(key=(ID, index), max_bytes=100, fetch_offset=offset)


def ask(
    session_id: int,
    epoch: int,
    *asked: FetchPartition,
    forget: Sequence[int] = (),
    privileged: bool = False,
    by_id: bool = True,
) -> SessionRequest:
    return SessionRequest(
        session_id, epoch, privileged, by_id, asked, tuple((ID, index) for index in forget)
    )


def make(slots: int = 1000, partitions_max: int = 100_000) -> FetchSessions:
    return FetchSessions(random.Random(7).randint, slots=slots, partitions_max=partitions_max)


def open_session(
    sessions: FetchSessions, count: int, now_ms: int = 0, *, privileged: bool = False
) -> int:
    asked = [partition(index) for index in range(count)]
    context = sessions.resolve(ask(0, INITIAL_EPOCH, *asked, privileged=privileged), now_ms)
    return context.session_id


def told(context: FetchContext, **answers: FetchAnswer) -> list[int]:
    """Indexes of the partitions in the response; p3=... is what partition 3 answered."""
    quiet = FetchAnswer(high_watermark=10, log_start_offset=0)
    return [
        each.key[1]
        for each in context.partitions
        if context.tells(each, answers.get(f"p{each.key[1]}", quiet))
    ]


def test_after_a_divergence_the_next_good_answer_is_news() -> None:
    sessions = make()
    session_id = open_session(sessions, 1)
    diverging = FetchAnswer(high_watermark=10, log_start_offset=0, diverging=OffsetAndEpoch(5, 1))
    context = sessions.resolve(ask(session_id, 1), 0)
    assert told(context, p0=diverging) == [0]
    assert told(sessions.resolve(ask(session_id, 2), 0)) == [0]
    assert told(sessions.resolve(ask(session_id, 3), 0)) == []


def test_j_01_an_unknown_session_is_not_found() -> None:
    context = make().resolve(ask(77, 3), 0)
    assert context.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert context.partitions == []


def test_j_01_a_wrong_epoch_is_refused_and_the_session_lives() -> None:
    sessions = make()
    session_id = open_session(sessions, 2)
    assert sessions.resolve(ask(session_id, 2), 0).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.resolve(ask(session_id, 1), 0).error == ErrorCode.NONE


def test_j_01_epoch_0_with_an_id_closes_that_session_and_opens_another() -> None:
    sessions = make()
    session_id = open_session(sessions, 2)
    second = sessions.resolve(ask(session_id, INITIAL_EPOCH, partition(5)), 0)
    assert second.session_id not in (0, session_id)
    assert sessions.resolve(ask(session_id, 1), 0).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partition_count == 1


def test_j_01_epoch_minus_1_closes_and_answers_without_a_session() -> None:
    sessions = make()
    session_id = open_session(sessions, 2)
    context = sessions.resolve(ask(session_id, FINAL_EPOCH, partition(0)), 0)
    assert (context.session_id, len(context.partitions)) == (0, 1)
    assert len(sessions) == sessions.partition_count == 0
    assert told(context) == [0], "without a session everything is told"


def test_a_session_speaks_of_topics_by_name_or_by_id_not_both() -> None:
    sessions = make()
    session_id = open_session(sessions, 1)
    mixed = sessions.resolve(ask(session_id, 1, by_id=False), 0)
    assert mixed.error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_only_what_changed_is_asked_and_only_news_is_told() -> None:
    sessions = make()
    session_id = open_session(sessions, 3)
    first = sessions.resolve(ask(session_id, 1, partition(1, offset=4)), 0)
    assert [each.fetch_offset for each in first.partitions] == [0, 4, 0]
    assert told(first) == [0, 1, 2], "the high watermark was not told before"
    second = sessions.resolve(ask(session_id, 2, forget=[2]), 0)
    news = FetchAnswer(high_watermark=11, log_start_offset=0)
    assert told(second, p1=news) == [1]
    third = sessions.resolve(ask(session_id, 3), 0)
    moved = FetchAnswer(high_watermark=10, log_start_offset=3)
    assert told(third, p0=moved, p1=news) == [0]
    fourth = sessions.resolve(ask(session_id, 4), 0)
    parted = FetchAnswer(high_watermark=11, log_start_offset=0, diverging=OffsetAndEpoch(5, 1))
    assert told(fourth, p0=moved, p1=parted) == [1]


def test_a_full_fetch_tells_everything_and_counts_as_told() -> None:
    sessions = make()
    asked = [partition(0), partition(1)]
    first = sessions.resolve(ask(0, INITIAL_EPOCH, *asked), 0)
    assert told(first) == [0, 1]
    assert told(sessions.resolve(ask(first.session_id, 1), 0)) == []


def test_j_02_a_partition_that_recovers_from_an_error_is_told_again() -> None:
    sessions = make()
    session_id = open_session(sessions, 2)
    told(sessions.resolve(ask(session_id, 1), 0))
    failed = FetchAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told(sessions.resolve(ask(session_id, 2), 0), p1=failed) == [1]
    assert told(sessions.resolve(ask(session_id, 3), 0), p1=failed) == [1]
    assert told(sessions.resolve(ask(session_id, 4), 0)) == [1]
    assert told(sessions.resolve(ask(session_id, 5), 0)) == []


def test_j_03_a_repeat_of_a_fetch_in_flight_gets_an_error_and_no_partition_is_lost() -> None:
    sessions = make()
    session_id = open_session(sessions, 2)
    told(sessions.resolve(ask(session_id, 1), 0))
    original = sessions.resolve(ask(session_id, 2), 0)
    repeat = sessions.resolve(ask(session_id, 2), 0)
    assert repeat.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert original.verify() == ErrorCode.NONE
    overtaking = sessions.resolve(ask(session_id, 3), 0)
    assert original.verify() == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert len(overtaking.partitions) == 2


def test_whoever_got_bytes_is_read_last_next_time() -> None:
    sessions = make()
    session_id = open_session(sessions, 3)
    context = sessions.resolve(ask(session_id, 1), 0)
    told(context, p0=FetchAnswer(high_watermark=10, log_start_offset=0, records=b"x"))
    again = sessions.resolve(ask(session_id, 2), 0)
    assert [each.key[1] for each in again.partitions] == [1, 2, 0]


def test_epochs_wrap_past_zero() -> None:
    assert next_epoch(LAST_EPOCH) == 1
    sessions = make()
    session_id = open_session(sessions, 1)
    next(iter(sessions)).epoch = LAST_EPOCH
    assert sessions.resolve(ask(session_id, LAST_EPOCH), 0).error == ErrorCode.NONE
    assert sessions.resolve(ask(session_id, 1), 0).error == ErrorCode.NONE


def test_a_session_without_partitions_ends() -> None:
    sessions = make()
    session_id = open_session(sessions, 1)
    assert sessions.resolve(ask(session_id, 1, forget=[0]), 0).session_id == 0
    assert len(sessions) == 0


def test_a_full_cache_keeps_its_sessions_and_the_newcomer_goes_without() -> None:
    sessions = make(slots=2)
    kept = [open_session(sessions, 3), open_session(sessions, 3)]
    assert open_session(sessions, 3, EVICTION_MS) == 0
    assert [session.session_id for session in sessions] == kept


def test_an_idle_session_is_evicted_first() -> None:
    sessions = make(slots=2)
    idle, busy = open_session(sessions, 3), open_session(sessions, 1)
    assert sessions.resolve(ask(busy, 1), EVICTION_MS).error == ErrorCode.NONE
    assert open_session(sessions, 1, EVICTION_MS + 1) != 0
    assert sessions.resolve(ask(idle, 1), 0).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_evicts_a_consumer_and_a_consumer_never_a_follower() -> None:
    sessions = make(slots=1)
    consumer = open_session(sessions, 50)
    follower = open_session(sessions, 1, privileged=True)
    assert follower != 0
    assert sessions.resolve(ask(consumer, 1), 0).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert open_session(sessions, 5000) == 0


def test_of_settled_sessions_the_smaller_goes_for_a_larger_one() -> None:
    sessions = make(slots=2)
    small, large = open_session(sessions, 2), open_session(sessions, 9)
    late = EVICTION_MS + 1
    for session_id in (small, large):
        sessions.resolve(ask(session_id, 1), late)
    assert open_session(sessions, 1, late) == 0
    assert open_session(sessions, 5, late) != 0
    assert sessions.resolve(ask(small, 2), late).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resolve(ask(large, 2), late).error == ErrorCode.NONE


def test_cached_partitions_are_bounded_in_all() -> None:
    sessions = make(partitions_max=100)
    first = open_session(sessions, 60)
    assert open_session(sessions, 60) == 0
    assert open_session(sessions, 101) == 0
    second = open_session(sessions, 40)
    assert sessions.partition_count == 100
    grown = sessions.resolve(ask(second, 1, *(partition(index) for index in range(50))), 0)
    assert sessions.partition_count <= 100
    assert len(grown.partitions) == 50
    assert sessions.resolve(ask(first, 1), 0).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    alone = ask(second, 2, *(partition(index) for index in range(200)))
    assert len(sessions.resolve(alone, 0).partitions) == 200
    assert sessions.partition_count == 0
    assert sessions.resolve(ask(second, 3), 0).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
