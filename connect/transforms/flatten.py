"""Flatten: nested structs and maps as one, with joined names. Arrays stay as they are."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..config_def import ConfigDef
from ..data import DataError, Schema, SchemaType
from .parts import REPLACE_NULL, PartTransformation, a_text, both, with_fields

_MAX_DEPTH = 100


class Flatten(PartTransformation):
    """Joins the names of nested fields by a delimiter. Null passes."""

    config = ConfigDef([a_text("delimiter", "Put between names.", "."), REPLACE_NULL])
    purpose = "flattening"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._delimiter = settings["delimiter"]

    def _new_schema(self, schema: Schema) -> Schema:
        return with_fields(schema, dict(self._flat_schema(schema, "", schema.optional)))

    def _flat_schema(
        self, schema: Schema, prefix: str, optional: bool
    ) -> Iterator[tuple[str, Schema]]:
        defaults = schema.default or {}
        for name, found in schema.fields:
            of = found if found.default is not None else replace(found, default=defaults.get(name))
            full = f"{prefix}{name}"
            if of.type is SchemaType.STRUCT:
                inner = f"{full}{self._delimiter}"
                yield from self._flat_schema(of, inner, optional or of.optional)
            elif of.type is SchemaType.MAP:
                raise DataError(
                    f"{full}: Flatten transformation does not support a map in a struct"
                )
            else:
                yield full, replace(of, optional=optional or of.optional)

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        return dict(self._flat_struct(schema, value, ""))

    def _flat_struct(
        self, schema: Schema, value: Mapping[str, Any] | None, prefix: str
    ) -> Iterator[tuple[str, Any]]:
        for field in schema.fields:
            found = None if value is None else self.field(value, field)
            name = f"{prefix}{field.name}"
            if field.schema.type is SchemaType.STRUCT:
                yield from self._flat_struct(field.schema, found, f"{name}{self._delimiter}")
            else:
                yield name, found

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        return dict(self._flat_map(value, "", _MAX_DEPTH))

    def _flat_map(
        self, value: Mapping[str, Any], prefix: str, depth: int
    ) -> Iterator[tuple[str, Any]]:
        if not depth:
            raise DataError(f"maps are nested more than {_MAX_DEPTH} deep")
        for key, found in value.items():
            if isinstance(found, Mapping):
                yield from self._flat_map(found, f"{prefix}{key}{self._delimiter}", depth - 1)
            else:
                yield f"{prefix}{key}", found


FlattenKey, FlattenValue = both(Flatten)
