"""Metrics of trace points: how many are written down, and how many are lost."""

from collections.abc import Iterator

from ...runtime.metrics import Family, counter
from ..tracing.tracer import Queue


class TraceMetrics:
    """Collects the metrics of this broker's trace points."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        yield counter(
            "minikafka_trace_recorded",
            "Parts of trace points that are written to their topic.",
            [("", self._queue.recorded)],
        )
        yield counter(
            "minikafka_trace_dropped",
            "Parts of trace points that are lost, because too many waited or they were refused,"
            " and each second in which more batches were sampled than are traced.",
            [("", self._queue.dropped)],
        )
