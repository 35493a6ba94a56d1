"""Attempts to begin a transaction in a partition, and the batches that wait for them (KIP-890).

Pure (KIP-890). Before a producer's first batch of a transaction is appended here, its coordinator
is asked whether the partition belongs to it. Meanwhile the transaction may end, and another begin:
so each attempt has an object of its own, and the batch is appended only if that object is still
the producer's newest. A batch of the producer puts an end to it, or the marker of its transaction.

    nothing open, no attempt   --asks-->    attempt   --its batch is appended-->  open
                                               |      --marker, role, time---->   nothing
                                               +-- asks again: the same attempt

A producer sends on before it is answered. While an attempt is being asked for, its later batches
queue behind the first, whatever connection brings them, and one answer settles all of them in that
order and in one step. So the transaction is never open while batches wait to begin it: none can
come past them.

    attempt: idle   --a batch joins: ask-->   asked, 1 waits    --another joins-->  asked, 2 wait
                    <---------- the answer: each is appended or refused, in order ----------+
"""

from typing import Final, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import BatchHeader
from ...storage.markers import TransactionMarker
from ...storage.producer_state import (
    NOT_VERIFIED,
    RAISES_EPOCH_FROM,
    ProducedBatch,
    ProducerState,
)


class Waiting(Protocol):
    """A batch that waits for a coordinator's answer."""

    def settle(self, error: ErrorCode) -> None:
        """Be appended, or refused for this reason."""

    def proceed(self) -> None:
        """All that waited for the same answer is written."""


class Verification:
    """One attempt. Two are never equal, whatever they hold."""

    __slots__ = (
        "_waiting",
        "epoch",
        "is_led",
        "lowest_sequence",
        "raises_epoch",
        "since_ms",
    )

    def __init__(self, epoch: int, sequence: int, since_ms: int, *, raises_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The lowest sequence of the batches that wait: one of a higher sequence must not come
        first."""
        self.raises_epoch = raises_epoch
        """Each transaction of this client has an epoch of its own: it begins with sequence 0."""
        self.since_ms = since_ms
        self.is_led = True
        """False once the leadership has ended under which it began."""
        self._waiting: list[Waiting] | None = None
        """The batches in the order they came; None while nothing is asked."""

    def join(self, batch: Waiting) -> bool:
        """Let a batch wait behind those that do; True if it is the first and must ask."""
        if self._waiting is not None:
            self._waiting.append(batch)
            return False
        self._waiting = [batch]
        return True

    def answered(self) -> list[Waiting]:
        """Return the batches that waited for the answer, in order. The next one asks again."""
        waiting, self._waiting = self._waiting or [], None
        return waiting

    def note(self, sequence: int) -> None:
        """Another batch of the producer waits for the answer."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)


NO_ATTEMPTS: Final[dict[int, Verification]] = {}
"""Stands in while nothing is asked: an idle partition has no dict of its own. Never changed."""


class Verifications:
    """The attempts under way in one partition, by producer id, and what they permit."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts = NO_ATTEMPTS

    def begin(self, producer_id: int, attempt: Verification) -> Verification:
        """Return the producer's attempt: the one under way for this epoch, else this one.

        An attempt of an older epoch than the newest is never current: its coordinator may say why.
        """
        present = self._attempts.get(producer_id)
        if present is None or present.epoch < attempt.epoch:
            if self._attempts is NO_ATTEMPTS:
                self._attempts = {}
            self._attempts[producer_id] = attempt
        elif present.epoch == attempt.epoch:
            present.note(attempt.lowest_sequence)
            return present
        return attempt

    def check(
        self, producers: ProducerState, header: BatchHeader, guard: Verification | None
    ) -> ProducedBatch | ErrorCode | None:
        """Check a client's batch of a transaction. None: append it, and its attempt ends."""
        producer_id = header.producer_id
        up_to = NOT_VERIFIED
        if guard is not None and self._permits(header, guard):
            known = producers.get(producer_id)
            begins_at_0 = guard.raises_epoch and (known is None or not known.batches)
            up_to = 0 if begins_at_0 else guard.lowest_sequence
        refused = producers.check_transactional(header, up_to)
        if refused is None:
            self.end(producer_id, header.producer_epoch)
        elif refused is ErrorCode.INVALID_TXN_STATE and guard is not None and not guard.is_led:
            # Not the client's fault, and nothing was appended: it finds the leader, and asks again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return refused

    def refuse_own(
        self, producers: ProducerState, header: BatchHeader, guard: Verification | None
    ) -> ErrorCode:
        """Return the error of a coordinator's batch of a transaction; NONE if it may be appended.

        Without a `guard` the coordinator vouches for a batch that begins a transaction here.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        error = producers.check_epoch(producer_id, epoch)
        if error or guard is None or producers.has_open_transaction(producer_id, epoch):
            return error
        is_verified = self._permits(header, guard)
        return ErrorCode.NONE if is_verified else ErrorCode.INVALID_TXN_STATE

    def _permits(self, header: BatchHeader, guard: Verification) -> bool:
        """True if the guard is of this batch's epoch, and still the producer's newest attempt."""
        is_of_epoch = guard.epoch == header.producer_epoch
        return is_of_epoch and self._attempts.get(header.producer_id) is guard

    def end(self, producer_id: int, epoch: int) -> None:
        """End the attempt of an epoch whose batch was appended: its transaction is open.

        An attempt of a newer epoch goes on: a late batch of the transaction before ends nothing.
        """
        attempt = self._attempts.get(producer_id)
        if attempt is not None and attempt.epoch <= epoch:
            self._forget(producer_id)

    def end_leadership(self) -> None:
        """Forget all attempts: before this broker leads again another may have written markers."""
        for attempt in self._attempts.values():
            attempt.is_led = False
        self._attempts = NO_ATTEMPTS

    def end_by(self, marker: TransactionMarker) -> None:
        """A transaction of the producer has ended: whatever was verified for it is void.

        Where each transaction has an epoch of its own, the marker carries that of the next one:
        which may have begun to ask before the marker of the one before came here.
        """
        attempt = self._attempts.get(marker.producer_id)
        if attempt is None:
            return
        is_of_the_next = (
            marker.transaction_version >= RAISES_EPOCH_FROM
            and attempt.raises_epoch
            and attempt.epoch >= marker.producer_epoch
        )
        if not is_of_the_next:
            self._forget(marker.producer_id)

    def remove_older(self, since_ms: int) -> None:
        """Forget attempts that began by then: their batches will not come back."""
        old = [each for each, attempt in self._attempts.items() if attempt.since_ms <= since_ms]
        for producer_id in old:
            self._forget(producer_id)

    def _forget(self, producer_id: int) -> None:
        del self._attempts[producer_id]
        if not self._attempts:
            self._attempts = NO_ATTEMPTS
