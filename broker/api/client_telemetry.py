"""GetTelemetrySubscriptions and PushTelemetry: clients push their metrics (KIP-714).

A broker that serves no metrics does not have these APIs, and its clients push nothing.
"""

from typing import Final

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ...protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ...protocol.types import uuid_to_text
from ..net.answer import Call
from ..telemetry.clients import CODECS, ClientTelemetry

NEW: Final = bytes(16)
"""The instance id in the request of a client that has no id yet."""
TO_BE_SAID: Final = (
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TELEMETRY_TOO_LARGE,
)
"""Errors that need somebody's attention, because the client cannot repair them; they are logged."""


def get_telemetry_subscriptions(
    call: Call, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Answer with the client's subscription, and with a new instance id if it has none."""
    telemetry, runtime = _telemetry(call), call.edge.runtime
    instance_id = request.client_instance_id
    if instance_id == NEW:
        instance_id = runtime.rng.randbytes(16)
    try:
        asked = telemetry.ask(instance_id, _client(call, instance_id), runtime.monotonic_ms())
    except ApiError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=asked.subscription_id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=asked.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=False,
        requested_metrics=list(asked.metrics),
    )


def push_telemetry(call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Show the pushed metrics, or answer with the error why they are refused."""
    client = _client(call, request.client_instance_id)
    try:
        _telemetry(call).push(request, client, call.edge.runtime.monotonic_ms())
    except ApiError as error:
        if error.code in TO_BE_SAID:
            text = "metrics that client %.99r pushed from %s are not taken: %s"
            peer, now_ms = call.connection.peer, call.edge.runtime.monotonic_ms()
            call.edge.refusals.seldom(now_ms, text, call.client_id, peer, error)
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()


def _telemetry(call: Call) -> ClientTelemetry:
    telemetry = call.edge.telemetry
    assert telemetry is not None, "the APIs are served only where there is telemetry"
    return telemetry


def _client(call: Call, instance_id: bytes) -> dict[str, str]:
    """Return the client's known attributes, by the names of `protocol.client_metrics.SELECTORS`."""
    connection = call.connection
    name, version = connection.session.software
    told = {
        "client_id": call.client_id,
        "client_instance_id": uuid_to_text(instance_id),
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": connection.host,
        "client_source_port": connection.peer.rpartition(":")[2],
    }
    return {selector: text for selector, text in told.items() if text is not None}
