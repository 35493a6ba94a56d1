"""Declares messages: one class per message, with the version range of each field.

    @request(ApiKey.PRODUCE, versions="3-13", advertise="0-13", flexible="9+")
    class ProduceRequest:
        transactional_id: String | None
        acks: Int16
        timeout_ms: Int32

An annotation names the wire type; `X | None` allows null. `field("5+", default=-1)` says in which
versions the field exists, and its value in the others. `codec` compiles a declaration into
functions; this module reads and writes no bytes. Source: Kafka protocol guide; KIP-482 for flexible
versions and tags.
"""

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from .shared_methods import with_shared_methods
from .types import Buffer

T = TypeVar("T")
FOREVER: Final = 0x7FFF
UNSET: Final = dataclasses.MISSING


class Wire(NamedTuple):
    """A wire type; `code` is its `struct` code if its size is fixed, else empty."""

    name: str
    code: str = ""


Bool = Annotated[bool, Wire("bool", "?")]
Int8 = Annotated[int, Wire("int8", "b")]
Int16 = Annotated[int, Wire("int16", "h")]
UInt16 = Annotated[int, Wire("uint16", "H")]
Int32 = Annotated[int, Wire("int32", "i")]
Int64 = Annotated[int, Wire("int64", "q")]
Float64 = Annotated[float, Wire("float64", "d")]
Uuid = Annotated[bytes, Wire("uuid", "16s")]
String = Annotated[str, Wire("string")]
Bytes = Annotated[bytes, Wire("bytes")]
"""Bytes that the decoder copies out of the frame."""
Records = Annotated[Buffer, Wire("records")]
"""Bytes that the decoder leaves in the frame, as a view. The encoder makes large ones a part of
their own, without a copy."""


class Versions(NamedTuple):
    """An inclusive range of versions; it is empty if `first > last`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Parse a range such as "4", "3-13", "9+" or "none"."""
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), FOREVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.first <= self.last else "none"


NEVER: Final = Versions(1, 0)
ALWAYS: Final = Versions(0, FOREVER)


@dataclass(frozen=True, slots=True)
class Element:
    """The type of a field or of an array's items."""

    wire: Wire | None = None
    struct: type | None = None
    items: "Element | None" = None


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field."""

    name: str
    element: Element
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a declared class: everything that `codec` needs to compile it."""

    cls: type
    fields: tuple[Field, ...]
    versions: Versions
    flexible: Versions
    api_key: int = -1
    advertised: Versions = NEVER
    most_items: int = 0
    """The most items in all arrays of one message together; 0 for no bound, as in responses."""


MOST_ITEMS: Final = 100_000
REQUESTS: Final[dict[int, type]] = {}
RESPONSES: Final[dict[int, type]] = {}
_SHAPES: Final[dict[type, Shape]] = {}


def shape_of(cls: type) -> Shape:
    """Return the shape of a declared message or nested class."""
    return _SHAPES[cls]


def field(
    versions: str = "0+",
    *,
    default: Any = UNSET,
    nullable: str | None = None,
    tag: int | None = None,
) -> Any:
    """Declare a field that is not in every version, has a default, or is tagged.

    `nullable` narrows the versions in which an `X | None` field may be null. A field with a `tag`
    is optional on the wire: it is left out if it equals its default. A tagged struct is never null
    on the wire; None means that it is absent.
    """
    wire = {"versions": versions, "nullable": nullable, "tag": tag}
    if isinstance(default, list):
        return dataclasses.field(default_factory=list, metadata={**wire, "default": []})
    if default is UNSET:
        return dataclasses.field(metadata=wire)
    return dataclasses.field(default=default, metadata={**wire, "default": default})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def request(
    api_key: int,
    *,
    versions: str,
    flexible: str,
    advertise: str | None = None,
    most_items: int = MOST_ITEMS,
) -> Callable[[type[T]], type[T]]:
    """Declare the request of an API.

    `versions` can be encoded and decoded; `advertise`, if given, is the range that ApiVersions
    shows instead. A request with more than `most_items` in all its arrays together is refused,
    because each item keeps the event loop busy for some microseconds.
    """

    def declare(cls: type[T]) -> type[T]:
        declared = _declare(cls, Versions.parse(versions), Versions.parse(flexible))
        shown = Versions.parse(advertise or versions)
        _SHAPES[declared] = dataclasses.replace(
            _SHAPES[declared], api_key=int(api_key), advertised=shown, most_items=most_items
        )
        REQUESTS[int(api_key)] = declared
        return declared

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def response(api_key: int) -> Callable[[type[T]], type[T]]:
    """Declare the response of an API; its versions are those of the API's request."""

    def declare(cls: type[T]) -> type[T]:
        asked = _SHAPES[REQUESTS[int(api_key)]]
        declared = _declare(cls, asked.versions, asked.flexible)
        _SHAPES[declared] = dataclasses.replace(
            _SHAPES[declared], api_key=int(api_key), advertised=asked.advertised
        )
        RESPONSES[int(api_key)] = declared
        return declared

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def nested(cls: type[T]) -> type[T]:
    """Declare a struct inside messages, which has the versions and flexibility of its message."""
    return _declare(cls, ALWAYS, NEVER)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def data(*, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare a message that is no request: a record's key or value, or part of a field."""

    def declare(cls: type[T]) -> type[T]:
        return _declare(cls, Versions.parse(versions), Versions.parse(flexible))

    return declare


def _declare(cls: type[T], versions: Versions, flexible: Versions) -> type[T]:
    cls = with_shared_methods(cls, is_hashable=False)
    declared = dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)
    hints = get_type_hints(declared, include_extras=True)
    fields = tuple(_field(f, hints[f.name]) for f in dataclasses.fields(declared))  # type: ignore[arg-type]
    _SHAPES[declared] = Shape(declared, fields, versions, flexible)
    return declared


def _field(declared: "dataclasses.Field[Any]", hint: Any) -> Field:
    wire = declared.metadata
    optional, hint = without_none(hint)
    versions = Versions.parse(wire.get("versions") or "0+")
    tag = wire.get("tag")
    default = wire.get("default", UNSET)
    if default is UNSET and tag is not None:
        raise TypeError(
            f"field {declared.name!r} is tagged, so it may be absent: it needs a default"
        )
    nullable = Versions.parse(wire.get("nullable") or "0+") if optional else NEVER
    return Field(declared.name, _element(hint), versions, nullable, tag, default)


def without_none(hint: Any) -> tuple[bool, Any]:
    """Return whether a type is optional, and the type without None.

    Raise TypeError for another union.
    """
    if get_origin(hint) in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        if len(members) < len(get_args(hint)):
            if len(members) != 1:
                raise TypeError(f"{hint} is not a wire type")
            return True, members[0]
    return False, hint


def _element(hint: Any) -> Element:
    if get_origin(hint) is Annotated:
        return Element(wire=hint.__metadata__[0])
    if get_origin(hint) is list:
        return Element(items=_element(get_args(hint)[0]))
    if hint in _SHAPES:
        return Element(struct=hint)
    raise TypeError(f"{hint} is neither a wire type nor a class declared above")
