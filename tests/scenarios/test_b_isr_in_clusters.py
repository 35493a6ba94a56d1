"""Scenarios B: the rules of test_b_isr.py in brokers with logs, and in whole clusters."""

from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from minikafka.broker.partition.leading import carry_out
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import Appended, FetchSpec
from minikafka.broker.replication.isr_proposals import IsrProposals
from minikafka.protocol.control.messages import (
    AlterPartitions,
    ChangedPartition,
    PartitionsAltered,
)
from minikafka.protocol.control.records import BROKER, TOPIC, BrokerChangeRecord, ConfigRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.types import TopicPartition

from ..broker.channel_support import FakeChannel, until
from ..broker.node_support import ME, ORDERS, B, C, Node, batch, state, values_in
from ..simulation.stage import Stage, staged

MIN_2 = {"min.insync.replicas": "2"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Broker 1 over a real directory; the test is its controller, its clients, its clock."""
    made = await Node(tmp_path).start()
    yield made
    await made.stop()


def consume(partition: Partition) -> list[bytes | None]:
    answer = partition.fetch(FetchSpec(0, 1 << 20), now_ms=0)
    assert answer.error == ErrorCode.NONE
    return values_in(answer.records)


def wait_for(node: Node, appended: Appended, within_ms: int = 9_000) -> list[str]:
    """What a producer that waits for all is told, once it is told."""
    told: list[str] = []
    partition = node[0]
    deadline_ms = node.now_ms + within_ms
    partition.when_committed(appended, deadline_ms, lambda: told.append(appended.error.name))
    return told


@staged()
async def test_b_01_a_silent_follower_leaves_and_writes_that_wait_complete(stage: Stage) -> None:
    """Given an ISR of three; when the third can reach the controller but not its leader for longer
    than replica.lag.time.max.ms; then it leaves, and what waited is acknowledged, all of it."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    producer = await stage.producer()
    stage.cut(1, 3)
    cut = stage.now
    acks = [producer.send("t", b"%d" % n) for n in range(1, 6)]
    await stage.sleep(1.0)
    assert not any(ack.done() for ack in acks)
    assert stage.state("t").isr == (1, 2, 3)
    assert [(await ack).offset for ack in acks] == [1, 2, 3, 4, 5]
    assert (stage.state("t").isr, stage.is_fenced(3)) == ((1, 2), False)
    assert stage.now - cut < 2.5, "1.5 s, and the time between two looks"
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "it is back")
    assert await stage.read("t") == [b"%d" % n for n in range(6)]


async def test_b_14_below_min_isr_acks_all_is_refused_before_anything_is_written(
    node: Node,
) -> None:
    """Given an ISR of one and min ISR 2; when acks=all arrives; then NOT_ENOUGH_REPLICAS, and the
    log ends where it ended."""
    partition = await node.give(state(ME, isr=(ME,)))
    assert node.produce(b"a", acks=-1).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0


async def test_b_15_what_was_appended_before_the_isr_shrank_commits_when_a_member_returns(
    node: Node,
) -> None:
    """Given an acks=all append with an ISR of two; when it shrinks to one before replication; then
    the write is not acknowledged and not visible; when the second returns it commits, and a repeat
    of the same batch gets the same offset."""
    partition = await node.give(state(ME, isr=(ME, B)))
    appended = node.append(batch(b"a", producer=(9, 0, 0)), acks=-1)
    told = wait_for(node, appended, within_ms=50)
    await node.change(state(ME, isr=(ME,), partition_epoch=2))
    node.now_ms += 60
    node.wheel._turn()
    assert told == ["REQUEST_TIMED_OUT"]
    assert consume(partition) == []
    await node.change(state(ME, isr=(ME, B), partition_epoch=3))
    again = node.append(batch(b"a", producer=(9, 0, 0)), acks=-1)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 0)
    told = wait_for(node, again)
    node.fetched_by(B, offset=1)
    assert told == ["NONE"]
    assert consume(partition) == [b"a"]


async def test_b_16_below_min_isr_acks_1_is_written_and_not_visible(node: Node) -> None:
    """Given an ISR of one and min ISR 2; when acks=1 writes; then it is acknowledged, and nobody
    can read it: the high watermark stands still."""
    partition = await node.give(state(ME, isr=(ME,)))
    appended = node.produce(b"a", acks=1)
    assert (appended.error, appended.base_offset) == (ErrorCode.NONE, 0)
    assert (partition.log_end_offset, partition.high_watermark) == (1, 0)
    assert consume(partition) == []


