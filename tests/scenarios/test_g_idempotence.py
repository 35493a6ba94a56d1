"""Scenarios G: idempotent producers. Each batch is written once, in order, or refused."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minikafka.aio import Producer
from minikafka.broker.coordinator.transaction.config import TransactionConfig
from minikafka.broker.partition.requests import Appended
from minikafka.broker.upkeep.upkeep import forget_idle_producers
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.record_batch import read_header, stamp
from minikafka.protocol.records.records import NewRecord, build
from minikafka.protocol.types import NO_LEADER
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import ConfigError
from minikafka.storage.producer_state import MAX_SEQUENCE

from ..broker.edge_support import connections_of
from ..broker.node_support import ME, WALL_MS, B, Node, batch, state, values_in
from ..simulation.stage import Stage, staged

ONE = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
MIN_2 = {"min.insync.replicas": "2"}
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
Sent = tuple[int, int, int]
"""Producer id, its epoch, the first sequence."""


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Broker 1 leads one partition; the test is its controller, its clients, its clock."""
    made = await Node(tmp_path).start()
    await made.give(state(ME))
    yield made
    await made.stop()


def send(node: Node, producer: Sent, *values: bytes) -> Appended:
    """One batch; its values are its sequence numbers if none are given."""
    return node.append(batch(*(values or (b"%d" % producer[2],)), producer=producer))


def told(appended: Appended) -> tuple[ErrorCode, int]:
    return appended.error, appended.base_offset


def stored(node: Node) -> list[bytes | None]:
    log = node[0].log
    if not log.log_end_offset:
        return []
    return values_in(log.reader.read(0, max_bytes=1 << 20, up_to=log.log_end_offset).data)


@staged()
async def test_g_01_batches_in_flight_over_a_failover_are_written_once_and_in_order(
    stage: Stage,
) -> None:
    """Given five batches in flight, the leader's answer to the first lost; when the leader dies and
    another leads; then the producer's retries give each batch exactly once, in order."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    producer = await stage.producer("writer")
    await producer.send("t", b"0")
    stage.block(1, "writer")
    acks = [producer.send("t", b"%d" % number) for number in range(1, 6)]
    await stage.until(lambda: stage.partition(2, "t").log_end_offset > 1, "followers have it")
    stage.kill(1)
    stage.heal()
    assert [(await ack).offset for ack in acks] == [1, 2, 3, 4, 5]
    assert await stage.read("t") == [b"%d" % number for number in range(6)]


@staged(broker={"log.retention.check.interval.ms": "500"})
async def test_g_01_a_clock_that_is_set_forward_by_days_makes_no_broker_forget_a_producer(
    stage: Stage,
) -> None:
    """Given a batch whose answer is lost; when the leader's clock is set two days forward, and it
    looks for idle producers; then the producer's retry is not written twice."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    producer = await stage.producer("writer")
    await producer.send("t", b"0")
    stage.block(1, "writer")
    ack = producer.send("t", b"1")
    await stage.until(lambda: stage.partition(2, "t").log_end_offset > 1, "followers have it")
    stage.skew(1, 2 * 86_400_000)
    await stage.sleep(5)
    stage.heal()
    assert (await ack).offset == 1
    assert await stage.read("t") == [b"0", b"1"]


async def test_g_02_a_repeat_that_nobody_remembers_is_not_written_again(node: Node) -> None:
    """Given ten batches; when the one before the last five comes again; then it is refused as out
    of order, and a repeat of one of the last five gets its old offset."""
    for sequence in range(10):
        assert told(send(node, (7, 0, sequence))) == (ErrorCode.NONE, sequence)
    assert told(send(node, (7, 0, 4))) == (OUT_OF_ORDER, -1)
    for sequence in range(5, 10):
        assert told(send(node, (7, 0, sequence))) == (ErrorCode.NONE, sequence)
    assert node[0].log_end_offset == 10


async def test_g_03_sequences_go_on_at_0_after_the_last(node: Node) -> None:
    """Given a producer at sequence 2^31 - 2; when its batch of three wraps; then it is taken, and
    repeated, and the one after it."""
    send(node, (7, 0, MAX_SEQUENCE - 2))
    wrapping = (7, 0, MAX_SEQUENCE - 1)
    assert told(send(node, wrapping, b"a", b"b", b"c")) == (ErrorCode.NONE, 1)
    assert told(send(node, wrapping, b"a", b"b", b"c")) == (ErrorCode.NONE, 1)
    assert told(send(node, (7, 0, 2))) == (OUT_OF_ORDER, -1)
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 4)


