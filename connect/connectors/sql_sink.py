"""SqlSink: records become rows, each exactly once.

The rows of a batch and the offsets behind it are written in one transaction (`sql_offsets`), and
reading goes on where the database says. The group's offsets are committed for lag alone.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import mysql, postgresql, sqlite

from ...protocol.types import TopicPartition
from ..api import ConnectError, Props, SinkConnector, SinkContext, SinkTask
from ..data import INT32, INT64, STRING, Schema, SchemaType
from ..records import SinkRecord
from .database import Database, may_pass, told
from .failures import Patience, report
from .sql_offsets import OffsetTable
from .sql_sink_config import KAFKA_COLUMNS, SQL_SINK, TOPIC
from .sql_tables import NewColumn, SinkTables

_KAFKA_SCHEMAS = (STRING, INT32, INT64)
_UPSERTS = ("postgresql", "sqlite", "mysql", "mariadb")
_SPOILED = (exc.SQLAlchemyError, ValueError, TypeError, OverflowError)
"""Errors of statements. Drivers raise Python's own for a value that they cannot send."""


class BadRecord(ConnectError):
    """A record cannot become a row; `errors.tolerance` decides what becomes of it."""


class Change(NamedTuple):
    """One row to write or to delete."""

    table: sa.Table
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    """Keys first; without any beyond them for a delete."""
    is_delete: bool
    row: tuple[Any, ...]


