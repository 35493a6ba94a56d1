"""AlterReplicaLogDirs, and what DescribeLogDirs shows of it, on the simulated loop."""

from dataclasses import replace

import pytest

from minikafka.broker.replica.move import Standing, Step, next_step
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.config import INT64_MAX
from tests.simulation.moving import (
    ONE,
    TWO,
    TWO_DISKS,
    Row,
    ask_to_move,
    moved,
    names,
    other,
    place_of,
    rows,
)
from tests.simulation.stage import Stage, staged

VALUES = [b"%03d" % n * 30 for n in range(40)]
BEGUN = Standing(is_wanted=True)
WHOLE = replace(BEGUN, is_whole=True, is_recorded=True)
HELD = replace(WHOLE, is_held=True, is_flushed=True, is_stable=True)


@pytest.mark.parametrize(
    ("standing", "step"),
    [
        (BEGUN, Step.COPY),
        (replace(BEGUN, is_whole=True), Step.RECORD),
        (WHOLE, Step.HOLD),
        (replace(WHOLE, is_whole=False), Step.COPY),
        (replace(HELD, is_flushed=False), Step.FLUSH),
        (HELD, Step.SWAP),
        (replace(HELD, is_whole=False), Step.RELEASE),
        (replace(HELD, is_stable=False), Step.RELEASE),
        (replace(HELD, is_wanted=False), Step.GIVE_UP),
        (Standing(is_wanted=False), Step.GIVE_UP),
    ],
)
def test_what_is_next(standing: Standing, step: Step) -> None:
    assert next_step(standing) is step


async def filled(stage: Stage, broker_count: int = 1) -> str:
    """Fill a topic, and return the directory that has its log on broker 1."""
    await stage.create_topic("t", [list(range(1, broker_count + 1))])
    await stage.send("t", *VALUES)
    return place_of(stage, 1)


def throttle(stage: Stage, rate: int) -> None:
    stage.partition(1, "t").host.throttles.moves.rate = rate


@staged(brokers=2, broker=TWO_DISKS)
async def test_what_cannot_be_moved_is_refused(stage: Stage) -> None:
    home = await filled(stage)
    assert await ask_to_move(stage, 1, "/data/three") == ErrorCode.LOG_DIR_NOT_FOUND
    unknown = await ask_to_move(stage, 1, TWO, topic="nothing")
    assert unknown == ErrorCode.REPLICA_NOT_AVAILABLE
    long = "t" * 240
    await stage.create_topic(long, [[1]])
    assert await ask_to_move(stage, 1, ONE, topic=long) == ErrorCode.INVALID_REQUEST
    assert await ask_to_move(stage, 1, home + "/") == ErrorCode.NONE
    assert await rows(stage, 1) == [Row(home, is_future=False, lag=0)]
    assert not list(stage.broker(1).parts.edge.moves), "it is there already"


@staged(brokers=2, broker=TWO_DISKS)
async def test_a_directory_that_is_chosen_before_the_replica_comes_is_where_it_goes(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1]] * 4)
    for path, index in ((TWO, 0), (TWO, 1), (TWO, 2), (ONE, 3)):
        error = await ask_to_move(stage, 2, path, index=index)
        assert error == ErrorCode.REPLICA_NOT_AVAILABLE
    wanted = {TopicPartition("t", index): [2] for index in range(4)}
    await stage.admin(lambda admin: admin.alter_partition_reassignments(wanted))
    await stage.until(
        lambda: all(stage.state("t", index).replicas == (2,) for index in range(4)), "on broker 2"
    )
    assert [place_of(stage, 2, index=index) for index in range(4)] == [TWO, TWO, TWO, ONE]
    await stage.delete_topic("t")
    await stage.create_topic("t", [[1]])
    await ask_to_move(stage, 2, TWO)
    await stage.delete_topic("t")
    await stage.sleep(0.5)
    assert vars(stage.broker(2).parts.partitions.store.choices) == {"_chosen": {}}


@staged(brokers=1, broker=TWO_DISKS)
async def test_a_move_is_shown_until_it_is_over_and_its_rate_is_bound(stage: Stage) -> None:
    home = await filled(stage)
    size = stage.partition(1, "t").log.size_bytes
    await stage.alter_configs(1, {"replica.alter.log.dirs.io.max.bytes.per.second": "0"})
    rate = stage.partition(1, "t").host.throttles.moves
    await stage.until(lambda: rate.rate == 0, "the broker knows its rate")
    assert await ask_to_move(stage, 1, other(home)) == ErrorCode.NONE
    assert await ask_to_move(stage, 1, other(home)) == ErrorCode.NONE
    await stage.sleep(3)
    expected = [
        Row(home, is_future=False, lag=0),
        Row(other(home), is_future=True, lag=len(VALUES)),
    ]
    assert sorted(await rows(stage, 1)) == sorted(expected)
    await stage.alter_configs(1, {"replica.alter.log.dirs.io.max.bytes.per.second": str(size)})
    await stage.until(lambda: place_of(stage, 1) == other(home), "moved")
    assert await rows(stage, 1) == [Row(other(home), is_future=False, lag=0)]
    assert await stage.read("t") == VALUES


