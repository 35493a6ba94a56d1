"""One member of a classic consumer group: what it does next, and what the user must do first.

Pure. Two sides drive it: a loop that carries out `next_step` and passes in the brokers' answers,
and the user's polls, which carry out `pending` (partitions to give up and to take). Partitions are
given to the user and taken from him only inside a poll. At that time the records of earlier polls
count as processed, so that they can be committed first.

    AWAY --poll--> PREPARING --all given up--> JOINING --> SYNCING --> TAKING --taken--> STABLE
     ^                ^  ^                        |           |           |                |
     |                |  +-- fenced: all is lost--+-----------+-----------+----------------+
     |                +------- the group rebalances, or what this member wants changed ----+
     +---------- nobody polled for max_poll_interval_ms: left, all is lost ----------------+

Eager members give up everything in PREPARING. Cooperative ones (KIP-429) keep reading. In TAKING
they give up the partitions that the new assignment lacks, and then join once more so that other
members get these. Between TAKING and the next JOINING no member has them.

`owned` holds the partitions that the user has. It changes only when a poll reports that it gave up
or took partitions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ...protocol.errors import ErrorCode
from ...protocol.types import TopicPartition

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
FORGOTTEN: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
"""The errors of a coordinator that does not know the member, or not even its group."""


class Stage(Enum):
    """The stages of a member's life in its group."""

    AWAY = auto()
    """The member is not in the group; the next poll joins."""
    PREPARING = auto()
    """The user's next poll gives up partitions if it must; then the member joins."""
    JOINING = auto()
    SYNCING = auto()
    """The member has joined, and its assignment is awaited."""
    TAKING = auto()
    """The assignment has arrived, and the user's next poll carries it out."""
    STABLE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings of a member; they never change."""

    group_instance_id: str | None = None
    is_cooperative: bool = True
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class Join:
    """The step to send JoinGroup; `reason` appears in the broker's log (KIP-800)."""

    member_id: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """Another member of the group, as the coordinator describes it to the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to JoinGroup: the generation that began."""

    member_id: str
    generation: int
    protocol: str
    is_leader: bool
    skips_assignment: bool = False
    """The leader must keep the assignment that exists (KIP-814)."""
    members: tuple[JoinedMember, ...] = ()
    """All members of the generation; empty unless this member leads."""


@dataclass(frozen=True, slots=True)
class Sync:
    """The step to send SyncGroup; the leader computes the assignment first."""

    joined: Joined


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The step to send Heartbeat; also used for a member's id and generation in a commit."""

    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The step to send LeaveGroup; nothing depends on the answer."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The step to wait until the loop is woken, or until `until_ms` if that is not None."""

    until_ms: int | None


Step = Join | Sync | Heartbeat | Leave | Wait


@dataclass(frozen=True, slots=True)
class Change:
    """The change of the assignment that a poll must carry out, in the order of the fields."""

    lost: tuple[TopicPartition, ...] = ()
    """Partitions that other members may own already, because this member was fenced."""
    revoked: tuple[TopicPartition, ...] = ()
    """Partitions that this member owns until it gives them up, so that it can commit first."""
    target: tuple[TopicPartition, ...] | None = None
    """All partitions of the new assignment; None if only partitions are taken away."""


