"""The transaction coordinator from its requests to its log: every API, version and error code."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from minikafka.broker.coordinator import transaction_log
from minikafka.broker.coordinator import transactions as driver
from minikafka.broker.coordinator.shard import Done, KeyValue, Shard
from minikafka.broker.coordinator.shards import Shards
from minikafka.broker.coordinator.transaction.decisions import AddPartitions
from minikafka.broker.coordinator.transaction.ledger import Ledger
from minikafka.broker.coordinator.transaction.transaction import State, Transaction
from minikafka.broker.net.connection import Connection
from minikafka.broker.peers import PeerFailed
from minikafka.protocol.control import records as r
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.types import TopicPartition

from .conftest import MakeBroker
from .edge_support import NODE, TOPIC, Client, FakeBroker, settle

NAME = "app"
T0 = TopicPartition(TOPIC, 0)
INTERNAL_ID = bytes([9] * 16)
Reply = Callable[[int, object], Any]


class FakeShard:
    """A log that takes what it is told to take, when it is told to."""

    def __init__(self) -> None:
        self.index, self.epoch = 0, 3
        self.is_open = self.is_loaded = True
        self.state = Ledger()
        self.log: list[KeyValue] = []
        self.refusal = ErrorCode.NONE
        self.holds = False
        self.held: list[Done] = []
        self.late: list[Done] = []
        """Those of `when_settled`."""

    @property
    def last_offset(self) -> int:
        return len(self.log) - 1

    def when_settled(self, offset: int, done: Done) -> None:
        assert offset == self.last_offset
        self.late.append(done)

    def append(self, records: Sequence[KeyValue], done: Done) -> bool:
        if self.refusal:
            done(self.refusal)
            return False
        self.log += records
        if self.holds:
            self.held.append(done)
        else:
            done(ErrorCode.NONE)
        return True


class FakeShards:
    def __init__(self, shard: FakeShard) -> None:
        self.shard = shard
        self.error = ErrorCode.NONE
        self.is_loading = False

    def __iter__(self) -> Iterator[FakeShard]:
        return iter([] if self.error else [self.shard])

    def index_of(self, key: str) -> int:
        return 0

    def of(self, key: str) -> FakeShard | ErrorCode:
        return self.at(0)

    def at(self, index: int) -> FakeShard | ErrorCode:
        return self.error or self.shard


class Lab:
    """A broker that coordinates, and one client of it; partitions of the topic are led by it."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.client: Client = broker.connect()
        self.shard = FakeShard()
        self.shards = FakeShards(self.shard)
        self.transactions = broker.edge.transactions
        self.real = self.transactions.shards
        self.transactions.shards = cast("Shards[Ledger]", self.shards)
        self.asked: list[tuple[int, object]] = []
        self.reply: Reply = lambda broker_id, message: written(message)
        broker.peers.ask = self._ask  # type: ignore[method-assign]
        broker.edge.producer_ids._store(5000, 7000)
        internal = r.TopicRecord("__transaction_state", INTERNAL_ID)
        broker.image.apply(internal, 100)
        broker.image.apply(r.PartitionRecord(INTERNAL_ID, 0, (1, 2), (1, 2), 2, 0, 0), 101)
        broker.image.apply(r.FeatureRecord("transaction.version", 2), 102)

    async def _ask(self, broker_id: int, message: object, *, lane: str) -> Any:
        self.asked.append((broker_id, message))
        answer = self.reply(broker_id, message)
        return await answer if asyncio.isfuture(answer) else answer

    @property
    def known(self) -> Transaction:
        found = self.shard.state.get(NAME)
        assert found is not None
        return found

    def is_in(self, state: State) -> bool:
        return self.known.state is state

    def load(self) -> None:
        """The shard was read: what goes on by itself begins."""
        self.real.care.on_loaded(cast("Shard[Ledger]", self.shard))

    def init(self, version: int = 5, **fields: Any) -> Any:
        given: dict[str, Any] = {
            "transactional_id": NAME,
            "transaction_timeout_ms": 60_000,
        } | fields
        return self.ask(InitProducerIdRequest(**given), version)

    def add(self, epoch: int = 0, version: int = 3, *partitions: TopicPartition) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=5000,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics(*(partitions or (T0,))),
        )
        answer = self.ask(request, version)
        return [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def end(self, epoch: int = 0, version: int = 5, *, commit: bool = True) -> Any:
        return self.ask(end_request(epoch, commit=commit), version)

    def ask(self, message: object, version: int) -> Any:
        self.client.send(message, version)
        return self.answers()[0]

    def answers(self) -> list[Any]:
        Connection._on_wake(self.client.connection)
        return self.client.responses()


def end_request(epoch: int, *, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=NAME, producer_id=5000, producer_epoch=epoch, committed=commit
    )


def topics(*partitions: TopicPartition) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=[at]) for topic, at in partitions]