@staged(brokers=1, broker=TWO_DISKS)
async def test_a_directory_without_room_for_the_copy_is_not_filled(stage: Stage) -> None:
    home = await filled(stage)
    size = stage.partition(1, "t").log.size_bytes
    disk = stage.daemon(1).host.disk
    disk.capacity = disk.used() + size // 2
    assert await ask_to_move(stage, 1, other(home)) == ErrorCode.NONE
    await stage.until(lambda: not list(stage.broker(1).parts.edge.moves), "given up")
    assert any(f"not moved to {other(home)}: {size} bytes more" in line for line in stage.logs(1))
    assert len(stage.broker(1).parts.partitions.store.online) == 2
    disk.mend()
    await moved(stage, 1, other(home))


@staged(brokers=1, broker=TWO_DISKS)
async def test_a_move_is_taken_back(stage: Stage) -> None:
    home = await filled(stage)
    throttle(stage, 0)
    await ask_to_move(stage, 1, other(home))
    await stage.until(lambda: names(stage, 1, other(home)) != [], "begun")
    assert await ask_to_move(stage, 1, home) == ErrorCode.NONE
    await stage.until(lambda: names(stage, 1, other(home)) == [], "the copy is removed")
    assert await rows(stage, 1) == [Row(home, is_future=False, lag=0)]
    throttle(stage, INT64_MAX)
    await moved(stage, 1, other(home))
    await moved(stage, 1, home)
    assert await stage.read("t") == VALUES


@staged(brokers=1, broker=TWO_DISKS)
async def test_producers_do_not_wait_for_a_slow_disk_to_which_a_replica_moves(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1]], configs={"flush.policy": "group"})
    await stage.send("t", *VALUES)
    target = other(place_of(stage, 1))
    disk = stage.daemon(1).host.disk

    def slow_if_target(path: str) -> None:
        disk.slow_sync_chance = 1.0 if target in path else 0.0

    disk.slow_sync_seconds, disk.fail_sync = 8.0, slow_if_target
    assert await ask_to_move(stage, 1, target) == ErrorCode.NONE
    sent, waits = 0, [0.0]
    while stage.now < 45:
        before = stage.now
        await stage.send("t", b"%d" % sent)
        sent, waits = sent + 1, [*waits, stage.now - before]
        await stage.sleep(0.1)
    assert max(waits) < 1.0
    disk.mend()
    await stage.until(lambda: place_of(stage, 1) == target, "moved")
    assert await stage.read("t") == [*VALUES, *(b"%d" % n for n in range(sent))]


@staged(brokers=1, broker=TWO_DISKS)
async def test_a_topic_that_is_deleted_while_it_is_copied_is_gone_altogether(stage: Stage) -> None:
    home = await filled(stage)
    throttle(stage, 0)
    await ask_to_move(stage, 1, other(home))
    await stage.until(lambda: names(stage, 1, other(home)) != [], "begun")
    await stage.delete_topic("t")
    await stage.until(
        lambda: not names(stage, 1, home) and not names(stage, 1, other(home)), "no files are left"
    )
    await stage.create_topic("t", [[1]])
    await stage.send("t", b"anew")
    assert await stage.read("t") == [b"anew"]
    throttle(stage, INT64_MAX)
    await moved(stage, 1, other(place_of(stage, 1)))
    stage.restart(1)
    await stage.ready(1)
    assert await stage.read("t") == [b"anew"]


@staged(brokers=1, broker={**TWO_DISKS, "log.cleaner.backoff.ms": "100"})
async def test_a_log_is_not_compacted_while_it_is_copied(stage: Stage) -> None:
    compact = {"cleanup.policy": "compact", "segment.bytes": "1000"}
    await stage.create_topic("t", [[1]], configs={**compact, "min.cleanable.dirty.ratio": "0"})
    throttle(stage, 0)
    home = place_of(stage, 1)
    await ask_to_move(stage, 1, other(home))
    producer = await stage.producer()
    for value in VALUES:
        await producer.send("t", value, key=b"one")
    size = stage.partition(1, "t").log.size_bytes
    await stage.sleep(1)
    assert stage.partition(1, "t").log.size_bytes == size
    throttle(stage, INT64_MAX)
    await stage.until(lambda: place_of(stage, 1) == other(home), "moved")
    assert stage.partition(1, "t").log.size_bytes == size
    await stage.until(lambda: stage.partition(1, "t").log.size_bytes < size, "compacted since", 90)


@staged(brokers=2, broker=TWO_DISKS)
async def test_a_damaged_replica_is_repaired_and_moves_on(stage: Stage) -> None:
    await filled(stage, 2)
    for broker in (1, 2):
        await stage.stop(broker)
        stage.start(broker)
        await stage.ready(broker)
    home = place_of(stage, 1)
    path = f"{home}/t-0/{0:020d}.log"
    stage.disk(1).rot(path, 1000)
    assert await ask_to_move(stage, 1, other(home)) == ErrorCode.NONE
    await stage.until(lambda: place_of(stage, 1) == other(home), "moved", 30)
    assert any("its move waits for a repair" in line for line in stage.logs(1))
    assert await stage.read("t") == VALUES
