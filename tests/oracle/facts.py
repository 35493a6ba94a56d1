"""The layout of a message in a version, by our declarations and by those of other libraries.

A message is a list of facts (name, type, nullable, tag, default), in the order of the wire; the
type of a struct is its list of facts. `None` as nullable or default: the oracle does not say.
"""

import dataclasses
import re
from typing import Any, NamedTuple

from kio.serial import _introspect as introspect

from minikafka.protocol.schema import UNSET, Element, shape_of

from ..protocol.strategies import TIMES_FROM_ZERO

OWN_TAGS = 10_000
KIO_TYPES = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
}
TIMES_OR_NONE = {"log_append_time_ms", *TIMES_FROM_ZERO}
NUMBERS = {"int8", "int16", "uint16", "int32", "uint32", "int64", "float64"}
ABSENT = object()


class Fact(NamedTuple):
    name: str
    type: Any
    nullable: bool | None
    tag: int | None


def ours(cls: type, version: int) -> list[Fact]:
    facts = []
    for field in shape_of(cls).fields:
        if version not in field.versions or (field.tag or 0) >= OWN_TAGS:
            continue
        struct_in_tag = field.tag is not None and field.element.struct is not None
        nullable = None if struct_in_tag else version in field.nullable
        facts.append(Fact(field.name, _our_type(field.element, version), nullable, field.tag))
    return in_wire_order(facts)


def _our_type(element: Element, version: int) -> Any:
    if element.items is not None:
        return ["array", _our_type(element.items, version)]
    if element.struct is not None:
        return ours(element.struct, version)
    assert element.wire is not None
    return element.wire.name


def in_wire_order(facts: list[Fact]) -> list[Fact]:
    in_place = [fact for fact in facts if fact.tag is None]
    return in_place + sorted((f for f in facts if f.tag is not None), key=lambda f: f.tag or 0)


def snake(name: str) -> str:
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


# --- kafka-python: Kafka's own definitions ------------------------------------------------------


def in_range(version: int, text: str | None) -> bool:
    if text in (None, "none"):
        return False
    assert text is not None
    if text.endswith("+"):
        return version >= int(text[:-1])
    first, _, last = text.partition("-")
    return int(first) <= version <= int(last or first)


def by_definition(fields: list[dict[str, Any]], version: int) -> list[Fact]:
    facts = []
    for field in fields:
        if not in_range(version, field["versions"]):
            continue
        tagged = field.get("tag") is not None and in_range(
            version, field.get("taggedVersions", field["versions"])
        )
        kind: Any = field["type"].removeprefix("[]")
        is_array = field["type"].startswith("[]")
        if "fields" in field:
            kind = by_definition(field["fields"], version)
        if is_array:
            kind = ["array", kind]
        nullable: bool | None = in_range(version, field.get("nullableVersions"))
        if tagged and "fields" in field and not is_array:
            nullable = None
        facts.append(Fact(snake(field["name"]), kind, nullable, field["tag"] if tagged else None))
    return in_wire_order(facts)


def defaults_by_definition(fields: list[dict[str, Any]], version: int) -> dict[str, Any]:
    """Defaults that matter: of tagged fields, and of fields that the version lacks."""
    found = {}
    for field in fields:
        here = in_range(version, field["versions"])
        tagged = here and in_range(version, field.get("taggedVersions"))
        if "fields" not in field and (tagged or not here):
            found[snake(field["name"])] = _default_by_definition(field)
    return found


def _default_by_definition(field: dict[str, Any]) -> Any:
    default, kind = field.get("default"), field["type"]
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in NUMBERS:
        return int(str(default or 0), 0)
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "uuid":
        return bytes(16)
    return default or ""


def our_defaults(cls: type, version: int) -> dict[str, Any]:
    found = {}
    for field in shape_of(cls).fields:
        here = version in field.versions
        if (field.tag or 0) >= OWN_TAGS or field.element.struct or _holds_structs(field.element):
            continue
        if not here or field.tag is not None:
            found[field.name] = ABSENT if field.default is UNSET else field.default
    return found


def absent_in(cls: type, version: int) -> dict[str, Any]:
    """The defaults of the fields that a version does not have."""
    return {
        field.name: ABSENT if field.default is UNSET else field.default
        for field in shape_of(cls).fields
        if version not in field.versions
    }


def _holds_structs(element: Element) -> bool:
    return element.items is not None and element.items.struct is not None


def structs_of(cls: type) -> list[type]:
    """The message and every struct inside it, in the order they appear."""
    found = [cls]
    for field in shape_of(cls).fields:
        element = field.element.items or field.element
        if element.struct is not None:
            found += structs_of(element.struct)
    return found


def fields_by_definition(fields: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The definitions that `structs_of` gives the classes of."""
    found = [fields]
    for field in fields:
        if "fields" in field:
            found += fields_by_definition(field["fields"])
    return found


# --- kio ----------------------------------------------------------------------------------------


def by_kio(entity: Any) -> list[Fact]:
    """Kio drops the unit from names, and reads a zero uuid and a time of -1 as None."""
    facts = []
    for field in dataclasses.fields(entity):
        shape = introspect.classify_field(field)
        tag = introspect.get_field_tag(field)
        nullable: bool | None = introspect.is_optional(field)
        if isinstance(shape, introspect.EntityField | introspect.EntityTupleField):
            kind: Any = by_kio(shape.type_)
            if tag is not None and not shape.is_array:
                nullable = None
        else:
            kind = introspect.get_schema_field_type(field)
            if kind in ("uuid", "datetime_i64"):
                nullable = None
            kind = KIO_TYPES.get(kind, kind)
        if shape.is_array:
            kind = ["array", kind]
            nullable = type(None) in getattr(field.type, "__args__", ())
        facts.append(Fact(field.name, kind, nullable, None if tag is None else int(tag)))
    return in_wire_order(facts)


def without_units(facts: list[Fact]) -> list[Fact]:
    """Say a message as kio would: no `_ms`, and silence where it is silent."""
    return [
        fact._replace(
            name=fact.name.removesuffix("_ms"),
            type=_without_units(fact.type),
            nullable=None if fact.type == "uuid" or fact.name in TIMES_OR_NONE else fact.nullable,
        )
        for fact in facts
    ]


def _without_units(kind: Any) -> Any:
    if isinstance(kind, list) and kind and isinstance(kind[0], Fact):
        return without_units(kind)
    if isinstance(kind, list) and kind and kind[0] == "array":
        return ["array", _without_units(kind[1])]
    return kind
