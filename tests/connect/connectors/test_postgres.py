"""The SQL connectors against a real PostgreSQL."""

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from minikafka.connect.connectors.sql_offsets import Fenced
from minikafka.connect.connectors.sql_sink import SqlSinkTask
from minikafka.connect.connectors.sql_source import SqlSource, SqlSourceTask
from minikafka.connect.data import INT64, STRING, struct
from minikafka.protocol.types import TopicPartition

from . import postgres
from .sql_support import (
    FakeSinkContext,
    FakeSourceContext,
    StoredOffsets,
    polled,
    schema_types,
    sink_record,
)

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.processes]
T0 = TopicPartition("items", 0)
ITEM = struct({"id": INT64, "name": STRING})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.server() as url:
        yield url


@pytest.fixture
def database(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("drop schema public cascade"))
        connection.execute(sa.text("create schema public"))
    yield engine
    engine.dispose()


def run(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for each in statements:
            connection.execute(sa.text(each))


def rows(engine: sa.Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def source(url: str, offsets: StoredOffsets | None = None, **keys: Any) -> SqlSourceTask:
    given = {name.replace("_", "."): str(value) for name, value in keys.items()}
    props = {"connection.url": url, "topic.prefix": "", "poll.interval.ms": "0", **given}
    connector = SqlSource()
    connector.start(props, FakeSourceContext())
    (mine,) = connector.task_configs(1)
    connector.stop()
    task = SqlSourceTask()
    task.start(mine, FakeSourceContext(offsets))
    return task


def sink(url: str, **keys: Any) -> SqlSinkTask:
    given = {name.replace("_", "."): str(value) for name, value in keys.items()}
    task = SqlSinkTask()
    task.start(
        {"name": "to-sql", "connection.url": url, "auto.create": "true", **given},
        FakeSinkContext(T0),
    )
    task.open([T0])
    return task


def item(offset: int, name: str = "x") -> Any:
    return sink_record("items", 0, offset, {"id": offset, "name": name}, value_schema=ITEM)


def test_each_type_of_postgresql_has_its_schema(url: str, database: sa.Engine) -> None:
    run(
        database,
        "create table t (id bigserial primary key, a smallint, b integer, c numeric(12,3), "
        "d numeric, e real, f double precision, g boolean, h date, i time, j timestamp, "
        "k timestamptz, l bytea, m text, n varchar(5), o uuid, p jsonb, q integer[], r interval)",
        "insert into t values (1, 2, 3, 4.5, 6.78901234567890123456, 0.5, 0.25, true, "
        "'2026-01-02', '03:04:05', '2026-07-01 12:00', '2026-07-01 12:00+02', '\\x00ff', 'x%s', "
        "'y', '00000000-0000-0000-0000-000000000001', '{\"a\": 1}', '{1,null}', '1 day')",
    )
    task = source(url, table_whitelist="t", mode="incrementing", db_timezone="Europe/Berlin")
    (record,) = polled(task)
    task.stop()
    assert schema_types(record.value_schema) == {
        "id": "int64", "a": "int16?", "b": "int32?", "c": "Decimal?", "d": "string?",
        "e": "float?", "f": "double?", "g": "boolean?", "h": "Date?", "i": "Time?",
        "j": "Timestamp?", "k": "Timestamp?", "l": "bytes?", "m": "string?", "n": "string?",
        "o": "string?", "p": "string?", "q": "array?", "r": "string?",
    }  # fmt: skip
    assert record.value == {
        "id": 1, "a": 2, "b": 3, "c": Decimal("4.500"), "d": "6.78901234567890123456", "e": 0.5,
        "f": 0.25, "g": True, "h": date(2026, 1, 2), "i": time(3, 4, 5),
        "j": datetime(2026, 7, 1, 10, tzinfo=UTC), "k": datetime(2026, 7, 1, 10, tzinfo=UTC),
        "l": b"\x00\xff", "m": "x%s", "n": "y", "o": "00000000-0000-0000-0000-000000000001",
        "p": '{"a": 1}', "q": [1, None], "r": "1 day, 0:00:00",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_times_to_the_microsecond_are_read_on_from(
    url: str, database: sa.Engine, kind: str
) -> None:
    run(
        database,
        f"create table t (id integer primary key, at {kind} not null)",
        "set timezone = 'Europe/Berlin'",
        *[f"insert into t values ({n}, '2026-07-01 12:00:00.00000{n // 2}')" for n in range(6)],
    )
    keys: dict[str, Any] = {
        "mode": "timestamp", "timestamp_column_name": "at", "db_timezone": "Europe/Berlin",
        "timestamp_delay_interval_ms": 1000,
    }  # fmt: skip
    choices: list[dict[str, Any]] = [
        {"tables": "t"},
        {"query": "select *, 'a:b%' as s from t"},
    ]
    for selected in choices:
        task = source(url, batch_max_rows=2, **keys, **selected)
        every = polled(task)
        task.stop()
        assert [each.value["id"] for each in every] == list(range(6))
        assert every[1].source_offset["timestamp"] == 1782900000000
        for cut in (2, 4):
            offsets = StoredOffsets()
            offsets.commit(every[:cut])
            task = source(url, offsets, **keys, **selected)
            assert [each.value["id"] for each in polled(task)] == list(range(cut, 6))
            task.stop()


def test_bulk_and_a_lost_connection(url: str, database: sa.Engine) -> None:
    run(database, "create table t (id integer)", "insert into t select generate_series(1, 7)")
    task = source(url, tables="t", mode="bulk", batch_max_rows=3, connection_attempts=1)
    assert len(polled(task, 3)) == 7
    run(
        database,
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
        "and backend_type = 'client backend'",
    )
    assert len(polled(task, 3)) == 7
    task.stop()


def test_upsert_widen_and_delete(url: str, database: sa.Engine) -> None:
    task = sink(
        url, insert_mode="upsert", pk_mode="record_key", pk_fields="id", delete_enabled="true",
        auto_evolve="true", table_name_format="public.${topic}",
    )  # fmt: skip
    wide = struct({"name": STRING.as_optional(), "size": INT64.as_optional()})
    narrow = struct({"name": STRING.as_optional()})

    def of(offset: int, key: int, value: Any, schema: Any) -> Any:
        return sink_record(
            "items", 0, offset, value, value_schema=schema, key=key, key_schema=INT64
        )

    task.put(
        [
            of(0, 1, {"name": "a"}, narrow),
            of(1, 2, {"name": "b", "size": 3}, wide),
            of(2, 1, {"name": "c"}, narrow),
            of(3, 2, None, None),
            of(4, 3, {"name": None, "size": 5}, wide),
        ]
    )
    assert rows(database, "select * from items order by id") == [(1, "c", None), (3, None, 5)]
    task.stop()


def test_x_41_a_transaction_that_is_open_while_its_task_is_replaced_is_refused_or_first(
    url: str, database: sa.Engine
) -> None:
    zombie = sink(url)
    zombie.put([item(n) for n in range(3)])
    blocked = threading.Event()
    failures: list[BaseException] = []
    with database.connect() as lock:  # the zombie's transaction waits here, before its offsets
        lock.execute(sa.text("select * from minikafka_connect_offsets for update"))

        def write() -> None:
            blocked.set()
            try:
                zombie.put([item(n, "zombie") for n in range(3, 6)])
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        assert blocked.wait(10)
        lock.execute(sa.text("update minikafka_connect_offsets set epoch = epoch + 1"))
        lock.commit()  # as an heir's open does
    thread.join(30)
    assert not thread.is_alive()
    assert [type(each) for each in failures] == [Fenced]
    assert rows(database, "select count(*) from items") == [(3,)]
    heir = sink(url)
    heir.put([item(n) for n in range(8)])
    assert rows(database, "select id, name from items order by id") == [(n, "x") for n in range(8)]
    zombie.stop()
    heir.stop()


def test_x_41_a_connection_that_is_cut_doubles_nothing(url: str, database: sa.Engine) -> None:
    task = sink(url)
    task.put([item(n) for n in range(3)])
    run(
        database,
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
        "and backend_type = 'client backend'",
    )
    task.put([item(n) for n in range(5)])  # pool_pre_ping finds a new connection
    assert rows(database, "select id from items order by id") == [(n,) for n in range(5)]
    task.stop()


def test_what_the_address_asks_of_the_connection_is_done(url: str, database: sa.Engine) -> None:
    run(database, "create schema other", "create table other.t (id int primary key)")
    run(database, "insert into other.t values (7)")
    asking = f"{url}?options=-csearch_path%3Dother&connect_timeout=3"
    task = source(asking, mode="incrementing", table_whitelist="t")
    assert [record.value["id"] for record in polled(task, polls=1)] == [7]
    task.stop()
