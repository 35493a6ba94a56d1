"""The requests, answers and effects of a group, as plain values.

Times are in milliseconds: `now_ms` monotonic, `wall_ms` since the epoch. A `Ticket` is the callback
of a request that waits for its answer. The group never calls it, but returns it in a `Reply`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....protocol.coordinator_records import GroupMetadataValue
from ....protocol.errors import ErrorCode

Ticket = Callable[[Any], None]

NO_GENERATION = -1
NO_MEMBER = ""


class Who(NamedTuple):
    """The member that sends a request: its member id, and group.instance.id if it is static."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None


class Protocol(NamedTuple):
    """A protocol that a member supports, such as an assignor, and the member's metadata for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request."""

    who: Who
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    fresh_id: str
    """A random text that becomes the end of a new member's id."""
    needs_known_id: bool = False
    """True if a new member first gets only its id, and must join again with it (JoinGroup 4 and
    up)."""
    can_skip_assignment: bool = False
    """True if a leader can be told to keep the present assignment (JoinGroup 9, KIP-814)."""
    reason: str = "no reason given"


class JoinedMember(NamedTuple):
    """A member, as the answer to the group's leader lists it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a `Join`."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def failed(self, error: ErrorCode) -> "Joined":
        """Return the answer with this error in place of the generation."""
        return Joined(error=error, member_id=self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request."""

    who: Who
    generation: int
    protocol_type: str | None = None
    """The protocol type that the client expects; None if it is not to be checked."""
    protocol: str | None = None
    """The protocol that the client expects; None if it is not to be checked."""
    assignments: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a `Sync`."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> "Synced":
        """Return the answer with this error in place of the assignment."""
        return Synced(error=error)


# Effects: the coordinator carries them out.


@dataclass(frozen=True, slots=True)
class Reply:
    """An effect: answer the request of this ticket."""

    to: Ticket = field(repr=False)
    answer: Joined | Synced


@dataclass(frozen=True, slots=True)
class Store:
    """An effect: append the group's record and replay it; send the answers after the commit.

    If the record is refused or not committed, the answers carry the error. If it is refused,
    `ClassicGroup.on_store_refused` is called too.
    """

    value: GroupMetadataValue
    then: tuple[Reply, ...] = ()


@dataclass(frozen=True, slots=True)
class Joins:
    """An effect: write to the broker's log that a member takes part in the next generation."""

    member_id: str
    reason: str
    is_known: bool = False
    """True if the client was a member already."""


@dataclass(frozen=True, slots=True)
class Began:
    """An effect: write to the broker's log that a generation began, perhaps without members."""

    protocol: str | None
    member_count: int


Effect = Reply | Store | Joins | Began
Effects = list[Effect]
