"""The state of one producer's transactions: what may be done now, and what an answer means.

Pure. `Transactions` sends the requests that follow from this state.

There are two protocols (KIP-890). In the newer one, used if the cluster has finalised
transaction.version 2, a partition is added by its first batch, and a group by its offset commit.
Each EndTxn returns the next epoch, so that no late request can get into a later transaction. In the
older protocol AddPartitionsToTxn adds each partition, and the epoch stays the same. After an abort
that leaves a gap in a partition's sequence, InitProducerId raises the epoch (KIP-360).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from ..errors import (
    ClientError,
    ProducerFenced,
    TransactionAbortable,
    TransactionFailed,
    TransactionMisuse,
)
from ..refusals import Refused, refusal
from .batch import ProducerIdentity
from .partition_queue import FENCED


class Phase(Enum):
    """The phases of a producer's transactions."""

    NEW = "has no producer id yet"
    READY = "is in no transaction"
    OPEN = "is in a transaction"
    COMMITTING = "is committing"
    ABORTING = "is aborting"
    DOOMED = "can only abort"
    FAILED = "can do no more transactions"


class Step(Enum):
    """The requests to a coordinator, by the steps of a transaction."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"


class Reaction(Enum):
    """The ways to react to a coordinator's answer."""

    DONE = auto()
    AGAIN = auto()
    """Repeat the request after a backoff."""
    ABORT = auto()
    """The transaction must be aborted; afterwards the producer can begin another."""
    RENEW = auto()
    """Abort, then raise the epoch by InitProducerId, because the coordinator does not know it."""
    FAIL = auto()
    """The producer can do no more transactions."""


