"""The tables that a SQL sink writes: found, created and widened as records need it."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import DDLElement

from ..api import ConnectError
from ..data import Schema
from .database import Database
from .sql_types import column_type

Bind = Callable[[Any], Any]
TableName = tuple[str | None, str]
"""Schema, None for the default one, and table."""


class NewColumn(NamedTuple):
    """A field of a record as a column."""

    name: str
    schema: Schema | None
    is_key: bool


class AddColumn(DDLElement):
    """ALTER TABLE ADD of one column."""

    inherit_cache = False

    def __init__(self, table: sa.Table, column: sa.Column[Any]) -> None:
        self.table, self.column = table, column


@compiles(AddColumn)
def _add_column(element: AddColumn, compiler: Any, **_: Any) -> str:
    table = compiler.preparer.format_table(element.table)
    return f"ALTER TABLE {table} ADD {compiler.get_column_specification(element.column)}"


class SinkTables:
    """The tables by the names that records have for them, as they were when last looked at."""

    def __init__(self, database: Database, *, create: bool, evolve: bool) -> None:
        self._database, self._create, self._evolve = database, create, evolve
        self._tables: dict[TableName, sa.Table] = {}
        self._binds: dict[TableName, dict[str, Bind | None]] = {}

    def forget(self) -> None:
        """Look at all tables again when they are needed next."""
        self._tables.clear()

    def fitting(self, name: TableName, columns: Sequence[NewColumn]) -> sa.Table:
        """Return the table with all these columns. Raise ConnectError if it is not to be had."""
        table = self._tables.get(name)
        if table is None:
            table = self._found(name, columns)
        missing = [each for each in columns if each.name not in table.columns]
        if missing:
            table = self._widened(name, missing)
        return table

    def binds(self, table: sa.Table) -> Mapping[str, Bind | None]:
        """Return by column what makes a parameter of a field's value; None leaves it."""
        return self._binds[table.schema, table.name]

    def _found(self, name: TableName, columns: Sequence[NewColumn]) -> sa.Table:
        schema, plain = name
        try:
            return self._keep(name, self._database.table(plain, schema))
        except exc.NoSuchTableError:
            if not self._create:
                raise ConnectError(
                    f"table {plain} is not there; create it, or set auto.create=true"
                ) from None
        made = [self._column(plain, each) for each in columns]
        try:
            sa.Table(plain, sa.MetaData(), *made, schema=schema).create(self._database.engine)
        except (exc.ProgrammingError, exc.OperationalError):
            if not sa.inspect(self._database.engine).has_table(plain, schema):
                raise  # and not made by another task at the same time
        return self._keep(name, self._database.table(plain, schema))

    def _widened(self, name: TableName, missing: Sequence[NewColumn]) -> sa.Table:
        schema, plain = name
        table = self._keep(name, self._database.table(plain, schema))
        for each in missing:
            if each.name in table.columns:
                continue
            if not self._evolve:
                raise ConnectError(
                    f"table {plain} has no column {each.name}; add it, or set auto.evolve=true"
                )
            if each.is_key or each.schema is None or not each.schema.optional:
                raise ConnectError(
                    f"column {each.name} cannot be added to table {plain}, since its field is not "
                    "optional, has no schema, or is a part of the primary key"
                )
            self._add(table, self._column(plain, each))
        return self._keep(name, self._database.table(plain, schema))

    def _add(self, table: sa.Table, column: sa.Column[Any]) -> None:
        try:
            with self._database.engine.begin() as connection:
                connection.execute(AddColumn(table, column))
        except (exc.ProgrammingError, exc.OperationalError):
            found = sa.inspect(self._database.engine).get_columns(table.name, table.schema)
            if column.name not in [each["name"] for each in found]:
                raise  # and not added by another task at the same time

    def _column(self, table: str, new: NewColumn) -> sa.Column[Any]:
        if new.schema is None:
            raise ConnectError(
                f"table {table} cannot be created: field {new.name} has no schema; use a converter "
                "that gives schemas, or create the table"
            )
        kind = column_type(new.schema, self._database.dialect, in_key=new.is_key)
        nullable = new.schema.optional and not new.is_key
        return sa.Column(
            new.name, kind, primary_key=new.is_key, nullable=nullable, autoincrement=False
        )

    def _keep(self, name: TableName, table: sa.Table) -> sa.Table:
        self._tables[name] = table
        self._binds[name] = {each.name: self._bind(each.type) for each in table.columns}
        return table

    def _bind(self, kind: Any) -> Bind | None:
        if isinstance(kind, sa.DateTime):
            return lambda value: self._moment(value, kind)
        for types, parse in _PARSERS:
            if isinstance(kind, types):
                return lambda value: parse(value) if isinstance(value, str) else value
        if isinstance(kind, sa.String):
            return lambda value: (
                format(value, "f") if isinstance(value, Decimal) else _scalar(value)
            )
        return None if isinstance(kind, sa.ARRAY) else _scalar

    def _moment(self, value: Any, kind: Any) -> Any:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return self._database.in_zone(moment, kind)
        return moment


_PARSERS: tuple[tuple[type[Any], Bind], ...] = (
    (sa.Date, date.fromisoformat),
    (sa.Time, time.fromisoformat),
    (sa.JSON, json.loads),
)
"""Makes values of columns of texts, as they come without a schema."""


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise ValueError(
            "a struct, a map or an array needs a column of type JSON; take it apart with the "
            "transformation Flatten, or drop it with ReplaceField"
        )
    return value
