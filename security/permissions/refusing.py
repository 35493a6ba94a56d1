"""Builds the responses that refuse a request, or some of its items, from the declared messages.

A refused item of a response has the names of the requested one, an error code and zeros. No I/O.
"""

from typing import Any, Final

from ...protocol.errors import ErrorCode
from ...protocol.schema import UNSET, Element, Field, shape_of

WHY: Final = "Authorization failed."
"""The message beside each error code; it says nothing else, as in Kafka."""
_ERRORS: Final = ("error_code", "partition_error_code")
_OTHER_NAMES: Final = {
    "partitions": "partition_indexes",
    "partition_result": "partitions",
    "results_by_partition": "partitions",
}
"""By the name of a list in a response, the other name of the same list in the request."""
_ZEROS: Final = {"string": "", "bytes": b"", "uuid": bytes(16), "bool": False}


def refused(cls: type, asked: object, error: ErrorCode) -> Any:
    """Return an object of a response's class that refuses the requested item with this error.

    `asked` is the item: an object of the request, or a name or an index.
    """
    values: dict[str, object] = {}
    for field in shape_of(cls).fields:
        if field.name in _ERRORS:
            values[field.name] = error
        elif field.name == "error_message":
            values[field.name] = WHY
        elif isinstance(asked, (str, int)):
            if field.default is UNSET:
                values[field.name] = asked
        elif field.element.items is not None:
            values[field.name] = _refused_list(field, asked, error)
        elif hasattr(asked, field.name):
            values[field.name] = getattr(asked, field.name)
        elif field.default is UNSET:
            values[field.name] = _zero(field.element)
    return cls(**values)


def _refused_list(field: Field, asked: object, error: ErrorCode) -> list[object]:
    assert field.element.items is not None
    struct = field.element.items.struct
    name = field.name if hasattr(asked, field.name) else _OTHER_NAMES.get(field.name, "")
    if struct is None:
        return []
    return [refused(struct, each, error) for each in getattr(asked, name, None) or ()]


def refused_whole(cls: type, error: ErrorCode, parts: str = "", asked: Any = ()) -> Any:
    """Return a response with this error at its top level, if it has one, and in its `parts`.

    `parts` names the list of the response that has an item for each one of `asked`.
    """
    values: dict[str, object] = {}
    for field in shape_of(cls).fields:
        if field.name == "error_code":
            values[field.name] = error
        elif field.name == "error_message":
            values[field.name] = WHY
        elif field.name == parts:
            assert field.element.items is not None
            assert field.element.items.struct is not None
            values[parts] = [refused(field.element.items.struct, one, error) for one in asked or ()]
        elif field.default is UNSET:
            values[field.name] = _zero(field.element)
    return cls(**values)


def nothing(cls: type) -> Any:
    """Return a response without any item and without an error."""
    response = refused_whole(cls, ErrorCode.NONE)
    if hasattr(response, "error_message"):
        response.error_message = None
    return response


def item_class(cls: type, name: str) -> type:
    """Return the class of the items of a response's list."""
    for field in shape_of(cls).fields:
        if field.name == name and field.element.items is not None:
            assert field.element.items.struct is not None
            return field.element.items.struct
    raise TypeError(f"{cls.__name__} has no list {name!r}")


def _zero(element: Element) -> object:
    if element.items is not None:
        return []
    assert element.wire is not None
    return _ZEROS.get(element.wire.name, 0)
