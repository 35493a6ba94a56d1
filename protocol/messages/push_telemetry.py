"""PushTelemetry: a client sends its metrics to a broker (KIP-714)."""

from ..api import ApiKey
from ..schema import Bool, Bytes, Int8, Int16, Int32, Uuid, field, request, response


@request(ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+")
class PushTelemetryRequest:
    """Send the metrics that the client's subscription asks for."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    """True if this is the client's last push, because it closes."""
    compression_type: Int8
    """The codec of `metrics`, a `compression.Codec`."""
    metrics: Bytes
    """OpenTelemetry MetricsData v1 in protobuf, compressed."""


@response(ApiKey.PUSH_TELEMETRY)
class PushTelemetryResponse:
    """The result: the broker has accepted the metrics, or an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
