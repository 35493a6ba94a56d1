"""The follower's side of one partition: what to fetch next, and what an answer means for the log.

Pure. A follower sees the log through `LogView` and returns effects, which `replication.following`
carries out in order. The fetcher calls `next_fetch` only after every append has returned, because
the fetch offset *is* the acknowledgement.

    phase       next_fetch   left by
    FETCHING    a position   an error answer
    DELAYED     none, until  its time, new leader epoch
    ASKING      none         the leader's offsets (ListOffsets), new leader epoch
    HALTED      none         new leader epoch, or metadata that permits what was refused

Divergence is found by fetching: the request names the epoch of our last record, the answer says
where the leader's history differs from ours (KIP-595), and we truncate until both agree. A leader
knows no epochs below its log start. So our whole log is dropped if it would end at or below that
start and is not proven to be the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.types import NO_EPOCH, NO_OFFSET, OffsetAndEpoch
from ...runtime.errors import InvariantViolation
from .history import LogView
from .state import PartitionMetadata

DELAY_MIN_MS = 20
DELAY_MAX_MS = 1000

Batch = TypeVar("Batch")


class FetchPosition(NamedTuple):
    """The position of one fetch, which acknowledges everything before it."""

    offset: int
    last_fetched_epoch: int
    leader_epoch: int
    flushed_offset: int = NO_OFFSET
    """The offset up to which our log is on stable storage; -1 without group flush."""
    log_start_offset: int = 0
    """Our log start offset, which a fetch reports to the leader whenever it has moved."""


@dataclass(slots=True)
class Fetched(Generic[Batch]):
    """One partition of a fetch answer; its records are whole, checked batches."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    diverging: OffsetAndEpoch | None = None
    batches: Sequence[Batch] = ()
    first_offset: int = NO_OFFSET
    next_offset: int = NO_OFFSET
    """The offset after the last batch; -1 without batches. `first_offset` is that of the first
    batch."""


@dataclass(frozen=True, slots=True)
class Append:
    """An effect: append the answer's batches to our log, unchanged."""


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """An effect: all records below `offset` are committed and in our log."""

    offset: int


@dataclass(frozen=True, slots=True)
class LogStartRaised:
    """An effect: raise our log start to `offset`, as the leader holds nothing below it."""

    offset: int


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """An effect: remove all records from `offset` on, and the epochs that began there or later."""

    offset: int


@dataclass(frozen=True, slots=True)
class RestartAt:
    """An effect: drop the whole log, and begin an empty one at `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskLeaderOffsets:
    """An effect: ask the leader where its log begins and ends, then call `on_leader_offsets`."""


@dataclass(frozen=True, slots=True)
class OffsetsLost:
    """An effect: log that an unclean election lost the offsets up to `to_offset` (exclusive)."""

    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class Halted:
    """An effect: log the reason why following has stopped until the metadata changes."""

    why: str


FollowerEffect = (
    Append
    | HighWatermarkMoved
    | LogStartRaised
    | TruncateTo
    | RestartAt
    | AskLeaderOffsets
    | OffsetsLost
    | Halted
)
Effects = tuple[FollowerEffect, ...]
NOTHING: Effects = ()


class Phase(Enum):
    """The follower's present activity."""

    FETCHING = "fetching"
    DELAYED = "delayed"
    ASKING = "asking"
    HALTED = "halted"


