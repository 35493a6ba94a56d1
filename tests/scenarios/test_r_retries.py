"""Scenarios R: records of a group that fail are tried again later, and end as dead letters."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import pytest

from minikafka.client.consumer.retry_headers import ATTEMPT, DLQ, FIRST_FAILED_AT, TRUNCATED
from minikafka.client.consumer.retry_policy import RetryPolicy
from minikafka.client.consumer.retry_worker import RetryWorker
from minikafka.client.group_types import ConsumerGroupMetadata
from minikafka.client.producer.producer import Producer
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.expiry import EXPIRES_AT, TTL_MS
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from ..simulation.stage import Client, Stage, staged
from .delay_stage import headers_of, in_target

GROUP = "billing"
DEAD = f"dlq.{GROUP}"
WAITS_MS = (500, 1_500, 4_000)
POLICY = RetryPolicy(backoff_ms=WAITS_MS, partitions=1, replication_factor=3)


class Bad(Exception):
    """Raised by a handler that cannot handle a record."""


class Calls:
    """A handler that notes its calls, and fails the records that the story names."""

    def __init__(self, client: Client, failing: Callable[[ConsumerRecord], bool]) -> None:
        self._client = client
        self._failing = failing
        self.at: list[tuple[Any, int]] = []
        """The value and the wall time of each call."""

    async def __call__(self, record: ConsumerRecord) -> None:
        self.at.append((record.value, self._client.runtime.wall_ms()))
        if self._failing(record):
            raise Bad(f"no price for {record.value!r}")

    def of(self, value: object) -> list[int]:
        return [at for seen, at in self.at if seen == value]


async def worker_of(
    stage: Stage, policy: RetryPolicy = POLICY, **settings: Any
) -> tuple[Client, RetryWorker]:
    """Make a worker that reads "orders", in a client process of its own."""
    settings = {"enable_auto_commit": False, "session_timeout_ms": 6_000, **settings}
    client, consumer = await stage.consumer(group_id=GROUP, **settings)

    async def ask() -> RetryWorker:
        worker = await consumer.with_retries(policy).start()
        await worker.subscribe(["orders"])
        return worker

    return client, await client.ask(ask)


def runs(stage: Stage, client: Client, call: Callable[[], Awaitable[Any]]) -> None:
    """Have a client run something beside the story."""

    async def body() -> None:
        await call()

    client.now(lambda: stage.world.loop.spawn_in(client.process, body(), "beside"))


async def orders(stage: Stage, *values: bytes) -> None:
    await stage.create_topic("orders", [[1, 2, 3]])
    await ordered(stage, *values)


async def ordered(stage: Stage, *values: bytes) -> None:
    sender = await stage.producer()
    for value in values:
        await sender.send("orders", value, key=value[:9])
    await sender.close()


async def committed(stage: Stage, topic: str = "orders") -> int | None:
    there = TopicPartition(topic, 0)
    offsets = await stage.admin(lambda admin: admin.list_group_offsets(GROUP))
    return None if offsets.get(there) is None else offsets[there].offset


async def until_committed(stage: Stage, offset: int, topic: str = "orders") -> None:
    for _ in range(600):
        if await committed(stage, topic) == offset:
            return
        await stage.sleep(0.1)
    raise AssertionError(f"{topic}: committed {await committed(stage, topic)}, not {offset}")


async def dead(stage: Stage) -> list[ConsumerRecord]:
    return await in_target(stage, topic=DEAD)


@staged()
async def test_r_45_a_record_is_tried_four_times_with_its_waits_and_is_then_a_dead_letter(
    stage: Stage,
) -> None:
    await orders(stage, b"a", b"bad", b"c")
    client, worker = await worker_of(stage)
    calls = Calls(client, lambda record: record.value == b"bad")
    runs(stage, client, lambda: worker.run(calls))
    await until_committed(stage, 3, f"{GROUP}.again")
    tried = calls.of(b"bad")
    waits = [after - before for before, after in pairwise(tried)]
    assert all(0 <= took - wait < 1_500 for took, wait in zip(waits, WAITS_MS, strict=True)), waits
    assert (len(calls.of(b"a")), len(calls.of(b"c"))) == (1, 1)
    assert calls.of(b"c")[0] < tried[1], "others are not held up"
    (letter,) = await dead(stage)
    assert (letter.key, letter.value) == (b"bad", b"bad")
    said = headers_of(letter)
    assert {name: value for name, value in said.items() if not name.endswith("timestamp")} == {
        DLQ + "topic": b"orders",
        DLQ + "partition": b"0",
        DLQ + "offset": b"1",
        DLQ + "group": GROUP.encode(),
        DLQ + "delivery.count": b"4",
        DLQ + "message": b"no price for b'bad'",
        DLQ + "exception": f"{Bad.__module__}.Bad".encode(),
        ATTEMPT: b"3",
        FIRST_FAILED_AT: said[FIRST_FAILED_AT],
    }
    assert int(said[FIRST_FAILED_AT] or b"") - tried[0] < 100


@pytest.mark.parametrize("is_transactional", [True, False])
def test_r_45_killed_between_the_retry_and_the_commit_a_record_is_retried_once_by_transactions(
    is_transactional: bool,
) -> None:
    @staged()
    async def story(stage: Stage) -> None:
        await orders(stage, b"bad")
        policy = RetryPolicy(
            backoff_ms=(1_000,),
            partitions=1,
            replication_factor=3,
            is_transactional=is_transactional,
        )
        client, worker = await worker_of(stage, policy)
        calls = Calls(client, lambda _: True)
        written = asyncio.Event()

        async def never(*_: Any) -> None:
            written.set()
            await stage.sleep(3_600)

        # The retry is acknowledged; what comes after it never happens.
        owner: Any = worker._writer._producer if is_transactional else worker._consumer
        setattr(owner, "send_offsets" if is_transactional else "commit", never)
        runs(stage, client, lambda: worker.run(calls))
        await written.wait()
        stage.world.kill(client.process)
        other, heir = await worker_of(stage, policy)
        again = Calls(other, lambda _: True)
        runs(stage, other, lambda: heir.run(again))
        retried = 1 if is_transactional else 2
        await until_committed(stage, 1)
        await until_committed(stage, retried, f"{GROUP}.again")
        await stage.sleep(5)
        assert len(again.at) == 1 + retried
        assert len(await dead(stage)) == retried

    story()


@pytest.mark.parametrize("order", ["none", "key"])
def test_r_45_a_member_that_is_put_out_while_it_handles_a_record_moves_it_no_more(
    order: Literal["none", "key"],
) -> None:
    """Its heir has moved it; the late one's transaction is refused, and it reads on as a member."""

    @staged()
    async def story(stage: Stage) -> None:
        await orders(stage, b"bad")
        policy = replace(POLICY, order=order, backoff_ms=(60_000,))
        ranged = {"partition_assignment_strategy": "range"} if order == "key" else {}
        client, worker = await worker_of(stage, policy, max_poll_interval_ms=5_000, **ranged)
        calls: list[str] = []
        is_moved = asyncio.Event()

        async def late(record: ConsumerRecord) -> None:
            calls.append("first")
            if record.value == b"bad":
                await is_moved.wait()
                raise Bad

        runs(stage, client, lambda: worker.run(late))
        await stage.until(lambda: bool(calls), "the first has the record", 60)
        other, heir = await worker_of(stage, policy, **ranged)

        async def fails(record: ConsumerRecord) -> None:
            calls.append("heir")
            if record.value == b"bad":
                raise Bad

        runs(stage, other, lambda: heir.run(fails))
        await until_committed(stage, 1)
        is_moved.set()
        await stage.sleep(10)
        assert calls == ["first", "heir"]
        assert [each.value for each in await in_target(stage, topic=f"{GROUP}.retry")] == [b"bad"]
        stage.world.kill(other.process)
        await ordered(stage, b"fine")
        await until_committed(stage, 2)
        assert calls == ["first", "heir", "first"], "the late one is a member again"

    story()


