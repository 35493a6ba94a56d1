"""Scenarios D: brokers that die, stop, pause, lose a disk or find strange logs.

Registration, fencing and leases as the controller sees them are in test_d_lifecycle.py.
"""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from minikafka.protocol.control.records import RemoveTopicRecord, TopicRecord
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest

from ..broker.node_support import ME, ORDERS, Node, batch, record, state
from ..simulation.stage import Stage, staged

MIN_2 = {"min.insync.replicas": "2"}
MANY = 300


@staged()
async def test_d_01_every_partition_of_a_killed_leader_has_another_and_all_its_records(
    stage: Stage,
) -> None:
    """Given a broker that leads many partitions; when it is killed; then all of them have new
    leaders within 200 ms, with every acknowledged record. 300 partitions here; the time with real
    processes is in the benchmarks."""
    await stage.create_topic("t", [[1, 2, 3]] * MANY, configs=MIN_2)
    producer = await stage.producer()
    acks = [producer.send("t", b"%d" % index, index) for index in range(MANY)]
    for ack in acks:
        await ack
    stage.kill(1)
    killed = stage.now
    leaders = stage.image().topics[stage.image().topic_ids["t"]].partitions

    def led_elsewhere() -> bool:
        return all(
            stage.partition(found.leader, "t", index).leader is not None
            for index, found in leaders.items()
            if found.leader in (2, 3)
        ) and all(found.leader in (2, 3) for found in leaders.values())

    await stage.until(led_elsewhere, "new leaders for all", 1)
    assert stage.now - killed < 0.2
    for index in (0, 7, MANY - 1):
        assert await stage.read("t", index) == [b"%d" % index]
    for index in range(MANY):
        assert stage.partition(leaders[index].leader, "t", index).log_end_offset == 1


@staged()
async def test_d_02_a_stop_moves_leaders_first_and_no_write_fails(stage: Stage) -> None:
    """Given writes under way to a leader; when it gets SIGTERM; then its partitions are led by
    others before it exits, no write fails, none is lost, and the pause is short."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    producer = await stage.producer()
    await producer.send("t", b"0")
    longest, last, written = 0.0, stage.now, 1
    stage.terminate(1)
    while stage.daemon(1).alive or written < 50:
        await producer.send("t", b"%d" % written)
        longest, last, written = max(longest, stage.now - last), stage.now, written + 1
        await stage.sleep(0.005)
    assert stage.state("t").leader == 2
    assert 1 not in stage.state("t").isr
    assert longest < 0.1
    assert await stage.read("t") == [b"%d" % n for n in range(written)]
    assert not [line for line in stage.logs(1) if "did not let us go" in line]


@staged()
async def test_d_09_a_leader_that_was_paused_acknowledges_nothing_of_its_old_epoch(
    stage: Stage,
) -> None:
    """Given a leader stopped for 20 s, with a write on its way to it; when it goes on, believing
    that it leads; then that write is not acknowledged by it, and ends up in the log once or not at
    all, as its producer was told."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    producer = await stage.producer(delivery_timeout_ms=120_000)
    await producer.send("t", b"0")
    stage.pause(1)
    waiting = producer.send("t", b"1")
    await stage.until(lambda: stage.state("t").leader != 1, "another leads")
    await stage.sleep(20)
    zombie = stage.partition(1, "t")
    assert zombie.leader is not None, "it has heard nothing"
    stage.resume(1)
    assert (await waiting).offset == 1
    await stage.until(lambda: zombie.leader is None, "it has heard")
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    assert await stage.read("t") == [b"0", b"1"]


