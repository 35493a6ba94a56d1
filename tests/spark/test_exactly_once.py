"""Each row once, whatever fails: tasks and the driver against a coordinator in memory."""

import logging
from typing import Any

import pytest

from minikafka.client.errors import AdminError, RequestTimedOut
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.spark import sink_clients
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.exactly_once import Prepared, Task
from minikafka.spark.ledger import Ledger
from minikafka.spark.rows import RowError
from minikafka.spark.sink_clients import ExactlyOnceError
from tests.spark.drivers import SCHEMA, Driver, Where, driver, where
from tests.spark.fake_groups import FakeGroups, FakeTransactional, groups

__all__ = ["driver", "groups", "where"]


# -- a streaming query


def test_nothing_is_visible_before_the_commit_and_everything_after(
    groups: FakeGroups, driver: Driver
) -> None:
    messages = [driver.task("a", "b"), driver.task("c", partition=1)]
    assert groups.committed == []
    assert [one.records for one in messages] == [2, 1]
    assert [one.transaction and one.transaction.transactional_id for one in messages] == [
        "spark-query/0/0.0",
        "spark-query/1/0.0",
    ]
    driver.commit(0, *messages)
    assert groups.committed == ["a", "b", "c"]
    assert groups.groups["spark-query"].batch_id == 0


def test_batches_use_the_same_ids_and_producers(groups: FakeGroups, driver: Driver) -> None:
    for batch in range(3):
        messages = [driver.task(f"{batch}-{p}", partition=p) for p in (0, 1)]
        driver.commit(batch, *messages)
    assert groups.committed == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert len(groups.ids) == len(groups.producers) == 2
    assert groups.inits == 1, "a worker asks for its generation once in a run"


def test_of_two_attempts_that_finish_one_counts(groups: FakeGroups, driver: Driver) -> None:
    driver.task("a")
    winner = driver.task("a", attempt=1)
    driver.commit(0, winner)
    assert groups.committed == ["a"]
    assert groups.held_back == []


def test_attempts_of_one_task_do_not_fence_each_other(groups: FakeGroups, driver: Driver) -> None:
    """Spark may let the attempt win that began first: the other must not have taken its name."""
    winner = driver.task("a")
    loser = driver.task("a", attempt=1)
    assert winner.transaction is not None
    assert loser.transaction is not None
    assert winner.transaction.transactional_id != loser.transaction.transactional_id
    driver.commit(0, winner)
    assert groups.committed == ["a"]


def test_the_same_attempt_number_again_fences_the_first(groups: FakeGroups, driver: Driver) -> None:
    first, second = driver.task("a"), driver.task("a")
    with pytest.raises(ExactlyOnceError, match=r"batch 0 of spark-query .* ended before"):
        driver.commit(0, first)
    assert groups.committed == []
    driver.commit(0, second)
    assert groups.committed == ["a"]


def test_a_task_that_fails_aborts_at_once(groups: FakeGroups, driver: Driver) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        driver.task("a", "b", fails=True)
    assert groups.held_back == []
    driver.commit(0, driver.task("a", "b", "c", attempt=1))
    assert groups.committed == ["a", "b", "c"]


def test_a_bad_row_is_named_and_nothing_of_the_batch_is_seen(
    groups: FakeGroups, driver: Driver
) -> None:
    fine = driver.task("a", partition=1)
    with pytest.raises(RowError, match="row 1 of the task"):
        driver.task("b", None)
    driver.abort(0, None, fine)
    assert groups.committed == []
    assert groups.held_back == []


def test_a_batch_again_after_a_restart_is_not_written_twice(
    groups: FakeGroups, where: Where
) -> None:
    before = Driver(where)
    before.commit(0, before.task("a"))
    after = Driver(where, "run-2")  # killed before Spark took note of the commit
    after.commit(0, after.task("a"))
    after.commit(1, after.task("b"))
    assert groups.committed == ["a", "b"]
    assert groups.held_back == []


