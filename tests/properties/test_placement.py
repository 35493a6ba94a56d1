"""Where new partitions go, in any cluster: what is even, what is apart, and what goes on."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.control.image import PartitionState

from ..controller.machine import Machine, error

pytestmark = pytest.mark.slow

BROKERS = st.integers(1, 7)
GROWTH = st.lists(st.integers(1, 12), min_size=1, max_size=4)
"""Partitions at first, and how many more each time."""
OTHERS = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 3)), max_size=3)
"""Partitions and replication factor of topics that are there before."""


def cluster(racks: Sequence[str | None], others: Sequence[tuple[int, int]]) -> Machine:
    """Brokers 1, 2, ... in these racks; the last one comes after the other topics."""
    machine = Machine()
    for broker_id, rack in enumerate(racks[:-1], 1):
        machine.come_up(broker_id, rack=rack)
    for number, (partitions, factor) in enumerate(others):
        if factor < len(racks):
            assert error(machine.create(f"other-{number}", partitions, factor)) == 0
    machine.come_up(len(racks), rack=racks[-1])
    return machine


def grown(machine: Machine, counts: Sequence[int], factor: int) -> list[list[PartitionState]]:
    """The topic's partitions when it was made, and after each time that it grew."""
    assert error(machine.create("t", counts[0], factor)) == 0
    stages = [machine.states("t")]
    for more in counts[1:]:
        assert error(machine.grow("t", len(stages[-1]) + more)) == 0
        stages.append(machine.states("t"))
    return stages


def difference(found: Counter[int], brokers: int) -> int:
    """Between those with most and with fewest."""
    counts = [found[broker_id] for broker_id in range(1, brokers + 1)]
    return max(counts) - min(counts)


def leaders_of(states: Sequence[PartitionState]) -> Counter[int]:
    return Counter(state.replicas[0] for state in states)


def copies_of(states: Sequence[PartitionState]) -> Counter[int]:
    return Counter(each for state in states for each in state.replicas)


@settings(max_examples=150, deadline=None)
@given(BROKERS, GROWTH, OTHERS, st.data())
def test_leaders_and_copies_of_a_topic_differ_by_one(
    count: int, counts: list[int], others: list[tuple[int, int]], data: st.DataObject
) -> None:
    """However the rest of the cluster is loaded, and however the topic came to its size."""
    factor = data.draw(st.integers(1, count))
    for states in grown(cluster([None] * count, others), counts, factor):
        assert all(len(set(state.replicas)) == factor for state in states)
        assert difference(leaders_of(states), count) <= 1
        assert difference(copies_of(states), count) <= 1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=7), GROWTH, OTHERS, st.data())
def test_copies_lie_in_as_many_racks_as_there_are(
    racks: list[str], counts: list[int], others: list[tuple[int, int]], data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    machine = cluster(racks, others)
    for states in grown(machine, counts, factor):
        assert difference(leaders_of(states), len(racks)) <= 1
        for state in states:
            assert len(set(state.replicas)) == factor
            used = {machine.broker(each).rack for each in state.replicas}
            assert len(used) == min(factor, len(set(racks)))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), GROWTH, OTHERS, st.data())
def test_racks_of_one_size_leave_copies_as_even(
    racks: int, size: int, counts: list[int], others: list[tuple[int, int]], data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, racks * size))
    names = [f"r{number % racks}" for number in range(racks * size)]
    for states in grown(cluster(names, others), counts, factor):
        assert difference(copies_of(states), len(names)) <= 2


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 6), OTHERS, st.data())
def test_no_other_broker_follows_a_leader_in_most_partitions(
    count: int, others: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Whoever is first behind a lost leader takes over: that is not always the same."""
    factor = data.draw(st.integers(2, count))
    machine = cluster([None] * count, others)
    (states,) = grown(machine, [data.draw(st.integers(1, 60))], factor)
    leads = leaders_of(states)
    behind = Counter(state.replicas[:2] for state in states)
    for (leader, _), times in behind.items():
        assert times <= leads[leader] // 2 + 2
