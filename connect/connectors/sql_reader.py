"""Reading of one table or query in batches, from a place that an offset tells.

A place is the values of the columns that order the rows. A batch never ends within rows of equal
place, and no row before the last of them has the offset of its own place: so a restart repeats such
rows and skips none. Offsets are those of the JDBC connector.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import sqlalchemy as sa

from ..data import Schema
from .database import Database
from .sql_types import Read, TypeReading, struct_of

Row = Sequence[Any]
Place = tuple[Any, ...]
Limits = Mapping[int, Any]
"""By the index of an ordering column, the value that rows may not reach."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDER = "minikafka_order_"
_SQLITE_MOMENT = "%Y-%m-%d %H:%M:%f"


class Batch(NamedTuple):
    """Rows, the offset for each of them, and whether there may be more at once."""

    rows: list[Row]
    offsets: list[dict[str, Any]]
    more: bool
    names: list[str]
    """The names of the columns."""


class OrderColumn:
    """A column of numbers or texts that orders the rows."""

    def __init__(self, expression: sa.ColumnElement[Any], field: str | None) -> None:
        self.expression = expression
        self.field = field
        """The field of the offset; None puts the value into its list `key`."""

    def bind(self, value: Any) -> sa.ColumnElement[Any]:
        """Return a parameter that the column is compared with."""
        return sa.bindparam(None, value, self.expression.type, unique=True)


class MomentColumn(OrderColumn):
    """A column of times, or the first of several that has one."""

    def __init__(self, columns: Sequence[sa.ColumnElement[Any]], database: Database) -> None:
        first = columns[0]
        expression = sa.func.coalesce(*columns, type_=first.type) if columns[1:] else first
        self._text = database.dialect == "sqlite"
        if self._text:  # where 10:00 and 10:00.000 are different texts
            expression = sa.func.strftime(_SQLITE_MOMENT, expression, type_=sa.String())
        super().__init__(expression, "timestamp")
        self._database, self._type = database, first.type

    def bind(self, value: datetime) -> sa.ColumnElement[Any]:
        """Return a parameter for a moment in UTC."""
        there = self._database.in_zone(value, self._type)
        if self._text:
            return sa.literal(there.isoformat(" ", "milliseconds"))
        return sa.bindparam(None, there, self._type, unique=True)

    def moment(self, value: Any) -> datetime:
        """Return the moment in UTC of a value that the driver gave."""
        return self._database.to_utc(
            datetime.fromisoformat(value) if isinstance(value, str) else value
        )