def test_a_checkpoint_that_was_rolled_back_does_not_lose_what_is_new(
    groups: FakeGroups, where: Where
) -> None:
    before = Driver(where)
    for batch in range(3):
        before.commit(batch, before.task(str(batch)))
    rolled_back = Driver(where, "run-2")
    again = rolled_back.task("new")
    with pytest.raises(ExactlyOnceError, match=r"batch 1 of spark-query .* rolled back .* sinkId"):
        rolled_back.commit(1, again)
    rolled_back.abort(1, again)
    assert groups.committed == ["0", "1", "2"]
    assert groups.held_back == []
    other = Driver(where, "run-3", sinkId="another")
    other.commit(1, other.task("new"))
    assert groups.committed == ["0", "1", "2", "new"]


def test_what_a_killed_driver_left_is_aborted(groups: FakeGroups, where: Where) -> None:
    before = Driver(where)
    before.task("a", attempt=3)
    after = Driver(where, "run-2")
    after.commit(0, after.task("a"))
    assert groups.committed == ["a"]
    assert groups.held_back == []


def test_a_commit_whose_answer_is_lost_is_not_undone_by_abort(
    groups: FakeGroups, where: Where
) -> None:
    before = Driver(where)
    prepared = before.task("a")
    groups.lost_answers.append(RequestTimedOut("no answer"))
    with pytest.raises(RequestTimedOut):
        before.commit(0, prepared)
    before.abort(0, prepared, None)
    assert groups.committed == ["a"]
    after = Driver(where, "run-2")
    after.commit(0, after.task("a"))
    assert groups.committed == ["a"]


def test_an_outage_longer_than_the_timeout_loses_the_attempt_not_the_batch(
    groups: FakeGroups, driver: Driver, where: Where
) -> None:
    prepared = [driver.task("a"), driver.task("b", partition=1)]
    groups.expire()
    with pytest.raises(ExactlyOnceError, match=r"kafka\.transaction\.timeout\.ms"):
        driver.commit(0, *prepared)
    driver.abort(0, *prepared)
    after = Driver(where, "run-2")
    after.commit(0, after.task("a"), after.task("b", partition=1))
    assert groups.committed == ["a", "b"]


def test_a_zombie_is_fenced(groups: FakeGroups, where: Where) -> None:
    zombie = Driver(where)
    zombie.commit(0, zombie.task("a"))
    prepared = zombie.task("zombie", attempt=1)
    new = Driver(where, "run-2")
    news = new.task("b")
    with pytest.raises(ExactlyOnceError, match=r"a newer run .* has taken over"):
        zombie.commit(1, prepared)
    zombie.abort(1, prepared)
    new.commit(1, news)
    assert groups.committed == ["a", "b"]
    sink_clients._all.kept.clear()  # another worker
    with pytest.raises(ExactlyOnceError, match="spark-query, run run-1: a newer run"):
        zombie.task("c")


def test_a_task_of_a_fenced_run_does_not_harm_the_newer_one(
    groups: FakeGroups, where: Where
) -> None:
    zombie = Driver(where)
    zombie.commit(0, zombie.task("a"))
    new = Driver(where, "run-2")
    news = new.task("b")
    zombie.task("zombie")
    assert news.transaction is not None
    assert news.transaction.transactional_id == "spark-query/0/1.0"
    new.commit(1, news)
    assert groups.committed == ["a", "b"]
    assert groups.held_back == []


def test_a_group_that_was_forgotten_is_told_from_one_that_was_taken_over(
    groups: FakeGroups, driver: Driver
) -> None:
    prepared = driver.task("a")
    groups.groups.clear()
    with pytest.raises(ExactlyOnceError, match="forgotten the sink's name: start the query again"):
        driver.commit(0, prepared)


def test_a_task_without_rows_begins_nothing_and_the_batch_is_recorded(
    groups: FakeGroups, driver: Driver
) -> None:
    empty = driver.task()
    assert empty.transaction is None
    assert groups.producers == []
    driver.commit(4, empty)
    assert groups.groups["spark-query"].batch_id == 4
    driver.commit(5)


def test_messages_of_several_runs_are_not_committed_together(
    groups: FakeGroups, where: Where
) -> None:
    first = Driver(where).task("a")
    second = Driver(where, "run-2").task("b", partition=1)
    with pytest.raises(ExactlyOnceError, match="several runs"):
        Driver(where).commit(0, first, second)
    assert groups.committed == []


def test_sink_id_is_a_part_of_the_name(groups: FakeGroups, where: Where) -> None:
    driver = Driver(where, sinkId="billing")
    driver.commit(0, driver.task("a"))
    assert list(groups.groups) == ["billing-query"]


