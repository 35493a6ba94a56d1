"""Who reads which partitions: fairness, few moves, and nobody has anything twice."""

import random
from collections import Counter

import pytest

from minikafka.client.consumer import sticky
from minikafka.client.consumer.assignors import ASSIGNORS, Assignment, Member
from minikafka.protocol.types import TopicPartition

RANGE, ROUND_ROBIN = ASSIGNORS["range"], ASSIGNORS["roundrobin"]
STICKY, COOPERATIVE = ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]


def tps(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def everything(counts: dict[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic in counts for index in range(counts[topic])]


def owning(members: list[Member], given: Assignment, generation: int) -> list[Member]:
    """The members as they will join next."""
    return [
        Member(m.member_id, m.topics, tuple(given[m.member_id]), generation, m.group_instance_id)
        for m in members
    ]


def test_range_cuts_each_topic_and_equal_numbers_go_together() -> None:
    members = [Member("b", ("s", "t")), Member("a", ("t", "s")), Member("c", ("t",))]
    assert RANGE.assign({"t": 4, "s": 3}, members) == {
        "a": tps("s", 0, 1) + tps("t", 0, 1),
        "b": tps("s", 2) + tps("t", 2),
        "c": tps("t", 3),
    }


def test_static_members_come_in_order_of_their_lasting_names() -> None:
    members = [Member("1", ("t",), group_instance_id="z"), Member("2", ("t",), (), -1, "a")]
    assert RANGE.assign({"t": 2}, members) == {"1": tps("t", 1), "2": tps("t", 0)}


def test_roundrobin_deals_to_those_that_read_the_topic() -> None:
    members = [Member("a", ("t",)), Member("b", ("s", "t"))]
    assert ROUND_ROBIN.assign({"t": 3, "s": 2, "nobody": 9}, members) == {
        "a": tps("t", 0, 2),
        "b": tps("s", 0, 1) + tps("t", 1),
    }


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_topic_that_does_not_exist_is_left_out(name: str) -> None:
    assert ASSIGNORS[name].assign({"t": 0}, [Member("a", ("t", "gone"))]) == {"a": []}


def test_sticky_moves_only_what_fairness_asks_for() -> None:
    members = [Member("a", ("t",)), Member("b", ("t",))]
    first = STICKY.assign({"t": 9}, members)
    assert sorted(map(len, first.values())) == [4, 5]
    third = [*owning(members, first, 1), Member("c", ("t",))]
    second = STICKY.assign({"t": 9}, third)
    assert [len(second[m]) for m in "abc"] == [3, 3, 3]
    for member in "ab":
        assert set(second[member]) < set(first[member])
    # One goes: the others keep all they have.
    left = STICKY.assign({"t": 9}, owning(third, second, 2)[:2])
    for member in "ab":
        assert set(second[member]) < set(left[member])


def test_of_two_that_claim_a_partition_the_later_generation_has_it() -> None:
    members = [
        Member("a", ("t",), tuple(tps("t", 0, 1)), 3),
        Member("b", ("t",), tuple(tps("t", 0, 1)), 4),
    ]
    given = STICKY.assign({"t": 2}, members)
    assert len(given["a"]) == len(given["b"]) == 1
    # Of the same generation neither can be believed.
    members = [Member(name, ("t",), tuple(tps("t", 0)), 4) for name in "ab"]
    assert COOPERATIVE.assign({"t": 1}, members) == {"a": [], "b": []}


def test_a_member_that_claims_a_partition_twice_keeps_it() -> None:
    members = [Member("a", ("t",), tuple(tps("t", 0, 0)), 1), Member("b", ("t",))]
    assert COOPERATIVE.assign({"t": 1}, members) == {"a": tps("t", 0), "b": []}


def test_a_partition_that_its_owner_must_give_up_is_withheld() -> None:
    members = [Member("a", ("t",), tuple(tps("t", 0, 1)), 1), Member("b", ("t",))]
    given = COOPERATIVE.assign({"t": 2}, members)
    assert len(given["a"]) == 1
    assert given["b"] == []
    again = COOPERATIVE.assign({"t": 2}, owning(members, given, 2))
    assert len(again["a"]) == len(again["b"]) == 1


def test_what_a_member_no_longer_reads_goes_to_others() -> None:
    members = [Member("a", ("s",), tuple(tps("t", 0)), 1), Member("b", ("t", "s"))]
    assert STICKY.assign({"t": 1, "s": 2}, members)["b"][0] == TopicPartition("t", 0)


@pytest.mark.parametrize("seed", range(30))
def test_a_group_in_any_history_is_shared_fairly_and_nobody_has_anything_twice(seed: int) -> None:
    """Members come, go, and read different topics; rebalances follow until nothing is withheld."""
    dice = random.Random(seed)
    counts = {f"t{n}": dice.randint(0, 12) for n in range(4)}
    names = list(counts)
    same = dice.random() < 0.5
    numbers = iter(range(1000))

    def joiner() -> Member:
        topics = names if same else dice.sample(names, dice.randint(1, 4))
        return Member(f"m{next(numbers)}", tuple(topics))

    members = [joiner() for _ in range(dice.randint(1, 6))]
    for generation in range(1, 40):
        given = COOPERATIVE.assign(counts, members)
        check_nobody_gets_what_another_has(members, given)
        settled = sum(map(len, given.values())) == readable(counts, members)
        if settled and same:
            sizes = list(map(len, given.values()))
            assert max(sizes) - min(sizes) <= 1
        members = owning(members, given, generation)
        if settled:
            if len(members) > 1 and dice.random() < 0.5:
                members.pop(dice.randrange(len(members)))
            else:
                members.append(joiner())


def check_nobody_gets_what_another_has(members: list[Member], given: Assignment) -> None:
    owner = {partition: m.member_id for m in members for partition in m.owned}
    topics = {m.member_id: m.topics for m in members}
    assert max(Counter(p for got in given.values() for p in got).values(), default=0) <= 1
    for member_id, got in given.items():
        for partition in got:
            assert owner.get(partition, member_id) == member_id
            assert partition.topic in topics[member_id]


def readable(counts: dict[str, int], members: list[Member]) -> int:
    return sum(counts[topic] for topic in counts if any(topic in m.topics for m in members))


def test_a_hundred_members_share_a_thousand_partitions_and_a_newcomer_moves_ten() -> None:
    members = [Member(f"m{n:03}", ("t",)) for n in range(100)]
    first = STICKY.assign({"t": 1000}, members)
    joined = [*owning(members, first, 1), Member("new", ("t",))]
    second = STICKY.assign({"t": 1000}, joined)
    moved = sum(len(set(second[m.member_id]) - set(first[m.member_id])) for m in members)
    assert moved == 0
    assert len(second["new"]) == 9


def test_user_data_is_what_other_clients_write() -> None:
    owned = [*tps("t", 0, 2), *tps("s", 1)]
    data = STICKY.user_data(owned, 7)
    assert data == (b"\0\0\0\2\0\1t\0\0\0\2\0\0\0\0\0\0\0\2\0\1s\0\0\0\1\0\0\0\1\0\0\0\7")
    read = STICKY.read_user_data(Member("a", ("t",)), data)
    assert (read.owned, read.generation) == (tuple(owned), 7)
    assert STICKY.user_data((), 7) is None
    assert COOPERATIVE.user_data(owned, 7) == b"\x00\x00\x00\x07"
    read = COOPERATIVE.read_user_data(Member("a", ("t",), tuple(owned)), b"\x00\x00\x00\x07")
    assert (read.owned, read.generation) == (tuple(owned), 7)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\x00",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff",
        b"x" * 9,
    ],
)
def test_user_data_that_cannot_be_read_says_nothing(data: bytes | None) -> None:
    assert sticky.decode_previous(data) is None
    if data is None or len(data) != 4:
        assert COOPERATIVE.read_user_data(Member("a", ("t",)), data).generation == -1


def test_an_old_sticky_member_says_no_generation() -> None:
    data = sticky.encode_previous(tps("t", 3), 9)[:-4]
    assert sticky.decode_previous(data) == ((TopicPartition("t", 3),), -1)
