"""The positions of a consumer in its partitions, and the answer for which each position waits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import NO_EPOCH, ZERO_UUID, TopicPartition
from ..errors import ClientError, LogTruncated, NoOffsetForPartition, OffsetOutOfRange
from .nearer import Nearer

RESETS: Mapping[str, int | None] = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "none": None,
}


class Standing(Enum):
    """The state of a position: which answer it waits for, if any."""

    UNASKED = auto()
    """The group's committed offset must be fetched."""
    UNKNOWN = auto()
    """An offset must be looked up by timestamp, or the user must seek."""
    UNVALIDATED = auto()
    """The leader must confirm that its log still holds the records just before the position."""
    VALID = auto()


@dataclass(slots=True, eq=False)
class PartitionState:
    """One assigned partition."""

    partition: TopicPartition
    standing: Standing = Standing.UNKNOWN
    position: int = -1
    """Offset of the next record that a poll returns."""
    position_epoch: int = NO_EPOCH
    """Leader epoch of the last record before `position`, from its batch or from a commit."""
    fetch_offset: int = -1
    """The offset to fetch next, which is the end of the buffered data."""
    fetch_epoch: int = NO_EPOCH
    """Leader epoch of the last record before `fetch_offset`."""
    looking_for: int | None = None
    """While UNKNOWN, the timestamp to look up (-1 latest, -2 earliest). If it is None, the user
    must seek. While UNASKED, the timestamp to look up if the group has no commit."""
    topic_id: bytes = ZERO_UUID
    leader_id: int = -1
    leader_epoch: int = NO_EPOCH
    nearer: Nearer = field(default_factory=Nearer)
    """The replica that the leader named to read from."""
    is_paused: bool = False
    seek_count: int = 0
    """Grows with each jump; answers and chunks of an earlier count are dropped."""
    fetch_count: int = 0
    """Grows with each fetch, jump and leader change; answers of an earlier count are ignored."""
    is_fetching: bool = False
    not_before_ms: int = 0
    failure_count: int = 0
    buffered_count: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1

    def jump(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset`; the partition's buffered records and fetches under way are void."""
        self.standing = Standing.VALID
        self.position = self.fetch_offset = offset
        self.fetch_epoch = self.position_epoch = epoch
        self.looking_for = None
        self._void()

    @property
    def is_known(self) -> bool:
        """True if the partition has a position, confirmed by the leader or not."""
        return self.standing in (Standing.VALID, Standing.UNVALIDATED)

    @property
    def is_ready(self) -> bool:
        """True if a fetch may be sent: position confirmed, nothing under way, not paused."""
        return self.standing is Standing.VALID and not self.is_fetching and not self.is_paused

    def look_up(self, timestamp: int | None) -> None:
        """Forget the position until `timestamp` is looked up; if it is None, the user must seek."""
        self.standing = Standing.UNKNOWN
        self.looking_for = timestamp
        self._void()

    def _void(self) -> None:
        self.seek_count += 1
        self.fetch_count += 1
        self.is_fetching = False
        self.failure_count = self.not_before_ms = self.buffered_count = 0


@dataclass(slots=True)
class Positions:
    """All assigned partitions of one consumer."""

    reset: int | None
    """The timestamp to look up where there is no usable position; if None, errors are raised."""
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    has_group: bool = False
    """True if a group may have committed positions."""
    from_start: str | None = None
    """A topic that is read from its beginning where there is no usable position."""

    def assign(self, partitions: Iterable[TopicPartition], *, start: int | None) -> None:
        """Replace the assignment; partitions that stay assigned keep their positions.

        New ones start at the group's commit, else at the timestamp `start`; see `looking_for`.
        """
        kept = {}
        for partition in partitions:
            state = self.states.get(partition)
            if state is None:
                standing = Standing.UNASKED if self.has_group else Standing.UNKNOWN
                state = PartitionState(partition, standing, looking_for=start)
                if partition.topic == self.from_start:
                    state.looking_for = EARLIEST_TIMESTAMP
            kept[partition] = state
        for partition, state in self.states.items():
            if partition not in kept:
                state.look_up(None)
        self.states = kept

    def to_ask(self) -> list[PartitionState]:
        """Return the partitions whose committed offset must be fetched now."""
        return [s for s in self.states.values() if s.standing is Standing.UNASKED]

    def to_look_up(self) -> list[PartitionState]:
        """Return the partitions whose offset must be looked up now."""
        return [
            state
            for state in self.states.values()
            if state.standing is Standing.UNKNOWN and state.looking_for is not None
        ]

    def to_validate(self) -> list[PartitionState]:
        """Return the partitions whose leader must confirm the position now."""
        return [s for s in self.states.values() if s.standing is Standing.UNVALIDATED]

    def lost(self) -> list[ClientError]:
        """Return a NoOffsetForPartition error for each partition that the user must seek."""
        return [
            NoOffsetForPartition(state.partition)
            for state in self.states.values()
            if self.is_lost(state)
        ]

    @staticmethod
    def is_lost(state: PartitionState) -> bool:
        """True if the partition can be read only after the user seeks."""
        return state.standing is Standing.UNKNOWN and state.looking_for is None

    def on_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Set the leader that metadata names; return True if its id or its epoch differs."""
        state = self.states.get(partition)
        if state is None or (state.leader_id, state.leader_epoch) == (leader_id, leader_epoch):
            return False
        is_newer = leader_epoch > state.leader_epoch
        moved = leader_id != state.leader_id
        state.leader_id, state.leader_epoch = leader_id, leader_epoch
        state.not_before_ms = state.failure_count = 0
        if moved:
            # The old leader may never answer; its answer would be as good as the new one's, but
            # two answers for one offset must not both count.
            state.fetch_count += 1
            state.is_fetching = False
            state.nearer.lose()
        if is_newer and state.standing is Standing.VALID and state.fetch_epoch != NO_EPOCH:
            state.standing = Standing.UNVALIDATED
            state.fetch_count += 1
            state.is_fetching = False
        return True

    def on_topic_id(self, partition: TopicPartition, topic_id: bytes) -> ClientError | None:
        """Set the topic's id from metadata; return an error that the user must get, if any.

        Another id means a new topic of the same name, in which the old offsets mean nothing. The
        new topic is read from its beginning; under auto_offset_reset=none LogTruncated is returned
        instead.
        """
        state = self.states[partition]
        known, state.topic_id = state.topic_id, topic_id
        if ZERO_UUID in (known, topic_id) or known == topic_id:
            return None
        gone = LogTruncated(partition, state.position, 0)
        state.leader_epoch = NO_EPOCH
        state.look_up(None if self.reset is None else EARLIEST_TIMESTAMP)
        return gone if self.reset is None else None

    def on_committed(
        self, state: PartitionState, seek_count: int, offset: int | None, epoch: int = NO_EPOCH
    ) -> None:
        """Start at the group's committed offset; if `offset` is None, an offset must be looked up.

        The answer is ignored if the partition has jumped since the request, made at `seek_count`.
        """
        if state.standing is not Standing.UNASKED or state.seek_count != seek_count:
            return
        if offset is None:
            state.standing = Standing.UNKNOWN
            return
        state.jump(offset, epoch)
        if epoch != NO_EPOCH:
            # The committed records may have been lost; the leader must confirm the position.
            state.standing = Standing.UNVALIDATED

    def on_listed(self, state: PartitionState, seek_count: int, offset: int, epoch: int) -> None:
        """Start at the offset that a lookup begun at `seek_count` found, if no jump came since."""
        if state.standing is Standing.UNKNOWN and state.seek_count == seek_count:
            state.jump(offset, epoch)

    def on_out_of_range(self, state: PartitionState) -> ClientError | None:
        """Look up an offset anew, because the leader's log does not hold `fetch_offset`.

        Under auto_offset_reset=none return OffsetOutOfRange instead, and the user must seek.
        """
        if state.partition.topic == self.from_start:
            state.look_up(EARLIEST_TIMESTAMP)
            return None
        if self.reset is None:
            error = OffsetOutOfRange(state.partition, state.fetch_offset)
            state.look_up(None)
            return error
        state.look_up(self.reset)
        return None

    def on_validated(
        self, state: PartitionState, seek_count: int, epoch: int, end_offset: int
    ) -> ClientError | None:
        """Apply the leader's answer about where the position's leader epoch ends in its log.

        `epoch` is the newest epoch up to the asked one in the leader's log, or -1 if there is none.
        If records already read are gone, the position moves back; under auto_offset_reset=none
        LogTruncated is returned instead.
        """
        if state.standing is not Standing.UNVALIDATED or state.seek_count != seek_count:
            return None
        if epoch >= 0 and end_offset >= state.fetch_offset:
            state.standing = Standing.VALID
            return None
        diverging = end_offset if epoch >= 0 else None
        if diverging is not None and diverging >= state.position:
            # Only what is buffered diverges; the user has seen none of it.
            position = state.position
            state.jump(position, epoch)
            return None
        truncated = LogTruncated(state.partition, state.position, diverging)
        if self.reset is None:
            state.look_up(None)
            return truncated
        if diverging is None:
            state.look_up(self.reset)
        else:
            state.jump(diverging, epoch)
        return None
