"""ReplaceField: takes fields away and renames them."""

from collections.abc import Mapping
from typing import Any

from ..config_def import ConfigDef, ConfigKey, ConfigType
from ..data import Schema
from .parts import REPLACE_NULL, PartTransformation, are_no_pairs, pairs, with_fields


class ReplaceField(PartTransformation):
    """Keeps `include` without `exclude`, then renames. Null passes."""

    config = ConfigDef(
        [
            ConfigKey("exclude", ConfigType.LIST, "Fields to take away.", []),
            ConfigKey("include", ConfigType.LIST, "The only fields to keep; empty for all.", []),
            ConfigKey(
                "renames", ConfigType.LIST, "old:new pairs of names.", [], check=are_no_pairs
            ),
            REPLACE_NULL,
        ]
    )
    purpose = "field replacement"

    def take(self, settings: Mapping[str, Any]) -> None:
        """Take the names."""
        self._exclude, self._include = settings["exclude"], settings["include"]
        self._renames = pairs(settings["renames"])

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def changed_schema(self, schema: Schema) -> Schema:
        """Return the schema of the fields that are left, under their new names."""
        kept = ((name, of) for name, of in schema.fields if self._keeps(name))
        return with_fields(schema, {self._renames.get(name, name): of for name, of in kept})

    def changed_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        """Return the fields that are left, under their new names."""
        kept = (each for each in schema.fields if self._keeps(each.name))
        return {self._renames.get(each.name, each.name): self.field(value, each) for each in kept}

    def changed_map(self, value: Mapping[str, Any], record: Any) -> Any:
        """Return the fields that are left, under their new names."""
        kept = ((name, found) for name, found in value.items() if self._keeps(name))
        return {self._renames.get(name, name): found for name, found in kept}


class ReplaceFieldKey(ReplaceField):
    """Changes the fields of the key."""

    part = "key"


class ReplaceFieldValue(ReplaceField):
    """Changes the fields of the value."""
