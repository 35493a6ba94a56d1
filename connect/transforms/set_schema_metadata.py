"""SetSchemaMetadata: another name or version for the schema of the key or value."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..config_def import BadConfig, ConfigDef, ConfigKey, ConfigType, Importance
from ..data import DataError, Schema
from .parts import PartTransformation, a_text, both
from .transformation import R


class SetSchemaMetadata(PartTransformation):
    """Names a schema. Null without schema passes; a value without schema is an error."""

    config = ConfigDef(
        [
            a_text("schema.name", "The name.", None),
            ConfigKey("schema.version", ConfigType.INT, "The version.", None, Importance.HIGH),
        ]
    )
    purpose = "updating schema metadata"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._name, self._version = settings["schema.name"], settings["schema.version"]
        if self._name is None and self._version is None:
            raise BadConfig("Neither schema name nor version configured")

    def apply(self, record: R) -> R:
        """Return the record with its schema named."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError(f"Schema required for [{self.purpose}]")
        return self.changed(record, self._schemas.get(schema), value)

    def _new_schema(self, schema: Schema) -> Schema:
        name = self._name if self._name is not None else schema.name
        version = self._version if self._version is not None else schema.version
        return replace(schema, name=name, version=version)


SetSchemaMetadataKey, SetSchemaMetadataValue = both(SetSchemaMetadata)
