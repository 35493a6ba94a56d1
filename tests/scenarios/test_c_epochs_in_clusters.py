"""Scenarios C: the rules of test_c_epochs.py over real logs, and in whole clusters."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from minikafka.broker.partition.requests import FetchSpec
from minikafka.broker.replica.follower import Phase
from minikafka.client.errors import LogTruncated
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import OffsetAndEpoch, TopicPartition

from ..broker.node_support import ME, B, C, Node, state
from ..simulation.stage import Stage, staged

MIN_2 = {"min.insync.replicas": "2"}


async def equal_logs(stage: Stage, *brokers: int, topic: str = "t") -> None:
    """Every replica in sync, and every log the same, byte for byte."""
    await stage.until(lambda: len(stage.state(topic).isr) == len(brokers), "all in sync", 20)
    first, *others = brokers
    await stage.until(
        lambda: all(stage.log(each, topic) == stage.log(first, topic) for each in others),
        "equal logs",
    )


def is_later(stage: Stage, epoch: int) -> bool:
    """Has somebody been elected since that leader epoch?"""
    found = stage.state("t")
    return found.leader_epoch > epoch and found.leader > 0


@staged()
async def test_c_01_a_follower_that_restarts_and_is_elected_has_what_it_had(stage: Stage) -> None:
    """Given m2 acknowledged and a follower whose checkpoint of the high watermark is older; when
    that follower is killed and started, and then the leader and the other follower die; then it is
    elected, with m2."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"m1", b"m2")
    stage.restart(2)
    await stage.ready(2)
    await stage.until(lambda: 2 in stage.state("t").isr, "in sync")
    stage.kill(3)
    await stage.until(lambda: 3 not in stage.state("t").isr, "3 is out")
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader == 2, "2 leads")
    assert [batch.base_offset for batch in stage.log(2, "t")] == [0, 1]
    stage.start(1, 3)
    await equal_logs(stage, 1, 2, 3)
    assert await stage.read("t") == [b"m1", b"m2"]


