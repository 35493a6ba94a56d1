"""One member of a group of the classic protocol: its protocols, its wait and its deadline.

This class holds state only; the group changes it. A member that waits for an answer to JoinGroup or
SyncGroup needs no heartbeat unless it is new. Any other member is removed when its deadline passes.
"""

from dataclasses import dataclass, field

from ....protocol.coordinator_records import MemberMetadata
from .values import Join, Protocol, Ticket, Who

NEVER = 1 << 62


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """A member and its place in the present generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """True from the first JoinGroup until the generation begins: the client may be gone by then."""
    deadline_ms: int = NEVER
    """The time (monotonic ms) at which the member is removed, unless it sends a request earlier."""
    joining: Ticket | None = field(default=None, repr=False)
    """The ticket of its JoinGroup that waits for the next generation; None if none waits."""
    syncing: Ticket | None = field(default=None, repr=False)
    """The ticket of its SyncGroup that waits for the assignment; None if none waits."""

    @classmethod
    def of(cls, join: Join, member_id: str) -> "Member":
        """Make a new member from its first JoinGroup."""
        return cls(
            member_id=member_id,
            instance_id=join.who.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=join.protocols,
        )

    @classmethod
    def stored(cls, record: MemberMetadata, protocol: str | None) -> "Member":
        """Make a member from its record in the log, which has only the chosen protocol."""
        timeout_ms = record.rebalance_timeout
        return cls(
            member_id=record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else record.session_timeout,
            session_timeout_ms=record.session_timeout,
            protocols=(Protocol(protocol or "", bytes(record.subscription)),),
            assignment=bytes(record.assignment),
        )

    @property
    def who(self) -> Who:
        """The member's id and its group.instance.id."""
        return Who(self.member_id, self.instance_id)

    @property
    def is_static(self) -> bool:
        """True if the member has a name that outlives its member id (KIP-345)."""
        return self.instance_id is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for this protocol; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def is_due(self, now_ms: int) -> bool:
        """True if the member must be removed, because its deadline has passed.

        A member that waits for an answer is removed only if it is new.
        """
        if self.deadline_ms > now_ms:
            return False
        return self.is_new or (self.joining is None and self.syncing is None)

    def update(self, join: Join) -> None:
        """Copy the values of a repeated JoinGroup, except the protocols, which `Roster` counts."""
        self.client_id = join.client_id
        self.client_host = join.client_host
        self.session_timeout_ms = join.session_timeout_ms
        self.rebalance_timeout_ms = join.rebalance_timeout_ms

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """Return the member as the group's record stores it."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )
