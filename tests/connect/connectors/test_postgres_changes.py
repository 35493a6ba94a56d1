"""PostgresSource against a real PostgreSQL: snapshot, stream, kills, TOAST, DDL, the slot's lag."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from minikafka.connect.api import ConnectError, Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.records import SourceRecord

from . import postgres
from .sql_support import FakeSourceContext, StoredOffsets, schema_types
from .test_postgres import rows, run

pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
from minikafka.connect.connectors.postgres_server import Server
from minikafka.connect.connectors.postgres_source import (
    PostgresSource,
    PostgresSourceTask,
)

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.processes]
ASKED = ["statement_timeout", "timezone"]
TERMINATE = "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots where active"
SLOTS = (f"slot_{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.server() as url:
        yield url


class Transactions:
    """The ends of transactions that the task asked for."""

    def __init__(self) -> None:
        self.ends: list[SourceRecord | None] = []

    def commit(self, record: SourceRecord | None = None) -> None:
        self.ends.append(record)

    def abort(self, record: SourceRecord | None = None) -> None:
        raise AssertionError


class Changes:
    """A database with a table, and tasks that read its changes one after the other."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = sa.create_engine(url)
        self.slot = next(SLOTS)
        self.offsets = StoredOffsets()
        self.tasks: list[PostgresSourceTask] = []
        self.transactions = Transactions()

    def run(self, *statements: str) -> None:
        run(self.engine, *statements)

    def props(self, **keys: Any) -> dict[str, str]:
        given = {name.replace("_", "."): str(value) for name, value in keys.items()}
        return {
            "name": "cdc", "connection.url": self.url, "topic.prefix": "db.",
            "slot.name": self.slot,
            "publication.name": self.slot, "tables": "public.t", "snapshot.mode": "never",
            "retry.backoff.ms": "1",
            "max.retries": "1000", **given,
        }  # fmt: skip

    def task(self, *, bounded: bool = False, **keys: Any) -> PostgresSourceTask:
        task, context = PostgresSourceTask(), FakeSourceContext(self.offsets)
        context.poll_timeout_ms = 2000
        context.transaction = self.transactions if bounded else None  # type: ignore[assignment]
        task.start(self.props(**keys), context)
        self.tasks.append(task)
        return task

    def confirmed(self) -> int:
        """The position that the server was told, once nobody reads the slot any more."""
        for _ in range(1000):
            if not rows(self.engine, "select 1 from pg_replication_slots where active"):
                break
            self.run("select pg_sleep(0.01)")
        query = f"""select (confirmed_flush_lsn - '0/0')::int8 from pg_replication_slots
            where slot_name = '{self.slot}'"""
        return int(rows(self.engine, query)[0][0])

    def acknowledge(self, task: PostgresSourceTask, records: Sequence[SourceRecord]) -> None:
        """The records are in their topics, and their offsets are committed."""
        self.offsets.commit(records)
        for each in records:
            task.commit_record(each, None)

    def close(self) -> None:
        for task in self.tasks:
            kill(task)
        self.run(TERMINATE)
        for (name,) in rows(self.engine, "select slot_name from pg_replication_slots"):
            self.run(f"select pg_drop_replication_slot('{name}')")
        self.run(f"drop publication if exists {self.slot}")
        self.engine.dispose()


@pytest.fixture
def changes(url: str) -> Iterator[Changes]:
    changes = Changes(url)
    changes.run("drop schema public cascade", "create schema public")
    changes.run("create table t (id integer primary key, name text)")
    yield changes
    changes.close()


def kill(task: PostgresSourceTask) -> None:
    """End it as a kill does: the server is told nothing."""
    task._disconnect()
    if task._snapshot is not None:
        task._snapshot.close()  # type: ignore[attr-defined]


def polled_until(task: PostgresSourceTask, count: int) -> list[SourceRecord]:
    """As many records, in at most 50 polls that wait up to two seconds each."""
    records: list[SourceRecord] = []
    for _ in range(50):
        if len(records) >= count:
            break
        with suppress(Retry):  # as while the server has not noticed yet that the last task is gone
            records += task.poll() or ()
    return records


def told(record: SourceRecord) -> tuple[Any, ...]:
    """Operation, old and new row of an envelope; None for a tombstone."""
    value = record.value
    return (None,) if value is None else (value["op"], value["before"], value["after"])


