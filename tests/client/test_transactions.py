"""Transactions of the producer against a scripted coordinator, in both protocols (KIP-890)."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.aio import Delivery, Producer, TopicPartition
from minikafka.client.errors import (
    ClientClosed,
    DeliveryFailed,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    TransactionAborted,
    TransactionFailed,
    TransactionMisuse,
)
from minikafka.client.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from minikafka.client.refusals import Refused
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import end_txn as et
from minikafka.protocol.messages import init_producer_id as ipi
from minikafka.protocol.messages import txn_offset_commit as toc
from minikafka.protocol.records.record_batch import read_header
from minikafka.runtime.errors import ConfigError

from . import fake_broker
from .fake_broker import Close, FakeCluster, FakeNode, Refuse
from .fake_transactions import FakeCoordinator, install
from .test_producer import first_times

Both = Callable[..., tuple[FakeCluster, FakeCoordinator]]
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture(params=[1, 2], ids=["older", "newer"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Both:
    """A cluster for each protocol."""
    return lambda nodes=1: install(monkeypatch, request.param, nodes)


def producer_of(cluster: FakeCluster, **settings: Any) -> Producer[bytes, bytes]:
    settings.setdefault("transactional_id", "t1")
    settings.setdefault("max_block_ms", 5_000)
    return Producer(cluster.bootstrap, **settings)


def answering(key: ApiKey, *answers: object) -> Callable[[FakeNode, Any], object]:
    """A handler that gives these answers first, and then what the true one says."""
    true, left = fake_broker.HANDLERS[key], list(answers)

    def handle(node: FakeNode, request: Any) -> object:
        return left.pop(0) if left else true(node, request)

    return handle


async def test_what_is_committed_counts_and_what_is_aborted_does_not(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a", 2)
        for number in range(6):
            await producer.begin_transaction()
            for partition in (0, 1):
                producer.send("a", b"%d" % number, partition=partition)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    assert coordinator.visible("a") == [b"0", b"2", b"4"] * 2
    assert all(
        read_header(batch).is_transactional
        for part in cluster.topics["a"].partitions
        for batch in part.batches
    )


async def test_the_older_protocol_adds_partitions_first_and_keeps_its_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, coordinator = install(monkeypatch, 1)
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a", 2)
        for _ in range(3):
            async with producer.transaction():
                producer.send("a", b"x", partition=0)
    assert len(cluster.sent(ApiKey.ADD_PARTITIONS_TO_TXN)) == 3
    assert coordinator.transactions["t1"].epoch == 0
    assert [read_header(b).base_sequence for b in cluster.topics["a"].partitions[0].batches] == [
        0,
        1,
        2,
    ]


async def test_the_newer_protocol_raises_the_epoch_with_each_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, coordinator = install(monkeypatch, 2)
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        for _ in range(3):
            async with producer.transaction():
                producer.send("a", b"x")
    assert cluster.sent(ApiKey.ADD_PARTITIONS_TO_TXN) == []
    assert coordinator.transactions["t1"].epoch == 3
    headers = [read_header(b) for b in cluster.topics["a"].partitions[0].batches]
    assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(0, 0), (1, 0), (2, 0)]


async def test_a_transaction_without_records_asks_nobody(both: Both) -> None:
    cluster, _ = both()
    async with cluster, producer_of(cluster) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert cluster.sent(ApiKey.END_TXN) == []


async def test_offsets_are_committed_with_the_transaction(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a", 2)
        group = ConsumerGroupMetadata("g", 7, "m")
        async with producer.transaction():
            producer.send("a", b"x")
            await producer.send_offsets({A0: 5, A1: OffsetAndMetadata(9, "note", 3)}, group)
            assert coordinator.committed == {}
        assert coordinator.committed == {("g", A0): 5, ("g", A1): 9}
        await producer.begin_transaction()
        await producer.send_offsets({A0: 50}, "g")
        await producer.abort_transaction()
    assert coordinator.committed == {("g", A0): 5, ("g", A1): 9}
    request: toc.TxnOffsetCommitRequest = cluster.sent(ApiKey.TXN_OFFSET_COMMIT)[0]
    assert (request.generation_id, request.member_id) == (7, "m")
    assert request.topics[0].partitions[1].committed_leader_epoch == 3
    added = cluster.sent(ApiKey.ADD_OFFSETS_TO_TXN)
    assert len(added) == (0 if coordinator.version >= 2 else 2)


async def test_a_stale_member_s_offsets_abort_the_transaction_only(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        stale = toc.TxnOffsetCommitResponsePartition(
            partition_index=0, error_code=int(ErrorCode.ILLEGAL_GENERATION)
        )
        topic = toc.TxnOffsetCommitResponseTopic(name="a", partitions=[stale])
        refusal = toc.TxnOffsetCommitResponse(topics=[topic])
        handler = answering(ApiKey.TXN_OFFSET_COMMIT, refusal)
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.TXN_OFFSET_COMMIT, handler)

        async def work() -> None:
            async with producer.transaction():
                await producer.send("a", b"lost")
                await producer.send_offsets({A0: 5}, ConsumerGroupMetadata("g", 3, "m"))

        with pytest.raises(TransactionAbortable) as caught:
            await work()
        cause = caught.value.cause
        assert isinstance(cause, Refused)
        assert cause.code is ErrorCode.ILLEGAL_GENERATION
        async with producer.transaction():
            producer.send("a", b"kept")
    assert coordinator.visible("a") == [b"kept"]


async def test_offsets_that_were_not_sent_doom_the_transaction(both: Both) -> None:
    cluster, coordinator = both()

    def lose(node: FakeNode, key: int, request: Any) -> None:
        if key == ApiKey.TXN_OFFSET_COMMIT:
            raise Close

    async with cluster, producer_of(cluster, max_block_ms=300) as producer:
        cluster.create("a")
        cluster.fault = lose
        await producer.begin_transaction()
        await producer.send("a", b"lost")
        with pytest.raises(RequestTimedOut):
            await producer.send_offsets({A0: 5}, "g")
        cluster.fault = None
        with pytest.raises(TransactionAbortable, match="its offsets were not sent"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send("a", b"kept")
            await producer.send_offsets({A0: 6}, "g")
    assert coordinator.visible("a") == [b"kept"]
    assert coordinator.committed == {("g", A0): 6}


async def test_a_broker_that_cannot_check_members_gets_no_offsets_of_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, coordinator = install(monkeypatch, 1)
    cluster.versions[ApiKey.TXN_OFFSET_COMMIT] = (0, 2)
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        async with producer.transaction():
            await producer.send_offsets({A0: 5}, "g")
        await producer.begin_transaction()
        with pytest.raises(TransactionFailed, match="version 3 is needed"):
            await producer.send_offsets({A0: 6}, ConsumerGroupMetadata("g", 1, "m"))
    assert coordinator.committed == {("g", A0): 5}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, DeliveryFailed),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, DeliveryFailed),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
    ],
)
async def test_an_epoch_is_never_raised_without_the_coordinator(
    both: Both, code: ErrorCode, error: type[DeliveryFailed]
) -> None:
    cluster, coordinator = both()
    cluster.fault = first_times(1, Refuse(code))
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        await producer.begin_transaction()
        with pytest.raises(error) as caught:
            await producer.send("a", b"x")
        if error is ProducerFenced:
            with pytest.raises(ProducerFenced):
                await producer.abort_transaction()
            return
        assert not isinstance(caught.value, ProducerFenced)
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send("a", b"y")
    assert coordinator.visible("a") == [b"y"]
    (header,) = [read_header(batch) for batch in cluster.topics["a"].partitions[0].batches]
    assert header.producer_id == coordinator.transactions["t1"].producer_id


async def test_what_the_block_raises_aborts_and_comes_out(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster, linger_ms=60_000) as producer:
        cluster.create("a")
        lingering: list[Delivery] = []

        async def work() -> None:
            async with producer.transaction():
                lingering.append(producer.send("a", b"lost"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        with pytest.raises(TransactionAborted):
            await lingering[0]
        async with producer.transaction():
            producer.send("a", b"kept")
    assert coordinator.visible("a") == [b"kept"]


async def test_calls_in_the_wrong_order_are_refused_and_change_nothing(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        with pytest.raises(TransactionMisuse, match="begin a transaction first"):
            producer.send("a", b"x")
        for call in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(TransactionMisuse):
                await call()
        with pytest.raises(TransactionMisuse):
            await producer.send_offsets({A0: 1}, "g")
        async with producer.transaction():
            with pytest.raises(TransactionMisuse, match="end that transaction first"):
                await producer.begin_transaction()
            producer.send("a", b"x")
        async with Producer(cluster.bootstrap) as plain:
            with pytest.raises(TransactionMisuse, match="transactional_id"):
                await plain.begin_transaction()
    with pytest.raises(ClientClosed):
        await producer.begin_transaction()
    assert coordinator.visible("a") == [b"x"]


async def test_a_newer_producer_of_the_same_id_fences_the_older(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as old:
        cluster.create("a")
        await old.begin_transaction()
        await old.send("a", b"zombie")
        async with producer_of(cluster) as new:
            async with new.transaction():
                producer_sent = await new.send("a", b"new")
            with pytest.raises(ProducerFenced) as caught:
                await old.commit_transaction()
            assert caught.value.partition is None
            with pytest.raises(ProducerFenced):
                old.send("a", b"more")
            with pytest.raises(ProducerFenced):
                await old.begin_transaction()
    assert producer_sent.offset == 1
    assert coordinator.visible("a") == [b"new"]


async def test_a_batch_that_is_refused_dooms_the_transaction(both: Both) -> None:
    cluster, coordinator = both()
    cluster.fault = first_times(1, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    async with cluster, producer_of(cluster, linger_ms=0) as producer:
        cluster.create("a", 2)
        await producer.begin_transaction()
        with pytest.raises(DeliveryFailed):
            await producer.send("a", b"too large", partition=0)
        with pytest.raises(TransactionAbortable, match="MESSAGE_TOO_LARGE"):
            producer.send("a", b"more", partition=1)
        with pytest.raises(TransactionAbortable):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send("a", b"kept", partition=0)
    assert coordinator.visible("a") == [b"kept"]
    # The sequence of what was refused is a gap: nothing may be numbered behind it.
    kept = read_header(cluster.topics["a"].partitions[0].batches[-1])
    assert (kept.producer_epoch, kept.base_sequence) == (1, 0)


async def test_an_answer_that_was_lost_is_asked_for_again(both: Both) -> None:
    cluster, coordinator = both()
    keys = (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.PRODUCE)
    lost = dict.fromkeys(keys, 1)

    def lose(node: FakeNode, key: int, request: Any) -> None:
        if lost.pop(ApiKey(key), 0):
            raise Close

    async with cluster:
        cluster.create("a")
        cluster.after = lose
        async with producer_of(cluster) as producer:
            for number in range(3):
                async with producer.transaction():
                    producer.send("a", b"%d" % number)
                    await producer.send_offsets({A0: number}, "g")
    assert lost == {}
    assert coordinator.visible("a") == [b"0", b"1", b"2"]
    assert coordinator.committed == {("g", A0): 2}


async def test_the_coordinator_that_moved_is_found_again(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, coordinator = both(2)
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        busy = [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS]
        answers = [et.EndTxnResponse(error_code=int(code)) for code in busy]
        handler = answering(ApiKey.END_TXN, *answers)
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.END_TXN, handler)
        async with producer.transaction():
            producer.send("a", b"x")
    assert coordinator.visible("a") == [b"x"]
    assert len(cluster.sent(ApiKey.FIND_COORDINATOR)) >= 2


async def test_a_commit_that_ran_out_of_time_can_be_repeated(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster, max_block_ms=300) as producer:
        cluster.create("a")
        silent = True

        def deaf(node: FakeNode, key: int, request: Any) -> None:
            if key == ApiKey.END_TXN and silent:
                raise Close

        cluster.after = deaf
        await producer.begin_transaction()
        producer.send("a", b"x")
        with pytest.raises(RequestTimedOut):
            await producer.commit_transaction()
        with pytest.raises(TransactionMisuse, match="call commit_transaction again"):
            await producer.abort_transaction()
        silent = False
        await producer.commit_transaction()
        async with producer.transaction():
            producer.send("a", b"y")
    assert coordinator.visible("a") == [b"x", b"y"]


async def test_an_answer_that_is_final_ends_the_producer(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        refusal = et.EndTxnResponse(error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR))
        handler = answering(ApiKey.END_TXN, refusal)
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.END_TXN, handler)
        with pytest.raises(TransactionFailed, match="UNKNOWN_SERVER_ERROR"):
            async with producer.transaction():
                producer.send("a", b"x")
        with pytest.raises(TransactionFailed):
            producer.send("a", b"more")


async def test_a_transaction_that_took_too_long_can_only_be_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, coordinator = install(monkeypatch, 2)
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        await producer.begin_transaction()
        await producer.send("a", b"x")
        # The coordinator aborts it by itself, and raises the epoch as with any end.
        overdue = coordinator.transactions["t1"]
        coordinator.end(overdue, commit=False)
        overdue.epoch += 1
        overdue.last_end = None
        refusal = et.EndTxnResponse(error_code=int(ErrorCode.INVALID_TXN_STATE))
        handler = answering(ApiKey.END_TXN, refusal)
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.END_TXN, handler)
        with pytest.raises(TransactionAbortable, match="INVALID_TXN_STATE"):
            await producer.commit_transaction()
        overdue.epoch -= 1  # a repeated InitProducerId is answered with the epoch that was given
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send("a", b"y")
    assert coordinator.visible("a") == [b"y"]


async def test_who_is_fenced_hears_of_it_when_aborting_too(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as old:
        cluster.create("a")
        await old.begin_transaction()
        await old.send("a", b"zombie")
        async with producer_of(cluster) as new:
            with pytest.raises(ProducerFenced):
                await old.abort_transaction()
            with pytest.raises(ProducerFenced):
                await old.begin_transaction()
            async with new.transaction():
                new.send("a", b"new")
    assert coordinator.visible("a") == [b"new"]


async def test_an_old_broker_cannot_raise_an_epoch_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, coordinator = install(monkeypatch, 1)
    cluster.versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
    cluster.fault = first_times(1, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        await producer.begin_transaction()
        with pytest.raises(DeliveryFailed):
            await producer.send("a", b"x")
        with pytest.raises(TransactionFailed, match="INIT_PRODUCER_ID: version 3 is needed"):
            await producer.abort_transaction()
    assert coordinator.transactions["t1"].epoch == 0, "it might be another producer's by now"


async def test_a_coordinator_that_knows_nothing_of_the_producer_gives_it_a_new_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, coordinator = install(monkeypatch, 1)
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        refusal = et.EndTxnResponse(error_code=int(ErrorCode.UNKNOWN_PRODUCER_ID))
        handler = answering(ApiKey.END_TXN, refusal)
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.END_TXN, handler)
        with pytest.raises(TransactionAbortable):
            async with producer.transaction():
                producer.send("a", b"x")
        async with producer.transaction():
            producer.send("a", b"y")
    assert coordinator.visible("a") == [b"y"]
    assert coordinator.transactions["t1"].epoch == 1


async def test_opening_a_producer_that_may_not_use_its_id_says_so(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = both()
    async with cluster:
        code = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        handler = answering(ApiKey.INIT_PRODUCER_ID, ipi.InitProducerIdResponse(error_code=code))
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.INIT_PRODUCER_ID, handler)
        producer = producer_of(cluster)
        with pytest.raises(TransactionFailed, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            await producer.start()


async def test_closing_in_a_transaction_aborts_it(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster:
        cluster.create("a")
        async with producer_of(cluster) as producer:
            await producer.begin_transaction()
            await producer.send("a", b"x")
    assert coordinator.visible("a") == []
    assert not coordinator.transactions["t1"].is_open


async def test_a_cluster_that_goes_over_to_the_newer_protocol_begins_a_new_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, coordinator = install(monkeypatch, 2)
    coordinator.version = 1
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        async with producer.transaction():
            producer.send("a", b"older")
        assert coordinator.transactions["t1"].epoch == 0
        coordinator.version = 2
        # Levels are told when a connection is opened.
        (node,) = cluster.nodes.values()
        await node.stop()
        await node.start()
        async with producer.transaction():
            producer.send("a", b"newer")
    assert coordinator.visible("a") == [b"older", b"newer"]
    assert coordinator.transactions["t1"].epoch == 2


async def test_cancelling_the_block_aborts_the_transaction(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        is_sent = asyncio.Event()

        async def work() -> None:
            async with producer.transaction():
                await producer.send("a", b"x")
                is_sent.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await is_sent.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert not coordinator.transactions["t1"].is_open
        assert coordinator.visible("a") == []


async def test_many_transactions_under_leaders_that_come_and_go(both: Both) -> None:
    cluster, coordinator = both(2)
    async with cluster, producer_of(cluster, linger_ms=0) as producer:
        cluster.create("a", 2)
        turns = itertools.count()

        def upset(node: FakeNode, key: int, request: Any) -> None:
            turn = next(turns)
            if key == ApiKey.PRODUCE and turn % 5 == 0:
                cluster.move("a", turn % 2, 1 + turn % 2)
            if turn % 11 == 0:
                raise Close

        cluster.after = upset
        kept: list[bytes] = []
        for number in range(30):
            await producer.begin_transaction()
            for partition in (0, 1):
                producer.send("a", b"%d" % number, partition=partition)
            if number % 3:
                await producer.commit_transaction()
                kept.append(b"%d" % number)
            else:
                await producer.abort_transaction()
    assert coordinator.visible("a") == kept * 2


@pytest.mark.parametrize(
    "settings", [{"acks": "1"}, {"enable_idempotence": False}, {"transaction_timeout_ms": 0}]
)
def test_settings_that_contradict_transactions_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Producer("localhost:1", transactional_id="t", **settings)
