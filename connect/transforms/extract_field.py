"""ExtractField: one field in place of the whole key or value."""

from collections.abc import Mapping
from typing import Any

from ..config_def import BadConfig, ConfigDef
from ..data import DataError, Field, Schema, SchemaType
from .parts import REPLACE_NULL, PartTransformation, a_text, both
from .transformation import R


def path_of(text: str, version: str) -> list[str]:
    r"""Return the names of a path. V1: the text is one name. V2 (KIP-821): dots separate names.

    A name in backticks may have dots; \` is a backtick before a dot. Raise BadConfig if a backtick
    has no partner.
    """
    if version.upper() == "V1":
        return [text]
    names = []
    rest: str | None = text
    while rest is not None:
        if not rest.startswith("`"):
            name, dot, after = rest.partition(".")
            names.append(name)
            rest = after if dot else None
            continue
        name, rest = _quoted(rest[1:], text)
        names.append(name)
    return names


def _quoted(rest: str, text: str) -> tuple[str, str | None]:
    """Return the name up to its closing backtick, and what follows behind the dot."""
    name, start = "", 0
    while True:
        end = rest.find("`", start)
        if end < 0:
            raise BadConfig(f"Incomplete backtick pair in path: [{text}]")
        last, escaped = end == len(rest) - 1, end > 0 and rest[end - 1] == "\\"
        if not last and rest[end + 1] != ".":
            name, start = name + rest[start : end + 1], end + 1
        elif not escaped:
            return name + rest[start:end], None if last else rest[end + 2 :]
        elif last:
            raise BadConfig(f"Incomplete backtick pair in path: [{text}]")
        else:
            name, start = name + rest[start : end - 1] + "`", end + 1


class ExtractField(PartTransformation):
    """Takes a field out of a struct or a map. Null passes."""

    config = ConfigDef(
        [
            a_text("field", "The field to extract."),
            a_text(
                "field.syntax.version",
                "V1: the whole text is one name; V2: dots lead into nested fields (KIP-821).",
                "V1",
                choices=("V1", "V2"),
            ),
            REPLACE_NULL,
        ]
    )
    purpose = "field extraction"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._text = settings["field"]
        self._path = path_of(self._text, settings["field.syntax.version"])

    def apply(self, record: R) -> R:
        """Return the record with the field in place of the whole."""
        schema = self.schema_of(record)
        if schema is not None and self.value_of(record) is None:
            return self.changed(record, self._new_schema(schema), None)
        return super().apply(record)

    def _new_schema(self, schema: Schema) -> Schema:
        return self._fields(schema)[-1].schema

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        found: Any = value
        for field in self._fields(schema):
            if found is None:
                return None
            found = self.field(found, field)
        return found

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        found: Any = value
        for name in self._path:
            if found is None:
                return None
            found = self._map(found).get(name)
        return found

    def _fields(self, schema: Schema) -> list[Field]:
        fields = []
        for name in self._path:
            field = schema.field(name) if schema.type is SchemaType.STRUCT else None
            if field is None:
                raise DataError(f"Unknown field: {self._text}")
            fields.append(field)
            schema = field.schema
        return fields


ExtractFieldKey, ExtractFieldValue = both(ExtractField)