@staged()
async def test_d_10_clocks_that_jump_change_no_epoch_and_no_offset(stage: Stage) -> None:
    """Given wall clocks an hour ahead on one broker and an hour behind on another and on the
    controller; then nobody is fenced, no leader changes, and idempotent writes go on as before."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    producer = await stage.producer()
    await producer.send("t", b"0")
    before = stage.state("t")
    hour_ms = 3_600_000
    for who, skew_ms in ((1, hour_ms), (2, -hour_ms), ("controller-1", -hour_ms)):
        stage.skew(who, skew_ms)
    for n in range(1, 20):
        assert (await producer.send("t", b"%d" % n)).offset == n
        await stage.sleep(0.5)
    for who, skew_ms in ((1, -2 * hour_ms), (3, hour_ms), ("controller-1", 2 * hour_ms)):
        stage.skew(who, skew_ms)
    for n in range(20, 30):
        assert (await producer.send("t", b"%d" % n)).offset == n
        await stage.sleep(0.5)
    assert stage.state("t") == before
    assert not any(stage.is_fenced(each) for each in (1, 2, 3))
    assert await stage.read("t") == [b"%d" % n for n in range(30)]


def led_and_shared(stage: Stage, broker: int, topic: str) -> tuple[list[int], list[int]]:
    """The partitions whose log on this broker is in its first directory, and in its second."""
    replicas = stage.broker(broker).parts.partitions
    first = replicas.store.directories[0]
    indexes = stage.image().topics[stage.image().topic_ids[topic]].partitions
    there = [
        replicas.directory_of(stage.partition(broker, topic, each)) is first for each in indexes
    ]
    return [i for i in indexes if there[i]], [i for i in indexes if not there[i]]


TWO_DISKS = {"log.dirs": "/data/one,/data/two", "log.dir.failure.timeout.ms": "5000"}


@staged(broker=TWO_DISKS)
async def test_d_11_when_one_of_two_disks_fails_only_its_partitions_move(stage: Stage) -> None:
    """Given a broker with two directories; when one gives EIO; then others lead its partitions, the
    broker goes on leading the rest and is never fenced, and it returns to no ISR of the lost ones
    before it has restarted with a working disk."""
    await stage.create_topic("t", [[1, 2, 3]] * 4, configs=MIN_2)
    producer = await stage.producer()
    for index in range(4):
        await producer.send("t", b"0", index)
    lost, kept = led_and_shared(stage, 1, "t")
    assert (len(lost), len(kept)) == (2, 2)
    disk = stage.disk(1)
    disk.fail_write = lambda path: errno.EIO if "/data/one" in path else None
    acks = [producer.send("t", b"1", index) for index in range(4)]
    for ack in acks:
        await ack
    assert [stage.state("t", each).leader for each in kept] == [1, 1]
    assert 1 not in [stage.state("t", each).leader for each in lost]
    assert all(stage.state("t", each).offline == (1,) for each in lost)
    assert not stage.is_fenced(1)
    await stage.sleep(5)
    assert all(1 not in stage.state("t", each).isr for each in lost)
    assert stage.daemon(1).alive
    disk.mend()
    stage.restart(1)
    await stage.ready(1)
    await stage.until(
        lambda: all(len(stage.state("t", each).isr) == 3 for each in range(4)), "all in sync", 20
    )
    for index in range(4):
        assert await stage.read("t", index) == [b"0", b"1"]


@staged(broker=TWO_DISKS)
async def test_d_11_a_broker_that_cannot_tell_of_its_failed_disk_stops(stage: Stage) -> None:
    """Given the same, and no controller that can be reached; when log.dir.failure.timeout.ms has
    passed; then the broker stops by itself: clients would wait for what it cannot serve."""
    await stage.create_topic("t", [[1, 2, 3]] * 2, configs=MIN_2)
    await stage.send("t", b"0")
    stage.cut(1, "controller-1")
    disk = stage.disk(1)
    disk.fail_write = lambda path: errno.EIO if "/data/one" in path else None
    writer = await stage.producer(acks="1")
    for index in (0, 1):
        writer.send("t", b"1", index)
    await stage.sleep(4)
    assert stage.daemon(1).alive
    await stage.until(lambda: not stage.daemon(1).alive, "it has stopped", 3)
    assert any("no controller heard of it for 5000 ms" in line for line in stage.logs(1))


async def test_d_12_a_topic_deleted_and_made_again_in_one_delta_starts_empty(
    tmp_path: Path,
) -> None:
    """Given a topic with records; when its deletion and a new one of its name arrive as one delta;
    then the new one is empty, and nothing of the old one is answered or left on disk."""
    node = await Node(tmp_path).start()
    old = await node.give(state(ME, isr=(ME,)))
    node.produce(b"a")
    reborn = b"another-topic-id"
    again = record(0, state(ME, isr=(ME,)))
    await node.apply(
        RemoveTopicRecord(ORDERS),
        TopicRecord("orders", reborn),
        replace(again, topic_id=reborn),
    )
    found = node.partitions.get(reborn, 0)
    assert not isinstance(found, ErrorCode)
    assert (found.log_end_offset, found.leader_epoch) == (0, 1)
    assert node.partitions.get(ORDERS, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert old.offline_because is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    data = batch(b"b")
    appended = found.append_as_leader(memoryview(data), acks=1, wall_ms=0)
    node.partitions.write_staged()
    assert (appended.error, appended.base_offset) == (ErrorCode.NONE, 0)
    await node.stop()


async def test_d_13_a_log_that_nobody_knows_is_put_aside_and_never_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Given a partition's directory that the metadata does not know; when the broker starts; then
    it is put aside, not deleted; a partition of that name and number begins empty."""
    node = await Node(tmp_path).start()
    await node.give(state(ME, isr=(ME,)))
    node.produce(b"a")
    await node.stop()
    again = await Node(tmp_path).start()
    again.partitions.store.quarantine_strays()
    (stray,) = (path for path in (tmp_path / "data").iterdir() if path.is_dir())
    assert stray.name.startswith("orders-0.")
    assert stray.name.endswith("-stray")
    assert any(path.suffix == ".log" for path in stray.iterdir())
    assert "orders-0 is not in the metadata" in caplog.text
    partition = await again.give(state(ME, isr=(ME,)))
    assert partition.log_end_offset == 0
    await again.stop()