def test_x_44_each_change_of_a_row_is_told_in_the_order_of_commits(changes: Changes) -> None:
    task = changes.task()
    changes.run("insert into t values (1, 'a'), (2, null)")
    changes.run("update t set name = 'b' where id = 1", "delete from t where id = 2")
    changes.run("update t set id = 3 where id = 1", "truncate t")
    records = polled_until(task, 9)
    assert [told(each) for each in records] == [
        ("c", None, {"id": 1, "name": "a"}),
        ("c", None, {"id": 2, "name": None}),
        ("u", None, {"id": 1, "name": "b"}),
        ("d", {"id": 2, "name": None}, None),
        (None,),
        ("d", {"id": 1, "name": None}, None),
        (None,),
        ("c", None, {"id": 3, "name": "b"}),
        ("t", None, None),
    ]
    assert [(each.topic, each.key) for each in records[:2]] == [
        ("db.public.t", {"id": 1}), ("db.public.t", {"id": 2}),
    ]  # fmt: skip
    assert records[-1].key is None
    source = records[2].value["source"]
    assert source["lsn"] == records[2].source_offset["lsn"] > records[0].source_offset["lsn"]


def test_x_44_a_task_killed_between_any_two_records_tells_each_change_once(
    changes: Changes,
) -> None:
    changes.task().poll()
    changes.tasks.clear()
    changes.run("insert into t select n, 'x' from generate_series(1, 3) n")
    changes.run("update t set name = 'y'", "delete from t where id = 2")
    changes.run("insert into t values (9, 'z')")
    changes.run(TERMINATE)
    first = changes.task(batch_max_rows=2)
    expected = polled_until(first, 9)
    kill(first)
    assert len(expected) == 9
    done: list[SourceRecord] = []
    for cut in range(len(expected)):  # each life acknowledges one record, and is killed
        task = changes.task(batch_max_rows=2)
        here = polled_until(task, len(expected) - cut)
        assert [told(each) for each in here] == [told(each) for each in expected[cut:]]
        assert here[0].source_offset == expected[cut].source_offset
        changes.acknowledge(task, here[:1])
        done += here[:1]
        task.stop() if cut % 2 else kill(task)
    assert [told(each) for each in done] == [told(each) for each in expected]
    changes.run("insert into t values (10, 'end')")
    assert [told(each) for each in polled_until(changes.task(), 1)] == [
        ("c", None, {"id": 10, "name": "end"})
    ]


def test_x_44_the_server_is_told_only_of_transactions_that_are_in_their_topics_whole(
    changes: Changes,
) -> None:
    task = changes.task()
    task.poll()
    changes.run("insert into t values (1, 'a'), (2, 'b')")
    changes.run("insert into t values (3, 'c')")
    records = polled_until(task, 3)
    changes.acknowledge(task, [records[0], records[2]])
    task.stop()
    first, _, last = [each.source_offset["lsn"] for each in records]
    assert changes.confirmed() < first
    task = changes.task()
    for _ in range(50):  # what comes again was handed out before
        with suppress(Retry):
            assert task.poll() is None
        if task._progress.confirmed > last:
            break
    task.stop()
    assert changes.confirmed() > last


def test_x_44_snapshot_and_stream_meet_without_a_gap_or_a_double(changes: Changes) -> None:
    changes.run("insert into t select n, 'old' from generate_series(1, 5) n")
    task = changes.task(snapshot_mode="initial", batch_max_rows=2)
    early = task.poll() or []
    changes.run("insert into t values (6, 'new')", "update t set name = 'later' where id = 5")
    rest = polled_until(task, 5)
    records = [*early, *rest]
    facts = [(each.value["op"], each.key["id"], each.value["after"]["name"]) for each in records]
    assert facts == [
        *[("r", n, "old") for n in range(1, 6)], ("c", 6, "new"), ("u", 5, "later"),
    ]  # fmt: skip
    changes.acknowledge(task, records[:5])
    kill(task)
    again = polled_until(changes.task(snapshot_mode="initial"), 2)
    assert [each.value["op"] for each in again] == ["c", "u"]


def test_x_44_a_snapshot_that_was_killed_begins_anew(changes: Changes) -> None:
    changes.run("insert into t select n, 'old' from generate_series(1, 5) n")
    task = changes.task(snapshot_mode="initial", batch_max_rows=2)
    changes.acknowledge(task, task.poll() or [])
    kill(task)
    changes.run("insert into t values (6, 'new')")
    records = polled_until(changes.task(snapshot_mode="initial"), 6)
    assert [(each.value["op"], each.key["id"]) for each in records] == [
        ("r", n) for n in range(1, 7)
    ]


