import random
import sys
import warnings

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.producer.partitioner import StickyChoice
from minikafka.protocol.partitioning import _words, murmur2, partition_for_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own, at import
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

# Java's Utils.murmur2, as its own test prints them, as unsigned numbers.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", JAVA)
def test_murmur2_is_javas(key: bytes) -> None:
    assert murmur2(key) == JAVA[key] & 0xFFFFFFFF


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_other_clients(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


@given(st.binary(min_size=4, max_size=40))
def test_words_read_alike_on_any_machine(key: bytes) -> None:
    whole = len(key) & ~3
    assert list(memoryview(key)[:whole].cast("I")) == list(_words(key, whole))


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_a_key_has_one_partition_in_range(key: bytes, count: int) -> None:
    where = partition_for_key(key, count)
    assert 0 <= where < count
    assert where == partition_for_key(key, count)


def test_only_short_keys_are_kept_with_their_hashes() -> None:
    long, short = b"kept" * 17, b"kept" * 16
    before = [sys.getrefcount(each) for each in (long, short)]
    assert [partition_for_key(each, 1_000) for each in (long, short)] == [
        (murmur2(each) & 0x7FFFFFFF) % 1_000 for each in (long, short)
    ]
    assert [sys.getrefcount(each) for each in (long, short)] == [before[0], before[1] + 1]


def test_a_sticky_choice_stays_for_a_batch_and_then_moves_on() -> None:
    sticky = StickyChoice(100)
    assert sticky.choose(10) == -1
    first = sticky.turn([0, 1], [0, 0], random.Random(1))
    assert [sticky.choose(40), sticky.choose(40)] == [first, first]
    assert sticky.choose(40) == -1


def test_a_sticky_choice_prefers_the_emptier_partition() -> None:
    sticky = StickyChoice(100)
    dice = random.Random(1)
    turns = [sticky.turn([0, 1], [1_000_000, 0], dice) for _ in range(200)]
    assert turns.count(1) > turns.count(0)


def test_a_partition_that_lost_its_leader_is_left() -> None:
    sticky = StickyChoice(100)
    sticky.turn([3], [0], random.Random(1))
    sticky.give_up()
    assert sticky.choose(1) == -1
