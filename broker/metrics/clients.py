"""Metrics that clients have pushed, and counts of these pushes."""

from collections.abc import Callable, Iterator

from ...runtime.metrics import Family, counter, gauge
from ..telemetry.clients import ClientTelemetry

NAME = "kafka_server_client_metrics_"


class ClientMetrics:
    """Yields, at a scrape, metrics that clients have pushed (KIP-714), and counts of pushes."""

    def __init__(self, telemetry: ClientTelemetry, now_ms: Callable[[], int]) -> None:
        self._telemetry = telemetry
        self._now_ms = now_ms

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape; forget clients that were silent for too long."""
        telemetry = self._telemetry
        telemetry.expire(self._now_ms())
        yield gauge(
            NAME + "instance_count",
            "Clients that have asked for their subscription and are not silent.",
            len(telemetry),
        )
        for name, help_text, count in (
            ("plugin_export", "Pushes of clients that were accepted.", telemetry.taken),
            (
                "plugin_error",
                "Pushes that were no valid OTLP, or too large when decompressed.",
                telemetry.unreadable,
            ),
            (
                "unknown_subscription_request",
                "Pushes with a subscription id that is not the client's.",
                telemetry.unknown,
            ),
            (
                "throttle",
                "Requests of clients that came before their interval was over.",
                telemetry.throttled,
            ),
        ):
            yield counter(NAME + name, help_text, [("", count)])
        yield counter(
            "minikafka_client_metrics_cut",
            "Pushes of which some samples are not shown, such as those beyond a bound.",
            [("", telemetry.cut)],
        )
        yield from telemetry.readings.families()