def test_a_query_whose_id_is_not_told_is_refused(groups: FakeGroups, where: Where) -> None:
    with pytest.raises(ExactlyOnceError, match="delivery=at_least_once"):
        Driver(where, None).task("a")


def test_a_query_whose_run_is_not_told_is_refused(groups: FakeGroups, where: Where) -> None:
    where.task = Task(0, 0, "query", None)
    options = {"kafka.bootstrap.servers": "fake:9092", "topic": "t", "delivery": "exactly_once"}
    writer = MinikafkaDataSource(options).streamWriter(SCHEMA, False)
    with pytest.raises(ExactlyOnceError, match=r"query's run .* delivery=at_least_once"):
        writer.write(iter([]))
    assert groups.inits == 0


def test_outside_of_a_task_there_is_nothing_to_write() -> None:
    with pytest.raises(ExactlyOnceError, match="this is none"):
        Task.current()


# -- batch jobs


def test_a_job_is_all_or_nothing_and_has_a_name_of_its_own(
    groups: FakeGroups, where: Where
) -> None:
    first, second = Driver(where, None), Driver(where, None)
    first.commit_job(first.task("a", is_stream=False))
    failed = second.task("b", is_stream=False)
    second.abort_job(failed, None)
    assert groups.committed == ["a"]
    assert groups.held_back == []
    assert len(groups.groups) == 2
    assert all(name.startswith("spark-") for name in groups.groups)


def test_a_numbered_batch_counts_once(groups: FakeGroups, where: Where) -> None:
    def write(batch: str, value: str, run: str | None) -> Prepared:
        job = Driver(where, run, sinkId="ledger", batchId=batch)
        prepared = job.task(value, is_stream=False)
        job.commit_job(prepared)
        return prepared

    write("3", "a", "run-1")
    again = write("3", "a", "run-2")
    assert again.transaction is None, "known to be recorded: nothing is written"
    write("4", "b", None)
    assert groups.committed == ["a", "b"]
    assert list(groups.groups) == ["ledger"]


def test_an_older_number_of_a_batch_is_an_error_before_anything_is_written(
    groups: FakeGroups, where: Where
) -> None:
    newest = Driver(where, None, sinkId="ledger", batchId="4")
    newest.commit_job(newest.task("a", is_stream=False))
    with pytest.raises(ExactlyOnceError, match=r"batch 3 of ledger .* batch 4 of it is recorded"):
        Driver(where, None, sinkId="ledger", batchId="3").task("late", is_stream=False)
    assert groups.held_back == []


def test_only_a_number_that_was_used_before_is_warned_of(
    groups: FakeGroups, where: Where, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "minikafka.spark")
    job = Driver(where, None, sinkId="ledger", batchId="3")
    prepared = job.task("a", is_stream=False)
    job.commit_job(prepared)
    job.commit_job(prepared)  # as a client that has lost the answer
    again = Driver(where, None, sinkId="ledger", batchId="3")
    again.commit_job(again.task("a", is_stream=False))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", "batch 3 of ledger is recorded already"),
        ("WARNING", "batch 3 of ledger was committed before: not written again"),
    ]


def test_a_job_that_is_overtaken_by_later_numbers_is_told(groups: FakeGroups, where: Where) -> None:
    late = Driver(where, "run-1", sinkId="ledger", batchId="3")
    prepared = late.task("late", is_stream=False)
    groups.groups["ledger"].batch_id = 4
    with pytest.raises(ExactlyOnceError, match="batch 3 of ledger is not committed"):
        late.commit_job(prepared)
    assert groups.committed == groups.held_back == []


# -- clusters and clients


def test_what_an_admin_could_not_do_is_told_with_the_batch(
    groups: FakeGroups, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.lacks_commit_groups = True
    refusal = AdminError({"a-topic": ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)})

    def refuse(*args: Any) -> bool:
        raise refusal

    monkeypatch.setattr(Ledger, "settled", lambda *args: -1)
    monkeypatch.setattr(Ledger, "commit", refuse)
    driver = Driver(where, exactlyOnceFallback="ledger")
    prepared = driver.task("a")
    with pytest.raises(ExactlyOnceError, match=r"batch 7 of spark-query is not .* a-topic: TOPIC"):
        driver.commit(7, prepared)
    monkeypatch.setattr(Ledger, "settled", refuse)
    with pytest.raises(ExactlyOnceError, match="spark-query, run run-2: a-topic: TOPIC"):
        Driver(where, "run-2", exactlyOnceFallback="ledger").task("a")


