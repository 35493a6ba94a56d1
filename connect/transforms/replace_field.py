"""ReplaceField: takes fields away and renames them."""

from collections.abc import Mapping
from typing import Any

from ..config_def import ConfigDef
from ..data import Schema
from .parts import REPLACE_NULL, PartTransformation, a_list, are_no_pairs, both, pairs, with_fields


class ReplaceField(PartTransformation):
    """Keeps `include` without `exclude`, then renames. Null passes."""

    config = ConfigDef(
        [
            a_list("exclude", "Fields to take away.", [], check=None),
            a_list("include", "The only fields to keep; empty for all.", [], check=None),
            a_list("renames", "old:new pairs of names.", [], check=are_no_pairs),
            REPLACE_NULL,
        ]
    )
    purpose = "field replacement"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._exclude, self._include = settings["exclude"], settings["include"]
        self._renames = pairs(settings["renames"])

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _new_schema(self, schema: Schema) -> Schema:
        kept = ((name, of) for name, of in schema.fields if self._keeps(name))
        return with_fields(schema, {self._renames.get(name, name): of for name, of in kept})

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        kept = (each for each in schema.fields if self._keeps(each.name))
        return {self._renames.get(each.name, each.name): self.field(value, each) for each in kept}

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        kept = ((name, found) for name, found in value.items() if self._keeps(name))
        return {self._renames.get(name, name): found for name, found in kept}


ReplaceFieldKey, ReplaceFieldValue = both(ReplaceField)
