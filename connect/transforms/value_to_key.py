"""ValueToKey: a key made of fields of the value."""

from collections.abc import Mapping
from typing import Any

from ..config_def import ConfigDef
from ..data import DataError, Schema, struct
from .parts import REPLACE_NULL, PartTransformation, a_list
from .transformation import R


class ValueToKey(PartTransformation):
    """Replaces the key. A null value is an error."""

    config = ConfigDef([a_list("fields", "The fields that make the key."), REPLACE_NULL])
    purpose = "copying fields from value to key"
    null_passes = False

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._fields = settings["fields"]

    def changed(self, record: R, schema: Schema | None, value: Any) -> R:
        """Return the record with the new key; the value stays."""
        return record.with_(key=value, key_schema=schema)

    def _new_schema(self, schema: Schema) -> Schema:
        found = {name: schema.field(name) for name in self._fields}
        for name, field in found.items():
            if field is None:
                raise DataError(f"Field does not exist: {name}")
        return struct({name: field.schema for name, field in found.items() if field is not None})

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        return {each.name: self.field(value, each) for each in self._schemas.get(schema).fields}

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        return {name: value.get(name) for name in self._fields}
