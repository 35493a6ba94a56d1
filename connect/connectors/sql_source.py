"""SqlSource: rows of tables or of a query become records, by polling.

A task reads some of the tables, or the query. It sees inserts, and updates that change the time of
a row; it sees no deletes: that is what PostgresSource is there for.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from ..api import ConnectError, ConnectorContext, Props, SourceConnector, SourceContext, SourceTask
from ..data import Schema
from ..records import SourceRecord
from .database import Database, parse_name, told
from .failures import Patience
from .sql_reader import MomentColumn, OrderColumn, OrderedReader, Place, Row, RowFields
from .sql_source_config import SQL_SOURCE, table_names
from .sql_types import TypeReading

log = logging.getLogger(__name__)
_TASK_TABLES = "task.tables"
"""The key of a task's configuration that names its tables."""
_QUERY = "minikafka_query"
_COLON = re.compile(r"(?<![:\w\\]):(?=\w)")
"""A colon that would begin a parameter in SQLAlchemy's texts."""
_KEYS = (sa.Integer, sa.String)
"""Types of primary keys that order rows of equal time."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SqlSourceTask(SourceTask):
    """Reads some tables in turn, each in order."""

    def start(self, props: Props, context: SourceContext) -> None:
        """Connect, and go on where the offsets of each table say."""
        super().start(props, context)
        settings = SQL_SOURCE.parse(props)
        self._database = Database(settings)
        self._size: int = settings["batch.max.rows"]
        self._interval_s: float = settings["poll.interval.ms"] / 1000
        self._patience = Patience(
            settings["connection.attempts"] - 1, settings["connection.backoff.ms"]
        )
        named = props.get(_TASK_TABLES, "")
        names = [None] if settings["query"] else [each for each in named.split(",") if each]
        self._parts = [_Part(self._database, name, settings, context) for name in names]
        self._due = dict.fromkeys(self._parts, 0.0)

    def poll(self) -> list[SourceRecord] | None:
        """Return rows of the table that waited the longest."""
        now = time.monotonic()
        part = min(self._parts, key=self._due.__getitem__, default=None)
        if part is None or self._due[part] > now:
            left = self._due[part] - now if part is not None else self._interval_s
            time.sleep(min(left, self.context.poll_timeout_ms / 1000))
            return None
        try:
            records, more = part.read(self._size)
        except exc.SQLAlchemyError as error:
            part.forget()
            raise self._patience.after(f"{part.name} cannot be read: {told(error)}") from None
        self._patience.calm()
        self._due[part] = now if more else time.monotonic() + self._interval_s
        return records or None

    def stop(self) -> None:
        """Disconnect."""
        if hasattr(self, "_database"):
            for part in getattr(self, "_parts", ()):
                part.forget()
            self._database.close()


class _Part:
    """One table, or the query: the way it is read, and how far it was."""

    def __init__(
        self,
        database: Database,
        table: str | None,
        settings: Mapping[str, Any],
        context: SourceContext,
    ) -> None:
        self._database, self._settings = database, settings
        self._table = table
        self.name = f"table {table}" if table is not None else "the query"
        self._topic = settings["topic.prefix"] + (parse_name(table)[1] if table else "")
        self._partition: dict[str, Any] = (
            {"protocol": "1", "table": table} if table is not None else {"query": "query"}
        )
        self._offset = context.offsets.read(self._partition)
        best_fit = settings["numeric.mapping"] == "best_fit"
        types = TypeReading(database.dialect, database.zone, best_fit)
        self._fields = RowFields(self._topic if table is None else parse_name(table)[1], types)
        self._reader: OrderedReader | None = None
        self._look_every_s: float = settings["table.poll.interval.ms"] / 1000
        self._look_again = 0.0
        self._place: Place | None = None
        self._bulk: _BulkRead | None = None
        self._horizon = _Horizon(settings["incrementing.delay.interval.ms"], time.monotonic)

    def read(self, size: int) -> tuple[list[SourceRecord], bool]:
        """Return records of the next rows, and whether there may be more at once."""
        if self._settings["mode"] == "bulk":
            return self._read_bulk(size)
        with self._database.engine.connect() as connection:
            if self._reader is None or time.monotonic() >= self._look_again:
                self._reader = self._open(connection)
                self._look_again = time.monotonic() + self._look_every_s
            limits = self._limits(connection, self._reader)
            batch, place = self._reader.read(connection, self._place, limits, size)
        if self._table is None and batch.rows:
            self._fields.of_query(batch.names, batch.rows)
        self._place = place
        return self._records(batch.rows, batch.offsets), batch.more

    def forget(self) -> None:
        """Drop what hangs on a connection, and what is known of the table's columns."""
        self._reader = None
        if self._bulk is not None:
            self._bulk.close()
            self._bulk = None

    def _records(
        self, rows: Sequence[Row], offsets: Sequence[Mapping[str, Any]]
    ) -> list[SourceRecord]:
        schema: Schema | None = self._fields.schema
        return [
            SourceRecord(
                topic=self._topic,
                value=self._fields.value(row),
                value_schema=schema,
                source_partition=self._partition,
                source_offset=offset,
            )
            for row, offset in zip(rows, offsets, strict=True)
        ]

    def _read_bulk(self, size: int) -> tuple[list[SourceRecord], bool]:
        if self._bulk is None:
            fields, source = self._columns()
            statement = sa.select(*fields).select_from(source)
            self._bulk = _BulkRead(self._database, statement, size)
        rows, more = self._bulk.next()
        if self._table is None and rows:
            self._fields.of_query(self._bulk.names, rows)
        if not more:
            self.forget()
        return self._records(rows, [{}] * len(rows)), more

    def _columns(self) -> tuple[list[Any], sa.FromClause]:
        """Return what is selected, and the table or the query that it is selected from."""
        if self._table is not None:
            schema, name = parse_name(self._table)
            table = self._database.table(name, schema)
            self._fields.of_table(list(table.columns))
            return list(table.columns), table
        moments = [sa.column(each, sa.DateTime()) for each in self._named("timestamp.column.name")]
        numbers = [
            sa.column(each, sa.BigInteger()) for each in self._named("incrementing.column.name")
        ]
        text = sa.text(_COLON.sub(r"\\:", self._settings["query"]))
        query = text.columns(*moments, *numbers).subquery(_QUERY)
        return [sa.literal_column(f"{_QUERY}.*", sa.types.NULLTYPE)], query

    def _named(self, key: str) -> list[str]:
        """Return the columns that a key names."""
        value = self._settings[key]
        return [each for each in ([value] if isinstance(value, str) else value) if each]

    def _open(self, connection: sa.Connection) -> OrderedReader:
        """Find the columns that order the rows, and the place where reading goes on."""
        fields, source = self._columns()
        mode = self._settings["mode"]
        order: list[OrderColumn] = []
        if "timestamp" in mode:
            named = self._named("timestamp.column.name")
            order.append(
                MomentColumn([self._column(source, each) for each in named], self._database)
            )
        is_unique = "incrementing" in mode
        if is_unique:
            name = self._settings["incrementing.column.name"] or _only_key(source)
            order.append(OrderColumn(self._column(source, name), "incrementing"))
        elif isinstance(source, sa.Table):
            keys = list(source.primary_key.columns)
            is_unique = bool(keys) and all(isinstance(each.type, _KEYS) for each in keys)
            order.extend(OrderColumn(each, None) for each in keys if is_unique)
        reader = OrderedReader(fields, order, source, is_unique)
        if self._place is None:
            self._place = reader.offsets.place(self._offset)
        if self._place is None and "timestamp" in mode:
            self._place = self._initial(connection)
        return reader

    def _initial(self, connection: sa.Connection) -> Place | None:
        initial = self._settings["timestamp.initial"]
        if initial is None:
            return None
        now = self._database.now(connection)
        return (now if initial == -1 else _EPOCH + timedelta(milliseconds=initial),)

    def _column(self, source: sa.FromClause, name: str) -> sa.ColumnElement[Any]:
        column = source.columns.get(name)
        if column is None:
            raise ConnectError(f"{self.name} has no column {name}")
        may_be_null = isinstance(column, sa.Column) and column.nullable and not column.primary_key
        if may_be_null and self._settings["validate.non.null"]:
            raise ConnectError(
                f"column {name} of {self.name} may be null, and such rows are never read; "
                "make it NOT NULL, or set validate.non.null=false"
            )
        return column

    def _limits(self, connection: sa.Connection, reader: OrderedReader) -> dict[int, Any]:
        """Return how far it may be read now, so that what becomes visible later is not lost."""
        if "timestamp" in self._settings["mode"]:
            delay = timedelta(milliseconds=self._settings["timestamp.delay.interval.ms"])
            return {0: self._database.now(connection) - delay}
        if self._horizon.delay_ms == 0:
            return {}
        limit = self._horizon.after(reader.newest(connection))
        return {0: 0 if limit is None else limit + 1}


