"""The bytes of MM2's own records: offset syncs, checkpoints, heartbeats.

They are those of Kafka's OffsetSync, Checkpoint and Heartbeat (connect/mirror, KIP-382): big-endian
numbers, texts with a 16-bit length, and a 16-bit version before the value where there is one.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError

VERSION = 0


class BadMirrorRecord(MinikafkaError):
    """A record of a topic of MM2 cannot be read; the message says which part of it."""


class OffsetSync(NamedTuple):
    """The record `upstream` of a partition of the source is `downstream` at the target."""

    partition: TopicPartition
    """The partition at the source."""
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """Return the record's key."""
        return _pack("si", *self.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return _pack("qq", self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Return the sync of a record; raise BadMirrorRecord if it is none."""
        topic, partition = _unpack("si", key)
        return cls(TopicPartition(topic, partition), *_unpack("qq", value))


class Checkpoint(NamedTuple):
    """A group has reached `upstream` at the source, which is `downstream` at the target."""

    group: str
    partition: TopicPartition
    """The partition at the target."""
    upstream: int
    downstream: int
    metadata: str = ""
    """The text that the group committed with its offset."""

    def key(self) -> bytes:
        """Return the record's key."""
        return _pack("ssi", self.group, *self.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return _pack("hqqs", VERSION, self.upstream, self.downstream, self.metadata)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Return the checkpoint of a record; raise BadMirrorRecord if it is none."""
        group, topic, partition = _unpack("ssi", key)
        _check_version(value)
        _, *rest = _unpack("hqqs", value)
        return cls(group, TopicPartition(topic, partition), *rest)


class Heartbeat(NamedTuple):
    """The flow from `source` to `target` was alive at a time."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        """Return the record's key."""
        return _pack("ss", self.source, self.target)

    def value(self) -> bytes:
        """Return the record's value."""
        return _pack("hq", VERSION, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Return the heartbeat of a record; raise BadMirrorRecord if it is none."""
        source, target = _unpack("ss", key)
        _check_version(value)
        return cls(source, target, _unpack("hq", value)[1])


def _check_version(value: bytes) -> None:
    (version,) = _unpack("h", value[:2])
    if version != VERSION:
        raise BadMirrorRecord(f"version {version} is not known; known is {VERSION}")


def _pack(form: str, *values: Any) -> bytes:
    """Return the values as bytes; `form` has struct's letters, and `s` with a length before it."""
    out = bytearray()
    for letter, value in zip(form, values, strict=True):
        if letter == "s":
            text = value.encode()
            out += struct.pack(">h", len(text)) + text
        else:
            out += struct.pack(f">{letter}", value)
    return bytes(out)


def _unpack(form: str, data: bytes) -> Sequence[Any]:
    found: list[Any] = []
    at = 0
    try:
        for letter in form:
            if letter == "s":
                (length,) = struct.unpack_from(">h", data, at)
                text = data[at + 2 : at + 2 + length]
                if length < 0 or len(text) < length:
                    raise BadMirrorRecord(f"a text of {length} bytes at byte {at} is cut off")
                found.append(text.decode())
                at += 2 + length
            else:
                found += struct.unpack_from(f">{letter}", data, at)
                at += struct.calcsize(f">{letter}")
    except (struct.error, UnicodeDecodeError) as error:
        raise BadMirrorRecord(f"{len(data)} bytes are no record of MM2: {error}") from None
    return found
