"""Finds the longest log of a partition without a leader, as far as the living have reported.

A partition in `electing` has no leader, so no log of it grows: what a replica reports of the
leaderless epoch holds until the next one, or until its broker starts anew. Nothing here is
persistent: a new controller asks again, for brokers repeat their reports.

    decided once every living replica has reported, or 2 s after the first sight of the partition if
    any has; never before every last known replica has: where loss is allowed there are none
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...protocol.control.image import MetadataImage, PartitionState
from ...protocol.control.messages import LogEnd, ReportLogEnds
from ...protocol.types import TopicIdPartition

REPORTS_WITHIN_MS: Final = 2_000
"""A replica that is alive and does not tell is waited for no longer."""


class Report(NamedTuple):
    """The report of one start of a broker."""

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
    """One past the newest offset that a reporting replica knew as committed, if that is above
    the winner's log end; else the log end itself."""


@dataclass(slots=True)
class _Search:
    """One partition, and the reports of its leaderless epoch."""

    leader_epoch: int
    since_ms: int
    reports: dict[int, Report] = field(default_factory=dict)


class LongestLogs:
    """Gathers reports; knows when there are enough."""

    def __init__(self) -> None:
        self._searches: dict[TopicIdPartition, _Search] = {}

    def restart(self, image: MetadataImage, now_ms: int) -> None:
        """Start over: this controller has become active and looks at every partition."""
        self._searches.clear()
        self.on_changed(image, (key for key, _ in image.partitions()), now_ms)

    def on_changed(
        self, image: MetadataImage, partitions: Iterable[TopicIdPartition], now_ms: int
    ) -> None:
        """Take in changed partitions: some have begun to look for a leader, some have found one."""
        for key in partitions:
            state = image.partition(*key)
            if state is None or not state.electing:
                self._searches.pop(key, None)
                continue
            search = self._searches.get(key)
            if search is None or search.leader_epoch != state.leader_epoch:
                self._searches[key] = _Search(state.leader_epoch, now_ms)

    def on_reported(self, image: MetadataImage, request: ReportLogEnds) -> None:
        """Keep what concerns partitions that look for a leader in that very epoch."""
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
        """Return the partitions that have reports enough, each with its winner."""
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
        """Return the time when incomplete reports are enough; None if only a report can help."""
        due = (search.since_ms + REPORTS_WITHIN_MS for search in self._searches.values())
        return min((deadline for deadline in due if deadline > now_ms), default=None)


def _living(image: MetadataImage, state: PartitionState) -> list[int]:
    """The replicas whose report counts and is waited for."""
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
    """Choose the longest log.

    Among equals the last leader's, then the first in the list of replicas.
    """
    most = max(report.has for report in reports.values())
    equals = [each for each in reports if reports[each].has == most]
    broker_id = next((each for each in equals if each in state.last_known_elr), equals[0])
    end = reports[broker_id].end
    known = max(report.end.high_watermark for report in reports.values())
    return Winner(broker_id, end, max(known, end.log_end_offset))
