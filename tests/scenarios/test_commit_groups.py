"""Commit groups: transactions of several producers, committed by one decision of a driver.

The product's daemons, producers and admin, in the simulator. Broker 1 coordinates, 2 and 3 could.
"""

import asyncio
from typing import Any

import pytest

from minikafka.aio import Admin
from minikafka.broker.coordinator.transaction.commit_group import CommitGroup
from minikafka.broker.coordinator.transaction.transaction import State
from minikafka.client.errors import DeliveryFailed
from minikafka.client.group_types import PreparedTransaction
from minikafka.protocol.commit_groups import member_id
from minikafka.protocol.errors import ApiError, ErrorCode

from ..simulation.stage import Stage, StageProducer, staged
from .test_h_coordinators_in_clusters import TOPIC, begin, committed, coordinated, coordinator

GROUP = "sink"
PLACES = [[2, 3, 4], [3, 4, 2], [4, 2, 3]]


async def prepared_stage(stage: Stage) -> None:
    """Partitions of "t" are led by brokers that coordinate nothing."""
    await coordinated(stage)
    await stage.create_topic("t", PLACES, configs={"min.insync.replicas": "2"})


async def task(stage: Stage, partition: int, attempt: int = 0, **settings: Any) -> StageProducer:
    """The producer of one attempt at one partition's work."""
    name = member_id(GROUP, partition, 0, attempt)
    return await stage.producer(transactional_id=name, **settings)


async def prepare(producer: StageProducer) -> PreparedTransaction:
    found = await producer.client.ask(producer.producer.prepare_transaction)
    assert found is not None
    return found


async def work(stage: Stage, batch: int, count: int = 3) -> list[PreparedTransaction]:
    """Each task writes one record, by a producer of its own, and leaves its transaction open."""
    found = []
    for index in range(count):
        producer = await task(stage, index)
        await begin(producer)
        await producer.send("t", b"%d/%d" % (batch, index), index)
        found.append(await prepare(producer))
        await producer.close()
    return found


async def take_over(stage: Stage, run: str = "run") -> int:
    async def do(admin: Admin) -> int:
        return (await admin.init_commit_group(GROUP, run)).generation

    return await stage.admin(do)


async def commit(
    stage: Stage, batch: int, transactions: list[PreparedTransaction], generation: int = 0
) -> bool:
    async def do(admin: Admin) -> bool:
        return await admin.commit_group(GROUP, generation, batch, transactions)

    return await stage.admin(do)


def group(stage: Stage) -> CommitGroup | None:
    """As the coordinator has committed it; None where it cannot say."""
    there = coordinator(stage)
    if there < 0 or not stage.daemon(there).alive:
        return None
    shard = stage.broker(there).parts.edge.transactions.shards.at(0)
    return None if isinstance(shard, ErrorCode) else shard.state.groups.get(GROUP)


def has_batch(stage: Stage, batch: int) -> bool:
    found = group(stage)
    return found is not None and found.batch_id == batch


def states(stage: Stage) -> dict[str, State]:
    """Of every id of the group, as its coordinator has committed it; empty where it cannot say."""
    there = coordinator(stage)
    if there < 0 or not stage.daemon(there).alive:
        return {}
    shard = stage.broker(there).parts.edge.transactions.shards.at(0)
    if isinstance(shard, ErrorCode):
        return {}
    return {each.transactional_id.partition("/")[2]: each.state for each in shard.state}


def are_all(stage: Stage, state: State) -> bool:
    found = states(stage)
    return bool(found) and all(each is state for each in found.values())


async def seen(stage: Stage) -> list[list[bytes]]:
    return [await committed(stage, "t", index) for index in range(3)]


@staged(brokers=4)
async def test_what_is_prepared_is_committed_by_one_step(stage: Stage) -> None:
    """Given three tasks that wrote and are gone, their transactions open; then nothing is visible;
    when the driver commits them; then all is, and a second commit of the batch does nothing."""
    await prepared_stage(stage)
    assert await take_over(stage) == 0
    for batch in range(3):
        transactions = await work(stage, batch)
        assert await seen(stage) == [[b"%d/%d" % (n, i) for n in range(batch)] for i in range(3)]
        assert await commit(stage, batch, transactions)
        assert not await commit(stage, batch, transactions)
        await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end")
    assert await seen(stage) == [[b"%d/%d" % (n, i) for n in range(3)] for i in range(3)]


