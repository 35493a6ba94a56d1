"""Scenarios H: coordinators that die, partition leaders that are away, time, deleted topics.

The product's daemons and producers, in the simulator. Broker 1 coordinates, 2 and 3 could.
"""

from dataclasses import replace
from functools import partial

import pytest

from minikafka.aio import Producer
from minikafka.broker.coordinator.transaction.records import encode
from minikafka.broker.coordinator.transaction.transaction import State, Transaction
from minikafka.client.errors import DeliveryFailed, ProducerFenced, TransactionAbortable
from minikafka.client.group_types import ConsumerGroupMetadata
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.types import TopicPartition

from ..broker.transaction_support import HEADER
from ..simulation.stage import Stage, StageProducer, staged
from ..simulation.world import Violation

NAME = "app"
TOPIC = "__transaction_state"


async def coordinated(stage: Stage) -> None:
    """Transactions are kept by brokers 1, 2 and 3; 1 leads."""
    configs = {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    await stage.create_topic(TOPIC, [[1, 2, 3]], configs=configs)


async def transactional(stage: Stage, name: str | None = None, **more: object) -> StageProducer:
    settings: dict[str, object] = {"transactional_id": NAME, **more}
    return await stage.producer(name, **settings)


async def begin(producer: StageProducer) -> None:
    await producer.client.ask(producer.producer.begin_transaction)


async def commit(producer: StageProducer) -> None:
    await producer.client.ask(producer.producer.commit_transaction)


async def abort(producer: StageProducer) -> None:
    await producer.client.ask(producer.producer.abort_transaction)


async def flush(producer: StageProducer) -> None:
    await producer.client.ask(producer.producer.flush)


def coordinator(stage: Stage) -> int:
    return stage.state(TOPIC).leader


def known(stage: Stage, who: int | None = None) -> Transaction | None:
    """What the coordinator has committed of the id; None where it cannot say."""
    there = who or coordinator(stage)
    if there < 0 or not stage.daemon(there).alive:
        return None
    shard = stage.broker(there).parts.edge.transactions.shards.at(0)
    return None if isinstance(shard, ErrorCode) else shard.state.get(NAME)


def is_in(stage: Stage, state: State, who: int | None = None) -> bool:
    there = known(stage, who)
    return there is not None and there.state is state


async def committed(stage: Stage, topic: str, partition: int = 0) -> list[bytes]:
    """What a read_committed consumer gets, up to the last stable offset as it is now."""
    client, consumer = await stage.consumer(isolation_level="read_committed")
    there = TopicPartition(topic, partition)

    async def ask() -> list[bytes]:
        end = (await consumer.end_offsets([there]))[there]
        consumer.assign([there])
        values: list[bytes] = []
        while await consumer.position(there) < end:
            values += [bytes(each.value or b"") for each in await consumer.poll(timeout_ms=500)]
        await consumer.close()
        return values

    return await client.ask(ask)


async def described(stage: Stage, who: int) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[NAME])
    found: TransactionState = (await stage.ask(who, request)).transaction_states[0]
    return found


@staged(brokers=4)
async def test_h_01_the_next_coordinator_writes_the_markers_that_are_missing(stage: Stage) -> None:
    """Given a commit over three partitions that is decided, one leader away; when the coordinator
    dies before that partition has its marker; then the next one completes it: all are committed."""
    await coordinated(stage)
    await stage.create_topic("t", [[2], [3], [4]], configs={"min.insync.replicas": "1"})
    producer = await transactional(stage)
    await begin(producer)
    for index in range(3):
        await producer.send("t", b"%d" % index, index)
    stage.pause(4)
    await commit(producer)
    await stage.until(lambda: is_in(stage, State.PREPARE_COMMIT, 1), "decided")
    stage.kill(1)
    await stage.until(lambda: is_in(stage, State.PREPARE_COMMIT), "2 or 3 coordinates")
    stage.resume(4)
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "every marker is written", 20)
    assert [await committed(stage, "t", index) for index in range(3)] == [[b"0"], [b"1"], [b"2"]]


@staged(brokers=4)
async def test_h_02_a_commit_dies_with_its_coordinator_and_is_repeated(stage: Stage) -> None:
    """Given EndTxn whose record is only in the coordinator's log; when that dies for good; then
    nothing was decided, and the producer's retry decides at the next coordinator."""
    await _dies_undecided(stage, commits=True)


@staged(brokers=4)
async def test_h_02_an_abort_dies_with_its_coordinator_and_is_repeated(stage: Stage) -> None:
    """Given the same, to abort."""
    await _dies_undecided(stage, commits=False)


