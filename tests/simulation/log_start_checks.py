"""Checks that log starts never move back, nor past retention and DeleteRecords (invariant 31).

Deleted batches are judged by the log that is left on the disk and by the batches that were
committed.
"""

from collections.abc import Callable, Iterator

from minikafka.protocol.types import TRACE_TOPIC

from .cluster import Daemon
from .coverage import Coverage
from .delay_workload import LATER
from .shape import TopicShape
from .truth import Seen, Truth, bytes_from
from .world import WALL_START_MS


class LogStartChecks:
    """Follows the log start of each replica."""

    def __init__(self, coverage: Coverage, now: Callable[[], float]) -> None:
        self._coverage = coverage
        self._now = now
        self.topics: dict[str, TopicShape] | None = None
        """The topics' settings; None if they are unknown, so that any start is right."""

    def check(self, daemon: Daemon, truth: Truth, before: Seen | None, now: Seen) -> Iterator[str]:
        """Check a replica after a step."""
        start = now.log_start_offset
        if before is not None and start < before.log_start_offset:
            yield (
                f"invariant 31: {daemon.name} {truth.name}: log start went from"
                f" {before.log_start_offset} to {start}"
            )
        if before is not None and start > before.log_start_offset:
            self._coverage.note("transition", "log-start-moved")
            if start > before.log_end_offset:
                self._coverage.note("transition", "log-begun-again")
        if start > truth.start:
            if self.topics is not None and not self._may_begin(daemon, truth, now):
                yield (
                    f"invariant 31: {daemon.name} {truth.name}: begins at {start}, and neither"
                    f" retention nor a request lets it begin after {truth.start}"
                )
            truth.start = start

    def may_be_gone(self, truth: Truth, begins_at: int) -> bool:
        """Return whether a log on a disk may begin there, as its process may have died deleting."""
        if begins_at <= max(truth.start, truth.asked_start) or self.topics is None:
            return True
        topic = self.topics.get(truth.topic)
        return truth.topic in (LATER, TRACE_TOPIC) or (topic is not None and topic.sheds)

    def _may_begin(self, daemon: Daemon, truth: Truth, now: Seen) -> bool:
        start = now.log_start_offset
        assert self.topics is not None
        topic = self.topics.get(truth.topic)
        if start <= truth.asked_start:
            return True
        if truth.topic == LATER:
            return True  # Invariant 36 judges it.
        if truth.topic == TRACE_TOPIC:
            return True  # By a clock that was set, its own or its leader's, a day has passed.
        wall_ms = WALL_START_MS + daemon.host.wall_skew_ms + int(self._now() * 1000)
        newest = truth.ledger.newest_below(start)
        if topic is None or not topic.sheds:
            return False
        if topic.retention_bytes >= 0:
            left = bytes_from(daemon, now.replica.key, truth.name, start)
            if left >= topic.retention_bytes:
                return True
        return 0 <= topic.retention_ms < wall_ms - newest