def test_a_cluster_without_commit_groups_is_refused_with_the_ways_out(
    groups: FakeGroups, where: Where
) -> None:
    groups.lacks_commit_groups = True
    with pytest.raises(ExactlyOnceError, match=r"fake:9092 cannot commit .* exactlyOnceFallback"):
        Driver(where).task("a")


def test_a_producer_that_was_fenced_is_replaced(groups: FakeGroups, driver: Driver) -> None:
    driver.commit(0, driver.task("a"))
    (mine,) = groups.producers
    mine.is_handed_over = False
    groups.init(mine.name)
    driver.commit(1, driver.task("b"))
    assert groups.committed == ["a", "b"]
    assert [one.is_closed for one in groups.producers] == [True, False]


def test_producers_are_bounded(
    groups: FakeGroups, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_clients, "MOST_PRODUCERS", 2)
    driver = Driver(where)
    messages = [driver.task(str(p), partition=p) for p in range(4)]
    assert [one.is_closed for one in groups.producers] == [True, True, False, False]
    driver.commit(0, *messages)
    assert groups.committed == ["0", "1", "2", "3"]


@pytest.mark.parametrize("again", [False, True])
def test_a_producer_that_cannot_begin_is_closed(
    groups: FakeGroups, where: Where, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    def unreachable(self: FakeTransactional) -> None:
        raise RequestTimedOut("nobody")

    driver = Driver(where)
    if again:
        driver.commit(0, driver.task("a"))
    monkeypatch.setattr(FakeTransactional, "begin_transaction", unreachable)
    for _ in range(2):
        with pytest.raises(RequestTimedOut):
            driver.task("b")
    assert [one.is_closed for one in groups.producers] == [True, True]


@pytest.mark.parametrize(
    ("run", "options", "kept"),
    [
        (None, {}, 0),
        ("run-1", {}, 0),
        (None, {"sinkId": "s", "batchId": "1"}, 0),
        ("run-1", {"sinkId": "s", "batchId": "1"}, 2),
    ],
)
def test_producers_of_a_job_are_kept_only_where_their_names_return(
    groups: FakeGroups, where: Where, run: str | None, options: dict[str, str], kept: int
) -> None:
    job = Driver(where, run, **options)
    messages = [job.task("a", partition=p, is_stream=False) for p in (0, 1)]
    assert [one.is_closed for one in groups.producers] == [not kept] * 2
    job.commit_job(*messages)
    assert groups.committed == ["a", "a"]


def test_transactions_may_last_as_long_as_clusters_allow(
    groups: FakeGroups, driver: Driver, where: Where
) -> None:
    driver.task("a")
    Driver(where, **{"kafka.transaction.timeout.ms": "1000"}).task("a", partition=1)
    found = [one.settings["transaction.timeout.ms"] for one in groups.producers]
    assert found == ["900000", "1000"]


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("slow", "aborted"), [((), 9), ((3,), 8), ((0, 1), 7), (tuple(range(9)), 0)]
)
def test_aborting_goes_on_after_one_that_nobody_answers_about_until_time_is_over(
    groups: FakeGroups,
    driver: Driver,
    monkeypatch: pytest.MonkeyPatch,
    slow: tuple[int, ...],
    aborted: int,
) -> None:
    messages = [driver.task("a", partition=p) for p in range(9)]
    clock = Clock()
    end = groups.end_prepared

    def answer(transaction: Any, *, commit: bool, timeout_ms: int) -> None:
        if int(transaction.transactional_id.split("/")[1]) in slow:
            clock.seconds += timeout_ms / 1000
            raise RequestTimedOut("nobody")
        end(transaction, commit=commit)

    monkeypatch.setattr(sink_clients, "time", clock)
    monkeypatch.setattr(groups, "end_prepared", answer)
    driver.abort(0, *messages)
    assert len(groups.held_back) == 9 - aborted
    assert clock.seconds - 100 <= sink_clients.ABORT_MS / 1000 <= 10