@staged()
async def test_d_14_a_dead_broker_is_forgotten_and_may_come_back(stage: Stage) -> None:
    """Given a broker that was killed; when it is unregistered; then no broker lists it, partitions
    go on without it, and if it starts after all it registers anew, catches up and is in sync."""
    await stage.create_topic("t", [[3, 1, 2]], configs=MIN_2)
    await stage.send("t", b"0")
    stage.kill(3)
    await stage.until(lambda: stage.is_fenced(3), "its death is known")
    await stage.admin(lambda admin: admin.unregister_broker(3))
    assert sorted(stage.image().brokers) == [1, 2]
    described = await stage.ask(1, DescribeClusterRequest(include_fenced_brokers=True))
    assert [each.broker_id for each in described.brokers] == [1, 2]
    await stage.send("t", b"1")
    assert stage.state("t").replicas == (3, 1, 2)
    with pytest.raises(ApiError, match="BROKER_ID_NOT_REGISTERED"):
        await stage.admin(lambda admin: admin.unregister_broker(3))
    stage.start(3)
    await stage.ready(3)
    await stage.until(lambda: sorted(stage.state("t").isr) == [1, 2, 3], "it is in sync")


@staged()
async def test_d_15_a_living_broker_that_is_forgotten_registers_again(stage: Stage) -> None:
    """Given a leader that runs; when it is unregistered; then another one leads at once, and it
    registers again by itself and follows, with every acknowledged record there."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    before = stage.image().brokers[1].broker_epoch
    await stage.admin(lambda admin: admin.unregister_broker(1))
    assert stage.state("t").leader == 2
    await stage.send("t", b"1")
    await stage.until(lambda: sorted(stage.state("t").isr) == [1, 2, 3], "it is in sync again")
    assert stage.image().brokers[1].broker_epoch > before
