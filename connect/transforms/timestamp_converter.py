"""TimestampConverter: times as texts, numbers since the epoch, Date, Time or Timestamp."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Any

from ..config_def import BadConfig, ConfigDef
from ..data import (
    DATE_SCHEMA,
    INT64,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    DataError,
    Schema,
    SchemaType,
)
from ..logical import from_milliseconds, to_milliseconds
from .date_format import DateFormat, is_no_format
from .parts import REPLACE_NULL, PartTransformation, a_text, both, with_fields
from .transformation import R

_SCHEMAS = {
    "string": STRING,
    "unix": INT64,
    "Date": DATE_SCHEMA,
    "Time": TIME_SCHEMA,
    "Timestamp": TIMESTAMP_SCHEMA,
}
_PER_SECOND = {
    "seconds": 1,
    "milliseconds": 10**3,
    "microseconds": 10**6,
    "nanoseconds": 10**9,
}


def _is_no_format(pattern: str) -> str | None:
    if not pattern:
        return None
    wrong = is_no_format(pattern)
    if wrong is None and not DateFormat(pattern).reads_back:
        return "not a date format: years of two digits have no century; write yyyy"
    return wrong


class TimestampConverter(PartTransformation):
    """Converts a field, or the whole key or value. Null passes."""

    config = ConfigDef(
        [
            a_text("field", "The field to convert; empty for the whole.", ""),
            a_text("target.type", "What to convert to.", choices=tuple(_SCHEMAS)),
            a_text(
                "format",
                "The form of texts, in letters of SimpleDateFormat.",
                "",
                check=_is_no_format,
            ),
            a_text(
                "unix.precision",
                "The unit of numbers, read and written.",
                "milliseconds",
                choices=tuple(_PER_SECOND),
            ),
            REPLACE_NULL,
        ]
    )
    purpose = "converting timestamp formats"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._field, self._target = settings["field"], settings["target.type"]
        self._per_second = _PER_SECOND[settings["unix.precision"]]
        self._format = DateFormat(settings["format"]) if settings["format"] else None
        if self._target == "string" and self._format is None:
            raise BadConfig("target.type=string needs a format")

    def apply(self, record: R) -> R:
        """Return the record with its time converted."""
        schema, value = self.schema_of(record), self.value_of(record)
        new_schema = None if schema is None else self._schemas.get(schema)
        if value is None:
            return self.changed(record, new_schema, None)
        if self._field:
            return super().apply(record)
        return self.changed(record, new_schema, self._converted(value, schema))

    def _new_schema(self, schema: Schema) -> Schema:
        if not self._field:
            return self._of(schema)
        if schema.type is not SchemaType.STRUCT:
            raise DataError(f"Only Struct objects supported for [{self.purpose}]")
        fields = {n: self._of(of) if n == self._field else of for n, of in schema.fields}
        default = schema.default
        if default is not None:
            default = self._new_struct(schema, default, None)
        return replace(with_fields(schema, fields), optional=schema.optional, default=default)

    def _of(self, schema: Schema) -> Schema:
        target = _SCHEMAS[self._target]
        return target.as_optional() if schema.optional else target

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        found = {each.name: self.field(value, each) for each in schema.fields}
        field = schema.field(self._field)
        if field is not None:
            found[field.name] = self._converted(found[field.name], field.schema)
        return found

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        return {**value, self._field: self._converted(value.get(self._field), None)}

    def _converted(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        at = self._read(value, schema)
        if self._target == "string" and self._format is not None:
            return self._format.format(at)
        if self._target == "unix":
            number = _scaled(to_milliseconds(at), 1000, self._per_second)
            if not -(2**63) <= number < 2**63:
                raise DataError(f"{at} does not fit into int64 in this unit")
            return number
        utc = from_milliseconds(to_milliseconds(at))
        return {"Date": utc.date(), "Time": utc.time(), "Timestamp": utc}[self._target]

    def _read(self, value: Any, schema: Schema | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, time):
            return datetime.combine(date(1970, 1, 1), value, UTC)
        if isinstance(value, str):
            if self._format is None:
                raise DataError("a text is no time without a format: set format")
            return self._format.parse(value)
        is_unix = schema is None or schema.type is SchemaType.INT64
        if not is_unix or isinstance(value, bool) or not isinstance(value, int):
            kind = type(value).__name__ if schema is None else schema.type.value
            raise DataError(f"TimestampConverter does not support {kind} as timestamps")
        return from_milliseconds(_scaled(value, self._per_second, 1000))


def _scaled(number: int, old: int, new: int) -> int:
    """Return a count of `1/old` seconds in `1/new` seconds, towards zero as Java's TimeUnit."""
    size = abs(number) * new // old
    return size if number >= 0 else -size


TimestampConverterKey, TimestampConverterValue = both(TimestampConverter)
