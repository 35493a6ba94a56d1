"""Encodes and decodes messages, by functions compiled once per (message, version) on first use.

It also writes and reads the headers and sizes of requests and responses. It does no I/O, and
allocates nothing for a claimed length before it has checked that so many bytes are there.

Request:  size:int32 api_key:int16 api_version:int16 correlation_id:int32 client_id:nullable string
          [tags when the version is flexible] body
Response: size:int32 correlation_id:int32 [tags when flexible; never for ApiVersions, KIP-511] body
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from .codegen import compile_decoder, compile_encoder
from .errors import LocalProtocolError, RemoteProtocolError
from .primitives import read_uvarint
from .schema import REQUESTS, RESPONSES, shape_of
from .types import Buffer

T = TypeVar("T")
Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
Encoder = Callable[[bytearray, list[Buffer], Any], bytearray]

API_VERSIONS_KEY: Final = 18
BAD_BYTES: Final = (struct.error, IndexError, ValueError)
"""The exceptions that compiled decoders raise on malformed bytes; ValueError includes bad UTF-8."""

_HEADER: Final = struct.Struct(">hhih")
_RESPONSE_HEADER: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
_decoders: Final[dict[tuple[type, int], Decoder]] = {}
_encoders: Final[dict[tuple[type, int], Encoder]] = {}
_tagged_headers: Final[dict[tuple[type, int], bool]] = {}
_new_tuple = tuple.__new__


class RequestHeader(NamedTuple):
    """The fields before the body of every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_class(api_key: int) -> type:
    """Return the class of an API's request; raise KeyError if the API is not supported here."""
    return REQUESTS[api_key]


def response_class(api_key: int) -> type:
    """Return the class of an API's response; raise KeyError if the API is not supported here."""
    return RESPONSES[api_key]


def is_flexible(cls: type, version: int) -> bool:
    """True if `version` of a message uses compact lengths and tagged fields (KIP-482)."""
    return version in shape_of(cls).flexible


def has_tagged_header(cls: type, version: int) -> bool:
    """True if the message's header ends with tagged fields in `version`, even one above ours."""
    tagged = _tagged_headers.get((cls, version))
    if tagged is None:
        shape = shape_of(cls)
        tagged = version in shape.flexible
        if cls is RESPONSES.get(API_VERSIONS_KEY):
            tagged = False
        if version in shape.versions:
            _tagged_headers[cls, version] = tagged
    return tagged


def decoder_of(cls: type, version: int) -> Decoder:
    """Return the function `decode(view, position, end) -> (message, position)`, compiled once.

    The function raises BAD_BYTES. A caller that does not catch them uses `decode` instead.
    """
    decoder = _decoders.get((cls, version))
    if decoder is None:
        _check_version(cls, version)
        decoder = _decoders[cls, version] = compile_decoder(cls, version, is_flexible(cls, version))
    return decoder


def encoder_of(cls: type, version: int) -> Encoder:
    """Return the function `encode(buffer, parts, message) -> last buffer`, compiled once.

    The function appends to `buffer`. If it adds large record bytes to `parts`, it returns the new
    buffer that follows them.
    """
    encoder = _encoders.get((cls, version))
    if encoder is None:
        _check_version(cls, version)
        encoder = _encoders[cls, version] = compile_encoder(cls, version, is_flexible(cls, version))
    return encoder


def decode(cls: type[T], version: int, view: Buffer) -> T:
    """Decode a message that fills `view`; raise RemoteProtocolError if the bytes are malformed."""
    return decode_at(cls, version, memoryview(view), 0)


def decode_at(cls: type[T], version: int, view: memoryview, pos: int) -> T:
    """Decode a message from `pos` to the end of `view`; raise RemoteProtocolError as `decode`."""
    end = len(view)
    try:
        message, stop = decoder_of(cls, version)(view, pos, end)
    except BAD_BYTES as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {error}") from error
    if stop != end:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {end - stop} bytes left over")
    return message  # type: ignore[no-any-return]


def encode(message: object, version: int) -> list[Buffer]:
    """Encode a message as parts to send in order; large record bytes are parts of their own.

    Raise LocalProtocolError if a field's value does not fit its type, or if the version is not
    ours.
    """
    parts: list[Buffer] = []
    parts.append(_encode_onto(bytearray(), parts, message, version))
    return parts


def encode_bytes(message: object, version: int) -> bytes:
    """Encode a message as one bytes object."""
    return b"".join(encode(message, version))


def frame_request(
    message: object, version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """Encode size, header and body of a request as parts to send in order."""
    shape = shape_of(type(message))
    client = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(client)
    start = bytearray(4)
    start += _HEADER.pack(shape.api_key, version, correlation_id, length)
    start += client
    if has_tagged_header(type(message), version):
        start.append(0)
    return _sized(start, message, version)


def frame_response(message: object, version: int, correlation_id: int) -> list[Buffer]:
    """Encode size, header and body of a response as parts to send in order."""
    start = bytearray(_RESPONSE_HEADER.pack(0, correlation_id))
    if has_tagged_header(type(message), version):
        start.append(0)
    return _sized(start, message, version)


def decode_request_header(view: memoryview) -> tuple[RequestHeader, int]:
    """Decode a request's header and return it with the position of the body.

    The header's layout depends on API and version. If the API is unknown, only the part up to the
    client id is read, because this part is the same in all layouts. Raise RemoteProtocolError if
    the bytes are malformed.
    """
    try:
        api_key, version, correlation_id, length = _HEADER.unpack_from(view, 0)
        pos = 10
        client_id: str | None = None
        if length >= 0:
            pos += length
            if pos > len(view):
                raise ValueError(f"client id of {length} bytes does not fit the frame")
            client_id = str(view[10:pos], "utf-8")
        cls = REQUESTS.get(api_key)
        if cls is not None and has_tagged_header(cls, version):
            pos = pos + 1 if view[pos] == 0 else _skip_tags(view, pos)
    except BAD_BYTES as error:
        raise RemoteProtocolError(f"request header: {error}") from error
    return _new_tuple(RequestHeader, (api_key, version, correlation_id, client_id)), pos


def decode_response_frame(cls: type[T], version: int, view: Buffer) -> tuple[int, T]:
    """Decode a response frame, given without its size; return its correlation id and message.

    Raise RemoteProtocolError if the frame is malformed.
    """
    view = memoryview(view)
    try:
        (correlation_id,) = _INT32.unpack_from(view, 0)
        pos = 4
        if has_tagged_header(cls, version):
            pos = _skip_tags(view, pos)
    except BAD_BYTES as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version} header: {error}") from error
    return correlation_id, decode_at(cls, version, view, pos)


def _encode_onto(start: bytearray, parts: list[Buffer], message: object, version: int) -> bytearray:
    cls = type(message)
    try:
        return encoder_of(cls, version)(start, parts, message)
    except (struct.error, TypeError, AttributeError, OverflowError, UnicodeError) as error:
        raise LocalProtocolError(f"{cls.__name__} v{version}: {error}") from error


def _sized(start: bytearray, message: object, version: int) -> list[Buffer]:
    parts: list[Buffer] = []
    last = _encode_onto(start, parts, message, version)
    if not parts:
        _INT32.pack_into(last, 0, len(last) - 4)
        return [last]
    parts.append(last)
    _INT32.pack_into(start, 0, sum(map(len, parts)) - 4)
    return parts


def _check_version(cls: type, version: int) -> None:
    if version not in shape_of(cls).versions:
        spoken = shape_of(cls).versions
        raise LocalProtocolError(f"{cls.__name__} has versions {spoken}, not {version}")


def _skip_tags(view: memoryview, pos: int) -> int:
    count, pos = read_uvarint(view, pos)
    for _ in range(count):
        _, pos = read_uvarint(view, pos)
        size, pos = read_uvarint(view, pos)
        pos += size
        if pos > len(view):
            raise ValueError(f"tagged field of {size} bytes does not fit the frame")
    return pos
