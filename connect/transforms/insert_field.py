"""InsertField: topic, partition, offset, timestamp or a text as fields of the key or value."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..config_def import BadConfig, ConfigDef
from ..data import INT32, INT64, STRING, TIMESTAMP_SCHEMA, DataError, Schema
from ..logical import from_milliseconds
from ..records import SinkRecord
from .parts import REPLACE_NULL, PartTransformation, a_text, both, with_fields

_SUFFIXES = "; `!` behind the name makes the field required, `?` optional (the default)"


class _Insertion(NamedTuple):
    name: str
    schema: Schema
    read: Callable[[Any], Any]
    """Returns the value from the record; None leaves the field out."""


def _offset(record: Any) -> int:
    if not isinstance(record, SinkRecord):
        raise DataError("Offset insertion is only supported for sink connectors")
    return record.offset


_SOURCES: dict[str, tuple[str, Schema, Callable[[Any], Any]]] = {
    "topic.field": ("The field for the topic", STRING, lambda record: record.topic),
    "partition.field": ("The field for the partition", INT32, lambda record: record.partition),
    "offset.field": ("The field for the offset, in sinks", INT64, _offset),
    "timestamp.field": (
        "The field for the timestamp",
        TIMESTAMP_SCHEMA,
        lambda record: record.timestamp_ms,
    ),
    "static.field": ("The field for static.value", STRING, lambda record: None),
}


class InsertField(PartTransformation):
    """Adds fields. Null passes."""

    config = ConfigDef(
        [
            *(a_text(key, f"{doc}{_SUFFIXES}.", None) for key, (doc, _, _) in _SOURCES.items()),
            a_text("static.value", "The text for static.field.", None),
            REPLACE_NULL,
        ]
    )
    purpose = "field insertion"

    def _take(self, settings: Mapping[str, Any]) -> None:
        text = settings["static.value"]
        if settings["static.field"] is not None and text is None:
            raise BadConfig("static.field needs static.value")
        self._insertions = []
        for key, (_, schema, read) in _SOURCES.items():
            spec = settings[key]
            if spec is None:
                continue
            name = spec[:-1] if spec.endswith(("!", "?")) else spec
            of = schema if spec.endswith("!") else schema.as_optional()
            found = read if key != "static.field" else lambda record: text
            self._insertions.append(_Insertion(name, of, found))
        if not self._insertions:
            raise BadConfig(f"No field insertion configured: set one of {', '.join(_SOURCES)}")

    def _new_schema(self, schema: Schema) -> Schema:
        added = {each.name: each.schema for each in self._insertions}
        return with_fields(schema, {**dict(schema.fields), **added})

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        found = {each.name: self.field(value, each) for each in schema.fields}
        for name, of, read in self._insertions:
            new = read(record)
            if new is not None:
                found[name] = from_milliseconds(new) if of.name else new
        return found

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        read = ((each.name, each.read(record)) for each in self._insertions)
        return {**value, **{name: new for name, new in read if new is not None}}


InsertFieldKey, InsertFieldValue = both(InsertField)
