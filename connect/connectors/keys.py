"""Keys that several connectors have."""

from typing import Final

from ..config_def import ConfigKey, ConfigType, Importance, Width

TOPIC: Final = ConfigKey(
    "topic",
    ConfigType.STRING,
    "The topic that records are written to.",
    importance=Importance.HIGH,
    check=lambda topic: None if topic else "must name a topic",
    width=Width.MEDIUM,
)
BATCH_SIZE: Final = ConfigKey(
    "batch.size",
    ConfigType.INT,
    "Records that are handed over at once, at most.",
    2000,
    importance=Importance.LOW,
    at_least=1,
    at_most=1_000_000,
)
LINE_MAX_BYTES: Final = ConfigKey(
    "line.max.bytes",
    ConfigType.INT,
    "Bytes of a line, at most; a longer one fails the task, which names its place.",
    1 << 20,
    importance=Importance.LOW,
    at_least=1,
    at_most=1 << 28,
)
VALUES: Final = ConfigKey(
    "values",
    ConfigType.STRING,
    "Whether a line becomes a string, in which U+FFFD stands for bytes that are no UTF-8, or its "
    "bytes as they are, for ByteArrayConverter.",
    "string",
    importance=Importance.LOW,
    choices=("string", "bytes"),
)
