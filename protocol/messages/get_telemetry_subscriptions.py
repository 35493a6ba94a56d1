"""GetTelemetrySubscriptions: the metrics that a client is asked to push (KIP-714)."""

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, Uuid, field, request, response


@request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """Ask for the subscription of one instance of a client."""

    client_instance_id: Uuid
    """The id that the broker gave to the client; all zeros in the first request."""


@response(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
class GetTelemetrySubscriptionsResponse:
    """The subscription of the client, and how to push its metrics."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    client_instance_id: Uuid = field(default=bytes(16))
    """The id of the client's instance, which the client uses as long as it runs."""
    subscription_id: Int32 = field(default=0)
    """The id of the subscription, which every push repeats; a changed subscription has another id.
    """
    accepted_compression_types: list[Int8] = field(default=[])
    """The codecs (`compression.Codec`) in which metrics may be pushed, the preferred one first."""
    push_interval_ms: Int32 = field(default=0)
    telemetry_max_bytes: Int32 = field(default=0)
    """The most bytes of compressed metrics in one push."""
    delta_temporality: Bool = field(default=False)
    """True if a pushed counter is to have only the increase since the last push."""
    requested_metrics: list[String] = field(default=[])
    """Prefixes of the names of the metrics to push. Without prefixes nothing is pushed; the single
    prefix `*` stands for all metrics."""
