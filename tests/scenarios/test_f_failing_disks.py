"""Scenarios F, as a cluster lives through them: rot, full disks, failed syncs.

What one log does by itself is in test_f_storage.py.
"""

import errno
from functools import partial

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.records.record_batch import headers

from ..simulation.disk import read_all
from ..simulation.stage import Stage, staged

MIN_2 = {"min.insync.replicas": "2"}
SMALL = {**MIN_2, "segment.bytes": "1000"}
VALUES = [b"%03d" % n * 30 for n in range(20)]


def file_of(stage: Stage, who: int, base: int = 0) -> str:
    directory = stage.daemon(who).properties["log.dirs"].split(",")[0]
    return f"{directory}/t-0/{base:020d}.log"


async def rot(stage: Stage, who: int, offset: int, byte: int = 80) -> None:
    """One bit of the batch at `offset` turns over on a broker's disk, which is read again."""
    disk = stage.disk(who)
    bases = [each.base_offset for each in stage.partition(who, "t").log.segments]
    base = max(each for each in bases if each <= offset)
    path = file_of(stage, who, base)
    position = next(at for at, each in headers(read_all(disk, path)) if each.base_offset == offset)
    disk.rot(path, position + byte)


def _has_said(stage: Stage, who: int, told: str) -> bool:
    return any(told in line for line in stage.logs(who))


async def fetch(stage: Stage, who: int, offset: int) -> tuple[int, bytes]:
    """What one broker answers to a consumer, without asking another."""
    there = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", topic_id=stage.image().topic_ids["t"], partitions=[there])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
    answer = (await stage.ask(who, request)).responses[0].partitions[0]
    return answer.error_code, bytes(answer.records or b"")


async def filled(stage: Stage, settings: dict[str, str]) -> bytes:
    """A topic with records on three brokers; what every replica's log holds."""
    await stage.create_topic("t", [[1, 2, 3]], configs=settings)
    await stage.send("t", *VALUES)
    end = len(VALUES)
    await stage.until(
        lambda: all(stage.partition(who, "t").high_watermark == end for who in (1, 2, 3)), "copies"
    )
    return whole(stage, 1)


def whole(stage: Stage, who: int) -> bytes:
    bases = [each.base_offset for each in stage.partition(who, "t").log.segments]
    return b"".join(read_all(stage.daemon(who).host.disk, file_of(stage, who, b)) for b in bases)


@staged()
async def test_f_03_a_leaders_rotten_batch_is_fetched_from_a_follower_and_never_served(
    stage: Stage,
) -> None:
    """Given a bit turned over in a flushed batch of the leader; when a consumer reads there; then
    it gets an error and never the batch, which a follower's takes the place of."""
    good = await filled(stage, MIN_2)
    for who in (1, 2):
        # What a process wrote itself it has in memory; what a restart finds comes from the disk.
        await stage.stop(who)
        stage.start(who)
        await stage.ready(who)
        await stage.until(lambda: len(stage.state("t").isr) == 3, "all are in sync")
    leader = stage.state("t").leader
    assert leader == 1
    await rot(stage, leader, 7)
    rotten = whole(stage, leader)
    assert rotten != good
    error, records = await fetch(stage, leader, 0)
    assert (error, good.startswith(records)) == (ErrorCode.NONE, True)
    assert [each.base_offset for _, each in headers(records)] == list(range(7))
    error, records = await fetch(stage, leader, 7)
    assert records in (b"", good[-len(records) :] if records else b"")
    assert error in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    await stage.until(lambda: whole(stage, leader) == good, "mended")
    error, records = await fetch(stage, leader, 7)
    assert (error, records) == (ErrorCode.NONE, good[-len(records) :])
    assert await stage.read("t") == VALUES
    assert any("mended offsets 7 to" in line for line in stage.logs(leader))


