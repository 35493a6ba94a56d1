"""Exactly once against a broker, without Spark: what the coordinator in memory only promises."""

import pytest

from minikafka import Consumer, TopicPartition
from minikafka.client.consumer.retry_headers import letter_of
from minikafka.spark import sink_clients
from minikafka.spark.rows import RowError
from minikafka.spark.sink_clients import ExactlyOnceError
from tests.spark.conftest import Broker
from tests.spark.drivers import Sink, Where, where

__all__ = ["where"]

pytestmark = pytest.mark.slow


def test_batches_attempts_and_replays(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "exact-batches")
    driver = sink.driver("run-1")
    for batch in range(5):
        driver.task(f"loser {batch}", attempt=1)
        messages = [driver.task(f"{batch}-{p}", partition=p) for p in (0, 1)]
        driver.commit(batch, *messages)
        driver.commit(batch, *messages)
        driver.abort(batch, *messages)
    after = sink.driver("run-2")
    after.commit(4, after.task("4-0"), after.task("4-1", partition=1))
    assert sink.visible() == sorted(f"{batch}-{p}" for batch in range(5) for p in (0, 1))


def test_a_zombie_and_what_it_left(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "exact-zombie")
    zombie = sink.driver("run-1")
    zombie.commit(0, zombie.task("a"))
    prepared = zombie.task("zombie", attempt=1)
    new = sink.driver("run-2")
    news = new.task("b")
    zombie.task("late")  # the same task of the run before
    with pytest.raises(ExactlyOnceError, match="has taken over"):
        zombie.commit(1, prepared)
    zombie.abort(1, prepared)
    new.commit(1, news)
    sink_clients._all.close()  # a new worker
    with pytest.raises(ExactlyOnceError, match="run run-1: a newer run"):
        zombie.task("c")
    assert sink.visible() == ["a", "b"]


def test_a_checkpoint_that_was_rolled_back(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "exact-rolled-back")
    before = sink.driver("run-1")
    for batch in range(3):
        before.commit(batch, before.task(f"{batch}"))
    rolled_back = sink.driver("run-2")
    again = rolled_back.task("new")
    with pytest.raises(ExactlyOnceError, match=r"batch 1 of .* batch 2 of it is recorded"):
        rolled_back.commit(1, again)
    rolled_back.abort(1, again)
    assert sink.visible() == ["0", "1", "2"]


def test_a_transaction_that_was_ended_is_not_committed_and_nor_are_the_others(
    broker: Broker, where: Where
) -> None:
    sink = Sink(broker, where, "exact-ended")
    driver = sink.driver("run-1")
    messages = [driver.task("a"), driver.task("b", partition=1)]
    lost = messages[1].transaction
    assert lost is not None
    broker.admin.end_prepared(lost, commit=False)
    with pytest.raises(ExactlyOnceError, match="nothing of the batch is visible"):
        driver.commit(0, *messages)
    driver.abort(0, *messages)
    driver.commit(0, driver.task("a"), driver.task("b", partition=1))
    assert sink.visible() == ["a", "b"]


def test_of_a_batch_with_a_bad_row_nothing_is_seen(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "exact-bad-row")
    driver = sink.driver(None, **{"kafka.max.request.size": "1000"})
    fine = driver.task("a", is_stream=False)
    with pytest.raises(RowError, match="row 1 of the task"):
        driver.task("b", "x" * 2000, partition=1, is_stream=False)
    driver.abort_job(fine, None)
    assert sink.visible() == []


def test_a_refused_row_is_a_dead_letter_of_the_same_transaction(
    broker: Broker, where: Where
) -> None:
    sink = Sink(broker, where, "exact-dead")
    broker.create("exact-dead-letters")
    options = {"kafka.max.request.size": "1000", "dead_letters": "exact-dead-letters"}
    driver = sink.driver("run-1", **options)
    aborted = driver.task("a", "x" * 2_000)
    driver.abort(0, aborted)
    again = sink.driver("run-2", **options)
    again.commit(0, again.task("a", "y" * 2_000), again.task("b", partition=1))
    assert sink.visible() == ["a", "b"]
    with Consumer(
        broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition("exact-dead-letters", 0)])
        (letter,) = consumer.poll(10_000)
    assert letter.value is None, "it is larger than what the sink may send"
    told = letter_of(letter.headers)
    assert (told.topic, told.exception) == ("exact-dead", "minikafka.spark.rows.RowError")
    assert "2000 bytes" in told.message


def test_a_numbered_batch_counts_once(broker: Broker, where: Where) -> None:
    sink = Sink(broker, where, "exact-numbered")
    for value in ("a", "again"):
        job = sink.driver(None, batchId="7")
        job.commit_job(job.task(value, is_stream=False))
    assert sink.visible() == ["a"]
