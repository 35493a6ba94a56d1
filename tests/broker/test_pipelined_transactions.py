"""Batches of a transaction that come while its coordinator is still being asked: nobody overtakes.

A batch of a producer in a partition is in one of these states; the order is that of arrival,
whatever connections brought them.

    waits     its transaction is not open here, and the one question about it is under way
    appended  in the log, in order, once the answer was yes or the transaction was open before
    refused   with every other batch that waited for the same answer, or because one before it is

What holds at all times: there is one question at most; no batch is appended before one that came
before it; a batch whose predecessors are all acknowledged is never told that one of them is
missing, which is fatal for its producer; what waits counts as held by the edge, and nothing stays
held when nobody waits.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.coordinator.transaction.decisions import AddPartitions
from minikafka.broker.coordinator.transaction_questions import Verified
from minikafka.broker.partition import intake
from minikafka.broker.partition.own_batches import append_marker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import EpochEndOffset
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.record_batch import Codec, headers
from minikafka.protocol.records.records import BatchBuilder
from minikafka.protocol.types import TopicPartition
from minikafka.storage.markers import TransactionMarker

from .edge_support import (
    Client,
    FakeBroker,
    FakeController,
    Front,
    Stock,
    connections_of,
    settle,
)
from .node_support import ME, WALL_MS, B, Node, led_batch, state

OK = ErrorCode.NONE
AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS
"""What a producer is told of an answer of its coordinator that passes by itself."""
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
PRODUCER = 7
ADDS, VERIFIES = 12, 11
"""Versions of Produce: its leader adds the partition; the client has said so itself."""


class Lab(FakeBroker):
    """A broker's real edge and partitions; the test is the clients and their coordinator."""

    def __init__(self, node: Node) -> None:
        settings = {"node.id": str(ME), "controller.quorum.bootstrap.servers": "c:1"}
        self.node = node
        self.runtime = node.runtime
        stock = Stock(node.runtime, node.partitions, node.wheel, node, FakeController())
        front = Front(stock, settings, node.defaults)
        self.edge, self.apis = front.edge, front.apis
        self.edge.transactions.verify = self._verify  # type: ignore[method-assign]
        self.clients: list[Client] = []
        self.questions: list[tuple[AddPartitions, Verified]] = []

    def _verify(self, asked: AddPartitions, done: Verified, *, adds: bool = False) -> None:
        self.questions.append((asked, done))

    async def answer(self, error: ErrorCode = OK, number: int = 0) -> None:
        """The coordinator answers one of the questions that are under way."""
        asked, done = self.questions.pop(number)
        done(dict.fromkeys(asked.partitions, error))
        await settle()

    @property
    def held_bytes(self) -> int:
        return sum(connection.inbox.held_bytes for connection in connections_of(self.edge))

    def sequences(self, producer_id: int = PRODUCER) -> list[tuple[int, int]]:
        """Epoch and first sequence of each batch of the producer in the first partition."""
        log = self.node[0].log
        data = log.reader.read(0, max_bytes=1 << 20, up_to=log.log_end_offset).data
        return [
            (header.producer_epoch, header.base_sequence)
            for _, header in headers(data)
            if header.producer_id == producer_id and not header.is_control
        ]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    node = await Node(tmp_path).start()
    alone = state(ME, replicas=(ME,), isr=(ME,))
    await node.give(alone, alone)
    await node.configure("min.insync.replicas", "1")
    yield Lab(node)
    await node.stop()


def produce(
    places: Mapping[int, int],
    *,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    codec: Codec = Codec.NONE,
) -> ProduceRequest:
    """One batch of one record for each partition, with its sequence."""
    data = []
    for index, sequence in places.items():
        builder = BatchBuilder(codec, is_transactional=True)
        builder.append(WALL_MS, b"k", b"%d" % sequence)
        records = builder.build(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        data.append(PartitionProduceData(index=index, records=bytes(records)))
    topic = TopicProduceData(name="orders", partition_data=data)
    return ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=60_000, topic_data=[topic])


