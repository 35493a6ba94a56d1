"""A consumer in a group, against a scripted coordinator: what is committed, when, and what is not.

Rebalances among several members are played in tests/scenarios/test_i_clients.py.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from minikafka.aio import (
    Consumer,
    ConsumerGroupMetadata,
    ConsumerInterceptor,
    ConsumerRecord,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from minikafka.client.errors import BadRecord, ClientClosed, ConcurrentPoll, RequestTimedOut
from minikafka.client.refusals import CommitFailed, InstanceFenced, Refused
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode

from .fake_broker import FakeCluster
from .fake_group import FakeGroup, install
from .test_consumer import fill, numbers

TP, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)
Setup = tuple[FakeCluster, FakeGroup]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    cluster, group = install(monkeypatch, nodes=2)
    for part in cluster.create("t", partitions=2).partitions:
        fill(part, 20)
    return cluster, group


def member(cluster: FakeCluster, **settings: Any) -> Consumer:
    defaults = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 5,
        "heartbeat_interval_ms": 20,
        "auto_commit_interval_ms": 3_600_000,
    }
    return Consumer(cluster.bootstrap, **{**defaults, **settings})


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    got: list[ConsumerRecord] = []
    async with asyncio.timeout(20):
        while len(got) < count:
            got += await consumer.poll(1000, count - len(got))
    return got


async def test_leaving_the_block_commits_what_polls_returned_and_leaves(setup: Setup) -> None:
    cluster, group = setup
    async with cluster:
        async with member(cluster) as consumer:
            await consumer.subscribe(["t"])
            got = await read(consumer, 7)
            assert group.commits == []
        assert sum(group.commits[-1].values()) == 7
        assert group.members == {}
        async with member(cluster) as consumer:
            await consumer.subscribe(["t"])
            got += await read(consumer, 33)
    assert sorted(numbers(got)) == sorted([*range(20), *range(20)])
    (leave, _) = cluster.sent(ApiKey.LEAVE_GROUP)
    assert "closed" in leave.members[0].reason


async def test_a_member_that_subscribes_to_a_misspelt_topic_is_told_so_once(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, _ = setup
    async with cluster, member(cluster) as consumer:
        cluster.create("orders")
        await consumer.subscribe(["ordesr"])
        while "ordesr" not in caplog.text:
            assert await consumer.poll(20) == []
        assert await consumer.poll(50) == []
        assert caplog.text.count("ordesr: the cluster does not have it; did you mean orders?") == 1


async def test_an_exception_that_leaves_the_block_commits_only_what_was_dealt_with(
    setup: Setup,
) -> None:
    cluster, group = setup
    async with cluster:
        dealt_with = 0

        async def work() -> None:
            nonlocal dealt_with
            async with member(cluster) as consumer:
                consumer.assign([TP])
                dealt_with = len(await read(consumer, 4))
                assert len(await consumer.poll(1000, 3)) == 3
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert group.commits == [{TP: dealt_with}]


async def test_iterating_commits_no_record_that_was_not_handed_out(setup: Setup) -> None:
    cluster, group = setup
    async with cluster, member(cluster) as consumer:
        consumer.assign([TP])
        seen = 0
        async for record in consumer:
            seen += 1
            if seen == 3:
                assert record.offset == 2
                await consumer.commit()
                assert group.committed[TP][0] == 3
                assert await consumer.position(TP) == 3
            if seen == 5:
                break
        # A poll goes on where iterating stopped.
        assert numbers(await consumer.poll(1000, 2)) == [5, 6]
        await consumer.close()
        assert group.committed[TP][0] == 7


async def test_a_poll_commits_what_earlier_polls_returned(setup: Setup) -> None:
    cluster, group = setup
    async with cluster, member(cluster, auto_commit_interval_ms=0) as consumer:
        consumer.assign([TP])
        assert len(await read(consumer, 5)) == 5
        await consumer.poll(0, 5)
        await cluster.until(lambda: bool(group.commits))
        assert group.commits == [{TP: 5}]


async def test_positions_come_from_the_group_with_their_epoch(setup: Setup) -> None:
    """The epoch goes with the commit, and a log that no longer holds what was read is noticed."""
    cluster, group = setup
    async with cluster:
        cluster.move("t", 0, 1)
        fill(cluster.topics["t"].partitions[0], 5, first=20)
        async with member(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 25)
            await consumer.commit()
        assert group.committed[TP] == (25, 1, "")
        part = cluster.topics["t"].partitions[0]
        part.truncate_to(20)
        cluster.move("t", 0, 2)
        fill(part, 10, first=100)
        async with member(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 3)) == [100, 101, 102]


async def test_what_is_committed_can_be_asked_for_with_its_note(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster) as consumer:
        consumer.assign([TP, TP1])
        await consumer.commit({TP: OffsetAndMetadata(3, "why", 0)})
        assert await consumer.committed() == {TP: OffsetAndMetadata(3, "why", 0), TP1: None}
        await consumer.commit({("t", 1): 9})
        assert (await consumer.committed([TP1]))[TP1] == OffsetAndMetadata(9)
        assert await consumer.group_lag() == {TP: 17, TP1: 11}
        with pytest.raises(ValueError, match="0 or more"):
            await consumer.commit({TP: -1})


async def test_without_a_group_nothing_can_be_committed(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster, group_id=None) as consumer:
        with pytest.raises(ValueError, match="group_id"):
            await consumer.commit()


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
async def test_a_member_that_was_thrown_out_cannot_commit_and_hears_that_all_is_lost(
    setup: Setup, code: ErrorCode
) -> None:
    cluster, group = setup
    told: list[tuple[str, int]] = []
    listener = RebalanceListener(
        lambda partitions: told.append(("assigned", len(partitions))),
        lambda partitions: told.append(("revoked", len(partitions))),
        lambda partitions: told.append(("lost", len(partitions))),
    )
    async with cluster, member(cluster, heartbeat_interval_ms=40_000) as consumer:
        await consumer.subscribe(["t"], listener=listener)
        await read(consumer, 3)
        group.refuse_commits = [code]
        with pytest.raises(CommitFailed) as caught:
            await consumer.commit()
        assert caught.value.code is code
        assert caught.value.meaning in str(caught.value)
        assert "joins anew" in caught.value.advice
        with pytest.raises(CommitFailed):
            await consumer.commit()
        assert told == [("assigned", 2)]
        group.throw_out()
        await read(consumer, 3)
        assert told == [("assigned", 2), ("lost", 2), ("assigned", 2)]
        await consumer.commit()
    assert told[3:] == [("revoked", 2)]


async def test_a_commit_waits_for_a_rebalance_under_way(setup: Setup) -> None:
    cluster, group = setup
    async with cluster, member(cluster) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 3)
        group.refuse_commits = [ErrorCode.REBALANCE_IN_PROGRESS] * 3
        await consumer.commit()
        assert sum(group.commits[-1].values()) == 3


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND])
async def test_a_commit_of_who_is_not_known_does_not_wait_for_a_join_that_never_ends(
    setup: Setup, code: ErrorCode
) -> None:
    """The join may be under way on a connection that is dead without anybody's knowing."""
    cluster, group = setup
    async with cluster, member(cluster, heartbeat_interval_ms=10) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 3)
        group.members["another"] = next(iter(group.members.values()))
        group.rebalance()
        while not group.joining:
            await consumer.poll(timeout_ms=10)
        group.refuse_commits = [code] * 1000
        with pytest.raises(CommitFailed) as caught:
            await consumer.commit()
        assert caught.value.code is code
        assert len(group.refuse_commits) == 999


@pytest.mark.parametrize(
    "code", [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.GROUP_AUTHORIZATION_FAILED]
)
async def test_a_commit_that_is_refused_for_good_says_what_to_do(
    setup: Setup, code: ErrorCode
) -> None:
    cluster, group = setup
    async with cluster, member(cluster) as consumer:
        consumer.assign([TP])
        group.refuse_commits = [code]
        with pytest.raises(Refused) as caught:
            await consumer.commit({TP: 1})
        assert caught.value.code is code
        assert caught.value.advice in str(caught.value)


async def test_every_wait_for_a_coordinator_has_an_end(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster) as consumer:
        consumer.assign([TP])
        assert await consumer.position(TP) == 0
        for node in cluster.nodes.values():
            node.freeze()
        with pytest.raises(RequestTimedOut):
            await consumer.commit({TP: 1}, timeout_ms=50)
        with pytest.raises(RequestTimedOut):
            await consumer.committed(timeout_ms=50)
        await consumer.close(timeout_ms=50)
        for node in cluster.nodes.values():
            node.thaw()


async def test_a_coordinator_that_moved_is_found_again(setup: Setup) -> None:
    cluster, group = setup
    async with cluster, member(cluster) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 3)
        group.coordinator = 2
        await consumer.commit()
        assert sum(group.commits[-1].values()) == 3


