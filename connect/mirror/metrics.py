"""Counts of a mirrored partition, under the names of MM2's metrics (MirrorSourceMetrics)."""

from ...client.metrics import Stat


class PartitionMetrics:
    """The metrics of one partition in one task; times are those of the machine's clock, in ms."""

    def __init__(self, now_ms: int) -> None:
        self.records = Stat(now_ms)
        """Records that are at the target."""
        self.bytes = Stat(now_ms)
        """Bytes of keys and values that were read, by batch."""
        self.age = Stat(now_ms)
        """From a batch's newest timestamp until it was read."""
        self.latency = Stat(now_ms)
        """From a record's timestamp until it was at the target."""
        self.gap_count = 0
        """How often the source lacked records that were not mirrored; ours."""
        self.dropped_count = 0
        """Records that came from the target, by their provenance header; ours."""

    def read(self, now_ms: int) -> dict[str, float]:
        """Return the values by MM2's names; averages and maxima of nothing are NaN."""
        return {
            "record-count": self.records.count,
            "record-rate": self.records.per_second(now_ms),
            "byte-count": self.bytes.total,
            "byte-rate": self.bytes.rate(now_ms),
            **self.age.spread("record-age-ms", now_ms),
            **self.latency.spread("replication-latency-ms", now_ms),
            "gap-count": self.gap_count,
            "dropped-count": self.dropped_count,
        }
