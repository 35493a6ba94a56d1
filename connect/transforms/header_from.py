"""HeaderFrom: moves or copies fields of the key or value into headers (KIP-440)."""

from collections.abc import Mapping
from typing import Any

from ..config_def import BadConfig, ConfigDef
from ..data import DataError, Schema
from ..records import Header
from .parts import REPLACE_NULL, PartTransformation, a_list, a_text, both, with_fields
from .transformation import R


class HeaderFrom(PartTransformation):
    """Adds a header for each field. Null is an error."""

    config = ConfigDef(
        [
            a_list("fields", "The fields to move or copy."),
            a_list("headers", "The names of their headers, in the same order."),
            a_text(
                "operation",
                "move takes the fields away, copy leaves them.",
                choices=("move", "copy"),
            ),
            REPLACE_NULL,
        ]
    )
    purpose = "header from field"
    null_passes = False

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._fields, self._headers = settings["fields"], settings["headers"]
        if len(self._fields) != len(self._headers):
            raise BadConfig("'fields' must have the same number of elements as 'headers'")
        self._moves = settings["operation"] == "move"

    def apply(self, record: R) -> R:
        """Return the record with headers added behind those that it has."""
        schema, value = self.schema_of(record), self.value_of(record)
        changed = super().apply(record)
        added = []
        for name, header in zip(self._fields, self._headers, strict=True):
            if schema is None:
                added.append(Header(header, value.get(name)))
                continue
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            added.append(Header(header, self.field(value, field), field.schema))
        return changed.with_(headers=(*record.headers, *added))

    def _new_schema(self, schema: Schema) -> Schema:
        if not self._moves:
            return schema
        return with_fields(schema, {n: of for n, of in schema.fields if n not in self._fields})

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        if not self._moves:
            return value
        return {f.name: self.field(value, f) for f in schema.fields if f.name not in self._fields}

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        return {k: v for k, v in value.items() if not self._moves or k not in self._fields}


HeaderFromKey, HeaderFromValue = both(HeaderFrom)
