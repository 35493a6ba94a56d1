import json

import pytest

from minikafka.client.admin.delayed_types import DelayedRecord, ForwardingStatus, ForwardingTarget
from minikafka.client.cli.delay import list_lines, show_lines, shown, stats_lines, time_ms
from minikafka.client.consumer.delayed_records import ShownRecord
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.list_delayed import State
from minikafka.protocol.records.batch_header import TimestampType
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from .conftest import Run

T0 = TopicPartition("later", 0)
NOON = 1_790_510_400_000


def test_times_are_iso_in_utc_or_numbers() -> None:
    assert shown(NOON) == "2026-09-27T12:00:00.000Z"
    assert shown(None) == "-"
    assert shown(1 << 60) == str(1 << 60)
    assert time_ms("2026-09-27T12:00:00.000", "--at") == NOON
    assert time_ms(str(NOON), "--at") == NOON
    assert time_ms(None, "--at") is None
    with pytest.raises(ConfigError, match="--at"):
        time_ms("tomorrow", "--at")


def test_the_list_is_a_table_or_lines_of_json() -> None:
    found = [DelayedRecord(NOON, T0, 7)]
    head, row = list_lines(found, is_json=False)
    assert head.split() == ["Due", "Partition", "Offset"]
    assert row.split() == ["2026-09-27T12:00:00.000Z", "0", "7"]
    (line,) = list_lines(found, is_json=True)
    assert json.loads(line) == {
        "partition": 0,
        "offset": 7,
        "due_ms": NOON,
        "due": "2026-09-27T12:00:00.000Z",
    }


def test_stats_name_the_targets_that_take_nothing() -> None:
    targets = [
        ForwardingTarget("ab", 1, 5, ErrorCode.NOT_ENOUGH_REPLICAS),
        ForwardingTarget("ab", 2, 1, ErrorCode.NONE),
    ]
    found = {T0: ForwardingStatus(3, 6, NOON, 10, 1, 2, 4, targets)}
    _, row, held = stats_lines(found, is_json=False)
    assert row.split() == ["0", "3", "6", "2026-09-27T12:00:00.000Z", "10", "1", "2", "4"]
    assert held == "later-0: 5 records wait for partition 1 of topic ab: NOT_ENOUGH_REPLICAS"
    told = json.loads(stats_lines(found, is_json=True)[0])
    assert (told["partition"], told["pending"]) == (0, 3)
    assert told["targets"][0]["error"] == "NOT_ENOUGH_REPLICAS"


def test_a_time_that_is_none_is_refused_before_anything_is_asked(run: Run) -> None:
    code, _, err = run(
        "delay", "reschedule", "later", "0", "5", "--at", "soon", "--bootstrap-server", "h:1"
    )
    assert code == 2
    assert "--at" in err


def test_what_is_forwarded_again_must_be_said(run: Run) -> None:
    code, _, err = run("forward", "refire", "later", "0", "--bootstrap-server", "h:1")
    assert code == 2
    assert "--since" in err


def test_a_record_is_shown_with_its_state_target_and_headers() -> None:
    headers = [("minikafka-delay-ms", b"5"), ("raw", b"\xff"), ("none", None)]
    record = ConsumerRecord(
        topic="later",
        partition=0,
        offset=7,
        timestamp_ms=NOON - 5,
        timestamp_type=TimestampType.CREATE_TIME,
        key=b"k",
        value=b"12345",
        headers=headers,
    )
    found = ShownRecord(record, State.WAITS, NOON, ("now", "audit"))
    assert show_lines(found, is_json=False) == [
        "later-0@7",
        "  State   waits",
        "  Due     2026-09-27T12:00:00.000Z",
        "  Target  now, audit",
        "  Key     k",
        "  Value   5 bytes",
        "  Header  minikafka-delay-ms: 5",
        "  Header  raw: \\xff",
        "  Header  none: None",
    ]
    (line,) = show_lines(found, is_json=True)
    told = json.loads(line)
    assert (told["state"], told["due_ms"], told["key"]) == ("waits", NOON, "k")
    assert told["headers"][0] == ["minikafka-delay-ms", "5"]
