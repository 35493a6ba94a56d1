"""What compaction needs of a log, and does to it: the part between its readable side and `Log`.

Puts finished results in the place of segments; decides nothing of when, and writes no batch.
"""

import logging
from collections.abc import Sequence

from ...runtime.errors import LogDirectoryFailed
from ..aborted import AbortedIndex
from ..files import Files
from ..integrity import Rules
from ..log_view import LogView
from ..producer_snapshots import ProducerSnapshots
from ..segment import Segment
from .compaction import Finished

log = logging.getLogger(__name__)


class CompactedLog(LogView):
    """A log that may have lost records to compaction, here or where it was copied from."""

    __slots__ = ("_are_gaps_noted", "_is_abandoned", "has_gaps")

    has_gaps: bool
    """May offsets be missing between batches, and records within them?"""
    _are_gaps_noted: bool
    """A file beside the batches says that there are gaps."""
    _is_abandoned: bool

    @property
    def files(self) -> Files:
        """Where its files are opened, and where it is noted that they cannot be."""
        return self._files

    @property
    def truncations(self) -> int:
        """Another number after each cut."""
        return self._truncations

    @property
    def is_in_use(self) -> bool:
        """Is this still the log of its directory, and does that work?"""
        return not self._is_abandoned and self._files.failure is None

    @property
    def rules(self) -> Rules:
        """What its batches must agree with."""
        return Rules(self.leader_epochs, self.has_gaps)

    def note_gaps(self) -> None:
        """Before the first gap. It outlives the policy that brought it, and a restart."""
        if not self._are_gaps_noted:
            self._are_gaps_noted = self.has_gaps = True
            self.segments.note_gaps()

    def put_in_place(self, group: Sequence[Segment], made: Finished) -> None:
        """A result of compaction takes its group's place, for readers and on the disk, at once.

        Await `sync_names` before anything relies on it.
        """
        self.note_gaps()
        new = self.segments.successor(group)
        new.size = new.doubt_below = made.size
        new.next_offset = made.next_offset
        new.first_timestamp = made.first_timestamp
        new.max_timestamp = made.max_timestamp
        new.max_timestamp_offset = made.max_timestamp_offset
        if made.aborted:
            new.aborted = AbortedIndex.decode(made.aborted, new.base_offset, new.next_offset)
        before = sum(each.size for each in group)
        self.segments.replace(group, new)
        for each in group[1:]:
            self._snapshots().remove(each.base_offset)
        log.info("%r: %d bytes compacted to %d", self, before, made.size)

    def _snapshots(self) -> ProducerSnapshots:
        return ProducerSnapshots(self._files, self.directory)

    def failed(self, error: OSError) -> LogDirectoryFailed:
        """Note what a worker met on the disk, and return what to raise."""
        return self._files.fail(error)

    def free_space(self) -> int:
        """Bytes that can still be written beside it."""
        with self._files.guard:
            return self._files.fs.free_space(self._files.root)
