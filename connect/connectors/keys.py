"""Short forms of ConfigKey by type, and the keys that several connectors have."""

from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo

from ..config_def import INT32_MAX, NO_DEFAULT, ConfigKey, ConfigType, Importance

Check = Callable[[Any], str | None]


def text(name: str, doc: str, default: Any = NO_DEFAULT, check: Check | None = None) -> ConfigKey:
    """Return a key for a text; it matters most if it has no default."""
    importance = Importance.HIGH if default is NO_DEFAULT else Importance.MEDIUM
    return ConfigKey(name, ConfigType.STRING, doc, default, importance, check=check)


def choice(name: str, doc: str, choices: tuple[str, ...]) -> ConfigKey:
    """Return a key for one of these texts, the first by default."""
    return ConfigKey(name, ConfigType.STRING, doc, choices[0], choices=choices)


def whole(name: str, doc: str, default: int, least: int = 0, most: int = INT32_MAX) -> ConfigKey:
    """Return a key for a whole number from `least` to `most`."""
    kind = ConfigType.INT if most <= INT32_MAX else ConfigType.LONG
    return ConfigKey(name, kind, doc, default, Importance.LOW, (), least, most)


def flag(name: str, doc: str, default: bool) -> ConfigKey:
    """Return a key for true or false."""
    return ConfigKey(name, ConfigType.BOOLEAN, doc, default)


def secret(name: str, doc: str) -> ConfigKey:
    """Return a key for a text that is never shown; None by default."""
    return ConfigKey(name, ConfigType.PASSWORD, doc, None)


def listed(name: str, doc: str, check: Check | None = None) -> ConfigKey:
    """Return a key for a list of texts, empty by default."""
    return ConfigKey(name, ConfigType.LIST, doc, [], check=check)


def wrong_zone(name: str) -> str | None:
    """Return what is wrong with the name of a time zone, or None."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return "must be a name of the time zone database, such as Europe/Berlin"
    return None


TOPIC: Final = text(
    "topic",
    "The topic that records are written to.",
    check=lambda topic: None if topic else "must name a topic",
)
BATCH_SIZE: Final = whole("batch.size", "Records handed over at once, at most.", 2000, 1, 1_000_000)
LINE_MAX_BYTES: Final = whole(
    "line.max.bytes",
    "Bytes of a line, at most; a longer one fails the task, which names its place.",
    1 << 20,
    1,
    1 << 28,
)
VALUES: Final = choice(
    "values",
    "Whether a line becomes a string, in which U+FFFD stands for bytes that are no UTF-8, or its "
    "bytes as they are, for ByteArrayConverter.",
    ("string", "bytes"),
)
