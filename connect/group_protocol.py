"""The bytes that workers exchange inside JoinGroup and SyncGroup, as Kafka's Connect writes them.

Protocol type `connect`; the protocols `default` (V0, eager), `compatible` (V1, KIP-415) and
`sessioned` (V2, KIP-507, the bytes of V1). This module decodes all three, and workers offer the
last two. Behind subscriptions and assignments stands a marker of ours, which Kafka's workers do not
read: it tells a worker of ours, and whether it joins for the last time before a clean stop. Pure;
it knows no group and no clock.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..protocol.schema import Bytes, Int16, Int32, Int64, String, data, field, nested
from ..protocol.versioned import decode_versioned, encode_versioned
from .states import TaskId

PROTOCOL_TYPE: Final = "connect"
EAGER: Final = "default"
COMPATIBLE: Final = "compatible"
SESSIONED: Final = "sessioned"
VERSIONS: Final = {EAGER: 0, COMPATIBLE: 1, SESSIONED: 2}
"""The version that each protocol's bytes begin with."""
OFFERED: Final = (SESSIONED, COMPATIBLE)
"""The protocols that workers of ours speak, the best first."""
CONNECTOR: Final = -1
"""The number of the task that stands for the connector itself."""
NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The error of an assignment that gives nothing: read the config topic to its end and rejoin."""
_MARKER: Final = struct.Struct(">2sBB")
"""Two letters, the marker's version, and flags."""
_LETTERS: Final = b"mk"
_MARKER_VERSION: Final = 0
_IS_LEAVING: Final = 1
NEWEST: Final = 2


@nested
class _Tasks:
    """Tasks of one connector; CONNECTOR stands for the connector itself."""

    connector: String
    tasks: list[Int32]


@data(versions="0-2", flexible="none")
class _Subscription:
    """A worker's words to the group when it joins."""

    url: String
    config_offset: Int64
    allocation: Bytes | None = field("1+", default=None)


@data(versions="0-2", flexible="none")
class _Assignment:
    """The leader's words to a worker."""

    error: Int16
    leader: String | None
    leader_url: String | None
    config_offset: Int64
    assigned: list[_Tasks] | None
    revoked: list[_Tasks] | None = field("1+", default=None)
    scheduled_delay_ms: Int32 = field("1+", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Work to start and to stop; in a subscription, all that it holds."""

    version: int = NEWEST
    error: int = NO_ERROR
    leader: str | None = None
    """The member id of the group's leader."""
    leader_url: str | None = None
    config_offset: int = -1
    """The offset behind the last record of the config topic that the leader knew."""
    assigned: tuple[TaskId, ...] = ()
    """Tasks and connectors to start, beside what the worker holds; under V0 all that it holds."""
    revoked: tuple[TaskId, ...] = ()
    """Tasks and connectors to stop before the worker joins again."""
    scheduled_delay_ms: int = 0
    """Milliseconds after which the worker joins again; 0 if no work waits for a lost worker."""
    is_ours: bool = False
    """True if a leader of minikafka's wrote it: the marker stands behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A worker's words to the group when it joins."""

    url: str
    """The address of its REST API, under which other workers reach it."""
    config_offset: int
    """The offset behind the last record of the config topic that it has read."""
    held: tuple[TaskId, ...] = ()
    version: int = NEWEST
    is_ours: bool = True
    """False if the worker is not one of minikafka's: the marker is missing."""
    is_leaving: bool = False
    """True if the worker has stopped its work and leaves the group after this rebalance."""


def connector_of(name: str) -> TaskId:
    """Return the item that stands for the connector itself."""
    return TaskId(name, CONNECTOR)


def encode_subscription(said: Subscription, held: Assignment | None = None) -> bytes:
    """Encode a worker's metadata for JoinGroup; `held` replaces what `said.held` is made into."""
    allocation = held
    if allocation is None and said.held:
        allocation = Assignment(version=said.version, assigned=said.held)
    written = _Subscription(
        url=said.url,
        config_offset=said.config_offset,
        allocation=None if allocation is None else encode_assignment(allocation),
    )
    encoded = encode_versioned(written, said.version)
    if not said.is_ours:
        return encoded
    return encoded + _MARKER.pack(_LETTERS, _MARKER_VERSION, _IS_LEAVING * said.is_leaving)


def decode_subscription(encoded: bytes) -> tuple[Subscription, Assignment | None]:
    """Decode a worker's metadata, and what it holds as it wrote it; None if it holds nothing.

    Raise RemoteProtocolError if the bytes are malformed.
    """
    version, read, end = decode_versioned(_Subscription, encoded, "Connect Subscription")
    allocation = None if read.allocation is None else decode_assignment(bytes(read.allocation))
    is_ours, flags = _marker(encoded[end:])
    said = Subscription(
        url=read.url,
        config_offset=read.config_offset,
        held=() if allocation is None else allocation.assigned,
        version=version,
        is_ours=is_ours,
        is_leaving=bool(flags & _IS_LEAVING),
    )
    return said, allocation


def encode_assignment(given: Assignment) -> bytes:
    """Encode a worker's assignment for SyncGroup, or what it holds for its subscription."""
    written = _Assignment(
        error=given.error,
        leader=given.leader,
        leader_url=given.leader_url,
        config_offset=given.config_offset,
        assigned=_grouped(given.assigned),
        revoked=_grouped(given.revoked),
        scheduled_delay_ms=given.scheduled_delay_ms,
    )
    encoded = encode_versioned(written, given.version)
    return encoded + _MARKER.pack(_LETTERS, _MARKER_VERSION, 0) if given.is_ours else encoded


def decode_assignment(encoded: bytes) -> Assignment:
    """Decode an assignment; empty bytes stand for none. Raise RemoteProtocolError if malformed."""
    if not encoded:
        return Assignment()
    version, read, end = decode_versioned(_Assignment, encoded, "Connect Assignment")
    return Assignment(
        version=version,
        error=read.error,
        leader=read.leader,
        leader_url=read.leader_url,
        config_offset=read.config_offset,
        assigned=_flat(read.assigned),
        revoked=_flat(read.revoked),
        scheduled_delay_ms=read.scheduled_delay_ms,
        is_ours=_marker(encoded[end:])[0],
    )


def _grouped(items: Iterable[TaskId]) -> list[_Tasks]:
    groups: dict[str, list[int]] = {}
    for connector, task in items:
        groups.setdefault(connector, []).append(task)
    return [_Tasks(connector=name, tasks=tasks) for name, tasks in groups.items()]


def _flat(groups: Sequence[_Tasks] | None) -> tuple[TaskId, ...]:
    return tuple(TaskId(each.connector, task) for each in groups or () for task in each.tasks)


def _marker(rest: bytes) -> tuple[bool, int]:
    if len(rest) < _MARKER.size:
        return False, 0
    letters, _, flags = _MARKER.unpack_from(rest)
    return letters == _LETTERS, flags