def errors(responses: list[Any]) -> list[ErrorCode]:
    return [
        ErrorCode(partition.error_code)
        for response in responses
        for partition in response.responses[0].partition_responses
    ]


@pytest.mark.parametrize("version", [ADDS, VERIFIES])
async def test_x_61_later_batches_queue_behind_those_that_wait(lab: Lab, version: int) -> None:
    """The answer opens the transaction; what was sent after it must not come past what waits."""
    client = lab.connect()
    for sequence in (0, 1, 2):
        client.send(produce({0: sequence}), version)
    await lab.answer()
    client.send(produce({0: 3}), version)
    while lab.questions:
        await lab.answer()
    await settle()
    assert errors(client.responses()) == [OK, OK, OK, OK]
    assert lab.sequences() == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert lab.held_bytes == 0


async def test_one_question_is_asked_for_all_that_wait(lab: Lab) -> None:
    """And what a request finds being asked already is not asked again for it."""
    one, other = lab.connect(), lab.connect()
    one.send(produce({0: 0}), ADDS)
    other.send(produce({0: 1}), ADDS)
    one.send(produce({0: 2, 1: 0}), ADDS)
    asked = [each.partitions for each, _ in lab.questions]
    assert asked == [(TopicPartition("orders", 0),), (TopicPartition("orders", 1),)]
    await lab.answer()
    assert errors(one.responses() + other.responses()) == [OK, OK]
    await lab.answer()
    assert errors(one.responses()) == [OK, OK]
    assert lab.sequences() == [(0, 0), (0, 1), (0, 2)]


async def test_the_order_holds_over_connections(lab: Lab) -> None:
    """A producer that sends on over another connection does not come before itself either."""
    one, other = lab.connect(), lab.connect()
    one.send(produce({0: 0}), ADDS)
    other.send(produce({0: 1}), ADDS)
    one.send(produce({0: 2}), ADDS)
    await lab.answer(number=len(lab.questions) - 1)
    while lab.questions:
        await lab.answer()
    assert errors(one.responses()) == [OK, OK]
    assert errors(other.responses()) == [OK]
    assert lab.sequences() == [(0, 0), (0, 1), (0, 2)]


async def test_what_waits_is_refused_together(lab: Lab) -> None:
    """With an error that clients try again on; one that comes in between is out of order, and not
    taken, until the first of them is in the log."""
    client = lab.connect()
    for sequence in (0, 1):
        client.send(produce({0: sequence}), ADDS)
    await lab.answer(BUSY)
    assert errors(client.responses()) == [AGAIN, AGAIN]
    client.send(produce({0: 2}), ADDS)
    await lab.answer()
    assert errors(client.responses()) == [OUT_OF_ORDER]
    for sequence in (0, 1, 2):
        client.send(produce({0: sequence}), ADDS)
    await lab.answer()
    assert errors(client.responses()) == [OK, OK, OK]
    assert not lab.questions
    assert lab.held_bytes == 0


async def test_a_client_that_goes_leaves_those_behind_it_waiting(lab: Lab) -> None:
    """The question was the lost connection's; its answer counts for whoever still waits."""
    lost, again = lab.connect(), lab.connect()
    lost.send(produce({0: 0}), ADDS)
    lost.send(produce({0: 1}), ADDS)
    again.send(produce({0: 0}), ADDS)
    held = lab.held_bytes
    assert held > 0
    lost.transport.close()
    await settle()
    assert lab.held_bytes == held // 3
    await lab.answer()
    assert errors(again.responses()) == [OK]
    assert lab.sequences() == [(0, 0)]
    assert lab.held_bytes == 0


