"""Counts what the active controller's decisions change, and how long they take to be committed.

Pure. Only decisions of this controller count, so that sums over all controllers are the cluster's.
"""

from collections import deque
from collections.abc import Sequence

from ..protocol.control.image import MetadataImage
from ..protocol.control.records import MetadataRecord, PartitionChangeRecord
from ..protocol.types import NO_LEADER
from ..runtime.metrics import Durations

_SMOOTHING = 16
"""Commits over which the average moves."""


class Tally:
    """Plain counts that only grow, and durations; whoever scrapes reads them."""

    def __init__(self) -> None:
        self.leaders_elected = 0
        """Partitions that another broker leads since."""
        self.leaders_elected_uncleanly = 0
        """The number of these whose leader may lack committed records."""
        self.leaders_lost = 0
        """Partitions that nobody leads since."""
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.leases_expired = 0
        """Brokers that were taken for dead."""
        self.commits = Durations()
        """Each decision, from append to commit."""
        self.elections = Durations()
        """The same, of those decisions that give or take leaders."""
        self.commit_average_us = 0.0
        self._appended: deque[tuple[int, int, bool]] = deque()

    def on_appended(self, records: Sequence[MetadataRecord], last_offset: int, now_us: int) -> None:
        """Note when a decision was appended."""
        elects = any(
            isinstance(record, PartitionChangeRecord) and record.leader is not None
            for record in records
        )
        self._appended.append((last_offset, now_us, elects))

    def on_committing(self, image: MetadataImage, record: MetadataRecord) -> None:
        """Count a record that is committed and will be applied to this image."""
        if not isinstance(record, PartitionChangeRecord):
            return
        old = image.partition(record.topic_id, record.partition)
        if old is None:
            return
        if record.leader is not None and record.leader != old.leader:
            self.leaders_elected += record.leader != NO_LEADER
            self.leaders_lost += record.leader == NO_LEADER
        self.leaders_elected_uncleanly += record.leader is not None and bool(record.recovering)
        if record.isr is not None:
            self.isr_shrinks += len(record.isr) < len(old.isr)
            self.isr_expands += len(record.isr) > len(old.isr)

    def on_committed(self, high_watermark: int, now_us: int) -> None:
        """Measure the decisions that lie below the high watermark now."""
        while self._appended and self._appended[0][0] < high_watermark:
            _, since_us, elects = self._appended.popleft()
            taken_us = now_us - since_us
            self.commits.record(taken_us)
            self.commit_average_us += (taken_us - self.commit_average_us) / _SMOOTHING
            if elects:
                self.elections.record(taken_us)

    def on_deposed(self) -> None:
        """Measure no decision that was not committed: it may never be."""
        self._appended.clear()
