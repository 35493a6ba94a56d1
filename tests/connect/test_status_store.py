"""The status topic: records as Kafka's workers write them, and who may write."""

import pytest

from minikafka.connect.group_protocol import connector_of
from minikafka.connect.states import State, Status, TaskId
from minikafka.connect.status_store import StatusTable, status_row, topic_row

RUNNING = Status(State.RUNNING, "a:8083", 7)
FAILED = Status(State.FAILED, "b:8083", 6, "Traceback ö")
TRANSCRIPT = [
    (
        b"status-connector-in-one",
        b'{"state":"RUNNING","trace":null,"worker_id":"a:8083","generation":7}',
    ),
    (
        b"status-task-in-one-3",
        '{"state":"FAILED","trace":"Traceback ö","worker_id":"b:8083","generation":6}'.encode(),
    ),
    (
        b"status-topic-orders:connector-in-one",
        b'{"topic":{"name":"orders","connector":"in-one","task":3,"discoverTimestamp":1700}}',
    ),
]


def table() -> StatusTable:
    found = StatusTable()
    for key, value in TRANSCRIPT:
        found.apply(key, value)
    return found


def test_x_01_the_statuses_of_a_kafka_cluster_are_read() -> None:
    assert table().statuses == {connector_of("in-one"): RUNNING, TaskId("in-one", 3): FAILED}
    assert table().topics == {"in-one": {"orders": None}}


def test_x_01_our_statuses_are_those_of_kafka_byte_by_byte() -> None:
    rows = [
        status_row(connector_of("in-one"), RUNNING),
        status_row(TaskId("in-one", 3), FAILED),
        topic_row(TaskId("in-one", 3), "orders", 1700),
    ]
    assert [(row.key, row.value) for row in rows] == TRANSCRIPT


def test_a_tombstone_deletes() -> None:
    found = table()
    for key, _ in TRANSCRIPT:
        found.apply(key, None)
    assert found.statuses == {}
    assert found.topics == {"in-one": {}}
    assert status_row(TaskId("in-one", 3), None).value is None
    assert topic_row(TaskId("in-one", 3), "orders", None).value is None


def test_a_late_failure_of_an_old_generation_is_not_written() -> None:
    found = table()
    item = connector_of("in-one")
    old = Status(State.FAILED, "b:8083", 6)
    assert not found.may_write(item, old)
    assert not found.may_write(item, Status(State.UNASSIGNED, "b:8083", 6))
    assert found.may_write(item, Status(State.FAILED, "b:8083", 7))
    assert found.may_write(item, Status(State.FAILED, "a:8083", 6))  # Its own word.
    assert found.may_write(item, Status(State.RUNNING, "b:8083", 1))  # A group made anew.
    assert found.may_write(connector_of("other"), old)


def test_a_trace_of_any_length_makes_a_record_that_can_be_written() -> None:
    status = Status(State.FAILED, "b:8083", 6, "Traceback\n" + "\x00ö" * 1_000_000 + "\nits end")
    row = status_row(connector_of("in-one"), status)
    assert row.value is not None
    assert len(row.value) < 512 * 1024
    assert b"Traceback" in row.value
    assert b"its end" in row.value


def test_what_is_not_configured_is_told() -> None:
    assert table().of_others([connector_of("in-one")]) == [TaskId("in-one", 3)]
    assert table().tasks_of("in-one") == [TaskId("in-one", 3)]
    assert table().of(connector_of("other")).state is State.UNASSIGNED


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"status-connector-in-one", b"{"),
        (b"status-connector-in-one", b"[" * 100_000),
        (b"status-connector-in-one", b'{"state":"HAPPY","worker_id":"a","generation":9}'),
        (b"status-connector-in-one", b'{"state":"FAILED","worker_id":1,"generation":9}'),
        (b"status-connector-in-one", b'{"state":["FAILED"],"worker_id":"a","generation":9}'),
        (b"status-task-in-one", b"null"),
        (b"status-task-in-one-x", None),
        (b"other", None),
        (b"\xff", b"\xff"),
        (None, None),
    ],
)
def test_a_record_that_cannot_be_read_says_nothing(key: bytes | None, value: bytes | None) -> None:
    found = table()
    found.apply(key, value)
    assert found.statuses == table().statuses
