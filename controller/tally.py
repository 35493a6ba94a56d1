"""Counts what the active controller's decisions change, and how long they take to be committed.

Pure. Only decisions of this controller count, so that sums over all controllers are right.
"""

from collections import deque
from collections.abc import Sequence

from ..protocol.control.image import MetadataImage
from ..protocol.control.records import MetadataRecord, PartitionChangeRecord
from ..protocol.types import NO_LEADER
from ..runtime.metrics import Durations

_SMOOTHING = 16
"""The number of commits over which the moving average is taken."""


class Tally:
    """Counts that only grow, and durations; the metrics read them."""

    def __init__(self) -> None:
        self.leaders_elected = 0
        """Number of changes that gave a partition another leader."""
        self.leaders_elected_uncleanly = 0
        """Number of elections of a leader that may lack committed records."""
        self.leaders_lost = 0
        """Number of changes that left a partition without a leader."""
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.leases_expired = 0
        """Number of brokers fenced because their lease expired."""
        self.commits = Durations()
        """Durations of all decisions, from append to commit."""
        self.elections = Durations()
        """Durations of the decisions that change leaders, from append to commit."""
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
        """Count a committed record, before it is applied to this image."""
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
        """Record the durations of the decisions now below the high watermark."""
        while self._appended and self._appended[0][0] < high_watermark:
            _, since_us, elects = self._appended.popleft()
            taken_us = now_us - since_us
            self.commits.record(taken_us)
            self.commit_average_us += (taken_us - self.commit_average_us) / _SMOOTHING
            if elects:
                self.elections.record(taken_us)

    def on_deposed(self) -> None:
        """Forget the decisions that are not committed, which may never be."""
        self._appended.clear()