def test_x_44_transactions_of_the_database_are_those_of_the_connector(changes: Changes) -> None:
    changes.run("insert into t values (1, 'old')")
    task = changes.task(bounded=True, snapshot_mode="initial", batch_max_rows=2)
    snapshot = polled_until(task, 1)
    changes.run("insert into t select n, 'x' from generate_series(2, 6) n")
    changes.run("insert into t values (7, 'y')")
    records = [*snapshot, *polled_until(task, 6)]
    assert [each.key["id"] for each in records] == [1, 2, 3, 4, 5, 6, 7]
    ends = [each.key["id"] for each in changes.transactions.ends if each is not None]
    assert ends == [1, 6, 7]


def test_x_44_large_values_that_did_not_change(changes: Changes) -> None:
    changes.run(
        "alter table t add big text, add raw bytea, alter big set storage external",
        "insert into t values (1, 'a', repeat('x', 9000), decode(repeat('00ff', 5000), 'hex'))",
    )
    task = changes.task(unavailable_value_placeholder="?")
    changes.run("alter table t alter raw set storage external")
    changes.run("update t set raw = raw || '\\x01'", "update t set name = 'b'")
    one, two = polled_until(task, 2)
    assert (one.value["after"]["big"], len(one.value["after"]["raw"])) == ("?", 10001)
    assert two.value["after"] == {"id": 1, "name": "b", "big": "?", "raw": b"?"}
    changes.run("alter table t replica identity full")
    changes.run("update t set name = 'c'", "delete from t")
    three, four, _ = polled_until(task, 3)
    assert three.value["after"]["big"] == "x" * 9000
    assert three.value["before"]["name"] == "b"
    assert (three.key, four.key) == ({"id": 1}, {"id": 1})
    assert four.value["before"]["big"] == "x" * 9000


def test_x_44_ddl_is_followed(changes: Changes) -> None:
    task = changes.task(after_state_only="true")
    changes.run("insert into t values (1, 'a')")
    changes.run("alter table t add price numeric(8, 2)", "insert into t values (2, 'b', 1.5)")
    changes.run("alter table t drop name", "insert into t values (3, 2)")
    changes.run("alter table t rename to u", "insert into u values (4, 3)", "delete from u")
    records = polled_until(task, 8)
    assert [each.value for each in records] == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b", "price": Decimal("1.50")},
        {"id": 3, "price": Decimal("2.00")},
        {"id": 4, "price": Decimal("3.00")},
        None, None, None, None,
    ]  # fmt: skip
    assert [each.topic for each in records] == [*["db.public.t"] * 3, *["db.public.u"] * 5]
    assert schema_types(records[1].value_schema) == {
        "id": "int32", "name": "string?", "price": "Decimal?",
    }  # fmt: skip


def test_values_of_the_snapshot_and_of_the_stream_are_equal(changes: Changes) -> None:
    changes.run(
        "drop table t",
        "create table t (id bigint primary key, a smallint, b real, c double precision, d boolean, "
        "e date, f time, g timestamp, h timestamptz, i bytea, j char(3), k uuid, l jsonb, "
        "m integer[], n numeric, o interval, p timestamp)",
    )
    insert = (
        "insert into t values ({}, 2, 0.5, 0.1, true, '2026-01-02', '03:04:05.5', "
        "'2026-01-02 03:04:05.123456', '2026-01-02 03:04:05+02', '\\x00ff', 'a', "
        "'00000000-0000-0000-0000-000000000001', '{{\"a\": 1}}', '{{1,2}}', 1.10, '1 day', "
        "'infinity')"
    )
    changes.run(insert.format(1))
    task = changes.task(snapshot_mode="initial", after_state_only="true")
    old = polled_until(task, 1)
    changes.run(insert.format(2), "insert into t (id) values (3)")
    new, empty = polled_until(task, 2)
    assert old[0].value == {**new.value, "id": 1} == {
        "id": 1, "a": 2, "b": 0.5, "c": 0.1, "d": True, "e": date(2026, 1, 2),
        "f": time(3, 4, 5, 500000), "g": datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
        "h": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC), "i": b"\x00\xff", "j": "a  ",
        "k": "00000000-0000-0000-0000-000000000001", "l": '{"a": 1}', "m": "{1,2}", "n": "1.10",
        "o": "1 day", "p": datetime.max.replace(tzinfo=UTC),
    }  # fmt: skip
    assert empty.value == {**dict.fromkeys(new.value), "id": 3}
    assert old[0].value_schema == new.value_schema