@dataclass(slots=True, eq=False)
class FollowerReplica:
    """Follows one leader epoch of one partition at a time."""

    high_watermark: int
    metadata: PartitionMetadata = field(
        default_factory=lambda: PartitionMetadata(NO_EPOCH, NO_EPOCH, NO_EPOCH, (), ())
    )
    phase: Phase = Phase.HALTED
    _delay_ms: int = DELAY_MIN_MS
    _delayed_until_ms: int = 0
    leader_high_watermark: int = NO_OFFSET
    """The leader's high watermark in its last answer; our log may end below it."""
    _lost_to: int | None = None
    """Our log end before a truncation that an unclean election caused; None without one."""

    def on_metadata(self, metadata: PartitionMetadata) -> bool:
        """Apply a record that makes us a follower; return True if its leader epoch is new."""
        old = self.metadata
        if metadata.partition_epoch <= old.partition_epoch:
            return False
        self.metadata = metadata
        # The epoch decides, not the leader's id: the same broker in a new epoch answers with a
        # new epoch's history (KAFKA-7164).
        if metadata.leader_epoch == old.leader_epoch:
            return False
        self.phase = Phase.FETCHING if metadata.leader >= 0 else Phase.HALTED
        self._delay_ms = DELAY_MIN_MS
        return True

    def on_settings_changed(self, min_isr: int, *, group_flush: bool) -> None:
        """Apply a changed min.insync.replicas or flush.policy."""
        self.metadata = replace(self.metadata, min_isr=min_isr, group_flush=group_flush)

    def next_fetch(self, log: LogView, now_ms: int) -> FetchPosition | None:
        """Return the position to fetch from now; None while delayed, asking or halted."""
        if self.phase is not Phase.FETCHING:
            if self.phase is not Phase.DELAYED or now_ms < self._delayed_until_ms:
                return None
            self.phase = Phase.FETCHING
        return FetchPosition(log.log_end_offset, log.latest_epoch, self.metadata.leader_epoch)

    def next_deadline_ms(self) -> int | None:
        """Return the time when a delayed partition may fetch again; None if it is not delayed."""
        return self._delayed_until_ms if self.phase is Phase.DELAYED else None

    def on_connection_lost(self) -> None:
        """Leave ASKING, if in it, to fetch again: the leader's offsets will not come."""
        if self.phase is Phase.ASKING:
            self.phase = Phase.FETCHING

    def on_fetched(
        self, asked: FetchPosition, answer: Fetched[Batch], log: LogView, now_ms: int
    ) -> Effects:
        """Decide on an answer to `asked`; ignore it if our log end or leader epoch has changed."""
        if (
            self.phase is not Phase.FETCHING
            or asked.leader_epoch != self.metadata.leader_epoch
            or asked.offset != log.log_end_offset
        ):
            return NOTHING
        if answer.error:
            return self._on_error(answer.error, now_ms)
        self._delay_ms = DELAY_MIN_MS
        self.leader_high_watermark = answer.high_watermark
        if answer.diverging is not None:
            # Its high watermark belongs to a history that is not ours yet.
            return self._on_diverging(answer.diverging, answer.log_start_offset, log)
        effects: list[FollowerEffect] = []
        if self._lost_to is not None:
            # The leader accepted our last epoch at this offset: here our histories meet.
            if asked.offset < self._lost_to:
                effects.append(OffsetsLost(asked.offset, self._lost_to))
            self._lost_to = None
        start, end = log.log_start_offset, log.log_end_offset
        # If our last record is of the leader's own epoch, all records before it are the same.
        is_of_its_epoch = log.latest_epoch == self.metadata.leader_epoch
        if not is_of_its_epoch and self._is_unproven(end, answer.log_start_offset, log):
            start = end
            effects.append(RestartAt(start))
        if answer.batches:
            if answer.first_offset < end:
                if start < end:
                    return (*effects, *self.on_bad_records(now_ms))
                # The leader's log starts inside this batch; ours is empty, so begin with it.
                start = answer.first_offset
                effects.append(RestartAt(start))
            effects.append(Append())
            end = answer.next_offset
        effects.extend(self._follow_bounds(answer, start, end))
        return tuple(effects)

    def on_bad_records(self, now_ms: int) -> Effects:
        """Fetch again after a delay, as the answer's records are damaged or out of order."""
        return self._delay(now_ms)

    def on_leader_offsets(self, start: int, end: int, log: LogView) -> Effects:
        """Act on the leader's log start and log end, after it refused a fetch as out of range.

        `end` is exclusive. The bounds are ignored unless this follower is ASKING.
        """
        if self.phase is not Phase.ASKING:
            return NOTHING
        self.phase = Phase.FETCHING
        if end < log.log_end_offset:
            return self._truncate(end, start, log)
        if start > log.log_end_offset:
            if start > self.high_watermark:
                # Everything below the leader's start was committed and then retired.
                self.high_watermark = start
            return (RestartAt(start), HighWatermarkMoved(self.high_watermark))
        return NOTHING

    def on_leader_offsets_failed(self, now_ms: int) -> None:
        """Fetch again after a delay, because the leader did not answer with its offsets."""
        if self.phase is Phase.ASKING:
            self._delay(now_ms)

    def check_invariants(self, log: LogView) -> None:
        """Raise InvariantViolation if high watermark or newest epoch of the log is impossible."""
        if not 0 <= self.high_watermark <= log.log_end_offset:
            raise InvariantViolation(
                f"high watermark {self.high_watermark} outside 0..{log.log_end_offset}"
            )
        if log.latest_epoch > self.metadata.leader_epoch >= 0:
            raise InvariantViolation(
                f"log of epoch {log.latest_epoch} follows epoch {self.metadata.leader_epoch}"
            )

    def _follow_bounds(self, answer: Fetched[Batch], start: int, end: int) -> list[FollowerEffect]:
        """Raise our high watermark and log start to the leader's; return the effects.

        Both stay within `start` to `end`, the bounds of our log.
        """
        effects: list[FollowerEffect] = []
        # It never moves down: what is committed stays so, even if a new leader knows less of it.
        followed = min(max(answer.high_watermark, answer.log_start_offset), end)
        if followed > self.high_watermark:
            self.high_watermark = followed
            effects.append(HighWatermarkMoved(followed))
        raised = min(answer.log_start_offset, self.high_watermark)
        if raised > start:
            effects.append(LogStartRaised(raised))
        return effects

    def _on_error(self, error: ErrorCode, now_ms: int) -> Effects:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.phase = Phase.ASKING
            return (AskLeaderOffsets(),)
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.phase = Phase.HALTED
            return NOTHING
        return self._delay(now_ms)

    def _delay(self, now_ms: int) -> Effects:
        self.phase = Phase.DELAYED
        self._delayed_until_ms = now_ms + self._delay_ms
        self._delay_ms = min(2 * self._delay_ms, DELAY_MAX_MS)
        return NOTHING

    def _on_diverging(self, leader: OffsetAndEpoch, leader_start: int, log: LogView) -> Effects:
        """Return the effects that truncate to where both histories may still agree (KIP-101)."""
        end = log.log_end_offset
        ours = log.end_offset_for(leader.epoch)
        if ours is None:
            target = min(leader.offset, end)
        elif ours.epoch != leader.epoch:
            target = min(ours.offset, end)
        else:
            target = min(ours.offset, leader.offset, end)
        return self._truncate(target, leader_start, log)

    def _is_unproven(self, target: int, leader_start: int, log: LogView) -> bool:
        """True if our log below `target` may differ from the leader's without being noticed.

        That is so if the log would end at or below the leader's log start. The leader knows no
        older epochs, and answers that each of them ended at its log start. Only our committed
        records are surely the same as the leader's. Kafka keeps the uncommitted ones, because
        nobody can read them. But after a crash our log start may be an older one, and then
        sequences and transactions in those records would count again.
        """
        is_unclean = self.metadata.unclean_epoch > log.latest_epoch
        proven = 0 if is_unclean else self.high_watermark
        return max(log.log_start_offset, proven) < target <= leader_start

    def _truncate(self, target: int, leader_start: int, log: LogView) -> Effects:
        end = log.log_end_offset
        # An unclean election newer than our last record may have chosen a shorter history than
        # was committed. No other election can, so without one this is a bug or a wiped disk, and
        # ours may be the only copy left.
        is_unclean = self.metadata.unclean_epoch > log.latest_epoch
        if target < self.high_watermark and not (is_unclean or self._lost_to is not None):
            self.phase = Phase.HALTED
            return (
                Halted(
                    f"the leader of epoch {self.metadata.leader_epoch} would have offsets {target}"
                    f" to {end - 1} removed, but all below {self.high_watermark} was committed and"
                    " no unclean election is on record"
                ),
            )
        if is_unclean and self._lost_to is None:
            self._lost_to = end
        if self._is_unproven(target, leader_start, log):
            self.high_watermark = leader_start
            return (RestartAt(leader_start), HighWatermarkMoved(leader_start))
        if target >= self.high_watermark:
            return (TruncateTo(target),)
        self.high_watermark = target
        return (TruncateTo(target), HighWatermarkMoved(target))