def written(message: object, error: ErrorCode = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    assert isinstance(message, WriteTxnMarkersRequest)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=at, error_code=error)
                            for at in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in message.markers
        ]
    )


@pytest.fixture
async def lab(make_broker: MakeBroker) -> Lab:
    return Lab(make_broker())


async def until(condition: Callable[[], object]) -> None:
    """Let timers and tasks run until it is true."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - nothing here tells that it came true
            await asyncio.sleep(0.001)


COORDINATOR_ERRORS = pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)


@COORDINATOR_ERRORS
async def test_a_broker_that_does_not_coordinate_says_so(lab: Lab, error: ErrorCode) -> None:
    lab.shards.error = error
    assert lab.init().error_code == error
    assert lab.add() == [error]
    assert lab.end().error_code == error
    described = lab.ask(DescribeTransactionsRequest(transactional_ids=[NAME]), 0)
    assert described.transaction_states[0].error_code == error
    assert lab.shard.log == []


@COORDINATOR_ERRORS
async def test_what_cannot_be_written_changes_nothing(lab: Lab, error: ErrorCode) -> None:
    lab.init()
    lab.add()
    before = lab.known
    lab.shard.refusal = error
    assert lab.init().error_code == error
    assert lab.end().error_code == error
    assert lab.add(0, 3, TopicPartition(TOPIC, 0)) == [ErrorCode.NONE]  # there already
    assert lab.known is before
    lab.shard.refusal = ErrorCode.NONE
    assert lab.end().error_code == ErrorCode.NONE


# InitProducerId.


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id_gives_ids_and_epochs(lab: Lab, version: int) -> None:
    for epoch in range(3):
        answer = lab.init(version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 5000, epoch)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": -1}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
async def test_a_producer_that_cannot_be_is_refused(
    lab: Lab, fields: dict[str, Any], error: ErrorCode
) -> None:
    answer = lab.init(**fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)
    assert len(lab.shard.state) == 0


async def ending(lab: Lab, *, commit: bool = True) -> "asyncio.Future[Any]":
    """End a transaction whose markers are on their way; their leader answers with the future."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    lab.reply = lambda broker_id, message: answer
    lab.init()
    lab.add()
    lab.end(commit=commit)
    await until(lambda: lab.asked)
    return answer


async def test_the_longest_timeout_is_a_setting(make_broker: MakeBroker) -> None:
    lab = Lab(make_broker(transaction_max_timeout_ms="1000"))
    assert lab.init(transaction_timeout_ms=1001).error_code == 50
    assert lab.init(transaction_timeout_ms=1000).error_code == 0


@pytest.mark.parametrize(("version", "code"), [(3, 47), (4, 90), (5, 90)])
async def test_a_fenced_producer_is_told_in_the_words_of_its_time(
    lab: Lab, version: int, code: int
) -> None:
    lab.init()
    lab.init()
    answer = lab.init(version, producer_id=5000, producer_epoch=0)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_without_producer_ids_one_has_to_come_back(lab: Lab) -> None:
    ids = lab.broker.edge.producer_ids
    ids._next = ids._end = 0
    ids._spare = None
    lab.broker.controller.block = (8000, 1)
    lab.broker.controller.gate.clear()
    lab.client.send(InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1), 4)
    assert lab.answers() == []
    lab.broker.controller.gate.set()
    (answer,) = await lab.client.next_responses()
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 8000, 0)
    await ids.close()


# AddPartitionsToTxn.