class _Horizon:
    """The highest number that was there a while ago."""

    def __init__(self, delay_ms: int, clock: Callable[[], float]) -> None:
        self.delay_ms, self._clock = delay_ms, clock
        self._seen: deque[tuple[float, int]] = deque()
        self._reached: int | None = None

    def after(self, newest: int | None) -> int | None:
        """Take the highest number of now; return that of `delay_ms` ago, None if there was none."""
        now = self._clock()
        if newest is not None and (not self._seen or newest > self._seen[-1][1]):
            self._seen.append((now, newest))
        while self._seen and now - self._seen[0][0] >= self.delay_ms / 1000:
            self._reached = self._seen.popleft()[1]
        return self._reached


class _BulkRead:
    """One reading of everything, over several batches: the rows as they were at its start."""

    def __init__(self, database: Database, statement: sa.Select[Any], size: int) -> None:
        self._size = size
        self._connection = database.engine.connect()
        options = {"stream_results": True, "max_row_buffer": size}
        try:
            self._result = self._connection.execute(statement, execution_options=options)
        except BaseException:
            self._connection.close()
            raise
        self.names = list(self._result.keys())

    def next(self) -> tuple[list[Row], bool]:
        """Return the next rows, and whether there may be more."""
        rows: list[Row] = list(self._result.fetchmany(self._size))
        return rows, len(rows) == self._size

    def close(self) -> None:
        """Give the connection back."""
        self._result.close()
        self._connection.close()


