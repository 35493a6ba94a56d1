from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import mssql, mysql, sqlite

from minikafka.connect.api import ConnectError, Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.sql_offsets import Fenced
from minikafka.connect.connectors.sql_sink import BadRecord, SqlSink, SqlSinkTask
from minikafka.connect.connectors.sql_source import SqlSourceTask
from minikafka.connect.connectors.sql_types import column_type
from minikafka.connect.converters.json import JsonConverter
from minikafka.connect.data import (
    BOOLEAN,
    BYTES,
    DATE_SCHEMA,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    decimal,
    struct,
)
from minikafka.connect.plugins import Plugins
from minikafka.connect.records import SinkRecord
from minikafka.protocol.types import TopicPartition

from .sql_support import FakeSinkContext, FakeSourceContext, fed, polled, sink_record

ITEM = struct({"id": INT64, "name": STRING.as_optional()})
T0 = TopicPartition("items", 0)
Made = tuple[SqlSinkTask, FakeSinkContext]


class Sink:
    """A SQLite file, and tasks that write to it."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.engine = sa.create_engine(self.url)
        self._tasks: list[SqlSinkTask] = []

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for each in statements:
                connection.execute(sa.text(each))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def props(self, **keys: Any) -> dict[str, str]:
        given = {name.replace("_", "."): str(value) for name, value in keys.items()}
        return {"name": "to-sql", "connection.url": self.url, **given}

    def task(self, *partitions: TopicPartition, tolerant: bool = False, **keys: Any) -> Made:
        props = self.props(**keys)
        SqlSink.config.parse(props)
        task, context = SqlSinkTask(), FakeSinkContext(*partitions, tolerant=tolerant)
        task.start(props, context)
        task.open(partitions or (T0,))
        self._tasks.append(task)
        return task, context

    def close(self) -> None:
        for task in self._tasks:
            task.stop()
        self.engine.dispose()


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    sink = Sink(tmp_path / "out.db")
    yield sink
    sink.close()


def item(offset: int, value: Any, **fields: Any) -> SinkRecord:
    given = fields.pop("schema", ITEM)
    schema = None if value is None else given
    return sink_record("items", 0, offset, value, value_schema=schema, **fields)


def log_of(count: int) -> list[SinkRecord]:
    return [item(n, {"id": n, "name": f"n{n}"}) for n in range(count)]


OFFSETS = "select connector, topic, part, next_offset from minikafka_connect_offsets"


def test_rows_and_offsets_are_written_together(sink: Sink) -> None:
    task, context = sink.task(auto_create="true", batch_size=4)
    assert context.seeks == {}
    fed(task, context, log_of(10))
    assert sink.rows("select * from items") == [(n, f"n{n}") for n in range(10)]
    assert sink.rows(OFFSETS) == [("to-sql", "items", 0, 10)]
    assert task.pre_commit({T0: 10}) == {T0: 10}


def test_x_41_a_task_that_dies_between_the_databases_commit_and_the_groups_doubles_nothing(
    sink: Sink,
) -> None:
    log = log_of(30)
    task, context = sink.task(auto_create="true")
    fed(task, context, log[:17])  # and it dies before its group's offsets are committed
    heir, context = sink.task(auto_create="true")
    assert context.seeks == {T0: 17}
    fed(heir, context, log)
    assert sink.rows("select id from items order by rowid") == [(n,) for n in range(30)]


def test_x_41_records_that_come_again_despite_the_seek_are_left_out(sink: Sink) -> None:
    task, _ = sink.task(auto_create="true")
    task.put(log_of(17))
    heir, _ = sink.task(auto_create="true")
    heir.put(log_of(20))
    assert sink.rows("select count(*), count(distinct id) from items") == [(20, 20)]


def test_x_41_a_transaction_of_a_task_that_was_replaced_is_refused(sink: Sink) -> None:
    log = log_of(20)
    zombie, context = sink.task(auto_create="true")
    fed(zombie, context, log[:5])
    heir, context = sink.task(auto_create="true")
    with pytest.raises(Fenced, match="items-0 is written by another task of connector to-sql"):
        zombie.put(log[5:15])
    assert sink.rows("select count(*) from items") == [(5,)]
    fed(heir, context, log)
    assert sink.rows("select id from items order by rowid") == [(n,) for n in range(20)]
    with pytest.raises(Fenced):
        zombie.put(log[5:15])


def test_x_41_offsets_that_somebody_changed_by_hand_are_not_written_over(sink: Sink) -> None:
    task, _ = sink.task(auto_create="true")
    task.put(log_of(5))
    sink.run("update minikafka_connect_offsets set next_offset = 3")
    with pytest.raises(Fenced, match="changed by hand"):
        task.put([item(5, {"id": 5, "name": "x"})])


@pytest.mark.parametrize("is_committed", [True, False])
def test_x_41_a_commit_whose_answer_is_lost_is_looked_up(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    task, _ = sink.task(auto_create="true", max_retries=1, retry_backoff_ms=5)
    task.put(log_of(3))
    engine = task._database.engine
    commit = engine.dialect.do_commit

    def lost(connection: Any) -> None:
        if is_committed:
            commit(connection)
        raise exc.OperationalError("commit", None, Exception("connection reset"))

    monkeypatch.setattr(engine.dialect, "do_commit", lost)
    with pytest.raises(Retry, match="connection reset") as caught:
        task.put(log_of(8))
    assert caught.value.after_ms == 5
    monkeypatch.undo()
    task.put(log_of(8))
    assert sink.rows("select id from items order by rowid") == [(n,) for n in range(8)]


def test_a_database_that_stays_away_fails_the_task(sink: Sink) -> None:
    task, _ = sink.task(auto_create="true", max_retries=2, retry_backoff_ms=1)
    task.put(log_of(1))
    sink.run("drop table minikafka_connect_offsets")
    for _ in range(2):
        with pytest.raises(Retry, match="no such table: minikafka_connect_offsets"):
            task.put(log_of(2))
    with pytest.raises(ConnectError, match="tried 3 times"):
        task.put(log_of(2))


def test_each_type_has_its_column_and_its_value(sink: Sink) -> None:
    schema = struct(
        {
            "a": INT32, "b": FLOAT64, "c": BOOLEAN, "d": STRING, "e": BYTES, "f": decimal(3),
            "g": DATE_SCHEMA, "h": TIME_SCHEMA, "i": TIMESTAMP_SCHEMA, "j": STRING.as_optional(),
        }
    )  # fmt: skip
    value = {
        "a": 1, "b": 0.5, "c": True, "d": "x", "e": b"\0", "f": Decimal("12345678901234567890.125"),
        "g": date(2026, 1, 2), "h": time(3, 4, 5), "i": datetime(2026, 7, 1, 10, tzinfo=UTC),
        "j": None,
    }  # fmt: skip
    task, _ = sink.task(auto_create="true", pk_mode="kafka", db_timezone="Europe/Berlin")
    task.put([item(7, value, schema=schema)])
    assert sink.rows("select * from items") == [
        (
            "items", 0, 7, 1, 0.5, 1, "x", b"\0", "12345678901234567890.125", "2026-01-02",
            "03:04:05.000000", "2026-07-01 12:00:00.000000", None,
        )
    ]  # fmt: skip
    assert [each["name"] for each in sa.inspect(sink.engine).get_columns("items")[:3]] == [
        "__connect_topic", "__connect_partition", "__connect_offset",
    ]  # fmt: skip


def test_values_without_a_schema_fit_a_table_that_is_there(sink: Sink) -> None:
    sink.run("create table items (id integer, at timestamp, day date, doc json, v numeric(9,2))")
    task, _ = sink.task()
    value = {"id": 1, "at": "2026-01-02T03:04:05+00:00", "day": "2026-01-02", "doc": {"a": [1]}}
    task.put([item(0, {**value, "v": Decimal("1.5")}, schema=None)])
    assert sink.rows("select * from items") == [
        (1, "2026-01-02 03:04:05.000000", "2026-01-02", '{"a": [1]}', 1.5)
    ]


def test_upsert_and_delete_leave_the_last_state_of_each_key(sink: Sink) -> None:
    task, _ = sink.task(
        auto_create="true", insert_mode="upsert", pk_mode="record_key", pk_fields="id",
        delete_enabled="true",
    )  # fmt: skip
    name = struct({"name": STRING.as_optional()})

    def of(offset: int, key: int, value: str | None) -> SinkRecord:
        content = None if value is None else {"name": value}
        return item(offset, content, schema=name, key=key, key_schema=INT64)

    task.put([of(0, 1, "a"), of(1, 2, "b"), of(2, 1, "c"), of(3, 2, None), of(4, 3, "d")])
    assert sink.rows("select * from items order by id") == [(1, "c"), (3, "d")]
    task.put([of(5, 3, None), of(6, 3, "e"), of(7, 9, None)])
    assert sink.rows("select * from items order by id") == [(1, "c"), (3, "e")]


def test_upsert_of_keys_alone_writes_each_once(sink: Sink) -> None:
    task, _ = sink.task(auto_create="true", insert_mode="upsert", pk_mode="record_value")
    only_id = struct({"id": INT64})
    task.put([item(n, {"id": n % 2}, schema=only_id) for n in range(4)])
    assert sink.rows("select * from items order by id") == [(0,), (1,)]


def test_update_changes_only_rows_that_are_there(sink: Sink) -> None:
    sink.run(
        "create table items (id integer primary key, name text)",
        "insert into items values (1, 'a')",
    )
    task, _ = sink.task(insert_mode="update", pk_mode="record_value", pk_fields="id")
    task.put(log_of(3))
    assert sink.rows("select * from items") == [(1, "n1")]


def test_only_the_chosen_fields_are_written(sink: Sink) -> None:
    task, _ = sink.task(
        auto_create="true", pk_mode="record_value", pk_fields="id", fields_whitelist="name"
    )
    wide = struct({"id": INT64, "name": STRING, "more": STRING})
    task.put([item(0, {"id": 1, "name": "a", "more": "b"}, schema=wide)])
    assert sink.rows("select * from items") == [(1, "a")]


def test_optional_fields_become_columns_and_others_do_not(sink: Sink) -> None:
    task, _ = sink.task(auto_create="true", auto_evolve="true")
    task.put(log_of(1))
    wide = struct({"id": INT64, "name": STRING, "extra; drop": STRING.as_optional()})
    task.put([item(1, {"id": 1, "name": "b", "extra; drop": "e"}, schema=wide)])
    assert sink.rows("select * from items") == [(0, "n0", None), (1, "b", "e")]
    strict = struct({"id": INT64, "must": STRING})
    with pytest.raises(BadRecord, match="column must cannot be added to table items"):
        task.put([item(2, {"id": 2, "must": "x"}, schema=strict)])


def test_names_of_topics_and_fields_are_only_names(sink: Sink) -> None:
    odd = 'x"; drop table items; --'
    origin = TopicPartition("a.b", 0)
    task, _ = sink.task(origin, auto_create="true", table_name_format="to_${topic}")
    schema = struct({odd: STRING, "order": STRING})
    value = {odd: "v", "order": "w"}
    task.put([sink_record("a.b", 0, 0, value, value_schema=schema)])
    assert sink.rows('select * from "to_a.b"') == [("v", "w")]


def test_a_renamed_topic_keeps_the_offsets_of_the_one_that_was_read(sink: Sink) -> None:
    task, _ = sink.task(auto_create="true")
    task.put([item(0, {"id": 1, "name": "a"}).with_(topic="renamed")])
    assert sink.rows("select * from renamed") == [(1, "a")]
    assert sink.rows(OFFSETS) == [("to-sql", "items", 0, 1)]


def test_bad_records_are_reported_and_passed(sink: Sink) -> None:
    sink.run("create table items (id integer primary key, name text not null check (name <> 'no'))")
    task, context = sink.task(tolerant=True)
    task.put(
        [
            item(0, {"id": 0, "name": "a"}),
            item(1, None),
            item(2, {"id": 2, "name": "no"}),
            item(3, {"id": 0, "name": "again"}),
            item(4, {"id": 4, "name": "b"}),
        ]
    )
    assert sink.rows("select * from items") == [(0, "a"), (4, "b")]
    assert [record.offset for record, _ in context.reported] == [1, 2, 3]
    assert "items-0, offset 2: IntegrityError: CHECK" in str(context.reported[1][1])
    assert sink.rows(OFFSETS) == [("to-sql", "items", 0, 5)]


@pytest.mark.parametrize(
    ("record", "keys", "words"),
    [
        (item(0, None), {}, "no value, and delete.enabled is false"),
        (item(0, {"id": 1}), {}, "table items is not there; create it, or set auto.create"),
        (item(0, "text", schema=STRING), {}, "a struct is needed, found a value of type str"),
        (item(0, {"a": 1}, schema=None), {"auto_create": "true"}, "field a has no schema"),
        (
            item(0, {"a": {}}, schema=struct({"a": struct({})})),
            {"auto_create": "true"},
            "of type struct; take it apart with the transformation Flatten",
        ),
        (item(0, {"id": 1}), {"pk_mode": "record_key"}, "it has no key"),
        (item(0, {"id": 1}, key=1), {"pk_mode": "record_key"}, "pk.fields must have one name"),
        (
            item(0, {"id": 1}),
            {"pk_mode": "record_value", "pk_fields": "nr"},
            "its value has no field nr",
        ),
    ],
)
def test_a_record_that_cannot_be_a_row_says_why(
    sink: Sink, record: SinkRecord, keys: dict[str, Any], words: str
) -> None:
    task, _ = sink.task(**keys)
    with pytest.raises(BadRecord, match=rf"items-0, offset 0: .*{words}"):
        task.put([record])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"insert_mode": "upsert"}, "insert.mode=upsert needs a primary key"),
        ({"delete_enabled": "true", "pk_mode": "kafka"}, "needs pk.mode=record_key"),
        ({"pk_mode": "kafka", "pk_fields": "a,b"}, "needs three names"),
        ({"table_name_format": "a.b.${topic}"}, "must be a table or schema.table"),
        ({"insert_mode": "append"}, "must be one of insert, upsert, update"),
    ],
)
def test_what_cannot_work_is_refused(sink: Sink, keys: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        SqlSink.config.parse(sink.props(**keys))


def test_a_user_sets_offsets_where_they_count(sink: Sink) -> None:
    zombie, _ = sink.task(auto_create="true")
    zombie.put(log_of(10))
    assert SqlSink().alter_offsets(sink.props(), {T0: {"kafka_offset": 4}})
    _, context = sink.task(auto_create="true")
    assert context.seeks == {T0: 4}
    assert SqlSink().alter_offsets(sink.props(), {T0: None})
    _, context = sink.task(auto_create="true")
    assert context.seeks == {}
    with pytest.raises(Fenced):
        zombie.put([item(10, {"id": 10, "name": "late"})])


def test_rows_go_through_json_with_schemas_from_one_database_to_another(sink: Sink) -> None:
    sink.run(
        "create table t (id integer primary key, price numeric(10,2), at timestamp, "
        "day date, b blob)",
        "insert into t values (1, 1.5, '2026-01-02 03:04:05.678', '2026-01-02', x'00ff')",
    )
    source = SqlSourceTask()
    props = {"connection.url": sink.url, "topic.prefix": "", "mode": "incrementing"}
    source.start({**props, "task.tables": "t"}, FakeSourceContext())
    (read,) = polled(source, 1)
    source.stop()
    converter = JsonConverter()
    schema, value = converter.to_connect(
        "t", converter.from_connect("t", read.value_schema, read.value)
    )
    task, _ = sink.task(
        TopicPartition("t", 0), auto_create="true", table_name_format="copy_${topic}"
    )
    task.put([sink_record("t", 0, 0, value, value_schema=schema)])
    assert sink.rows("select id, price, at, day, b from copy_t") == [
        (1, "1.50", "2026-01-02 03:04:05.678000", "2026-01-02", b"\x00\xff")
    ]


@pytest.mark.parametrize(
    "name", ["SqlSource", "SqlSink", "PostgresSource", "ObjectSource", "ObjectSink"]
)
def test_a_worker_finds_them_by_name(name: str) -> None:
    found, kind = Plugins().find_connector(name)
    assert (found.__name__, kind.value) == (name, "source" if "Source" in name else "sink")


def test_partitions_that_were_given_back_are_taken_again(sink: Sink) -> None:
    task, context = sink.task(auto_create="true")
    task.put(log_of(3))
    task.close([T0])
    task.open([T0])
    assert context.seeks == {T0: 3}
    task.put(log_of(6)[3:])
    assert sink.rows("select count(*) from items") == [(6,)]


@pytest.mark.parametrize("bad", [{"id": 2**70, "name": "x"}, {"id": 1, "name": "\ud800"}])
def test_a_value_that_the_driver_does_not_take_spoils_its_own_record_only(
    sink: Sink, bad: dict[str, Any]
) -> None:
    task, context = sink.task(auto_create="true", tolerant=True)
    fed(task, context, [item(0, {"id": 0, "name": "a"}), item(1, bad), item(2, {"id": 2})])
    assert sink.rows("select id, name from items") == [(0, "a"), (2, None)]
    assert [record.offset for record, _ in context.reported] == [1]
    assert sink.rows(OFFSETS) == [("to-sql", "items", 0, 3)]


def test_the_error_of_a_bad_record_tells_no_other_one(sink: Sink) -> None:
    task, context = sink.task(auto_create="true")
    with pytest.raises(BadRecord) as found:
        fed(task, context, [item(0, {"id": 2**70, "name": "secret"})])
    assert found.value.__context__ is None


def test_times_keep_their_microseconds_in_every_database() -> None:
    kinds = [column_type(each, "mysql", in_key=False) for each in (TIMESTAMP_SCHEMA, TIME_SCHEMA)]
    assert [each.compile(mysql.dialect()) for each in kinds] == ["DATETIME(6)", "TIME(6)"]
    assert kinds[0].compile(mssql.dialect()) == "DATETIME2"  # type: ignore[no-untyped-call]
    assert kinds[0].compile(sqlite.dialect()) == "DATETIME"


@pytest.mark.parametrize("zone", ["Europe", "", "/etc", "Nowhere/Land"])
def test_a_zone_that_is_none_is_named(sink: Sink, zone: str) -> None:
    with pytest.raises(BadConfig, match=r"db\.timezone"):
        sink.task(db_timezone=zone)