@pytest.mark.parametrize("version", range(4))
async def test_add_partitions(lab: Lab, version: int) -> None:
    lab.init()
    assert lab.add(0, version) == [ErrorCode.NONE]
    assert list(lab.known.partitions) == [T0]
    assert lab.known.client_version == 0


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (3, 90)])
async def test_add_partitions_of_a_fenced_producer(lab: Lab, version: int, code: int) -> None:
    lab.init()
    assert lab.add(7, version) == [code]


async def test_all_partitions_are_added_or_none(lab: Lab) -> None:
    lab.init()
    unknown = TopicPartition("nope", 0), TopicPartition(TOPIC, 99)
    errors = lab.add(0, 3, T0, *unknown)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(errors) == sorted([ErrorCode.OPERATION_NOT_ATTEMPTED, missing, missing])
    assert lab.is_in(State.EMPTY)


@pytest.mark.parametrize(("version", "client_version"), [(4, 0), (5, 2)])
async def test_brokers_ask_for_many_transactions_at_once(
    lab: Lab, version: int, client_version: int
) -> None:
    lab.init()

    def one(name: str, epoch: int = 0, *, verify: bool = False) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=5000,
            producer_epoch=epoch,
            verify_only=verify,
            topics=topics(T0),
        )

    request = AddPartitionsToTxnRequest(
        transactions=[
            one(NAME, verify=True),
            one(NAME),
            one(NAME, verify=True),
            one(NAME, 8),
            one("other"),
        ]
    )
    answer = lab.ask(request, version)
    errors = [
        (each.transactional_id, each.topic_results[0].results_by_partition[0].partition_error_code)
        for each in answer.results_by_transaction
    ]
    assert errors == [
        (NAME, ErrorCode.TRANSACTION_ABORTABLE),
        (NAME, ErrorCode.NONE),
        (NAME, ErrorCode.NONE),
        (NAME, ErrorCode.PRODUCER_FENCED),
        ("other", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ]
    assert answer.error_code == 0
    assert lab.known.client_version == client_version
    assert lab.ask(AddPartitionsToTxnRequest(), version).results_by_transaction == []


async def test_while_a_change_is_on_its_way_nothing_else_is_decided(lab: Lab) -> None:
    lab.init()
    lab.shard.holds = True
    lab.client.send(end_request(0, commit=False), 5)
    other = lab.broker.connect()
    for message, version in ((end_request(0), 5), (end_request(1), 5)):
        assert other.ask(message, version).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert lab.is_in(State.EMPTY)
    assert lab.answers() == []
    lab.shard.held.pop()(ErrorCode.NONE)
    assert [each.error_code for each in lab.answers()] == [0]
    assert lab.is_in(State.PREPARE_ABORT)


async def test_what_is_committed_late_holds_and_nothing_is_decided_before(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was an error; the record stays in the log, so what it decided is not undone."""
    monkeypatch.setattr(transaction_log, "RETRY_MS", 1)
    lab.init()
    lab.add()
    lab.shard.holds = True
    lab.client.send(end_request(0, commit=True), 5)
    lab.shard.held.pop()(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert lab.answers()[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for commit in (True, False):
        assert lab.end(0, commit=commit).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert lab.is_in(State.ONGOING)
    await until(lambda: lab.shard.late)
    lab.shard.late.pop()(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await until(lambda: lab.shard.late)
    lab.shard.holds = False
    lab.shard.late.pop()(ErrorCode.NONE)
    assert lab.is_in(State.PREPARE_COMMIT)
    await until(lambda: lab.is_in(State.COMPLETE_COMMIT))
    assert lab.end(0, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert lab.end(0, commit=True).producer_epoch == 1


async def test_what_is_lost_with_the_shard_is_not_waited_for(lab: Lab) -> None:
    lab.init()
    lab.add()
    lab.shard.holds = True
    lab.client.send(end_request(0), 5)
    lab.shard.is_open = False
    lab.shard.held.pop()(ErrorCode.NOT_COORDINATOR)
    assert lab.answers()[0].error_code == ErrorCode.NOT_COORDINATOR
    assert not lab.shard.state.is_changing(NAME)


async def test_the_next_transaction_waits_for_the_markers_of_the_one_before(lab: Lab) -> None:
    """It costs its producer no retry."""
    gate = await ending(lab)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=5000,
        v3_and_below_producer_epoch=1,
        v3_and_below_topics=topics(T0),
    )
    lab.client.send(request, 3)
    assert lab.answers() == []
    gate.set_result(written(lab.asked[0][1]))
    (answer,) = await lab.client.next_responses()
    result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
    assert result.partition_error_code == ErrorCode.NONE
    assert lab.is_in(State.ONGOING)


async def test_the_next_transaction_does_not_wait_for_ever(make_broker: MakeBroker) -> None:
    lab = Lab(make_broker(add_partitions_to_txn_retry_backoff_max_ms="20"))
    lab.reply = lambda broker_id, message: asyncio.get_running_loop().create_future()
    lab.init()
    lab.add()
    lab.end()
    request = AddOffsetsToTxnRequest(
        transactional_id=NAME, producer_id=5000, producer_epoch=1, group_id="readers"
    )
    lab.broker.image.apply(r.TopicRecord("__consumer_offsets", bytes([8] * 16)), 200)
    partition = r.PartitionRecord(bytes([8] * 16), 0, (1,), (1,), 1, 0, 0)
    lab.broker.image.apply(partition, 201)
    lab.client.send(request, 3)
    assert lab.answers() == []
    (answer,) = await lab.client.next_responses()
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(lab.transactions._turns) == 0
    await lab.transactions.sender.close()


async def test_who_begins_waits_until_what_was_left_open_is_aborted(lab: Lab) -> None:
    lab.init()
    lab.add()
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
    other = lab.broker.connect()
    other.send(request, 5)
    (answer,) = await other.next_responses()
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 5000, 2)
    assert lab.is_in(State.EMPTY)


async def test_more_ids_than_there_is_room_for_are_refused(make_broker: MakeBroker) -> None:
    lab = Lab(make_broker(transactional_ids_max="1"))
    assert lab.init().error_code == 0
    refused = lab.init(transactional_id="other")
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.init().producer_epoch == 1


# AddOffsetsToTxn.


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (3, 90), (4, 90)])
async def test_offsets_belong_to_the_partition_of_their_group(
    lab: Lab, version: int, code: int
) -> None:
    lab.init()
    request = AddOffsetsToTxnRequest(
        transactional_id=NAME, producer_id=5000, producer_epoch=0, group_id="readers"
    )
    assert lab.ask(request, version).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await settle()
    assert len(lab.broker.controller.requests) == 1  # the topic is asked for
    topic_id = bytes([8] * 16)
    lab.broker.image.apply(r.TopicRecord("__consumer_offsets", topic_id), 200)
    for index in range(50):
        partition = r.PartitionRecord(topic_id, index, (1,), (1,), 1, 0, 0)
        lab.broker.image.apply(partition, 201 + index)
    assert lab.ask(request, version).error_code == ErrorCode.NONE
    assert list(lab.known.partitions) == [TopicPartition("__consumer_offsets", 28)]
    request.producer_epoch = 9
    assert lab.ask(request, version).error_code == code


# EndTxn and markers.


@pytest.mark.parametrize("version", range(6))
async def test_end_txn(lab: Lab, version: int) -> None:
    lab.init()
    lab.add()
    answer = lab.end(0, version)
    assert answer.error_code == 0
    given = (answer.producer_id, answer.producer_epoch)
    assert given == ((5000, 1) if version == 5 else (-1, -1))
    await until(lambda: lab.is_in(State.COMPLETE_COMMIT))
    assert lab.known.epoch == (1 if version == 5 else 0)
    ((broker_id, request),) = lab.asked
    assert broker_id == NODE
    assert isinstance(request, WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch) == (5000, lab.known.epoch)
    assert (marker.coordinator_epoch, marker.transaction_result) == (3, True)
    assert marker.transaction_version == (2 if version == 5 else 0)
    assert [(each.name, each.partition_indexes) for each in marker.topics] == [(TOPIC, [0])]


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (5, 90)])
async def test_end_txn_of_a_fenced_producer(lab: Lab, version: int, code: int) -> None:
    lab.init()
    lab.add()
    answer = lab.end(4, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
    assert lab.is_in(State.ONGOING)


async def test_misuse_of_end_txn_is_told(lab: Lab) -> None:
    assert lab.end().error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    lab.init()
    assert lab.end().error_code == ErrorCode.INVALID_TXN_STATE
    empty = EndTxnRequest(transactional_id="", producer_id=1, producer_epoch=0, committed=True)
    assert lab.ask(empty, 5).error_code == ErrorCode.INVALID_REQUEST


async def test_the_end_is_answered_when_it_is_decided_not_when_it_is_over(lab: Lab) -> None:
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    lab.reply = lambda broker_id, message: never
    lab.init()
    lab.add()
    lab.shard.holds = True
    lab.client.send(end_request(0), 5)
    assert lab.answers() == []
    assert lab.is_in(State.ONGOING)
    lab.shard.held.pop()(ErrorCode.NONE)
    assert [each.error_code for each in lab.answers()] == [0]
    await until(lambda: lab.asked)
    assert lab.is_in(State.PREPARE_COMMIT)
    described = lab.ask(DescribeTransactionsRequest(transactional_ids=[NAME]), 0)
    assert described.transaction_states[0].transaction_state == "PrepareCommit"
    await lab.transactions.sender.close()


async def test_markers_are_sent_until_they_are_written(lab: Lab) -> None:
    replies: list[object] = [
        PeerFailed("away"),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NONE,
    ]

    def reply(broker_id: int, message: object) -> Any:
        said = replies.pop(0)
        if isinstance(said, PeerFailed):
            raise said
        return written(message, cast(ErrorCode, said))

    lab.reply = reply
    lab.init()
    lab.add()
    lab.end()
    await until(lambda: lab.is_in(State.COMPLETE_COMMIT))
    assert replies == []


async def test_the_completion_is_written_until_it_is(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "RETRY_MS", 1)
    lab.init()
    lab.add()
    refused = 0

    def reply(broker_id: int, message: object) -> Any:
        lab.shard.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return written(message)

    append = lab.shard.append

    def counted(records: Sequence[KeyValue], done: Done) -> bool:
        nonlocal refused
        refused += bool(lab.shard.refusal)
        if refused > 3:
            lab.shard.refusal = ErrorCode.NONE
        return append(records, done)

    lab.shard.append = counted  # type: ignore[method-assign]
    lab.reply = reply
    lab.end()
    await until(lambda: lab.is_in(State.COMPLETE_COMMIT))
    assert refused == 4


async def test_a_coordinator_that_was_replaced_completes_nothing(lab: Lab) -> None:
    gate = await ending(lab)
    lab.shard.epoch += 1
    length = len(lab.shard.log)
    gate.set_result(written(lab.asked[0][1]))
    await settle()
    assert len(lab.shard.log) == length
    assert lab.is_in(State.PREPARE_COMMIT)


async def test_a_coordinator_that_takes_over_sends_what_is_missing(lab: Lab) -> None:
    never = await ending(lab, commit=False)
    lab.real.care.on_unloaded(cast("Shard[Ledger]", lab.shard))
    never.set_exception(PeerFailed("it took too long"))
    lab.reply = lambda broker_id, message: written(message)
    lab.shard.epoch += 1
    lab.load()
    await until(lambda: lab.is_in(State.COMPLETE_ABORT))
    request = cast(WriteTxnMarkersRequest, lab.asked[-1][1])
    assert request.markers[0].coordinator_epoch == 4
    assert request.markers[0].transaction_result is False


# Time.

QUICK = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "1",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "1",
}


async def test_overdue_transactions_are_aborted(make_broker: MakeBroker) -> None:
    lab = Lab(make_broker(**QUICK))
    lab.init(transaction_timeout_ms=1)
    lab.add()
    lab.load()
    await until(lambda: lab.is_in(State.COMPLETE_ABORT))
    assert lab.known.epoch == 1
    answer = lab.end(0, commit=False)
    assert (answer.error_code, answer.producer_epoch) == (0, 1)
    lab.transactions.check_invariants()


async def test_a_transaction_begun_by_a_clock_ahead_is_overdue_by_the_clock_set_right(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(make_broker(**QUICK))
    lab.load()
    runtime = lab.transactions._runtime
    ahead_ms = runtime.wall_ms() + 86_400_000
    with monkeypatch.context() as patched:
        patched.setattr(type(runtime), "wall_ms", lambda self: ahead_ms)
        lab.init(transaction_timeout_ms=1)
        lab.add()
        assert lab.known.started_ms == ahead_ms
    await until(lambda: lab.is_in(State.COMPLETE_ABORT))


async def test_unused_ids_are_forgotten(make_broker: MakeBroker) -> None:
    lab = Lab(make_broker(transactional_id_expiration_ms="1", **QUICK))
    lab.init()
    lab.shard.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.load()
    await asyncio.sleep(0.03)
    assert lab.is_in(State.EMPTY)
    lab.shard.refusal = ErrorCode.NONE
    await until(lambda: len(lab.shard.state) == 0)
    assert lab.shard.log[-1][1] is None
    assert lab.add() == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


# Descriptions.


async def test_describe_transactions(lab: Lab) -> None:
    lab.init()
    lab.add()
    answer = lab.ask(DescribeTransactionsRequest(transactional_ids=[NAME, "", "who"]), 0)
    one, nameless, unknown = answer.transaction_states
    assert (one.error_code, one.transactional_id, one.transaction_state) == (0, NAME, "Ongoing")
    assert (one.producer_id, one.producer_epoch, one.transaction_timeout_ms) == (5000, 0, 60_000)
    assert one.transaction_start_time_ms == lab.known.started_ms > 0
    assert [(each.topic, each.partitions) for each in one.topics] == [(TOPIC, [0])]
    assert nameless.error_code == ErrorCode.INVALID_REQUEST
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["app", "other"]),
        ({"state_filters": ["Ongoing"]}, ["app"]),
        ({"state_filters": ["Empty", "Ongoing"]}, ["app", "other"]),
        ({"state_filters": ["Dead"]}, []),
        ({"producer_id_filters": [5001, 1]}, ["other"]),
        ({"duration_filter": 0}, ["app"]),
        ({"duration_filter": 1 << 40}, []),
        ({"duration_filter": -1}, ["app", "other"]),
        ({"transactional_id_pattern": "a.*"}, ["app"]),
        ({"transactional_id_pattern": "p"}, []),
        ({"transactional_id_pattern": ""}, ["app", "other"]),
    ],
)
async def test_list_transactions(lab: Lab, fields: dict[str, Any], names: list[str]) -> None:
    lab.init()
    lab.init(transactional_id="other")
    lab.add()
    await asyncio.sleep(0.002)
    answer = lab.ask(ListTransactionsRequest(**fields), 2)
    assert answer.error_code == 0
    assert [each.transactional_id for each in answer.transaction_states] == names


async def test_a_pattern_takes_no_more_time_than_the_names_it_is_matched_with(lab: Lab) -> None:
    lab.init(transactional_id="a" * 60)
    # One that goes back to try again would be at this for thousands of years.
    answer = lab.ask(ListTransactionsRequest(transactional_id_pattern="(a+)+b"), 2)
    assert (answer.error_code, answer.transaction_states) == (0, [])


async def test_list_transactions_tells_what_it_cannot_answer(lab: Lab) -> None:
    answer = lab.ask(ListTransactionsRequest(state_filters=["Empty", "Odd"]), 0)
    assert answer.unknown_state_filters == ["Odd"]
    for pattern in ("(", "a{99999}", "(?=back)", "(a)\\1"):
        bad = lab.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    lab.shards.is_loading = True
    loading = lab.ask(ListTransactionsRequest(), 1)
    assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# What leaders ask (KIP-890).


class Told:
    def __init__(self) -> None:
        self.errors: list[dict[TopicPartition, ErrorCode]] = []

    def __call__(self, errors: Any) -> None:
        self.errors.append(dict(errors))


def question(name: str = NAME, epoch: int = 0) -> AddPartitions:
    return AddPartitions(transactional_id=name, producer_id=5000, epoch=epoch, partitions=(T0,))


def added(message: object, error: ErrorCode = ErrorCode.NONE) -> AddPartitionsToTxnResponse:
    assert isinstance(message, AddPartitionsToTxnRequest)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=at, partition_error_code=error
                            )
                            for at in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in message.transactions
        ]
    )


async def test_a_leader_that_coordinates_asks_itself(lab: Lab) -> None:
    lab.init()
    told = Told()
    lab.transactions.verify(question(), told)
    lab.transactions.verify(question(), told, adds=True)
    lab.transactions.verify(question(), told)
    lab.transactions.verify(question(epoch=3), told, adds=True)
    assert [each[T0] for each in told.errors] == [
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.PRODUCER_FENCED,
    ]
    assert lab.known.client_version == 2
    assert lab.asked == []


async def test_questions_for_another_broker_share_a_request(lab: Lab) -> None:
    lab.shards.error = ErrorCode.NOT_COORDINATOR
    gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    lab.reply = lambda broker_id, message: gate
    told = Told()
    lab.transactions.verify(question("a"), told)
    lab.transactions.verify(question("b"), told, adds=True)
    lab.transactions.verify(question("a"), told)
    await until(lambda: lab.asked)
    lab.transactions.verify(question("c"), told)
    lab.reply = lambda broker_id, message: added(message)
    gate.set_result(added(lab.asked[0][1]))
    await until(lambda: len(told.errors) == 4)
    assert all(each == {T0: ErrorCode.NONE} for each in told.errors)
    requests = [cast(AddPartitionsToTxnRequest, message) for _, message in lab.asked]
    sent = [[(e.transactional_id, e.verify_only) for e in one.transactions] for one in requests]
    assert sent == [[("a", True), ("b", False)], [("a", True), ("c", True)]]
    assert [broker_id for broker_id, _ in lab.asked] == [2, 2]


async def test_a_coordinator_that_cannot_be_asked_is_not_available(lab: Lab) -> None:
    lab.shards.error = ErrorCode.NOT_COORDINATOR

    def reply(broker_id: int, message: object) -> Any:
        raise PeerFailed("away")

    lab.reply = reply
    told = Told()
    lab.transactions.verify(question(), told)
    await until(lambda: told.errors)
    assert told.errors == [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]
    partition = r.PartitionRecord(INTERNAL_ID, 0, (1, 2), (1, 2), -1, 1, 1)
    lab.broker.image.apply(partition, 300)
    lab.transactions.verify(question(), told)
    assert told.errors[1:] == [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]


async def test_an_answer_that_says_nothing_is_no_permission(lab: Lab) -> None:
    lab.shards.error = ErrorCode.NOT_COORDINATOR
    lab.reply = lambda broker_id, message: AddPartitionsToTxnResponse()
    told = Told()
    lab.transactions.verify(question(), told)
    await until(lambda: told.errors)
    assert told.errors == [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]


async def test_the_end_of_the_transaction_before_is_waited_for_a_moment(
    make_broker: MakeBroker,
) -> None:
    """Only where the producer did not say itself that it begins one (KAFKA-18654)."""
    lab = Lab(make_broker(add_partitions_to_txn_retry_backoff_ms="1"))
    lab.shards.error = ErrorCode.NOT_COORDINATOR
    answers = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    lab.reply = lambda broker_id, message: added(message, answers.pop(0))
    told = Told()
    lab.transactions.verify(question(), told, adds=True)
    await until(lambda: told.errors)
    assert told.errors == [{T0: ErrorCode.NONE}]
    answers = [ErrorCode.CONCURRENT_TRANSACTIONS]
    lab.transactions.verify(question(), told)
    await until(lambda: len(told.errors) == 2)
    assert told.errors[1] == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}


async def test_a_transaction_that_does_not_end_is_not_waited_for_for_long(
    make_broker: MakeBroker,
) -> None:
    quick = {
        "add_partitions_to_txn_retry_backoff_ms": "1",
        "add_partitions_to_txn_retry_backoff_max_ms": "20",
    }
    lab = Lab(make_broker(**quick))
    lab.shards.error = ErrorCode.NOT_COORDINATOR
    lab.reply = lambda broker_id, message: added(message, ErrorCode.CONCURRENT_TRANSACTIONS)
    told = Told()
    lab.transactions.verify(question(), told, adds=True)
    await until(lambda: told.errors)
    assert told.errors == [{T0: ErrorCode.CONCURRENT_TRANSACTIONS}]
