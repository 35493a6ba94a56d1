"""Avro files as JSON, if `fastavro` is installed: only those that cannot expand. Pure.

A few bytes may declare a trillion items that take no bytes, or compress a gigabyte. Such files are
refused before they are read.
"""

from collections.abc import Mapping
from io import BytesIO
from itertools import islice
from typing import Any, Final

MAGIC: Final = b"Obj\x01"
MOST_OBJECTS: Final = 1_000
"""The most objects of a file that are read."""
MOST_DEPTH: Final = 50
PARTS: Final = ("fields", "items", "values", "type")
"""Keys under which one schema holds others."""
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def objects_in(data: bytes) -> list[Any] | None:
    """Read the first objects of an uncompressed Avro file; None if it is none, or could expand."""
    if not data.startswith(MAGIC):
        return None
    try:
        from fastavro import reader
    except ImportError:
        return None
    try:
        found = reader(BytesIO(data))
        if found.codec != "null" or may_expand(found.writer_schema):
            return None
        return list(islice(found, MOST_OBJECTS))
    except (ValueError, TypeError, KeyError, IndexError, EOFError, RecursionError, AttributeError):
        return None


def may_expand(schema: Any) -> bool:
    """Return True if a value of this schema may hold arrays of items that take no bytes."""
    arrays, named = list[Any](), dict[str, list[Any]]()
    if not _survey(schema, arrays, named, MOST_DEPTH):
        return True
    known: dict[str, bool] = {}
    return any(_is_empty(items, named, known) for items in arrays)


def _survey(schema: Any, arrays: list[Any], named: dict[str, list[Any]], depth: int) -> bool:
    """Find the items of all arrays, and all named schemas; return False beyond `depth`."""
    if depth == 0:
        return False
    if isinstance(schema, list):
        return all(_survey(each, arrays, named, depth - 1) for each in schema)
    if not isinstance(schema, Mapping):
        return True
    if isinstance(name := schema.get("name"), str):
        named.setdefault(_short(name), []).append(schema)
    if "items" in schema:
        arrays.append(schema["items"])
    parts = [schema[part] for part in PARTS if part in schema]
    return all(_survey(each, arrays, named, depth - 1) for each in parts)


def _is_empty(schema: Any, named: Mapping[str, list[Any]], known: dict[str, bool]) -> bool:
    """Return True if a value may take no bytes; unions and arrays take one at least."""
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return schema == "null"
        name = _short(schema)
        if name not in known:
            known[name] = True  # of what refers to itself nothing else is known
            found = named.get(name, [None])
            known[name] = any(each is None or _is_empty(each, named, known) for each in found)
        return known[name]
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    if kind in ("record", "error"):
        return all(_is_empty(each.get("type"), named, known) for each in schema.get("fields", ()))
    if kind == "fixed":
        return not schema.get("size")
    return kind not in ("array", "map", "enum") and _is_empty(kind, named, known)


def _short(name: str) -> str:
    """Return a name without its namespace, which schemas may leave out."""
    return name.rpartition(".")[2]
