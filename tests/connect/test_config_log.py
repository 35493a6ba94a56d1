"""The config topic: records as Kafka's workers write them, and what they mean."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect.config_log import (
    Change,
    ConfigLog,
    ConnectorChanged,
    ConnectorRemoved,
    FencingCounted,
    Ignored,
    KeyChanged,
    LoggerSet,
    RestartAsked,
    Row,
    SessionKey,
    TargetChanged,
    TasksChanged,
    connector_row,
    fencing_row,
    logger_row,
    removal_rows,
    restart_row,
    session_key_row,
    target_row,
    tasks_rows,
)
from minikafka.connect.states import TargetState, TaskId

# Written by Kafka's JsonConverter, schemas.enable=false: structs in the order of their schema.
TRANSCRIPT = [
    (
        b"session-key",
        b'{"key":"AAECAwQFBgc=","algorithm":"HmacSHA256","creation-timestamp":1700000000000}',
    ),
    (b"target-state-in-one", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (b"connector-in-one", b'{"properties":{"connector.class":"FileStreamSource","file":"/a"}}'),
    (b"target-state-in-one", b'{"state":"STARTED","state.v2":"STARTED"}'),
    (b"task-in-one-0", b'{"properties":{"task.class":"T","file":"/a"}}'),
    (b"task-in-one-1", b'{"properties":{"task.class":"T","file":"/b"}}'),
    (b"commit-in-one", b'{"tasks":2}'),
    (b"tasks-fencing-in-one", b'{"task-count":2}'),
    (b"restart-connector-in-one", b'{"include-tasks":true,"only-failed":false}'),
    (b"logger-cluster-org.example", b'{"level":"DEBUG"}'),
]
IN_ONE = {"connector.class": "FileStreamSource", "file": "/a"}
TASKS = ({"task.class": "T", "file": "/a"}, {"task.class": "T", "file": "/b"})


def fold(rows: Sequence[tuple[bytes, bytes | None]]) -> tuple[ConfigLog, list[Change]]:
    log = ConfigLog()
    changes = [log.apply(key, value, offset) for offset, (key, value) in enumerate(rows)]
    return log, [each for each in changes if each is not None]


def pairs(rows: list[Row]) -> list[tuple[bytes, bytes | None]]:
    return [(row.key, row.value) for row in rows]


def state(log: ConfigLog) -> tuple[object, ...]:
    return (
        log.connectors,
        {name: log.targets[name] for name in log.connectors},
        {name: log.tasks_of(name) for name in log.connectors},
        {name: name in log.incomplete for name in log.connectors},
        log.session_key,
    )


def test_x_01_the_config_topic_of_a_kafka_cluster_gives_its_state() -> None:
    log, changes = fold(TRANSCRIPT)
    assert changes == [
        KeyChanged(),
        ConnectorChanged("in-one", is_new=True),
        TargetChanged("in-one"),
        TasksChanged("in-one"),
        FencingCounted("in-one"),
        RestartAsked("in-one", include_tasks=True, only_failed=False),
        LoggerSet("org.example", "DEBUG"),
    ]
    assert log.session_key == SessionKey(bytes(range(8)), "HmacSHA256", 1_700_000_000_000)
    assert log.connectors == {"in-one": IN_ONE}
    assert log.targets == {"in-one": TargetState.STARTED}
    assert log.tasks_of("in-one") == TASKS
    assert log.fencing_counts == {"in-one": 2}
    assert log.pending_fencing == {}
    assert log.offset == 10
    assert log.structure_offset == log.tasks_offsets["in-one"] == 7
    assert log.items() == (TaskId("in-one", -1), TaskId("in-one", 0), TaskId("in-one", 1))


def test_x_01_our_records_are_those_of_kafka_byte_by_byte() -> None:
    key = SessionKey(bytes(range(8)), "HmacSHA256", 1_700_000_000_000)
    rows = [
        session_key_row(key),
        target_row("in-one", TargetState.STOPPED),
        connector_row("in-one", IN_ONE),
        target_row("in-one", TargetState.STARTED),
        *tasks_rows("in-one", TASKS),
        fencing_row("in-one", 2),
        restart_row("in-one", include_tasks=True, only_failed=False),
        logger_row("org.example", "DEBUG"),
    ]
    assert pairs(rows) == TRANSCRIPT


def test_x_01_text_beyond_ascii_is_written_as_utf_8() -> None:
    (row,) = pairs([connector_row("über", {"file": "/öl\n"})])
    assert row == ("connector-über".encode(), '{"properties":{"file":"/öl\\n"}}'.encode())
    assert fold([row])[0].connectors == {"über": {"file": "/öl\n"}}


def test_a_worker_before_kip_875_wrote_only_the_older_state() -> None:
    log, _ = fold(
        [(b"connector-a", b'{"properties":{}}'), (b"target-state-a", b'{"state":"PAUSED"}')]
    )
    assert log.targets == {"a": TargetState.PAUSED}


def test_x_09_a_set_without_its_commit_or_without_a_task_is_not_used() -> None:
    begun = [*TRANSCRIPT, *pairs(tasks_rows("in-one", [{"file": "/c"}, {"file": "/d"}]))[:-1]]
    log, _ = fold(list(begun))
    assert log.tasks_of("in-one") == TASKS
    del begun[-2]
    log, _ = fold([*begun, (b"commit-in-one", b'{"tasks":2}')])
    assert log.tasks_of("in-one") == ()
    assert log.incomplete == {"in-one": None}
    log, _ = fold([*begun, (b"commit-in-one", b'{"tasks":2}'), *pairs(tasks_rows("in-one", TASKS))])
    assert log.tasks_of("in-one") == TASKS
    assert log.incomplete == {}


def test_x_14_fewer_tasks_leave_the_records_of_the_others_behind() -> None:
    rows = [*TRANSCRIPT, *pairs(tasks_rows("in-one", TASKS[:1]))]
    whole, _ = fold(list(rows))
    compacted, _ = fold(compact(list(rows)))
    assert whole.tasks_of("in-one") == compacted.tasks_of("in-one") == TASKS[:1]


def test_a_deleted_connector_that_is_made_again_has_no_old_tasks() -> None:
    again = pairs([connector_row("in-one", IN_ONE)])
    rows = [*TRANSCRIPT, *pairs(removal_rows("in-one", 2)), *again]
    log, changes = fold(list(rows))
    assert changes[-2:] == [ConnectorRemoved("in-one"), ConnectorChanged("in-one", is_new=True)]
    assert log.tasks_of("in-one") == ()
    # Once the tombstones are gone as well, the old tasks must not come back.
    gone = [(key, value) for key, value in compact(list(rows)) if value is not None]
    assert fold(gone)[0].tasks_of("in-one") == ()


def test_tasks_committed_after_the_fencing_need_another_round() -> None:
    log, _ = fold([*TRANSCRIPT, *pairs(tasks_rows("in-one", TASKS[:1]))])
    assert log.pending_fencing == {"in-one": None}
    assert log.fencing_counts == {"in-one": 2}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"other", b"{}", "no record of the config topic has such a key"),
        (b"\xff\xfe", b"{}", "no record of the config topic has such a key"),
        (b"connector-a", b"{", "its value is no JSON"),
        (b"connector-a", b"[" * 100_000, "its value is no JSON"),
        (b"connector-a", b"[]", "its value is no JSON object"),
        (b"connector-a", b'{"properties":1}', "its field 'properties' is no dict"),
        (b"task-a", b'{"properties":{}}', "it does not end in the name of a connector"),
        (b"task-a-x", b'{"properties":{}}', "it does not end in the name of a connector"),
        (b"commit-a", b'{"tasks":true}', "its field 'tasks' is no int"),
        (b"commit-a", b'{"tasks":-1}', "-1 tasks"),
        (b"commit-a", b"null", "its value is no JSON object"),
        (b"target-state-a", b'{"state":"RUNNING"}', "'RUNNING' is no target state"),
        (b"session-key", b'{"key":"*","algorithm":"x","creation-timestamp":1}', "no base64"),
    ],
)
def test_a_record_that_says_nothing_is_ignored_with_a_reason(
    key: bytes, value: bytes, why: str
) -> None:
    _, changes = fold([*TRANSCRIPT, (key, None if value == b"null" else value)][-2:])
    if value == b"null":
        assert changes[1:] == []
        return
    (ignored,) = changes[1:]
    assert isinstance(ignored, Ignored)
    assert why in ignored.why


def test_a_session_key_is_not_shown() -> None:
    assert "secret" not in repr(SessionKey(b"secret", "HmacSHA256", 1))


def compact(rows: Sequence[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    newest = {key: place for place, (key, _) in enumerate(rows)}
    return [row for place, row in enumerate(rows) if newest[row[0]] == place]


names = st.sampled_from(["a", "a-0", "task"])
PROPS = {"k": "v"}
steps = st.one_of(
    names.map(lambda name: [connector_row(name, PROPS)]),
    st.tuples(names, st.integers(0, 3)).map(lambda each: tasks_rows(each[0], [PROPS] * each[1])),
    st.tuples(names, st.sampled_from(TargetState)).map(lambda each: [target_row(*each)]),
    names.map(lambda name: removal_rows(name, 4)),
)


@given(st.lists(steps, max_size=30))
def test_x_14_what_compaction_leaves_gives_the_same_state(script: list[list[Row]]) -> None:
    rows = [pair for step in script for pair in pairs(step)]
    assert state(fold(compact(rows))[0]) == state(fold(rows)[0])


@given(st.lists(st.tuples(st.binary(max_size=12), st.none() | st.binary(max_size=12))))
def test_no_record_breaks_the_fold(rows: list[tuple[bytes, bytes | None]]) -> None:
    prefixes = [b"connector-", b"task-a-", b"commit-", b"target-state-", b"session-key"]
    values = [json.dumps(each).encode() for each in (None, 1, {}, {"properties": {"a": 1}})]
    log = ConfigLog()
    for offset, (key, value) in enumerate(rows):
        log.apply(prefixes[offset % len(prefixes)] + key, value, offset)
        log.apply(key, values[offset % len(values)], offset)
    assert log.offset == len(rows)