@staged()
async def test_r_45_r_47_an_exception_that_is_not_retried_and_one_unread_record_are_buried_at_once(
    stage: Stage,
) -> None:
    """What no deserializer can read is a dead letter as it was written."""
    await orders(stage, b"1", b"poison\xff", b"3", b"4")
    policy = RetryPolicy(
        partitions=1, replication_factor=3, not_retried=(Bad, ValueError), has_stacktraces=True
    )
    client, worker = await worker_of(stage, policy, value_deserializer=int)
    calls = Calls(client, lambda record: record.value == 3)  # type: ignore[comparison-overlap]
    runs(stage, client, lambda: worker.run(calls))
    await until_committed(stage, 4)
    assert [value for value, _ in calls.at] == [1, 3, 4]
    poison, refused = await dead(stage)
    assert (poison.value, refused.value) == (b"poison\xff", b"3")
    said = headers_of(poison)
    assert said[DLQ + "exception"] == b"builtins.ValueError"
    assert (said[DLQ + "offset"], said[DLQ + "delivery.count"]) == (b"1", b"1")
    assert b"ValueError: invalid literal" in (said[DLQ + "stacktrace"] or b"")
    assert await in_target(stage, topic=f"{GROUP}.retry") == []


@staged()
async def test_r_47_a_partition_stops_while_no_dead_letter_can_be_written_and_goes_on_later(
    stage: Stage,
) -> None:
    await orders(stage, b"a")
    await stage.create_topic(DEAD, [[3, 2, 1]], configs={"min.insync.replicas": "3"})
    policy = RetryPolicy(backoff_ms=(), partitions=1, replication_factor=3, pause_ms=5_000)
    client, worker = await worker_of(stage, policy)
    calls = Calls(client, lambda record: record.value == b"bad")
    runs(stage, client, lambda: worker.run(calls))
    await until_committed(stage, 1)
    stage.kill(3)
    await stage.until(lambda: stage.state(DEAD).leader != 3, "another leader")
    await ordered(stage, b"b", b"bad", b"c")
    await until_committed(stage, 2)
    await stage.sleep(10)
    assert await committed(stage) == 2
    assert (len(calls.of(b"a")), len(calls.of(b"b"))) == (1, 1)
    stage.start(3)
    await until_committed(stage, 4)
    (letter,) = await dead(stage)
    assert letter.value == b"bad"


