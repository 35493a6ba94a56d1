"""Examples hold, and say so only when they do; their checks see what is planted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql.streaming.state import GroupState

from minikafka import ConsumerRecord, ProducerRecord
from minikafka.protocol.records.record_batch import TimestampType
from minikafka.spark.examples import __main__ as every
from minikafka.spark.examples import dead_letters, enrichment, faults, harness, sessions
from minikafka.spark.examples.harness import Run
from minikafka.spark.java import OLDEST, java_version
from tests.spark.conftest import Broker

ALL_WITHIN_S = 540

# -- the harness


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(MagicMock(), "nowhere:9092", tmp_path)


def test_what_is_the_same_in_any_order_holds(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.same("all there", [2, 1, 1], [1, 1, 2])
    assert (run.problems, run.checks) == ([], 1)
    assert capsys.readouterr().out == "verified: all there (3)\n"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([1, 2], "1 missing [2], 0 too many []"),
        ([1, 2, 2, 2], "0 missing [], 1 too many [2]"),
        ([1, 2, 3], "1 missing [2], 1 too many [3]"),
        ([], "3 missing [1], 0 too many []"),
    ],
)
def test_what_is_missing_or_too_many_is_seen(
    run: Run, capsys: pytest.CaptureFixture[str], found: list[int], told: str
) -> None:
    run.same("all there", found, [1, 2, 2])
    assert run.problems == ["all there (3)"]
    assert capsys.readouterr().err == f"NOT VERIFIED: all there (3): {told}\n"


@pytest.mark.parametrize(
    ("verify", "code", "said"),
    [
        (lambda run: run.holds("it", True), 0, "everything verified"),
        (lambda run: run.holds("it", False), 1, "failed"),
        (lambda run: None, 1, "failed"),
    ],
)
def test_the_exit_code_says_whether_all_held(
    monkeypatch: pytest.MonkeyPatch, verify: Callable[[Run], None], code: int, said: str
) -> None:
    monkeypatch.setattr(harness, "LocalCluster", MagicMock())
    monkeypatch.setattr(harness, "session", MagicMock())
    ended = CliRunner().invoke(harness.command("planted", verify), [])
    assert ended.exit_code == code
    assert said in ended.output.splitlines()[-1]


def test_a_given_cluster_is_used_and_left_without_our_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, admin = MagicMock(), MagicMock()
    monkeypatch.setattr(harness, "LocalCluster", made)
    monkeypatch.setattr(harness, "Admin", admin)
    monkeypatch.setattr(harness, "session", MagicMock())
    topics: list[str] = []

    def verify(run: Run) -> None:
        topics.append(run.topic("orders"))
        run.holds("no broker of theirs is ours to kill", run.cluster is None)

    ended = CliRunner().invoke(harness.command("planted", verify), ["--bootstrap", "there:1"])
    assert ended.exit_code == 0
    assert not made.called
    admin.assert_called_with("there:1")
    admin.return_value.__enter__.return_value.delete_topics.assert_called_once_with(topics)


# -- enrichment


class Planted(Run):
    """A run without a cluster; its target topic holds what a test planted."""

    planted: tuple[list[Any], list[Any]]
    """Committed records, and all that were written."""

    def topic(self, name: str, partitions: int = 2, **configs: str) -> str:
        return name

    def send(self, topic: str, records: Any) -> None:
        pass

    def records(self, topic: str, *, committed: bool = True) -> list[Any]:
        return self.planted[0 if committed else 1]


ORDERS = [
    ConsumerRecord("t", 0, n, 0, TimestampType.CREATE_TIME, None, json.dumps(order).encode())
    for n, order in enumerate(map(enrichment.expected, range(120)))
]


@pytest.mark.parametrize(
    ("committed", "aborted", "task_failed", "problem"),
    [
        (ORDERS, 5, True, None),
        ([*ORDERS, ORDERS[7]], 5, True, "each order"),
        (ORDERS[1:], 5, True, "each order"),
        (ORDERS, 0, True, "a task failed; 0 records"),
        (ORDERS, 5, False, "a task failed; 5 records"),
    ],
)
def test_enrichment_sees_a_lost_a_doubled_order_and_a_failure_that_was_none(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    committed: list[Any],
    aborted: int,
    task_failed: bool,
    problem: str | None,
) -> None:
    def fail_once(frame: object, marker: Path, *where: str) -> None:
        if task_failed:
            marker.touch()

    monkeypatch.setattr(enrichment, "ORDERS", len(ORDERS))
    monkeypatch.setattr(enrichment, "fail_once", fail_once)
    for name in ("enrich", "write", "finish"):
        monkeypatch.setattr(enrichment, name, MagicMock())
    run = Planted(MagicMock(), "nowhere:9092", tmp_path)
    run.planted = committed, committed + ORDERS[:aborted]
    enrichment.verify(run)
    assert [each.startswith(problem or "") for each in run.problems] == [True] * bool(problem)


def test_a_task_fails_once_after_all_its_rows_and_once_they_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends = iter([{"t-0": 0, "t-1": 5}, {"t-0": 1, "t-1": 5}])
    asked: list[dict[str, int]] = []

    def list_offsets(partitions: object) -> dict[str, Any]:
        asked.append(next(ends))
        return {name: MagicMock(offset=end) for name, end in asked[-1].items()}

    admin = MagicMock()
    admin.return_value.__enter__.return_value.list_offsets = list_offsets
    monkeypatch.setattr(faults, "Admin", admin)
    frame = MagicMock()
    faults.fail_once(frame, tmp_path / "marker", "there:1", "t")
    fail = frame.mapInArrow.call_args.args[0]
    batches = [pa.RecordBatch.from_pydict({"n": list(range(n))}) for n in (1200, 0, 300)]

    assert [*fail(iter(batches[1:2]))] == []
    assert not (tmp_path / "marker").exists()
    given = fail(iter(batches))
    assert sum(next(given).num_rows for _ in range(4)) == 1500
    with pytest.raises(RuntimeError, match="told to fail once"):
        next(given)
    assert len(asked) == 2
    assert sum(batch.num_rows for batch in fail(iter(batches))) == 1500


# -- deadlines


def test_a_query_that_does_not_end_is_stopped() -> None:
    query = MagicMock()
    query.awaitTermination.return_value = False
    with pytest.raises(TimeoutError, match="did not end in 600 s"):
        harness.finish(query)
    query.stop.assert_called_once_with()


def test_a_query_without_a_micro_batch_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faults, "FIRST_BATCH_SECONDS", 0.0)
    query = MagicMock(isActive=True, recentProgress=[])
    with pytest.raises(TimeoutError, match="no micro-batch ended"):
        faults.kill_under(query, MagicMock(), "t")
    query.stop.assert_called_once_with()


# -- dead letters


class Sorted(Planted):
    """A run in which what was sent is sorted out as `lose` leaves it."""

    lose: Callable[[Any], Any]

    def send(self, topic: str, records: Any) -> None:
        self.sent = [
            ConsumerRecord("orders", 0, n, 0, TimestampType.CREATE_TIME, r.key, r.value, r.headers)
            for n, r in enumerate(records)
        ]

    def records(self, topic: str, *, committed: bool = True) -> list[Any]:
        if topic == "orders":
            return self.sent
        broken = dead_letters.BROKEN
        if topic == "good":
            return [self.lose(each) for each in self.sent if each.value not in broken]
        dead = [self.lose(each) for each in self.sent if each.value in broken]
        return [
            each._replace(
                headers=[
                    *each.headers,
                    ("dead-letter.reason", broken[each.value]),
                    ("dead-letter.source", b"orders/0/%d" % each.offset),
                ]
            )
            for each in dead
        ]


@pytest.mark.parametrize(
    ("lose", "problems"),
    [
        (lambda record: record, 0),
        (lambda record: record._replace(headers=[]), 1),
        (lambda record: record._replace(headers=record.headers[:1]), 1),
    ],
)
def test_dead_letters_sees_lost_headers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lose: Callable[[Any], Any], problems: int
) -> None:
    monkeypatch.setattr(dead_letters, "start", MagicMock())
    run = Sorted(MagicMock(), "nowhere:9092", tmp_path)
    run.lose = lose
    dead_letters.verify(run)
    assert [each.startswith("each record kept") for each in run.problems] == [True] * problems


# -- sessions


class State:
    """One user's state, as Spark gives it to the function."""

    def __init__(self) -> None:
        self.get: tuple[str] = ("",)
        self.exists = False
        self.watermark_ms = -1
        self.timeout_ms = 0

    def update(self, value: tuple[str]) -> None:
        self.get, self.exists = value, True

    def remove(self) -> None:
        self.exists = False

    def getCurrentWatermarkMs(self) -> int:
        return self.watermark_ms

    def setTimeoutTimestamp(self, at_ms: int) -> None:
        assert at_ms > self.watermark_ms
        self.timeout_ms = at_ms


