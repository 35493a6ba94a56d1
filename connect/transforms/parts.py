"""Transformations of a record's key or value: what Java's `$Key` and `$Value` classes share.

A value with a schema is a struct, one without is a map. Fields that are not in the record are null.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from ..config_def import NO_DEFAULT, BadConfig, ConfigDef, ConfigKey, ConfigType, Importance
from ..data import DataError, Field, Schema, SchemaType
from ..schema_cache import SchemaCache
from .transformation import R, Transformation

SCHEMAS_KEPT = 16

REPLACE_NULL = ConfigKey(
    "replace.null.with.default",
    ConfigType.BOOLEAN,
    "Read a null field as its schema's default (KIP-1040).",
    True,
)


def a_text(name: str, doc: str, default: Any = NO_DEFAULT, **more: Any) -> ConfigKey:
    """Return the row of a text."""
    return ConfigKey(name, ConfigType.STRING, doc, default, Importance.HIGH, **more)


def a_list(name: str, doc: str, default: Any = NO_DEFAULT, **more: Any) -> ConfigKey:
    """Return the row of a list; with no other `check` it must not be empty."""
    more = {"check": _is_empty_list, **more}
    return ConfigKey(name, ConfigType.LIST, doc, default, Importance.HIGH, **more)


def _is_empty_list(value: list[str]) -> str | None:
    return None if value and all(value) else "must name at least one, and no empty one"


def is_empty(value: str | None) -> str | None:
    """Return why a text is refused, if it is empty: a check of a ConfigKey."""
    return None if value else "must not be empty"


def pairs(mappings: list[str]) -> dict[str, str]:
    """Return `a:b,c:d` as a map. Raise BadConfig if an item is no pair."""
    found = {}
    for mapping in mappings:
        left, colon, right = (each.strip() for each in mapping.partition(":"))
        if not (left and colon and right) or ":" in right:
            raise BadConfig(f"{mapping} is not of the form name:name")
        found[left] = right
    return found


def are_no_pairs(mappings: list[str]) -> str | None:
    """Return why texts are no pairs, or None: a check of a ConfigKey."""
    try:
        pairs(mappings)
    except BadConfig as error:
        return str(error)
    return None


def with_fields(schema: Schema, fields: Mapping[str, Schema]) -> Schema:
    """Return a struct of these fields with the name, version, doc and parameters of `schema`."""
    new = tuple(Field(*each) for each in fields.items())
    return replace(schema, fields=new, optional=False, default=None)


class PartTransformation(Transformation):
    """Changes the key or the value; a subclass says how a struct and how a map is changed."""

    config: ClassVar[ConfigDef] = ConfigDef([REPLACE_NULL])
    part: ClassVar[str] = "value"
    purpose: ClassVar[str]
    """Named in errors."""
    null_passes: ClassVar[bool] = True
    """False if a null value is an error, as in Java."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the settings."""
        settings = self.config.parse(props)
        self._replaces = settings.get("replace.null.with.default", True)
        self._schemas = SchemaCache(SCHEMAS_KEPT, self._new_schema)
        self._take(settings)

    def _take(self, settings: Mapping[str, Any]) -> None:
        """Take the parsed settings."""

    def _new_schema(self, schema: Schema) -> Schema:
        """Return the schema of what `_new_struct` returns."""
        return schema

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        """Return the new value of a struct."""
        raise NotImplementedError

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        """Return the new value of a map without schema."""
        raise NotImplementedError

    def apply(self, record: R) -> R:
        """Return the record with its key or value changed."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None and self.null_passes:
            return record
        if schema is None:
            return self.changed(record, None, self._new_map(self._map(value), record))
        struct = self._struct(schema, value)
        new_value = self._new_struct(schema, struct, record)
        return self.changed(record, self._schemas.get(schema), new_value)

    def schema_of(self, record: Any) -> Schema | None:
        """Return the schema of the key or value."""
        found: Schema | None = record.key_schema if self.part == "key" else record.value_schema
        return found

    def value_of(self, record: Any) -> Any:
        """Return the key or value."""
        return record.key if self.part == "key" else record.value

    def changed(self, record: R, schema: Schema | None, value: Any) -> R:
        """Return the record with another key or value."""
        return record.with_(**{self.part: value, f"{self.part}_schema": schema})

    def field(self, value: Mapping[str, Any], field: Field) -> Any:
        """Return a field of a struct, its default in place of null if so configured."""
        found = value.get(field.name)
        return field.schema.default if found is None and self._replaces else found

    def _map(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise DataError(
                f"Only Map objects supported in absence of schema for [{self.purpose}], found:"
                f" {type(value).__name__}"
            )
        return value

    def _struct(self, schema: Schema, value: Any) -> Mapping[str, Any]:
        if schema.type is not SchemaType.STRUCT or not isinstance(value, Mapping):
            raise DataError(
                f"Only Struct objects supported for [{self.purpose}], found: {schema.type.value},"
                f" {type(value).__name__}"
            )
        return value


P = TypeVar("P", bound=PartTransformation)


def both(transformation: type[P]) -> tuple[type[P], type[P]]:
    """Return the transformation of keys, and the same one of values, under their own names."""
    name, module = transformation.__name__, transformation.__module__
    made = [
        type(f"{name}{part.title()}", (transformation,), {"part": part, "__module__": module})
        for part in ("key", "value")
    ]
    return made[0], made[1]
