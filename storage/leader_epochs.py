"""The start offset of each leader epoch of a partition, by which followers truncate (KIP-101).

Pure. Epochs and start offsets both grow strictly from entry to entry (KIP-101, KIP-279). The file
is Kafka's leader-epoch-checkpoint:

    the line "0", a line with the number of entries, and for each a line "epoch start_offset"
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ..protocol.types import NO_EPOCH, OffsetAndEpoch

_VERSION = "0"
_MAX = 2**63 - 1


class LeaderEpochs:
    """A sorted map from leader epoch to start offset."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    def __len__(self) -> int:
        return len(self._epochs)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, or -1 if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def latest_start(self) -> int:
        """The offset at which the newest epoch began; -1 if there is none."""
        return self._starts[-1] if self._starts else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`; return True if that changed anything.

        Entries of an equal or later epoch, and entries that start at or after `start_offset`,
        contradict the new entry and are removed. The newest epoch keeps an earlier start.
        """
        if epoch < 0:
            return False
        if epoch == self.latest_epoch and start_offset >= self._starts[-1]:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch | None:
        """Return the largest known epoch not above `epoch`, and its end offset.

        An epoch older than all known ones ended where the first known one began. Return None if no
        epoch is known, if `epoch` is negative, or if it is above the newest.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return None
        if epoch == self._epochs[-1]:
            return OffsetAndEpoch(log_end_offset, epoch)
        higher = bisect_right(self._epochs, epoch)
        known = self._epochs[higher - 1] if higher else epoch
        return OffsetAndEpoch(self._starts[higher], known)

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; -1 if no known epoch begins by then."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def truncate_from_end(self, offset: int) -> bool:
        """Forget epochs that begin at or after `offset`; return True if there were any."""
        keep = bisect_left(self._starts, offset)
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        return changed

    def truncate_from_start(self, offset: int) -> bool:
        """Forget epochs that ended before `offset`; return True if anything changed.

        The epoch that holds `offset` now begins there.
        """
        drop = bisect_right(self._starts, offset) - 1
        if drop < 0 or (drop == 0 and self._starts[0] == offset):
            return False
        del self._epochs[:drop], self._starts[:drop]
        self._starts[0] = offset
        return True

    def clear(self) -> bool:
        """Forget all epochs; return True if there were any."""
        changed = bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()
        return changed

    def encode(self) -> bytes:
        """Return the contents of the file."""
        lines = [_VERSION, str(len(self)), *(f"{epoch} {start}" for epoch, start in self)]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs | None":
        """Read the contents of a file; None if they are torn, corrupt or out of order."""
        try:
            version, count, *rows = data.decode("ascii").split("\n")
            entries = [(int(e), int(s)) for e, s in (row.split() for row in rows if row)]
            if version != _VERSION or int(count) != len(entries) or rows[-1:] != [""]:
                return None
        except ValueError:
            return None
        epochs = cls(entries)
        is_true = list(epochs) == entries and all(0 <= start <= _MAX for _, start in entries)
        return epochs if is_true else None