@staged(brokers=4)
async def test_a_decision_stands_over_the_death_of_its_coordinator(stage: Stage) -> None:
    """Given a commit that is answered, a partition leader away; when the coordinator dies before
    that partition has its marker; then the next one knows batch and generation, and completes."""
    await prepared_stage(stage)
    await stage.create_topic("u", [[4]], configs={"min.insync.replicas": "1"})
    await take_over(stage)
    transactions = await work(stage, 0, 2)
    last = await task(stage, 2)
    await begin(last)
    await last.send("u", b"away")
    transactions.append(await prepare(last))
    stage.pause(4)
    assert await commit(stage, 0, transactions)
    assert states(stage)["2/0.0"] is State.PREPARE_COMMIT
    stage.kill(1)
    await stage.until(lambda: group(stage) is not None, "2 or 3 coordinates")
    assert not await commit(stage, 0, transactions)
    assert await take_over(stage) == 0
    stage.resume(4)
    await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "every marker is written", 20)
    assert await committed(stage, "u") == [b"away"]
    assert [await committed(stage, "t", index) for index in range(2)] == [[b"0/0"], [b"0/1"]]


@staged(brokers=4)
async def test_a_decision_dies_whole_with_its_coordinator_and_is_repeated(stage: Stage) -> None:
    """Given a commit of three transactions that is only in the coordinator's log; when that dies
    for good; then nothing was decided of any of them, and the driver's retry decides about all at
    the next coordinator."""
    await prepared_stage(stage)
    await take_over(stage)
    transactions = await work(stage, 0)
    end = stage.partition(1, TOPIC).log_end_offset
    stage.block(1, 2)
    stage.block(1, 3)
    committing = asyncio.ensure_future(commit(stage, 0, transactions))
    await stage.until(lambda: stage.partition(1, TOPIC).log_end_offset > end, "it is in the log")
    assert stage.partition(1, TOPIC).log_end_offset == end + 4
    assert are_all(stage, State.ONGOING)
    stage.power_off(1)
    assert await committing
    await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end", 20)
    assert await seen(stage) == [[b"0/0"], [b"0/1"], [b"0/2"]]


@staged(brokers=4)
async def test_an_answer_that_was_lost_is_asked_for_again(stage: Stage) -> None:
    """Given a commit that is decided, and its answer lost with the coordinator; then the driver
    hears of the next one that the batch is recorded, and each record is there once."""
    await prepared_stage(stage)
    await take_over(stage)
    transactions = await work(stage, 0)

    async def do(admin: Admin) -> bool:
        await admin.init_commit_group(GROUP, "run")
        stage.block(1, "desk")
        return await admin.commit_group(GROUP, 0, 0, transactions)

    committing = asyncio.ensure_future(stage.admin(do))
    await stage.until(lambda: has_batch(stage, 0), "it is decided")
    stage.kill(1)
    stage.heal()
    assert not await committing
    await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end", 20)
    assert await seen(stage) == [[b"0/0"], [b"0/1"], [b"0/2"]]


@staged(brokers=4)
async def test_what_is_not_named_is_aborted(stage: Stage) -> None:
    """Given a task that failed and was tried again, one that was tried twice at once, and one of
    another group; when the driver commits the attempts it knows; then the others of the group are
    aborted, readers go on behind them, and the other group's transaction stays open."""
    await prepared_stage(stage)
    await take_over(stage)
    failed, twin = await task(stage, 0, 7), await task(stage, 1, 1)
    for producer, index in ((failed, 0), (twin, 1)):
        await begin(producer)
        await producer.send("t", b"lost", index)
        await producer.client.ask(producer.producer.flush)
    await prepare(twin)
    other = await stage.producer(transactional_id="sink2/0/0.0")
    await stage.create_topic("u", [[2]], configs={"min.insync.replicas": "1"})
    await begin(other)
    await other.send("u", b"open")
    transactions = await work(stage, 0)
    assert await commit(stage, 0, transactions)
    losers = ("0/0.7", "1/0.1")
    await stage.until(
        lambda: [states(stage)[each] for each in losers] == [State.COMPLETE_ABORT] * 2, "aborted"
    )
    assert await seen(stage) == [[b"0/0"], [b"0/1"], [b"0/2"]]
    assert states(stage)["0/0.0"] is not State.ONGOING
    with pytest.raises(DeliveryFailed):
        await failed.send("t", b"too late")
    assert await committed(stage, "u") == []
    await other.client.ask(other.producer.commit_transaction)


