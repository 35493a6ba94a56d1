"""Metrics of clients that are over their quota."""

from collections.abc import Callable, Iterator
from typing import Final

from ...runtime.metrics import Family, counter, gauge, labels
from ...security.quotas import FETCH, PRODUCE, REQUEST, Kind, Quotas

NAMES: Final[tuple[tuple[Kind, str, str], ...]] = (
    (PRODUCE, "produce", "bytes produced"),
    (FETCH, "fetch", "bytes fetched"),
    (REQUEST, "request", "time of requests"),
)
SHOWN_MAX: Final = 100
"""The most clients that get a line for one quota. Clients choose their ids, so there may be
many."""


class QuotaMetrics:
    """Collects the metrics of quotas."""

    def __init__(self, quotas: Quotas, now_ms: Callable[[], int]) -> None:
        self._quotas = quotas
        self._now_ms = now_ms

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        waiting = list(self._quotas.in_debt(self._now_ms()))
        for kind, name, what in NAMES:
            clients = [(owner, ms) for owner, ms in waiting if owner.key == kind.key][:SHOWN_MAX]
            yield gauge(
                f"kafka_server_{name}_throttle_time",
                f"Milliseconds until a client is no longer over its quota of {what}; at most "
                f"{SHOWN_MAX} clients.",
                [
                    (labels(user=owner.user or "", client_id=owner.client_id or ""), wait_ms)
                    for owner, wait_ms in clients
                ],
            )
        yield counter(
            "minikafka_quota_throttles",
            "How often a connection was not read for a while because of a quota.",
            [(labels(quota=key), times) for key, times in self._quotas.throttled.items()],
        )
