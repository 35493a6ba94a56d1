"""Goals of plans on clusters of every shape, and what forbids a plan."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka import TopicPartition
from minikafka.deploy.plan.checks import check, cost_of
from minikafka.deploy.plan.cluster import (
    Broker,
    Cluster,
    Draft,
    Partition,
    PlanRefused,
)
from minikafka.deploy.plan.goals import balance, drain, rack_spread, replication_factor
from minikafka.deploy.plan.plan_file import Plan
from minikafka.deploy.plan.report import report
from minikafka.runtime.errors import ConfigError

MIB = 1 << 20


def p(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, index)


def cluster_of(racks: dict[int, str | None], *replicas: tuple[int, ...], mib: int = 0) -> Cluster:
    """Partitions of one size on these brokers, all in sync."""
    return Cluster(
        {each: Broker(each, rack) for each, rack in racks.items()},
        {
            p(index): Partition(each, each, each[0], mib * MIB)
            for index, each in enumerate(replicas)
        },
    )


def draft_of(cluster: Cluster, without: tuple[int, ...] = ()) -> Draft:
    allowed = [each for each in cluster.brokers if each not in without]
    return Draft(cluster, allowed, ignore_racks=False)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    ids = list(range(1, draw(st.integers(2, 7)) + 1))
    has_racks = draw(st.booleans())
    brokers = {
        each: Broker(each, draw(st.sampled_from("abc")) if has_racks else None) for each in ids
    }
    partitions = {}
    for index in range(draw(st.integers(0, 25))):
        replicas = tuple(draw(st.permutations(ids))[: draw(st.integers(1, min(4, len(ids))))])
        in_sync = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
        size_bytes = draw(st.sampled_from([0, MIB, 10 * MIB, 300 * MIB]))
        partitions[p(index)] = Partition(replicas, tuple(in_sync), in_sync[0], size_bytes)
    return Cluster(brokers, partitions)


def spread(draft: Draft) -> int:
    return sum(load * load for load in draft.loads.values())


def assert_sound(draft: Draft) -> None:
    """Loads are those of the replicas, and no broker has a replica twice."""
    for where, replicas in draft.placed.items():
        assert len({*replicas}) == len(replicas), where
    for broker, load in draft.loads.items():
        held = [where for where, replicas in draft.placed.items() if broker in replicas]
        assert load == sum(draft.weight(where) for where in held)
        assert sorted(held) == sorted(draft.held[broker])


@given(clusters())
def test_balance_makes_it_evener_and_keeps_racks(cluster: Cluster) -> None:
    draft = draft_of(cluster)
    before = spread(draft)
    balance(draft, sorted(cluster.partitions))
    assert_sound(draft)
    assert spread(draft) <= before
    for where, now in cluster.partitions.items():
        assert len(draft.placed[where]) == len(now.replicas)
        assert draft.racks(draft.placed[where]) >= draft.racks(now.replicas)
    led = dict.fromkeys(draft.loads, 0)
    for replicas in draft.placed.values():
        led[replicas[0]] += 1
    for replicas in draft.placed.values():
        assert all(led[replicas[0]] - led[other] <= 1 for other in replicas), "one leads too many"
    again = draft_of(
        Cluster(
            cluster.brokers,
            {
                where: Partition(tuple(draft.placed[where]), now.isr, now.leader, now.size_bytes)
                for where, now in cluster.partitions.items()
            },
        )
    )
    balance(again, sorted(cluster.partitions))
    assert again.changes() == {}, "what is balanced stays"


@given(clusters(), st.data())
def test_drain_takes_everything_away_or_says_why_not(cluster: Cluster, data: st.DataObject) -> None:
    leaving = data.draw(st.lists(st.sampled_from(sorted(cluster.brokers)), min_size=1, unique=True))
    draft = draft_of(cluster, tuple(leaving))
    left = len(cluster.brokers) - len(leaving)
    concerned = [each for each in cluster.partitions.values() if {*each.replicas} & {*leaving}]
    if any(len(one.replicas) > left for one in concerned):
        with pytest.raises(PlanRefused, match=r"no broker is left|fewer racks"):
            drain(draft, leaving)
        return
    try:
        drain(draft, leaving)
    except PlanRefused:
        racks = {each.rack for each in cluster.brokers.values() if each.node_id not in leaving}
        assert None not in racks, "only racks could forbid it"
        return
    assert_sound(draft)
    for where, now in cluster.partitions.items():
        assert not {*draft.placed[where]} & {*leaving}
        assert len(draft.placed[where]) == len(now.replicas)
        if not {*now.replicas} & {*leaving}:
            assert where not in draft.changes(), "it had nothing there"


@given(clusters())
def test_rack_spread_uses_every_rack(cluster: Cluster) -> None:
    draft = draft_of(cluster)
    rack_spread(draft, sorted(cluster.partitions))
    assert_sound(draft)
    for where, replicas in draft.placed.items():
        assert draft.racks(replicas) == min(len(replicas), draft.rack_count())
        now = cluster.partitions[where]
        if draft.racks(now.replicas) == min(len(now.replicas), draft.rack_count()):
            assert where not in draft.changes()


@given(clusters(), st.integers(1, 5))
def test_replication_factor_adds_and_removes(cluster: Cluster, factor: int) -> None:
    draft = draft_of(cluster)
    if factor > len(cluster.brokers) and cluster.partitions:
        with pytest.raises(PlanRefused, match="no broker is left"):
            replication_factor(draft, sorted(cluster.partitions), factor)
        return
    replication_factor(draft, sorted(cluster.partitions), factor)
    assert_sound(draft)
    check(cluster, draft.changes())
    for where, now in cluster.partitions.items():
        replicas = draft.placed[where]
        assert len(replicas) == factor
        assert now.leader in replicas, "the leader stays"
        if factor <= len(now.replicas):
            assert {*replicas} <= {*now.replicas}
        else:
            assert replicas[: len(now.replicas)] == list(now.replicas)


def test_an_empty_broker_gets_its_share() -> None:
    cluster = cluster_of({1: None, 2: None, 3: None}, *[(1, 2)] * 12, mib=100)
    draft = draft_of(cluster)
    balance(draft, sorted(cluster.partitions))
    held = {each: len(found) for each, found in draft.held.items()}
    assert held == {1: 8, 2: 8, 3: 8}
    assert cost_of(cluster, draft.changes()).copied_bytes == 8 * 100 * MIB


def test_a_fenced_broker_gets_nothing() -> None:
    cluster = cluster_of({1: None, 2: None, 3: None}, *[(1, 2)] * 6)
    brokers = {**cluster.brokers, 3: Broker(3, None, is_fenced=True)}
    draft = draft_of(Cluster(brokers, cluster.partitions))
    balance(draft, sorted(cluster.partitions))
    assert 3 not in {each for replicas in draft.placed.values() for each in replicas}


def test_a_drain_that_would_give_up_a_rack_is_refused_unless_racks_are_ignored() -> None:
    cluster = cluster_of({1: "a", 2: "a", 3: "b"}, (1, 3))
    with pytest.raises(PlanRefused, match=r"t-0: its replicas would be on fewer racks than now: 2"):
        drain(draft_of(cluster, (3,)), [3])
    draft = Draft(cluster, [1, 2], ignore_racks=True)
    drain(draft, [3])
    assert draft.placed[p(0)] == [1, 2]


def test_the_last_replica_in_sync_does_not_go() -> None:
    partition = Partition((1, 2), (2,), 2)
    cluster = Cluster({1: Broker(1), 2: Broker(2)}, {p(0): partition})
    with pytest.raises(PlanRefused, match="t-0: its last replica in sync would go"):
        check(cluster, {p(0): (1,)})
    check(cluster, {p(0): (2,)})
    fenced = {1: Broker(1), 2: Broker(2, is_fenced=True)}
    with pytest.raises(PlanRefused, match="t-0: its last replica in sync would go"):
        check(Cluster(fenced, {p(0): partition}), {p(0): (2,)})


@pytest.mark.parametrize("partition", [Partition((1,), (1,), -1), Partition((1,), (1,), 1)])
def test_what_has_nobody_to_copy_from_is_refused(partition: Partition) -> None:
    brokers = {1: Broker(1, is_fenced=partition.leader == 1), 2: Broker(2)}
    with pytest.raises(PlanRefused, match="t-0: it has no leader that could be copied from"):
        check(Cluster(brokers, {p(0): partition}), {p(0): (1, 2)})


def test_a_disk_that_would_be_full_is_refused_with_the_largest_partition() -> None:
    brokers = {1: Broker(1), 2: Broker(2, free_bytes=100 * MIB), 3: Broker(3)}
    partitions = {p(n): Partition((1,), (1,), 1, (n + 1) * 20 * MIB) for n in range(3)}
    cluster = Cluster(brokers, partitions)
    moved = dict.fromkeys(partitions, (2,))
    with pytest.raises(PlanRefused, match=r"broker 2 has 104857600 bytes free .* with t-2: 10%"):
        check(cluster, moved)
    check(cluster, dict.fromkeys(partitions, (3,)))
    check(cluster, {p(0): (2,), p(1): (2,)})


def test_the_price_counts_what_is_copied_and_no_other_change() -> None:
    cluster = cluster_of({1: None, 2: None, 3: None}, (1, 2), (2, 1), mib=100)
    cost = cost_of(cluster, {p(0): (3, 2), p(1): (1, 2)})
    assert (cost.copied_bytes, cost.into, cost.out_of) == (
        100 * MIB,
        {3: 100 * MIB},
        {1: 100 * MIB},
    )
    assert cost.least_ms(10 * MIB) == 10_000
    assert cost_of(cluster, {p(1): (1, 2)}).copied_bytes == 0


def test_a_plan_is_read_as_it_was_written() -> None:
    made = Plan("cluster", "drain brokers 3", {p(0): (1, 3)}, {p(0): (1, 2)})
    assert Plan.parse(json.loads(made.text())) == made


@pytest.mark.parametrize(
    "changed",
    [
        {"cluster_id": None},
        {"goal": 7},
        {"before": None},
        {"before": []},
        {"before": [{"topic": "u", "partition": 0, "replicas": [1]}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]},
        {"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]},
    ],
)
def test_what_is_no_plan_is_refused(changed: dict[str, object]) -> None:
    made = Plan("cluster", "balance", {p(0): (1, 3)}, {p(0): (1, 2)})
    with pytest.raises(ConfigError):
        Plan.parse({**json.loads(made.text()), **changed})


def test_it_is_told_in_tables_and_a_sentence() -> None:
    cluster = cluster_of({1: "a", 2: "b", 3: "c"}, (1, 2), mib=150)
    draft = draft_of(cluster, (2,))
    drain(draft, [2])
    after = draft.changes()
    made = Plan("cluster", "drain brokers 2", {p(0): (1, 2)}, after)
    lines = list(report(cluster, draft, made, cost_of(cluster, after), 10 * MIB))
    shown = [" ".join(line.split()) for line in lines]
    assert "t-0 1,2 1,3 150.0 MiB" in shown
    assert "2 b 1 0 150.0 MiB 0 0 0 B" in shown
    assert "3 c 0 0 0 B 1 0 150.0 MiB" in shown
    assert shown[-1] == (
        "1 partition changes; 150.0 MiB are copied, at most 150.0 MiB to one broker (3). "
        "At 10.0 MiB a second that takes at least 15.0 s."
    )