class Membership:
    """The state machine of one group member; see the module. Times are monotonic ms."""

    def __init__(self, terms: Terms) -> None:
        self.stage = Stage.AWAY
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.commits_as = Heartbeat(NO_MEMBER, NO_GENERATION)
        """The newest generation, kept when this member is fenced or leaves.

        A transaction that commits what was read in it names it, so that the coordinator refuses a
        member that lost its partitions; it takes commits that name none from anybody."""
        self.owned: dict[TopicPartition, None] = {}
        """The partitions that the user has now, in order."""
        self.last_owned: tuple[TopicPartition, ...] = ()
        self.last_generation = NO_GENERATION
        """The generation of `last_owned`; sticky assignors report both when they join."""
        self.is_replaced = False
        """True once another member with the same instance id took this member's place.

        This member does not join again, because the two would fence each other for ever."""
        self.reason = ""
        """The reason of the newest join, which may be under way."""
        self._terms = terms
        self._wanted: frozenset[str] = frozenset()
        self._joined: Joined | None = None
        self._target: tuple[TopicPartition, ...] | None = None
        self._is_lost = False
        self._again: str | None = None
        """The reason to join again as soon as this rebalance is over."""
        self._farewell: Leave | None = None
        self._heartbeat_at_ms = 0
        self._polled_at_ms = 0
        self._is_polling = False

    @property
    def is_member(self) -> bool:
        """True if the member may commit: it has a generation and lost nothing by being fenced."""
        return self.generation != NO_GENERATION and not self._is_lost

    @property
    def is_rebalancing(self) -> bool:
        """True during JoinGroup and SyncGroup, when the member waits for the coordinator only."""
        return self.stage in (Stage.JOINING, Stage.SYNCING)

    # -- the user's side

    def on_topics(self, topics: Iterable[str], reason: str) -> None:
        """Set the topics that the user wants; join again with `reason` if they have changed."""
        wanted = frozenset(topics)
        if wanted != self._wanted:
            self._wanted = wanted
            self.request_rejoin(reason)

    def on_poll_begun(self, now_ms: int) -> None:
        """Record that a poll has begun: the user is alive, and a member that was AWAY joins."""
        self._is_polling, self._polled_at_ms = True, now_ms
        if self.stage is Stage.AWAY and self._wanted and not self.is_replaced:
            self._prepare(self.reason or "first poll")

    def on_poll_ended(self, now_ms: int) -> None:
        """Record that a poll has ended: max_poll_interval_ms counts from now."""
        self._is_polling, self._polled_at_ms = False, now_ms

    def pending(self) -> Change | None:
        """Return the change that the user must carry out now, if any, until that is reported."""
        owned = tuple(self.owned)
        if self._is_lost and owned:
            return Change(lost=owned)
        if self.stage is Stage.PREPARING:
            revoked = self._to_give_up()
            return Change(revoked=revoked) if revoked else None
        if self.stage is Stage.TAKING and self._target is not None:
            kept = dict.fromkeys(self._target)
            return Change(revoked=tuple(p for p in owned if p not in kept), target=self._target)
        return None

    def on_given_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove from `owned` the partitions that the user's poll has given up."""
        for partition in partitions:
            self.owned.pop(partition, None)
        if not self.owned:
            self._is_lost = False
        if self.stage is Stage.TAKING and partitions and self._terms.is_cooperative:
            self._again = f"{len(partitions)} partitions were given up"

    def on_taken(self, change: Change) -> list[TopicPartition] | None:
        """Own the assignment of `change`, and return the partitions that it adds.

        Return None if another assignment has replaced that of `change`.
        """
        if self.stage is not Stage.TAKING or self._target is not change.target:
            return None
        assert self._target is not None
        added = [partition for partition in self._target if partition not in self.owned]
        self.owned = dict.fromkeys(self._target)
        self.last_owned, self.last_generation = self._target, self.generation
        self._target = None
        self.stage = Stage.STABLE
        again, self._again = self._again, None
        if again is not None:
            self._prepare(again)
        return added

    def request_rejoin(self, reason: str) -> None:
        """Join again, because of a change that the group must learn."""
        if self.stage is Stage.STABLE:
            self._prepare(reason)
        elif self.stage is not Stage.AWAY and self.stage is not Stage.PREPARING:
            self._again = reason

    def on_left(self) -> Leave | None:
        """End the membership, and return the LeaveGroup to send.

        Return None for a static member, and for one that has no member id yet.
        """
        farewell = self._leave("the consumer was closed or unsubscribed")
        self._farewell = None
        self.owned, self._is_lost, self._wanted = {}, False, frozenset()
        return farewell

    # -- the loop's side

    def next_step(self, now_ms: int) -> Step:
        """Return the step that the loop must carry out now."""
        if self._farewell is not None:
            farewell, self._farewell = self._farewell, None
            return farewell
        if self.stage is Stage.AWAY:
            return Wait(None)
        silent_at_ms = self._polled_at_ms + self._terms.max_poll_interval_ms
        if not self._is_polling and now_ms >= silent_at_ms:
            limit = self._terms.max_poll_interval_ms
            self._farewell = self._leave(f"nobody polled for max_poll_interval_ms={limit}")
            return self.next_step(now_ms)
        if self.stage is Stage.PREPARING and not self._is_lost and not self._to_give_up():
            self.stage = Stage.JOINING
        if self.stage is Stage.JOINING:
            return Join(self.member_id, self.generation, self.reason)
        if self.stage is Stage.SYNCING:
            assert self._joined is not None
            return Sync(self._joined)
        if self.generation == NO_GENERATION:
            return Wait(None if self._is_polling else silent_at_ms)
        if now_ms >= self._heartbeat_at_ms:
            return Heartbeat(self.member_id, self.generation)
        wake_ms = self._heartbeat_at_ms
        return Wait(wake_ms if self._is_polling else min(wake_ms, silent_at_ms))

    def on_member_id(self, member_id: str) -> None:
        """Store the member id that the coordinator gave, for the next JoinGroup (KIP-394)."""
        self.member_id = member_id

    def on_joined(self, joined: Joined, now_ms: int) -> None:
        """Apply the answer to JoinGroup, which began a generation; ignore it unless JOINING."""
        if self.stage is not Stage.JOINING:
            return
        self.member_id, self.generation = joined.member_id, joined.generation
        self.commits_as = Heartbeat(joined.member_id, joined.generation)
        self._joined = joined
        self._heartbeat_at_ms = now_ms + self._terms.heartbeat_interval_ms
        self.stage = Stage.SYNCING

    def on_synced(self, partitions: Sequence[TopicPartition], now_ms: int) -> None:
        """Apply the answer to SyncGroup, the assigned partitions; ignore it unless SYNCING."""
        if self.stage is not Stage.SYNCING:
            return
        self._joined = None
        self._target = tuple(dict.fromkeys(partitions))
        self._heartbeat_at_ms = now_ms + self._terms.heartbeat_interval_ms
        self.stage = Stage.TAKING

    def on_alive(self, now_ms: int) -> None:
        """Schedule the next heartbeat, because the coordinator answered one, with whatever code."""
        self._heartbeat_at_ms = now_ms + self._terms.heartbeat_interval_ms

    def on_refused(self, step: Join | Sync | Heartbeat, code: ErrorCode) -> bool:
        """Apply a coordinator's error; return False if the next poll must raise it.

        Errors of commits are passed in too: `step` is then a Heartbeat of the same member and
        generation.
        """
        member_id, generation = (
            (step.joined.member_id, step.joined.generation)
            if isinstance(step, Sync)
            else (step.member_id, step.generation)
        )
        if (member_id, generation) != (self.member_id, self.generation):
            return True  # the error is about an earlier member id or generation
        what = f"{type(step).__name__} was answered {code.name}"
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if isinstance(step, Sync):
                self.stage = Stage.JOINING
                self.reason = "another rebalance began before this one was over"
            elif isinstance(step, Heartbeat):
                self.request_rejoin("the group rebalances")
            return True
        if code in FORGOTTEN:
            self._fence(what, NO_MEMBER)
            return True
        if code is ErrorCode.ILLEGAL_GENERATION:
            self._fence(what, self.member_id)
            return True
        if code.retriable:
            if isinstance(step, Sync):
                # A new coordinator may not know this generation; it knows the member.
                self.stage = Stage.JOINING
                self.reason = what
            return True
        self._fence(what, NO_MEMBER)
        self.stage = Stage.AWAY
        self.is_replaced = code is ErrorCode.FENCED_INSTANCE_ID
        return False

    def on_silence(self, reason: str) -> None:
        """Lose everything, because the silent coordinator may soon remove the member.

        The member joins again under its id.
        """
        if self.generation != NO_GENERATION:
            self._fence(reason, self.member_id)

    # -- within

    def _to_give_up(self) -> tuple[TopicPartition, ...]:
        if self._terms.is_cooperative:
            return tuple(p for p in self.owned if p.topic not in self._wanted)
        return tuple(self.owned)

    def _prepare(self, reason: str) -> None:
        self.stage = Stage.PREPARING
        self.reason = reason

    def _fence(self, reason: str, member_id: str) -> None:
        self.member_id, self.generation = member_id, NO_GENERATION
        self._joined = self._target = self._again = None
        self._is_lost = bool(self.owned)
        self._prepare(reason)

    def _leave(self, reason: str) -> Leave | None:
        is_known = self.member_id != NO_MEMBER and self._terms.group_instance_id is None
        farewell = Leave(self.member_id, reason) if is_known else None
        self._fence(reason, NO_MEMBER)
        self.stage = Stage.AWAY
        return farewell