class Offsets(NamedTuple):
    """Places as offsets, and back."""

    columns: Sequence[OrderColumn]

    def of(self, place: Place | None) -> dict[str, Any]:
        """Return the offset of a place; None is the place before all rows."""
        offset: dict[str, Any] = {}
        key = []
        for column, value in zip(self.columns, place or (), strict=False):
            if isinstance(column, MomentColumn):
                whole, part = divmod(value - _EPOCH, timedelta(seconds=1))
                offset["timestamp"] = whole * 1000 + part.microseconds // 1000
                offset["timestamp_nanos"] = part.microseconds * 1000
            elif column.field is not None:
                offset[column.field] = value
            else:
                key.append(value)
        return {**offset, "key": key} if key else offset

    def place(self, offset: Mapping[str, Any] | None) -> Place | None:
        """Return as much of the place as the offset tells; None if it tells nothing."""
        place: list[Any] = []
        key: Iterator[Any] = iter((offset or {}).get("key", ()))
        for column in self.columns:
            field = column.field
            value = next(key, None) if field is None else (offset or {}).get(field)
            if value is None:
                break
            if isinstance(column, MomentColumn):
                micros = (offset or {}).get("timestamp_nanos", value % 1000 * 1_000_000) // 1000
                value = _EPOCH + timedelta(seconds=value // 1000, microseconds=micros)
            place.append(value)
        return tuple(place) or None


class OrderedReader:
    """Reads what lies behind a place, in order."""

    def __init__(
        self,
        fields: Sequence[Any],
        columns: Sequence[OrderColumn],
        source: sa.FromClause,
        is_unique: bool,
    ) -> None:
        self._columns, self._source, self._is_unique = columns, source, is_unique
        labelled = [each.expression.label(f"{_ORDER}{i}") for i, each in enumerate(columns)]
        self._statement = (
            sa.select(*fields, *labelled)
            .select_from(source)
            .where(*[each.expression.is_not(None) for each in columns])
            .order_by(*[each.expression for each in columns])
        )
        self.offsets = Offsets(columns)

    def statement(self, place: Place | None, limits: Limits) -> sa.Select[Any]:
        """Return the query of the rows behind `place` and within `limits`."""
        columns = self._columns
        statement = self._statement
        for index, limit in limits.items():
            statement = statement.where(columns[index].expression < columns[index].bind(limit))
        if place is None:
            return statement
        same: list[Any] = []
        behind = []
        for column, value in zip(columns, place, strict=False):
            bound = column.bind(value)
            behind.append(sa.and_(*same, column.expression > bound))
            same.append(column.expression == bound)
        return statement.where(sa.or_(*behind))

    def newest(self, connection: sa.Connection) -> Any:
        """Return the highest value of the first ordering column, or None."""
        highest = sa.select(sa.func.max(self._columns[0].expression)).select_from(self._source)
        return connection.execute(highest).scalar_one_or_none()

    def read(
        self, connection: sa.Connection, place: Place | None, limits: Limits, size: int
    ) -> tuple[Batch, Place | None]:
        """Return a batch of about `size` rows, and the place behind it."""
        statement = self.statement(place, limits)
        if self._is_unique:
            statement = statement.limit(size)
        rows: list[Row] = []
        places: list[Place] = []
        more = False
        options = {"stream_results": True, "max_row_buffer": size}
        width = len(self._columns)
        with connection.execute(statement, execution_options=options) as result:
            names = list(result.keys())[:-width]
            for found in result:
                here = self._place(found[-width:])
                if len(rows) >= size and here != places[-1]:
                    more = True
                    break
                rows.append(found[:-width])
                places.append(here)
        ends = [*(a != b for a, b in pairwise(places)), True]
        offsets = []
        done: Place | None = place
        for here, is_end in zip(places, ends, strict=False):
            done = here if is_end else done
            offsets.append(self.offsets.of(done))
        more = more or (self._is_unique and len(rows) >= size)
        return Batch(rows, offsets, more, names), done

    def _place(self, values: Sequence[Any]) -> Place:
        return tuple(
            column.moment(value) if isinstance(column, MomentColumn) else value
            for column, value in zip(self._columns, values, strict=True)
        )


class RowFields:
    """Makes values with a schema of rows; of a query, whose types show in its rows, too."""

    def __init__(self, name: str, types: TypeReading) -> None:
        self._name, self._types = name, types
        self.schema: Schema | None = None
        self._names: list[str] = []
        self._reads: list[Read | None] = []
        self._inferred: list[Schema | None] | None = None

    def of_table(self, columns: Sequence[sa.Column[Any]]) -> None:
        """Take the types of a table's columns."""
        self._names = [each.name for each in columns]
        readings = [self._types.of(each.type) for each in columns]
        self._reads = [each.read for each in readings]
        fields = [
            (each.name, reading.schema.as_optional() if each.nullable else reading.schema)
            for each, reading in zip(columns, readings, strict=True)
        ]
        self.schema = struct_of(self._name, fields)

    def of_query(self, names: Sequence[str], rows: Sequence[Row]) -> None:
        """Learn the types of a query's columns from more of its rows."""
        if self._inferred is None or list(names) != self._names:
            self._names, self._inferred = list(names), [None] * len(names)
        self._types.infer(rows, self._inferred)
        readings = [self._types.of_inferred(each) for each in self._inferred]
        self._reads = [each.read for each in readings]
        fields = [
            (name, each.schema.as_optional())
            for name, each in zip(self._names, readings, strict=True)
        ]
        self.schema = struct_of(self._name, fields)

    def value(self, row: Row) -> dict[str, Any]:
        """Return the value of a row."""
        return {
            name: value if read is None or value is None else read(value)
            for name, read, value in zip(self._names, self._reads, row, strict=True)
        }
