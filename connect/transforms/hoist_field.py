"""HoistField: the whole key or value as one field of a struct or a map."""

from collections.abc import Mapping
from typing import Any

from ..config_def import ConfigDef, ConfigKey, ConfigType
from ..data import Schema, struct
from .parts import PartTransformation
from .transformation import R


class HoistField(PartTransformation):
    """Wraps what there is, null too."""

    config = ConfigDef([ConfigKey("field", ConfigType.STRING, "The name of the one field.")])
    purpose = "hoisting"

    def take(self, settings: Mapping[str, Any]) -> None:
        """Take the name."""
        self._name = settings["field"]

    def apply(self, record: R) -> R:
        """Return the record with its key or value wrapped."""
        schema = self.schema_of(record)
        new_schema = None if schema is None else self._schemas.get(schema)
        return self.changed(record, new_schema, {self._name: self.value_of(record)})

    def changed_schema(self, schema: Schema) -> Schema:
        """Return a struct of one field."""
        return struct({self._name: schema})


class HoistFieldKey(HoistField):
    """Wraps the key."""

    part = "key"


class HoistFieldValue(HoistField):
    """Wraps the value."""
