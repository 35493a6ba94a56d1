"""Who asks whether a transaction knows this partition, and what the answer may still be used for.

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

from typing import Protocol

from ...protocol.errors import ErrorCode
from ...storage.markers import TransactionMarker
from ...storage.producer_state import RAISES_EPOCH_FROM


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
        """Of the batches that wait for it: one of a higher sequence must not come first."""
        self.raises_epoch = raises_epoch
        """Each transaction of this client has an epoch of its own: it begins with sequence 0."""
        self.since_ms = since_ms
        self.is_led = True
        """False once the leadership has ended under which it began."""
        self._waiting: list[Waiting] | None = None
        """In the order they came; None while nothing is asked."""

    def join(self, batch: Waiting) -> bool:
        """A batch waits for the answer, behind those that do; True if it is the one to ask."""
        if self._waiting is not None:
            self._waiting.append(batch)
            return False
        self._waiting = [batch]
        return True

    def answered(self) -> list[Waiting]:
        """The answer is there: who waited for it, in order. Whoever joins next asks again."""
        waiting, self._waiting = self._waiting or [], None
        return waiting

    def note(self, sequence: int) -> None:
        """Another batch of the producer waits for the answer."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The attempts under way in one partition, by producer id."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def begin(self, producer_id: int, attempt: Verification) -> Verification:
        """The producer's attempt: the one under way for this epoch, else this.

        One of an older epoch than the newest is never current: its coordinator may say why.
        """
        present = self._attempts.get(producer_id)
        if present is None or present.epoch < attempt.epoch:
            self._attempts[producer_id] = attempt
        elif present.epoch == attempt.epoch:
            present.note(attempt.lowest_sequence)
            return present
        return attempt

    def is_current(self, producer_id: int, attempt: Verification) -> bool:
        """May a batch still be appended on the strength of the attempt?"""
        return self._attempts.get(producer_id) is attempt

    def end(self, producer_id: int, epoch: int) -> None:
        """A batch of the producer was appended: its transaction of this epoch is open.

        An attempt of a newer epoch goes on: a late batch of the transaction before ends nothing.
        """
        attempt = self._attempts.get(producer_id)
        if attempt is not None and attempt.epoch <= epoch:
            del self._attempts[producer_id]

    def end_leadership(self) -> None:
        """This broker leads no more: another one may have written markers when it does again."""
        for attempt in self._attempts.values():
            attempt.is_led = False
        self._attempts.clear()

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
            del self._attempts[marker.producer_id]

    def remove_older(self, since_ms: int) -> None:
        """Forget attempts that began by then: nobody will come back to them."""
        old = [each for each, attempt in self._attempts.items() if attempt.since_ms <= since_ms]
        for producer_id in old:
            del self._attempts[producer_id]