@staged()
async def test_c_03_tails_of_three_leaders_in_a_row_end_as_one_log(stage: Stage) -> None:
    """Given three leaders one after the other, each with an acks=1 tail that nobody else got; when
    all are back; then every log is equal, without a gap and without an offset twice."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"first")
    for turn in range(3):
        leader = stage.state("t").leader
        writer = await stage.producer(f"writer-{turn}", acks="1")
        stage.cut(leader, *[each for each in (1, 2, 3) if each != leader])
        for n in range(turn + 1):
            await writer.send("t", b"tail of %d: %d" % (leader, n))
        epoch = stage.state("t").leader_epoch
        stage.kill(leader)
        await stage.until(partial(is_later, stage, epoch), "another leads")
        stage.heal()
        await stage.send("t", b"after %d" % turn)
        stage.start(leader)
        await stage.ready(leader)
        await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync", 20)
    await equal_logs(stage, 1, 2, 3)
    offsets = [batch.base_offset for batch in stage.log(1, "t")]
    assert offsets == sorted(dict.fromkeys(offsets))
    values = await stage.read("t")
    assert values[0] == b"first"
    assert [value for value in values if value.startswith(b"after")] == [
        b"after 0",
        b"after 1",
        b"after 2",
    ]


@staged()
async def test_c_20_a_tail_below_the_start_of_the_next_leader_is_never_read(stage: Stage) -> None:
    """Given a leader that dies with an acks=1 tail, and another one whose records at the same
    offsets are deleted meanwhile; when the first is back and in sync; then nothing of its tail is
    on its disk, and a crash that makes it forget where its log began shows none of it."""
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "1"})
    await stage.send("t", b"first")
    writer = await stage.producer("writer", acks="1")
    epoch = stage.state("t").leader_epoch
    stage.cut(1, 2, 3)
    for _ in range(8):
        await writer.send("t", b"tail")
    stage.kill(1)
    await stage.until(partial(is_later, stage, epoch), "another leads")
    stage.heal()
    await stage.send("t", *[b"next"] * 5)
    await stage.admin(lambda admin: admin.delete_records({TopicPartition("t", 0): 4}))
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync", 20)
    assert stage.partition(1, "t").log_start_offset == 4
    assert [batch.base_offset for batch in stage.log(1, "t")] == [4, 5]
    stage.kill(2, 3)
    await stage.until(lambda: stage.state("t").leader == 1, "1 leads")
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader < 0, "nobody leads")
    stage.start(1)
    await stage.until(lambda: stage.state("t").leader == 1, "1 leads again")
    assert await stage.read("t") == [b"next", b"next"]


async def test_c_14_an_epoch_file_that_is_ahead_of_the_log_is_trimmed_by_it(
    tmp_path: Path,
) -> None:
    """Given an unclean stop that left the epoch file with an epoch beyond the end of the log, and
    one below its start; when the log is loaded; then both are gone."""
    node = await Node(tmp_path).start()
    await node.give(state(ME, isr=(ME, B)))
    node.produce(b"a")
    node.produce(b"b")
    path = tmp_path / "data" / "orders-0" / "leader-epoch-checkpoint"
    for directory in node.partitions.store.directories:
        directory.abandon()
    path.write_text("0\n2\n1 0\n7 3\n")
    again = await Node(tmp_path).start()
    partition = await again.give(state(B, leader_epoch=8))
    assert list(partition.log.leader_epochs) == [(1, 0)]
    assert partition.follower is not None
    position = partition.follower.next_fetch(partition.log, 0)
    assert position is not None
    assert (position.offset, position.last_fetched_epoch) == (2, 1)
    await again.stop()


async def test_c_15_a_log_moved_to_another_directory_keeps_the_history_of_its_epochs(
    tmp_path: Path,
) -> None:
    """Given an idle partition led in epochs 1, 4 and 6, nothing written in the last two; when its
    log is moved to another directory; then the history is what it was, a follower that knows the
    last epoch is in sync, and in the next epoch it finds its place without losing anything."""
    node = await Node(tmp_path).start("one", "two")
    await node.give(state(ME, isr=(ME, B)))
    node.produce(b"a")
    for partition_epoch, epoch in enumerate((4, 6), start=2):
        await node.change(
            state(ME, isr=(ME, B), leader_epoch=epoch, partition_epoch=partition_epoch)
        )
    history = list(node[0].log.leader_epochs)
    assert history == [(1, 0), (6, 1)], "of epochs without a record the newest is enough"
    await node.stop()
    shutil.move(tmp_path / "one" / "orders-0", tmp_path / "two" / "orders-0")
    again = await Node(tmp_path).start("one", "two")
    partition = await again.give(state(ME, isr=(ME, B), leader_epoch=6, partition_epoch=3))
    assert again.partitions.directory_of(partition) is again.partitions.store.directories[1]
    assert list(partition.log.leader_epochs) == history
    again.fetched_by(B, offset=1, last_epoch=6)
    assert partition.leader is not None
    assert partition.leader.followers[B].log_end_offset == 1
    await again.change(state(ME, isr=(ME, B), leader_epoch=7, partition_epoch=4))
    told = partition.fetch(again.follower_fetch(B, 1, 6), again.now_ms)
    assert told.diverging == OffsetAndEpoch(1, 1), "where it ends itself: nothing is removed"
    again.fetched_by(B, offset=1, last_epoch=1)
    assert partition.leader.followers[B].log_end_offset == 1
    await again.stop()


async def test_c_17_a_fetcher_of_an_old_epoch_is_fenced_and_cannot_join(tmp_path: Path) -> None:
    """Given a follower that was cut off when a new epoch began; when it fetches in the old one, at
    the very end of the log; then FENCED_LEADER_EPOCH, it proves nothing and is not proposed."""
    node = await Node(tmp_path).start()
    await node.give(state(ME))
    node.produce(b"a")
    zombie = node.follower_fetch(C, 1, 1)
    await node.change(state(ME, isr=(ME, B), leader_epoch=2, partition_epoch=2))
    answer = node[0].fetch(zombie, node.now_ms)
    assert (answer.error, answer.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 2)
    assert node.proposals == []
    assert node[0].leader is not None
    assert node[0].leader.followers[C].log_end_offset == -1
    zombie.current_leader_epoch = 2
    assert node[0].fetch(zombie, node.now_ms).error == ErrorCode.NONE
    assert [broker for broker, _ in node.proposals[-1].isr] == [ME, B, C]
    await node.stop()


@staged()
async def test_c_18_a_follower_that_hears_of_an_epoch_first_asks_until_its_leader_has_too(
    stage: Stage,
) -> None:
    """Given a leader whose metadata lags; when its follower fetches in an epoch that the leader has
    not heard of; then nothing is truncated, and once the leader has heard they go on."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0", b"1")
    stage.block("controller-1", 2)
    stage.kill(1)
    await stage.until(lambda: stage.partition(3, "t").leader_epoch == 1, "3 has heard")
    follower = stage.partition(3, "t").follower
    assert follower is not None
    await stage.until(lambda: follower.phase is Phase.DELAYED, "refused by 2")
    assert stage.partition(2, "t").leader is None
    assert len(stage.log(3, "t")) == 2
    stage.heal()
    await stage.until(lambda: stage.partition(2, "t").leader is not None, "2 has heard")
    stage.start(1)
    await equal_logs(stage, 1, 2, 3)
    assert not [line for line in stage.logs() if "truncating" in line]
    assert await stage.read("t") == [b"0", b"1"]


