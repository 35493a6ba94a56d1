"""Metrics of what groups have committed and have yet to read, here and on other leaders."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.metrics import group_lag
from minikafka.broker.partition.partition import Partition
from minikafka.broker.peers import PeerFailed
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_lag import (
    DescribeLagRequest,
    DescribeLagResponse,
    PartitionLag,
    TopicLag,
)
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from ..support.scrape import Scrape
from .channel_support import until
from .group_support import T_ID, commit_request
from .metrics_support import Told
from .node_support import ME, ORDERS, WALL_MS, B, batch, state

HERE: dict[str, str | int] = {"consumergroup": "g", "topic": "t", "partition": 0}
THERE: dict[str, str | int] = {"consumergroup": "g", "topic": "orders", "partition": 0}
GROUP, LAG = "kafka_consumergroup_", "minikafka_consumergroup_lag_"


class Others:
    """The other brokers, and this one as it asks itself."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.asked: list[tuple[int, Any]] = []
        self.is_down = False

    async def ask(self, broker_id: int, message: Any, *, lane: str) -> Any:
        self.asked.append((broker_id, message))
        if broker_id == ME:
            return await self.told.ask(message, 0)
        if self.is_down:
            raise PeerFailed("it is gone")
        if isinstance(message, ListOffsetsRequest):
            end = ListOffsetsPartitionResponse(partition_index=0, offset=30)
            topic = ListOffsetsTopicResponse(name="orders", partitions=[end])
            return ListOffsetsResponse(topics=[topic])
        assert isinstance(message, DescribeLagRequest)
        row = PartitionLag(
            partition_index=0, records=17, size_bytes=900, oldest_timestamp=WALL_MS - 4_000
        )
        return DescribeLagResponse(topics=[TopicLag(name="orders", partitions=[row])])

    def requests(self, kind: type) -> list[tuple[int, Any]]:
        return [each for each in self.asked if isinstance(each[1], kind)]


class Grouped(Told):
    others: Others

    async def scraped(self) -> Scrape:
        """The second scrape, after what the first one has asked for is there."""
        self.now_ms += group_lag.ASK_EVERY_MS
        self.scrape()
        await until(lambda: not self.lag._asking.is_running)
        return self.scrape()

    def put(self, *values: bytes) -> None:
        """Records for partition 0 of `t`."""
        partition = self.partitions.get(T_ID, 0)
        assert isinstance(partition, Partition)
        appended = partition.append_as_leader(memoryview(batch(*values)), 1, WALL_MS)
        assert not appended.error
        self.partitions.write_staged()


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Grouped]:
    made = Grouped(tmp_path)
    await made.begin()
    made.others = Others(made)
    made.peers.ask = made.others.ask  # type: ignore[method-assign]
    yield made
    await made.end()


@pytest.mark.moves("kafka_consumergroup_members")
async def test_committed_offsets_and_members_are_told(told: Grouped) -> None:
    joined = await told.stable()
    told.put(b"a")
    await told.commit((0, 1), (1, 5), generation_id_or_member_epoch=1, member_id=joined.member_id)
    found = told.scrape()
    assert found(GROUP + "current_offset", **HERE) == 1
    assert found(GROUP + "current_offset_sum", consumergroup="g", topic="t") == 6
    assert found(GROUP + "members", consumergroup="g") == 1
    leaving = MemberIdentity(member_id=joined.member_id)
    await told.ask(LeaveGroupRequest(group_id="g", members=[leaving]), 4)
    after = told.scrape()
    assert after(GROUP + "members", consumergroup="g") == 0
    assert after(GROUP + "current_offset", **HERE) == 1


@pytest.mark.moves(
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_lag_sum",
    "minikafka_consumergroup_lag_bytes",
    "minikafka_consumergroup_lag_records",
    "minikafka_consumergroup_lag_seconds",
)
async def test_lag_in_what_is_led_here_is_told_at_once_and_its_time_after_a_look(
    told: Grouped,
) -> None:
    told.put(b"a", b"b", b"c")
    await told.commit((0, 3), (1, 0))
    assert told.scrape()(GROUP + "lag", **HERE) == 0
    assert told.scrape()(LAG + "seconds", **HERE) == 0
    told.put(b"d", b"e")
    found = told.scrape()
    assert found(GROUP + "lag", **HERE) == 2
    assert found(GROUP + "lag_sum", consumergroup="g", topic="t") == 2
    assert found.every(LAG + "records", **HERE) == []
    told.runtime.wall_ms = lambda: WALL_MS + 7_000  # type: ignore[method-assign]
    looked = await told.scraped()
    assert looked(LAG + "records", **HERE) == 2
    assert looked(LAG + "bytes", **HERE) == len(batch(b"d", b"e"))
    assert looked(LAG + "seconds", **HERE) == 7
    await told.commit((0, 5))
    caught_up = told.scrape()
    assert caught_up(GROUP + "lag", **HERE) == 0
    assert caught_up(LAG + "records", **HERE) == 0
    assert caught_up(LAG + "seconds", **HERE) == 0


