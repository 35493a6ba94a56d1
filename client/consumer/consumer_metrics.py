"""The metrics of a consumer, under the names that Kafka's consumer gives them.

Pure: the caller passes the time. Averages, maxima and rates cover the last 30 to 60 seconds.
"""

from typing import Final

from ..metrics import NOTHING, Clock, Stat, TimeSpent
from ..network_metrics import NetworkMetrics

COMMIT_SYNC: Final = "commit-sync"
COMMITTED: Final = "committed"


class ConsumerMetrics:
    """One consumer's metrics; totals count from the consumer's creation."""

    def __init__(self, clock: Clock) -> None:
        now_ms = clock.monotonic_ms()
        self.network = NetworkMetrics(clock.monotonic_ms)
        self.spent = TimeSpent(clock.monotonic_us, (COMMIT_SYNC, COMMITTED))
        self.records = Stat(now_ms)
        """Records that polls took: one value per chunk, or per call of `poll_columns`."""
        self.bytes = Stat(now_ms)
        """Bytes of record batches, one value per chunk that polls have handed out in full."""
        self.fetches = Stat(now_ms)
        """Milliseconds from each fetch request to its answer."""
        self.fetched = Stat(now_ms)
        """Bytes per partition in each fetch answer."""
        self.throttled = Stat(now_ms)
        """The throttle time in ms that each fetch answer states."""
        self.commits = Stat(now_ms)
        """Milliseconds per commit."""
        self.heartbeats = Stat(now_ms)
        """Milliseconds per heartbeat."""
        self.joins = Stat(now_ms)
        self.syncs = Stat(now_ms)
        self.rebalances = Stat(now_ms)
        """Milliseconds from the first JoinGroup until the assignment has arrived."""
        self.failed_rebalances = Stat(now_ms)
        self.revoked = Stat(now_ms)
        """Milliseconds that each call of the listener's on_revoked took."""
        self.assigned = Stat(now_ms)
        self.lost = Stat(now_ms)
        self.between_polls = Stat(now_ms)
        self.polled = Stat(now_ms)
        """The share (0 to 1) of the time between the ends of two polls that the later poll took."""
        self.poll_at_ms: int | None = None
        self.poll_ended_ms: int | None = None
        self.heartbeat_at_ms: int | None = None
        self.rebalance_at_ms: int | None = None

    def on_poll(self, now_ms: int) -> None:
        """Record the start of a poll, and the time since the previous poll started."""
        if self.poll_at_ms is not None:
            self.between_polls.record(now_ms - self.poll_at_ms, now_ms)
        self.poll_at_ms = now_ms

    def on_poll_ended(self, now_ms: int) -> None:
        """Record the end of a poll, and its share of the time since the previous poll's end."""
        before_ms, self.poll_ended_ms = self.poll_ended_ms, now_ms
        if before_ms is not None and self.poll_at_ms is not None and now_ms > before_ms:
            self.polled.record((now_ms - self.poll_at_ms) / (now_ms - before_ms), now_ms)

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """Return the metrics by Kafka's names, except those that `Progress.measured` returns."""
        return {
            **self.network.read(),
            **self.records.sums("records-consumed", now_ms),
            "records-per-request-avg": self.records.average(now_ms),
            **self.bytes.sums("bytes-consumed", now_ms),
            **self.fetches.counts("fetch", now_ms),
            **self.fetches.spread("fetch-latency", now_ms),
            **self.fetched.spread("fetch-size", now_ms),
            **self.throttled.spread("fetch-throttle-time", now_ms),
            **self.between_polls.spread("time-between-poll", now_ms),
            "poll-idle-ratio-avg": self.polled.average(now_ms),
            "last-poll-seconds-ago": _seconds_since(self.poll_at_ms, now_ms),
            **self.commits.counts("commit", now_ms),
            **self.commits.spread("commit-latency", now_ms),
            **self.heartbeats.counts("heartbeat", now_ms),
            "heartbeat-response-time-max": self.heartbeats.highest(now_ms),
            "last-heartbeat-seconds-ago": _seconds_since(self.heartbeat_at_ms, now_ms),
            **self.joins.counts("join", now_ms),
            **self.joins.spread("join-time", now_ms),
            **self.syncs.counts("sync", now_ms),
            **self.syncs.spread("sync-time", now_ms),
            "rebalance-total": float(self.rebalances.count),
            "rebalance-latency-total": self.rebalances.total,
            **self.rebalances.spread("rebalance-latency", now_ms),
            "rebalance-rate-per-hour": self.rebalances.per_second(now_ms) * 3600,
            "failed-rebalance-total": float(self.failed_rebalances.count),
            "failed-rebalance-rate-per-hour": self.failed_rebalances.per_second(now_ms) * 3600,
            "last-rebalance-seconds-ago": _seconds_since(self.rebalance_at_ms, now_ms),
            **self.revoked.spread("partition-revoked-latency", now_ms),
            **self.assigned.spread("partition-assigned-latency", now_ms),
            **self.lost.spread("partition-lost-latency", now_ms),
            **self.spent.read(),
        }


def _seconds_since(then_ms: int | None, now_ms: int) -> float:
    return NOTHING if then_ms is None else (now_ms - then_ms) / 1000
