"""Schedule: each tick once, over restarts, missed ones, and changes of clocks."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from minikafka.connect.api import ConnectError
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.schedule import (
    SCHEMA,
    Schedule,
    ScheduleTask,
    tick_after,
)
from minikafka.connect.data import STRING
from minikafka.connect.records import Header, SourceRecord
from minikafka.protocol.delays import DELIVER_AT

from .support import FakeOffsets, started

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class TaskAt(ScheduleTask):
    """A task with a clock of its own."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


def task_at(at: datetime, offsets: FakeOffsets | None = None, **props: str) -> TaskAt:
    keys = {name.replace("_", "."): value for name, value in props.items()}
    return started(
        TaskAt(at), {"name": "hourly", "cron": "* * * * *", "topic": "t", **keys}, offsets
    )


def ticks(records: Any) -> list[str]:
    found: list[SourceRecord] = list(records or [])
    return [
        datetime.fromtimestamp(each.source_offset["tick_ms"] / 1000, UTC).strftime("%H:%M")
        for each in found
    ]


def test_a_record_comes_at_each_tick() -> None:
    task = task_at(NOON, timezone="Europe/Berlin")
    assert task.poll() is None
    task.at = NOON + MINUTE
    (record,) = task.poll() or []
    at_ms = round((NOON + MINUTE).timestamp() * 1000)
    assert record == SourceRecord(
        topic="t",
        value={"schedule": "hourly", "tick_ms": at_ms, "local": "2026-07-01T14:01:00+02:00"},
        value_schema=SCHEMA,
        timestamp_ms=at_ms,
        source_partition={"schedule": "hourly"},
        source_offset={"tick_ms": at_ms},
    )
    assert task.poll() is None


def test_key_and_value_may_be_given() -> None:
    task = task_at(NOON, key="k", value="v")
    task.at = NOON + MINUTE
    (record,) = task.poll() or []
    assert (record.key, record.value, record.key_schema, record.value_schema) == (
        "k",
        "v",
        STRING,
        STRING,
    )


@pytest.mark.parametrize("killed_after", range(1, 6))
def test_x_35_a_killed_task_goes_on_behind_what_was_committed(killed_after: int) -> None:
    offsets, seen = FakeOffsets(), []
    task = task_at(NOON, offsets, catch_up="all")
    for minute in range(1, killed_after + 1):
        task.at = NOON + minute * MINUTE
        records = task.poll() or []
        seen += ticks(records)
        offsets.commit(records)
    task.at += MINUTE
    task.poll()  # lost with the task
    again = task_at(NOON + 8 * MINUTE, offsets, catch_up="all")
    assert seen + ticks(again.poll()) == [f"12:0{minute}" for minute in range(1, 9)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("all", [f"12:0{minute}" for minute in range(1, 8)]),
        ("last", ["12:05", "12:06", "12:07"]),
        ("none", ["12:05", "12:06", "12:07"]),
    ],
)
def test_missed_ticks_are_caught_up_with_as_the_policy_says(
    policy: str, expected: list[str]
) -> None:
    task = task_at(NOON, catch_up=policy, late_ms="120000")
    task.at = NOON + 7 * MINUTE
    assert ticks(task.poll()) == expected


@pytest.mark.parametrize(("policy", "expected"), [("last", ["14:00"]), ("none", [])])
def test_of_rare_ticks_the_last_one_that_was_missed_comes_or_none(
    policy: str, expected: list[str]
) -> None:
    task = task_at(NOON, cron="0 * * * *", catch_up=policy)
    task.at = NOON + timedelta(hours=2, minutes=30)
    assert ticks(task.poll()) == expected
    task.at = NOON + timedelta(hours=3)
    assert ticks(task.poll()) == ["15:00"]


def test_a_first_start_may_begin_in_the_past() -> None:
    task = task_at(NOON, start_time="2026-07-01T11:58", catch_up="all")
    assert ticks(task.poll()) == ["11:58", "11:59", "12:00"]


def test_many_missed_ticks_come_in_batches() -> None:
    task = task_at(NOON, start_time="2026-07-01T11:56Z", catch_up="all", batch_size="2")
    assert [ticks(task.poll()) for _ in range(4)] == [
        ["11:56", "11:57"],
        ["11:58", "11:59"],
        ["12:00"],
        [],
    ]


def test_a_delay_topic_gets_its_records_before_their_time() -> None:
    task = task_at(NOON, delay_ahead_ms="120000")
    records = task.poll() or []
    assert ticks(records) == ["12:01", "12:02"]
    at_ms = round((NOON + MINUTE).timestamp() * 1000)
    assert records[0].headers == (Header(DELIVER_AT, str(at_ms), STRING),)
    assert records[0].timestamp_ms is None


def test_seconds_may_stand_in_front() -> None:
    task = task_at(NOON, cron="*/20 * * * * *")
    task.at = NOON + MINUTE
    assert len(task.poll() or []) == 3


@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "30 1 * * *", "*/30 * * * *", "30 1-3 * * *", "30 2,3 * * *"]
)
@pytest.mark.parametrize(
    "day", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)]
)
def test_where_clocks_change_ticks_grow_and_no_day_is_left_out(cron: str, day: datetime) -> None:
    berlin, moment = ZoneInfo("Europe/Berlin"), day - timedelta(days=2)
    found: list[datetime] = []
    while moment < day + timedelta(days=2):
        moment = tick_after(cron, berlin, moment).astimezone(UTC)
        found.append(moment.astimezone(berlin))
    moments = [tick.astimezone(UTC) for tick in found]
    assert moments == sorted(dict.fromkeys(moments))
    days = [(day + timedelta(days=off)).date() for off in (-1, 0, 1)]
    assert all(each in [tick.date() for tick in found] for each in days)
    if cron in ("30 2 * * *", "30 1 * * *"):
        assert [tick.date() for tick in found if tick.date() in days] == days


@pytest.mark.parametrize(
    ("props", "wrong"),
    [
        ({"cron": "* * *"}, "cron: Wrong number of fields; write minute, hour"),
        ({"cron": "61 * * * *"}, "cron: Bad minute"),
        ({"cron": "0 0 30 2 *"}, "cron: Bad day-of-month"),
        ({"cron": "* * */20 * 1L"}, "cron: no time matches in the 50 years after"),
        ({"timezone": "Mars/Olympus"}, "must be a name of the time zone database"),
        ({"timezone": "../etc"}, "must be a name of the time zone database"),
        ({"start.time": "noon"}, "must be a time in ISO 8601"),
        ({"catch.up": "some"}, "must be one of last, all, none"),
    ],
)
def test_what_cannot_work_is_refused(props: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadConfig, match=wrong):
        Schedule.config.parse({"cron": "* * * * *", "topic": "t", **props})


def test_offsets_that_are_no_times_are_refused() -> None:
    alter = Schedule().alter_offsets
    assert alter({}, {(): {"tick_ms": 7}, ((),): None})
    with pytest.raises(ConnectError, match="an offset is"):
        alter({}, {(): {"tick": 7}})