def closed(state: State, *minutes: int, watermark: int = -1) -> list[tuple[int, str]]:
    """Let clicks arrive, on the page of their minute; sessions by first minute and path."""
    state.watermark_ms = watermark * 60_000
    times = pd.to_datetime([each * 60_000 for each in minutes], unit="ms").astype("datetime64[us]")
    frames = [pd.DataFrame({"at": times, "page": [str(m) for m in minutes]})] if minutes else []
    found = sessions.close_sessions(("ada",), frames, cast(GroupState, state))
    return [
        (row.began.value // 60_000_000_000, row.path)
        for frame in found
        for row in cast(Any, frame.itertuples())
    ]


def test_a_session_is_over_when_the_watermark_says_so() -> None:
    state = State()
    assert closed(state, 0, 20) == []
    assert state.timeout_ms == 50 * 60_000
    assert closed(state, watermark=49) == []
    assert closed(state, watermark=50) == [(0, "0 > 20")]
    assert not state.exists


def test_a_late_click_joins_two_sessions() -> None:
    state = State()
    assert closed(state, 50, 0) == []
    assert state.timeout_ms == 30 * 60_000
    assert closed(state, 25, watermark=20) == []
    assert closed(state, watermark=80) == [(0, "0 > 25 > 50")]


def test_only_what_is_over_comes_out() -> None:
    state = State()
    assert closed(state, 0, 100, 110) == []
    assert closed(state, watermark=60) == [(0, "0")]
    assert [at for at, _ in json.loads(state.get[0])] == [100 * 60_000, 110 * 60_000]


# -- with Spark


@pytest.mark.slow
def test_a_cluster_that_runs_is_left_as_it_was(broker: Broker, tmp_path: Path) -> None:
    """Here without Spark; the examples themselves are below."""
    run = Run(MagicMock(), broker.bootstrap, tmp_path)
    topic = run.topic("good")
    run.send(topic, [ProducerRecord(b"%d" % n) for n in range(10)])
    run.same(
        "all there", [record.value for record in run.records(topic)], [b"%d" % n for n in range(10)]
    )
    assert (run.problems, run.checks) == ([], 1)
    assert topic in {each.name for each in broker.admin.list_topics()}
    run.close()
    assert topic not in {each.name for each in broker.admin.list_topics()}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_example_holds(tmp_path: Path) -> None:
    version = java_version()
    if version is None or version < OLDEST:
        pytest.skip(f"Spark needs Java {OLDEST} or newer; found {version or 'none'}")
    with subprocess.Popen(
        [sys.executable, "-m", "minikafka.spark.examples"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as examples:
        try:
            printed, _ = examples.communicate(timeout=ALL_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(examples.pid, signal.SIGKILL)
            raise
    assert examples.returncode == 0, printed
    assert "NOT VERIFIED" not in printed
    begun = [line.split()[1] for line in printed.splitlines() if line.startswith("-- ")]
    assert begun == list(every.EXAMPLES)