@staged()
async def test_r_47_a_record_whose_retry_is_refused_is_buried_and_one_that_expires_meanwhile_too(
    stage: Stage,
) -> None:
    client = await stage.client()
    await orders(stage)
    expires_ms = client.runtime.wall_ms() + 3_000

    async def send() -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap, runtime=client.runtime
        ) as producer:
            for headers in ([(TTL_MS, b"abc")], [(EXPIRES_AT, b"%d" % expires_ms)], []):
                await producer.send("orders", b"bad", partition=0, headers=headers)

    await client.ask(send)
    policy = RetryPolicy(backoff_ms=(10_000,), partitions=1, replication_factor=3)
    client, worker = await worker_of(stage, policy)
    runs(stage, client, lambda: worker.run(Calls(client, lambda _: True)))
    await until_committed(stage, 3)
    await stage.sleep(20)
    letters = [headers_of(letter) for letter in await dead(stage)]
    assert [said[DLQ + "offset"] for said in letters] == [b"0", b"1", b"2"]
    assert (letters[1][DLQ + "message"] or b"").startswith(b"EXPIRED: ")


@staged()
async def test_r_47_a_dead_letter_that_cannot_be_written_is_given_up_if_the_policy_says_so(
    stage: Stage,
) -> None:
    await orders(stage, b"a", b"bad" * 800, b"c")
    await stage.create_topic(DEAD, [[3, 2, 1]], configs={"max.message.bytes": "80"})
    policy = RetryPolicy(
        backoff_ms=(), partitions=1, replication_factor=3, on_dlq_failure="log", pause_ms=5_000
    )
    client, worker = await worker_of(stage, policy)
    calls = Calls(client, lambda record: record.value != b"a")
    runs(stage, client, lambda: worker.run(calls))
    await until_committed(stage, 3)
    assert await dead(stage) == []
    assert [value for value, _ in calls.at] == [b"a", b"bad" * 800, b"c"]


