"""The JSON schemas of bodies and answers, by which requests are checked and OpenAPI tells of them.

Pure. A field that a schema does not name is refused, since a misspelt one would do nothing.
"""

import functools
import json
from collections.abc import Callable
from typing import Any, Final

import fastjsonschema

from ...protocol.acls import Operation, Pattern, Permission, Resource
from . import media
from .errors import BAD_REQUEST, Kind, RestError

Schema = dict[str, Any]
INT64: Final = 2**63 - 1
TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
LONG: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT64 - 1}
FLAG: Final[Schema] = {"type": "boolean"}
ANYTHING: Final[Schema] = {}
NOTHING: Final[Schema] = {"type": "null"}
ENUMS: Final[dict[str, Any]] = {
    "resource_type": Resource,
    "pattern_type": Pattern,
    "operation": Operation,
    "permission": Permission,
}
"""The fields of an access control entry that have names for codes."""
TEXTS: Final = ("resource_name", "principal", "host")
"""Its other fields."""
_SHOWN: Final = 300


def or_null(schema: Schema) -> Schema:
    """Return a schema that takes null too."""
    return {**schema, "type": [schema["type"], "null"]}


def listed(items: Schema, least: int = 0) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, "minItems": least}


def obj(needed: Schema, more: Schema | None = None, *, is_open: bool = False) -> Schema:
    """Return the schema of an object with fields that it needs, and more that it may have."""
    found: Schema = {"type": "object", "properties": {**needed, **(more or {})}}
    found |= {"required": list(needed)} if needed else {}
    return found if is_open else {**found, "additionalProperties": False}