async def test_what_waits_while_the_leader_changes_is_told_to_look_for_it(lab: Lab) -> None:
    """Here or elsewhere, nothing of it was appended: a producer sends it again."""
    client = lab.connect()
    client.send(produce({0: 0}), ADDS)
    client.send(produce({0: 1}), ADDS)
    elsewhere = {"replicas": (ME, B), "isr": (ME, B), "leader_epoch": 2, "partition_epoch": 2}
    await lab.node.change(state(B, **elsewhere))
    await lab.node.change(state(ME, **elsewhere | {"leader_epoch": 3, "partition_epoch": 3}))
    while lab.questions:
        await lab.answer()
    assert errors(client.responses()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert lab.held_bytes == 0


async def test_records_that_another_leader_replaced_meanwhile_are_not_acknowledged(
    lab: Lab,
) -> None:
    """What a request could append at once waits for its own commit, not for the coordinator."""
    client = lab.connect()
    client.send(produce({0: 0}), ADDS)
    await lab.answer()
    assert errors(client.responses()) == [OK]
    both = {"replicas": (ME, B), "isr": (ME, B)}
    await lab.node.change(state(ME, **both, partition_epoch=2))
    client.send(produce({0: 1, 1: 0}), ADDS)
    assert lab.sequences() == [(0, 0), (0, 1)]
    await lab.node.change(state(B, **both, leader_epoch=2, partition_epoch=3))
    lab.node.follow(b"", diverging=EpochEndOffset(epoch=1, end_offset=1))
    lab.node.follow(led_batch(1, 2, b"other"), high_watermark=2)
    again = {"replicas": (ME, B), "isr": (ME,), "leader_epoch": 3, "partition_epoch": 4}
    await lab.node.change(state(ME, **again))
    assert lab.node[0].high_watermark == 2
    await lab.answer()
    assert errors(client.responses()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, OK]
    assert lab.held_bytes == 0


async def test_a_late_batch_of_the_transaction_before_ends_no_verification(lab: Lab) -> None:
    """It is appended, since its own transaction is still open here; that opens no other."""
    old, new = lab.connect(), lab.connect()
    old.send(produce({0: 0}, epoch=1), ADDS)
    await lab.answer()
    new.send(produce({0: 0}, epoch=3), ADDS)
    old.send(produce({0: 1}, epoch=1), ADDS)
    await settle()
    assert errors(old.responses()) == [OK, OK]
    marker = TransactionMarker(PRODUCER, 2, 0, is_commit=False, transaction_version=2)
    assert append_marker(lab.node[0], marker, WALL_MS).error is OK
    new.send(produce({0: 1}, epoch=3), ADDS)
    await lab.answer()
    assert errors(new.responses()) == [OK, OK]
    assert not lab.questions


async def test_a_fenced_producer_waits_in_no_line_of_the_next_one(lab: Lab) -> None:
    """Each epoch is asked for by itself, in whatever order the answers come."""
    old, new = lab.connect(), lab.connect()
    old.send(produce({0: 0}, epoch=1), ADDS)
    old.send(produce({0: 1}, epoch=1), ADDS)
    new.send(produce({0: 0}, epoch=2), ADDS)
    old.send(produce({0: 2}, epoch=1), ADDS)
    new.send(produce({0: 1}, epoch=2), ADDS)
    fenced = [ask for ask in lab.questions if ask[0].epoch == 1]
    lab.questions = [ask for ask in lab.questions if ask[0].epoch == 2]
    await lab.answer()
    assert errors(new.responses()) == [OK, OK]
    for asked, done in fenced:
        done(dict.fromkeys(asked.partitions, ErrorCode.PRODUCER_FENCED))
    await settle()
    assert errors(old.responses()) == [ErrorCode.INVALID_PRODUCER_EPOCH] * 3
    assert lab.sequences() == [(2, 0), (2, 1)]


async def test_a_batch_that_is_opened_once_it_is_verified_is_not_overtaken(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction may be open by then: what came after it must wait for the worker as well."""
    gate = asyncio.Event()

    async def offload(job: Callable[..., Any], *arguments: Any) -> Any:
        await gate.wait()
        return job(*arguments)

    monkeypatch.setattr(lab.runtime, "offload", offload)
    monkeypatch.setattr(intake, "OPENED_AT_ONCE", 0)
    await lab.node.configure("cleanup.policy", "compact")
    client = lab.connect()
    client.send(produce({0: 0}), ADDS)
    client.send(produce({0: 1}, codec=Codec.ZSTD), ADDS)
    client.send(produce({0: 2}), ADDS)
    await lab.answer()
    client.send(produce({0: 3}), ADDS)
    assert lab.sequences() == [(0, 0)]
    gate.set()
    await settle()
    assert errors(client.responses()) == [OK, OK, OK, OK]
    assert lab.sequences() == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert lab.held_bytes == 0


class Pipelining:
    """A producer with five batches in flight, as Java's and franz-go's have them.

    It sends again what was refused with an error that passes, one batch at a time and the oldest
    first. What was sent behind may go on being refused as out of order; only of the batch that
    follows what is acknowledged, that means that records are lost.
    """

    def __init__(self, lab: Lab, producer_id: int, count: int, connections: int) -> None:
        self.lab = lab
        self.producer_id = producer_id
        self.open = list(range(count))
        """Sequences that are not acknowledged."""
        self.sent: dict[int, None] = {}
        """Those that were sent once."""
        self.flying: dict[int, Client] = {}
        self.clients = [lab.connect() for _ in range(connections)]

    def may_send(self) -> int | None:
        for sequence in self.open[:5]:
            if sequence not in self.flying:
                is_first = sequence == self.open[0]
                return sequence if is_first or sequence not in self.sent else None
        return None

    def send(self, client: Client, version: int) -> None:
        sequence = self.may_send()
        if sequence is not None:
            self.sent[sequence] = None
            self.flying[sequence] = client
            client.send(produce({0: sequence}, producer_id=self.producer_id), version)

    def lose(self, number: int) -> None:
        lost = self.clients[number]
        self.clients[number] = self.lab.connect()
        lost.transport.close()
        self.flying = {each: client for each, client in self.flying.items() if client is not lost}

    def read(self) -> None:
        appended = [sequence for _, sequence in self.lab.sequences(self.producer_id)]
        assert appended == list(range(len(appended))), "appended once each, in order"
        for client in self.clients:
            # A connection answers in the order of its requests.
            mine = [sequence for sequence, by in self.flying.items() if by is client]
            for sequence, error in zip(mine, errors(client.responses()), strict=False):
                del self.flying[sequence]
                if error is OK:
                    assert sequence in appended
                    self.open.remove(sequence)
                elif error is OUT_OF_ORDER:
                    assert sequence != self.open[0], "fatal: all before it is acknowledged"
                else:
                    assert error.retriable, error


# Before version 12 a leader that knows nothing of a producer takes any sequence from it: after a
# change of the leader only the one connection keeps its order.
@pytest.mark.parametrize(("version", "connections"), [(ADDS, 1), (ADDS, 2), (VERIFIES, 1)])
async def test_a_producer_gets_all_its_batches_in(lab: Lab, version: int, connections: int) -> None:
    """Coordinators answer late or are busy, connections are lost and leaders change, in any order:
    no batch is overtaken, none is fatally refused, and in the end all are in the log."""
    dice = random.Random(connections)
    epoch = 1
    for producer_id in range(100, 200):
        producer = Pipelining(lab, producer_id, dice.choice((3, 7, 12)), connections)
        changes = 0
        for step in range(2000):
            if not producer.open:
                break
            event = dice.random()
            calm = step > 300 or event < 0.9
            if event < 0.5:
                producer.send(dice.choice(producer.clients), version)
            elif calm and lab.questions:
                number = dice.randrange(len(lab.questions))
                await lab.answer(dice.choice((OK, OK, BUSY)), number)
            elif not calm and event < 0.96:
                producer.lose(dice.randrange(connections))
            elif not calm:
                changes += 1
                epoch += 2
                for leader, at in ((B, epoch - 1), (ME, epoch)):
                    moved = state(
                        leader, replicas=(ME, B), isr=(leader,), leader_epoch=at, partition_epoch=at
                    )
                    await lab.node.change(moved)
            await settle()
            producer.read()
            # A question from before a change of the leader is of no use, and still on its way.
            assert len(lab.questions) <= 1 + changes
        assert not producer.open
        while lab.questions:
            await lab.answer()
        assert lab.held_bytes == 0
