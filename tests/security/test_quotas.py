"""Buckets of quotas, and which quota holds for a client, as pure things."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.quotas import CLIENT_ID, USER
from minikafka.security.quotas import (
    CLIENT_ID_MAX,
    FETCH,
    IDLE_MS,
    MOST_BUCKETS,
    MUTATION,
    PRODUCE,
    REQUEST,
    THROTTLE_MAX_MS,
    Bucket,
    Kind,
    Quotas,
)

USERS = ("alice", None)
CLIENTS = ("app", None)
Entity = Mapping[str, str | None]


def both(user: str | None, client_id: str | None) -> Entity:
    return {USER: user, CLIENT_ID: client_id}


class Node:
    """A node that follows the metadata log and enforces quotas."""

    def __init__(self, *kinds: Kind) -> None:
        self.image = MetadataImage()
        self.quotas = Quotas(kinds or (PRODUCE,))
        self.offset = 0

    def set(self, value: float | None, entity: Entity, key: str = PRODUCE.key) -> None:
        """Set a quota of an entity, or remove it with None."""
        delta = Delta()
        self.image.apply(r.ClientQuotaRecord(dict(entity), key, value), self.offset, delta)
        self.offset += 1
        self.quotas.on_metadata(delta, self.image)

    def bucket(self, user: str, client_id: str | None, now_ms: int = 0) -> Bucket:
        (found, *_) = self.quotas.of(user, client_id, now_ms)
        assert found is not None
        return found


def test_after_silence_ten_seconds_of_the_rate_pass_at_once() -> None:
    bucket = Bucket(PRODUCE, 100, 0)
    assert bucket.take(1_000, 60_000) == 0
    assert bucket.take(1, 60_000) == 10


def test_a_new_bucket_holds_one_second() -> None:
    """So a client gets little by taking a new id."""
    bucket = Bucket(PRODUCE, 100, 5_000)
    assert bucket.take(100, 5_000) == 0
    assert bucket.take(50, 5_000) == 500


def test_a_debt_is_paid_by_time_and_waits_are_never_too_short() -> None:
    bucket = Bucket(FETCH, 3, 0)
    wait_ms = bucket.take(10, 0)
    assert wait_ms == 2334
    assert bucket.wait_ms(wait_ms - 1) > 0
    assert bucket.wait_ms(wait_ms) == 0


def test_a_quota_that_is_larger_than_any_need_is_no_limit() -> None:
    """Who means to set none may set the largest number that there is."""
    node = Node(REQUEST)
    node.set(1.7e308, {USER: None}, REQUEST.key)
    bucket = node.bucket("alice", "app")
    assert bucket.take(10**9, 0) == 0
    assert node.bucket("alice", "app", 10).take(10**9, 10) == 0
    node.set(1, {USER: None}, REQUEST.key)
    assert node.bucket("alice", "app", 20).take(10**9, 20) == 1_000


def test_waits_of_request_time_are_a_second_at_most_and_those_of_bytes_fit_a_response() -> None:
    assert Bucket(REQUEST, 1, 0).take(10**9, 0) == 1_000
    assert Bucket(PRODUCE, 1e-300, 0).take(10**9, 0) == THROTTLE_MAX_MS


def test_a_debt_of_request_time_beyond_ten_seconds_is_forgotten() -> None:
    bucket = Bucket(REQUEST, 1, 0)
    bucket.take(10**9, 0)
    assert bucket.wait_ms(9_999) > 0
    assert bucket.wait_ms(10_000) == 0


def test_one_percent_is_ten_milliseconds_of_a_second() -> None:
    bucket = Bucket(REQUEST, 1, 0)
    assert bucket.take(10_000, 0) == 0
    assert bucket.take(5_000, 0) == 500


def test_mutations_begin_with_eleven_seconds_as_in_kafka() -> None:
    bucket = Bucket(MUTATION, 1, 0)
    assert bucket.take(30, 0) == 19_000
    assert bucket.wait_ms(87) == 18_913


@given(
    rate=st.floats(min_value=1e3, max_value=1e9),
    events=st.lists(
        st.tuples(st.integers(0, 3_600_000), st.floats(min_value=0, max_value=1e9)), max_size=40
    ),
)
def test_who_waits_never_exceeds_the_rate_by_more_than_a_bucket_and_a_request(
    rate: float, events: list[tuple[int, float]]
) -> None:
    bucket, now_ms, passed, largest = Bucket(PRODUCE, rate, 0), 0, 0.0, 0.0
    for pause_ms, size in events:
        now_ms += pause_ms
        now_ms += bucket.wait_ms(now_ms)
        bucket.take(size, now_ms)
        passed, largest = passed + size, max(largest, size)
        allowed = rate * (now_ms / 1000 + PRODUCE.full_s) + largest
        assert passed <= allowed * (1 + 1e-9)


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 500)), max_size=40))
def test_who_stays_below_the_rate_never_waits(events: list[tuple[int, int]]) -> None:
    bucket, now_ms = Bucket(PRODUCE, 100, 0), 0
    for pause_ms, size in events:
        # What is sent was saved up before.
        now_ms += pause_ms + size * 10
        assert bucket.take(size, now_ms) == 0


def test_s_45_the_most_specific_quota_holds_and_none_is_added_to_another() -> None:
    node = Node()
    levels: list[Entity] = []
    for user in USERS:
        levels += [both(user, client_id) for client_id in CLIENTS]
        levels.append({USER: user})
    levels += [{CLIENT_ID: client_id} for client_id in CLIENTS]
    assert len(levels) == 8
    for number, level in enumerate(levels, 1):
        node.set(number, level)
    for number, level in enumerate(levels, 1):
        assert node.bucket("alice", "app").size == 10 * number
        node.set(None, level)
    assert node.quotas.of("alice", "app", 0) == (None,)
    assert node.quotas.entities is None


def test_an_entity_without_the_key_is_passed_over() -> None:
    node = Node(PRODUCE, FETCH)
    node.set(5, {USER: "alice"}, FETCH.key)
    node.set(7, {CLIENT_ID: None})
    produce, fetch = node.quotas.of("alice", "app", 0)
    assert produce is not None
    assert fetch is not None
    assert (produce.size, fetch.size) == (70, 50)


def test_a_default_is_a_bucket_for_each() -> None:
    node = Node()
    node.set(100, {USER: None})
    alice, bob = node.bucket("alice", "app"), node.bucket("bob", "app")
    assert alice is not bob
    assert alice is node.bucket("alice", "other"), "the user's, whatever its client ids"
    node.set(100, both("alice", None))
    apart = [node.bucket("alice", name) for name in ("app", "other")]
    assert len(dict.fromkeys(map(id, apart))) == 2


def test_no_client_id_is_the_empty_one() -> None:
    node = Node()
    node.set(100, {CLIENT_ID: None})
    assert node.bucket("alice", None) is node.bucket("bob", "")


def test_a_change_reaches_the_bucket_in_use() -> None:
    node = Node()
    node.set(100, {USER: "alice"})
    before = node.bucket("alice", "app")
    before.take(1_100, 0)
    epoch = node.quotas.epoch
    node.set(1_000, {USER: "alice"})
    assert node.quotas.epoch > epoch
    assert node.bucket("alice", "app") is before
    assert before.wait_ms(0) == 1_000, "the debt stays, and is paid at the new rate"
    assert before.wait_ms(1_000) == 0


def test_less_room_loses_what_was_saved() -> None:
    bucket = Bucket(PRODUCE, 100, 0)
    bucket.set_quota(1, 100_000)
    assert bucket.tokens == 10


def test_quotas_of_other_kinds_switch_nothing_on() -> None:
    node = Node(PRODUCE)
    node.set(10, {USER: "alice"}, MUTATION.key)
    assert node.quotas.entities is None


def test_s_54_long_client_ids_do_not_fill_the_memory() -> None:
    node = Node()
    node.set(100, {CLIENT_ID: None})
    buckets = [node.bucket("alice", f"{number}{'x' * 32_000}") for number in range(3)]
    assert len(dict.fromkeys(map(id, buckets))) == len(node.quotas) == 3
    assert node.bucket("alice", f"0{'x' * 1_000}") is buckets[0]
    buckets[0].take(200, 0)
    ((owner, _),) = node.quotas.in_debt(0)
    assert owner.client_id == f"0{'x' * (CLIENT_ID_MAX - 1)}"


def test_s_54_client_ids_do_not_fill_the_memory_and_do_not_push_out_who_is_at_work() -> None:
    node = Node()
    node.set(100, both(None, None))
    at_work = node.bucket("alice", "app")
    for number in range(3 * MOST_BUCKETS):
        if not number % 100:
            at_work.take(1, number)
        node.bucket("mallory", f"id-{number}", number)
    assert len(node.quotas) == MOST_BUCKETS
    assert node.bucket("alice", "app", 3 * MOST_BUCKETS) is at_work


def test_buckets_that_are_idle_for_long_are_forgotten() -> None:
    node = Node()
    node.set(100, {CLIENT_ID: None})
    for number in range(100):
        node.bucket("alice", f"old-{number}")
    for number in range(20):
        node.bucket("alice", f"new-{number}", IDLE_MS + 1)
    assert len(node.quotas) == 20


@pytest.mark.parametrize(("user", "client_id"), list(product(USERS, CLIENTS)))
def test_a_snapshot_brings_quotas_and_takes_them(user: str | None, client_id: str | None) -> None:
    node = Node()
    node.set(3, both(user, client_id))
    loaded = Quotas((PRODUCE,))
    loaded.on_metadata(Delta(is_snapshot=True), node.image)
    (bucket,) = loaded.of("alice", "app", 0)
    assert bucket is not None
    assert bucket.size == 30
    loaded.on_metadata(Delta(is_snapshot=True), MetadataImage())
    assert loaded.of("alice", "app", 0) == (None,)
