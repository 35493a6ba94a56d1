"""The measurements of a producer, under the names of Kafka's producers.

Pure; counted per request and per batch, never per record.
"""

from ..metrics import Stat
from .accumulator import Accumulator, Parcel


class ProducerMetrics:
    """The metrics of one producer since it was made."""

    def __init__(self, now_ms: int) -> None:
        self.sent = Stat(now_ms)
        """Records per batch sent; retries are counted again, as in Kafka."""
        self.failed = Stat(now_ms)
        """Records per batch that failed."""
        self.retried = Stat(now_ms)
        """Records per batch that must be sent again."""
        self._requests = Stat(now_ms)
        self._latency = Stat(now_ms)
        self._batch_size = Stat(now_ms)
        self._record_size = Stat(now_ms)
        self._compression = Stat(now_ms)
        self._queued = Stat(now_ms)

    def on_sent(self, parcel: Parcel, now_ms: int) -> None:
        """Count a request and its batches when it is sent."""
        request_bytes = 0
        for _, batch in parcel.batches:
            size = len(batch.encode())
            request_bytes += size
            self.sent.record(batch.record_count, now_ms)
            self._batch_size.record(size, now_ms)
            self._record_size.record(batch.size / batch.record_count, now_ms)
            self._compression.record(size / batch.size, now_ms)
            self._queued.record(now_ms - batch.created_ms, now_ms)
        self._requests.record(request_bytes, now_ms)

    def on_answered(self, latency_ms: float, now_ms: int) -> None:
        """Count a request that was answered, or that is known to be lost."""
        self._latency.record(latency_ms, now_ms)

    def read(self, accumulator: Accumulator, now_ms: int) -> dict[str, float]:
        """Return all metrics by Kafka's names; averages and maxima without a value are NaN."""
        sent, requests = self.sent, self._requests
        limit = accumulator.buffer_memory
        return {
            **sent.sums("record-send", now_ms),
            **self.failed.sums("record-error", now_ms),
            **self.retried.sums("record-retry", now_ms),
            **self._record_size.spread("record-size", now_ms),
            **self._queued.spread("record-queue-time", now_ms),
            "records-per-request-avg": _ratio(sent.rate(now_ms), requests.per_second(now_ms)),
            **self._batch_size.spread("batch-size", now_ms),
            "compression-rate-avg": self._compression.average(now_ms),
            **requests.counts("request", now_ms),
            **requests.spread("request-size", now_ms),
            **requests.sums("outgoing-byte", now_ms),
            **self._latency.spread("request-latency", now_ms),
            "requests-in-flight": float(requests.count - self._latency.count),
            "buffer-total-bytes": float(limit),
            "buffer-available-bytes": float(max(limit - accumulator.used_bytes, 0)),
        }


def _ratio(dividend: float, divisor: float) -> float:
    return dividend / divisor if divisor else float("nan")
