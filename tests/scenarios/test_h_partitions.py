"""Scenarios H, in partitions: what hangs, what is read, when it is decided."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.partition.own_batches import append_marker
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import Appended, FetchSpec
from minikafka.broker.partition.verification import Verification
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import READ_COMMITTED
from minikafka.protocol.messages.list_offsets import LATEST_TIMESTAMP
from minikafka.protocol.records.record_batch import headers, read_header, records, stamp
from minikafka.protocol.records.records import BatchBuilder
from minikafka.protocol.types import TopicPartition
from minikafka.storage.aborted import aborted_between
from minikafka.storage.log import Log
from minikafka.storage.markers import TransactionMarker, encode_marker
from minikafka.storage.reading import end_of

from ..broker.node_support import ME, WALL_MS, B, C, Node, state
from ..simulation.stage import Stage, staged
from ..storage.compaction_support import InlineRuntime, compacted, put
from ..storage.support import topic

MIN_2 = {"min.insync.replicas": "2"}
NOT_IN_TRANSACTION = ErrorCode.INVALID_TXN_STATE
OK = ErrorCode.NONE
INTERNAL = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Broker 1 leads one partition; the test is its controller, its clients, its clock."""
    made = await Node(tmp_path).start()
    await made.give(state(ME))
    yield made
    await made.stop()


def transactional(value: bytes, producer: tuple[int, int, int]) -> bytearray:
    builder = BatchBuilder(is_transactional=True)
    builder.append(WALL_MS, b"key", value)
    producer_id, epoch, sequence = producer
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def write(
    node: Node, value: bytes, producer: tuple[int, int, int], guard: Verification | None = None
) -> ErrorCode:
    """A batch of a transaction arrives; `guard` is what its verification began with."""
    appended = node[0].append_as_leader(
        memoryview(transactional(value, producer)), acks=1, wall_ms=WALL_MS, guard=guard
    )
    node.partitions.write_staged()
    return appended.error


def begin(node: Node, value: bytes, producer: tuple[int, int, int]) -> None:
    """The same, verified in between."""
    guard = node[0].needs_verification(*producer)
    assert write(node, value, producer, guard) is OK


def end(node: Node, producer_id: int, *, commit: bool, epoch: int = 0) -> Appended:
    return append_marker(node[0], TransactionMarker(producer_id, epoch, 0, commit), WALL_MS)


def replicate(node: Node) -> None:
    """Both followers have all there is."""
    node.fetched_by(B, C, offset=node[0].log_end_offset, last_epoch=node[0].leader_epoch)


async def visible(partition: Partition) -> list[bytes]:
    """The values that a reader of committed transactions sees, as every client finds them."""
    found: list[bytes] = []
    offset = partition.log_start_offset
    while True:
        spec = FetchSpec(offset, 200, isolation=READ_COMMITTED)
        answer = partition.fetch(spec, now_ms=0)
        assert answer.error is OK
        if answer.cold is not None:
            answer.records = await answer.cold()
        if not len(answer.records):
            return found
        hidden = sorted(answer.aborted, key=lambda each: each.first_offset)
        aborting: dict[int, None] = {}
        for position, header in headers(answer.records):
            while hidden and hidden[0].first_offset <= header.last_offset:
                aborting[hidden.pop(0).producer_id] = None
            offset = header.next_offset
            if header.is_control:
                aborting.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in aborting):
                found += [one.value or b"" for one in records(answer.records, position)]


async def test_h_03_a_produce_that_comes_after_the_abort_hangs_nothing(node: Node) -> None:
    """Given a partition in a transaction, its verification answered with yes, the produce held up;
    when the transaction is aborted first; then the produce is refused, and nothing stays open."""
    guard = node[0].needs_verification(7, 0, 0)
    assert end(node, 7, commit=False).error is OK
    assert write(node, b"late", (7, 0, 0), guard) is NOT_IN_TRANSACTION
    replicate(node)
    assert node[0].last_stable_offset == node[0].high_watermark == 1
    assert await visible(node[0]) == []


