"""Finds the longest log of a partition without a leader, among the replicas that have reported.

A partition in `electing` has no leader, so none of its logs grows: a replica's report holds until
the next leader epoch, or until its broker starts anew. The reports are not persistent: a new
controller gets them again, because brokers repeat them.

The longest log is decided once every live replica has reported, or 2 s after the search began if
any has. All replicas in `last_known_elr` must have reported, too; that list is empty if loss is
allowed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...protocol.control.image import MetadataImage, PartitionState
from ...protocol.control.messages import LogEnd, ReportLogEnds
from ...protocol.types import TopicIdPartition

REPORTS_WITHIN_MS: Final = 2_000
"""Milliseconds to wait for live replicas that do not report."""


class Report(NamedTuple):
    """The log end of a replica, reported by one start of its broker."""

    broker_epoch: int
    end: LogEnd

    @property
    def has(self) -> tuple[int, int]:
        """The rank of the log: the epoch of its last record, then its end offset."""
        return self.end.last_epoch, self.end.log_end_offset


class Winner(NamedTuple):
    """The replica with the longest log, and what is known to be lost by electing it."""

    broker_id: int
    end: LogEnd
    lost_until: int
    """The highest high watermark that a replica reported, if it is above the winner's log end
    offset; else that log end offset."""


@dataclass(slots=True)
class _Search:
    """One partition, and the reports of its leaderless epoch."""

    leader_epoch: int
    since_ms: int
    reports: dict[int, Report] = field(default_factory=dict)


class LongestLogs:
    """Gathers reports of log ends and decides elections once there are enough."""

    def __init__(self) -> None:
        self._searches: dict[TopicIdPartition, _Search] = {}

    def restart(self, image: MetadataImage, now_ms: int) -> None:
        """Start over, as this controller has become active: look at every partition."""
        self._searches.clear()
        self.on_changed(image, (key for key, _ in image.partitions()), now_ms)

    def on_changed(
        self, image: MetadataImage, partitions: Iterable[TopicIdPartition], now_ms: int
    ) -> None:
        """Begin or end the searches of these partitions, whose state has changed."""
        for key in partitions:
            state = image.partition(*key)
            if state is None or not state.electing:
                self._searches.pop(key, None)
                continue
            search = self._searches.get(key)
            if search is None or search.leader_epoch != state.leader_epoch:
                self._searches[key] = _Search(state.leader_epoch, now_ms)

    def on_reported(self, image: MetadataImage, request: ReportLogEnds) -> None:
        """Keep the reports of partitions whose search is for the same leader epoch."""
        for end in request.ends:
            key = TopicIdPartition(end.topic_id, end.partition)
            search, state = self._searches.get(key), image.partition(*key)
            if (
                search is not None
                and state is not None
                and search.leader_epoch == end.leader_epoch
                and request.broker_id in state.replicas
            ):
                search.reports[request.broker_id] = Report(request.broker_epoch, end)

    def decided(self, image: MetadataImage, now_ms: int) -> Mapping[TopicIdPartition, Winner]:
        """Return the partitions that have enough reports, each with its winner."""
        found: dict[TopicIdPartition, Winner] = {}
        for key in list(self._searches):
            search, state = self._searches[key], image.partition(*key)
            if state is None or not state.electing:
                del self._searches[key]
                continue
            living = _living(image, state)
            reports = _of(image, search, living)
            if any(each not in reports for each in state.last_known_elr):
                continue
            waits = len(reports) < len(living)
            if reports and not (waits and now_ms < search.since_ms + REPORTS_WITHIN_MS):
                found[key] = _winner(state, reports)
        return found

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return the time when incomplete reports are enough; None if another report is needed."""
        due = (search.since_ms + REPORTS_WITHIN_MS for search in self._searches.values())
        return min((deadline for deadline in due if deadline > now_ms), default=None)


def _living(image: MetadataImage, state: PartitionState) -> list[int]:
    """Return the replicas on active brokers, whose reports count and are waited for."""
    return [
        each
        for each in state.replicas
        if each not in state.offline
        and (broker := image.brokers.get(each)) is not None
        and broker.is_active
    ]


def _of(image: MetadataImage, search: _Search, living: list[int]) -> dict[int, Report]:
    return {
        each: report
        for each in living
        if (report := search.reports.get(each)) is not None
        and report.broker_epoch == image.brokers[each].broker_epoch
    }


def _winner(state: PartitionState, reports: Mapping[int, Report]) -> Winner:
    """Choose the replica with the longest log.

    Among equal logs, prefer a replica in `last_known_elr`, then the first of the replicas.
    """
    most = max(report.has for report in reports.values())
    equals = [each for each in reports if reports[each].has == most]
    broker_id = next((each for each in equals if each in state.last_known_elr), equals[0])
    end = reports[broker_id].end
    known = max(report.end.high_watermark for report in reports.values())
    return Winner(broker_id, end, max(known, end.log_end_offset))
