"""Counts of a mirrored partition, under the names of MM2's metrics (MirrorSourceMetrics).

Plain fields, which a scrape reads. Rates are left to whoever scrapes.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Spread:
    """Durations in ms: the newest, the least, the most and the mean since the task began."""

    last_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0
    count: int = 0
    total_ms: int = 0

    def add(self, ms: int, count: int = 1) -> None:
        """Take the duration of so many records."""
        ms = max(ms, 0)
        self.last_ms = ms
        self.min_ms = ms if not self.count else min(self.min_ms, ms)
        self.max_ms = max(self.max_ms, ms)
        self.count += count
        self.total_ms += ms * count

    def named(self, name: str) -> dict[str, float]:
        """Return the values under `name`, and `name` with -min, -max and -avg."""
        average = self.total_ms / self.count if self.count else 0.0
        return {
            name: self.last_ms,
            f"{name}-min": self.min_ms,
            f"{name}-max": self.max_ms,
            f"{name}-avg": average,
        }


@dataclass(slots=True)
class PartitionMetrics:
    """The metrics of one partition in one task."""

    record_count: int = 0
    """Records that are at the target."""
    byte_count: int = 0
    """Bytes of keys and values that were read."""
    record_age: Spread = field(default_factory=Spread)
    """From a record's timestamp until it was read; of the newest record of each batch."""
    replication_latency: Spread = field(default_factory=Spread)
    """From a record's timestamp until it was at the target."""
    gap_count: int = 0
    """How often the source lacked records that were not mirrored; ours."""
    dropped_count: int = 0
    """Records that came from the target, by their provenance header; ours."""

    def read(self) -> dict[str, float]:
        """Return the values by MM2's names."""
        return {
            "record-count": self.record_count,
            "byte-count": self.byte_count,
            **self.record_age.named("record-age-ms"),
            **self.replication_latency.named("replication-latency-ms"),
            "gap-count": self.gap_count,
            "dropped-count": self.dropped_count,
        }
