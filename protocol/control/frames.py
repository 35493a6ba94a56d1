"""Frames of the control protocol: size (4 bytes, big-endian), then [kind, correlation, fields].

On a sealed connection an authentication tag of 16 bytes follows; the size counts it.

An answer repeats the correlation id of its request. This module encodes and decodes whole frames;
`framing.FrameReader` cuts a stream into frames.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

from ..errors import RemoteProtocolError
from ..framing import KAFKA_REQUEST_BEGIN
from ..types import Buffer
from . import quorum_messages as _declares_its_kinds  # noqa: F401
from .messages import KINDS, kind_of
from .packing import ITEM_COUNT_MAX, dumps, from_plain, loads, to_plain

FRAME_BYTES_MAX: Final = 64 << 20
"""The largest frame accepted, in bytes; no request of a broker comes near it."""

_SIZE = struct.Struct(">i")


class KafkaRequest(RemoteProtocolError):
    """The peer sent a Kafka request: it takes this controller for a broker."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message and the id that pairs a request with its answer."""

    correlation_id: int
    message: Any


def encode_frame(correlation_id: int, message: object) -> bytes:
    """Encode the frame with its size in front, ready to be sent."""
    return with_size(encode_body(correlation_id, message))


def encode_body(correlation_id: int, message: object) -> bytes:
    """Encode the frame without its size."""
    return dumps([kind_of(type(message)), correlation_id, to_plain(message)])


def with_size(body: bytes) -> bytes:
    """Return a frame's body with its size in front."""
    return _SIZE.pack(len(body)) + body


def decode_frame(body: Buffer, items_max: int = ITEM_COUNT_MAX) -> Frame:
    """Decode a frame, given without its size; raise RemoteProtocolError if it is malformed.

    No array in the frame may have more than `items_max` items. The decoder reserves memory for the
    number of items that each array claims, and arrays may nest a thousand deep. The bound is
    therefore low for frames of peers that have not proved who they are. Raise KafkaRequest if the
    bytes begin like a Kafka client's request.
    """
    if len(body) and body[0] == KAFKA_REQUEST_BEGIN:
        raise KafkaRequest("a Kafka request to a controller: clients need a broker's address")
    plain = loads(body, items_max)
    if type(plain) is not list or len(plain) < 3:
        raise RemoteProtocolError("a control frame is [kind, correlation, fields]")
    kind, correlation_id, fields = plain[:3]
    # Only numbers are shown: Python cannot print a value that is nested as deep as one may be.
    if type(kind) is not int or (cls := KINDS.get(kind)) is None:
        shown = kind if type(kind) is int else type(kind).__name__
        raise RemoteProtocolError(f"unknown kind of control message: {shown}")
    if type(correlation_id) is not int or not 0 <= correlation_id < 1 << 63:
        raise RemoteProtocolError(f"{cls.__name__}: bad correlation id")
    message, _ = from_plain(cls, fields)
    return Frame(correlation_id, message)