@staged(brokers=4)
async def test_a_driver_that_was_replaced_commits_nothing(stage: Stage) -> None:
    """Given a run with its transactions prepared, and a second run of the same work; then the first
    is refused, at the commit and when it asks again, and the second commits its own."""
    await prepared_stage(stage)
    assert await take_over(stage, "old") == 0
    zombie = await work(stage, 0)
    assert await take_over(stage, "new") == 1
    with pytest.raises(ApiError, match="generation 0 is not the present one") as refused:
        await commit(stage, 0, zombie, generation=0)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED
    with pytest.raises(ApiError, match="'old' was followed by 'new'"):
        await take_over(stage, "old")
    assert are_all(stage, State.ONGOING)
    mine = await work(stage, 0)
    assert await commit(stage, 0, mine, generation=1)
    with pytest.raises(ApiError, match="generation 0"):
        await commit(stage, 1, zombie, generation=0)
    await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end")
    assert await seen(stage) == [[b"0/0"], [b"0/1"], [b"0/2"]]


@staged(brokers=4)
async def test_one_transaction_that_is_over_keeps_all_from_being_committed(stage: Stage) -> None:
    """Given an outage of the driver longer than one transaction's timeout; then its commit is
    refused, naming that transaction, and nothing of the batch is visible; done again, it is."""
    await prepared_stage(stage)
    await take_over(stage)
    transactions = await work(stage, 0, 2)
    hasty = await task(stage, 2, transaction_timeout_ms=2_000)
    await begin(hasty)
    await hasty.send("t", b"late", 2)
    transactions.append(await prepare(hasty))
    await stage.until(lambda: states(stage)["2/0.0"] is State.COMPLETE_ABORT, "time is over", 20)
    with pytest.raises(ApiError, match=r"sink/2/0\.0: no transaction .* is open") as refused:
        await commit(stage, 0, transactions)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    assert states(stage)["0/0.0"] is State.ONGOING
    assert await seen(stage) == [[], [], []]
    assert await commit(stage, 0, await work(stage, 0))
    await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end")
    assert await seen(stage) == [[b"0/0"], [b"0/1"], [b"0/2"]]


@staged(brokers=4)
async def test_more_than_one_batch_holds_is_refused_before_anything_is_written(
    stage: Stage,
) -> None:
    """Given a batch size that the decision exceeds; then it is refused, nothing is written, and a
    smaller one is committed."""
    await prepared_stage(stage)
    await take_over(stage)
    transactions = await work(stage, 0)
    await stage.alter_configs(TOPIC, {"max.message.bytes": "300"})
    end = stage.partition(1, TOPIC).log_end_offset
    with pytest.raises(ApiError, match="3 transactions are more than one batch") as refused:
        await commit(stage, 0, transactions)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert stage.partition(1, TOPIC).log_end_offset == end
    assert are_all(stage, State.ONGOING)
    assert await commit(stage, 0, transactions[:1])
    await stage.until(lambda: states(stage)["1/0.0"] is State.COMPLETE_ABORT, "the others are not")
    assert await seen(stage) == [[b"0/0"], [], []]


@staged(brokers=4)
async def test_a_batch_that_was_done_again_leaves_nothing_open(stage: Stage) -> None:
    """Given a batch that is recorded, and done once more by a driver that does not know; then its
    commit is a replay, what it prepared is aborted, and each record is there once."""
    await prepared_stage(stage)
    await take_over(stage)
    assert await commit(stage, 0, await work(stage, 0))
    assert not await commit(stage, 0, await work(stage, 0))
    await stage.until(lambda: are_all(stage, State.COMPLETE_ABORT), "the second ones are aborted")
    assert await seen(stage) == [[b"0/0"], [b"0/1"], [b"0/2"]]
    assert await commit(stage, 1, [])
    assert not await commit(stage, 1, await work(stage, 1))


@staged(brokers=4)
async def test_a_producer_goes_on_after_another_process_has_committed(stage: Stage) -> None:
    """Given a producer that prepares one transaction after the other, all committed by the driver,
    but one; then each of its transactions has an epoch of its own, and only that one is aborted."""
    await prepared_stage(stage)
    await take_over(stage)
    producer = await task(stage, 0)
    epochs = []
    for batch in range(4):
        await begin(producer)
        await producer.send("t", b"%d" % batch)
        prepared = await prepare(producer)
        epochs.append(prepared.epoch)
        if batch != 2:
            assert await commit(stage, batch, [prepared])
    assert epochs == sorted(dict.fromkeys(epochs))
    await begin(producer)
    assert await producer.client.ask(producer.producer.prepare_transaction) is None
    await begin(producer)
    await producer.send("t", b"own")
    await producer.client.ask(producer.producer.commit_transaction)
    await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end")
    assert await committed(stage, "t") == [b"0", b"1", b"3", b"own"]
