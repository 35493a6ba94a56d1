"""Exactly once on a cluster that lacks commit groups: a broker, no Spark, the ledger decides."""

import pytest

from minikafka.client.errors import UnsupportedVersion
from minikafka.spark import ledger
from minikafka.spark.exactly_once import Prepared
from minikafka.spark.ledger import Entry
from minikafka.spark.sink_clients import ExactlyOnceError, SinkClients
from tests.spark.conftest import Broker
from tests.spark.drivers import Sink, Where, where

__all__ = ["where"]

LEDGER = {"exactlyOnceFallback": "ledger"}


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


@pytest.mark.slow
@pytest.mark.parametrize("finished", [0, 1])
def test_a_driver_that_dies_between_decision_and_commit(
    broker: Broker, where: Where, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    sink = Sink(broker, where, f"ledger-dies-{finished}", **LEDGER)
    before = sink.driver("run-1")
    messages = [before.task("a"), before.task("b", partition=1)]
    with monkeypatch.context() as patched:

        def die(self: ledger.Ledger, group: str, entry: Entry) -> None:
            for one in entry.transactions[:finished]:
                self._admin.end_prepared(one, commit=True)
            raise Killed

        patched.setattr(ledger.Ledger, "_finish", die)
        with pytest.raises(Killed):
            before.commit(0, *messages)
    after = sink.driver("run-2")
    after.commit(0, after.task("a"), after.task("b", partition=1))
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

        def die(self: ledger.Ledger, group: str, entry: Entry) -> None:
            raise Killed

        patched.setattr(ledger.Ledger, "_finish", die)
        with pytest.raises(Killed):
            before.commit(0, prepared)
    broker.admin.end_prepared(prepared.transaction, commit=False)
    after = sink.driver("run-2")
    with pytest.raises(ExactlyOnceError, match=r"its rows are lost\. Write them again"):
        after.commit(0, after.task("a"))
