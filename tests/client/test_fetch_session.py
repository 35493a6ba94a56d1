from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.consumer.fetch_session import MAX_EPOCH, Asked, FetchSession, Want
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID_A, ID_B = b"a" * 16, b"b" * 16


def want(partition: TopicPartition, offset: int) -> Want:
    return Want(ID_A if partition.topic == "a" else ID_B, offset, 0, 1000)


def named(asked: Asked) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, one.partition): one.fetch_offset
        for topic in asked.topics
        for one in topic.partitions
    }


def dropped(asked: Asked) -> set[TopicPartition]:
    return {TopicPartition(t.topic, index) for t in asked.forgotten for index in t.partitions}


def test_only_changes_are_named_once_a_session_stands() -> None:
    session = FetchSession()
    first = session.ask({A0: want(A0, 0), B0: want(B0, 0)}, may_increment=True)
    assert (first.session_id, first.epoch, named(first)) == (0, 0, {A0: 0, B0: 0})
    assert session.on_answer(ErrorCode.NONE, 77)
    second = session.ask({A0: want(A0, 5), B0: want(B0, 0)}, may_increment=True)
    assert (second.session_id, second.epoch, named(second)) == (77, 1, {A0: 5})
    assert session.on_answer(ErrorCode.NONE, 77)
    third = session.ask({A0: want(A0, 5), A1: want(A1, 0)}, may_increment=True)
    assert (third.epoch, named(third), dropped(third)) == (2, {A1: 0}, {B0})


def test_a_broker_without_sessions_is_told_everything_each_time() -> None:
    session = FetchSession()
    for offset in range(3):
        asked = session.ask({A0: want(A0, offset), A1: want(A1, 0)}, may_increment=True)
        assert (asked.session_id, asked.epoch, named(asked)) == (0, 0, {A0: offset, A1: 0})
        assert session.on_answer(ErrorCode.NONE, 0)


def test_an_unknown_session_is_asked_for_anew() -> None:
    session = FetchSession()
    session.ask({A0: want(A0, 0)}, may_increment=True)
    session.on_answer(ErrorCode.NONE, 77)
    session.ask({A0: want(A0, 1)}, may_increment=True)
    assert not session.on_answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    again = session.ask({A0: want(A0, 1)}, may_increment=True)
    assert (again.session_id, again.epoch, named(again)) == (0, 0, {A0: 1})


def test_after_a_lost_answer_the_old_session_is_closed_with_the_new_request() -> None:
    session = FetchSession()
    session.ask({A0: want(A0, 0)}, may_increment=True)
    session.on_answer(ErrorCode.NONE, 77)
    session.ask({A0: want(A0, 1)}, may_increment=True)
    session.on_lost()
    again = session.ask({A0: want(A0, 1)}, may_increment=True)
    assert (again.session_id, again.epoch, named(again)) == (77, 0, {A0: 1})
    session.on_answer(ErrorCode.NONE, 78)
    assert session.ask({A0: want(A0, 2)}, may_increment=True).session_id == 78


def test_another_topic_of_the_same_name_begins_a_session() -> None:
    session = FetchSession()
    session.ask({A0: want(A0, 0)}, may_increment=True)
    session.on_answer(ErrorCode.NONE, 77)
    other = Want(b"c" * 16, 0, 0, 1000)
    assert session.ask({A0: other}, may_increment=True).epoch == 0


def test_the_epoch_wraps_to_one() -> None:
    session = FetchSession()
    session.ask({A0: want(A0, 0)}, may_increment=True)
    session.on_answer(ErrorCode.NONE, 77)
    session._epoch = MAX_EPOCH
    session.on_answer(ErrorCode.NONE, 77)
    assert session.ask({A0: want(A0, 0)}, may_increment=True).epoch == 1


Steps = list[tuple[dict[TopicPartition, int], str]]
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 3), min_size=1),
        st.sampled_from(["ok", "ok", "ok", "lost before", "lost after", "forgotten"]),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_broker_always_knows_what_is_wanted(
    steps: list[tuple[dict[TopicPartition, int], str]],
) -> None:
    """Against a model of the broker's cache: after each answered request, it holds the wants."""
    session = FetchSession()
    cache: dict[TopicPartition, int] | None = None
    cached_id, cached_epoch, next_id = 0, 0, 1
    for wants, fate in steps:
        if fate == "forgotten":
            cache = None
        asked = session.ask({tp: want(tp, at) for tp, at in wants.items()}, may_increment=True)
        if fate == "lost before":
            session.on_lost()
            continue
        code = ErrorCode.NONE
        if asked.epoch == 0:
            cache, cached_id, cached_epoch = named(asked), next_id, 1
            next_id += 1
        elif cache is None or asked.session_id != cached_id:
            code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif asked.epoch != cached_epoch:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        else:
            cached_epoch += 1
            cache.update(named(asked))
            for partition in dropped(asked):
                cache.pop(partition)
        if fate == "lost after":
            session.on_lost()
            continue
        assert session.on_answer(code, cached_id) == (code is ErrorCode.NONE)
        if code is ErrorCode.NONE:
            assert cache == wants
        else:
            assert code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
