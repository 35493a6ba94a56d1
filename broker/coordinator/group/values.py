"""The requests, answers and effects of a group, as plain values.

Values only. Times are in milliseconds: `now_ms` monotonic, `wall_ms` since the epoch. A `Ticket`
stands for a request that waits for its answer; the group hands it back and never looks at it.
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
    """The member that asks."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None


class Protocol(NamedTuple):
    """One protocol that a member speaks, such as an assignor, and the member's metadata for it."""

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
    """A random text that ends a new member's id."""
    needs_known_id: bool = False
    """A new member is sent away with its id first (from version 4 on)."""
    can_skip_assignment: bool = False
    """The leader may be told to keep the present assignment (from version 9 on, KIP-814)."""
    reason: str = "no reason given"


class JoinedMember(NamedTuple):
    """A member, as the group's leader sees it."""

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
        """The same answer as a failure."""
        return Joined(error=error, member_id=self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request."""

    who: Who
    generation: int
    protocol_type: str | None = None
    """None: no check."""
    protocol: str | None = None
    """None: no check."""
    assignments: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a `Sync`."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> "Synced":
        """The same answer as a failure."""
        return Synced(error=error)


# What the group wants done.


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request of this ticket."""

    to: Ticket = field(repr=False)
    answer: Joined | Synced


@dataclass(frozen=True, slots=True)
class Store:
    """Append the group's record and replay it, then answer when it is committed.

    If it is refused or not committed, the answers become failures. If it is refused, the group
    hears of that too.
    """

    value: GroupMetadataValue
    then: tuple[Reply, ...] = ()


@dataclass(frozen=True, slots=True)
class Joins:
    """Say in the log that a member takes part in the next generation."""

    member_id: str
    reason: str
    is_known: bool = False
    """True if the client was a member already."""


@dataclass(frozen=True, slots=True)
class Began:
    """Log that a generation began; with `member_count` 0 the group is empty."""

    protocol: str | None
    member_count: int


Effect = Reply | Store | Joins | Began
Effects = list[Effect]
