"""Trace points: the records by which brokers tell when something happened to a sampled batch.

Pure. Each broker tells only of itself, by its own clock, and all times are in ms since the epoch.
Nothing is told twice unless an answer was lost: readers put the parts of a point together.

    key      topic id, 16 bytes | partition int32 | offset int64
    value    MessagePack [kind, fields of the part ...]; fields are only appended

The offset of the key is one divisible by N, if the part tells of one, as `minikafka.trace.every`
says. So two brokers name a point alike without asking each other.
"""

import struct
from typing import Any, Final, NamedTuple

from .control.packing import dumps, loads
from .errors import RemoteProtocolError
from .partitioning import partition_for_key
from .types import NO_OFFSET

_KEY: Final = struct.Struct(">16siq")
_OWNER: Final = struct.Struct(">16si")
TEXT_MAX: Final = 96
"""The most characters of a name in a point; a longer one is cut."""


class Written(NamedTuple):
    """A batch as its leader appended it, and who had it until it was committed."""

    broker: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    size: int
    """Bytes of the batch."""
    acks: int
    client_id: str
    host: str
    principal: str
    producer_id: int
    producer_epoch: int
    appended_ms: int
    committed_ms: int
    """-1 if the leader did not see it committed; then `why` tells why."""
    in_sync: tuple[int, ...]
    """The in-sync replicas at the time of the append, with the leader."""
    followers: tuple[int, ...]
    """The followers that had it before it was committed."""
    followers_ms: tuple[int, ...]
    """When the leader saw that, for each of `followers`."""
    trace_id: str = ""
    """The trace id of the first record, if its `traceparent` was looked at and is valid."""
    why: str = ""


class Fetched(NamedTuple):
    """The first time that a client got records of a batch from the leader."""

    broker: int
    base_offset: int
    last_offset: int
    client_id: str
    host: str
    ms: int


class GroupPassed(NamedTuple):
    """A commit by which a group went past an offset divisible by N, as its coordinator saw it."""

    broker: int
    group: str
    member: str
    client_id: str
    before: int
    """The offset that was committed before; -1 if none was."""
    after: int
    every: int
    """The N by which its coordinator sampled then."""
    ms: int
    is_transactional: bool = False
    """True if the offsets took effect with the end of a transaction; its member is not known."""


class Forwarded(NamedTuple):
    """A record that the leader of its source partition knows to be in the target."""

    broker: int
    planned_ms: int
    """By the clock of the leader that planned it, which may have been another broker."""
    answered_ms: int
    topic_id: bytes
    partition: int
    offset: int
    """-1 if the target does not know any more where it is."""
    is_dead_letter: bool = False


Part = Written | Fetched | GroupPassed | Forwarded
_KINDS: Final[dict[int, type[Part]]] = {1: Written, 2: Fetched, 3: GroupPassed, 4: Forwarded}
_NUMBERS: Final = {cls: kind for kind, cls in _KINDS.items()}


class PointKey(NamedTuple):
    """The offset that a part tells of."""

    topic_id: bytes
    partition: int
    offset: int


def encode(key: PointKey, part: Part) -> tuple[bytes, bytes]:
    """Return the key and the value of a part's record."""
    return _KEY.pack(*key), dumps([_NUMBERS[type(part)], *part])


def decode(key: bytes | None, value: bytes | None) -> tuple[PointKey, Part] | None:
    """Read a record of the topic of trace points; None for a kind that is not known.

    Raise RemoteProtocolError if it is damaged.
    """
    if key is None or value is None or len(key) != _KEY.size:
        raise RemoteProtocolError("no record of a trace point")
    plain = loads(value)
    if type(plain) is not list or not plain:
        raise RemoteProtocolError("a trace point without a kind")
    kind = _KINDS.get(plain[0]) if type(plain[0]) is int else None
    if kind is None:
        return None
    return PointKey(*_KEY.unpack(key)), _part(kind, plain[1:])


def _part(kind: type[Part], plain: list[Any]) -> Part:
    """Make a part of its fields; those that an older broker does not write have their defaults."""
    wanted = kind.__annotations__
    if len(plain) < len(wanted) - len(kind._field_defaults):
        raise RemoteProtocolError(f"{kind.__name__}: {len(plain)} fields")
    values: list[Any] = []
    for (name, hint), value in zip(wanted.items(), plain, strict=False):
        is_array = hint not in (int, str, bool, bytes)
        fits = type(value) is list and all(type(each) is int for each in value)
        if not (fits if is_array else type(value) is hint):
            raise RemoteProtocolError(f"{kind.__name__}.{name}: {type(value).__name__}")
        values.append(tuple(value) if is_array else value)
    return kind(*values)


def place_of(topic_id: bytes, partition: int, count: int) -> int:
    """Return which of `count` partitions keeps all points of one partition, in their order."""
    return partition_for_key(_OWNER.pack(topic_id, partition), count)


def first_sampled(base_offset: int, last_offset: int, every: int) -> int:
    """Return the first offset divisible by `every` from base to last; -1 if there is none."""
    offset = -(-base_offset // every) * every
    return offset if offset <= last_offset else NO_OFFSET


def shortened(text: str | None) -> str:
    """Return a name from a request as it stands in a point."""
    return (text or "")[:TEXT_MAX]