@staged(broker={"log.scrub.interval.ms": "1000"})
async def test_f_03_the_scrub_finds_what_nobody_reads_and_a_follower_asks_its_leader(
    stage: Stage,
) -> None:
    """Given rot in complete segments of a follower and of the leader that nobody reads; then the
    scrub finds both and both are mended."""
    good = await filled(stage, SMALL)
    for who in (1, 2, 3):
        segments = stage.partition(who, "t").log
        await stage.until(lambda log=segments: log.flushed_offset > 10, "flushed")  # type: ignore[misc]
    await rot(stage, 1, 3)
    await rot(stage, 3, 8, byte=20)
    assert whole(stage, 1) != good != whole(stage, 3)
    await stage.until(lambda: whole(stage, 1) == good == whole(stage, 3), "mended", 5)
    # The bytes are there before they are known to be stable, and told of.
    for who, told in ((1, "mended offsets 3 to"), (3, "from broker 1")):
        await stage.until(partial(_has_said, stage, who, told), f"broker {who}: {told}", 5)


@staged(brokers=1)
async def test_f_03_what_no_peer_has_is_refused_and_said_once(stage: Stage) -> None:
    """Given rot in the only replica; then its readers are refused, those of other batches are
    not, and the log says so once, not at each read."""
    await stage.create_topic("t", [[1]], configs={"min.insync.replicas": "1"})
    await stage.send("t", *VALUES)
    await stage.stop(1)
    stage.start(1)
    await stage.ready(1)
    await rot(stage, 1, 7)
    for _ in range(5):
        error, records = await fetch(stage, 1, 7)
        assert (error, records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        await stage.sleep(0.3)
    error, records = await fetch(stage, 1, 8)
    assert error == ErrorCode.NONE
    said = [line for line in stage.logs(1) if "none of brokers" in line]
    assert len(said) == 1
    await stage.send("t", b"more")
    # Whoever had the bytes right puts them back: the operator, say.
    await rot(stage, 1, 7)
    assert await stage.read("t") == [*VALUES, b"more"]


@staged()
async def test_f_08_a_full_disk_takes_its_replicas_offline_and_the_leader_moves(
    stage: Stage,
) -> None:
    """Given a leader whose disk is full; when records come; then no part of a batch is visible,
    its directory is offline, another leads, and the write succeeds there."""
    await filled(stage, MIN_2)
    disk = stage.disk(1)
    disk.capacity = disk.used() + 50
    assert await stage.send("t", b"late" * 100) == [len(VALUES)]
    assert stage.state("t").leader in (2, 3)
    assert await stage.read("t") == [*VALUES, b"late" * 100]
    assert [each.base_offset for each in stage.log(1, "t")][-1] < len(VALUES)


@staged()
async def test_f_09_a_failed_fsync_is_the_end_of_a_directory_and_what_is_synced_later_is_synced(
    stage: Stage,
) -> None:
    """Given a leader with flush.policy=group whose fdatasync fails; then its directory is offline
    at once and another leads; when the process and later the power of all machines fail, nothing
    acknowledged is lost, though the page cache of the first had called lost pages clean."""
    await stage.create_topic("t", [[1, 2, 3]], configs={**MIN_2, "flush.policy": "group"})
    await stage.send("t", *VALUES)
    disk = stage.disk(1)
    disk.fail_sync = lambda path: errno.EIO if path.endswith(".log") else None
    assert await stage.send("t", b"late") == [len(VALUES)]
    assert stage.state("t").leader in (2, 3)
    await stage.until(lambda: not stage.daemon(1).alive, "no directory is left")
    disk.mend()
    stage.start(1)
    await stage.ready(1)
    await stage.until(lambda: 1 in stage.state("t").isr, "1 is back")
    assert await stage.send("t", b"later") == [len(VALUES) + 1]
    stage.power_off(1, 2, 3)
    stage.power_on(1, 2, 3)
    for who in (1, 2, 3):
        await stage.ready(who)
    assert await stage.read("t") == [*VALUES, b"late", b"later"]