async def test_h_03_nothing_begins_without_verification(node: Node) -> None:
    """Given no transaction open here; when a batch of one comes without having been verified, or
    with one of an older epoch, or after one with a lower sequence; then it is refused."""
    assert write(node, b"x", (7, 0, 0)) is NOT_IN_TRANSACTION
    guard = node[0].needs_verification(7, 0, 0)
    assert write(node, b"x", (7, 1, 0), guard) is NOT_IN_TRANSACTION
    assert node[0].needs_verification(7, 0, 5) is guard
    assert write(node, b"x", (7, 0, 5), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(node, b"x", (7, 0, 0), guard) is OK
    assert node[0].needs_verification(7, 0, 1) is None
    assert write(node, b"x", (7, 0, 1)) is OK


async def test_h_03_a_fenced_producer_gets_the_error_it_can_recover_from(node: Node) -> None:
    """Given a transaction that was aborted for its time, with a newer epoch; when the producer goes
    on without knowing; then INVALID_PRODUCER_EPOCH, verified or not. [KAFKA-19690]"""
    begin(node, b"a", (7, 0, 0))
    assert end(node, 7, commit=False, epoch=1).error is OK
    assert write(node, b"b", (7, 0, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    guard = node[0].needs_verification(7, 0, 1)
    assert write(node, b"b", (7, 0, 1), guard) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_h_05_a_verification_counts_for_the_transaction_it_was_made_for(node: Node) -> None:
    """Given a verification answered with yes; then the abort's marker, and the next transaction,
    which has its own verification under way; when the first append arrives at last; then it is
    refused, and that of the second is taken. [KAFKA-14884]"""
    first = node[0].needs_verification(7, 0, 0)
    assert end(node, 7, commit=False).error is OK
    second = node[0].needs_verification(7, 0, 0)
    assert write(node, b"of the first", (7, 0, 0), first) is NOT_IN_TRANSACTION
    assert write(node, b"of the second", (7, 0, 0), second) is OK
    assert end(node, 7, commit=True).error is OK
    replicate(node)
    assert await visible(node[0]) == [b"of the second"]


async def test_h_05_the_marker_of_the_one_before_voids_nothing(node: Node) -> None:
    """Given transactions with epochs of their own, the next one's verification under way; when
    the marker of the one before arrives, which carries the next one's epoch; then the verification
    stands; but not when the marker of its own transaction comes first."""
    begin(node, b"a", (7, 0, 0))
    guard = node[0].needs_verification(7, 1, 0, raises_epoch=True)
    before = TransactionMarker(7, 1, 0, is_commit=True, transaction_version=2)
    assert append_marker(node[0], before, WALL_MS).error is OK
    assert write(node, b"b", (7, 1, 0), guard) is OK
    own = TransactionMarker(7, 2, 0, is_commit=True, transaction_version=2)
    assert append_marker(node[0], own, WALL_MS).error is OK
    guard = node[0].needs_verification(7, 2, 0, raises_epoch=True)
    own = TransactionMarker(7, 3, 0, is_commit=False, transaction_version=2)
    assert append_marker(node[0], own, WALL_MS).error is OK
    assert write(node, b"c", (7, 2, 0), guard) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_h_05_where_each_transaction_has_its_epoch_it_begins_with_0(node: Node) -> None:
    """Given a producer that nothing is known of here, in a transaction with an epoch of its own;
    when its first batch has another sequence than 0, verified; then one before it is missing."""
    guard = node[0].needs_verification(7, 3, 4, raises_epoch=True)
    assert write(node, b"x", (7, 3, 4), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(node, b"x", (7, 3, 0), guard) is OK


async def test_h_05_a_verification_does_not_outlive_the_leadership(node: Node) -> None:
    """Given a verification under way; when this broker follows and leads again; then it is void:
    markers that another leader wrote could not end it. The producer is to ask again."""
    guard = node[0].needs_verification(7, 0, 0)
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    await node.change(state(ME, leader_epoch=3, partition_epoch=3))
    assert write(node, b"x", (7, 0, 0), guard) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_h_07_a_replaced_coordinator_ends_nothing(node: Node) -> None:
    """Given a marker of coordinator epoch 5; when one of epoch 4 comes, or one of an older producer
    epoch; then TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH, and nothing is written."""
    begin(node, b"a", (7, 1, 0))
    newer = TransactionMarker(7, 1, 5, is_commit=True)
    assert append_marker(node[0], newer, WALL_MS).error is OK
    begin(node, b"b", (7, 1, 1))
    end_offset = node[0].log_end_offset
    fenced = TransactionMarker(7, 1, 4, is_commit=False)
    assert append_marker(node[0], fenced, WALL_MS).error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    older = TransactionMarker(7, 0, 6, is_commit=False)
    assert append_marker(node[0], older, WALL_MS).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert node[0].log_end_offset == end_offset
    assert node[0].log.producers.has_open_transaction(7, 1)


async def test_h_12_a_marker_decides_once_it_is_replicated(node: Node) -> None:
    """Given a committed transaction whose marker is above the high watermark; then the last stable
    offset stays before its first record, for fetches and ListOffsets; and moves with the marker."""
    node.produce(b"plain")
    begin(node, b"a", (7, 0, 0))
    replicate(node)
    partition = node[0]
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 2)
    end(node, 7, commit=True)
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 2)
    assert await visible(partition) == [b"plain"]
    latest = partition.list_offset(LATEST_TIMESTAMP, isolation=READ_COMMITTED)
    assert latest.offset == 1
    replicate(node)
    assert (partition.last_stable_offset, partition.high_watermark) == (3, 3)
    assert await visible(partition) == [b"plain", b"a"]
    assert partition.list_offset(LATEST_TIMESTAMP, isolation=READ_COMMITTED).offset == 3


async def test_h_12_below_min_isr_nothing_is_decided(node: Node) -> None:
    """Given an ISR below the minimum; when a marker comes; then NOT_ENOUGH_REPLICAS, and the
    transaction is open; the coordinator tries again."""
    await node.configure("min.insync.replicas", "2")
    begin(node, b"a", (7, 0, 0))
    replicate(node)
    await node.change(state(ME, isr=(ME,), partition_epoch=2))
    assert end(node, 7, commit=True).error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node[0].last_stable_offset == 0
    await node.change(state(ME, partition_epoch=3))
    assert end(node, 7, commit=True).error is OK


def interleave(node: Node) -> list[bytes]:
    """Two producers that commit and abort in turn; what is to be seen of it."""
    expected: list[bytes] = []
    sequences = {7: 0, 8: 0}
    for turn in range(12):
        commits = {7: turn % 3 == 0, 8: turn % 2 == 0}
        values: dict[int, list[bytes]] = {7: [], 8: []}
        order: list[bytes] = []
        for producer_id in (7, 8, 7):
            value = b"%d of %d" % (turn, producer_id)
            begin(node, value, (producer_id, 0, sequences[producer_id]))
            sequences[producer_id] += 1
            values[producer_id].append(value)
            order += [value] if commits[producer_id] else []
            if turn % 4 == 1:
                node.produce(b"plain")
                order.append(b"plain")
        if turn % 5 == 2:
            node[0].log.roll()
        for producer_id in (8, 7):
            assert end(node, producer_id, commit=commits[producer_id]).error is OK
        expected += order
    return expected


async def test_h_13_exactly_what_was_committed_is_read(node: Node) -> None:
    """Given transactions of two producers, interleaved, committed and aborted, over many segments;
    then a reader of committed ones gets the committed records and the plain ones, in order; after
    a change of leader and after a restart, clean or not, the same."""
    await node.configure("segment.bytes", "1048576")
    expected = interleave(node)
    replicate(node)
    assert len(node[0].log.segments) > 2
    assert await visible(node[0]) == expected
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    await node.change(state(ME, leader_epoch=3, partition_epoch=3))
    replicate(node)
    assert await visible(node[0]) == expected


@pytest.mark.parametrize("clean", [True, False])
async def test_h_13_the_same_after_a_restart(tmp_path: Path, clean: bool) -> None:
    """Given the same, and one more transaction open; when the broker stops or is killed, and leads
    again; then the same is read, and the open transaction can still be decided."""
    node = await Node(tmp_path).start()
    await node.give(state(ME))
    expected = interleave(node)
    begin(node, b"open", (9, 0, 0))
    replicate(node)
    if clean:
        await node.stop()
    else:
        node.kill()
    again = await Node(tmp_path).start()
    await again.give(state(ME, leader_epoch=2, partition_epoch=2))
    replicate(again)
    assert await visible(again[0]) == expected
    end(again, 9, commit=True)
    replicate(again)
    assert await visible(again[0]) == [*expected, b"open"]
    await again.stop()


async def test_h_13_a_follower_knows_what_was_aborted(tmp_path: Path) -> None:
    """Given a follower that fetched all of it; when it leads; then its readers see the same."""
    leader = await Node(tmp_path / "leader").start()
    await leader.give(state(ME))
    expected = interleave(leader)
    follower = await Node(tmp_path / "follower", me=B).start()
    await follower.give(state(ME))
    end_offset = leader[0].log_end_offset
    while follower[0].log_end_offset < end_offset:
        offset = follower[0].log_end_offset
        data = leader[0].log.reader.read(offset, max_bytes=900, up_to=end_offset).data
        follower.follow(bytes(data), high_watermark=offset)
    await follower.change(state(B, leader_epoch=2, partition_epoch=2))
    follower.fetched_by(ME, C, offset=end_offset, last_epoch=1)
    assert await visible(follower[0]) == expected
    await leader.stop()
    await follower.stop()


async def test_h_13_the_same_after_compaction(tmp_path: Path) -> None:
    """Given a compacted log whose newest values were aborted, committed or plain; when it has been
    compacted twice, and when it is opened again; then the newest committed value of each key is
    read, as before, and never an aborted one."""
    runtime = InlineRuntime()
    config = topic(cleanup_policy="compact", index_interval_bytes=0, delete_retention_ms=0)
    log = await Log.open(runtime, str(tmp_path / "t-0"), config)
    expected: dict[bytes, bytes] = {}
    sequences = {7: 0, 8: 0}
    for turn in range(12):
        commits = turn % 3 != 1
        producer_id = 7 + turn % 2
        key, value = b"k%d" % (turn % 4), b"%d" % turn
        producer = (producer_id, 0, sequences[producer_id])
        put(log, (key, value), producer=producer, is_transactional=True)
        sequences[producer_id] += 1
        put(log, (b"plain", value))
        ending = encode_marker(TransactionMarker(producer_id, 0, 0, commits), runtime.wall_ms())
        header = read_header(ending)
        stamp(ending, header, log.log_end_offset, 0)
        log.append([(header, ending)])
        expected[b"plain"] = value
        if commits:
            expected[key] = value
        if turn % 4 == 3:
            log.roll()
    written = log.size_bytes
    for _ in range(2):
        assert await newest_committed(log) == expected
        await compacted(runtime, log)
        assert log.size_bytes < written
        runtime.now_ms += 1
        put(log, (b"other", b"1"))
        expected[b"other"] = b"1"
        log.roll()
    assert await newest_committed(log) == expected
    log.abandon()
    again = await Log.open(runtime, str(tmp_path / "t-0"), config)
    assert await newest_committed(again) == expected
    again.abandon()


async def newest_committed(log: Log) -> dict[bytes, bytes]:
    """The last value of each key, as a reader of committed transactions finds it from the start."""
    found: dict[bytes, bytes] = {}
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        data = (await log.reader.read_cold(offset, max_bytes=200, up_to=end)).data
        hidden = aborted_between(log.segments, offset, end_of(data))
        aborting: dict[int, None] = {}
        for position, header in headers(data):
            while hidden and hidden[0].first_offset <= header.last_offset:
                aborting[hidden.pop(0).producer_id] = None
            offset = header.next_offset
            if header.is_control:
                aborting.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in aborting):
                for one in records(data, position):
                    found[one.key or b""] = one.value or b""
    return found


@staged(broker=INTERNAL)
async def test_h_14_readers_of_committed_transactions_over_failovers(stage: Stage) -> None:
    """Given a producer that commits and aborts in turn, and a reader of committed transactions;
    when leaders die in between; then it never sees a record of an aborted transaction, nor one
    that is not decided yet, and each committed one once."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    writer = await stage.producer("writer", transactional_id="t", transaction_timeout_ms=60_000)
    client, consumer = await stage.consumer("reader", isolation_level="read_committed")
    there = TopicPartition("t", 0)
    seen: list[bytes] = []
    undecided: dict[bytes, None] = {}

    async def look() -> None:
        if not consumer.assignment():
            consumer.assign([there])
            consumer.seek_to_beginning(there)
        for each in await consumer.poll(timeout_ms=200):
            assert each.value not in undecided, "seen before it was decided"
            seen.append(bytes(each.value or b""))

    expected: list[bytes] = []
    producer = writer.producer
    for turn in range(8):
        values = [b"%d.%d" % (turn, number) for number in range(3)]
        await writer.client.ask(producer.begin_transaction)
        undecided = dict.fromkeys(values)
        for value in values:
            await writer.send("t", value)
        await client.ask(look)
        if turn % 3 == 1:
            stage.kill(stage.state("t").leader)
        undecided = {}
        if turn % 2:
            await writer.client.ask(producer.abort_transaction)
        else:
            await writer.client.ask(producer.commit_transaction)
            expected += values
        for broker in (1, 2, 3):
            if not stage.daemon(broker).alive:
                stage.start(broker)
                await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync", 30)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync", 30)
    for _ in range(20):
        await client.ask(look)
    assert seen == expected
