import random

from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.cluster import ClusterView, Staleness
from minikafka.client.net.backoff import Backoff
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.types import ZERO_UUID, TopicPartition

TP = TopicPartition("t", 0)
ID = b"i" * 16


def answer(leader: int, epoch: int, *, topic_id: bytes = ID, code: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
    )
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])
    if code:
        topic = MetadataResponseTopic(name="t", error_code=code)
    brokers = [MetadataResponseBroker(node_id=n, host="h", port=9000 + n) for n in (1, 2)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def leader(view: ClusterView) -> tuple[int, int] | None:
    found = view.leader_of("t", 0)
    return None if found is None else (found.leader_id, found.leader_epoch)


def test_a_new_leader_is_told_once() -> None:
    view = ClusterView()
    assert view.on_metadata(answer(1, 5)).leaders == [TP]
    assert view.on_metadata(answer(1, 5)).leaders == []
    assert view.on_metadata(answer(2, 6)).leaders == [TP]
    assert leader(view) == (2, 6)


def test_a_broker_that_lags_behind_does_not_bring_back_an_old_leader() -> None:
    view = ClusterView()
    view.on_metadata(answer(2, 6))
    assert view.on_metadata(answer(1, 5)).leaders == []
    assert leader(view) == (2, 6)


def test_another_topic_of_the_same_name_starts_its_epochs_again() -> None:
    view = ClusterView()
    view.on_metadata(answer(2, 6))
    assert view.on_metadata(answer(1, 0, topic_id=b"j" * 16)).leaders == [TP]
    assert leader(view) == (1, 0)
    assert view.names == {b"j" * 16: "t"}


def test_without_epochs_the_newest_answer_counts() -> None:
    view = ClusterView()
    view.on_metadata(answer(2, -1, topic_id=ZERO_UUID))
    assert view.on_metadata(answer(1, -1, topic_id=ZERO_UUID)).leaders == [TP]
    assert leader(view) == (1, -1)


def test_a_leader_without_address_is_none() -> None:
    view = ClusterView()
    view.on_metadata(answer(-1, 7))
    assert leader(view) is None
    view.on_metadata(answer(9, 8))
    assert leader(view) is None
    assert view.leader_of("other", 0) is None


def test_a_deleted_topic_is_forgotten_and_a_topic_in_trouble_is_not() -> None:
    view = ClusterView()
    view.on_metadata(answer(1, 5))
    trouble = ErrorCode.LEADER_NOT_AVAILABLE
    assert view.on_metadata(answer(1, 5, code=trouble)).errors == {"t": trouble}
    assert view.partitions_of("t") is not None
    view.on_metadata(answer(1, 5, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert view.partitions_of("t") is None
    assert view.topic_id("t") == ZERO_UUID


def test_a_hint_counts_only_if_it_is_newer_and_its_broker_known() -> None:
    view = ClusterView()
    view.on_metadata(answer(1, 5))
    assert not view.on_leader(TP, 2, 5)
    assert not view.on_leader(TP, 9, 6)
    assert view.on_leader(TP, 2, 6)
    assert leader(view) == (2, 6)
    assert not view.on_leader(TopicPartition("other", 0), 1, 1)


def test_the_waits_are_steady_first_and_double_then() -> None:
    backoff = Backoff(50, 1000, steady_count=3, jitter=0)
    dice = random.Random(1)
    waits = [backoff.after(count, dice) for count in range(1, 11)]
    assert waits == [50, 50, 50, 100, 200, 400, 800, 1000, 1000, 1000]
    assert backoff.after(10_000, dice) == 1000


@given(st.integers(1, 10_000), st.integers(0, 60), st.randoms())
def test_jitter_stays_within_a_fifth(first: int, count: int, dice: random.Random) -> None:
    wait = Backoff(first, 20 * first).after(count, dice)
    assert 1 <= wait <= 24 * first
    assert wait >= int(0.8 * first) or wait == 1


def test_metadata_is_asked_for_at_an_age_and_soon_when_found_stale() -> None:
    staleness = Staleness(10_000, Backoff(50, 1000, jitter=0))
    dice = random.Random(1)
    assert staleness.next_ask_ms() == 0
    staleness.on_asked(1000, dice)
    staleness.on_refreshed(1010)
    assert staleness.next_ask_ms() == 11_010
    staleness.on_found_stale()
    assert staleness.next_ask_ms() == 1050
    staleness.on_asked(1050, dice)
    staleness.on_refreshed(1060)
    assert staleness.next_ask_ms() == 11_060


def test_a_new_question_does_not_wait() -> None:
    staleness = Staleness(10_000, Backoff(50, 1000, jitter=0))
    staleness.on_asked(1000, random.Random(1))
    staleness.on_new_question()
    assert staleness.next_ask_ms() == 0


def test_a_cluster_that_stays_stale_is_asked_less_and_less() -> None:
    staleness = Staleness(10_000, Backoff(50, 1000, steady_count=2, jitter=0))
    dice = random.Random(1)
    now, waits = 1000, []
    for _ in range(8):
        staleness.on_asked(now, dice)
        staleness.on_refreshed(now)
        staleness.on_found_stale()
        waits.append(staleness.next_ask_ms() - now)
        now = staleness.next_ask_ms()
    assert waits == [50, 50, 100, 200, 400, 800, 1000, 1000]
    staleness.on_asked(now + 60_000, dice)
    staleness.on_found_stale()
    assert staleness.next_ask_ms() == now + 60_050
