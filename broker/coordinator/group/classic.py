"""A group of the classic protocol: the effect of each request, check by check in Kafka's order.

A request changes the group at once, except for changes that must be in the log first. Those are
returned as the effect `Store`, and replaying the stored record makes them. Answers are effects too.
"""

from collections.abc import Sequence
from dataclasses import replace

from ....protocol.consumer_protocol import topics_of
from ....protocol.errors import ErrorCode, RemoteProtocolError
from .config import GroupConfig
from .member import Member
from .phases import Now, Phase, Phases
from .roster import Roster
from .values import (
    NO_MEMBER,
    Effects,
    Join,
    Joined,
    Joins,
    Reply,
    Store,
    Sync,
    Synced,
    Ticket,
    Who,
)

CONSUMER = "consumer"
"""The protocol type whose metadata a broker can read."""


class ClassicGroup:
    """One group. `roster` keeps its members; `phases` keeps its phase and its deadlines."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self._config = config
        self.roster = Roster()
        self.phases = Phases(self.roster, config)

    def __repr__(self) -> str:
        return f"group {self.group_id} ({self.phase.value}, generation {self.phases.generation})"

    @property
    def phase(self) -> Phase:
        """The group's present phase."""
        return self.phases.phase

    # JoinGroup.

    def join(self, join: Join, ticket: Ticket, now: Now) -> Effects:
        """Add a member to the next generation; its answer is sent when that generation begins."""
        who = join.who
        if self._is_full_for(who.member_id):
            effects = self._drop(who.member_id, now)
            return [*effects, _refuse(ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER)]
        if not self.roster.accepts(join.protocol_type, join.protocols):
            return [_refuse(ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, who.member_id)]
        if who.member_id == NO_MEMBER:
            return self._join_new(join, ticket, now)
        if who.member_id in self.roster.pending:
            if who.instance_id is not None:
                return [_refuse(ticket, ErrorCode.UNKNOWN_MEMBER_ID, who.member_id)]
            return self._add(Member.of(join, who.member_id), join, ticket, now)
        member = self.roster.check(who)
        if isinstance(member, ErrorCode):
            return [_refuse(ticket, member, who.member_id)]
        return self._join_again(member, join, ticket, now)

    def _join_new(self, join: Join, ticket: Ticket, now: Now) -> Effects:
        instance_id = join.who.instance_id
        member_id = f"{instance_id or join.client_id}-{join.fresh_id}"
        present = self.roster.static_member(instance_id)
        if present is not None:
            return self._replace(present, member_id, join, ticket, now)
        if join.needs_known_id and instance_id is None:
            # If the answer is lost, no member must stay behind without a client.
            self.phases.reserve(member_id, now.ms + join.session_timeout_ms)
            return [_refuse(ticket, ErrorCode.MEMBER_ID_REQUIRED, member_id)]
        return self._add(Member.of(join, member_id), join, ticket, now)

    def _add(self, member: Member, join: Join, ticket: Ticket, now: Now) -> Effects:
        if not self.roster.members:
            self.roster.protocol_type = join.protocol_type
        member.joining = ticket
        self.roster.add(member)
        self.phases.expect(member, now)
        self.phases.note_grown()
        return [Joins(member.member_id, join.reason), *self.phases.rebalance(now)]

    def _join_again(self, member: Member, join: Join, ticket: Ticket, now: Now) -> Effects:
        """Handle a JoinGroup of a known member: for the next generation, or again for this one."""
        is_same = member.protocols == join.protocols
        if self.phase is Phase.COMPLETING and is_same:
            return [Reply(ticket, self.phases.joined(member))]  # It did not get the answer.
        if self.phase is Phase.STABLE and is_same and member.member_id != self.roster.leader:
            return [Reply(ticket, replace(self.phases.joined(member), members=()))]
        effects: Effects = []
        if member.joining is not None:
            effects.append(
                _refuse(member.joining, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            )
        self.roster.update(member, join)
        member.joining = ticket
        effects.append(Joins(member.member_id, join.reason, is_known=True))
        return effects + self.phases.rebalance(now)

    def _replace(
        self, present: Member, member_id: str, join: Join, ticket: Ticket, now: Now
    ) -> Effects:
        """Give its old place back to a static member that has restarted (KIP-345, KIP-814).

        In a stable group its place and assignment are kept, and only the new id is stored. If
        another protocol would win now, or the member reads other topics, the group rebalances.
        """
        old_id, topics = present.member_id, self._topics(present)
        effects: Effects = [*self.phases.rename(present, member_id)]
        self.roster.update(present, join)
        if (
            self.phase is not Phase.STABLE
            or self.roster.vote() != self.phases.protocol
            or self._topics(present) != topics
        ):
            present.joining = ticket
            self.phases.expect(present, now)
            return effects + self.phases.rebalance(now)
        self.phases.touch(present, now)
        leads = self.roster.leader == member_id
        answer = self.phases.joined(present, skip_assignment=leads)
        if leads and not join.can_skip_assignment:
            # A client that learns that it leads would compute an assignment that nobody needs.
            answer = replace(answer, leader=old_id, skip_assignment=False, members=())
        return [*effects, Store(self.phases.value(now), (Reply(ticket, answer),))]

    def _topics(self, member: Member) -> tuple[str, ...] | None:
        """Return the topics that a member subscribes to; None if its metadata cannot be read."""
        if self.roster.protocol_type != CONSUMER:
            return None
        try:
            return topics_of(member.metadata(self.phases.protocol))
        except RemoteProtocolError:
            return None

    def _is_full_for(self, member_id: str) -> bool:
        """True if group.max.size leaves no room for this member.

        Outside a rebalance a present member always keeps its place.
        """
        if self.phase is Phase.EMPTY:
            return False
        member = self.roster.members.get(member_id)
        if self.phase is Phase.PREPARING:
            is_in = member is not None and member.joining is not None
            if is_in or len(self.roster.members) < self._config.group_max_size:
                return False
            return len(self.roster.joining) >= self._config.group_max_size
        return member is None and len(self.roster.members) >= self._config.group_max_size

    def _drop(self, member_id: str, now: Now) -> Effects:
        self.roster.pending.pop(member_id, None)
        member = self.roster.members.get(member_id)
        if member is None:
            return self.phases.maybe_complete_join(now)
        effects: Effects = [*self.phases.remove(member)]
        return effects + self.phases.after_removal(now)

    # SyncGroup.

    def sync(self, sync: Sync, ticket: Ticket, now: Now) -> Effects:
        """Answer a member with its assignment, now or once the leader's assignment is stored."""
        member = self._check_sync(sync)
        if isinstance(member, ErrorCode):
            return [Reply(ticket, Synced(error=member))]
        self.phases.touch(member, now)
        self.phases.note_synced(member)
        if self.phase is Phase.STABLE:
            return [Reply(ticket, self._synced(member.assignment))]
        effects: Effects = []
        if member.syncing is not None:
            error = Synced(error=ErrorCode.REBALANCE_IN_PROGRESS)
            effects.append(Reply(member.syncing, error))
        member.syncing = ticket
        if member.member_id != self.roster.leader:
            return effects
        assignments = dict(sync.assignments)
        waiting = tuple(
            Reply(each.syncing, self._synced(assignments.get(each.member_id, b"")))
            for each in self.roster.members.values()
            if each.syncing is not None
        )
        for each in self.roster.members.values():
            if each.syncing is not None:
                self.phases.touch(each, now)  # A member that waits for an answer is alive.
        return [*effects, Store(self.phases.value(now, assignments), waiting)]

    def on_store_refused(self, now: Now) -> Effects:
        """Rebalance again, because the log refused the record with the assignment."""
        if self.phase is not Phase.COMPLETING:
            return []
        for member in self.roster.members.values():
            member.syncing = None  # It was answered with the error of the log.
        return self.phases.rebalance(now)

    def _check_sync(self, sync: Sync) -> Member | ErrorCode:
        member = self.roster.check(sync.who)
        if isinstance(member, ErrorCode):
            return member
        if sync.generation != self.phases.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if (
            sync.protocol_type not in (None, self.roster.protocol_type)
            or sync.protocol not in (None, self.phases.protocol)
        ):  # fmt: skip
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.phase is Phase.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return member

    def _synced(self, assignment: bytes) -> Synced:
        return Synced(
            protocol_type=self.roster.protocol_type,
            protocol=self.phases.protocol,
            assignment=assignment,
        )

    # Heartbeat.

    def heartbeat(self, who: Who, generation: int, now: Now) -> ErrorCode:
        """Extend the member's session; the returned error says if the member must join again."""
        member = self.roster.check(who)
        if isinstance(member, ErrorCode):
            return member
        if generation != self.phases.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.phases.touch(member, now)
        if self.phase is Phase.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # LeaveGroup.

    def leave(self, leaving: Sequence[Who], now: Now) -> tuple[list[ErrorCode], Effects]:
        """Remove members, by member id or group.instance.id; return one result for each."""
        effects: Effects = []
        count = len(self.roster.members)
        errors = [self._leave(who, effects) for who in leaving]
        # A member id that never joined was no part of the generation, so it needs no rebalance.
        is_changed = len(self.roster.members) < count
        effects += (
            self.phases.after_removal(now) if is_changed else self.phases.maybe_complete_join(now)
        )
        return errors, effects

    def _leave(self, who: Who, effects: Effects) -> ErrorCode:
        if who.member_id in self.roster.pending:
            if who.instance_id is not None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            del self.roster.pending[who.member_id]
            return ErrorCode.NONE
        if who.member_id == NO_MEMBER:
            # An operator removes a static member by its name.
            member: Member | ErrorCode | None = self.roster.static_member(who.instance_id)
        else:
            member = self.roster.check(who)
        if isinstance(member, ErrorCode):
            return member
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        effects += self.phases.remove(member)
        return ErrorCode.NONE

    # Offsets.

    def check_commit(self, who: Who, generation: int, *, is_transactional: bool) -> ErrorCode:
        """Return the error for an offset commit by `who`, or NONE if the commit is allowed.

        An empty group accepts commits of clients that are no members.
        """
        if self.phase is Phase.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.phase is Phase.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or who.member_id != NO_MEMBER or who.instance_id is not None:
            member = self.roster.check(who)
            if isinstance(member, ErrorCode):
                return member
            if generation != self.phases.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and self.phase is Phase.COMPLETING:
            # The member has no assignment in this generation yet, so it cannot have read anything.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def note_commit(self, who: Who, now: Now) -> None:
        """Extend the session of a member that commits offsets, as a heartbeat does."""
        member = self.roster.members.get(who.member_id)
        if member is not None:
            self.phases.touch(member, now)

    def subscribed(self) -> dict[str, None] | None:
        """Return the topics that members read; None if unknown, so that any may be read."""
        found: dict[str, None] = {}
        if self.roster.protocol_type != CONSUMER:
            return found
        for member in self.roster.members.values():
            topics = self._topics(member)
            if topics is None:
                return None
            found |= dict.fromkeys(topics)
        return found


def _refuse(ticket: Ticket, error: ErrorCode, member_id: str) -> Reply:
    return Reply(ticket, Joined(error=error, member_id=member_id))