@staged()
async def test_b_18_a_new_leader_does_not_tell_an_end_before_its_epoch_commits(
    stage: Stage,
) -> None:
    """Given an end told as 3; when a follower that knows an older high watermark is elected and is
    not followed yet; then OFFSET_NOT_AVAILABLE, LEADER_NOT_AVAILABLE to clients too old to know
    that, and never less than 3."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0", b"1", b"2")
    stage.cut(2, 3)
    stage.partition(2, "t").follower.high_watermark = 1  # type: ignore[union-attr]
    stage.mute(9, 10)
    stage.kill(1)
    await stage.until(lambda: stage.partition(2, "t").leader is not None, "broker 2 leads")
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    told = {}
    for version in (4, 9):
        (topic,) = (await stage.ask(2, request, version)).topics
        told[version] = topic.partitions[0].error_code
    assert told == {4: ErrorCode.LEADER_NOT_AVAILABLE, 9: ErrorCode.OFFSET_NOT_AVAILABLE}
    stage.heal()

    async def end() -> int:
        (topic,) = (await stage.ask(2, request, 9)).topics
        assert topic.partitions[0].error_code in (0, ErrorCode.OFFSET_NOT_AVAILABLE)
        return -1 if topic.partitions[0].error_code else int(topic.partitions[0].offset)

    while (found := await end()) < 0:
        await stage.sleep(0.1)
    assert found == 3


@staged()
async def test_b_20_a_leader_that_is_cut_off_acknowledges_nothing_to_acks_all(
    stage: Stage,
) -> None:
    """Given a leader that only a producer can reach; when it writes with acks=all; then it is never
    acknowledged by that leader. With acks=1 it is, and is gone after the cut is healed, as
    documented."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    sure, quick = await stage.producer("sure"), await stage.producer("quick", acks="1")
    await sure.send("t", b"0")
    await quick.send("t", b"1")
    await stage.until(lambda: stage.partition(1, "t").high_watermark == 2, "both committed")
    stage.isolate(1, "sure", "quick")
    stage.cut("broker-2", "sure", "quick")
    stage.cut("broker-3", "sure", "quick")
    waiting = sure.send("t", b"all")
    lost = await quick.send("t", b"lost")
    assert lost.offset in (2, 3)
    await stage.until(lambda: stage.state("t").leader != 1, "another leads")
    await stage.sleep(3)
    assert not waiting.done()
    stage.heal()
    assert (await waiting).offset >= 2
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    values = await stage.read("t")
    assert values[:2] == [b"0", b"1"]
    assert values.count(b"all") == 1
    assert b"lost" not in values


@staged()
async def test_b_21_a_leader_alone_in_the_isr_may_go_on_without_the_controller(
    stage: Stage,
) -> None:
    """Given min ISR 1 and an ISR of one; when that leader cannot reach the controller but a
    producer can reach it; then it acknowledges, nobody else is elected, and nothing is lost."""
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "1"})
    producer = await stage.producer()
    await producer.send("t", b"0")
    stage.kill(2, 3)
    await stage.until(lambda: stage.state("t").isr == (1,), "alone in the ISR")
    stage.cut(1, "controller-1")
    await stage.until(lambda: stage.is_fenced(1), "given up by the controller")
    assert (await producer.send("t", b"1")).offset == 1
    assert stage.state("t").leader == -1
    stage.start(2, 3)
    await stage.ready(2)
    await stage.ready(3)
    assert stage.state("t").leader == -1
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    assert await stage.read("t") == [b"0", b"1"]


