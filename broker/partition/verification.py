"""Attempts to begin a transaction in a partition, and the batches that wait for them (KIP-890).

Pure. Before the first batch of a transaction is appended here, the coordinator is asked whether the
partition was added to the transaction. Before the answer, the transaction may end and another one
begin. Therefore each attempt is an object of its own, and the batch is appended only if that object
is still the producer's newest attempt. An appended batch of the producer ends the attempt, and so
does a marker.

    nothing open, no attempt   --asks-->    attempt   --its batch is appended-->  open
                                               |      --marker, role, time---->   nothing
                                               +-- asks again: the same attempt

A producer may send further batches before the first is answered. While the coordinator is asked,
these batches queue behind the first, on whatever connection they arrive, and one answer settles all
of them in that order and in one step. So no batch can overtake the waiting ones.

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
        """Append the batch, or refuse it if the coordinator answered with an error."""

    def proceed(self) -> None:
        """Continue, because all batches that waited for the same answer are written."""


class Verification:
    """One attempt to begin a transaction in a partition. An attempt equals only itself."""

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
        """The lowest sequence of the waiting batches; a batch with a higher one must not be
        appended first."""
        self.raises_epoch = raises_epoch
        """True if each transaction of the client has its own epoch, and begins with sequence 0."""
        self.since_ms = since_ms
        self.is_led = True
        """False once the leadership under which the attempt began has ended."""
        self._waiting: list[Waiting] | None = None
        """The waiting batches, the earliest first; None while the coordinator is not asked."""

    def join(self, batch: Waiting) -> bool:
        """Queue a batch; return True if it is the first, so that the coordinator must be asked."""
        if self._waiting is not None:
            self._waiting.append(batch)
            return False
        self._waiting = [batch]
        return True

    def answered(self) -> list[Waiting]:
        """Return the batches that waited for the answer, in order. The next batch asks again."""
        waiting, self._waiting = self._waiting or [], None
        return waiting

    def note(self, sequence: int) -> None:
        """Note the sequence of another batch of the producer that waits for the answer."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)


NO_ATTEMPTS: Final[dict[int, Verification]] = {}
"""The empty dict that all idle partitions share, which saves memory. It is never changed."""


class Verifications:
    """The running attempts in one partition, by producer id, and the batches that they permit."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts = NO_ATTEMPTS

    def begin(self, producer_id: int, attempt: Verification) -> Verification:
        """Return the producer's running attempt of this epoch; else begin `attempt` and return it.

        An attempt of an older epoch is not kept, and permits no batch. It only lets the coordinator
        be asked, whose answer says why the producer is refused.
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
        """Check a client's transactional batch; return None if it may be appended.

        None also ends the producer's attempt. Otherwise return the error, or the earlier batch that
        this one repeats.
        """
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
            # The client did nothing wrong. It looks for the leader and sends the batch again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return refused

    def refuse_own(
        self, producers: ProducerState, header: BatchHeader, guard: Verification | None
    ) -> ErrorCode:
        """Return the error of a coordinator's transactional batch; NONE if it may be appended.

        Without a `guard` the coordinator itself has verified the transaction.
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
        """End the producer's attempt, because a batch of `epoch` was appended.

        An attempt of a newer epoch continues, because then the batch is a late one of the previous
        transaction.
        """
        attempt = self._attempts.get(producer_id)
        if attempt is not None and attempt.epoch <= epoch:
            self._forget(producer_id)

    def end_leadership(self) -> None:
        """Forget all attempts: other leaders may write markers before this broker leads again."""
        for attempt in self._attempts.values():
            attempt.is_led = False
        self._attempts = NO_ATTEMPTS

    def end_by(self, marker: TransactionMarker) -> None:
        """End the producer's attempt, because this marker ends its transaction.

        If each transaction has its own epoch, the marker carries the epoch of the next transaction.
        An attempt of that next transaction, begun before the marker came, continues.
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
        """Forget attempts that began at `since_ms` or before, whose batches are overdue."""
        old = [each for each, attempt in self._attempts.items() if attempt.since_ms <= since_ms]
        for producer_id in old:
            self._forget(producer_id)

    def _forget(self, producer_id: int) -> None:
        del self._attempts[producer_id]
        if not self._attempts:
            self._attempts = NO_ATTEMPTS
