"""Scenarios D: a replica moves between the directories of its broker."""

import asyncio
import errno
from itertools import count

from minikafka.aio import ElectionType
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.config import INT64_MAX

from ..simulation.moving import TWO_DISKS, ask_to_move, moved, other, place_of, rows
from ..simulation.stage import Ack, Stage, staged

SMALL = {"min.insync.replicas": "2", "segment.bytes": "1000"}
SLOWLY = {"replica.alter.log.dirs.io.max.bytes.per.second": "500"}
VALUES = [b"%03d" % n * 30 for n in range(40)]


@staged(broker=TWO_DISKS)
async def test_d_16_a_replica_that_leads_and_those_that_follow_move_while_they_are_written(
    stage: Stage,
) -> None:
    """Given a leader and a follower that move to their other disks while a producer writes; then
    every record is there once and in order, no role, epoch or ISR has changed, and a restart finds
    each replica where it went."""
    await stage.create_topic("t", [[1, 2, 3]], configs=SMALL)
    await stage.send("t", *VALUES)
    before = stage.state("t")
    producer = await stage.producer()
    acks: list[Ack] = []
    for broker in (1, 2):
        target = other(place_of(stage, broker))
        assert await ask_to_move(stage, broker, target) == ErrorCode.NONE
        while place_of(stage, broker) != target:
            acks.append(producer.send("t", b"%d" % len(acks)))
            await stage.sleep(0.002)
    for ack in acks:
        await ack
    expected = [*VALUES, *(b"%d" % n for n in range(len(acks)))]
    assert stage.state("t") == before
    assert await stage.read("t") == expected
    for broker in (1, 2):
        (row,) = await rows(stage, broker)
        assert (row.path, row.is_future) == (place_of(stage, broker), False)
        stage.restart(broker)
        await stage.ready(broker)
        assert place_of(stage, broker) == row.path
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all are in sync")
    assert await stage.read("t") == expected


@staged(brokers=1, broker=TWO_DISKS, seconds=2000.0)
async def test_d_17_a_stop_at_any_moment_of_a_move_loses_nothing(stage: Stage) -> None:
    """Given the only replica of a partition under flush.policy=group; when its broker dies, or its
    machine loses power, at any of the changes of the disk that a move makes; then every
    acknowledged record is there after the start, and one directory has the log."""
    settings = {"flush.policy": "group", "segment.bytes": "2000", "min.insync.replicas": "1"}
    await stage.create_topic("t", [[1]], configs=settings)
    expected = [b"first"]
    await stage.send("t", *expected)
    for operation in count(1, 2):
        target = other(place_of(stage, 1))
        stage._process(1).die_at_disk_operation = operation
        asking = asyncio.ensure_future(ask_to_move(stage, 1, target))
        await stage.sleep(1.0)
        has_died = not stage.daemon(1).alive
        asking.cancel()
        if operation % 4 == 1:
            stage.power_off(1)
            stage.power_on(1)
        else:
            stage.restart(1)
        await stage.ready(1)
        assert await stage.read("t") == expected
        if not has_died:
            assert operation > 40, "a move takes more changes than that"
            return
        expected.append(b"%d" % operation)
        await stage.send("t", expected[-1])


@staged(broker=TWO_DISKS)
async def test_d_18_a_disk_that_fails_under_a_copy_ends_the_move_and_the_replica_leads_on(
    stage: Stage,
) -> None:
    """Given a leader that is copied to a disk which fails; then the move is given up, the broker
    leads on with the old files, and the copy is gone after a restart with a working disk."""
    await stage.create_topic("t", [[1, 2, 3]], configs=SMALL)
    await stage.send("t", *VALUES)
    home = place_of(stage, 1)
    target = other(home)
    await stage.alter_configs(1, SLOWLY)
    await stage.sleep(0.5)
    assert await ask_to_move(stage, 1, target) == ErrorCode.NONE
    await stage.sleep(1.5)
    assert [each for each in await rows(stage, 1) if each.is_future]
    disk = stage.disk(1)
    disk.fail_write = lambda path: errno.ENOSPC if target in path else None
    await stage.until(lambda: not list(stage.broker(1).parts.edge.moves), "the move is over", 20)
    assert await stage.send("t", b"more") == [len(VALUES)]
    assert (stage.state("t").leader, place_of(stage, 1)) == (1, home)
    disk.mend()
    stage.restart(1)
    await stage.ready(1)
    assert [each.path for each in await rows(stage, 1)] == [home]
    await stage.alter_configs(1, dict.fromkeys(SLOWLY))
    await moved(stage, 1, target)
    assert await stage.read("t") == [*VALUES, b"more"]


@staged(broker=TWO_DISKS)
async def test_d_19_what_a_new_leader_cuts_off_is_cut_off_the_copy_too(stage: Stage) -> None:
    """Given a leader whose tail nobody else has, copied already; when another leads and the tail
    is cut off; then the copy lacks it too, and what moves is the log that all replicas have."""
    await stage.create_topic("t", [[1, 2, 3]], configs=SMALL)
    await stage.send("t", *VALUES)
    writer = await stage.producer("sender-1", acks="1")
    throttle = stage.partition(1, "t").host.throttles.moves
    throttle.rate = 0
    home = place_of(stage, 1)
    assert await ask_to_move(stage, 1, other(home)) == ErrorCode.NONE
    (moving,) = stage.broker(1).parts.edge.moves
    stage.isolate(1, "sender-1")
    tail = [writer.send("t", b"tail%d" % n) for n in range(3)]
    for each in tail:
        await each
    disk = stage.daemon(1).host.disk
    disk.slow_sync_chance, disk.slow_sync_seconds = 1.0, 60.0
    throttle.rate = INT64_MAX
    await stage.until(lambda: moving.size_bytes and not moving.lag, "copied with its tail")
    await stage.until(lambda: stage.state("t").leader != 1, "another leads", 20)
    await stage.send("t", b"of the new leader")
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "1 is back", 20)
    assert any("truncating" in line for line in stage.logs(1))
    assert place_of(stage, 1) == home, "the tail was cut while it was copied"
    disk.mend()
    await stage.until(lambda: place_of(stage, 1) == other(home), "moved", 200)
    stage.restart(1)
    await stage.ready(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "1 is back", 20)
    await stage.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, None))
    await stage.until(lambda: stage.state("t").leader == 1, "1 leads")
    assert await stage.read("t") == [*VALUES, b"of the new leader"]