async def test_a_coordinator_that_fell_silent_is_not_waited_for(setup: Setup) -> None:
    cluster, group = setup
    async with cluster, member(cluster, unanswered_request_ms=20) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 3)
        cluster.nodes[1].freeze()
        group.coordinator = 2
        async with asyncio.timeout(10):
            await consumer.commit()
        assert sum(group.commits[-1].values()) == 3
        cluster.nodes[1].thaw()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ],
)
async def test_a_group_that_will_not_have_the_member_is_an_error_of_the_poll(
    setup: Setup, code: ErrorCode
) -> None:
    cluster, group = setup
    async with cluster, member(cluster) as consumer:
        await consumer.subscribe(["t"])
        group.refuse_joins = [code]
        with pytest.raises(Refused) as caught:
            await read(consumer, 1)
        assert caught.value.code is code
        assert len(await read(consumer, 1)) == 1, "the next poll tries again"


async def test_a_member_replaced_by_one_of_its_name_is_out_for_good(setup: Setup) -> None:
    cluster, group = setup
    told: list[str] = []
    listener = RebalanceListener(on_lost=lambda partitions: told.append("lost"))
    async with cluster, member(cluster, group_instance_id="one") as consumer:
        await consumer.subscribe(["t"], listener=listener)
        await read(consumer, 1)
        group.refuse_joins = [ErrorCode.FENCED_INSTANCE_ID]
        group.rebalance()
        for _ in range(2):
            with pytest.raises(InstanceFenced, match="instance_id of its own"):
                await read(consumer, 100)
        assert told == ["lost"]


async def test_the_member_says_who_it_is(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster, group_instance_id="one") as consumer:
        assert consumer.group_metadata() == ConsumerGroupMetadata("g")
        await consumer.subscribe(["t"])
        await read(consumer, 1)
        assert consumer.group_metadata() == ConsumerGroupMetadata("g", 1, "m1", "one")
        with pytest.raises(ValueError, match="unsubscribe first"):
            consumer.assign([TP])
        await consumer.unsubscribe()
        consumer.assign([TP])
        assert consumer.group_metadata() == ConsumerGroupMetadata("g")


OLD: dict[int, tuple[int, int]] = {
    ApiKey.FIND_COORDINATOR: (0, 2),
    ApiKey.JOIN_GROUP: (2, 4),
    ApiKey.SYNC_GROUP: (0, 2),
    ApiKey.HEARTBEAT: (0, 2),
    ApiKey.LEAVE_GROUP: (0, 2),
    ApiKey.OFFSET_COMMIT: (2, 5),
    ApiKey.OFFSET_FETCH: (1, 4),
}


async def test_a_broker_of_many_years_ago_has_groups_too(setup: Setup) -> None:
    cluster, group = setup
    cluster.versions |= OLD
    async with cluster:
        async with member(cluster, enable_auto_commit=False) as consumer:
            await consumer.subscribe(["t"])
            await read(consumer, 40)
            await consumer.commit({TP: OffsetAndMetadata(11, "note")})
            assert await consumer.committed([TP, TP1]) == {
                TP: OffsetAndMetadata(11, "note"),
                TP1: None,
            }
        assert group.members == {}
        async with member(cluster) as consumer:
            await consumer.subscribe(["t"])
            assert len(await read(consumer, 29)) == 29


async def test_a_pattern_reads_topics_that_come_later(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster, metadata_max_age_ms=30) as consumer:
        cluster.create("t-x")
        await consumer.subscribe(re.compile(r"t.*"))
        assert consumer.subscription() == ["t", "t-x"]
        await read(consumer, 40)
        fill(cluster.create("t-y").partitions[0], 5)
        fill(cluster.create("not-t").partitions[0], 5)
        assert {record.topic for record in await read(consumer, 5)} == {"t-y"}
        assert len(consumer.assignment()) == 4


async def test_a_pattern_is_read_alone_without_a_group(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster, metadata_max_age_ms=30, group_id=None) as consumer:
        await consumer.subscribe(re.compile(r"t|u"))
        await read(consumer, 40)
        fill(cluster.create("u").partitions[0], 5)
        assert {record.topic for record in await read(consumer, 5)} == {"u"}


async def test_new_partitions_make_the_leader_assign_anew(setup: Setup) -> None:
    cluster, group = setup
    async with cluster, member(cluster, metadata_max_age_ms=30) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 40)
        more = cluster.create("more").partitions
        fill(more[0], 5)
        cluster.topics["t"].partitions += more
        assert {record.partition for record in await read(consumer, 5)} == {2}
        assert group.generation == 2
    reasons = [request.reason for request in cluster.sent(ApiKey.JOIN_GROUP)]
    assert "t has 3 partitions, 2 when they were assigned" in reasons


