"""The pipeline's own checks see planted losses, and what they see decides the exit code."""

import csv
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from minikafka.spark.examples.flights import __main__ as pipeline
from minikafka.spark.examples.flights import report
from minikafka.spark.examples.flights.chaos import LeaderKill
from minikafka.spark.examples.flights.dataset import Dataset, Delay, prepare
from minikafka.spark.examples.flights.progress import Progress

DELAYS = {("A", "2013-01-01"): Delay(2, 30), ("B", "2013-01-01"): Delay(1, -4)}
DATASET = Dataset(Path(), Path(), row_count=4, undeparted_count=1, delays=DELAYS)
KILL = LeaderKill(
    "flights",
    partition=0,
    killed_broker=1,
    leader_after=2,
    epoch_before=0,
    epoch_after=1,
    batches_before=2,
    batches_after=5,
    acknowledged_before=10,
    acknowledged_after=20,
    restarted=True,
)


def test_every_flight_once_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert pipeline.check_flights(Counter([1, 2, 3, 4]), DATASET) == []
    assert "duplicates: 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([1, 2, 4], "1 flights are lost, the first: row 3"),
        ([], "4 flights are lost, the first: row 1"),
        ([1, 2, 3, 4, 5], "1 records are no flights"),
        ([1, 2, 2, 3, 4, 4], "2 flights are there more than once, such as row 2"),
    ],
)
def test_a_lost_strange_or_doubled_flight_is_seen(rows: list[int], problem: str) -> None:
    (found,) = pipeline.check_flights(Counter(rows), DATASET)
    assert problem in found


def test_equal_delays_are_fine() -> None:
    assert pipeline.check_delays(dict(DELAYS), DATASET) == []


@pytest.mark.parametrize(
    "delays",
    [
        {},
        {**DELAYS, ("A", "2013-01-01"): Delay(2, 31)},
        {**DELAYS, ("C", "2013-01-01"): Delay(1, 1)},
    ],
)
def test_a_differing_aggregate_is_seen(delays: Any) -> None:
    (found,) = pipeline.check_delays(delays, DATASET)
    assert "aggregates differ" in found


def test_each_batchs_result_once_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert pipeline.check_results(5, {0: 2, 1: 3}) == []
    assert "2 micro-batches, 5 records; duplicates: 0" in capsys.readouterr().out


@pytest.mark.parametrize("records", [3, 4, 7, 8, 10])
def test_a_result_that_is_missing_or_doubled_is_seen(records: int) -> None:
    (found,) = pipeline.check_results(records, {0: 2, 1: 3})
    assert f"holds {records} records; 2 micro-batches wrote 5" in found


def test_a_real_kill_is_fine() -> None:
    assert pipeline.check_kill(KILL) == []


@pytest.mark.parametrize(
    "change",
    [
        {"killed_broker": -1},
        {"epoch_after": 0},
        {"leader_after": 1},
        {"batches_before": 0},
        {"batches_after": 0},
        {"acknowledged_before": 0},
        {"acknowledged_after": 0},
        {"restarted": False},
    ],
)
def test_a_kill_that_was_none_is_seen(change: dict[str, Any]) -> None:
    assert len(pipeline.check_kill(replace(KILL, **change))) == 1


def test_a_replica_out_of_sync_is_seen() -> None:
    assert pipeline.check_replicas([]) == []
    assert pipeline.check_replicas(["flights-0"]) == ["flights-0 lacks a replica in sync"]


@pytest.mark.parametrize(("problems", "code"), [([], 0), (["a flight is lost"], 1)])
def test_the_exit_code_says_whether_all_was_verified(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    problems: list[str],
    code: int,
) -> None:
    monkeypatch.setattr(pipeline, "prepare", lambda folder: DATASET)
    for name in ("LocalCluster", "Admin", "LagListener"):
        monkeypatch.setattr(pipeline, name, MagicMock())
    monkeypatch.setattr("minikafka.spark.examples.flights.jobs.session", lambda log: MagicMock())
    monkeypatch.setattr(pipeline.Run, "verify", lambda self, checkpoint, png: problems)
    with pytest.raises(SystemExit) as ended:
        pipeline.main.main([], standalone_mode=False)
    assert ended.value.code == code
    captured = capfd.readouterr()
    assert ("everything verified" in captured.out) == (code == 0)
    assert captured.err == "".join(f"NOT VERIFIED: {problem}\n" for problem in problems)


def test_progress_is_told_only_after_a_silence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("minikafka.spark.examples.flights.progress.time.monotonic", lambda: now)
    progress = Progress()
    progress.tell("began")
    now = 1.0
    progress.tell_if_silent(lambda: "too early")
    now = 9.0
    progress.tell_if_silent(lambda: "going on")
    progress.close()
    assert [line.split("] ")[1] for line in capfd.readouterr().out.splitlines()] == [
        "began",
        "... going on",
    ]


def test_the_table_adds_up_days() -> None:
    delays = {**DELAYS, ("A", "2013-01-02"): Delay(1, 0)}
    assert report.by_airline(delays) == {"A": Delay(3, 30), "B": Delay(1, -4)}
    assert report.table(delays).splitlines()[1].split() == ["A", "3", "10.0"]


@contextmanager
def opened(path: Path) -> Any:
    with path.open(newline="") as lines:
        yield csv.DictReader(lines)


@pytest.mark.slow
def test_the_input_is_numbered_and_complete(tmp_path: Path) -> None:
    dataset = prepare(tmp_path)
    assert (dataset.row_count, dataset.undeparted_count) == (336_776, 8_255)
    assert sum(each.departures for each in dataset.delays.values()) == 336_776 - 8_255
    with opened(dataset.flights_csv) as flights:
        first = next(flights)
        assert (first["row"], first["carrier"], first["dep_delay"]) == ("1", "UA", "2")
        assert [int(each["row"]) for each in flights] == list(range(2, 336_777))


def test_a_job_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipeline, "BATCH_SECONDS", -1.0)
    query = MagicMock(isActive=True, recentProgress=[])
    aggregate = "minikafka.spark.examples.flights.jobs.aggregate_delays"
    monkeypatch.setattr(aggregate, lambda *_: query)
    chaos = MagicMock(kill=KILL)
    run = pipeline.Run(MagicMock(), MagicMock(), MagicMock(), DATASET, MagicMock(), MagicMock())
    with pytest.raises(TimeoutError, match="no micro-batch ended"):
        run.stream(chaos, tmp_path)
    query.stop.assert_called_once_with()
