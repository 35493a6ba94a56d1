"""Schemas as JSON, as they stand in the envelopes of JsonConverter."""

from typing import Any

from ..data import NO_PARAMETERS, DataError, Field, Schema, SchemaType
from .json_values import JsonOptions, quoted, reader, writer

_TYPES = {each.value: each for each in SchemaType}


def schema_text(schema: Schema | None, options: JsonOptions, field: str | None = None) -> str:
    """Return the JSON of a schema, its keys in the order of Kafka's JsonConverter."""
    if schema is None:
        return "null"
    parts = [f'"type":"{schema.type.value}"']
    if schema.type is SchemaType.ARRAY:
        parts.append(f'"items":{schema_text(schema.value_schema, options)}')
    elif schema.type is SchemaType.MAP:
        parts.append(f'"keys":{schema_text(schema.key_schema, options)}')
        parts.append(f'"values":{schema_text(schema.value_schema, options)}')
    elif schema.type is SchemaType.STRUCT:
        fields = (schema_text(each.schema, options, each.name) for each in schema.fields)
        parts.append(f'"fields":[{",".join(fields)}]')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters:
        pairs = (f"{quoted(k)}:{quoted(v)}" for k, v in schema.parameters.items())
        parts.append(f'"parameters":{{{",".join(pairs)}}}')
    if schema.default is not None:
        parts.append(f'"default":{writer(schema, options)(schema.default)}')
    if field is not None:
        parts.append(f'"field":{quoted(field)}')
    return f"{{{','.join(parts)}}}"


def schema_of(parsed: Any, options: JsonOptions) -> Schema | None:
    """Return the schema of parsed JSON; null is none. Raise DataError if it is malformed."""
    if parsed is None:
        return None
    kind = _TYPES.get(parsed["type"]) if _has_text(parsed, "type") else None
    if kind is None:
        raise DataError(f'a schema must be an object whose "type" is one of {", ".join(_TYPES)}')
    parameters = parsed.get("parameters")
    if not isinstance(parameters, dict):
        parameters = NO_PARAMETERS
    elif not all(isinstance(each, str) for each in parameters.values()):
        raise DataError("the parameters of a schema must be texts")
    version = parsed.get("version")
    schema = Schema(
        kind,
        optional=parsed.get("optional") is True,
        name=parsed["name"] if _has_text(parsed, "name") else None,
        version=version if type(version) is int else None,
        doc=parsed["doc"] if _has_text(parsed, "doc") else None,
        default=None,
        parameters=parameters,
        **_inner(kind, parsed, options),
    )
    if parsed.get("default") is None:
        return schema
    return schema.with_default(reader(schema, options)(parsed["default"]))


def _has_text(parsed: Any, key: str) -> bool:
    return isinstance(parsed, dict) and isinstance(parsed.get(key), str)


def _inner(kind: SchemaType, parsed: dict[str, Any], options: JsonOptions) -> dict[str, Any]:
    if kind is SchemaType.ARRAY:
        return {"value_schema": _part(parsed, "items", options)}
    if kind is SchemaType.MAP:
        keys, values = _part(parsed, "keys", options), _part(parsed, "values", options)
        return {"key_schema": keys, "value_schema": values}
    if kind is not SchemaType.STRUCT:
        return {}
    found = parsed.get("fields")
    if not isinstance(found, list):
        raise DataError('a struct schema needs "fields", an array')
    fields = []
    for each in found:
        schema = schema_of(each, options)
        if schema is None or not _has_text(each, "field"):
            raise DataError('each field of a struct schema needs its name in "field"')
        fields.append(Field(each["field"], schema))
    return {"fields": tuple(fields)}


def _part(parsed: dict[str, Any], key: str, options: JsonOptions) -> Schema | None:
    if key not in parsed:
        raise DataError(f'a schema of type {parsed["type"]} needs "{key}"')
    return schema_of(parsed[key], options)