_PLACE: Final = {"topic": NAME, "partition": WHOLE}
_COMMIT: Final = obj({**_PLACE, "offset": {**LONG, "minimum": -1}}, {"metadata": or_null(TEXT)})
_OF_REGISTRY: Final = (
    "schema",
    "schema_id",
    "schema_version",
    "subject",
    "subject_name_strategy",
)
_DATUM: Final = or_null(
    obj(
        {},
        {
            "type": TEXT,
            "data": ANYTHING,
            **dict.fromkeys(_OF_REGISTRY, NOTHING),
        },
    )
)
_RECORD: Final = {
    "partition_id": or_null(WHOLE),
    "headers": listed(obj({"name": NAME}, {"value": or_null(TEXT)})),
    "key": _DATUM,
    "value": _DATUM,
    "timestamp": or_null(TEXT),
    # So that what a stream has shown can be written again.
    "offset": or_null(LONG),
}
_ACL: Final = obj(
    {
        **{
            name: {"enum": [one for one in names.__members__ if one != "MATCH"]}
            for name, names in ENUMS.items()
        },
        **dict.fromkeys(TEXTS, NAME),
    }
)
_REPLICAS: Final = listed(obj({"broker": WHOLE, "leader": FLAG, "in_sync": FLAG}))
_PARTITION: Final = obj({"partition": WHOLE, "leader": {"type": "integer"}, "replicas": _REPLICAS})
_ERROR: Final = obj({"error_code": {"type": "integer"}, "message": TEXT}, is_open=True)
_CHANGE: Final = obj(
    {"name": NAME}, {"value": or_null(TEXT), "operation": {"enum": ["SET", "DELETE", None]}}
)
_OUTCOME: Final = {
    "partition": or_null(WHOLE),
    "offset": {"type": ["integer", "null"]},
    "error_code": {"type": ["integer", "null"]},
    "error": or_null(TEXT),
}
_V2_RECORD: Final = obj({}, {"key": ANYTHING, "value": ANYTHING, "partition": or_null(WHOLE)})
_ID: Final = {**TEXT, "pattern": "^[A-Za-z0-9._-]{1,200}$"}
_SCHEMA_IDS: Final = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
BODIES: Final[dict[str, Schema]] = {
    "Records": obj({"records": listed(_V2_RECORD, 1)}, dict.fromkeys(_SCHEMA_IDS, ANYTHING)),
    "Instance": obj(
        {},
        {
            **dict.fromkeys(("id", "name"), or_null(_ID)),
            "format": or_null(TEXT),
            "auto.offset.reset": {"enum": ["earliest", "latest", "none", None]},
            "auto.commit.enable": {"enum": [True, False, "true", "false", None]},
            **dict.fromkeys(
                ("fetch.min.bytes", "consumer.request.timeout.ms"),
                or_null({**WHOLE, "minimum": -1}),
            ),
        },
    ),
    "Subscription": obj({}, {"topics": listed(NAME, 1), "topic_pattern": NAME}),
    "Places": obj({"partitions": listed(obj(_PLACE), 1)}),
    "Commits": obj({}, {"offsets": listed(_COMMIT)}),
    "Acl": _ACL,
    "Acls": obj({"data": listed(_ACL)}),
    "Changes": obj({"data": listed(_CHANGE)}, {"validate_only": FLAG}),
    "Value": obj({}, {"value": or_null(TEXT)}),
    "Count": obj({"partitions_count": WHOLE}),
    "NewTopic": obj(
        {"topic_name": NAME},
        {
            "partitions_count": {**WHOLE, "minimum": 1},
            "replication_factor": {"type": "integer", "minimum": 1, "maximum": 2**15 - 1},
            "replicas_assignments": listed(
                obj({"partition_id": WHOLE, "broker_ids": listed(WHOLE)})
            ),
            "configs": listed(obj({"name": NAME, "value": TEXT})),
            "validate_only": FLAG,
        },
    ),
    "Record": obj({}, _RECORD),
    "Entries": obj({"entries": listed(obj({"id": {**NAME, "maxLength": 80}}, _RECORD), 1)}),
}
ANSWERS: Final[dict[str, Schema]] = {
    "Anything": {"type": "object"},
    "Brokers": obj({"brokers": listed(WHOLE)}),
    "Names": listed(TEXT),
    "Topic": obj({"name": TEXT, "configs": {"type": "object"}, "partitions": listed(_PARTITION)}),
    "Partition": _PARTITION,
    "Partitions": listed(_PARTITION),
    "Bounds": obj({"beginning_offset": LONG, "end_offset": LONG}),
    "Offsets": obj({"offsets": listed(obj(_OUTCOME))}, is_open=True),
    "Created": obj({"instance_id": TEXT, "base_uri": TEXT}),
    "Topics": obj({"topics": listed(TEXT)}),
    "Assigned": obj({"partitions": listed(obj(_PLACE))}),
    "Committed": obj({"offsets": listed(_COMMIT)}),
    "Read": listed(obj({**_PLACE, "offset": LONG}, is_open=True)),
    "Deleted": obj({"data": listed({"$ref": "#/components/schemas/KafkaAcl"})}),
    "Stream": obj({"partition_id": WHOLE, "offset": LONG}, is_open=True),
    "Written": obj({"error_code": {"type": "integer"}}, is_open=True),
    "Batch": obj({"successes": listed({"type": "object"}), "failures": listed(_ERROR)}),
    "Error": _ERROR,
}
OFFSET_TYPES: Final = ("earliest_and_latest", "earliest", "latest")
QUERY: Final[dict[str, Schema]] = {
    "timeout": WHOLE,
    "max_bytes": WHOLE,
    "offset": LONG,
    "timestamp": LONG,
    "follow": FLAG,
    "limit": LONG,
    "format": {"enum": list(media.FORMATS)},
    "offset_type": {"enum": list(OFFSET_TYPES)},
    **{name: {"enum": ["ANY", *names.__members__]} for name, names in ENUMS.items()},
    **dict.fromkeys(TEXTS, TEXT),
}
"""The parameters of queries."""


def parsed(body: bytes, kind: Kind = BAD_REQUEST) -> Any:
    """Parse JSON; raise RestError if it is none, or is nested too deeply."""
    try:
        text = body.decode()
        value = json.loads(text, parse_constant=no_constant)
        return unicode_of(value) if may_be_halved(text) else value
    except (ValueError, RecursionError) as error:
        raise RestError(kind, f"The body is not JSON: {str(error)[:_SHOWN]}") from None


def may_be_halved(text: str) -> bool:
    """True if a JSON text may have half of a surrogate pair, which no UTF-8 can express."""
    return "\\ud" in text or "\\uD" in text


def unicode_of(value: Any) -> Any:
    """Return a JSON value; raise ValueError if it has half of a surrogate pair."""
    json.dumps(value, ensure_ascii=False).encode()
    return value


def no_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which Python's parser takes."""
    raise ValueError(f"{name} is no JSON")


@functools.cache
def _checker(name: str) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = fastjsonschema.compile(BODIES[name], use_default=False)
    return found


def checked(name: str, value: Any, kind: Kind = BAD_REQUEST) -> Any:
    """Return the value if it has the schema of a body; raise RestError, which names the field."""
    try:
        return _checker(name)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise RestError(kind, error.message.replace("data", "body", 1)[:_SHOWN]) from None
