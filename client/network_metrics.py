"""The metrics of a client's connections, under the names of Kafka's clients.

Pure: the clock is injected. The work is per connection, request and answer, never per record.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .metrics import Stat


@dataclass(slots=True)
class _Broker:
    """The counts of one broker's address, kept while connections to it are open."""

    latency: Stat
    connection_count: int = 0


class NetworkMetrics:
    """Counts the connections, requests and answers of one client since it was made."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        """`clock_ms` returns a monotonic time in ms."""
        self._clock_ms = clock_ms
        now_ms = clock_ms()
        self._opened = Stat(now_ms)
        self._closed = Stat(now_ms)
        self._requests = Stat(now_ms)
        """Bytes of each request."""
        self._responses = Stat(now_ms)
        """Bytes of each answer."""
        self._brokers: dict[str, _Broker] = {}
        """The counts of brokers with open connections, by address."""

    # -- what connections tell: `Traffic`

    def on_opened(self, address: str) -> None:
        """Count a connection that was made."""
        now_ms = self._clock_ms()
        self._opened.record(1, now_ms)
        broker = self._brokers.get(address)
        if broker is None:
            broker = self._brokers[address] = _Broker(Stat(now_ms))
        broker.connection_count += 1

    def on_closed(self, address: str) -> None:
        """Count the end of a connection; after a broker's last connection, forget its latency."""
        self._closed.record(1, self._clock_ms())
        broker = self._brokers[address]
        broker.connection_count -= 1
        if not broker.connection_count:
            del self._brokers[address]

    def on_sent(self, size: int) -> None:
        """Count a request and its bytes."""
        self._requests.record(size, self._clock_ms())

    def on_answered(self, address: str, size: int, sent_ms: int) -> None:
        """Count an answer, its bytes, and the ms since its request."""
        now_ms = self._clock_ms()
        self._responses.record(size, now_ms)
        broker = self._brokers.get(address)
        if broker is not None:
            broker.latency.record(now_ms - sent_ms, now_ms)

    # -- reading

    def read(self) -> dict[str, float]:
        """Return the metrics by Kafka's names."""
        now_ms = self._clock_ms()
        requests, responses = self._requests, self._responses
        network_io = requests.per_second(now_ms) + responses.per_second(now_ms)
        return {
            **self._opened.counts("connection-creation", now_ms),
            **self._closed.counts("connection-close", now_ms),
            "connection-count": float(self._opened.count - self._closed.count),
            **requests.counts("request", now_ms),
            **requests.spread("request-size", now_ms),
            **requests.sums("outgoing-byte", now_ms),
            **responses.counts("response", now_ms),
            **responses.sums("incoming-byte", now_ms),
            "network-io-total": float(requests.count + responses.count),
            "network-io-rate": network_io,
        }

    def latencies(self) -> dict[str, dict[str, float]]:
        """Return the recent average and maximum latency in ms of each broker, by its address."""
        now_ms = self._clock_ms()
        return {
            address: broker.latency.spread("request-latency", now_ms)
            for address, broker in self._brokers.items()
        }
