"""Who asks whether a transaction knows this partition, and what the answer may still be used for.

Pure (KIP-890). Before a producer's first batch of a transaction is appended here, its coordinator
is asked whether the partition belongs to it. Meanwhile the transaction may end, and another begin:
so each attempt has an object of its own, and the batch is appended only if that object is still
the producer's newest. A batch of the producer puts an end to it, or the marker of its transaction.

    nothing open, no attempt   --asks-->    attempt   --its batch is appended-->  open
                                               |      --marker, role, time---->   nothing
                                               +-- asks again: the same attempt
"""

from ..storage.markers import TransactionMarker
from ..storage.producer_state import RAISES_EPOCH_FROM


class Verification:
    """One attempt. Two are never equal, whatever they hold."""

    __slots__ = ("epoch", "lowest_sequence", "raises_epoch", "since_ms")

    def __init__(self, epoch: int, sequence: int, since_ms: int, *, raises_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches that wait for it: one of a higher sequence must not come first."""
        self.raises_epoch = raises_epoch
        """Each transaction of this client has an epoch of its own: it begins with sequence 0."""
        self.since_ms = since_ms

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
        """The producer's attempt: the one under way for this epoch, else this."""
        present = self._attempts.get(producer_id)
        if present is None or present.epoch < attempt.epoch:
            self._attempts[producer_id] = attempt
            return attempt
        if present.epoch == attempt.epoch:
            present.note(attempt.lowest_sequence)
        return present

    def is_current(self, producer_id: int, attempt: Verification) -> bool:
        """May a batch still be appended on the strength of the attempt?"""
        return self._attempts.get(producer_id) is attempt

    def end(self, producer_id: int) -> None:
        """A batch of the producer was appended: its transaction is open."""
        self._attempts.pop(producer_id, None)

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