async def commit_there(told: Grouped, offset: int, group_id: str = "g") -> None:
    request = commit_request((0, offset), group_id=group_id, topic="orders", topic_id=ORDERS)
    (topic,) = (await told.ask(request, 9)).topics
    assert not topic.partitions[0].error_code


async def test_lag_in_what_others_lead_comes_from_them(told: Grouped) -> None:
    await told.give(state(B))
    await commit_there(told, 10)
    assert told.scrape().every(GROUP + "lag", **THERE) == []
    found = await told.scraped()
    assert found(GROUP + "lag", **THERE) == 20
    assert found(LAG + "records", **THERE) == 17
    assert found(LAG + "bytes", **THERE) == 900
    assert found(LAG + "seconds", **THERE) == 4
    told.others.is_down = True
    gone = await told.scraped()
    assert gone.every(GROUP + "lag", **THERE) == []
    assert gone(GROUP + "current_offset", **THERE) == 10


async def test_leaders_are_asked_no_more_often_than_may_be_however_often_one_scrapes(
    told: Grouped,
) -> None:
    await told.give(state(B))
    await commit_there(told, 10)
    await told.scraped()
    for _ in range(5):
        told.now_ms += group_lag.ASK_EVERY_MS // 6
        told.scrape()
    assert len(told.others.requests(ListOffsetsRequest)) == 1
    await told.scraped()
    assert len(told.others.requests(ListOffsetsRequest)) == 2


async def test_groups_that_read_the_same_partition_are_asked_about_in_turn(told: Grouped) -> None:
    await told.give(state(B))
    await commit_there(told, 10)
    await commit_there(told, 20, group_id="h")
    await told.scraped()
    found = await told.scraped()
    asked = [
        message.topics[0].partitions[0].committed_offset
        for _, message in told.others.requests(DescribeLagRequest)
    ]
    assert asked == [10, 20]
    assert sorted(found.every(LAG + "records", topic="orders")) == [17, 17]


async def test_a_partition_without_a_leader_has_no_lag(told: Grouped) -> None:
    await told.give(state(B))
    await commit_there(told, 10)
    await told.change(state(-1, leader_epoch=2, partition_epoch=2))
    found = await told.scraped()
    assert found.every(GROUP + "lag", **THERE) == []
    assert told.others.asked == []


@pytest.mark.moves("minikafka_consumergroup_offsets_left_out")
async def test_so_many_offsets_are_told_and_the_others_counted(
    told: Grouped, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told.commit((0, 1), (1, 2), (2, 3))
    assert told.scrape()("minikafka_consumergroup_offsets_left_out") == 0
    monkeypatch.setattr(group_lag, "OFFSETS_MAX", 2)
    monkeypatch.setattr("minikafka.broker.metrics.groups.OFFSETS_MAX", 2)
    found = told.scrape()
    assert len(found.every(GROUP + "current_offset")) == 2
    assert found("minikafka_consumergroup_offsets_left_out") == 1


async def test_a_group_whose_id_is_too_long_for_a_label_is_left_out(told: Grouped) -> None:
    await told.commit((0, 1))
    for group_id in ("x" * group_lag.NAME_MAX, "y" * (group_lag.NAME_MAX + 1)):
        await told.commit((0, 2), (1, 2), group_id=group_id)
    found = told.scrape()
    assert sorted(found.every(GROUP + "current_offset")) == [1, 2, 2]
    assert found("minikafka_consumergroup_offsets_left_out") == 2
    assert len(found.every(GROUP + "members")) == 2


async def test_an_error_of_one_partition_is_no_answer(told: Grouped) -> None:
    told.put(b"a")
    await told.commit((0, 0))
    row = PartitionLag(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer = DescribeLagResponse(topics=[TopicLag(name="t", partitions=[row])])
    told.lag._note(answer, {("t", 0): "g"})
    assert told.lag.unread("g", ("t", 0)) is None


async def test_asking_ends_with_the_broker_though_a_leader_does_not_answer(
    told: Grouped, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()

    async def ask(broker_id: int, message: Any, *, lane: str) -> Any:
        await answered.wait()

    monkeypatch.setattr(told.peers, "ask", ask)
    await told.give(state(B))
    await told.commit((0, 3), topic="orders")
    told.scrape()
    await asyncio.sleep(0)
    told.now_ms += group_lag.ASK_EVERY_MS
    told.scrape()

    def asking() -> int:
        return sum(each.get_name() == "lag of groups" for each in asyncio.all_tasks())

    assert asking() == 1
    await told.lag.close()
    assert asking() == 0
