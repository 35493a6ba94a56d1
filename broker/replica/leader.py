"""The leader's view of one partition: how far each follower has fetched, and what is committed.

Pure. Each `on_...` method takes an event and returns the effects that its caller must carry out in
order (broker/partition/leading.py).

The ISR in use is always the largest that the controller may have on record:

    state            isr counted for the high watermark     leaves it
    committed        isr                                    a proposal
    proposal sent    isr and every proposed member          accepted, refused, newer metadata
    outcome unknown  the same                               newer metadata only

Waiting for more replicas than necessary is safe; waiting for fewer is not. A proposal carries the
partition epoch at which it was made, and the controller applies the proposal only at that epoch. So
once metadata shows a newer partition epoch, the proposal is either applied already or can never be
applied.
"""

from dataclasses import dataclass, replace

from ...protocol.errors import ErrorCode
from ...protocol.types import NO_EPOCH, NO_OFFSET
from ...runtime.errors import InvariantViolation
from .progress import FollowerProgress, carried_over
from .state import KnownBrokers, PartitionMetadata

NO_FOLLOWER = -1
REFUSED_PAUSE_MS = 500
"""Milliseconds until a member that the controller called ineligible is proposed again. This broker
learns by about so much later than the controller which brokers are alive."""

OUTCOME_UNKNOWN = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which only newer metadata shows whether an earlier try was applied."""

NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})


@dataclass(frozen=True, slots=True)
class EpochStarted:
    """An effect: write (epoch, start offset) to the leader-epoch file before all other effects."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """An effect: all records below `offset` are on every replica that could become leader."""

    offset: int


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """An effect: propose this ISR to the controller. `LeaderReplica.isr` stays until the answer."""

    isr: tuple[tuple[int, int], ...]
    """The members as (broker id, broker epoch as last seen, or -1), in replica order."""
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """An effect: log the new committed ISR; each follower's next fetch reads the partition."""

    isr: tuple[int, ...]


LeaderEffect = EpochStarted | HighWatermarkAdvanced | ProposeIsr | IsrChanged
Effects = tuple[LeaderEffect, ...]
NOTHING: Effects = ()