def test_x_44_a_slot_that_lags_too_far_is_dropped_before_the_disk_is_full(
    changes: Changes,
) -> None:
    task = changes.task(slot_max_lag_bytes=100_000)
    task.poll()
    changes.run("insert into t select n, repeat('x', 1000) from generate_series(1, 500) n")
    task._look_at = 0
    with pytest.raises(ConnectError, match=r"more than slot\.max\.lag\.bytes=100000: it was drop"):
        polled_until(task, 10_000)
    assert rows(changes.engine, "select count(*) from pg_replication_slots") == [(0,)]
    changes.offsets.kept[(("slot", changes.slot),)] = {"lsn": 1, "event": 1}
    with pytest.raises(ConnectError, match="is gone, and with it the changes since"):
        changes.task(snapshot_mode="initial")
    again = polled_until(changes.task(snapshot_mode="when_needed"), 500)
    assert {each.value["op"] for each in again} == {"r"}


def test_x_44_a_lost_connection_is_made_anew_and_nothing_is_doubled(changes: Changes) -> None:
    task = changes.task(batch_max_rows=2)
    changes.run("insert into t select n, 'x' from generate_series(1, 5) n")
    records = list(task.poll() or ())
    changes.run(TERMINATE)
    changes.run("insert into t values (6, 'y')")
    records += polled_until(task, 6 - len(records))
    assert [each.key["id"] for each in records] == [1, 2, 3, 4, 5, 6]


def test_an_idle_table_keeps_no_log(changes: Changes) -> None:
    task = changes.task()
    task.poll()
    begin = task._progress.confirmed
    changes.run("create table other (n integer)", "insert into other values (1)")
    (written,) = rows(changes.engine, "select (pg_current_wal_lsn() - '0/0')::int8")
    for _ in range(50):
        task.poll()
        if task._progress.confirmed >= written[0]:
            break
    task.stop()
    assert changes.confirmed() >= written[0] > begin


def test_what_cannot_work_is_refused(changes: Changes) -> None:
    for keys, words in (
        ({"slot_name": "No Such"}, "must be of a-z"),
        ({"snapshot_mode": "often"}, "must be one of initial"),
    ):
        with pytest.raises(BadConfig, match=words):
            PostgresSource.config.parse(changes.props(**keys))
    changes.task()
    changes.run("create table more (id integer primary key)")
    with pytest.raises(ConnectError, match=r"ALTER PUBLICATION slot_.* ADD TABLE public\.more"):
        changes.task(tables="public.t,public.more")
    with pytest.raises(ConnectError, match="reads postgresql:// only"):
        changes.task(connection_url="sqlite://")
    support = PostgresSource().exactly_once_support
    assert support(changes.props())
    assert not support(changes.props(snapshot_mode="initial"))
    assert support({**changes.props(snapshot_mode="initial"), "transaction.boundary": "connector"})
    assert PostgresSource().alter_offsets({}, {(("slot", "x"),): None})
    with pytest.raises(ConnectError, match="only a reset"):
        PostgresSource().alter_offsets({}, {(("slot", "x"),): {"lsn": 1}})


def test_what_the_address_asks_of_the_connection_is_done(changes: Changes) -> None:
    asked = {
        "connection.url": f"{changes.url}?connect_timeout=3&options=-cstatement_timeout%3D7s",
        "connection.user": None, "connection.password": None,
        "slot.name": "s", "publication.name": "p",
    }  # fmt: skip
    found = Server(asked).ask("select current_setting(n) from unnest(%s) n", ASKED)
    assert found == [("7s",), ("UTC",)]


def test_the_rest_of_a_transaction_is_waited_for(changes: Changes) -> None:
    """Else a worker polls without a pause while a record is kept until its commit comes."""

    class Silent:
        reached, waits = 0, 0

        def next(self) -> None:
            return None

        def wait(self, seconds: float) -> None:
            self.waits += 1

    task, silent = changes.task(bounded=True), Silent()
    task._gathered = [SourceRecord(topic="t", value=1, source_partition={}, source_offset={})]
    task._receive(silent)  # type: ignore[arg-type]
    assert silent.waits == 1
