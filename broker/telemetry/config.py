"""Settings and bounds of the metrics that clients push to a broker."""

from typing import Final

from ...runtime.config import MiB, config_table, setting

CLIENTS_MAX: Final = 16_384
"""The most instances that are remembered, as in Kafka. If there are more, the instance silent for
longest is forgotten. If that instance comes back, it counts as new, and its first request is not
throttled."""
SAMPLES_PER_CLIENT_MAX: Final = 1_000
"""The most samples of one client that are shown. Reading so many takes about 10 ms."""
SHOWN_LENGTH_MAX: Final = 8 * MiB
"""The most characters of names and labels that are shown for all clients together: about 60,000
lines."""
FIELDS_MAX: Final = 30_000
"""The most protobuf fields that are read of one push. One sample has about 15 fields."""
SILENT_MS: Final = 60_000
"""The fewest milliseconds for which a silent client is remembered. The last metrics of a client
that has ended are shown for as long."""
INTERVALS_SILENT: Final = 3
"""The number of push intervals for which a silent client is remembered, if that is longer than
SILENT_MS."""


@config_table
class TelemetryConfig:
    """The settings of the metrics that clients push."""

    max_bytes: int = setting(
        "telemetry.max.bytes",
        MiB,
        at_least=1,
        at_most=16 * MiB,
        doc="The most bytes that a client may push at once, compressed and not.",
    )
