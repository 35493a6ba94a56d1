from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from minikafka.connect.api import ConnectError, Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.sql_source import SqlSource, SqlSourceTask
from minikafka.connect.records import SourceRecord

from .sql_support import FakeSourceContext, StoredOffsets, polled, schema_types


class Source:
    """A SQLite file, and tasks that read it with the offsets that were committed."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.engine = sa.create_engine(self.url)
        self.offsets = StoredOffsets()
        self._tasks: list[SqlSourceTask] = []

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for each in statements:
                connection.execute(sa.text(each))

    def props(self, **keys: Any) -> dict[str, str]:
        defaults = {
            "connection.url": self.url,
            "topic.prefix": "db-",
            "poll.interval.ms": "0",
            "mode": "incrementing",
        }
        return {**defaults, **{name.replace("_", "."): str(value) for name, value in keys.items()}}

    def task(self, **keys: Any) -> SqlSourceTask:
        props = self.props(**keys)
        connector = SqlSource()
        connector.start(props, FakeSourceContext())
        (mine,) = connector.task_configs(1)
        connector.stop()
        task = SqlSourceTask()
        task.start(mine, FakeSourceContext(self.offsets))
        self._tasks.append(task)
        return task

    def close(self) -> None:
        for task in self._tasks:
            task.stop()
        self.engine.dispose()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    source = Source(tmp_path / "app.db")
    yield source
    source.close()


def ids(records: list[SourceRecord]) -> list[int]:
    return [record.value["id"] for record in records]


def test_rows_are_read_by_their_number_and_on_from_the_committed_offset(source: Source) -> None:
    source.run(
        "create table orders (id integer primary key, item varchar(20) not null)",
        "insert into orders values (1, 'tea'), (2, 'salt'), (3, 'rice')",
    )
    first = polled(source.task(table_whitelist="orders", batch_max_rows=2))
    assert [(each.topic, each.value, each.source_offset) for each in first] == [
        ("db-orders", {"id": 1, "item": "tea"}, {"incrementing": 1}),
        ("db-orders", {"id": 2, "item": "salt"}, {"incrementing": 2}),
        ("db-orders", {"id": 3, "item": "rice"}, {"incrementing": 3}),
    ]
    assert first[0].source_partition == {"protocol": "1", "table": "orders"}
    source.offsets.commit(first[:2])
    source.run("insert into orders values (7, 'oil')")
    assert ids(polled(source.task(tables="orders"))) == [3, 7]


def test_each_type_has_its_schema(source: Source) -> None:
    source.run(
        "create table t (id integer primary key not null, a smallint, b numeric(10,2), c double, "
        "d boolean, e date, f timestamp, g blob, h text, i decimal, j time, k json)",
        "insert into t values (1, 2, 3.5, 0.5, 1, '2026-01-02', '2026-01-02 03:04:05.678', "
        "x'00ff', 'x', 12345678901234, '10:20:30.000000', '[1]')",
        "insert into t (id) values (2)",
    )
    first, second = polled(source.task(table_whitelist="t"))
    assert schema_types(first.value_schema) == {
        "id": "int64", "a": "int64?", "b": "Decimal?", "c": "double?", "d": "boolean?",
        "e": "Date?", "f": "Timestamp?", "g": "bytes?", "h": "string?", "i": "string?",
        "j": "Time?", "k": "string?",
    }  # fmt: skip
    assert first.value["b"] == Decimal("3.50")
    assert str(first.value["b"]) == "3.50"
    assert first.value["e"] == date(2026, 1, 2)
    assert first.value["f"] == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert (first.value["g"], first.value["i"], first.value["k"]) == (
        b"\x00\xff", "12345678901234", "[1]",
    )  # fmt: skip
    assert second.value == {**dict.fromkeys(first.value), "id": 2}


def test_numbers_and_times_fit_as_the_configuration_says(source: Source) -> None:
    source.run(
        "create table t (id integer primary key, a numeric(10,2), b numeric(6,0), c timestamp)",
        "insert into t values (1, 3.5, 7, '2026-07-01 12:00:00')",
    )
    task = source.task(table_whitelist="t", numeric_mapping="best_fit", db_timezone="Europe/Berlin")
    (record,) = polled(task)
    assert record.value == {
        "id": 1, "a": 3.5, "b": 7, "c": datetime(2026, 7, 1, 10, tzinfo=UTC),
    }  # fmt: skip


CHANGES = "create table t (id integer primary key, at timestamp not null, v text)"


def test_rows_of_equal_time_are_neither_lost_nor_doubled(source: Source) -> None:
    rows = [(n, f"2026-01-01 00:00:0{n // 4}") for n in range(12)]
    source.run(CHANGES, *[f"insert into t values ({n}, '{at}', 'x')" for n, at in rows])
    keys = {"table_whitelist": "t", "mode": "timestamp", "timestamp_column_name": "at"}
    first = polled(source.task(**keys, batch_max_rows=3))
    assert ids(first) == list(range(12))
    for cut in range(12):
        source.offsets = StoredOffsets()
        source.offsets.commit(first[: cut + 1])
        assert ids(polled(source.task(**keys, batch_max_rows=5))) == list(range(cut + 1, 12))
    source.run("update t set at = '2026-01-02 00:00:00.5', v = 'y' where id in (1, 3)")
    source.offsets.commit(first)
    assert ids(polled(source.task(**keys))) == [1, 3]


def test_without_a_primary_key_rows_of_equal_time_stay_together(source: Source) -> None:
    source.run(
        "create table t (id integer, at timestamp not null)",
        *[f"insert into t values ({n}, '2026-01-01 00:00:0{n // 4}')" for n in range(12)],
    )
    keys = {"table_whitelist": "t", "mode": "timestamp", "timestamp_column_name": "at"}
    task = source.task(**keys, batch_max_rows=3)
    assert [sorted(ids(list(task.poll() or ()))) for _ in range(4)] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [],
    ]  # fmt: skip
    first = polled(source.task(**keys))
    source.offsets.commit(first[:6])  # a crash within the second group repeats it
    assert sorted(ids(polled(source.task(**keys)))) == list(range(4, 12))


def test_time_and_number_together(source: Source) -> None:
    source.run(CHANGES, "insert into t values (1, '2026-01-01', 'a'), (2, '2026-01-01', 'b')")
    keys = {
        "table_whitelist": "t",
        "mode": "timestamp+incrementing",
        "timestamp_column_name": "at",
        "incrementing_column_name": "id",
    }
    first = polled(source.task(**keys, batch_max_rows=1))
    assert first[1].source_offset == {
        "timestamp": 1767225600000, "timestamp_nanos": 0, "incrementing": 2,
    }  # fmt: skip
    source.offsets.commit(first)
    source.run("insert into t values (0, '2026-01-01', 'late'), (3, '2026-01-01 00:00:00', 'c')")
    assert ids(polled(source.task(**keys))) == [3]


def test_a_row_that_is_committed_late_is_not_lost_with_a_delay(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    monkeypatch.setattr(
        "minikafka.connect.connectors.database.Database.now", lambda self, connection: now
    )
    source.run(CHANGES, "insert into t values (2, '2026-01-01 00:00:09', 'early')")
    keys = {"table_whitelist": "t", "mode": "timestamp", "timestamp_column_name": "at"}
    task = source.task(**keys, timestamp_delay_interval_ms=5000)
    assert ids(polled(task)) == []
    source.run("insert into t values (1, '2026-01-01 00:00:08', 'committed late')")
    now = datetime(2026, 1, 1, 0, 0, 14, tzinfo=UTC)
    assert ids(polled(task)) == [1]
    now = datetime(2026, 1, 1, 0, 0, 14, 1000, tzinfo=UTC)
    assert ids(polled(task)) == [2]


def test_a_number_that_is_committed_late_is_not_lost_with_a_delay(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("minikafka.connect.connectors.sql_source.time.monotonic", lambda: clock[0])
    source.run("create table t (id integer primary key)", "insert into t values (2)")
    task = source.task(table_whitelist="t", incrementing_delay_interval_ms=5000)
    assert ids(polled(task)) == []
    clock[0] = 103.0
    source.run("insert into t values (1), (3)")
    assert ids(polled(task)) == []
    clock[0] = 105.0
    assert ids(polled(task)) == [1, 2]
    clock[0] = 108.0
    assert ids(polled(task)) == [3]


def test_a_query_is_read_like_a_table(source: Source) -> None:
    source.run(
        CHANGES,
        "create table names (id integer primary key, name text)",
        "insert into t values (1, '2026-01-01', 'a:b'), (2, '2026-01-02', null)",
        "insert into names values (1, 'one'), (2, 'two')",
    )
    query = "select t.id, at, name, v, ':x' as colon from t join names on names.id = t.id"
    keys = {"query": query, "topic_prefix": "joined", "incrementing_column_name": "id"}
    first = polled(source.task(**keys, batch_max_rows=1))
    assert [(each.topic, each.value["name"], each.value["v"]) for each in first] == [
        ("joined", "one", "a:b"), ("joined", "two", None),
    ]  # fmt: skip
    assert first[0].value["colon"] == ":x"
    assert schema_types(first[1].value_schema)["v"] == "string?"
    source.offsets.commit(first[:1])
    assert ids(polled(source.task(**keys))) == [2]
    timed = source.task(**{**keys, "mode": "timestamp", "timestamp_column_name": "at"})
    assert ids(polled(timed)) == [1, 2]


def test_bulk_reads_everything_each_time(source: Source) -> None:
    source.run("create table t (id integer primary key)", "insert into t values (1), (2), (3)")
    task = source.task(table_whitelist="t", mode="bulk", batch_max_rows=2)
    assert ids(polled(task, 4)) == [1, 2, 3, 1, 2, 3]
    task.stop()


def test_names_that_sql_could_stumble_over_are_only_names(source: Source) -> None:
    odd = 'a "b"; drop table x --'
    quoted = '"' + odd.replace('"', '""') + '"'
    source.run(
        f'create table {quoted} (id integer primary key, {quoted} text, "order" text)',
        f"insert into {quoted} values (1, 'v', 'w')",
    )
    (record,) = polled(source.task(tables=odd, topic_prefix=""))
    assert record.value == {"id": 1, odd: "v", "order": "w"}


def test_tables_are_dealt_out_and_new_ones_are_found(source: Source) -> None:
    source.run(*[f"create table {name} (id integer primary key)" for name in "abcd"])
    connector = SqlSource()
    context = FakeSourceContext()
    connector.start(source.props(table_poll_interval_ms=1, table_blacklist="b"), context)
    try:
        dealt = [each["task.tables"] for each in connector.task_configs(2)]
        assert dealt == ["a,d", "c"]
        source.run("create table e (id integer primary key)")
        found = connector._found()
        assert found == ["a", "c", "d", "e"]
    finally:
        connector.stop()
    assert connector._watch is not None
    connector._watch.join(10)
    assert not connector._watch.is_alive()


def test_a_new_column_is_read_without_a_restart(source: Source) -> None:
    source.run("create table t (id integer primary key)", "insert into t values (1)")
    task = source.task(table_whitelist="t", table_poll_interval_ms=1)
    (first,) = polled(task)
    source.run("alter table t add column v text", "insert into t values (2, 'x')")
    task._parts[0]._look_again = 0
    (second,) = polled(task)
    assert (first.value, second.value) == ({"id": 1}, {"id": 2, "v": "x"})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"query": "select 1", "tables": "t"}, "in place of table.whitelist"),
        ({"mode": "often"}, "must be one of bulk, incrementing"),
        ({"connection_url": "jdbc:postgresql://db/x?password=abc"}, "postgresql\\+psycopg://"),
        ({"db_timezone": "Mars/Olympus"}, "name of the time zone"),
    ],
)
def test_what_cannot_work_is_refused(source: Source, keys: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words) as caught:
        SqlSource().start(source.props(**keys), FakeSourceContext())
    assert "abc" not in str(caught.value)


def test_a_column_that_may_be_null_is_refused(source: Source) -> None:
    source.run("create table t (id integer primary key, at timestamp)")
    keys = {"tables": "t", "mode": "timestamp", "timestamp_column_name": "at"}
    with pytest.raises(ConnectError, match="column at of table t may be null"):
        source.task(**keys).poll()
    assert polled(source.task(**keys, validate_non_null="false")) == []


def test_a_table_that_is_not_there_is_tried_again_and_then_told(source: Source) -> None:
    task = source.task(tables="missing", connection_attempts=2, connection_backoff_ms=7)
    with pytest.raises(Retry) as caught:
        task.poll()
    assert caught.value.after_ms == 7
    with pytest.raises(ConnectError, match=r"table missing cannot be read.*tried 2 times"):
        task.poll()


def test_exactly_once_is_promised_only_with_a_delay(source: Source) -> None:
    def promised(**keys: Any) -> bool:
        return SqlSource().exactly_once_support(source.props(**keys))

    timed = {"mode": "timestamp", "timestamp_column_name": "at"}
    assert not promised(mode="bulk", timestamp_delay_interval_ms=1)
    assert not promised()
    assert promised(incrementing_delay_interval_ms=1)
    assert not promised(**timed)
    assert promised(**timed, timestamp_delay_interval_ms=1)


def test_a_user_may_set_offsets_that_make_sense(source: Source) -> None:
    table = (("protocol", "1"), ("table", "t"))
    assert SqlSource().alter_offsets({}, {table: {"incrementing": 5}, (("query", "query"),): None})
    with pytest.raises(ConnectError, match="must be a number"):
        SqlSource().alter_offsets({}, {table: {"incrementing": "5"}})
    with pytest.raises(ConnectError, match="neither table nor query"):
        SqlSource().alter_offsets({}, {(("file", "x"),): None})


def test_decimals_of_any_length_are_read(source: Source) -> None:
    source.run(
        "create table t (id integer primary key, price decimal(38, 10))",
        "insert into t values (1, 1234567890123456789012345678.5)",
    )
    (record,) = polled(source.task(table_whitelist="t"), polls=1)
    assert int(record.value["price"]) // 10**12 == 1234567890123456
