"""The measurements of a producer, under the names of Kafka's producers.

Pure; counted per request and per batch, never per record.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..metrics import Clock, Stat, TimeSpent
from ..network_metrics import NetworkMetrics
from .accumulator import Accumulator, Parcel

BUFFER_WAIT: Final = "bufferpool-wait"
FLUSH: Final = "flush"
TXN_INIT: Final = "txn-init"
TXN_BEGIN: Final = "txn-begin"
TXN_SEND_OFFSETS: Final = "txn-send-offsets"
TXN_COMMIT: Final = "txn-commit"
TXN_ABORT: Final = "txn-abort"
CALLS: Final = (
    BUFFER_WAIT,
    FLUSH,
    TXN_INIT,
    TXN_BEGIN,
    TXN_SEND_OFFSETS,
    TXN_COMMIT,
    TXN_ABORT,
)
"""The kinds of calls whose total time is measured."""


class ProducerMetrics:
    """The metrics of one producer since it was made."""

    def __init__(self, clock: Clock) -> None:
        now_ms = clock.monotonic_ms()
        self.network = NetworkMetrics(clock.monotonic_ms)
        self.spent = TimeSpent(clock.monotonic_us, CALLS)
        self.waiting_count = 0
        """The number of calls that wait for room in buffer_memory now."""
        self.exhausted_count = 0
        """The number of calls that raised BufferFull."""
        self.throttled = Stat(now_ms)
        """The throttle time in ms that each answer states."""
        self.sent = Stat(now_ms)
        """Records per batch sent; retries are counted again, as in Kafka."""
        self.failed = Stat(now_ms)
        """Records per batch that failed."""
        self.retried = Stat(now_ms)
        """Records per batch that must be sent again."""
        self._requests = Stat(now_ms)
        """Records per Produce request that was sent."""
        self._latency = Stat(now_ms)
        self._batch_size = Stat(now_ms)
        self._record_size = Stat(now_ms)
        self._compression = Stat(now_ms)
        self._queued = Stat(now_ms)

    def on_sent(self, parcel: Parcel, now_ms: int) -> None:
        """Count a request and its batches when it is sent."""
        record_count = 0
        for _, batch in parcel.batches:
            size = len(batch.encode())
            record_count += batch.record_count
            self.sent.record(batch.record_count, now_ms)
            self._batch_size.record(size, now_ms)
            self._record_size.record(batch.size / batch.record_count, now_ms)
            self._compression.record(size / batch.size, now_ms)
            self._queued.record(now_ms - batch.created_ms, now_ms)
        self._requests.record(record_count, now_ms)

    def on_answered(self, latency_ms: float, now_ms: int) -> None:
        """Record the latency of a request when it is answered or known to be lost."""
        self._latency.record(latency_ms, now_ms)

    @contextmanager
    def waiting_for_room(self) -> Iterator[None]:
        """Count the calls inside the `with` block as waiting for room, and add up their time."""
        self.waiting_count += 1
        try:
            with self.spent.counted(BUFFER_WAIT):
                yield
        finally:
            self.waiting_count -= 1

    def read(self, accumulator: Accumulator, now_ms: int) -> dict[str, float]:
        """Return all metrics by Kafka's names; averages and maxima without a value are NaN."""
        limit = accumulator.buffer_memory
        return {
            **self.network.read(),
            **self.sent.sums("record-send", now_ms),
            **self.failed.sums("record-error", now_ms),
            **self.retried.sums("record-retry", now_ms),
            **self._record_size.spread("record-size", now_ms),
            **self._queued.spread("record-queue-time", now_ms),
            "records-per-request-avg": self._requests.average(now_ms),
            **self._batch_size.spread("batch-size", now_ms),
            "compression-rate-avg": self._compression.average(now_ms),
            **self._latency.spread("request-latency", now_ms),
            **self.throttled.spread("produce-throttle-time", now_ms),
            "buffer-total-bytes": float(limit),
            "buffer-available-bytes": float(max(limit - accumulator.used_bytes, 0)),
            "buffer-exhausted-total": float(self.exhausted_count),
            "waiting-threads": float(self.waiting_count),
            **self.spent.read(),
        }