async def test_g_03_the_last_sequence_ends_a_batch(node: Node) -> None:
    """Given a producer whose batch ends with sequence 2^31 - 1; then 0 comes next, and not 2^31."""
    send(node, (7, 0, MAX_SEQUENCE))
    assert told(send(node, (7, 0, 1))) == (OUT_OF_ORDER, -1)
    assert told(send(node, (7, 0, 0))) == (ErrorCode.NONE, 1)


async def test_g_04_a_new_epoch_begins_with_sequence_0(node: Node) -> None:
    """Given epoch 0; when epoch 1 begins with sequence 5; then it is refused, with 0 taken, and
    epoch 0 is over."""
    send(node, (7, 0, 0))
    assert told(send(node, (7, 1, 5))) == (OUT_OF_ORDER, -1)
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 1)
    assert told(send(node, (7, 1, 0))) == (ErrorCode.NONE, 2)
    assert told(send(node, (7, 0, 2))) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


async def test_g_05_a_forgotten_producer_is_a_new_one(node: Node) -> None:
    """Given a producer idle for 24 hours; when it goes on, or repeats; then it is taken as a new
    one, with any sequence: what it repeats is written again (docs/guarantees.md)."""
    send(node, (7, 0, 0))
    send(node, (7, 0, 1))
    day = from_mapping(TransactionConfig, {}).producer_id_expiration_ms
    forget = partial(forget_idle_producers, node[0])
    assert (forget(WALL_MS + day - 1, day), forget(WALL_MS + day, day)) == (0, 1)
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 2)
    assert told(send(node, (7, 0, 2))) == (ErrorCode.NONE, 3)


async def test_g_06_a_batch_that_overtakes_waits_for_its_turn(node: Node) -> None:
    """Given batch 2 before batch 1, as retries bring about; then 2 is refused, and after 1 taken;
    the same within one read event, before anything is written."""
    assert told(send(node, (7, 0, 0))) == (ErrorCode.NONE, 0)
    assert told(send(node, (7, 0, 2))) == (OUT_OF_ORDER, -1)
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 1)
    assert told(send(node, (7, 0, 2))) == (ErrorCode.NONE, 2)
    partition = node[0]
    staged = [
        partition.append_as_leader(
            memoryview(batch(b"x", producer=(7, 0, sequence))), acks=1, wall_ms=WALL_MS
        )
        for sequence in (4, 3, 4, 3)
    ]
    node.partitions.write_staged()
    assert [told(each) for each in staged] == [
        (OUT_OF_ORDER, -1),
        (ErrorCode.NONE, 3),
        (ErrorCode.NONE, 4),
        (ErrorCode.NONE, 3),
    ]


@staged(brokers=1, broker=ONE)
async def test_g_06_what_a_transaction_sends_meanwhile_waits_in_line(stage: Stage) -> None:
    """Given transactions with epochs of their own, and a coordinator that is slow to answer their
    leader; when one sends a record after the other; then five batches wait behind one question,
    and none that is sent after the answer comes past them."""
    await stage.create_topic("t", 1, replication=1)
    writer = await stage.producer("writer", transactional_id="tx", batch_size=1)
    edge = stage.broker(1).parts.edge
    verify, questions = edge.transactions.verify, []

    def slowly(*asked: Any, **options: Any) -> None:
        questions.append(asked)
        asyncio.get_running_loop().call_later(0.5, partial(verify, *asked, **options))

    def held_bytes() -> int:
        return sum(each.inbox.held_bytes for each in connections_of(edge))

    edge.transactions.verify = slowly  # type: ignore[method-assign]
    size = len(build([NewRecord(WALL_MS, None, b"00")]))
    expected = []
    for turn in range(3):
        await writer.client.ask(writer.producer.begin_transaction)
        values = [b"%d%d" % (turn, number) for number in range(9)]
        acks = [writer.send("t", value) for value in values]
        await stage.until(lambda: held_bytes() == 5 * size, "five wait")
        offsets = [(await ack).offset for ack in acks]
        assert offsets == list(range(10 * turn, 10 * turn + 9))
        await writer.client.ask(writer.producer.commit_transaction)
        expected += values
        assert len(questions) == turn + 1
    assert await stage.read("t") == expected
    assert held_bytes() == 0


