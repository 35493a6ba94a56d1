"""Decides each request about one transactional id: the answer, and the change.

Pure. A decision is made from the committed transaction, never while a change of it is pending; the
caller answers CONCURRENT_TRANSACTIONS then. The rules are those of Kafka's coordinator: KIP-98,
360, 447, 588 and 890, and KAFKA-18660 and 19367 for requests with an older epoch.
"""

from dataclasses import dataclass, replace
from typing import Final

from ....protocol.commit_groups import group_of
from ....protocol.errors import ErrorCode
from ....protocol.types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from .transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    EXHAUSTED_EPOCH,
    NO_PARTITIONS,
    State,
    Transaction,
)

GROUP_IDS_UNUSED_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """Asks to decide again with an unused producer id."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a request, and the change, if any, that must be committed before the answer."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    """The id that the producer uses from now on; -1 if the answer has none."""
    epoch: int = NO_EPOCH
    """The epoch that the producer uses from now on; -1 if the answer has none."""
    change: Transaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The facts that a decision may use besides the request."""

    wall_ms: int
    level: int = BUMPING_VERSION
    """The finalised transaction.version."""
    fresh_id: int | None = None
    """An unused producer id; None unless a decision asked for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """InitProducerId: a producer begins, or continues after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    """The producer's epoch; a producer must state both its id and its epoch, or neither."""

    @property
    def is_continuing(self) -> bool:
        """True if the producer states its id, which it does to continue after an error."""
        return self.producer_id != NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """AddPartitionsToTxn: a producer adds partitions, or a leader asks whether they were added."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """EndTxn: a producer ends its transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    client_version: int = 0
    """The transaction.version of the request: 2 (EndTxn 5 and up) expects the next epoch."""


def init_producer_id(
    present: Transaction | None, asked: InitProducerId, now: Now
) -> Decision | NeedsProducerId:
    """Give the producer the next epoch, which fences older ones; abort an open transaction."""
    if present is None:
        return NEEDS_PRODUCER_ID if now.fresh_id is None else _create(asked, now.fresh_id, now)
    if asked.is_continuing and not _is_its_own(present, asked):
        return Decision(error=ErrorCode.PRODUCER_FENCED)
    if present.state.is_prepared:
        return Decision(error=ErrorCode.CONCURRENT_TRANSACTIONS)
    if present.state is State.ONGOING:
        if asked.is_continuing and asked.epoch != present.epoch:
            return Decision(error=ErrorCode.PRODUCER_FENCED)
        change = fence(present, now, last_epoch=present.epoch if asked.is_continuing else NO_EPOCH)
        return Decision(error=ErrorCode.CONCURRENT_TRANSACTIONS, change=change)
    if present.is_exhausted and (not asked.is_continuing or _is_newest(present, asked)):
        return NEEDS_PRODUCER_ID if now.fresh_id is None else _rotate(present, asked, now)
    return _raise_epoch(present, asked, now)


def _is_its_own(present: Transaction, asked: InitProducerId) -> bool:
    """True if the stated id is the present one, or the previous one at its last epoch."""
    if asked.epoch >= EPOCH_MAX:
        return False  # Only markers have that epoch, never a producer.
    return asked.producer_id == present.producer_id or (
        asked.producer_id == present.previous_producer_id and asked.epoch >= EXHAUSTED_EPOCH
    )


def _is_newest(present: Transaction, asked: InitProducerId) -> bool:
    """True if the stated epoch is the newest one given to a producer."""
    if present.epoch == EPOCH_MAX:
        return asked.epoch == present.last_epoch
    return asked.epoch == present.epoch


def _create(asked: InitProducerId, producer_id: int, now: Now) -> Decision:
    created = Transaction(
        transactional_id=asked.transactional_id,
        producer_id=producer_id,
        epoch=0,
        timeout_ms=asked.timeout_ms,
        updated_ms=now.wall_ms,
    )
    return Decision(producer_id=producer_id, epoch=0, change=created)


def _rotate(present: Transaction, asked: InitProducerId, now: Now) -> Decision:
    assert now.fresh_id is not None
    last_epoch = asked.epoch if asked.is_continuing else NO_EPOCH
    change = _begun_anew(present, asked, now, (now.fresh_id, 0, last_epoch))
    return Decision(producer_id=now.fresh_id, epoch=0, change=change)