_AGAIN: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_UNKNOWN_HERE: Final = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_ONLY_THIS_TRANSACTION: Final = (
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    # Answers about offsets: the group went on without the member that read these records.
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


def reaction_to(step: Step, code: ErrorCode) -> Reaction:
    """Decide how to react to a coordinator's answer."""
    if code is ErrorCode.NONE:
        return Reaction.DONE
    if code in FENCED:
        return Reaction.FAIL
    if code in _AGAIN or code.retriable:
        return Reaction.AGAIN
    if step is Step.INIT:
        return Reaction.FAIL
    if code in _UNKNOWN_HERE:
        return Reaction.RENEW
    return Reaction.ABORT if code in _ONLY_THIS_TRANSACTION else Reaction.FAIL


class Transaction:
    """The state of one transactional id, from its first transaction to its last."""

    def __init__(self) -> None:
        self.phase = Phase.NEW
        self.identity: ProducerIdentity | None = None
        self.is_implicit = False
        """True under transaction.version 2: the first batch or commit adds a partition or group."""
        self.needs_renewal = False
        """True if InitProducerId must raise the epoch before the next transaction."""
        self.error: ClientError | None = None
        """The error that made the transaction or the producer fail; None if neither has failed."""
        self._added: dict[TopicPartition, None] = {}
        self._wanted: dict[TopicPartition, None] = {}
        self._unanswered = 0
        self._has_begun = False
        self._is_unknown_to_coordinator = False

    # -- what may be done now

    @property
    def why_not_send(self) -> ClientError | None:
        """The error to raise if a record is sent now; None if records may be sent now."""
        if self.phase is Phase.OPEN:
            return None
        if self.error is not None:
            return self.error
        todo = "begin a transaction first" if self.phase is Phase.READY else "nothing can be sent"
        return TransactionMisuse(f"the producer {self.phase.value}: {todo}")

    def check_may_end(self) -> None:
        """Raise the transaction's error, or TransactionMisuse if no transaction is open."""
        if self.error is not None:
            raise self.error
        if self.phase is not Phase.OPEN:
            raise TransactionMisuse(f"the producer {self.phase.value}: no transaction is open")

    @property
    def can_abort(self) -> bool:
        """True if there is a transaction that can still be aborted."""
        return self.phase in (Phase.OPEN, Phase.DOOMED, Phase.ABORTING)

    # -- life

    def on_identity(self, identity: ProducerIdentity, *, is_implicit: bool) -> None:
        """Set the identity from InitProducerId, which has aborted any open transaction."""
        self.identity = identity
        self.is_implicit = is_implicit
        self.needs_renewal = False
        if self.phase is Phase.NEW:
            self.phase = Phase.READY

    def on_protocol(self, *, is_implicit: bool) -> None:
        """Set, between transactions, whether the coordinator supports the newer protocol.

        A change to the newer protocol requires a new epoch, so that late requests of the older
        protocol are refused.
        """
        if is_implicit and not self.is_implicit:
            self.needs_renewal = True
        self.is_implicit = is_implicit

    def begin(self) -> None:
        """Open a transaction; the coordinator learns of it with the first partition or offsets.

        Raise TransactionMisuse if a transaction is open, or the error that ended the producer.
        """
        if self.phase is not Phase.READY:
            raise self.error or TransactionMisuse(
                f"the producer {self.phase.value}: end that transaction first"
            )
        self.phase = Phase.OPEN

    def fail(self, error: ClientError) -> None:
        """Make the transaction abortable only, because a record or a request failed."""
        if self.phase in (Phase.OPEN, Phase.COMMITTING):
            self.phase = Phase.DOOMED
            self.error = TransactionAbortable(error)

    def fail_for_good(self, error: ClientError) -> None:
        """Refuse all further transactions of this producer with `error`; keep the first error."""
        if self.phase is not Phase.FAILED:
            self.phase = Phase.FAILED
            self.error = error

    # -- partitions and offsets

    def admit(self, partition: TopicPartition) -> bool:
        """True if the partition's batches may be sent now; if not, note that it has to be added."""
        if self.phase not in (Phase.OPEN, Phase.COMMITTING):
            return False
        if partition in self._added:
            return True
        if self.is_implicit:
            self._added[partition] = None
            self._has_begun = True
            return True
        self._wanted.setdefault(partition)
        return False

    def to_add(self) -> list[TopicPartition]:
        """List the partitions that AddPartitionsToTxn must add before their batches are sent."""
        return list(self._wanted) if self.phase in (Phase.OPEN, Phase.COMMITTING) else []

    def on_asked(self, step: Step) -> None:
        """Note that a request is being sent that can begin the transaction at the coordinator."""
        if step is Step.COMMIT_OFFSETS and self.is_implicit:
            self._has_begun = True
        elif step in (Step.ADD_PARTITIONS, Step.ADD_OFFSETS):
            self._unanswered += 1

    def on_partitions_answered(self, codes: Mapping[TopicPartition, ErrorCode]) -> Reaction:
        """Apply the answer to AddPartitionsToTxn, given by partition; return how to react."""
        refused: list[tuple[TopicPartition, ErrorCode]] = []
        for partition, code in codes.items():
            if code is ErrorCode.NONE:
                self._has_begun = True
                self._wanted.pop(partition, None)
                self._added[partition] = None
            else:
                refused.append((partition, code))
        if not refused:
            return self.on_answer(Step.ADD_PARTITIONS, ErrorCode.NONE)
        # All partitions are added or none; report one that was attempted, which has the reason.
        refused.sort(key=lambda one: one[1] is ErrorCode.OPERATION_NOT_ATTEMPTED)
        (topic, index), code = refused[0]
        return self.on_answer(Step.ADD_PARTITIONS, code, f"{topic}-{index}")

    def on_answer(self, step: Step, code: ErrorCode, detail: str = "") -> Reaction:
        """Apply the error code of a coordinator's answer to this step; return how to react."""
        if step in (Step.ADD_PARTITIONS, Step.ADD_OFFSETS):
            self._unanswered -= 1
        reaction = reaction_to(step, code)
        if reaction is Reaction.DONE and step is Step.ADD_OFFSETS:
            self._has_begun = True
        return self._react(reaction, code, detail)

    def _react(self, reaction: Reaction, code: ErrorCode, detail: str) -> Reaction:
        if reaction is Reaction.RENEW:
            self.needs_renewal = self._is_unknown_to_coordinator = True
        if reaction in (Reaction.ABORT, Reaction.RENEW):
            self.fail(refusal(code, detail))
        elif reaction is Reaction.FAIL:
            self.fail_for_good(_final(code, detail))
        return reaction

    def on_batch_lost(self, error: ClientError, *, was_sent: bool) -> None:
        """Doom the transaction, or the producer, because a batch failed.

        If the batch was sent, brokers may miss its sequence, so the epoch must be raised.
        """
        self.needs_renewal |= was_sent
        cause = getattr(error, "error", None)
        if isinstance(error, ProducerFenced):
            self.fail_for_good(error)
        elif isinstance(cause, ApiError) and cause.code in _FATAL_FOR_BATCHES:
            self.fail_for_good(TransactionFailed(error))
        else:
            self.fail(error)

    # -- ending

    def begin_end(self, *, commit: bool) -> None:
        """Begin to commit or abort; a repeated call continues an end that was interrupted.

        Raise the producer's error, or TransactionMisuse if no transaction can end that way now.
        """
        if self.phase is Phase.FAILED:
            assert self.error is not None
            raise self.error
        if commit and self.phase is not Phase.COMMITTING:
            self.check_may_end()
            self.phase = Phase.COMMITTING
        elif not commit and not self.can_abort:
            why = "begin one first"
            if self.phase is Phase.COMMITTING:
                why = "its outcome is not known: call commit_transaction again"
            raise TransactionMisuse(f"the producer {self.phase.value}: {why}")
        elif not commit:
            self.phase = Phase.ABORTING
            self.error = None

    @property
    def must_tell_coordinator(self) -> bool:
        """True if the coordinator has begun the transaction, so that EndTxn must end it."""
        return self._has_begun and not self._is_unknown_to_coordinator

    def on_end_answered(self, code: ErrorCode, next_identity: ProducerIdentity) -> Reaction:
        """Apply the answer to EndTxn, which in the newer protocol has the next identity."""
        reaction = reaction_to(Step.END, code)
        is_over = code is ErrorCode.INVALID_TXN_STATE and self.is_implicit
        if reaction is Reaction.DONE:
            if self.is_implicit and next_identity.producer_id >= 0:
                self.identity = next_identity
                self.needs_renewal = False
        elif self.phase is Phase.ABORTING and (
            is_over or code in FENCED or reaction in (Reaction.ABORT, Reaction.RENEW)
        ):
            # The coordinator has ended it, because it took too long, or a newer producer has.
            # InitProducerId with our epoch returns a new one, or says that we are fenced (KIP-588).
            self.needs_renewal = True
            return Reaction.DONE
        elif is_over:
            return self._react(Reaction.RENEW, code, "EndTxn")
        elif reaction is not Reaction.AGAIN:
            return self._react(reaction, code, "EndTxn")
        return reaction

    def on_ended(self) -> None:
        """Reset the state after the end, so that the next transaction may begin."""
        self.phase = Phase.READY
        self.error = None
        self._added.clear()
        self._wanted.clear()
        self._unanswered = 0
        self._has_begun = self._is_unknown_to_coordinator = False

    def hand_over(self) -> ProducerIdentity:
        """Leave the open transaction to another process; return the identity it was opened under.

        This producer then asks for an identity as a new producer would, because it cannot know
        which epoch results from the other process's EndTxn.
        """
        assert self.identity is not None
        handed, self.identity = self.identity, None
        self.on_ended()
        self.needs_renewal = True
        return handed

    @property
    def must_renew(self) -> bool:
        """True if InitProducerId must be sent before another transaction begins.

        An unanswered request to add partitions or offsets may have begun a transaction at the
        coordinator, which InitProducerId aborts.
        """
        return self.needs_renewal or (self._unanswered > 0 and not self._has_begun)


_FATAL_FOR_BATCHES: Final = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)


def _final(code: ErrorCode, detail: str) -> ClientError:
    if code in FENCED:
        return ProducerFenced(None, Refused(code, detail))
    return TransactionFailed(refusal(code, detail))