@staged()
async def test_what_came_back_while_nobody_read_it_is_handled_whatever_auto_offset_reset_says(
    stage: Stage,
) -> None:
    await orders(stage)
    client, worker = await worker_of(stage, auto_offset_reset="latest")
    calls = Calls(client, lambda _: True)
    runs(stage, client, lambda: worker.run(calls))
    await stage.sleep(5)
    await ordered(stage, b"bad")
    await until_committed(stage, 1)
    stage.world.kill(client.process)
    await stage.sleep(10)
    assert len(await in_target(stage, topic=f"{GROUP}.again")) == 1
    other, heir = await worker_of(stage, auto_offset_reset="latest")
    heard = Calls(other, lambda _: False)
    runs(stage, other, lambda: heir.run(heard))
    await until_committed(stage, 1, f"{GROUP}.again")
    assert [value for value, _ in heard.at] == [b"bad"]


@staged()
async def test_a_worker_begins_where_no_transaction_may_still_commit_offsets(stage: Stage) -> None:
    """A dead member's commit may be decided already, and told to the group's coordinator later."""
    await orders(stage, b"a", b"b")
    client = await stage.client()
    metadata = ConsumerGroupMetadata(GROUP)

    async def open_a_transaction() -> Producer:
        bootstrap, runtime = stage.cluster.bootstrap, client.runtime
        producer = Producer(
            bootstrap_servers=bootstrap, runtime=runtime, transactional_id="dead member"
        )
        await producer.start()
        await producer.begin_transaction()
        await producer.send_offsets({TopicPartition("orders", 0): 1}, metadata)
        return producer

    producer = await client.ask(open_a_transaction)
    other, worker = await worker_of(stage)
    calls = Calls(other, lambda _: False)
    runs(stage, other, lambda: worker.run(calls))
    await stage.sleep(10)
    assert calls.at == []
    await client.ask(producer.commit_transaction)
    await until_committed(stage, 2)
    assert [value for value, _ in calls.at] == [b"b"]


@staged()
async def test_what_is_too_large_for_the_topic_of_dead_letters_is_buried_without_its_value(
    stage: Stage,
) -> None:
    await orders(stage, b"small", b"x" * 5_000, b"other")
    await stage.create_topic(DEAD, [[3, 2, 1]], configs={"max.message.bytes": "2000"})
    policy = RetryPolicy(backoff_ms=(), partitions=1, replication_factor=3)
    client, worker = await worker_of(stage, policy)
    runs(stage, client, lambda: worker.run(Calls(client, lambda _: True)))
    await until_committed(stage, 3)
    small, large, other = await dead(stage)
    assert (large.value, headers_of(large)[TRUNCATED]) == (None, b"true")
    assert (small.value, other.value) == (b"small", b"other")
    assert TRUNCATED not in headers_of(small) | headers_of(other)


@staged()
async def test_a_worker_that_is_stopped_settles_what_it_has_handled_and_leaves_the_rest(
    stage: Stage,
) -> None:
    await orders(stage, b"a", b"b", b"c")
    client, worker = await worker_of(stage)
    seen: list[object] = []

    def handle(record: ConsumerRecord) -> None:
        seen.append(record.value)
        if record.value == b"b":
            worker.stop()

    await client.ask(lambda: worker.run(handle))
    assert seen == [b"a", b"b"]
    assert await committed(stage) == 2
    await client.ask(lambda: worker.run(handle))
    assert seen == [b"a", b"b"]


@staged()
async def test_a_worker_needs_a_group_and_commits_itself(stage: Stage) -> None:
    _, plain = await stage.consumer()
    with pytest.raises(ConfigError, match="group"):
        plain.with_retries()
    _, automatic = await stage.consumer(group_id=GROUP)
    with pytest.raises(ConfigError, match=r"enable\.auto\.commit"):
        automatic.with_retries()
