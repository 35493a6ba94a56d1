"""Encodes the metrics that a client pushes: KIP-714's names, in OpenTelemetry's format.

Pure. Totals are pushed whole, or as the increase since the last push that a broker accepted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Final

from ...protocol.otlp_writer import metric, metrics_data, number_point
from ...runtime.version import VERSION
from ..measures import MEASURES
from .pushing import Subscription

PREFIX: Final = "org.apache.kafka."
SCOPE: Final = ("minikafka", VERSION)
GROUPS: Final = {"producer": "producer", "consumer": "consumer", "admin": "admin.client"}
"""The first part of the metric names of each kind of client."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The metrics of a client at one moment."""

    now_ns: int
    """The time in ns since the epoch."""
    values: Mapping[str, float]
    """The values by name, as `metrics()` returns them."""
    latencies: Mapping[int, Mapping[str, float]]
    """The latency metrics of the requests to each broker, by broker id."""
    labels: Mapping[str, str]
    """The attributes of the client itself."""


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    unit: str
    value: float
    is_total: bool = False
    attributes: tuple[tuple[str, str], ...] = ()


class Payloads:
    """Makes the payloads of one client."""

    def __init__(self, kind: str, begun_ns: int) -> None:
        """`kind` is a key of MEASURES; the client was made at `begun_ns`, in ns since the epoch."""
        self._kind = kind
        self._begun_ns = begun_ns
        self._taken: dict[str, float] = {}
        """The totals in the last push that a broker accepted."""
        self._taken_ns = begun_ns
        self._made: dict[str, float] = {}
        self._made_ns = begun_ns

    def make(self, reading: Reading, subscription: Subscription) -> bytes:
        """Encode the metrics that the subscription wants, until `max_bytes` are reached.

        The limit is applied before compression, because brokers check it after decompression too.
        """
        self._made, self._made_ns = {}, reading.now_ns
        room = subscription.max_bytes - len(metrics_data(reading.labels, SCOPE, b"")) - 16
        written = bytearray()
        for sample in self._samples(reading):
            if isnan(sample.value) or not subscription.wants(sample.name):
                continue
            data = self._encoded(sample, subscription, reading.now_ns)
            if len(written) + len(data) > room:
                break
            written += data
            if sample.is_total:
                self._made[sample.name] = sample.value
        return metrics_data(reading.labels, SCOPE, bytes(written))

    def on_taken(self) -> None:
        """Take the newest payload, which a broker accepted, as the base of the next increases."""
        self._taken |= self._made
        self._taken_ns = self._made_ns

    def _encoded(self, sample: _Sample, subscription: Subscription, now_ns: int) -> bytes:
        is_delta = sample.is_total and subscription.is_delta
        before = self._taken.get(sample.name, 0.0) if is_delta else 0.0
        start_ns = self._taken_ns if is_delta else self._begun_ns
        point = number_point(sample.value - before, start_ns, now_ns, sample.attributes)
        return metric(sample.name, sample.unit, point, is_total=sample.is_total, is_delta=is_delta)

    def _samples(self, reading: Reading) -> Iterator[_Sample]:
        for measure in MEASURES[self._kind]:
            name = f"{PREFIX}{measure.group}.{measure.name}".replace("-", ".")
            yield _Sample(name, measure.unit, reading.values[measure.name], measure.is_total)
        for node_id, metrics in reading.latencies.items():
            node = (("node_id", str(node_id)),)
            for name, value in metrics.items():
                full = f"{PREFIX}{GROUPS[self._kind]}.node.{name}".replace("-", ".")
                yield _Sample(full, "ms", value, attributes=node)
