"""Matches clients with the subscriptions to their metrics (KIP-714).

A subscription fits a client if each of its expressions matches an attribute of the client. The
client is asked for the metrics of all subscriptions that fit, under one subscription id.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from ...protocol.client_metrics import ALL_METRICS, INTERVAL_MS, read_subscription
from ...protocol.control.image import ConfigResource
from ...protocol.control.records import CLIENT_METRICS
from ...runtime.errors import ConfigError

Client = Mapping[str, str]
"""The attributes of a client, by the names in `protocol.client_metrics.SELECTORS`. An attribute
that is not known is missing."""


class Asked(NamedTuple):
    """The metrics that a client is asked for, and how often."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    """Prefixes of the names of metrics; empty if the client is to push nothing."""


class Subscription(NamedTuple):
    """One subscription with compiled expressions."""

    interval_ms: int
    metrics: tuple[str, ...]
    patterns: tuple[tuple[str, Any], ...]
    """Each selector with its compiled expression."""

    def fits(self, client: Client) -> bool:
        """True if each expression matches a whole attribute of the client."""
        return all(
            selector in client and pattern.fullmatch(client[selector])
            for selector, pattern in self.patterns
        )


class Subscriptions:
    """All subscriptions in the cluster's metadata at one moment."""

    def __init__(self, configs: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        self.unread: list[str] = []
        """A line for each subscription that this broker cannot read, such as one with a key that
        only newer versions know."""
        self._all: list[Subscription] = []
        self._combined: dict[tuple[str, ...], tuple[str, ...]] = {}
        """The tuples of requested metrics, so that clients with the same metrics share one
        tuple."""
        for kind, name in sorted(each for each in configs if each[0] == CLIENT_METRICS):
            try:
                read = read_subscription(configs[kind, name])
                patterns = tuple(read.patterns())
            except ConfigError as error:
                self.unread.append(f"{name!r}: {error}")
            else:
                self._all.append(Subscription(read.interval_ms, read.metrics, patterns))

    def __bool__(self) -> bool:
        """Return True if there is a subscription."""
        return bool(self._all)

    def asked_of(self, instance_id: bytes, client: Client) -> Asked:
        """Return the metrics of all subscriptions that fit the client, at the shortest interval."""
        fitting = [each for each in self._all if each.fits(client)]
        prefixes = dict.fromkeys(prefix for each in fitting for prefix in each.metrics)
        metrics = (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(prefixes)
        metrics = self._combined.setdefault(metrics, metrics)
        interval_ms = min((each.interval_ms for each in fitting), default=INTERVAL_MS)
        return Asked(_id_of(instance_id, interval_ms, metrics), interval_ms, metrics)


NONE: Final = Subscriptions({})


def _id_of(instance_id: bytes, interval_ms: int, metrics: tuple[str, ...]) -> int:
    """Compute the subscription id from the metrics, the interval and the instance, as Kafka does.

    Every broker computes the same int32, so a client can continue to push to another broker.
    """
    number = crc32c(f"{','.join(metrics)} {interval_ms}".encode())
    for start in range(0, 16, 4):
        number ^= int.from_bytes(instance_id[start : start + 4])
    return number - (1 << 32) if number >> 31 else number
