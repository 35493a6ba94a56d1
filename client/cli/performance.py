"""Computes the results of the performance tests, and formats them as Kafka's tools do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan

from ..measures import MEASURES

MEBIBYTE = 1024 * 1024
SAMPLES_MAX = 500_000
PERCENTILES = (0.5, 0.95, 0.99, 0.999)

_JAVA_DATE = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}


@dataclass(slots=True)
class Latencies:
    """The count, bytes and latencies of the records in one period of time."""

    started_ms: float
    count: int = 0
    size_bytes: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0

    def add(self, latency_ms: float, size_bytes: int) -> None:
        """Count one record with its latency."""
        self.count += 1
        self.size_bytes += size_bytes
        self.total_ms += latency_ms
        self.max_ms = max(self.max_ms, latency_ms)

    def rates(self, now_ms: float) -> tuple[float, float]:
        """Return the records and the mebibytes per second since the period began."""
        seconds = max(now_ms - self.started_ms, 1.0) / 1000.0
        return self.count / seconds, self.size_bytes / seconds / MEBIBYTE

    def average_ms(self) -> float:
        """Return the average latency; NaN if nothing was counted."""
        return self.total_ms / self.count if self.count else float("nan")


@dataclass(slots=True)
class ProducerStats:
    """The latencies of all records and of the current window, and a sample for percentiles.

    Record number i is sampled when i is a multiple of `step`, so that the sample has at most
    SAMPLES_MAX records.
    """

    total: Latencies
    window: Latencies
    step: int
    label: str = ""
    samples: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, expected_count: int, now_ms: float, label: str = "") -> "ProducerStats":
        """Begin to count; the sampling step is chosen for `expected_count` records."""
        step = 1 + expected_count // SAMPLES_MAX
        return cls(Latencies(now_ms), Latencies(now_ms), step, label)

    def add(self, latency_ms: float, size_bytes: int) -> None:
        """Count one acknowledged record."""
        if self.total.count % self.step == 0:
            self.samples.append(latency_ms)
        self.total.add(latency_ms, size_bytes)
        self.window.add(latency_ms, size_bytes)

    def end_window(self, now_ms: float) -> str:
        """Return Kafka's line for the window, and begin the next window."""
        window, self.window = self.window, Latencies(now_ms)
        records, mebibytes = window.rates(now_ms)
        return (
            f"{window.count}{self.label} records sent, {records:.1f} records/sec "
            f"({mebibytes:.2f} MB/sec), {window.average_ms():.1f} ms avg latency, "
            f"{window.max_ms:.1f} ms max latency."
        )

    def summary(self, now_ms: float) -> str:
        """Return Kafka's line of totals with percentiles."""
        records, mebibytes = self.total.rates(now_ms)
        at = percentiles(self.samples, PERCENTILES)
        shown = ", ".join(
            f"{int(latency)} ms {_percent(p)}th" for p, latency in zip(PERCENTILES, at, strict=True)
        )
        return (
            f"{self.total.count}{self.label} records sent, {records:.6f} records/sec "
            f"({mebibytes:.2f} MB/sec), {self.total.average_ms():.2f} ms avg latency, "
            f"{self.total.max_ms:.2f} ms max latency, {shown}."
        )


def percentiles(samples: Sequence[float], wanted: Sequence[float]) -> list[float]:
    """Return the percentile of the samples for each share (0 to 1); 0 if there are no samples."""
    ordered = sorted(samples)
    if not ordered:
        return [0.0 for _ in wanted]
    return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in wanted]


def _percent(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Consumed:
    """The number of records and bytes read up to a moment."""

    at_ms: float
    size_bytes: int
    count: int


HEADER = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def consumer_summary(begin: Consumed, end: Consumed, joined_ms: int, date_format: str) -> str:
    """Return Kafka's line of results for the whole test."""
    dates = f"{java_date(begin.at_ms, date_format)}, {java_date(end.at_ms, date_format)}"
    return f"{dates}, {_rates(begin, end, joined_ms)}"


def consumer_progress(begin: Consumed, end: Consumed, joined_ms: int, date_format: str) -> str:
    """Return Kafka's line for an interval, with the totals at the interval's end."""
    return f"{java_date(end.at_ms, date_format)}, 0, {_rates(begin, end, joined_ms)}"


def _rates(begin: Consumed, end: Consumed, joined_ms: int) -> str:
    mebibytes = (end.size_bytes - begin.size_bytes) / MEBIBYTE
    count = end.count - begin.count
    elapsed_ms = max(end.at_ms - begin.at_ms, 1.0)
    fetch_ms = max(elapsed_ms - joined_ms, 1.0)
    return (
        f"{end.size_bytes / MEBIBYTE:.4f}, {mebibytes / elapsed_ms * 1000:.4f}, "
        f"{end.count}, {count / elapsed_ms * 1000:.4f}, {joined_ms}, {int(fetch_ms)}, "
        f"{mebibytes / fetch_ms * 1000:.4f}, {count / fetch_ms * 1000:.4f}"
    )


def java_date(wall_ms: float, pattern: str) -> str:
    """Return a time (ms since the epoch) as local time, in a pattern of Java's SimpleDateFormat."""
    for java, python in _JAVA_DATE.items():
        pattern = pattern.replace(java, python)
    moment = datetime.fromtimestamp(wall_ms / 1000.0)
    return moment.strftime(pattern).replace("SSS", f"{moment.microsecond // 1000:03d}")


def metric_lines(kind: str, client_id: str, values: Mapping[str, float]) -> list[str]:
    """Return the lines of --print-metrics; `kind` is a key of MEASURES."""
    rows = sorted(
        (f"{one.group}-metrics:{one.name}:{{client-id={client_id}}}", values[one.name])
        for one in MEASURES[kind]
    )
    width = max(len(name) for name, _ in rows)
    shown = (
        f"{name:<{width}} : {'NaN' if isnan(value) else f'{value:.3f}'}" for name, value in rows
    )
    return ["", f"{'Metric Name':<{width}}   Value", *shown]