async def test_c_19_a_leader_says_where_what_a_consumer_has_read_leaves_its_history(
    tmp_path: Path,
) -> None:
    """Given a leader of epoch 2 that begins at 1; when a consumer fetches at 3, having read up to
    there in epoch 1; then it is told that epoch 1 ends at 1, and gets no records."""
    node = await Node(tmp_path).start()
    await node.give(state(ME, isr=(ME, B)))
    node.produce(b"a")
    await node.change(state(ME, isr=(ME, B), leader_epoch=2, partition_epoch=2))
    for value in (b"b", b"c", b"d"):
        node.produce(value)
    node.fetched_by(B, offset=4, last_epoch=2)
    assert node[0].high_watermark == 4
    asked = FetchSpec(3, 1 << 20, current_leader_epoch=2, last_fetched_epoch=1)
    told = node[0].fetch(asked, node.now_ms)
    assert (told.diverging, bytes(told.records)) == (OffsetAndEpoch(1, 1), b"")
    same = FetchSpec(3, 1 << 20, current_leader_epoch=2, last_fetched_epoch=2)
    assert node[0].fetch(same, node.now_ms).records
    await node.stop()


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_c_19_a_consumer_is_told_that_what_it_has_read_is_gone(reset: str) -> None:
    """Given a consumer at 50 in the first epoch; when an unclean election truncates to 40 and new
    records reach 60; then it is told of the truncation at 40, or goes back there: it does not go on
    at 50 as if nothing had been."""

    async def story(stage: Stage) -> None:
        unclean = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        await stage.create_topic("t", [[1, 2]], configs=unclean)
        for n in range(40):
            await stage.send("t", b"old %d" % n)
        stage.kill(2)
        await stage.until(lambda: stage.state("t").isr == (1,), "alone")
        for n in range(40, 50):
            await stage.send("t", b"old %d" % n)
        client, consumer = await stage.consumer("reader", auto_offset_reset=reset)
        there = TopicPartition("t", 0)

        async def read(count: int) -> list[bytes]:
            found: list[bytes] = []
            while len(found) < count:
                found += [bytes(each.value or b"") for each in await consumer.poll(500)]
            return found

        async def begin() -> list[bytes]:
            consumer.assign([there])
            consumer.seek(there, 0)
            return await read(50)

        assert (await client.ask(begin))[-1] == b"old 49"
        stage.mute(1, 2, 3, 4, 5, 6, 8, 9, 11)
        stage.kill(1)
        stage.start(2)
        await stage.until(lambda: stage.state("t").leader == 2, "elected uncleanly", 20)
        for n in range(40, 60):
            await stage.send("t", b"new %d" % n)
        if reset == "none":
            with pytest.raises(LogTruncated) as caught:
                await client.ask(lambda: read(1))
            assert (caught.value.position, caught.value.diverging_offset) == (50, 40)
        else:
            values = await client.ask(lambda: read(20))
            assert values == [b"new %d" % n for n in range(40, 60)]

    Stage(brokers=2).play(story)