class LeaderReplica:
    """The high watermark and the ISR of a partition that this broker leads."""

    __slots__ = (
        "_brokers",
        "_lag_max_ms",
        "_pause_until_ms",
        "_quorum",
        "broker_id",
        "epoch_start_offset",
        "flushed_offset",
        "followers",
        "high_watermark",
        "log_end_offset",
        "metadata",
        "min_isr",
        "proposal",
    )

    def __init__(
        self, broker_id: int, brokers: KnownBrokers, lag_max_ms: int, high_watermark: int
    ) -> None:
        self.broker_id = broker_id
        self._brokers = brokers
        self._lag_max_ms = lag_max_ms
        self.high_watermark = high_watermark
        self.log_end_offset = high_watermark
        self.epoch_start_offset = high_watermark
        self.flushed_offset = 0
        """The offset up to which our log is on stable storage; only group flush uses it."""
        self.metadata = PartitionMetadata(NO_EPOCH, NO_EPOCH, NO_EPOCH, (), ())
        self.min_isr = 1
        self.followers: dict[int, FollowerProgress] = {}
        self.proposal: ProposeIsr | None = None
        self._quorum: tuple[FollowerProgress, ...] = ()
        self._pause_until_ms = 0

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.metadata.isr

    @property
    def known_brokers(self) -> dict[int, int]:
        """The broker epoch of every registered broker, by id."""
        return self._brokers.epochs

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and every member that is proposed for the ISR."""
        # A proposed member counts already: the controller may have accepted it and could elect it
        # before we hear back. A member proposed to leave counts still, for the same reason.
        if self.proposal is None:
            return self.metadata.isr
        proposed = (broker for broker, _ in self.proposal.isr if broker not in self.metadata.isr)
        return (*self.metadata.isr, *proposed)

    @property
    def has_min_isr(self) -> bool:
        """True if an acks=all append may begin."""
        return len(self.metadata.isr) >= self.min_isr

    @property
    def commits_with_min_isr(self) -> bool:
        """True if at least min ISR replicas hold all records below the high watermark."""
        return len(self.maximal_isr) >= self.min_isr

    @property
    def is_high_watermark_settled(self) -> bool:
        """True from this epoch's first commit on; before, the old leader's may be higher."""
        return self.high_watermark >= self.epoch_start_offset

    def on_metadata(self, metadata: PartitionMetadata, log_end_offset: int, now_ms: int) -> Effects:
        """Apply a record that makes us the leader, if its partition epoch is newer."""
        old = self.metadata
        if metadata.partition_epoch <= old.partition_epoch:
            return NOTHING
        effects: list[LeaderEffect] = []
        if metadata.leader_epoch > old.leader_epoch:
            # The followers' progress belongs to an older epoch. Since then they may have followed
            # another leader, truncated and come back. Nothing of it counts (Kip320 rule 3), even
            # if the merged metadata shows us as leader before and after.
            self.followers = {}
            self.log_end_offset = self.epoch_start_offset = log_end_offset
            effects.append(EpochStarted(metadata.leader_epoch, log_end_offset))
        self.metadata, self.proposal = metadata, None
        self.min_isr = metadata.effective_min_isr
        known, isr, lag_ms = self.followers, metadata.isr, self._lag_max_ms
        self.followers = {
            each: carried_over(known.get(each), each in isr, each in old.isr, now_ms, lag_ms)
            for each in metadata.replicas
            if each != self.broker_id
        }
        if metadata.isr != old.isr:
            effects.append(IsrChanged(metadata.isr))
        self._count_quorum()
        effects.extend(self._propose_expansion(now_ms))
        effects.extend(self._advance_high_watermark(now_ms))
        return tuple(effects)

    def on_settings_changed(self, min_isr: int, *, group_flush: bool, now_ms: int) -> Effects:
        """Apply a changed min.insync.replicas or flush.policy to all commits from now on."""
        if group_flush and not self.metadata.group_flush:
            for progress in self.followers.values():
                progress.forget_unflushed()
        self.metadata = replace(self.metadata, min_isr=min_isr, group_flush=group_flush)
        self.min_isr = self.metadata.effective_min_isr
        return self._advance_high_watermark(now_ms)

    def on_brokers_changed(self, now_ms: int) -> Effects:
        """After brokers died or returned, propose followers that may join, and try to commit."""
        return self._propose_expansion(now_ms) + self._advance_high_watermark(now_ms)

    def on_appended(self, log_end_offset: int, now_ms: int) -> Effects:
        """Note our log's new end; raise the high watermark if it waits for no follower."""
        if log_end_offset < self.log_end_offset:
            raise InvariantViolation("the leader's log never shrinks")
        self.log_end_offset = log_end_offset
        if self._quorum:
            return NOTHING
        return self._advance_high_watermark(now_ms)

    def on_flushed(self, flushed_offset: int, now_ms: int) -> Effects:
        """Note that our own log is on stable storage up to `flushed_offset`."""
        self.flushed_offset = max(self.flushed_offset, flushed_offset)
        return self._advance_high_watermark(now_ms) if self.metadata.group_flush else NOTHING

    def is_stale_incarnation(self, follower: int, broker_epoch: int) -> bool:
        """True if an earlier incarnation of the follower's broker sent the fetch (KIP-903)."""
        if broker_epoch == NO_EPOCH:
            return False
        progress = self.followers.get(follower)
        known = NO_EPOCH if progress is None else progress.broker_epoch
        return broker_epoch < max(known, self._brokers.epochs.get(follower, NO_EPOCH))

    def on_follower_fetched(
        self,
        follower: int,
        fetch_offset: int,
        now_ms: int,
        broker_epoch: int = NO_EPOCH,
        flushed_offset: int = NO_OFFSET,
    ) -> Effects:
        """Note a valid fetch at `fetch_offset`: the follower has everything below that offset."""
        progress = self.followers.get(follower)
        if progress is None or self.is_stale_incarnation(follower, broker_epoch):
            return NOTHING
        before, counts_flushed = progress.held_offset, self.metadata.group_flush
        held = min(fetch_offset, flushed_offset) if counts_flushed else fetch_offset
        progress.on_fetched(fetch_offset, held, self.log_end_offset, now_ms)
        progress.broker_epoch = broker_epoch
        if follower not in self.metadata.isr:
            return self._propose_expansion(now_ms) + self._advance_high_watermark(now_ms)
        if held > before:
            return self._advance_high_watermark(now_ms)
        return NOTHING

    def is_followed_to_the_end(self, follower: int) -> bool:
        """True if the follower is in the ISR and holds all of our log."""
        progress = self.followers.get(follower)
        return (
            progress is not None
            and progress.held_offset >= self.log_end_offset
            and follower in self.metadata.isr
        )

    def on_idle_fetches(self, follower: int, last_ms: int) -> None:
        """Note fetches at our log end that `on_follower_fetched` missed, the last at `last_ms`."""
        progress = self.followers.get(follower)
        if progress is not None:
            progress.on_idle_fetches(last_ms)

    def on_lag_check(self, now_ms: int, silent: int = NO_FOLLOWER) -> Effects:
        """Propose an ISR without members that lag too long, and without the broker `silent`."""
        if self.proposal is not None:
            return NOTHING
        if self.metadata.recovering:
            return self._propose_expansion(now_ms)
        end, since_ms = self.log_end_offset, now_ms - self._lag_max_ms
        staying = tuple(
            member
            for member in self.metadata.isr
            if member == self.broker_id
            or self.followers[member].is_kept(end, since_ms, is_silent=member == silent)
        )
        if len(staying) == len(self.metadata.isr):
            return NOTHING
        if silent != NO_FOLLOWER and len(staying) < self.min_isr:
            return NOTHING  # No write would be accepted; and if all are silent, the fault is ours.
        return self._propose(staying)

    def on_proposal_accepted(
        self, proposal: ProposeIsr, metadata: PartitionMetadata, now_ms: int
    ) -> Effects:
        """Apply the controller's record that resulted from our proposal."""
        if proposal != self.proposal or metadata.leader_epoch != self.metadata.leader_epoch:
            return NOTHING
        if metadata.partition_epoch <= self.metadata.partition_epoch:
            # The proposal was accepted without a change of the record, so our record stands.
            self.proposal = None
            self._count_quorum()
            return self._advance_high_watermark(now_ms)
        return self.on_metadata(metadata, self.log_end_offset, now_ms)

    def on_proposal_failed(self, proposal: ProposeIsr, error: ErrorCode, now_ms: int) -> Effects:
        """Handle a refused or lost proposal; return it as an effect if it must be sent again."""
        if proposal != self.proposal or error in OUTCOME_UNKNOWN:
            return NOTHING
        if error in NOT_APPLIED:
            self.proposal = None
            self._pause_until_ms = now_ms + REFUSED_PAUSE_MS
            self._count_quorum()
            return self._advance_high_watermark(now_ms)
        return (proposal,)

    def check_invariants(self) -> None:
        """Raise InvariantViolation if the state breaks a rule that holds between two events."""
        if broken := _broken_invariant(self):
            raise InvariantViolation(broken)

    def _advance_high_watermark(self, now_ms: int) -> Effects:
        metadata = self.metadata
        if len(metadata.isr) < self.min_isr:
            return NOTHING  # KIP-966: below min ISR nothing new may count as committed.
        # Under group flush followers may fetch records that are not flushed; commits need a flush.
        held_by_all = self.flushed_offset if metadata.group_flush else self.log_end_offset
        for progress in self._quorum:
            if progress.held_offset < held_by_all:
                held_by_all = progress.held_offset
        if held_by_all <= self.high_watermark:
            return NOTHING
        if len(self._quorum) < len(self.followers):
            held_by_all = self._held_by_joiners(held_by_all, now_ms)
            if held_by_all <= self.high_watermark:
                return NOTHING
        self.high_watermark = held_by_all
        return (HighWatermarkAdvanced(held_by_all),)

    def _held_by_joiners(self, held: int, now_ms: int) -> int:
        """Return `held`, lowered for followers that are about to join, so that they catch up."""
        counted, end, since_ms = self.maximal_isr, self.log_end_offset, now_ms - self._lag_max_ms
        for follower, progress in self.followers.items():
            is_joiner = follower not in counted and follower in self._brokers.eligible
            if is_joiner and not progress.is_slow(self._lag_max_ms // 2):
                held = progress.held_if_caught_up(held, end, since_ms)
        return held

    def _propose_expansion(self, now_ms: int) -> Effects:
        """Propose that the leader has recovered, if it was recovering; else add followers."""
        if self.proposal is not None or now_ms < self._pause_until_ms:
            return NOTHING
        isr = self.metadata.isr
        if self.metadata.recovering:
            return self._propose(isr)
        joiners = tuple(
            follower
            for follower in self.followers
            if follower not in isr and self._may_join(follower)
        )
        return self._propose((*isr, *joiners)) if joiners else NOTHING

    def _may_join(self, follower: int) -> bool:
        progress = self.followers[follower]
        # Just elected, our high watermark may be below the true one; our epoch's first offset is
        # not.
        if progress.held_offset < max(self.high_watermark, self.epoch_start_offset):
            return False
        epoch = self._brokers.eligible.get(follower)
        if epoch is None or progress.broker_epoch not in (NO_EPOCH, epoch):
            return False
        # Between appends a member is behind for up to two of its fetches. One whose fetches take
        # longer than half of what it may lag would be in and out, and acks=all waits each time.
        return not progress.is_slow(self._lag_max_ms // 2)

    def _propose(self, isr: tuple[int, ...]) -> Effects:
        self.proposal = ProposeIsr(
            tuple(
                (replica, self._broker_epoch(replica))
                for replica in self.metadata.replicas
                if replica in isr
            ),
            self.metadata.leader_epoch,
            self.metadata.partition_epoch,
        )
        self._count_quorum()
        return (self.proposal,)

    def _broker_epoch(self, replica: int) -> int:
        if replica == self.broker_id:
            return self._brokers.epochs.get(replica, NO_EPOCH)
        return self.followers[replica].broker_epoch

    def _count_quorum(self) -> None:
        """Compute the followers that the high watermark waits for, once per change of the ISR."""
        self._quorum = tuple(
            self.followers[member] for member in self.maximal_isr if member != self.broker_id
        )


def _broken_invariant(leader: LeaderReplica) -> str:
    isr, replicas, proposal = leader.metadata.isr, leader.metadata.replicas, leader.proposal
    if leader.broker_id not in isr:
        return f"leader {leader.broker_id} is outside its ISR {isr}"
    if not set(isr) <= set(replicas):
        return f"ISR {isr} is not within the replicas {replicas}"
    if leader.high_watermark > leader.log_end_offset:
        return f"high watermark {leader.high_watermark} above log end {leader.log_end_offset}"
    if proposal is not None and (
        proposal.leader_epoch != leader.metadata.leader_epoch
        or proposal.partition_epoch != leader.metadata.partition_epoch
    ):
        return "a proposal outlived the record it was made for"
    return ""
