"""The members of a group, their ids, their leader, and the protocols that all of them support.

The roster keeps the members in the order in which they joined. It also keeps the member ids that
were given to clients but not used in a JoinGroup yet. Phases and deadlines are in `phases`.
"""

from collections.abc import Sequence

from ....protocol.errors import ErrorCode
from .member import Member
from .values import Join, Joined, JoinedMember, Protocol, Reply, Synced, Who


class Roster:
    """The members of one group."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """The present member id of each group.instance.id."""
        self.pending: dict[str, int] = {}
        """Member ids that were given out and not yet used, with their deadlines (monotonic ms)."""
        self.leader: str | None = None
        self.protocol_type: str | None = None
        self._speakers: dict[str, int] = {}
        """The number of members that support each protocol."""

    # Members.

    def add(self, member: Member) -> None:
        """Add a member; the first member of the group is its leader."""
        if not self.members:
            self.leader = None
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> list[Reply]:
        """Remove a member, whose waiting requests are answered with UNKNOWN_MEMBER_ID.

        Only `Phases.remove` calls this, since it must also stop waiting for the member.
        """
        del self.members[member.member_id]
        self._count(member, -1)
        instance_id = member.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        return self.dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID)

    def rename(self, member: Member, member_id: str) -> list[Reply]:
        """Give a static member a new id in its old place; fence waiting requests of the old id.

        Only `Phases.rename` calls this, since from now on it must wait for the new id.
        """
        replies = self.dismiss(member, ErrorCode.FENCED_INSTANCE_ID)
        if self.leader == member.member_id:
            self.leader = member_id
        old_id, member.member_id = member.member_id, member_id
        self.members = {
            (member_id if key == old_id else key): value for key, value in self.members.items()
        }
        assert member.instance_id is not None
        self.static_ids[member.instance_id] = member_id
        return replies

    def update(self, member: Member, join: Join) -> None:
        """Copy the values of a member's repeated JoinGroup, protocols included."""
        self.respeak(member, join.protocols)
        member.update(join)

    def respeak(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """Replace the protocols that a member supports."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def dismiss(self, member: Member, error: ErrorCode) -> list[Reply]:
        """Return an answer with `error` to each waiting request of the member."""
        replies: list[Reply] = []
        if member.joining is not None:
            replies.append(Reply(member.joining, Joined(error=error, member_id=member.member_id)))
        if member.syncing is not None:
            replies.append(Reply(member.syncing, Synced(error=error)))
        member.joining = member.syncing = None
        return replies

    def check(self, who: Who) -> Member | ErrorCode:
        """Return the member that sent a request, or UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID."""
        if who.instance_id is not None:
            known = self.static_ids.get(who.instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != who.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(who.member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member with that group.instance.id; None if there is none."""
        member_id = self.static_ids.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    @property
    def joining(self) -> list[Member]:
        """The members that wait for the next generation."""
        return [member for member in self.members.values() if member.joining is not None]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time in ms that a rebalance waits: the longest rebalance timeout of a member."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Choose a leader among the members that wait to join; return False if none waits.

        The present leader is kept if it waits.
        """
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        joining = self.joining
        if not joining:
            return False
        self.leader = joining[0].member_id
        return True

    # Protocols.

    def accepts(self, protocol_type: str, protocols: Sequence[Protocol]) -> bool:
        """True if a client that supports these protocols can become a member."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._is_common(name) for name, _ in protocols
        )

    def common_protocols(self) -> dict[str, None]:
        """Return the protocols that every member supports, in the first member's order."""
        first = next(iter(self.members.values()))
        return {name: None for name, _ in first.protocols if self._is_common(name)}

    def vote(self) -> str:
        """Choose the protocol: each member votes for the first on its list that all support.

        If several have the most votes, the oldest member's preference decides.
        """
        votes = dict.fromkeys(self.common_protocols(), 0)
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in votes)] += 1
        return max(votes, key=lambda name: votes[name])

    def _is_common(self, protocol: str) -> bool:
        return self._speakers.get(protocol) == len(self.members)

    def _count(self, member: Member, change: int) -> None:
        for name in dict.fromkeys(name for name, _ in member.protocols):
            count = self._speakers.pop(name, 0) + change
            if count:
                self._speakers[name] = count

    def told_to_leader(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """Return all members in the form in which the leader's JoinGroup answer lists them."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(protocol))
            for each in self.members.values()
        )
