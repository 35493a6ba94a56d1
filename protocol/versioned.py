"""Messages behind an int16 version, as members of a group send them inside JoinGroup and SyncGroup.

A newer version is read as the newest known here, because Kafka promises that versions only append
fields. Pure.
"""

import struct
from typing import Any, Final, TypeVar

from . import codec
from .errors import RemoteProtocolError
from .schema import shape_of

T = TypeVar("T")
_VERSION: Final = struct.Struct(">h")


def encode_versioned(message: Any, version: int) -> bytes:
    """Encode a version, and behind it a message as that version has it."""
    return _VERSION.pack(version) + codec.encode_bytes(message, version)


def decode_versioned(cls: type[T], encoded: bytes, name: str) -> tuple[int, T, int]:
    """Return the version that was read, the message, and the position behind it.

    Bytes behind the message are left: they belong to a newer version. Raise RemoteProtocolError,
    which calls the message `name`, if it is malformed.
    """
    if len(encoded) < _VERSION.size:
        raise RemoteProtocolError(f"{name} of {len(encoded)} bytes")
    (version,) = _VERSION.unpack_from(encoded)
    if version < 0:
        raise RemoteProtocolError(f"{name} of version {version}")
    known = min(version, shape_of(cls).versions.last)
    view = memoryview(encoded)
    try:
        message, end = codec.decoder_of(cls, known)(view, _VERSION.size, len(view))
    except codec.BAD_BYTES as error:
        raise RemoteProtocolError(f"{name} v{version}: {error}") from error
    if end > len(view):
        raise RemoteProtocolError(f"{name} v{version} is cut off")
    return known, message, end
