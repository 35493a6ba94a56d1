"""Scenarios R: records of a key stay in order while one of them is tried again."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.consumer.dead_letters import DeadLetters, Settled, to_group
from minikafka.client.consumer.retry_headers import ATTEMPT, DLQ, ORDER
from minikafka.client.consumer.retry_policy import RetryPolicy
from minikafka.client.consumer.retry_worker import RetryWorker
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from ..simulation.stage import Client, Stage, staged
from .delay_stage import headers_of, in_target
from .test_r_retries import DEAD, GROUP, runs, until_committed

POLICY = RetryPolicy(backoff_ms=(2_000, 6_000), partitions=1, replication_factor=3, order="key")
RANGE = {"partition_assignment_strategy": "range"}
COUNT = 100


class Bad(Exception):
    """Raised by a handler that cannot handle a record."""


class Book:
    """What the handlers of all members have handled; a record named in `fails` fails so often."""

    def __init__(self, **fails: int) -> None:
        self.handled: list[bytes] = []
        self.fails = {name.encode(): times for name, times in fails.items()}

    def __call__(self, record: ConsumerRecord) -> None:
        assert isinstance(record.value, bytes)
        if self.fails.get(record.value, 0):
            self.fails[record.value] -= 1
            raise Bad
        self.handled.append(record.value)

    def of(self, key: str) -> list[bytes]:
        """Return what was handled of a key, without what was handled again after a crash."""
        return [*dict.fromkeys(each for each in self.handled if each.startswith(key.encode()))]


async def ordered(stage: Stage, *values: str, partition: int = 0) -> None:
    """Send records whose key is their first letter."""
    sender = await stage.producer()
    for value in values:
        await sender.send("orders", value.encode(), partition, value[:1].encode())
    await sender.close()


async def worker_of(
    stage: Stage, policy: RetryPolicy = POLICY, **settings: Any
) -> tuple[Client, RetryWorker]:
    settings = {"enable_auto_commit": False, "session_timeout_ms": 6_000, **RANGE, **settings}
    client, consumer = await stage.consumer(group_id=GROUP, **settings)

    async def ask() -> RetryWorker:
        worker = await consumer.with_retries(policy).start()
        await worker.subscribe(["orders"])
        return worker

    return client, await client.ask(ask)


def named(key: str, count: int, start: int = 0) -> list[str]:
    return [f"{key}{number}" for number in range(start, count)]


async def until(stage: Stage, is_so: Callable[[], bool], what: str) -> None:
    await stage.until(is_so, what, 300)


async def blocked(stage: Stage) -> dict[bytes, bytes | None]:
    found = await in_target(stage, topic=f"{GROUP}.blocked")
    return {each.key: each.value for each in found if each.key is not None}


@staged()
async def test_r_46_a_hundred_records_of_a_failing_key_stay_behind_it_and_others_flow(
    stage: Stage,
) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    mixed = [
        each for pair in zip(named("a", COUNT), named("b", COUNT), strict=True) for each in pair
    ]
    await ordered(stage, *mixed)
    client, worker = await worker_of(stage)
    book = Book(a0=2)
    book.fails[b"a50"] = 1
    seen_before_a: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        if record.value == b"a0":
            seen_before_a.append(len(book.of("b")))
        book(record)

    runs(stage, client, lambda: worker.run(handle))
    await until(stage, lambda: len(book.of("a")) == COUNT, "all of a")
    assert [each.decode() for each in book.handled if each[:1] == b"a"] == named("a", COUNT)
    assert [each.decode() for each in book.handled if each[:1] == b"b"] == named("b", COUNT)
    assert seen_before_a == [0, COUNT, COUNT], "b is not held up"
    assert await dead(stage) == []
    await ordered(stage, "a100")
    await until(stage, lambda: book.handled[-1] == b"a100", "the key is free again")
    await until_committed(stage, 2 * COUNT + 1)
    assert [*(await blocked(stage)).values()] == [None]
    returned = await in_target(stage, topic=f"{GROUP}.again")
    followers = [each for each in returned if each.value == b"a1"]
    assert all(ATTEMPT not in headers_of(each) for each in followers), "it has all its attempts"


async def dead(stage: Stage) -> list[ConsumerRecord]:
    return await in_target(stage, topic=DEAD)


@staged()
async def test_r_46_a_dead_letter_lets_the_next_one_through(stage: Stage) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    await ordered(stage, *named("a", 4))
    client, worker = await worker_of(stage)
    book = Book(a0=3, a1=3)
    runs(stage, client, lambda: worker.run(book))
    await until(stage, lambda: len(book.handled) == 2, "the others")
    assert book.handled == [b"a2", b"a3"]
    letters = await dead(stage)
    assert [each.value for each in letters] == [b"a0", b"a1"]
    for offset, letter in enumerate(letters):
        said = headers_of(letter)
        assert (said[DLQ + "offset"], said[DLQ + "delivery.count"]) == (b"%d" % offset, b"3")
        assert ORDER not in said


@staged()
async def test_r_46_a_letter_that_is_requeued_waits_for_nobody_and_blocks_nobody(
    stage: Stage,
) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    await ordered(stage, "a0", "a1")
    client, worker = await worker_of(stage, replace(POLICY, backoff_ms=(20_000,)))
    book = Book(a0=3, a2=1)
    runs(stage, client, lambda: worker.run(book))
    await until(stage, lambda: book.handled == [b"a1"], "the one behind the dead letter")
    await ordered(stage, "a2", "a3")
    await until(stage, lambda: not book.fails[b"a2"], "a2 waits")
    desk = await stage.client()

    async def requeue() -> Settled:
        bootstrap, runtime = stage.cluster.bootstrap, desk.runtime
        async with Admin(bootstrap_servers=bootstrap, runtime=runtime) as admin:
            return await DeadLetters(admin, DEAD, runtime).requeue(lambda _: True, to_group)

    assert (await desk.ask(requeue)).letters == 1
    await until(stage, lambda: not book.fails[b"a0"], "it fails once more")
    await until(stage, lambda: len(book.handled) == 4, "all of them")
    assert [each for each in book.handled if each != b"a0"] == [b"a1", b"a2", b"a3"]


@staged()
async def test_r_46_the_heir_of_a_member_that_is_killed_keeps_the_order(stage: Stage) -> None:
    await stage.create_topic("orders", [[1, 2, 3], [2, 3, 1]])
    for partition in range(2):
        await ordered(stage, *named("a", 20), *named("b", 20), partition=partition)
    book = Book()
    failed: dict[tuple[int, bytes], int] = {}

    def handler_of(client: Client) -> Callable[[ConsumerRecord], None]:
        def handle(record: ConsumerRecord) -> None:
            assert isinstance(record.value, bytes)
            name = record.partition, record.value
            failed[name] = failed.get(name, 0) + (record.value in (b"a0", b"a7"))
            if 0 < failed[name] <= 2:
                raise Bad
            book.handled.append(b"%s/%d" % (record.value, record.partition))

        return handle

    policy = replace(POLICY, backoff_ms=(1_000, 30_000))
    first, worker = await worker_of(stage, policy)
    second, other = await worker_of(stage, policy)
    for client, each in ((first, worker), (second, other)):
        runs(stage, client, lambda each=each, client=client: each.run(handler_of(client)))  # type: ignore[misc]
    await until(stage, lambda: min(failed.get((n, b"a0"), 0) for n in range(2)) == 2, "failures")
    await stage.sleep(1)
    stage.world.kill(first.process)
    for partition in range(2):
        await ordered(stage, *named("a", 30, 20), partition=partition)
    await until(stage, lambda: len(book.of("a")) == 60, "all of a")
    third, heir = await worker_of(stage, policy)
    runs(stage, third, lambda: heir.run(handler_of(third)))
    for partition in range(2):
        await ordered(stage, *named("a", 35, 30), partition=partition)
    await until(stage, lambda: len(book.of("a")) == 70, "what came after a rebalance")
    for partition in range(2):
        ends = [each.decode()[:-2] for each in book.of("a") if each.endswith(b"/%d" % partition)]
        assert ends == named("a", 35)
    assert len(book.of("b")) == 40
    assert await dead(stage) == []


@staged()
async def test_r_46_a_member_that_is_killed_before_its_commit_moves_nothing_twice(
    stage: Stage,
) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    await ordered(stage, *named("a", 5))
    client, worker = await worker_of(stage)
    book = Book(a0=2)
    written: list[bool] = []

    async def never(*_: Any) -> None:
        written.append(True)
        await stage.sleep(3_600)

    owner: Any = worker._writer._producer
    owner.commit_transaction = never
    runs(stage, client, lambda: worker.run(book))
    await until(stage, lambda: bool(written), "all is written but the commit")
    stage.world.kill(client.process)
    second, heir = await worker_of(stage)
    runs(stage, second, lambda: heir.run(book))
    await until(stage, lambda: len(book.of("a")) == 5, "all of a")
    assert [each.decode() for each in book.handled] == named("a", 5)
    returned = [each.value for each in await in_target(stage, topic=f"{GROUP}.again")]
    assert sorted(each or b"" for each in returned) == [b"a0", b"a1", b"a2", b"a3", b"a4"], (
        "each was moved once"
    )


@staged()
async def test_r_46_the_partition_of_a_key_too_many_is_paused_and_goes_on_in_order(
    stage: Stage,
) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    policy = RetryPolicy(
        backoff_ms=(8_000,),
        partitions=1,
        replication_factor=3,
        order="key",
        max_blocked_keys=1,
        pause_ms=1_000,
    )
    await ordered(stage, "a0", "b0", "a1", "b1", "c0")
    client, worker = await worker_of(stage, policy)
    book = Book(a0=1, b0=5)
    runs(stage, client, lambda: worker.run(book))
    await until(stage, lambda: book.fails[b"b0"] == 2, "b0 is tried while a is blocked")
    assert book.handled == []
    await until(stage, lambda: len(book.handled) == 5, "all of them")
    assert book.of("a") == [b"a0", b"a1"]
    assert book.of("b") == [b"b0", b"b1"]
    assert await dead(stage) == []


@staged(seconds=900)
async def test_r_46_what_follows_a_cancelled_record_is_handled_after_a_while(stage: Stage) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    await ordered(stage, "a0", "a1", "a2")
    client, worker = await worker_of(stage)
    book = Book(a0=1)
    runs(stage, client, lambda: worker.run(book))
    await until_committed(stage, 3)
    there = TopicPartition(f"{GROUP}.retry", 0)
    (head, *_) = await stage.admin(lambda admin: admin.list_delayed([there]))
    await stage.admin(lambda admin: admin.cancel_delayed({there: [head.offset]}))
    await stage.until(lambda: len(book.handled) == 2, "the others", 600)
    assert book.handled == [b"a1", b"a2"]


@staged(seconds=900)
async def test_r_46_a_key_whose_record_was_cancelled_is_free_with_the_next_one_after_a_while(
    stage: Stage,
) -> None:
    """Nobody followed it; the next is moved once, and the one after that not at all."""
    await stage.create_topic("orders", [[1, 2, 3]])
    await ordered(stage, "a0")
    client, worker = await worker_of(stage)
    book = Book(a0=1)
    runs(stage, client, lambda: worker.run(book))
    await until_committed(stage, 1)
    there = TopicPartition(f"{GROUP}.retry", 0)
    await stage.admin(lambda admin: admin.cancel_delayed({there: [0]}))
    await stage.sleep(310)
    for name in ("a1", "a2"):
        await ordered(stage, name)
        await stage.until(lambda name=name: name.encode() in book.handled, name, 20)  # type: ignore[misc]
    returned = await in_target(stage, topic=f"{GROUP}.again")
    assert [each.value for each in returned] == [b"a1"]
    assert [*(await blocked(stage)).values()] == [None]


def refused(
    match: str, topics: dict[str, list[list[int]]], policy: RetryPolicy = POLICY, **settings: Any
) -> None:
    @staged()
    async def story(stage: Stage) -> None:
        for name, replicas in topics.items():
            configs = {"minikafka.delay.target": "orders"} if name.endswith("retry") else {}
            await stage.create_topic(name, replicas, configs=configs)
        with pytest.raises(ConfigError, match=match):
            await worker_of(stage, policy, **settings)

    story()


ONE, TWO = [[1, 2, 3]], [[1, 2, 3], [2, 3, 1]]


def test_r_46_members_that_would_part_a_lane_are_refused() -> None:
    refused("range", {"orders": ONE}, partition_assignment_strategy="cooperative-sticky")


def test_r_46_topics_that_do_not_fit_together_are_refused() -> None:
    refused("same", {"orders": ONE, f"{GROUP}.retry": ONE})
    refused("needs 1 partitions", {"orders": ONE, f"{GROUP}.again": TWO})


@staged()
async def test_r_46_topics_that_have_grown_are_followed(stage: Stage) -> None:
    await stage.create_topic("orders", ONE)
    client, worker = await worker_of(stage)
    book = Book(a0=1)
    runs(stage, client, lambda: worker.run(book))
    await ordered(stage, "b0")
    await until_committed(stage, 1)
    worker.stop()
    await client.ask(worker._consumer.close)
    await stage.admin(lambda admin: admin.create_partitions({"orders": 2}))
    await stage.until(lambda: stage.state("orders", 1).leader > 0, "another partition")
    await ordered(stage, "a0", "a1", partition=1)
    second, heir = await worker_of(stage, auto_offset_reset="earliest")
    runs(stage, second, lambda: heir.run(book))
    await until(stage, lambda: len(book.handled) == 3, "both partitions")
    assert book.of("a") == [b"a0", b"a1"]


class Ledger:
    """The last call of each record, whoever made it, and how it ended."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._calls = 0
        self.last: dict[tuple[int, int], tuple[int, bool]] = {}
        """The number of a record's last call, and whether that succeeded, by its first place."""

    def __call__(self, record: ConsumerRecord) -> None:
        said = headers_of(record)
        first = record.offset
        if record.topic != "orders":
            first = int(said[DLQ + "offset"] or b"")
        self._calls += 1
        succeeds = self._dice.random() < 0.6
        self.last[record.partition, first] = self._calls, succeeds
        if not succeeds:
            raise Bad


