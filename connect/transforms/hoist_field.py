"""HoistField: the whole key or value as one field of a struct or a map."""

from collections.abc import Mapping
from typing import Any

from ..config_def import ConfigDef
from ..data import Schema, struct
from .parts import PartTransformation, a_text, both
from .transformation import R


class HoistField(PartTransformation):
    """Wraps what there is, null too."""

    config = ConfigDef([a_text("field", "The name of the one field.")])
    purpose = "hoisting"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._name = settings["field"]

    def apply(self, record: R) -> R:
        """Return the record with its key or value wrapped."""
        schema = self.schema_of(record)
        new_schema = None if schema is None else self._schemas.get(schema)
        return self.changed(record, new_schema, {self._name: self.value_of(record)})

    def _new_schema(self, schema: Schema) -> Schema:
        return struct({self._name: schema})


HoistFieldKey, HoistFieldValue = both(HoistField)