def _raise_epoch(present: Transaction, asked: InitProducerId, now: Now) -> Decision:
    raised, last_epoch = present.epoch + 1, NO_EPOCH
    if asked.is_continuing:
        if asked.epoch == present.epoch:
            last_epoch = present.epoch
        elif asked.epoch == present.last_epoch:
            # This is a retry, because another producer would have cleared the last epoch.
            return Decision(producer_id=present.producer_id, epoch=present.epoch)
        else:
            return Decision(error=ErrorCode.PRODUCER_FENCED)
    change = _begun_anew(present, asked, now, (present.producer_id, raised, last_epoch))
    return Decision(producer_id=present.producer_id, epoch=raised, change=change)


def _begun_anew(
    present: Transaction, asked: InitProducerId, now: Now, identity: tuple[int, int, int]
) -> Transaction:
    """Return the transaction in state Empty, with this producer id, epoch and last epoch."""
    producer_id, epoch, last_epoch = identity
    return replace(
        present,
        producer_id=producer_id,
        previous_producer_id=present.producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=asked.timeout_ms,
        state=State.EMPTY,
        partitions=NO_PARTITIONS,
        started_ms=NO_TIMESTAMP,
        updated_ms=now.wall_ms,
        client_version=0,
    )


def add_partitions(present: Transaction | None, asked: AddPartitions, now: Now) -> Decision:
    """Add partitions to the transaction; the first partition begins it."""
    error = _misuse(present, asked)
    if error:
        return Decision(error=error)
    assert present is not None
    is_open = present.state is State.ONGOING
    if is_open and all(each in present.partitions for each in asked.partitions):
        return Decision()
    change = replace(
        present,
        previous_producer_id=present.producer_id,
        state=State.ONGOING,
        partitions={**present.partitions, **dict.fromkeys(asked.partitions)},
        started_ms=present.started_ms if is_open else now.wall_ms,
        updated_ms=now.wall_ms,
        client_version=asked.client_version,
    )
    return Decision(change=change)


def verify_partitions(
    present: Transaction | None, asked: AddPartitions
) -> dict[TopicPartition, ErrorCode]:
    """Return each partition's error; ErrorCode.NONE if it is in the open transaction."""
    error = _misuse(present, asked)
    if error or present is None:
        return dict.fromkeys(asked.partitions, error)
    absent = ErrorCode.TRANSACTION_ABORTABLE
    return {
        each: ErrorCode.NONE if each in present.partitions else absent for each in asked.partitions
    }


