"""Metrics of connections and of the memory that they hold."""

from collections import Counter
from collections.abc import Iterator

from ...runtime.metrics import Family, counter, gauge, labels
from ..edge import Edge
from ..net.connection import Connection


class ConnectionMetrics:
    """Collects the metrics of connections, and of the memory that `Load` counts."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        doors, load = self._edge.doors, self._edge.load
        guests = (each for each in doors.connections if isinstance(each, Connection))
        listeners = Counter(each.listener.name for each in guests)
        yield gauge(
            "kafka_server_socket_server_metrics_connection_count",
            "Open connections, by listener.",
            [
                (labels(listener=name, networkProcessor=0), count)
                for name, count in sorted(listeners.items())
            ],
        )
        yield from self._proofs()
        yield counter(
            "minikafka_connections_admitted",
            "Connections that were accepted.",
            [("", doors.admitted)],
        )
        yield counter(
            "minikafka_connections_refused",
            "Connections refused because there were too many, or because they came too fast.",
            [("", doors.refused)],
        )
        yield gauge(
            "minikafka_connections_waiting",
            "New connections that wait, because they came too fast, to be served or closed.",
            self._edge.entrance.held,
        )
        yield gauge(
            "minikafka_memory_bytes",
            "Memory that connections use, by purpose.",
            [
                (labels(holds="requests"), load.request_bytes),
                (labels(holds="responses"), load.response_bytes),
            ],
        )
        yield gauge(
            "minikafka_memory_limit_bytes",
            "Limit of the memory that connections may use, by purpose.",
            [
                (labels(holds="requests"), load.caps.requests),
                (labels(holds="responses"), load.caps.responses),
            ],
        )
        yield gauge(
            "minikafka_memory_waiting_connections",
            "Connections whose request is not read until there is memory for it.",
            load.waiting_count,
        )

    def _proofs(self) -> Iterator[Family]:
        doors = self._edge.doors
        for name, doc, counts in (
            (
                "failed_authentication",
                "Connections on which a TLS handshake or a login failed, by listener.",
                doors.unproved,
            ),
            (
                "successful_authentication",
                "Connections on which a TLS handshake or a login succeeded, by listener.",
                doors.proved,
            ),
            (
                "successful_reauthentication",
                "Logins that succeeded on connections that were logged in, by listener.",
                doors.proved_again,
            ),
        ):
            yield counter(
                f"kafka_server_socket_server_metrics_{name}",
                doc,
                [
                    (labels(listener=listener, networkProcessor=0), count)
                    for listener, count in sorted(counts.items())
                ],
            )
