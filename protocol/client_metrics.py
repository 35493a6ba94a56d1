"""The settings of a subscription to the metrics of clients (KIP-714).

A subscription is a configured resource of type CLIENT_METRICS. The controller checks the settings
before it writes them, and brokers use them to select clients.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from ..runtime import config
from ..runtime.config import check_keys, config_table, from_mapping
from ..runtime.errors import ConfigError
from .patterns import compiled

ALL_METRICS: Final = "*"
"""The text that stands for every metric, in a subscription and in the response to a client."""
INTERVAL_MS: Final = 300_000
"""The default interval in ms between two pushes of a client. A client that is asked for no metrics
repeats its request after the same interval."""
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The attributes of a client that `match` can compare with a pattern."""

setting = partial(config.setting, dynamic=True)


@config_table
class ClientMetricsConfig:
    """The settings of one subscription to the metrics of clients."""

    interval_ms: int = setting(
        "interval.ms",
        INTERVAL_MS,
        at_least=100,
        at_most=3_600_000,
        doc="How often a client pushes; of several subscriptions the shortest interval counts.",
    )
    metrics: tuple[str, ...] = setting(
        "metrics",
        (),
        doc="Prefixes of the names of metrics, as org.apache.kafka.producer.; * is every metric.",
    )
    match: tuple[str, ...] = setting(
        "match",
        (),
        doc="SELECTOR=REGEX,... that must all fit a client; where unset, every client fits."
        f" Selectors: {', '.join(SELECTORS)}.",
    )

    def check(self) -> None:
        """Raise ConfigError if `match` has an unknown selector or a malformed expression."""
        for _ in self.patterns():
            pass

    def patterns(self) -> Iterator[tuple[str, Any]]:
        """Yield each selector with its compiled expression; raise ConfigError if one is wrong."""
        for item in self.match:
            selector, equals, expression = (part.strip() for part in item.partition("="))
            if not equals or selector not in SELECTORS:
                why = f"must be SELECTOR=REGEX, with one of {', '.join(SELECTORS)}"
                raise ConfigError("match", item, why)
            try:
                yield selector, compiled(expression)
            except ValueError as error:
                raise ConfigError("match", item, f"is no regular expression: {error}") from error


def read_subscription(settings: Mapping[str, str]) -> ClientMetricsConfig:
    """Check the settings of a subscription and return them; raise ConfigError if one is wrong."""
    check_keys(settings, ClientMetricsConfig, known_unused={})
    return from_mapping(ClientMetricsConfig, settings)