@staged()
async def test_b_22_with_unclean_elections_the_same_is_lost_and_said_so(stage: Stage) -> None:
    """Given B-21 with unclean election allowed; when another is elected meanwhile; then what the
    leader alone had is lost, and the loss is on record: RECOVERING, and a line that names it."""
    unclean = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    await stage.create_topic("t", [[1, 2, 3]], configs=unclean)
    producer = await stage.producer()
    await producer.send("t", b"0")
    stage.cut(1, 2, 3)
    alone = producer.send("t", b"1")
    await stage.until(lambda: stage.state("t").isr == (1,), "alone in the ISR")
    assert (await alone).offset == 1
    stage.mute(1, 2, 4, 5, 6, 8, 9)
    stage.isolate(1)
    await stage.until(lambda: stage.state("t").leader in (2, 3), "elected uncleanly")
    assert stage.state("t").unclean_epoch == stage.state("t").leader_epoch
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync", 20)
    assert await stage.read("t") == [b"0"]
    said = "t-0: unclean leader election lost offsets 1 to 1 (1 records)"
    await stage.until(lambda: any(said in line for line in stage.logs(1)), "said what is lost", 1)
    assert any("elected uncleanly" in line for line in stage.logs(stage.state("t").leader))


@staged()
async def test_b_23_a_broker_on_its_way_out_is_not_waited_for_and_does_not_return(
    stage: Stage,
) -> None:
    """Given a broker in controlled shutdown that the controller does not let go; then it has left
    every ISR, writes go on without it, it fetches no more, and nobody proposes it."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.create_topic("u", [[3, 1, 2]], configs=MIN_2)
    stage.pause(2)  # It lags in metadata, and while it is alive the controller waits for it.
    stage.terminate(3)
    await stage.until(lambda: stage.state("t").isr == (1, 2), "out of the ISR", 1.5)
    assert not stage.is_fenced(2)
    stage.resume(2)
    assert (await stage.send("t", b"0")) == [0]
    assert stage.state("t").isr == (1, 2)
    assert stage.state("u").leader in (1, 2)
    assert 3 not in stage.state("u").isr
    await stage.until(lambda: not stage.daemon(3).alive, "it may go")


async def test_b_23_what_is_outside_the_isr_is_followed_no_more_by_a_leaving_broker(
    node: Node,
) -> None:
    """Given a broker in controlled shutdown; then it goes on following what counts on it, and
    nothing else."""
    followed: dict[int, bool] = {}

    class Fetchers:
        def follow(self, partition: Partition) -> None:
            followed[partition.index] = True

        def unfollow(self, partition: Partition) -> None:
            followed[partition.index] = False

        def on_brokers_changed(self, brokers: object) -> None:
            pass

        async def settle(self) -> None:
            pass

    node.fetchers.real = Fetchers()  # type: ignore[assignment]
    await node.give(state(B, isr=(B, C)), state(B))
    assert followed == {0: True, 1: True}
    epoch = node.image.brokers[ME].broker_epoch
    await node.apply(BrokerChangeRecord(ME, epoch, in_controlled_shutdown=True))
    assert followed == {0: False, 1: True}
    await node.change(state(C, isr=(C,), leader_epoch=2, partition_epoch=2), index=1)
    assert followed == {0: False, 1: False}
    node.fetchers.real = None


async def test_b_25_an_answer_about_a_deleted_topic_is_not_applied_to_its_successor(
    node: Node,
) -> None:
    """Given a change under way; when the topic is deleted and made again under its name; then the
    answer that comes after that changes nothing of the new one."""
    channel = FakeChannel()
    proposals = IsrProposals(node.runtime, channel.as_channel(), ME)
    node.propose = proposals.propose
    await node.give(state(ME, isr=(ME,)))
    node.fetched_by(B, offset=0, last_epoch=-1)
    _, future = await channel.next_call()
    await node.forget_topic()
    await node.give(state(ME, isr=(ME,)))
    applied = ChangedPartition(
        ORDERS, 0, 0, leader=ME, leader_epoch=1, partition_epoch=2, isr=(ME, B)
    )
    future.set_result(PartitionsAltered(0, partitions=(applied,)))
    await until(lambda: not proposals._task.is_running)
    assert node[0].metadata.isr == (ME,)
    assert node[0].leader is not None
    assert node[0].leader.proposal is None
    await proposals.close()


async def test_b_26_two_thousand_shrinks_go_one_request_at_a_time_and_all_complete(
    node: Node,
) -> None:
    """Given 2,000 partitions that all lose a follower; then one request is in flight at a time, it
    carries all that wait, and none is forgotten."""
    channel = FakeChannel()
    proposals = IsrProposals(node.runtime, channel.as_channel(), ME)
    node.propose = proposals.propose
    count = 2_000
    await node.give(*[state(ME, isr=(ME, B))] * count)
    for partition in node.partitions:
        assert partition.leader is not None
        partition.leader.on_appended(1, node.now_ms)
    node.now_ms += 60_000
    for partition in node.partitions:
        assert partition.leader is not None
        carry_out(partition, partition.leader.on_lag_check(node.now_ms))
    changed, requests = 0, 0

    def agree(request: AlterPartitions) -> PartitionsAltered:
        nonlocal changed, requests
        assert channel.unanswered == 0, "one at a time"
        changed += len(request.changes)
        requests += 1
        return PartitionsAltered(
            0,
            partitions=tuple(
                ChangedPartition(
                    ORDERS,
                    each.partition,
                    0,
                    leader=ME,
                    leader_epoch=1,
                    partition_epoch=2,
                    isr=tuple(member.broker_id for member in each.isr),
                )
                for each in request.changes
            ),
        )

    while changed < count:
        await channel.answer(agree)
    await until(lambda: all(each.metadata.isr == (ME,) for each in node.partitions))
    assert (changed, requests) == (count, 1)
    await proposals.close()


async def test_b_28_a_throttle_never_holds_back_who_is_in_sync(node: Node) -> None:
    """Given replication throttled to next to nothing; then a member of the ISR gets all that it
    asks for, and whoever catches up gets its share and no more."""
    await node.give(state(ME, isr=(ME, B)))
    await node.apply(
        ConfigRecord(TOPIC, "orders", "leader.replication.throttled.replicas", "*"),
        ConfigRecord(BROKER, "", "leader.replication.throttled.rate", "100"),
    )
    node.produce(b"x" * 1000)

    def bytes_for(broker: int) -> int:
        return len(node[0].fetch(node.follower_fetch(broker, 0), node.now_ms).records)

    assert bytes_for(C) > 1000, "a batch goes whole"
    assert [bytes_for(C) for _ in range(3)] == [0, 0, 0]
    assert all(bytes_for(B) > 1000 for _ in range(3))
    node.now_ms += 11_000
    assert bytes_for(C) > 1000


@staged(brokers=4)
async def test_b_28_a_throttled_move_takes_its_time_and_writes_take_none(stage: Stage) -> None:
    """Given 300 KB to be copied to a new replica, throttled to 50 KB a second on both sides; then
    the copy takes as long as that says, writes to the members are as quick as ever, and in the end
    the new replica is in sync."""
    await stage.create_topic("t", [[1, 2, 3]], configs={**MIN_2, "segment.bytes": "65536"})
    for _ in range(30):
        await stage.send("t", b"x" * 10_000)
    for side in ("leader", "follower"):
        await stage.alter_configs("t", {f"{side}.replication.throttled.replicas": "*"})
        for broker in range(1, 5):
            await stage.alter_configs(broker, {f"{side}.replication.throttled.rate": "50000"})
    begun, moved = stage.now, {TopicPartition("t", 0): [1, 2, 3, 4]}
    await stage.admin(lambda admin: admin.alter_partition_reassignments(moved))
    longest = 0.0
    while 4 not in stage.state("t").isr:
        assert stage.now - begun < 20
        asked = stage.now
        await stage.send("t", b"y")
        longest = max(longest, stage.now - asked)
        await stage.sleep(0.1)
    assert stage.now - begun > 3
    assert longest < 0.1
    assert stage.state("t").replicas == (1, 2, 3, 4)


async def test_b_29_a_fetch_is_checked_and_recorded_in_one_step(node: Node) -> None:
    """Given a fetch of epoch 1 that arrives when epoch 2 has begun; then it is fenced and the new
    epoch knows nothing of that follower. Between check and record nothing else can run: the whole
    is one call without an await."""
    partition = await node.give(state(ME))
    node.produce(b"a")
    late = node.follower_fetch(B, 1, 1)
    await node.change(state(ME, leader_epoch=2, partition_epoch=2))
    answer = partition.fetch(late, node.now_ms)
    assert answer.error == ErrorCode.FENCED_LEADER_EPOCH
    assert partition.leader is not None
    assert partition.leader.followers[B].log_end_offset == -1
    assert not iscoroutinefunction(Partition.fetch)
    late.current_leader_epoch = 2
    assert partition.fetch(late, node.now_ms).error == ErrorCode.NONE
    assert partition.leader.followers[B].log_end_offset == 1
