"""Exactly once on a cluster that lacks commit groups: a broker, no Spark, the ledger decides."""

import logging
import re
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka import PreparedTransaction, Producer
from minikafka.client.errors import AdminError, ClientError, RequestTimedOut, UnsupportedVersion
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.spark import ledger
from minikafka.spark.exactly_once import Prepared
from minikafka.spark.ledger import Entry
from minikafka.spark.sink_clients import ExactlyOnceError, SinkClients
from tests.spark.conftest import Broker
from tests.spark.drivers import Sink, Where, where

__all__ = ["where"]

LEDGER = {"exactlyOnceFallback": "ledger"}
ONE = PreparedTransaction("g/run-1/0.0", 7, 3)


class Killed(BaseException):
    """In the place of a signal."""


@pytest.fixture(autouse=True)
def _no_commit_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: SinkClients, group: str, run: str) -> None:
        raise UnsupportedVersion("INIT_COMMIT_GROUP: the broker does not know it")

    monkeypatch.setattr(SinkClients, "state_of", refuse)


def test_an_entry_is_what_it_was_after_a_journey() -> None:
    entry = Entry(("a", "b"), 7, (("g/b/0.0", 4, 2),), is_done=False)  # type: ignore[arg-type]
    assert Entry.from_json(entry.to_json()) == entry


def test_runs_take_over_in_their_order() -> None:
    entry = Entry()
    for n in range(20):
        entry = entry.taken_over("g", f"run-{n}")
    assert entry.taken_over("g", "run-19") == entry
    assert len(entry.runs) == ledger.RUNS_KEPT
    with pytest.raises(ExactlyOnceError, match="g, run run-18: a newer run has taken over"):
        entry.taken_over("g", "run-18")


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (ApiError(ErrorCode.INVALID_TXN_STATE), "its rows are lost.* goes on once"),
        (ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING), "cannot be told apart.* goes on once"),
        (RequestTimedOut("nobody"), "not be committed yet .*nobody.* Start again"),
    ],
)
def test_what_is_known_of_a_decided_batch_is_said_and_no_more(
    error: ApiError | ClientError, match: str
) -> None:
    clients = SimpleNamespace(admin=lambda: None, end_all=lambda *_, **__: {ONE: error})
    with pytest.raises(ExactlyOnceError, match=rf"batch 7 of g is decided, .*{ONE[0]}.*{match}"):
        ledger.Ledger(faked(clients))._finish("g", Entry(("a",), 7, (ONE,), is_done=False))


def faked(clients: SimpleNamespace) -> Any:
    return clients


def test_a_batch_whose_transactions_are_not_known_is_not_decided() -> None:
    def describe(names: list[str]) -> Any:
        raise AdminError({ONE[0]: ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)})

    admin = SimpleNamespace(describe_transactions=describe)
    with pytest.raises(ExactlyOnceError, match=r"batch 7 of g is not .*NOT_FOUND.* run it again"):
        ledger.Ledger(faked(SimpleNamespace(admin=lambda: admin)))._check_open(
            "batch 7 of g", [ONE]
        )


def test_orphans_that_cannot_be_aborted_keep_nobody_from_going_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fence(names: list[str]) -> Any:
        raise AdminError({names[0]: ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)})

    listed = [SimpleNamespace(transactional_id=ONE.transactional_id)]
    admin = SimpleNamespace(list_transactions=lambda **_: listed, fence_producers=fence)
    with caplog.at_level(logging.WARNING):
        ledger.Ledger(faked(SimpleNamespace(admin=lambda: admin)))._abort_orphans("g", "run-2")
    assert "g/run-1/0.0: TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in caplog.text


@pytest.mark.slow
def test_batches_restarts_and_zombies(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "ledger-restarts", **LEDGER)
    before = sink.driver("run-1")
    before.commit(0, before.task("a", partition=0), before.task("b", partition=1))
    before.commit(1, before.task("c"))
    before.task("loser", attempt=1)
    zombie = before.task("zombie", attempt=2)
    after = sink.driver("run-2")
    after.commit(1, after.task("c"))  # Spark never heard that it was committed
    after.commit(2, after.task("d"))
    with pytest.raises(ExactlyOnceError, match="a newer run has taken over"):
        before.commit(2, zombie)
    assert sink.visible() == ["a", "b", "c", "d"]


