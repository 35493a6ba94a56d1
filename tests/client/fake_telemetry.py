"""The metrics that a fake cluster's nodes ask clients for, and those that they got (KIP-714)."""

from dataclasses import dataclass, field

import pytest

from minikafka.client.telemetry import pushing
from minikafka.protocol.api import ApiKey
from minikafka.protocol.compression import Codec, decompress
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from minikafka.protocol.otlp import Pushed, read_metrics

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

INSTANCE = bytes(range(1, 17))


@dataclass
class FakeTelemetry:
    """One subscription for all clients."""

    metrics: list[str] = field(default_factory=lambda: ["*"])
    interval_ms: int = 20
    subscription_id: int = 1
    is_delta: bool = False
    codecs: list[Codec] = field(default_factory=lambda: [Codec.ZSTD])
    ask_codes: list[ErrorCode] = field(default_factory=list)
    """The errors of the next questions."""
    asked: list[GetTelemetrySubscriptionsRequest] = field(default_factory=list)
    pushes: list[tuple[PushTelemetryRequest, Pushed]] = field(default_factory=list)

    def ask(
        self, node: FakeNode, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        self.asked.append(request)
        if self.ask_codes:
            return GetTelemetrySubscriptionsResponse(error_code=int(self.ask_codes.pop(0)))
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=INSTANCE,
            subscription_id=self.subscription_id,
            accepted_compression_types=[int(codec) for codec in self.codecs],
            push_interval_ms=self.interval_ms,
            telemetry_max_bytes=1 << 20,
            delta_temporality=self.is_delta,
            requested_metrics=self.metrics,
        )

    def push(self, node: FakeNode, request: PushTelemetryRequest) -> PushTelemetryResponse:
        if request.subscription_id != self.subscription_id:
            return PushTelemetryResponse(error_code=int(ErrorCode.UNKNOWN_SUBSCRIPTION_ID))
        data = decompress(Codec(request.compression_type), request.metrics, 1 << 20)
        pushed = read_metrics(data, samples_max=1_000, fields_max=30_000)
        self.pushes.append((request, pushed))
        return PushTelemetryResponse()


def install(monkeypatch: pytest.MonkeyPatch, nodes: int = 1) -> tuple[FakeCluster, FakeTelemetry]:
    """A cluster whose nodes take the metrics of clients, and what they take."""
    telemetry = FakeTelemetry()
    monkeypatch.setattr(pushing, "LEAST_INTERVAL_MS", 1)
    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, telemetry.ask)
    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.PUSH_TELEMETRY, telemetry.push)
    return FakeCluster(nodes), telemetry
