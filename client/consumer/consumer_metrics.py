"""The counts of a consumer, under the names that Kafka's consumer gives them.

Pure: the time is given. `snapshot` is a plain mapping; averages, maxima and rates are of late.
"""

from ..metrics import NOTHING, Stat


class ConsumerMetrics:
    """One consumer's counters; totals grow from the start of the consumer."""

    def __init__(self, now_ms: int) -> None:
        self.records = Stat(now_ms)
        """Records per poll that returned some."""
        self.bytes = Stat(now_ms)
        """Bytes of record batches handed out."""
        self.fetches = Stat(now_ms)
        """Milliseconds from a fetch to its answer."""
        self.fetched = Stat(now_ms)
        """Bytes per fetch answer."""
        self.commits = Stat(now_ms)
        """Milliseconds per commit."""
        self.heartbeats = Stat(now_ms)
        """Milliseconds per heartbeat."""
        self.joins = Stat(now_ms)
        self.syncs = Stat(now_ms)
        self.rebalances = Stat(now_ms)
        """Milliseconds from the first JoinGroup until the assignment is here."""
        self.failed_rebalances = Stat(now_ms)
        self.revoked = Stat(now_ms)
        """Milliseconds in on_revoked."""
        self.assigned = Stat(now_ms)
        self.lost = Stat(now_ms)
        self.between_polls = Stat(now_ms)
        self.poll_at_ms: int | None = None
        self.heartbeat_at_ms: int | None = None
        self.rebalance_at_ms: int | None = None

    def on_poll(self, now_ms: int) -> None:
        """Count a poll, and the time since the one before."""
        if self.poll_at_ms is not None:
            self.between_polls.record(now_ms - self.poll_at_ms, now_ms)
        self.poll_at_ms = now_ms

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """Everything by Kafka's names, but for what the assignment itself tells."""
        return {
            **self.records.sums("records-consumed", now_ms),
            "records-per-request-avg": self.records.average(now_ms),
            **self.bytes.sums("bytes-consumed", now_ms),
            **self.fetches.counts("fetch", now_ms),
            **self.fetches.spread("fetch-latency", now_ms),
            **self.fetched.spread("fetch-size", now_ms),
            **self.between_polls.spread("time-between-poll", now_ms),
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
            "rebalance-total": self.rebalances.count,
            "rebalance-latency-total": self.rebalances.total,
            **self.rebalances.spread("rebalance-latency", now_ms),
            "rebalance-rate-per-hour": self.rebalances.per_second(now_ms) * 3600,
            "failed-rebalance-total": self.failed_rebalances.count,
            "failed-rebalance-rate-per-hour": self.failed_rebalances.per_second(now_ms) * 3600,
            "last-rebalance-seconds-ago": _seconds_since(self.rebalance_at_ms, now_ms),
            **self.revoked.spread("partition-revoked-latency", now_ms),
            **self.assigned.spread("partition-assigned-latency", now_ms),
            **self.lost.spread("partition-lost-latency", now_ms),
        }


def _seconds_since(then_ms: int | None, now_ms: int) -> float:
    return NOTHING if then_ms is None else (now_ms - then_ms) / 1000