def dies_before(monkeypatch: pytest.MonkeyPatch, finished: int) -> None:
    """Let a driver decide, commit so many transactions, and be killed."""

    def die(self: ledger.Ledger, group: str, entry: Entry) -> None:
        for one in entry.transactions[:finished]:
            self._admin.end_prepared(one, commit=True)
        raise Killed

    monkeypatch.setattr(ledger.Ledger, "_finish", die)


@pytest.mark.slow
@pytest.mark.parametrize("finished", [0, 1])
def test_a_driver_that_dies_between_decision_and_commit(
    broker: Broker, where: Where, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    sink = Sink(broker, where, f"ledger-dies-{finished}", **LEDGER)
    before = sink.driver("run-1")
    messages = [before.task("a"), before.task("b", partition=1)]
    with monkeypatch.context() as patched:
        dies_before(patched, finished)
        with pytest.raises(Killed):
            before.commit(0, *messages)
    after = sink.driver("run-2")
    after.task()
    names = [one.transaction.transactional_id for one in messages if one.transaction is not None]
    found = [one.state for one in broker.admin.describe_transactions(names).values()]
    assert all(state in ("PrepareCommit", "CompleteCommit") for state in found), "before any row"
    after.commit(0, after.task("a"), after.task("b", partition=1))
    assert sink.visible() == ["a", "b"]


@pytest.mark.slow
def test_a_numbered_write_is_tried_again_in_the_run_that_decided_it(
    broker: Broker, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(broker, where, "ledger-again", **LEDGER)

    def write(batch: int, value: str) -> Prepared:
        job = sink.driver("run-1", batchId=str(batch))
        prepared = job.task(value, is_stream=False)
        job.commit_job(prepared)
        return prepared

    write(0, "a")
    for batch, value in ((1, "b"), (2, "c")):
        with monkeypatch.context() as patched:
            dies_before(patched, 0)
            with pytest.raises(Killed):
                write(batch, value)
        if batch == 1:
            assert write(batch, value).transaction is None, "it is decided: not written again"
    write(3, "d")  # with the ids that batch 2 had
    assert sink.visible() == ["a", "b", "c", "d"]
    with pytest.raises(ExactlyOnceError, match=r"batch 1 of .* batch 3 of it is recorded"):
        write(1, "late")


@pytest.mark.slow
def test_a_group_that_somebody_deleted_is_forgotten(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "ledger-deleted", **LEDGER)
    before = sink.driver("run-1")
    before.commit(3, before.task("a"))
    with Producer(broker.bootstrap) as producer:
        producer.send(ledger.TOPIC, None, key=b"ledger-deleted-query", partition=0).result(60)
    after = sink.driver("run-2")
    after.commit(0, after.task("b"))
    assert sink.visible() == ["a", "b"]


@pytest.mark.slow
def test_a_transaction_that_timed_out_is_decided_by_nobody(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "ledger-timeout", **LEDGER)
    before = sink.driver("run-1")
    messages = [before.task("a"), before.task("b", partition=1)]
    lost = messages[1].transaction
    assert lost is not None
    broker.admin.end_prepared(lost, commit=False)  # as its timeout would
    with pytest.raises(ExactlyOnceError, match="nothing of the batch is visible"):
        before.commit(0, *messages)
    after = sink.driver("run-2")
    after.commit(0, after.task("a"), after.task("b", partition=1))
    assert sink.visible() == ["a", "b"]


@pytest.mark.slow
def test_rows_that_are_lost_are_an_error(
    broker: Broker, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(broker, where, "ledger-lost", **LEDGER)
    before = sink.driver("run-1")
    prepared: Prepared = before.task("a")
    assert prepared.transaction is not None
    with monkeypatch.context() as patched:
        dies_before(patched, 0)
        with pytest.raises(Killed):
            before.commit(0, prepared)
    broker.admin.end_prepared(prepared.transaction, commit=False)
    after = sink.driver("run-2")
    with pytest.raises(ExactlyOnceError, match=r"its rows are lost.*Write the lost ones") as told:
        after.task("a")
    # The remedy that it names.
    key, value = re.findall(r"key (\S+) and value (.*)$", str(told.value))[0]
    with Producer(broker.bootstrap) as producer:
        producer.send(sink.topic, b"a", partition=0).result(60)
        producer.send(ledger.TOPIC, value.encode(), key=key.encode(), partition=0).result(60)
    after.commit(0, after.task("a"))
    after.commit(1, after.task("b"))
    assert sink.visible() == ["a", "b"]
