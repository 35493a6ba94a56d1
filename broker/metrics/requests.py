"""Requests by API: how many, how large, which errors, how long they took, and how many wait."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ...protocol.errors import ErrorCode
from ...runtime.metrics import Family, Kind, counter, gauge, labels, summary
from ..api.fetch import ParkedFetch
from ..api.produce_answer import ProduceAnswer
from ..api.produce_repeat import RepeatedProduce
from ..api.produce_transactional import TransactionalProduce
from ..edge import Edge
from ..net.answer import Answer
from ..net.connection import Connection
from ..net.timing import RequestTimes

_OF_REQUESTS: Final = "kafka_network_requestmetrics_"
_OPERATIONS: Final[dict[type[Answer], str]] = {
    ProduceAnswer: "Produce",
    RepeatedProduce: "Produce",
    TransactionalProduce: "Produce",
    ParkedFetch: "Fetch",
}


class RequestMetrics:
    """Collects the metrics of requests."""

    def __init__(self, edge: Edge, times: RequestTimes) -> None:
        self._edge = edge
        self._times = times

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape, with rows for each request that was ever sent."""
        now_ms = self._edge.runtime.monotonic_ms()
        self._times.due_ms = 0
        counts = self._counts()
        yield counter(
            _OF_REQUESTS + "requests",
            "Requests that were handled.",
            [
                (labels(request=name, version=version), count)
                for (name, version), (count, _) in counts.items()
            ],
        )
        yield counter(
            _OF_REQUESTS + "errors",
            "Error codes in responses; a response about several partitions may have several.",
            [
                (labels(request=name, error=ErrorCode(code).name), count)
                for (name, code), count in self._times.errors.items()
            ],
        )
        sizes: dict[str, list[int]] = {}
        for (name, _), (count, byte_count) in counts.items():
            known = sizes.setdefault(name, [0, 0])
            known[0] += count
            known[1] += byte_count
        yield Family(
            _OF_REQUESTS + "requestbytes",
            Kind.SUMMARY,
            "Bytes of requests, as count and sum without quantiles.",
            [
                (f"_{part}{labels(request=name)}", value)
                for name, both in sizes.items()
                for part, value in zip(("count", "sum"), both, strict=True)
            ],
        )
        timed = [(labels(request=name), each) for name, each in self._times.timed.items()]
        yield summary(
            _OF_REQUESTS + "totaltimems",
            "Milliseconds from reading a request to sending its response, of a sample of requests.",
            [(tail, each.total) for tail, each in timed],
            now_ms,
        )
        yield summary(
            _OF_REQUESTS + "remotetimems",
            "Milliseconds of that time that a request waited, for those that did.",
            [(tail, each.remote) for tail, each in timed if each.remote.count],
            now_ms,
        )
        yield from self._waiting()

    def _counts(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the number of requests and their bytes, by name and version."""
        counts = {kind: (each.count, each.byte_count) for kind, each in self._times.gone.items()}
        for connection in self._connections():
            if connection.meter is not None:
                for kind, count, byte_count in connection.meter.counts(connection):
                    before, bytes_before = counts.get(kind, (0, 0))
                    counts[kind] = (before + count, bytes_before + byte_count)
        return counts

    def _connections(self) -> list[Connection]:
        guests = self._edge.doors.connections
        return [each for each in guests if isinstance(each, Connection)]

    def _waiting(self) -> Iterator[Family]:
        waiting = Counter(
            _OPERATIONS.get(type(answer), "Other")
            for each in self._connections()
            for answer in each.waiting
        )
        yield gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait: Produce for followers, Fetch for data, others for a coordinator.",
            [
                (labels(delayedOperation=operation), waiting[operation])
                for operation in ("Produce", "Fetch", "Other")
            ],
        )
