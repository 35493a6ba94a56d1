"""The phases of a group of the classic protocol: what each waits for, how long, and what follows.

    Empty --join--> PreparingRebalance --all joined, or time is up--> CompletingRebalance
      ^                  ^   |                                             |
      |   nobody is left |   | join, leave, silence                        | the leader's
      +------------------|---+  in any later phase                         | assignment is stored
                         +------------------------- Stable <---------------+
    any --deleted--> Dead

The group's record (`Store`) survives a failover. It holds generation, members and assignments, and
replaying it makes a group Stable or Empty. All other state is lost with this broker, and clients
join again. Source: Kafka's classic group coordinator; KIP-62, KIP-134, KIP-345.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ....protocol.coordinator_records import GroupMetadataValue
from ....protocol.errors import ErrorCode
from .config import GroupConfig
from .member import NEVER, Member
from .roster import Roster
from .values import Began, Effects, Joined, Protocol, Reply, Store, Synced

NEW_MEMBER_MS: Final = 300_000
"""The most milliseconds that a new member waits for its first generation to begin."""


class Phase(Enum):
    """The phase of a group, under the name that Kafka's clients see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Now(NamedTuple):
    """The time of a decision."""

    ms: int
    """Monotonic milliseconds: for deadlines."""
    wall_ms: int
    """Milliseconds since the epoch: for records."""