async def _dies_undecided(stage: Stage, *, commits: bool) -> None:
    await coordinated(stage)
    await stage.create_topic("t", [[4], [4]], configs={"min.insync.replicas": "1"})
    producer = await transactional(stage)
    await begin(producer)
    await producer.send("t", b"a", 0)
    await producer.send("t", b"b", 1)
    end = stage.partition(1, TOPIC).log_end_offset
    stage.pause(2, 3)
    ending = stage.world.loop.spawn_in(
        producer.client.process, _end(producer.producer, commits), "end"
    )
    await stage.until(lambda: stage.partition(1, TOPIC).log_end_offset > end, "it is in the log")
    assert is_in(stage, State.ONGOING, 1)
    stage.power_off(1)
    stage.resume(2, 3)
    await ending
    outcome = State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT
    await stage.until(lambda: is_in(stage, outcome), "the retry has decided", 20)
    visible = [await committed(stage, "t", index) for index in range(2)]
    assert visible == ([[b"a"], [b"b"]] if commits else [[], []])


async def _end(producer: Producer, commits: bool) -> None:
    await (producer.commit_transaction() if commits else producer.abort_transaction())


@staged()
async def test_h_06_nothing_of_a_zombie_is_visible(stage: Stage) -> None:
    """Given a producer with an open transaction, and another with its transactional id; then the
    first is fenced for good, and read_committed never sees what it wrote."""
    await coordinated(stage)
    await stage.create_topic("t", [[2, 3, 1]])
    zombie = await transactional(stage, "zombie")
    await begin(zombie)
    await zombie.send("t", b"zombie")
    alive = await transactional(stage, "alive")
    await begin(alive)
    await alive.send("t", b"alive")
    with pytest.raises(DeliveryFailed):
        await zombie.send("t", b"zombie again")
    with pytest.raises(TransactionAbortable):
        await commit(zombie)
    with pytest.raises(ProducerFenced):
        await abort(zombie)
    await commit(alive)
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "the end")
    assert await committed(stage, "t") == [b"alive"]


@staged(brokers=4)
async def test_h_07_a_marker_of_a_replaced_coordinator_is_refused(stage: Stage) -> None:
    """Given a coordinator whose markers are held up, and another that took over, completed and let
    the next transaction begin; when the held up ones arrive, or new ones of the old epoch; then the
    partition refuses them, and the open transaction stays open."""
    await coordinated(stage)
    await stage.create_topic("t", [[4]], configs={"min.insync.replicas": "1"})
    producer = await transactional(stage)
    await begin(producer)
    await producer.send("t", b"first")
    await flush(producer)
    stage.block(1, 4)
    await commit(producer)
    old = known(stage, 1)
    assert old is not None
    stage.pause(1)
    await stage.until(lambda: coordinator(stage) != 1, "another leads")
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "another completes", 20)
    await begin(producer)
    await producer.send("t", b"second")
    end = stage.partition(4, "t").log_end_offset
    stage.heal()
    stage.resume(1)
    for epoch, error in (
        (old.epoch, ErrorCode.INVALID_PRODUCER_EPOCH),
        (old.epoch + 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        marker = WritableTxnMarker(
            producer_id=old.producer_id,
            producer_epoch=epoch - 1 if error is ErrorCode.INVALID_PRODUCER_EPOCH else epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
            transaction_version=2,
        )
        answer = await stage.ask(4, WriteTxnMarkersRequest(markers=[marker]))
        assert answer.markers[0].topics[0].partitions[0].error_code == error
    await stage.sleep(3)
    assert stage.partition(4, "t").log_end_offset == end
    assert is_in(stage, State.ONGOING)
    await commit(producer)
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "the second is committed", 20)
    assert await committed(stage, "t") == [b"first", b"second"]


@staged()
async def test_h_11_an_abandoned_transaction_ends_and_others_go_on(stage: Stage) -> None:
    """Given a producer that leaves its transaction open; then it is aborted within its timeout and
    10 s, and who reads committed records goes on behind it. The producer's next send fails in a way
    that an abort mends: it goes on with its next epoch."""
    await coordinated(stage)
    await stage.create_topic("t", [[2, 3, 1]])
    producer = await transactional(stage, transaction_timeout_ms=5_000)
    await begin(producer)
    await producer.send("t", b"abandoned")
    began = stage.now
    await stage.send("t", b"behind it")
    assert await committed(stage, "t") == []
    await stage.until(lambda: is_in(stage, State.COMPLETE_ABORT), "it is aborted", 20)
    assert 5 <= stage.now - began <= 5 + 10 + 1
    assert await committed(stage, "t") == [b"behind it"]
    with pytest.raises(DeliveryFailed):
        await producer.send("t", b"too late")
    with pytest.raises(TransactionAbortable):
        await commit(producer)
    await abort(producer)
    await begin(producer)
    await producer.send("t", b"again")
    await commit(producer)
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "the end")
    assert await committed(stage, "t") == [b"behind it", b"again"]


