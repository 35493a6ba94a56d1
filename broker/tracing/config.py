"""Settings and bounds of trace points."""

from typing import Final

from ...runtime.config import INT32_MAX, config_table, setting
from ...runtime.errors import ConfigError

EVERY: Final = "minikafka.trace.every"
"""The key that turns tracing on."""
PENDING_MAX: Final = 64
"""The most batches of a partition that are watched at a time; the oldest one gives way."""
WATCHED_MS: Final = 30_000
"""Milliseconds for which a batch is watched."""
SAMPLED_MAX: Final = 200
"""The most batches a second that a broker traces because of their offsets. Each costs some 10 us,
so that all of them take a hundredth of a core at most."""
CLIENTS_MAX: Final = 8
"""The most clients that are told of as having fetched one batch."""


@config_table
class TraceConfig:
    """The settings of trace points, the same for all brokers."""

    every: int = setting(
        EVERY,
        0,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="Write down the times of each batch with an offset divisible by this power of two, "
        "for minikafka trace; 0: of none, 1: of all.",
    )
    headers: bool = setting(
        "minikafka.trace.headers",
        False,
        dynamic=True,
        doc="While minikafka.trace.every is on, also write down the times of batches whose first "
        "record has a traceparent with the flag sampled.",
    )
    rate: int = setting(
        "minikafka.trace.rate",
        100,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="The most batches a second that a broker traces because of that header.",
    )

    def check(self) -> None:
        """Raise ConfigError if `every` is no power of two."""
        if self.every & (self.every - 1):
            below = 1 << (self.every.bit_length() - 1)
            why = f"is no power of two, such as {below} or {2 * below}"
            raise ConfigError(EVERY, self.every, why)
