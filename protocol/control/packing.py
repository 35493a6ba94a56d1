"""The encoding of control messages: a dataclass is a MessagePack array of its fields in order.

Fields are only ever appended: missing trailing fields take their defaults, and unknown trailing
fields are handed to the caller. Types are checked, because the peer may be faulty; a wrong type is
a RemoteProtocolError.

    scalar  int (64 bits) | float | bool | str | bytes   tuple[X, ...]  array of X
    nested  array of its fields                          dict[str, X]   map

An int that is later stored in a narrower field, on disk or in Kafka's protocol, is declared with
its bounds (`Int16`, `NodeId`, `Epoch`, ...). A value outside its bounds is refused when decoded.
"""

import dataclasses
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgpack

from ..errors import RemoteProtocolError
from ..schema import without_none
from ..shared_methods import with_shared_methods
from ..types import Buffer

T = TypeVar("T")
Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any] | None
"""A function that encodes a value; None if the value is its own MessagePack form."""


class Bounds(NamedTuple):
    """The least and the greatest value of an int field."""

    least: int
    most: int


Int16: TypeAlias = Annotated[int, Bounds(-(1 << 15), (1 << 15) - 1)]
Port: TypeAlias = Annotated[int, Bounds(0, (1 << 16) - 1)]
NodeId: TypeAlias = Annotated[int, Bounds(-1, (1 << 31) - 1)]
"""The id of a node; -1 stands for no node."""
Index: TypeAlias = Annotated[int, Bounds(0, (1 << 31) - 1)]
"""The index of a partition within its topic."""
Epoch: TypeAlias = Annotated[int, Bounds(-1, (1 << 31) - 1)]
"""The epoch of a leader or a partition; -1 stands for none."""
Offset: TypeAlias = Annotated[int, Bounds(-1, (1 << 63) - 1)]
"""The offset of a record, or a broker epoch (the offset of a registration); -1 means none."""

ITEM_COUNT_MAX = 1 << 17
"""The longest array or map accepted. It is bounded because the decoder reserves memory for the
claimed length before it reads the items."""


@dataclass_transform(frozen_default=True)
def packed(cls: type[T]) -> type[T]:
    """Make the class of a message, or of a part of one, a frozen dataclass that can be packed."""
    cls = with_shared_methods(cls, is_hashable=True)
    return dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)


def dumps(plain: object) -> bytes:
    """Encode plain lists, maps and scalars as MessagePack."""
    result: bytes = msgpack.packb(plain)
    return result


def loads(data: Buffer, items_max: int = ITEM_COUNT_MAX) -> Any:
    """Decode exactly one MessagePack object into plain values.

    Raise RemoteProtocolError for other bytes, and if an array or a map has more than `items_max`
    items.
    """
    limit = min(len(data), items_max)
    try:
        return msgpack.unpackb(data, max_array_len=limit, max_map_len=limit)
    except ValueError as error:
        raise RemoteProtocolError(f"not MessagePack: {error or type(error).__name__}") from error


def to_plain(value: Any) -> list[Any]:
    """Return the fields of a packed dataclass in order, ready for `dumps`."""
    return [
        getattr(value, name) if write is None else write(getattr(value, name))
        for name, write, _, _ in _layout(type(value))
    ]


def from_plain(cls: type[T], plain: Any) -> tuple[T, list[Any]]:
    """Build `cls` from its fields; return it with the trailing fields that it does not know.

    Raise RemoteProtocolError if a field is missing or of a wrong type.
    """
    if type(plain) is not list:
        raise RemoteProtocolError(f"{cls.__name__}: expected an array, got {_name(plain)}")
    layout = _layout(cls)
    values = {}
    for index, (name, _, read, required) in enumerate(layout):
        if index < len(plain):
            try:
                values[name] = read(plain[index])
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{cls.__name__}.{name}: {error}") from None
        elif required:
            raise RemoteProtocolError(f"{cls.__name__}: {name} is missing")
    return cls(**values), plain[len(layout) :]


FieldLayout = tuple[str, Writer, Reader, bool]
_layouts: dict[type, tuple[FieldLayout, ...]] = {}


def _layout(cls: type) -> tuple[FieldLayout, ...]:
    """Return for each field its name, writer and reader, and whether it is required; cached."""
    found = _layouts.get(cls)
    if found is None:
        hints = get_type_hints(cls, include_extras=True)
        found = _layouts[cls] = tuple(
            (field.name, _writer(hints[field.name]), _reader(hints[field.name]), _required(field))
            for field in dataclasses.fields(cls)
            if not field.kw_only
        )
    return found


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _writer(hint: Any) -> Writer:
    is_optional, inner = without_none(hint)
    if is_optional:
        write = _writer(inner)
        return None if write is None else _skipping_none(write)
    if dataclasses.is_dataclass(hint):
        return to_plain
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple and (item := _writer(args[0])) is not None:
        return _array_writer(item)
    if origin is dict and (item := _writer(args[1])) is not None:
        return _map_writer(item)
    return None


def _array_writer(item: Reader) -> Reader:
    return lambda value: [item(each) for each in value]


def _map_writer(item: Reader) -> Reader:
    return lambda value: {key: item(each) for key, each in value.items()}


def _reader(hint: Any) -> Reader:
    is_optional, inner = without_none(hint)
    if is_optional:
        return _skipping_none(_reader(inner))
    if dataclasses.is_dataclass(hint):
        return lambda v: from_plain(hint, v)[0]  # type: ignore[arg-type]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _bounded_reader(args[1])
    if origin is tuple:
        return _array_reader(_reader(args[0]))
    if origin is dict:
        return _map_reader(_reader(args[1]))
    return _SCALARS[hint]


def _skipping_none(convert: Reader) -> Reader:
    return lambda value: None if value is None else convert(value)


def _array_reader(item: Reader) -> Reader:
    return lambda value: tuple([item(each) for each in _read_list(value)])


def _map_reader(item: Reader) -> Reader:
    return lambda value: {_read_str(key): item(each) for key, each in _read_dict(value).items()}


def _read_int(value: Any) -> int:
    if type(value) is not int or value >= 1 << 63:
        raise RemoteProtocolError(f"expected a 64-bit integer, got {_name(value)}")
    return value


def _bounded_reader(bounds: Bounds) -> Reader:
    least, most = bounds

    def read(value: Any) -> int:
        number = _read_int(value)
        if not least <= number <= most:
            raise RemoteProtocolError(f"{number} is not within {least} and {most}")
        return number

    return read


def _reader_of(kind: type[T], what: str) -> Callable[[Any], T]:
    def read(value: Any) -> T:
        if type(value) is not kind:
            raise RemoteProtocolError(f"expected {what}, got {_name(value)}")
        return value

    return read


def _name(value: Any) -> str:
    return type(value).__name__


_read_list = _reader_of(list, "an array")
_read_dict = _reader_of(dict, "a map")
_read_str = _reader_of(str, "a string")
_SCALARS: dict[Any, Reader] = {
    int: _read_int,
    float: _reader_of(float, "a float"),
    bool: _reader_of(bool, "a boolean"),
    str: _read_str,
    bytes: _reader_of(bytes, "bytes"),
}