@staged()
async def test_h_15_offsets_of_a_member_of_the_past_abort_the_whole(stage: Stage) -> None:
    """Given a transaction with records, and offsets of a generation that is over, or of no member;
    then the offsets are refused, all that is left is to abort, and neither is there afterwards."""
    await coordinated(stage)
    await stage.create_topic("__consumer_offsets", [[1, 2, 3]])
    await stage.create_topic("t", [[2, 3, 1]])
    client, consumer = await stage.consumer(group_id="readers")

    async def joined() -> ConsumerGroupMetadata:
        await consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(timeout_ms=100)
        return consumer.group_metadata()

    member = await client.ask(joined)
    producer = await transactional(stage)
    there = TopicPartition("t", 0)
    for stale in (
        replace(member, generation_id=member.generation_id - 1),
        replace(member, member_id="nobody"),
    ):
        await begin(producer)
        await producer.send("t", b"with stale offsets")
        with pytest.raises(TransactionAbortable):
            await producer.client.ask(partial(producer.producer.send_offsets, {there: 1}, stale))
        with pytest.raises(TransactionAbortable):
            await commit(producer)
        await abort(producer)
    await begin(producer)
    await producer.send("t", b"with its own")
    await producer.client.ask(partial(producer.producer.send_offsets, {there: 1}, member))
    await commit(producer)
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "the end")
    assert await committed(stage, "t") == [b"with its own"]
    found = (await client.ask(partial(consumer.committed, [there])))[there]
    assert found is not None
    assert found.offset == 1


@staged(brokers=4)
async def test_h_16_a_topic_that_was_deleted_needs_no_marker(stage: Stage) -> None:
    """Given a decided transaction over two topics, one of which is deleted before its marker is
    written; then the coordinator completes, and the other one is committed."""
    await coordinated(stage)
    await stage.create_topic("gone", [[4]], configs={"min.insync.replicas": "1"})
    await stage.create_topic("t", [[2]], configs={"min.insync.replicas": "1"})
    producer = await transactional(stage)
    await begin(producer)
    await producer.send("gone", b"a")
    await producer.send("t", b"b")
    stage.pause(4)
    await commit(producer)
    state = await described(stage, 1)
    assert state.transaction_state == "PrepareCommit"
    await stage.delete_topic("gone")
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "it completes")
    assert await committed(stage, "t") == [b"b"]


@staged(brokers=4)
async def test_h_17_a_partition_that_is_away_for_a_minute_is_committed_later(stage: Stage) -> None:
    """Given a commit over two partitions, the leader of one away for a minute; then the other one's
    records are visible meanwhile (a transaction is not isolated while it ends), the producer's next
    transaction waits, and the partition is committed when it is back."""
    await coordinated(stage)
    await stage.create_topic("t", [[2], [4]], configs={"min.insync.replicas": "1"})
    producer = await transactional(stage)
    await begin(producer)
    await producer.send("t", b"a", 0)
    await producer.send("t", b"b", 1)
    stage.kill(4)
    await commit(producer)
    await stage.until(lambda: stage.partition(2, "t").last_stable_offset == 2, "a is visible")
    assert await committed(stage, "t", 0) == [b"a"]
    await stage.sleep(60)
    there = await described(stage, 1)
    assert there.transaction_state == "PrepareCommit"
    assert [(each.topic, each.partitions) for each in there.topics] == [("t", [1])]
    stage.start(4)
    await stage.until(lambda: is_in(stage, State.COMPLETE_COMMIT), "b is committed, too", 20)
    assert await committed(stage, "t", 1) == [b"b"]


@staged()
async def test_h_18_without_enough_replicas_no_transaction_goes_on(stage: Stage) -> None:
    """Given __transaction_state below min ISR; then coordinators answer COORDINATOR_NOT_AVAILABLE
    and change nothing, and go on once there are enough replicas."""
    await coordinated(stage)
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
    first = await stage.ask(1, request)
    assert first.error_code == ErrorCode.NONE
    stage.kill(2, 3)
    await stage.until(lambda: stage.state(TOPIC).isr == (1,), "1 is alone")
    before = known(stage, 1)
    for _ in range(2):
        refused = await stage.ask(1, request)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
    assert known(stage, 1) is before
    stage.start(2, 3)
    await stage.until(lambda: len(stage.state(TOPIC).isr) == 3, "they are back", 20)
    second = await stage.ask(coordinator(stage), request)
    assert (second.error_code, second.producer_epoch) == (0, first.producer_epoch + 1)


def test_a_planted_second_owner_of_a_producer_id_is_found() -> None:
    """The simulator looks into coordinators: what breaks invariant 22 there ends the run."""

    async def story(stage: Stage) -> None:
        await coordinated(stage)
        producer = await transactional(stage)
        shard = stage.broker(1).parts.edge.transactions.shards.at(0)
        assert not isinstance(shard, ErrorCode)
        there = known(stage, 1)
        assert there is not None
        twin = encode(replace(there, transactional_id="twin"), 2)
        shard.append([twin], lambda error: None)
        shard.state.replay(*twin, 0, HEADER)
        await begin(producer)
        await stage.sleep(1)

    with pytest.raises(Violation, match="invariants 22 and 23"):
        Stage().play(story)