def _only_key(source: sa.FromClause) -> str:
    keys = list(source.primary_key.columns) if isinstance(source, sa.Table) else []
    if len(keys) != 1:
        raise ConnectError(
            f"table {source} has a primary key of {len(keys)} columns; name the one that grows in "
            "incrementing.column.name"
        )
    return keys[0].name


class SqlSource(SourceConnector):
    """Polls the tables of a database for rows that are new or changed."""

    task = SqlSourceTask
    config = SQL_SOURCE

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Look which tables there are, and go on looking where none are named."""
        super().start(props, context)
        self._settings = SQL_SOURCE.parse(props)
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None
        self._tables = table_names(self._settings)
        if self._tables or self._settings["query"]:
            return
        self._tables = self._found()
        self._watch = threading.Thread(target=self._look_again, name="sql-tables", daemon=True)
        self._watch.start()

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Deal the tables out."""
        if self._settings["query"]:
            return [self.props]
        count = min(max_tasks, len(self._tables))
        return [
            {**self.props, _TASK_TABLES: ",".join(self._tables[index::count])}
            for index in range(count)
        ]

    def stop(self) -> None:
        """Look no longer for tables."""
        if hasattr(self, "_stopped"):
            self._stopped.set()

    def exactly_once_support(self, props: Props) -> bool:
        """Return True if a delay is set, beyond which no transaction with lower values commits."""
        settings = SQL_SOURCE.parse(props)
        delay = {"incrementing": "incrementing.delay.interval.ms"}.get(
            settings["mode"], "timestamp.delay.interval.ms"
        )
        return bool(settings["mode"] != "bulk" and settings[delay] > 0)

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse offsets of what is no table or query, and such that are no numbers."""
        for partition, offset in offsets.items():
            if "table" not in dict(partition) and "query" not in dict(partition):
                raise ConnectError(f"partition {dict(partition)} has neither table nor query")
            for name, value in (offset or {}).items():
                if name in ("incrementing", "timestamp") and not isinstance(value, int):
                    raise ConnectError(f"offset {name} of {dict(partition)} must be a number")
        return True

    def _found(self) -> list[str]:
        database = Database(self._settings)
        try:
            left_out = self._settings["table.blacklist"]
            return [name for name in database.tables() if name not in left_out]
        except exc.SQLAlchemyError as error:
            raise ConnectError(f"the tables cannot be listed: {told(error)}") from None
        finally:
            database.close()

    def _look_again(self) -> None:
        while not self._stopped.wait(self._settings["table.poll.interval.ms"] / 1000):
            try:
                found = self._found()
            except ConnectError as error:
                log.warning("%s; trying again later", error)
                continue
            if found != self._tables:
                self._tables = found
                self.context.request_reconfiguration()