def _misuse(present: Transaction | None, asked: AddPartitions) -> ErrorCode:
    if present is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if present.state.is_prepared and (asked.producer_id, asked.epoch) == present.upcoming:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if present.producer_id != asked.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if present.epoch != asked.epoch or asked.epoch >= EPOCH_MAX:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def end(present: Transaction | None, asked: EndTransaction, now: Now) -> Decision | NeedsProducerId:
    """Commit or abort the open transaction, as the request asks."""
    if present is None:
        return Decision(error=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if asked.client_version >= BUMPING_VERSION:
        return _end_with_bump(present, asked, now)
    if present.producer_id != asked.producer_id:
        return Decision(error=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if present.epoch != asked.epoch:
        return Decision(error=ErrorCode.PRODUCER_FENCED)
    if present.state is State.ONGOING:
        change = _prepared(present, asked.is_commit, now)
        return Decision(producer_id=asked.producer_id, epoch=asked.epoch, change=change)
    return _repeated(present, asked)


def _repeated(present: Transaction, asked: EndTransaction) -> Decision:
    """Answer a repeated EndTxn: it succeeds only if it asks for the outcome that was decided."""
    state = present.state
    if state is State.EMPTY or asked.is_commit is not is_commit(state):
        return Decision(error=ErrorCode.INVALID_TXN_STATE)
    if state.is_prepared:
        return Decision(error=ErrorCode.CONCURRENT_TRANSACTIONS)
    return Decision(producer_id=present.producer_id, epoch=present.epoch)


def is_commit(state: State) -> bool:
    """True if the outcome of an ending or ended transaction is a commit."""
    return state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


def _end_with_bump(
    present: Transaction, asked: EndTransaction, now: Now
) -> Decision | NeedsProducerId:
    """Decide EndTxn 5: the present epoch ends the transaction; the epoch before is a retry."""
    state, identity = present.state, (asked.producer_id, asked.epoch)
    if _is_retry(present, asked):
        return _repeated(present, asked)
    if state.is_prepared and identity == present.upcoming:
        return Decision(error=ErrorCode.CONCURRENT_TRANSACTIONS)
    if asked.producer_id != present.producer_id:
        return Decision(error=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if asked.epoch != present.epoch or asked.epoch >= EPOCH_MAX or state.is_prepared:
        return Decision(error=ErrorCode.PRODUCER_FENCED)
    if asked.is_commit and state is not State.ONGOING:
        return Decision(error=ErrorCode.INVALID_TXN_STATE)
    return _bumped(present, asked.is_commit, now)


def _is_retry(present: Transaction, asked: EndTransaction) -> bool:
    """True if this is the request that led to the present epoch."""
    if present.state in (State.EMPTY, State.ONGOING) or asked.epoch != present.last_epoch:
        return False
    if present.upcoming[1] == EPOCH_MAX:
        return False  # A fence raised the epoch to one that no producer gets.
    if asked.producer_id == present.producer_id:
        return asked.epoch == present.epoch - 1
    return asked.producer_id == present.previous_producer_id and present.epoch == 0


def _bumped(present: Transaction, commits: bool, now: Now) -> Decision | NeedsProducerId:
    """End the transaction; give its producer the next epoch, or another id if none is left."""
    if present.is_exhausted and now.fresh_id is None:
        return NEEDS_PRODUCER_ID
    change = replace(
        _prepared(present, commits, now),
        epoch=min(present.epoch + 1, EPOCH_MAX),
        last_epoch=present.epoch,
        client_version=BUMPING_VERSION,
    )
    if present.is_exhausted:
        assert now.fresh_id is not None
        change = replace(change, next_producer_id=now.fresh_id)
    producer_id, epoch = change.upcoming
    return Decision(producer_id=producer_id, epoch=epoch, change=change)


def _prepared(present: Transaction, commits: bool, now: Now) -> Transaction:
    return replace(
        present,
        previous_producer_id=present.producer_id,
        state=State.PREPARE_COMMIT if commits else State.PREPARE_ABORT,
        started_ms=present.started_ms if present.state is State.ONGOING else now.wall_ms,
        updated_ms=now.wall_ms,
        client_version=0,
    )


def is_overdue(present: Transaction, wall_ms: int) -> bool:
    """True if the transaction has been open for longer than its producer allowed."""
    return present.state is State.ONGOING and present.started_ms + present.timeout_ms < wall_ms


def time_out(present: Transaction, now: Now) -> Decision | NeedsProducerId:
    """Abort an overdue transaction, so that its producer cannot continue it.

    From transaction.version 2 on, the transaction ends as if its producer had aborted it. The
    producer's own abort is then a retry, and gives the producer its next epoch. Below version 2 the
    producer is fenced.
    """
    if now.level >= BUMPING_VERSION:
        return _bumped(present, False, now)
    return Decision(change=fence(present, now))


def complete(present: Transaction, now: Now) -> Transaction:
    """Complete a transaction whose markers are all written, under its upcoming id and epoch."""
    producer_id, epoch = present.upcoming
    commits = present.state is State.PREPARE_COMMIT
    return replace(
        present,
        producer_id=producer_id,
        previous_producer_id=present.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch=epoch,
        state=State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT,
        partitions=NO_PARTITIONS,
        updated_ms=now.wall_ms,
    )


def fence(present: Transaction, now: Now, *, last_epoch: int = NO_EPOCH) -> Transaction:
    """Abort under the next epoch, which no producer gets: InitProducerId raises the epoch again."""
    return replace(
        present,
        previous_producer_id=present.producer_id,
        epoch=min(present.epoch + 1, EPOCH_MAX),
        last_epoch=last_epoch,
        state=State.PREPARE_ABORT,
        updated_ms=now.wall_ms,
        client_version=0,
    )


def is_expired(present: Transaction, wall_ms: int, unused_ms: int) -> bool:
    """True if the id has been idle for `unused_ms`, so that it may be forgotten.

    Ids of a commit group are forgotten after an hour at the latest. Each task attempt uses an id
    of its own, so that without this bound their number would grow.
    """
    if group_of(present.transactional_id) is not None:
        unused_ms = min(unused_ms, GROUP_IDS_UNUSED_MS)
    return present.state.is_idle and present.updated_ms + unused_ms <= wall_ms
