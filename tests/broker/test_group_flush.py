"""flush.policy=group: what waits for which disk, and how leaders hear of followers' flushes."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import Appended
from minikafka.broker.replica.follower import FetchPosition
from minikafka.broker.replica.progress import FollowerProgress
from minikafka.broker.replication.replica_session import ReplicaSession
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.log import Log

from .channel_support import until
from .node_support import ME, B, Node, state
from .test_fetcher import Pair, pair_of

ALONE = {"replicas": (ME,), "isr": (ME,)}
TWO = {"replicas": (ME, B), "isr": (ME, B)}


class Disks:
    """Every flush of a log waits here while the disk of its broker is held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: dict[str, asyncio.Event] = {}
        self.flushes: list[str] = []
        flush = Log.flush

        async def waiting(log: Log) -> None:
            self.flushes.append(log.directory)
            for name, event in self.held.items():
                if name in log.directory:
                    await event.wait()
            await flush(log)

        monkeypatch.setattr(Log, "flush", waiting)

    def hold(self, name: str) -> asyncio.Event:
        """Until the event is set, nothing under a directory of that name is flushed."""
        self.held[name] = asyncio.Event()
        return self.held[name]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = await Node(tmp_path / "leader").start(**{"log.flush.policy": "group"})
    yield made
    await made.stop()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A fetch is parked for ten seconds."""
    async for made in pair_of(tmp_path, max_wait_ms=10_000):
        yield made


def when_flushed(node: Node, appended: Appended) -> list[ErrorCode]:
    told: list[ErrorCode] = []
    deadline_ms = node.now_ms + 60_000
    waits = node.partitions.group_flush.when_flushed
    waits(node[0], appended, deadline_ms, lambda: told.append(appended.error))
    return told


async def test_acks_1_waits_for_the_leaders_own_disk(node: Node, disks: Disks) -> None:
    await node.give(state(ME, **ALONE))
    released = disks.hold("leader")
    told = when_flushed(node, node.produce(b"a"))
    await until(lambda: len(disks.flushes) == 1)
    assert (told, node[0].high_watermark) == ([], 0)
    released.set()
    await until(lambda: told == [ErrorCode.NONE])
    assert node[0].high_watermark == 1


async def test_what_is_appended_during_a_flush_shares_the_next_one(
    node: Node, disks: Disks
) -> None:
    await node.give(state(ME, **ALONE))
    released = disks.hold("leader")
    node.produce(b"first")
    await until(lambda: len(disks.flushes) == 1)
    told = [when_flushed(node, node.produce(b"%d" % n)) for n in range(50)]
    released.set()
    await until(lambda: all(each == [ErrorCode.NONE] for each in told))
    assert len(disks.flushes) == 2


async def test_a_failed_flush_fails_those_who_wait_for_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.give(state(ME, **ALONE))

    async def failing(log: Log) -> None:
        log.files.fail(OSError(5, "it broke"))
        raise LogDirectoryFailed(log.directory, "it broke")

    monkeypatch.setattr(Log, "flush", failing)
    told = when_flushed(node, node.produce(b"a"))
    await until(lambda: told == [ErrorCode.KAFKA_STORAGE_ERROR])
    assert node.failed


async def test_who_leads_no_more_cannot_say_what_became_of_it(node: Node, disks: Disks) -> None:
    await node.give(state(ME, **TWO))
    disks.hold("leader")
    told = when_flushed(node, node.produce(b"a"))
    await node.change(state(B, leader_epoch=2, partition_epoch=2, **TWO))
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_policy_switched_on_flushes_what_is_there(node: Node, disks: Disks) -> None:
    await node.give(state(ME, **ALONE))
    await node.configure("flush.policy", "none")
    node.produce(b"a")
    assert (node[0].high_watermark, disks.flushes) == (1, [])
    await node.configure("flush.policy", "group")
    await until(lambda: node[0].log.flushed_offset == 1)


def stores(replica: Partition, end: int) -> bool:
    return replica.log_end_offset == end


async def group(pair: Pair) -> None:
    for node in (pair.leader, pair.follower):
        await node.configure("flush.policy", "group")


async def test_the_high_watermark_waits_for_both_disks_and_not_for_the_next_fetch(
    pair: Pair, disks: Disks
) -> None:
    leader, follower = await pair.give(state(ME, **TWO))
    await group(pair)
    ours, theirs = disks.hold("leader"), disks.hold("follower")
    pair.leader.produce(b"a")
    await until(lambda: follower.log_end_offset == 1 and len(disks.flushes) == 2)
    assert leader.high_watermark == 0
    theirs.set()
    await until(lambda: follower.log.flushed_offset == 1)
    await until(lambda: leader.leader is not None and leader.leader.followers[B].held_offset == 1)
    assert leader.high_watermark == 0
    ours.set()
    await until(lambda: leader.high_watermark == 1)


async def test_reading_runs_ahead_of_a_slow_disk(pair: Pair, disks: Disks) -> None:
    leader, follower = await pair.give(state(ME, **TWO))
    await group(pair)
    released = disks.hold("follower")
    for number in range(5):
        pair.leader.produce(b"%d" % number)
        await until(partial(stores, follower, number + 1))
    assert leader.high_watermark == 0
    released.set()
    await until(lambda: leader.high_watermark == 5)


def test_a_follower_under_load_is_caught_up_when_its_flushes_reach_the_mark() -> None:
    """It never holds the newest record, nor all that there was at its previous fetch."""
    progress = FollowerProgress()
    for turn in range(1, 40):
        # A record and a fetch each millisecond; flushes are seven records behind.
        progress.on_fetched(turn, max(turn - 7, 0), leader_end=turn + 1, now_ms=100 + turn)
    assert 100 + 39 - progress.caught_up_at_ms <= 2 * 9


def test_a_follower_whose_disk_hangs_is_not_caught_up_for_all_its_fetching() -> None:
    progress = FollowerProgress()
    progress.on_fetched(5, 5, leader_end=5, now_ms=100)
    for turn in range(1, 40):
        progress.on_fetched(5 + turn, 5, leader_end=5 + turn, now_ms=100 + turn)
    assert progress.caught_up_at_ms == 100
    assert not progress.is_caught_up(44, since_ms=101)


def position(offset: int, epoch: int = 1) -> FetchPosition:
    return FetchPosition(offset, epoch, epoch)


def test_an_answer_is_held_against_its_own_request_and_not_against_the_one_sent_ahead() -> None:
    session, a, b = ReplicaSession(), (b"t", 0), (b"t", 1)
    session.name(a, position(1))
    session.on_sent()
    session.on_answered(7)
    session.on_sent()
    session.name(a, position(1, epoch=2))
    session.name(b, position(0))
    session.on_sent()
    assert (session.asked(a), session.asked(b)) == (position(1), None)
    session.on_answered(7)
    assert (session.asked(a), session.asked(b)) == (position(1, epoch=2), position(0))


def test_epochs_of_a_session_count_requests_and_not_answers() -> None:
    session = ReplicaSession()
    assert session.is_new
    session.on_sent()
    session.on_answered(7)
    epochs = []
    for _ in range(3):
        epochs.append(session.epoch)
        session.on_sent()
    assert (epochs, session.is_new, session.id) == ([1, 2, 3], False, 7)
    session.epoch = 0x7FFFFFFF
    session.on_sent()
    assert session.epoch == 1


def test_a_leader_that_keeps_no_session_is_asked_in_full_and_may_be_asked_ahead() -> None:
    session = ReplicaSession()
    session.on_sent()
    session.on_answered(0)
    assert (session.is_full, session.is_new) == (True, False)
