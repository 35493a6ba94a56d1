"""Prepared transactions, and the admin that commits them together, against a scripted cluster."""

import asyncio
import pickle
from typing import Any

import pytest

from minikafka import ApiError, CommitGroupState, PreparedTransaction, UnsupportedVersion
from minikafka.aio import Admin
from minikafka.client.admin import coordinators
from minikafka.client.errors import DeliveryFailed, RequestTimedOut, TransactionMisuse
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import commit_group as cg
from minikafka.protocol.messages import find_coordinator as fc
from minikafka.protocol.messages import init_commit_group as icg

from . import fake_broker
from .fake_broker import Close, FakeCluster, FakeNode
from .fake_transactions import FakeCoordinator
from .test_transactions import Both, both, producer_of

__all__ = ["both"]
ONE = PreparedTransaction("g/0/0.0", 7, 3)
TWO = PreparedTransaction("g/1/0.0", 8, 0)
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}


# Prepared transactions.


def is_open(coordinator: FakeCoordinator) -> bool:
    return coordinator.transactions["t1"].is_open


async def test_what_is_prepared_is_acknowledged_and_open_and_stays_so(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster:
        cluster.create("a", 2)
        async with producer_of(cluster, linger_ms=60_000) as producer:
            await producer.begin_transaction()
            sent = [producer.send("a", b"%d" % n, partition=n % 2) for n in range(4)]
            prepared = await producer.prepare_transaction()
            assert all(each.done() for each in sent)
            with pytest.raises(TransactionMisuse, match="is in no transaction"):
                producer.send("a", b"late")
            for call in (producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(TransactionMisuse):
                    await call()
        known = coordinator.transactions["t1"]
        assert is_open(coordinator)
        assert prepared == ("t1", known.producer_id, known.epoch)
        assert pickle.loads(pickle.dumps(prepared)) == prepared


async def test_the_next_transaction_has_an_epoch_of_its_own(both: Both) -> None:
    """What is still open then is aborted; what somebody has committed meanwhile counts."""
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        found = []
        for number in range(3):
            await producer.begin_transaction()
            producer.send("a", b"%d" % number)
            prepared = await producer.prepare_transaction()
            assert prepared is not None
            found.append(prepared)
            if number == 0:
                coordinator.end(coordinator.transactions["t1"], commit=True)
        await producer.begin_transaction()
        producer.send("a", b"own")
        await producer.commit_transaction()
    epochs = [each.epoch for each in found]
    assert epochs == sorted(dict.fromkeys(epochs))
    assert coordinator.visible("a") == [b"0", b"own"]


async def test_a_transaction_without_records_need_not_be_committed(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        for _ in range(2):
            await producer.begin_transaction()
            assert await producer.prepare_transaction() is None
    assert not is_open(coordinator)
    assert coordinator.transactions["t1"].epoch == 0


async def test_a_record_that_was_refused_keeps_it_from_being_prepared(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, coordinator = both()

    def refuse(node: FakeNode, request: Any) -> Any:
        return fake_broker.refuse_produce(request, ErrorCode.MESSAGE_TOO_LARGE)

    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        await producer.begin_transaction()
        producer.send("a", b"fine")
        await producer.flush()
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.PRODUCE, refuse)
        lost = producer.send("a", b"lost")
        with pytest.raises(Exception, match="can only be aborted"):
            await producer.prepare_transaction()
        with pytest.raises(DeliveryFailed):
            await lost
        await producer.abort_transaction()
    assert not is_open(coordinator)
    assert coordinator.visible("a") == []


async def test_without_a_transaction_nothing_is_prepared(both: Both) -> None:
    cluster, _ = both()
    async with cluster, producer_of(cluster) as producer:
        with pytest.raises(TransactionMisuse, match="no transaction is open"):
            await producer.prepare_transaction()


async def test_a_prepare_that_was_interrupted_can_be_repeated(both: Both) -> None:
    cluster, coordinator = both()
    async with cluster, producer_of(cluster) as producer:
        cluster.create("a")
        await producer.begin_transaction()
        producer.send("a", b"x")
        preparing = asyncio.ensure_future(producer.prepare_transaction())
        await asyncio.sleep(0)
        preparing.cancel()
        await asyncio.wait([preparing])
        assert await producer.prepare_transaction() is not None
        assert is_open(coordinator)


# The admin.


class Groups:
    """Answers by a script, and what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []
        self.answers: list[Any] = []
        self.found: list[str] = []
        for key, handle in (
            (ApiKey.FIND_COORDINATOR, self._find),
            (ApiKey.INIT_COMMIT_GROUP, self._answer),
            (ApiKey.COMMIT_GROUP, self._answer),
        ):
            monkeypatch.setitem(fake_broker.HANDLERS, key, handle)

    def _find(self, node: FakeNode, request: fc.FindCoordinatorRequest) -> Any:
        assert request.key_type == fc.CoordinatorType.TRANSACTION
        self.found += request.coordinator_keys
        found = [
            fc.Coordinator(key=key, node_id=node.node_id, host="127.0.0.1", port=node.port)
            for key in request.coordinator_keys
        ]
        return fc.FindCoordinatorResponse(coordinators=found)

    def _answer(self, node: FakeNode, request: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    return Groups(monkeypatch)


async def test_a_group_is_taken_over_and_committed(groups: Groups) -> None:
    groups.answers = [
        icg.InitCommitGroupResponse(generation=3, batch_id=41),
        cg.CommitGroupResponse(),
        cg.CommitGroupResponse(is_replay=True),
    ]
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        assert await admin.init_commit_group("g", "run") == CommitGroupState(3, 41)
        assert await admin.commit_group("g", 3, 42, iter([ONE, TWO])) is True
        assert await admin.commit_group("g", 3, 42, []) is False
    init, commit, empty = groups.asked
    assert (init.group, init.run) == ("g", "run")
    assert (commit.group, commit.generation, commit.batch_id) == ("g", 3, 42)
    assert [
        (each.transactional_id, each.producer_id, each.producer_epoch)
        for each in commit.transactions
    ] == [tuple(ONE), tuple(TWO)]
    assert empty.transactions == []


async def test_only_so_many_coordinators_are_remembered(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinators, "MOST_COORDINATORS", 2)
    asked = ["a", "b", "a", "c", "a"]
    groups.answers = [cg.CommitGroupResponse() for _ in asked]
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        for group in asked:
            await admin.commit_group(group, 0, 0, [])
        assert [key for _, key in admin._asking.coordinators.known] == ["c", "a"]
    assert groups.found == ["a", "b", "c"]


@pytest.mark.parametrize(
    "passing",
    [
        cg.CommitGroupResponse(error_code=int(ErrorCode.CONCURRENT_TRANSACTIONS)),
        cg.CommitGroupResponse(error_code=int(ErrorCode.NOT_COORDINATOR)),
        cg.CommitGroupResponse(error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        cg.CommitGroupResponse(error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
        Close(),
    ],
    ids=["concurrent", "elsewhere", "unavailable", "loading", "connection lost"],
)
async def test_what_passes_by_itself_is_asked_for_again(groups: Groups, passing: Any) -> None:
    groups.answers = [passing, passing, cg.CommitGroupResponse(is_replay=True)]
    async with FakeCluster() as cluster, Admin(cluster.bootstrap, **QUICK) as admin:
        assert await admin.commit_group("g", 0, 0, [ONE]) is False
    assert len(groups.asked) == 3


async def test_what_does_not_pass_in_time_is_not_known(groups: Groups) -> None:
    busy = cg.CommitGroupResponse(error_code=int(ErrorCode.CONCURRENT_TRANSACTIONS))
    groups.answers = [busy] * 10_000
    settings = {**QUICK, "default_api_timeout_ms": 50, "request_timeout_ms": 50}
    async with FakeCluster() as cluster, Admin(cluster.bootstrap, **settings) as admin:
        with pytest.raises(RequestTimedOut):
            await admin.commit_group("g", 0, 0, [ONE])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_REQUEST,
    ],
)
async def test_a_refusal_says_why(groups: Groups, code: ErrorCode) -> None:
    refused = cg.CommitGroupResponse(error_code=int(code), error_message="because")
    groups.answers = [refused, icg.InitCommitGroupResponse(error_code=int(code))]
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(ApiError, match="because") as error:
            await admin.commit_group("g", 0, 0, [ONE])
        assert error.value.code is code
        with pytest.raises(ApiError, match="commit group g") as error:
            await admin.init_commit_group("g", "run")
        assert error.value.code is code


async def test_a_cluster_without_commit_groups_is_told_apart(groups: Groups) -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        for key in (ApiKey.INIT_COMMIT_GROUP, ApiKey.COMMIT_GROUP):
            del cluster.versions[key]
        with pytest.raises(UnsupportedVersion, match="INIT_COMMIT_GROUP"):
            await admin.init_commit_group("g", "run")
        with pytest.raises(UnsupportedVersion, match="COMMIT_GROUP"):
            await admin.commit_group("g", 0, 0, [])
    assert groups.asked == []