class Phases:
    """The phase of one group, its deadlines, and the changes of phase."""

    def __init__(self, roster: Roster, config: GroupConfig) -> None:
        self._roster = roster
        self._config = config
        self.phase = Phase.EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self.since_wall_ms = -1
        """Wall time in ms of the group's newest record in the log; -1 if it has none."""
        self.wake_ms = NEVER
        """The time (monotonic ms) at which `on_time` must be called next."""
        self._join_deadline_ms = NEVER
        self._sync_deadline_ms = NEVER
        self._unsynced: dict[str, None] = {}
        self._is_first = False
        """True if this rebalance began with an empty group, so that it waits for more members."""
        self._first_remaining_ms = 0
        self._has_grown = False

    # From phase to phase.

    def rebalance(self, now: Now) -> Effects:
        """Begin a rebalance, or complete the present one if nobody must be waited for."""
        if self.phase is Phase.PREPARING:
            return self.maybe_complete_join(now)
        effects: Effects = []
        if self.phase is Phase.COMPLETING:
            effects += self.fail_assignment(ErrorCode.REBALANCE_IN_PROGRESS)
        self._unsynced.clear()
        self._sync_deadline_ms = NEVER
        self._is_first = self.phase is Phase.EMPTY
        self.phase = Phase.PREPARING
        if not self._is_first:
            self._join_deadline_ms = now.ms + self._roster.rebalance_timeout_ms
            self._wake_by(self._join_deadline_ms)
            return effects + self.maybe_complete_join(now)
        delay_ms = self._config.group_initial_rebalance_delay_ms
        self._has_grown = False
        self._first_remaining_ms = max(self._roster.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms <= 0:
            return effects + self._complete_join(now)
        self._join_deadline_ms = now.ms + delay_ms
        self._wake_by(self._join_deadline_ms)
        return effects

    def maybe_complete_join(self, now: Now) -> Effects:
        """Begin the next generation if every member and every reserved id has joined."""
        if self.phase is not Phase.PREPARING or self._is_first or self._roster.pending:
            return []
        if any(member.joining is None for member in self._roster.members.values()):
            return []
        return self._complete_join(now)

    def note_grown(self) -> None:
        """Note that a member joined, which extends a first rebalance by another delay."""
        if self.phase is Phase.PREPARING and self._is_first:
            self._has_grown = True

    def fail_assignment(self, error: ErrorCode) -> Effects:
        """Clear all assignments; answer the members that wait for theirs with `error`."""
        effects: Effects = []
        for member in self._roster.members.values():
            member.assignment = b""
            if member.syncing is not None:
                effects.append(Reply(member.syncing, Synced(error=error)))
                member.syncing = None
        return effects

    def _complete_join(self, now: Now) -> Effects:
        """Begin the next generation; remove members that did not rejoin, unless they are static."""
        effects: Effects = []
        self._is_first = False
        self._join_deadline_ms = NEVER
        for member in list(self._roster.members.values()):
            if member.joining is None and not member.is_static:
                effects += self.remove(member)
        if self._roster.members and not self._roster.elect_leader():
            # All members are static, and none has rejoined yet, so the rebalance waits longer.
            self._join_deadline_ms = now.ms + self._roster.rebalance_timeout_ms
            self._wake_by(self._join_deadline_ms)
            return effects
        self.generation += 1
        if not self._roster.members:
            self.protocol = self._roster.leader = None
            self.phase = Phase.EMPTY
            return [*effects, Began(None, 0), Store(self.value(now))]
        self.protocol = self._roster.vote()
        self.phase = Phase.COMPLETING
        effects.append(Began(self.protocol, len(self._roster.members)))
        for member in self._roster.members.values():
            if member.joining is not None:
                effects.append(Reply(member.joining, self.joined(member)))
                member.joining = None
            member.is_new = False
            self.touch(member, now)
            self._unsynced[member.member_id] = None
        self._sync_deadline_ms = now.ms + self._roster.rebalance_timeout_ms
        self._wake_by(self._sync_deadline_ms)
        return effects

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """Return the answer to the member's JoinGroup: the present generation."""
        leads = member.member_id == self._roster.leader
        return Joined(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self._roster.protocol_type,
            protocol=self.protocol,
            leader=self._roster.leader or "",
            skip_assignment=skip_assignment,
            members=self._roster.told_to_leader(self.protocol) if leads else (),
        )

    def note_synced(self, member: Member) -> None:
        """Note that a member has sent SyncGroup, so that the sync deadline does not remove it."""
        self._unsynced.pop(member.member_id, None)
        if not self._unsynced:
            self._sync_deadline_ms = NEVER

    # Time.

    def touch(self, member: Member, now: Now) -> None:
        """Extend the member's session, because it has sent a request."""
        member.deadline_ms = now.ms + member.session_timeout_ms
        self._wake_by(member.deadline_ms)

    def expect(self, member: Member, now: Now) -> None:
        """Mark a member as new: it is removed if its generation does not begin in NEW_MEMBER_MS."""
        member.is_new = True
        member.deadline_ms = now.ms + NEW_MEMBER_MS
        self._wake_by(member.deadline_ms)

    def reserve(self, member_id: str, deadline_ms: int) -> None:
        """Reserve a member id, given out but unused, until a member joins with it or a deadline."""
        self._roster.pending[member_id] = deadline_ms
        self._wake_by(deadline_ms)

    def on_time(self, now: Now) -> Effects:
        """Remove overdue members and reserved ids, and complete a rebalance that is due.

        Called at or after `wake_ms`; before that it does nothing.
        """
        if self.wake_ms > now.ms:
            return []
        effects: Effects = []
        is_changed = self._forget_silent(now, effects)
        if self._sync_deadline_ms <= now.ms:
            self._sync_deadline_ms = NEVER
            for member_id in list(self._unsynced):
                effects += self.remove(self._roster.members[member_id])
                is_changed = True
            self._unsynced.clear()
        effects += self.after_removal(now) if is_changed else self.maybe_complete_join(now)
        if self._join_deadline_ms <= now.ms:
            effects += self._on_join_deadline(now)
        self.wake_ms = self._next_due_ms()
        return effects

    def after_removal(self, now: Now) -> Effects:
        """Rebalance after members were removed, so that other members get their partitions."""
        if self.phase in (Phase.STABLE, Phase.COMPLETING):
            return self.rebalance(now)
        return self.maybe_complete_join(now)

    def remove(self, member: Member) -> list[Reply]:
        """Remove a member, and stop waiting for it; return the answers to its requests."""
        self._unsynced.pop(member.member_id, None)
        return self._roster.remove(member)

    def rename(self, member: Member, member_id: str) -> list[Reply]:
        """Replace the member id of a static member that has restarted.

        Return the answers to the requests of the old id.
        """
        if member.member_id in self._unsynced:
            del self._unsynced[member.member_id]
            self._unsynced[member_id] = None
        return self._roster.rename(member, member_id)

    def _forget_silent(self, now: Now, effects: Effects) -> bool:
        """Remove overdue members and reserved ids; return True if a member was removed."""
        is_changed = False
        for member_id, deadline_ms in list(self._roster.pending.items()):
            if deadline_ms <= now.ms:
                del self._roster.pending[member_id]
        for member in list(self._roster.members.values()):
            if member.is_due(now.ms):
                effects += self.remove(member)
                is_changed = True
        return is_changed

    def _on_join_deadline(self, now: Now) -> Effects:
        remaining_ms = self._first_remaining_ms
        if not self._is_first or not self._has_grown or remaining_ms <= 0:
            return self._complete_join(now)
        self._has_grown = False
        delay_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
        self._first_remaining_ms = remaining_ms - delay_ms
        self._join_deadline_ms = now.ms + delay_ms
        return []

    def _wake_by(self, deadline_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, deadline_ms)

    def _next_due_ms(self) -> int:
        due = [self._join_deadline_ms, self._sync_deadline_ms, *self._roster.pending.values()]
        due += [
            each.deadline_ms
            for each in self._roster.members.values()
            if each.is_new or (each.joining is None and each.syncing is None)
        ]
        return min(due)

    # The record.

    def value(self, now: Now, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """Return the group's record, with `assignments`, if given, in place of the present ones."""
        return GroupMetadataValue(
            protocol_type=self._roster.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self._roster.leader,
            current_state_timestamp=now.wall_ms,
            members=[
                member.record(
                    self.protocol,
                    member.assignment if assignments is None else assignments.get(member_id, b""),
                )
                for member_id, member in self._roster.members.items()
            ],
        )

    def replay(self, value: GroupMetadataValue) -> None:
        """Apply a record of this group, which was just appended or read from the log."""
        self.generation = value.generation
        self._roster.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.since_wall_ms = value.current_state_timestamp
        listed = {record.member_id: record for record in value.members}
        for member_id, record in listed.items():
            member = self._roster.members.get(member_id)
            if member is None:
                member = Member.stored(record, value.protocol)
                self._roster.add(member)
            elif member.metadata(value.protocol) != record.subscription:
                known = Protocol(value.protocol or "", bytes(record.subscription))
                self._roster.respeak(member, (known,))
            member.assignment = bytes(record.assignment)
            member.syncing = None  # The `Store` effect of this record holds the answer.
        for member in [
            each for each in self._roster.members.values() if each.member_id not in listed
        ]:
            self.remove(member)
        self._roster.leader = value.leader
        self.phase = Phase.STABLE if self._roster.members else Phase.EMPTY

    def on_loaded(self, now: Now) -> Effects:
        """Start the members' deadlines after loading; rebalance if group.max.size is exceeded."""
        for member in self._roster.members.values():
            self.touch(member, now)
        if len(self._roster.members) > self._config.group_max_size:
            return self.rebalance(now)
        return []