@pytest.mark.parametrize("seed", range(3))
def test_r_46_the_order_holds_though_members_and_brokers_come_and_go(seed: int) -> None:
    dice = Random(seed)

    @staged(seed=seed, seconds=900)
    async def story(stage: Stage) -> None:
        await stage.create_topic(
            "orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], configs={"min.insync.replicas": "2"}
        )
        ledger = Ledger(dice)
        policy = replace(POLICY, backoff_ms=(500, 4_000), jitter=0.5)
        members: list[Client] = []

        async def member() -> None:
            client, worker = await worker_of(stage, policy)
            members.append(client)
            runs(stage, client, lambda: worker.run(ledger))

        keys: dict[tuple[int, int], str] = {}
        counts = [0, 0, 0]
        for turn in range(12):
            if len(members) < 3:
                await member()
            elif dice.random() < 0.6:
                stage.world.kill(members.pop(dice.randrange(3)).process)
            if turn % 5 == 3:
                stage.kill(2)
            elif turn % 5 == 4:
                stage.start(2)
            for partition in range(3):
                names = [dice.choice("abc") for _ in range(dice.randrange(8))]
                for name in names:
                    keys[partition, counts[partition]] = name
                    counts[partition] += 1
                await ordered(stage, *names, partition=partition)
            await stage.sleep(dice.uniform(0, 5))
        await until(stage, lambda: len(ledger.last) == len(keys), "all were called")
        for partition in range(3):
            await all_ends(stage, partition)
        letters = [
            (each.partition, int(headers_of(each)[DLQ + "partition"] or b""), offset)
            for each in await dead(stage)
            for offset in [int(headers_of(each)[DLQ + "offset"] or b"")]
        ]
        buried = [(partition, offset) for _, partition, offset in letters]
        failed = [place for place, (_, succeeded) in ledger.last.items() if not succeeded]
        assert sorted(buried) == sorted(failed), "each that failed last is a dead letter, once"
        for partition in range(3):
            for key in "abc":
                places = [(partition, n) for n in range(counts[partition])]
                mine = [place for place in places if keys[place] == key]
                ends = [ledger.last[place][0] for place in mine]
                assert ends == sorted(ends), f"{key} in {partition}"
                dead_ones = [place for place in buried if place in mine]
                assert dead_ones == sorted(dead_ones)

    story()


async def all_ends(stage: Stage, partition: int) -> None:
    """Wait until nothing of a lane is on its way."""
    there = [TopicPartition(name, partition) for name in ("orders", f"{GROUP}.again")]
    waits = TopicPartition(f"{GROUP}.retry", partition)
    for _ in range(600):
        ends = await stage.admin(lambda admin: admin.list_offsets(dict.fromkeys(there, -1)))
        offsets = await stage.admin(lambda admin: admin.list_group_offsets(GROUP))
        is_read = all(
            each in offsets and offsets[each].offset == ends[each].offset
            for each in there
            if ends[each].offset
        )
        (told,) = (await stage.admin(lambda admin: admin.describe_forwarding([waits]))).values()
        if is_read and not told.pending and not told.planned:
            return
        await stage.sleep(1)
    raise AssertionError(f"partition {partition} does not come to its end")