async def test_two_polls_at_a_time_are_refused(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster) as consumer:
        consumer.assign([TP])
        await read(consumer, 20)
        waiting = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentPoll):
            await consumer.poll(10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await consumer.poll(10) == []


async def test_callbacks_may_wait_and_what_they_raise_the_poll_raises(setup: Setup) -> None:
    cluster, group = setup
    angry = True
    assigned: list[int] = []

    async def on_assigned(partitions: Sequence[TopicPartition]) -> None:
        assigned.append(len(partitions))
        for partition in partitions:
            consumer.seek(partition, 15)
        await consumer.commit()

    def on_revoked(partitions: Sequence[TopicPartition]) -> None:
        if angry:
            raise ZeroDivisionError

    listener = RebalanceListener(on_assigned, on_revoked)
    async with cluster, member(cluster, partition_assignment_strategy="range") as consumer:
        await consumer.subscribe(["t"], listener=listener)
        assert sorted(numbers(await read(consumer, 10))) == sorted([*range(15, 20)] * 2)
        assert group.commits == [{TP: 15, TP1: 15}]
        group.rebalance()
        with pytest.raises(ZeroDivisionError):
            await read(consumer, 1)
        assert group.commits[-1] == {TP: 20, TP1: 20}, "the commit was made before the call"
        angry = False
        async with asyncio.timeout(10):
            while assigned != [2, 2]:
                await consumer.poll(50)


async def test_who_loses_partitions_to_a_close_may_still_commit_but_not_poll(setup: Setup) -> None:
    cluster, group = setup
    refused: list[str] = []

    async def on_revoked(partitions: Sequence[TopicPartition]) -> None:
        await consumer.commit(dict.fromkeys(partitions, OffsetAndMetadata(7)))
        try:
            await consumer.poll()
        except ClientClosed as error:
            refused.append(str(error))

    listener = RebalanceListener(on_revoked=on_revoked)
    async with cluster, member(cluster, enable_auto_commit=False) as consumer:
        await consumer.subscribe(["t"], listener=listener)
        await read(consumer, 1)
        await consumer.close()
    assert group.commits == [{TP: 7, TP1: 7}]
    assert refused == ["the consumer is closing"]


async def test_keys_and_values_of_ones_own_types(setup: Setup) -> None:
    cluster, _ = setup

    def refuse_unlucky(value: bytes) -> int:
        number = int(value)
        if number == 13:
            raise ZeroDivisionError("unlucky")
        return number

    def make() -> Consumer[str, int]:
        return Consumer(
            cluster.bootstrap,
            key_deserializer=bytes.decode,
            value_deserializer=refuse_unlucky,
            auto_offset_reset="earliest",
        )

    async with cluster, make() as consumer:
        consumer.assign([TP])
        got: list[ConsumerRecord[str, int]] = []
        while len(got) < 13:
            got += await consumer.poll(1000)
        assert [record.value for record in got] == list(range(13))
        assert got[0].key == "k"
        with pytest.raises(BadRecord) as caught:
            await consumer.poll(1000)
        assert (caught.value.partition, caught.value.offset) == (TP, 13)
        assert isinstance(caught.value.cause, ZeroDivisionError)
        with pytest.raises(BadRecord):
            await consumer.poll(1000)
        consumer.seek(TP, caught.value.offset + 1)
        assert [record.value for record in await consumer.poll(1000)] == list(range(14, 20))


class Watching(ConsumerInterceptor[bytes, bytes]):
    def __init__(self) -> None:
        self.commits: list[Mapping[TopicPartition, OffsetAndMetadata]] = []

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [record for record in records if record.offset % 2]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits.append(offsets)


async def test_interceptors_see_records_and_commits(setup: Setup) -> None:
    cluster, _ = setup
    watching = Watching()
    async with cluster, member(cluster, interceptors=[watching]) as consumer:
        consumer.assign([TP])
        got: list[ConsumerRecord] = []
        while len(got) < 10:
            got += await consumer.poll(1000)
        assert numbers(got) == [*range(1, 20, 2)]
        await consumer.commit()
        assert [dict(one) for one in watching.commits] == [{TP: OffsetAndMetadata(20, "", 0)}]


async def test_metrics_have_kafkas_names(setup: Setup) -> None:
    cluster, _ = setup
    async with cluster, member(cluster) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 30)
        await consumer.commit()
        found = consumer.metrics()
        assert found["records-consumed-total"] == 30
        assert found["records-lag-max"] + found["records-consumed-total"] >= 30
        assert (found["commit-total"], found["rebalance-total"]) == (1, 1)
        assert found["assigned-partitions"] == 2
        assert found["commit-latency-avg"] >= 0
        assert found["bytes-consumed-total"] > 0
        assert consumer.lag() == 10