class SqlSinkTask(SinkTask):
    """Writes batches in transactions."""

    def start(self, props: Props, context: SinkContext) -> None:
        """Connect, and make the table of offsets."""
        super().start(props, context)
        self._settings = settings = SQL_SINK.parse(props)
        self._database = Database(settings)
        if settings["insert.mode"] == "upsert" and self._database.dialect not in _UPSERTS:
            raise ConnectError(
                f"insert.mode=upsert is known for {', '.join(_UPSERTS)}, "
                f"not for {self._database.dialect}"
            )
        self._rows = _Rows(self._database, settings)
        self._offsets = OffsetTable(
            self._database.engine, props["name"], settings["offsets.schema"] or None
        )
        self._patience = Patience(settings["max.retries"], settings["retry.backoff.ms"])
        self._is_in_doubt = False
        try:
            self._offsets.create()
        except exc.SQLAlchemyError as error:
            raise ConnectError(
                f"the table of offsets cannot be made: {told(error)}; the user needs the right to "
                "create tables, or the table as docs/connectors.md tells it"
            ) from None

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Take the partitions from their last task, and go on where the database says."""
        for each in partitions:
            try:
                offset = self._offsets.claim(each)
            except exc.SQLAlchemyError as error:
                raise ConnectError(f"offsets cannot be read: {told(error)}") from None
            if offset is not None:
                self.context.seek(each, offset)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write what is not in the database yet."""
        try:
            if self._is_in_doubt:
                self._offsets.look_again()
                self._is_in_doubt = False
            fresh = [
                each for each in records if each.offset >= self._offsets.next_offset(each.origin)
            ]
            size = self._settings["batch.size"]
            for start in range(0, len(fresh), size):
                self._write(fresh[start : start + size])
        except exc.SQLAlchemyError as error:
            self._is_in_doubt = True
            self._rows.tables.forget()
            raise self._patience.after(f"cannot write: {told(error)}") from None
        self._patience.calm()

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Give the partitions back."""
        self._offsets.release(partitions)

    def stop(self) -> None:
        """Disconnect."""
        if hasattr(self, "_database"):
            self._database.close()

    def _write(self, records: Sequence[SinkRecord]) -> None:
        """Write a batch in one transaction; if a record spoils it, each record in its own."""
        changes: list[tuple[SinkRecord, Change | None]] = []
        for record in records:
            try:
                changes.append((record, self._rows.change(record)))
            except BadRecord as error:
                report(self.context, record, error)
                changes.append((record, None))
        try:
            self._transaction(changes)
        except _SPOILED as error:
            if may_pass(error):
                raise
        else:
            return
        self._rows.tables.forget()
        for each in changes:
            self._write_alone(*each)

    def _write_alone(self, record: SinkRecord, change: Change | None) -> None:
        try:
            self._transaction([(record, change)])
        except _SPOILED as error:
            if may_pass(error):
                raise
            bad = BadRecord(_about(record, told(error)))
        else:
            return
        report(self.context, record, bad)
        self._transaction([(record, None)])

    def _transaction(self, written: Sequence[tuple[SinkRecord, Change | None]]) -> None:
        """Write changes and the offsets behind all these records."""
        offsets = {record.origin: record.offset + 1 for record, _ in written}
        changes = [change for _, change in written if change is not None]
        with self._database.engine.begin() as connection:
            self._offsets.move(connection, offsets)
            for _, group in groupby(changes, key=lambda each: (*each[1:4], each.table.fullname)):
                same = list(group)
                names = [f"p{index}" for index in range(len(same[0].columns))]
                rows = [dict(zip(names, each.row, strict=True)) for each in same]
                statement = self._rows.statement(same[0], names)
                if statement is not None:
                    connection.execute(statement, rows)
        self._offsets.moved(offsets)


class _Rows:
    """Makes changes of records, and statements of changes."""

    def __init__(self, database: Database, settings: Mapping[str, Any]) -> None:
        self._database = database
        self._mode: str = settings["insert.mode"]
        self._key_mode: str = settings["pk.mode"]
        self._key_fields = tuple(each for each in settings["pk.fields"] if each)
        self._whitelist = tuple(each for each in settings["fields.whitelist"] if each)
        self._deletes: bool = settings["delete.enabled"]
        self._format: str = settings["table.name.format"]
        self.tables = SinkTables(
            database, create=settings["auto.create"], evolve=settings["auto.evolve"]
        )

    def change(self, record: SinkRecord) -> Change:
        """Return what a record does to a table. Raise BadRecord if it can do nothing."""
        try:
            return self._change(record)
        except (ConnectError, ValueError, TypeError) as error:
            raise BadRecord(_about(record, str(error))) from None

    def _change(self, record: SinkRecord) -> Change:
        keys = self._key(record)
        is_delete = record.value is None
        if is_delete and not self._deletes:
            raise ConnectError("it has no value, and delete.enabled is false")
        fields = dict(keys)
        if not is_delete:
            for name, (value, schema) in _fields(record.value, record.value_schema).items():
                if name not in fields and (not self._whitelist or name in self._whitelist):
                    fields[name] = (value, schema)
        new = [NewColumn(name, schema, name in keys) for name, (_, schema) in fields.items()]
        # A point in the name of a topic is no end of a schema's name.
        schema_name, _, plain = self._format.rpartition(".")
        table = self.tables.fitting(
            (schema_name.replace(TOPIC, record.topic) or None, plain.replace(TOPIC, record.topic)),
            new,
        )
        binds = self.tables.binds(table)
        row = []
        for name, (value, _) in fields.items():
            bind = binds[name]
            row.append(value if bind is None or value is None else bind(value))
        return Change(table, tuple(keys), tuple(fields), is_delete, tuple(row))

    def _key(self, record: SinkRecord) -> dict[str, tuple[Any, Schema | None]]:
        """Return the columns of the primary key: value and schema by name."""
        if self._key_mode == "none":
            return {}
        if self._key_mode == "kafka":
            place = (record.origin.topic, record.origin.partition, record.offset)
            names = self._key_fields or KAFKA_COLUMNS
            return dict(zip(names, zip(place, _KAFKA_SCHEMAS, strict=True), strict=True))
        if self._key_mode == "record_value":
            return self._chosen("value", _fields(record.value, record.value_schema))
        if record.key is None:
            raise ConnectError("it has no key, and pk.mode is record_key")
        if isinstance(record.key, Mapping):
            return self._chosen("key", _fields(record.key, record.key_schema))
        if len(self._key_fields) != 1:
            raise ConnectError("its key is no struct: pk.fields must have one name")
        return {self._key_fields[0]: (record.key, record.key_schema)}

    def _chosen(
        self, what: str, fields: Mapping[str, tuple[Any, Schema | None]]
    ) -> dict[str, tuple[Any, Schema | None]]:
        missing = [name for name in self._key_fields if name not in fields]
        if missing:
            raise ConnectError(f"its {what} has no field {', '.join(missing)} of pk.fields")
        return {name: fields[name] for name in self._key_fields or fields}

    def statement(self, change: Change, names: Sequence[str]) -> Any:
        """Return the statement of changes like this one; None if it would change nothing."""
        table, keys = change.table, change.keys
        bound = {
            column: sa.bindparam(name, type_=table.columns[column].type)
            for column, name in zip(change.columns, names, strict=True)
        }
        is_key = [table.columns[key] == bound[key] for key in keys]
        rest = {name: value for name, value in bound.items() if name not in keys}
        if change.is_delete:
            return table.delete().where(*is_key)
        if self._mode == "update":
            return table.update().where(*is_key).values(rest) if rest else None
        if self._mode == "insert":
            return table.insert().values(bound)
        if self._database.dialect in ("mysql", "mariadb"):
            insert = mysql.insert(table).values(bound)
            again = {name: insert.inserted[name] for name in rest or keys}
            return insert.on_duplicate_key_update(again)
        maker = sqlite.insert if self._database.dialect == "sqlite" else postgresql.insert
        upsert = maker(table).values(bound)
        if not rest:
            return upsert.on_conflict_do_nothing(index_elements=keys)
        return upsert.on_conflict_do_update(
            index_elements=keys, set_={name: upsert.excluded[name] for name in rest}
        )


def _fields(value: Any, schema: Schema | None) -> dict[str, tuple[Any, Schema | None]]:
    """Return value and schema of each field of a struct."""
    if not isinstance(value, Mapping):
        raise ConnectError(f"a struct is needed, found a value of type {type(value).__name__}")
    if schema is None or schema.type is not SchemaType.STRUCT:
        return {str(name): (each, None) for name, each in value.items()}
    return {name: (value.get(name), each) for name, each in schema.fields}


def _about(record: SinkRecord, why: str) -> str:
    origin = record.origin
    return f"the record at {origin.topic}-{origin.partition}, offset {record.offset}: {why}"


class SqlSink(SinkConnector):
    """Writes topics into tables."""

    task = SqlSinkTask
    config = SQL_SINK

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return as many tasks as there may be: they share the partitions."""
        return [self.props] * max_tasks

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Set the offsets in the database, which count."""
        database = Database(SQL_SINK.parse(props))
        try:
            schema = SQL_SINK.parse(props)["offsets.schema"] or None
            OffsetTable(database.engine, props["name"], schema).alter(
                {
                    partition: None if offset is None else int(offset["kafka_offset"])
                    for partition, offset in offsets.items()
                }
            )
        except exc.SQLAlchemyError as error:
            raise ConnectError(f"the offsets cannot be set: {told(error)}") from None
        finally:
            database.close()
        return True