@staged()
async def test_g_07_what_the_new_leader_never_had_is_taken_again(stage: Stage) -> None:
    """Given a batch that only the leader has; when another leads, and the old leader's log is cut;
    then the retry is taken and written once, and the old leader remembers what the new one does."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    producer = await stage.producer("writer")
    await producer.send("t", b"0")
    stage.cut(1, 2)
    stage.cut(1, 3)
    ack = producer.send("t", b"1")
    await stage.until(lambda: stage.partition(1, "t").log_end_offset == 2, "1 has it")
    stage.kill(1)
    stage.heal()
    await stage.until(lambda: stage.state("t").leader not in (1, NO_LEADER), "another leads")
    assert (await ack).offset == 1
    assert (await producer.send("t", b"2")).offset == 2
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "1 is back", 30)
    assert await stage.read("t") == [b"0", b"1", b"2"]
    ((_, known),) = stage.partition(1, "t").log.producers
    assert [each.first_sequence for each in known.batches][-1] == 2


async def test_g_07_a_follower_forgets_what_it_cuts_off(node: Node) -> None:
    """Given a leader with batches that nobody else has; when it follows and cuts them off; then
    the next leader's batches of the same sequences are what it knows, and it leads on."""
    for sequence in range(3):
        send(node, (7, 0, sequence))
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    node[0].log.truncate_to(1)
    await node.change(state(ME, leader_epoch=3, partition_epoch=3))
    assert told(send(node, (7, 0, 0))) == (ErrorCode.NONE, 0)
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 1)
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("clean", [True, False])
async def test_g_08_repeats_are_known_after_state_was_made_anew(
    tmp_path: Path, clean: bool
) -> None:
    """Given batches, some below a producer snapshot; when the broker restarts and its log is cut;
    then repeats of what is left are repeats, and what was cut is taken again."""
    node = await Node(tmp_path).start()
    await node.give(state(ME))
    for sequence in range(4):
        send(node, (7, 0, sequence))
    node[0].log.roll()
    send(node, (7, 0, 4))
    if clean:
        await node.stop()
    else:
        node.kill()
    again = await Node(tmp_path).start()
    await again.give(state(B))
    again[0].log.truncate_to(3)
    await again.change(state(ME, leader_epoch=2, partition_epoch=2))
    assert told(send(again, (7, 0, 2))) == (ErrorCode.NONE, 2)
    assert told(send(again, (7, 0, 4))) == (OUT_OF_ORDER, -1)
    assert told(send(again, (7, 0, 3))) == (ErrorCode.NONE, 3)
    await again.stop()


async def test_g_09_without_answers_a_gap_changes_nothing(node: Node) -> None:
    """Given acks=0 with sequences, which our clients refuse; when a batch is lost on the way; then
    the next one is refused like any other, and what is known of the producer is what is there."""
    with pytest.raises(ConfigError, match="acks"):
        Producer(bootstrap_servers="localhost:9092", acks=0, enable_idempotence=True)
    gap, repeat = (7, 0, 2), (7, 0, 0)
    assert told(node.append(batch(b"0", producer=repeat), acks=0)) == (ErrorCode.NONE, 0)
    assert told(node.append(batch(b"2", producer=gap), acks=0)) == (OUT_OF_ORDER, -1)
    assert told(node.append(batch(b"0", producer=repeat), acks=0)) == (ErrorCode.NONE, 0)
    known = node[0].log.producers.get(7)
    assert known is not None
    assert [each.last_sequence for each in known.batches] == [0]
    assert stored(node) == [b"0"]


async def test_g_10_one_partition_refuses_and_the_other_goes_on(node: Node) -> None:
    """Given one request with two partitions, one of which refuses its batch; then only there does
    the sequence stay where it was."""
    await node.change(state(ME), index=1)
    await node.change(state(ME, isr=(ME,), partition_epoch=2), index=1)
    await node.configure("min.insync.replicas", "2")
    refused = node.append(batch(b"0", producer=(7, 0, 0)), acks=-1, index=1)
    taken = node.append(batch(b"0", producer=(7, 0, 0)), acks=-1, index=0)
    assert (refused.error, taken.error) == (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE)
    assert node[1].log.producers.get(7) is None
    known = node[0].log.producers.get(7)
    assert known is not None
    assert known.batches[-1].last_sequence == 0
    again = node.append(batch(b"0", producer=(7, 0, 0)), acks=1, index=1)
    assert told(again) == (ErrorCode.NONE, 0)


async def test_g_01_a_follower_knows_what_its_leader_knew(node: Node) -> None:
    """Given batches of a producer that a follower has fetched; when it leads; then a repeat gets
    the old offset and the next batch follows."""
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    data = bytearray()
    for sequence in range(3):
        one = batch(b"%d" % sequence, producer=(7, 0, sequence))
        stamp(one, read_header(one), sequence, 2)
        data += one
    node.follow(data)
    await node.change(state(ME, leader_epoch=3, partition_epoch=3))
    assert told(send(node, (7, 0, 1))) == (ErrorCode.NONE, 1)
    assert told(send(node, (7, 0, 3))) == (ErrorCode.NONE, 3)
    assert stored(node) == [b"0", b"1", b"2", b"3"]
