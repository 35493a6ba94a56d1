"""SetSchemaMetadata: another name or version for the schema of the key or value."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..config_def import INT32_MAX, BadConfig, ConfigDef, ConfigKey, ConfigType, Importance
from ..data import DataError, Schema
from .parts import PartTransformation
from .transformation import R


class SetSchemaMetadata(PartTransformation):
    """Names a schema. Null without schema passes; a value without schema is an error."""

    config = ConfigDef(
        [
            ConfigKey(
                "schema.name", ConfigType.STRING, "The name.", None, importance=Importance.HIGH
            ),
            ConfigKey(
                "schema.version",
                ConfigType.INT,
                "The version.",
                None,
                importance=Importance.HIGH,
                at_most=INT32_MAX,
            ),
        ]
    )
    purpose = "updating schema metadata"

    def take(self, settings: Mapping[str, Any]) -> None:
        """Take name and version. Raise BadConfig if there is neither."""
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

    def changed_schema(self, schema: Schema) -> Schema:
        """Return the schema under its new name."""
        name = self._name if self._name is not None else schema.name
        version = self._version if self._version is not None else schema.version
        return replace(schema, name=name, version=version)


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Names the schema of the key."""

    part = "key"


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Names the schema of the value."""
