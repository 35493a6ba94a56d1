"""Scenarios I, seen by the product's own consumers, over the classic protocol.

Whole clusters on a simulated loop; the group's rules themselves are in test_i_groups.py.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from minikafka.aio import (
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from minikafka.client.errors import ClientError
from minikafka.client.refusals import CommitFailed

from ..simulation.stage import Client, Stage, staged

QUICK = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
Partitions = Sequence[TopicPartition]


class Owners:
    """Who has which partition, as the listeners are told; two at a time is what must not be."""

    def __init__(self) -> None:
        self.of: dict[TopicPartition, str] = {}
        self.history: list[tuple[str, str, tuple[TopicPartition, ...]]] = []

    def listener(self, name: str) -> RebalanceListener:
        def on_assigned(partitions: Partitions) -> None:
            self.history.append((name, "assigned", tuple(partitions)))
            for partition in partitions:
                assert partition not in self.of, f"{partition} has {self.of} and {name} gets it"
                self.of[partition] = name

        def on_revoked(partitions: Partitions) -> None:
            self.history.append((name, "revoked", tuple(partitions)))
            for partition in partitions:
                assert self.of.pop(partition) == name

        def on_lost(partitions: Partitions) -> None:
            self.history.append((name, "lost", tuple(partitions)))
            for partition in partitions:
                if self.of.get(partition) == name:
                    del self.of[partition]

        return RebalanceListener(on_assigned, on_revoked, on_lost)

    def count(self, name: str) -> int:
        return sum(owner == name for owner in self.of.values())


class Reader:
    """A member of group g that reads on its own machine until it is told to stop."""

    def __init__(self, client: Client, consumer: Consumer) -> None:
        self.client, self.consumer = client, consumer
        self.name = client.process.name
        self.got: list[ConsumerRecord] = []
        self.acked: dict[TopicPartition, int] = {}
        """The newest commits that were acknowledged."""
        self.refused: list[ClientError] = []
        self.is_reading = True
        self.work_s = 0.0
        """How long it works on what a poll returned."""
        self.task: asyncio.Task[Any] | None = None

    @classmethod
    async def join(cls, stage: Stage, owners: Owners | None = None, **settings: Any) -> "Reader":
        quick = {
            "group_id": "g",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 2000,
            "max_poll_interval_ms": 10_000,
            "enable_auto_commit": False,
        }
        client, consumer = await stage.consumer(**{**quick, **settings})
        reader = cls(client, consumer)
        listener = (owners or Owners()).listener(reader.name)
        await client.ask(lambda: consumer.subscribe(["t"], listener=listener))
        reader.task = asyncio.ensure_future(client.ask(reader.read))
        return reader

    async def read(self) -> None:
        while self.is_reading:
            self.got += await self.consumer.poll(100)
            await asyncio.sleep(self.work_s)
            at = {p: await self.consumer.position(p) for p in self.consumer.assignment()}
            try:
                await self.consumer.commit(at, timeout_ms=5000)
            except ClientError as error:
                self.refused.append(error)
            else:
                self.acked |= at

    async def stop(self) -> None:
        self.is_reading = False
        assert self.task is not None
        await self.task

    async def leave(self) -> None:
        await self.stop()
        await self.client.ask(self.consumer.close)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        return [(record.partition, record.offset) for record in self.got]


async def settled(stage: Stage, owners: Owners, *shares: int) -> None:
    """Until all six partitions are owned, in such shares."""

    def is_so() -> bool:
        names = dict.fromkeys(owners.of.values())
        return sorted(owners.count(name) for name in names) == sorted(shares)

    await stage.until(is_so, f"shares of {shares}", 30.0)


async def six(stage: Stage) -> None:
    await stage.create_topic("t", [[1 + i % 3, 1 + (i + 1) % 3, 1 + (i + 2) % 3] for i in range(6)])


async def write(stage: Stage, producer: Any, first: int, count: int) -> None:
    for number in range(first, first + count):
        await producer.send("t", b"%d" % number, number % 6)


def newest(committed: dict[TopicPartition, OffsetAndMetadata | None]) -> dict[TopicPartition, int]:
    return {at: 0 if found is None else found.offset for at, found in committed.items()}


@staged(broker=QUICK)
async def test_i_03_a_partition_moves_only_once_its_owner_has_given_it_up(stage: Stage) -> None:
    """Given members that come and go while records flow; then no partition has two owners at any
    moment, nobody stops reading what stays with him, and every record is read once."""
    await six(stage)
    owners, producer = Owners(), await stage.producer()
    first = await Reader.join(stage, owners)
    await settled(stage, owners, 6)
    await write(stage, producer, 0, 60)
    first.work_s = 0.7  # the others have their assignments long before it looks at its own
    second = await Reader.join(stage, owners)
    third = await Reader.join(stage, owners)
    await write(stage, producer, 60, 60)
    await settled(stage, owners, 2, 2, 2)
    given_up = [what for what in owners.history if what[:2] == (first.name, "revoked")]
    assert sum(len(partitions) for _, _, partitions in given_up) == 4, "two it never gave up"
    await write(stage, producer, 120, 60)
    await second.leave()
    await settled(stage, owners, 3, 3)
    await write(stage, producer, 180, 60)
    readers = [first, second, third]
    await stage.until(lambda: sum(len(r.got) for r in readers) >= 240, "all is read", 30.0)
    for reader in (first, third):
        await reader.leave()
    read = [at for reader in readers for at in reader.offsets]
    assert sorted(read) == [(p, offset) for p in range(6) for offset in range(40)]
    assert owners.of == {}
    assert not any(what == "lost" for _, what, _ in owners.history)


@staged(broker=QUICK)
async def test_i_03_an_eager_group_gives_up_all_before_anybody_gets_any(stage: Stage) -> None:
    """Given the same with the range assignor; then again nobody has what another has."""
    await six(stage)
    owners, producer = Owners(), await stage.producer()
    first = await Reader.join(stage, owners, partition_assignment_strategy="range")
    await settled(stage, owners, 6)
    await write(stage, producer, 0, 60)
    second = await Reader.join(stage, owners, partition_assignment_strategy="range")
    await settled(stage, owners, 3, 3)
    assert (first.name, "revoked") in {what[:2] for what in owners.history}
    await write(stage, producer, 60, 60)
    await stage.until(lambda: len(first.got) + len(second.got) >= 120, "all is read", 30.0)
    read = first.offsets + second.offsets
    assert sorted(read) == [(p, offset) for p in range(6) for offset in range(20)]


@staged(broker=QUICK)
async def test_i_04_who_is_silent_while_giving_up_is_fenced_at_the_rebalance_timeout(
    stage: Stage,
) -> None:
    """Given a member whose on_revoked takes longer than the rebalance timeout, with heartbeats all
    the while; then the group goes on without it, its later commit is refused, and it comes back."""
    await six(stage)
    producer = await stage.producer()
    await write(stage, producer, 0, 60)
    settings: dict[str, Any] = {
        "partition_assignment_strategy": "range",
        "max_poll_interval_ms": 3000,
    }
    first = await Reader.join(stage, **settings)
    await stage.until(lambda: sum(first.acked.values()) == 60, "all is committed", 30.0)
    may_go_on, refused = asyncio.Event(), []

    async def on_revoked(partitions: Partitions) -> None:
        await may_go_on.wait()
        try:
            await first.consumer.commit(dict.fromkeys(partitions, 3))
        except CommitFailed as error:
            refused.append(error)

    first.consumer._rebalancing.listener = RebalanceListener(on_revoked=on_revoked)
    second = await Reader.join(stage, **settings)
    joined_at = stage.now
    await stage.until(lambda: len(second.consumer.assignment()) == 6, "it has all", 30.0)
    assert stage.now - joined_at > 2.5
    assert not refused
    may_go_on.set()
    await stage.until(lambda: len(first.consumer.assignment()) == 3, "it is back", 30.0)
    assert len(refused) == 1
    committed = await second.client.ask(lambda: second.consumer.committed(tps(range(6))))
    assert newest(committed) == dict.fromkeys(tps(range(6)), 10)


@staged(broker=QUICK)
async def test_i_04_who_was_cut_off_is_fenced_and_has_lost_what_it_had(stage: Stage) -> None:
    """Given a member that nobody hears of for the session timeout; then others have what it had,
    its commit is refused and changes nothing, and it learns that all was lost, not revoked."""
    await six(stage)
    owners = Owners()
    first = await Reader.join(stage, owners)
    await settled(stage, owners, 6)
    await first.stop()
    stage.isolate(first.name)
    second = await Reader.join(stage)
    await stage.until(lambda: len(second.consumer.assignment()) == 6, "it took over", 30.0)
    stage.heal()

    async def late() -> None:
        await first.consumer.commit({TopicPartition("t", 0): 99})

    with pytest.raises(CommitFailed):
        await first.client.ask(late)
    committed = await second.client.ask(second.consumer.committed)
    assert newest(committed)[TopicPartition("t", 0)] == 0
    first.is_reading = True
    first.task = asyncio.ensure_future(first.client.ask(first.read))
    await stage.until(lambda: len(first.consumer.assignment()) == 3, "it is back", 30.0)
    assert (first.name, "lost") in {what[:2] for what in owners.history}
    assert (first.name, "revoked") not in {what[:2] for what in owners.history}


@staged(broker=QUICK)
async def test_i_04_who_does_not_poll_leaves_by_itself(stage: Stage) -> None:
    """Given a user who works on one poll for longer than max_poll_interval_ms; then the member
    leaves though heartbeats went on till then, and others read what it had."""
    await six(stage)
    owners = Owners()
    first = await Reader.join(stage, owners, max_poll_interval_ms=3000)
    await settled(stage, owners, 6)
    await first.stop()
    stopped_at = stage.now
    second = await Reader.join(stage)
    await stage.until(lambda: len(second.consumer.assignment()) == 6, "it took over", 30.0)
    assert 2.5 < stage.now - stopped_at < 6.0
    with pytest.raises(CommitFailed):
        await first.client.ask(first.consumer.commit)


@staged(broker=QUICK)
async def test_i_05_a_coordinator_dies_mid_rebalance_and_the_group_converges(stage: Stage) -> None:
    """Given a member that joins; when the group's coordinator is killed before everybody has
    joined; then another one goes on from the log, nobody has what another has, and nothing that
    was committed is lost."""
    await six(stage)
    owners, producer = Owners(), await stage.producer()
    first = await Reader.join(stage, owners)
    await settled(stage, owners, 6)
    await write(stage, producer, 0, 60)
    await stage.until(lambda: sum(first.acked.values()) == 60, "all is committed", 30.0)
    joining = asyncio.ensure_future(Reader.join(stage, owners))
    await stage.sleep(0.05)
    stage.kill(coordinator(first))
    second = await joining
    await settled(stage, owners, 3, 3)
    committed = await second.client.ask(lambda: second.consumer.committed(tps(range(6))))
    assert newest(committed) == dict.fromkeys(tps(range(6)), 10)
    await write(stage, producer, 60, 60)
    readers = [first, second]
    await stage.until(lambda: sum(len(r.got) for r in readers) >= 120, "all is read", 30.0)
    assert sorted(first.offsets + second.offsets) == [(p, o) for p in range(6) for o in range(20)]


@staged(broker=QUICK)
async def test_i_06_what_was_committed_never_goes_back_over_coordinator_kills(
    stage: Stage,
) -> None:
    """Given a member that commits all the time; when one coordinator after the other is killed and
    started again; then whoever asks is never told less than what was acknowledged before."""
    await six(stage)
    producer = await stage.producer()
    reader = await Reader.join(stage)
    watch, asker = await stage.consumer(group_id="g")
    for round_ in range(4):
        await write(stage, producer, round_ * 30, 30)
        expected = (round_ + 1) * 30
        await stage.until(partial(has_acked, reader, expected - 10), "commits", 30.0)
        victim = coordinator(reader)
        stage.kill(victim)
        before = dict(reader.acked)
        found = newest(await watch.ask(lambda: asker.committed(tps(range(6)))))
        assert all(found[at] >= offset for at, offset in before.items()), (found, before)
        stage.start(victim)
        await stage.ready(victim)
    await stage.until(lambda: len(reader.got) >= 120, "all is read", 30.0)
    assert sorted(reader.offsets) == [(p, offset) for p in range(6) for offset in range(20)]


@staged(broker=QUICK)
async def test_static_members_restart_without_a_rebalance(stage: Stage) -> None:
    """Given static members; when one is closed and started again within the session timeout; then
    it has its partitions back and the others never noticed (KIP-345)."""
    await six(stage)
    owners = Owners()
    first = await Reader.join(stage, owners, group_instance_id="one", session_timeout_ms=6000)
    second = await Reader.join(stage, owners, group_instance_id="two", session_timeout_ms=6000)
    await settled(stage, owners, 3, 3)
    mine = second.consumer.assignment()
    generation = second.consumer.group_metadata().generation_id
    theirs = len(owners.history)
    await second.leave()
    again = await Reader.join(stage, owners, group_instance_id="two", session_timeout_ms=6000)
    await settled(stage, owners, 3, 3)
    assert again.consumer.assignment() == mine
    assert again.consumer.group_metadata().generation_id == generation
    assert first.name not in {name for name, _, _ in owners.history[theirs:]}


@staged(broker=QUICK)
async def test_what_is_paused_stays_paused_over_a_rebalance(stage: Stage) -> None:
    """Given a member that has paused what it reads and sought elsewhere; when another joins; then
    what stays is paused still and stands where it stood."""
    await six(stage)
    owners, producer = Owners(), await stage.producer()
    await write(stage, producer, 0, 60)
    first = await Reader.join(stage, owners)
    await settled(stage, owners, 6)
    await stage.until(lambda: len(first.got) == 60, "all is read", 30.0)
    for index in range(6):
        first.client.now(first.consumer.pause, ("t", index))
        first.client.now(first.consumer.seek, ("t", index), 4)
    await Reader.join(stage, owners)
    await settled(stage, owners, 3, 3)
    kept = first.consumer.assignment()
    assert first.consumer.paused() == kept
    for partition in kept:
        assert await first.client.ask(partial(first.consumer.position, partition)) == 4


@staged(broker={**QUICK, "transaction.state.log.num.partitions": "2"})
async def test_i_12_who_asks_for_offsets_of_an_open_transaction_waits_for_its_end(
    stage: Stage,
) -> None:
    """Given offsets sent within a transaction; when a read_committed consumer asks for them; then
    it hears nothing (UNSTABLE_OFFSET_COMMIT, asked again) until the transaction is over, and then
    what it decided; what an aborted one wrote is not read, and the position is behind it."""
    for name in ("t", "out"):
        await stage.create_topic(name, [[1, 2, 3]])
    await stage.send("t", b"a", b"b")
    settings: dict[str, Any] = {
        "group_id": "g",
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
    }
    client, consumer = await stage.consumer(**settings)
    await client.ask(lambda: consumer.subscribe(["t"]))
    assert len(await client.ask(lambda: consumer.poll(5000))) == 2
    asker, watch = await stage.consumer(**settings)
    producer = await stage.producer(transactional_id="x")
    twin, here, out = producer.producer, TopicPartition("t", 0), TopicPartition("out", 0)

    async def work(offset: int) -> None:
        await twin.begin_transaction()
        twin.send("out", b"copy of %d" % offset)
        await twin.send_offsets({here: OffsetAndMetadata(offset)}, consumer.group_metadata())

    async def told() -> OffsetAndMetadata | None:
        return (await watch.committed([here]))[here]

    for offset, end, expected in (
        (1, twin.abort_transaction, None),
        (2, twin.commit_transaction, OffsetAndMetadata(2)),
    ):
        await producer.client.ask(partial(work, offset))
        asking = asyncio.ensure_future(asker.ask(told))
        await stage.sleep(1.0)
        assert not asking.done()
        await producer.client.ask(end)
        assert await asking == expected
    asker.now(watch.assign, [out])
    got = await asker.ask(lambda: watch.poll(5000))
    assert [(record.offset, record.value) for record in got] == [(2, b"copy of 2")]
    assert await asker.ask(lambda: watch.poll(200)) == []
    assert await asker.ask(lambda: watch.position(out)) == 4, "behind both markers"
    assert watch.lag(out) == 0


def tps(indexes: Sequence[int]) -> list[TopicPartition]:
    return [TopicPartition("t", index) for index in indexes]


def has_acked(reader: Reader, count: int) -> bool:
    return sum(reader.acked.values()) >= count


def coordinator(reader: Reader) -> int:
    commits = reader.consumer._engine.commits
    assert commits is not None
    assert commits.coordinator.node_id is not None
    return commits.coordinator.node_id
