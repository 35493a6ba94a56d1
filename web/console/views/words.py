"""Writes numbers, sizes and times for people, and makes texts safe to show. Pure.

A dash stands for an unknown value.
"""

import re
from datetime import UTC, datetime
from typing import Final

from ....client import quantities

UNKNOWN: Final = "\u2013"
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Control characters, characters that change the direction of text, and lone surrogates."""


def number(value: int | None) -> str:
    """Write a number with thin spaces between the thousands: 12 345 678."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def size(value: int | None) -> str:
    """Write a number of bytes with a unit: 1.5 MiB."""
    return UNKNOWN if value is None else quantities.size(value)


def duration(ms: int | None) -> str:
    """Write a time span: 250 ms, 4.2 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    return UNKNOWN if ms is None else quantities.duration(ms)


def moment(ms: int | None) -> str:
    """Write ms since the epoch as UTC: 2026-01-31 10:00:00.000."""
    if ms is None or ms < 0:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return str(ms)


def clock(ms: int) -> str:
    """Write ms since the epoch as a time of day, UTC: 10:00:00."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S")


def plural(count: int, noun: str, several: str = "") -> str:
    """Write a count with its noun: 1 topic, 2 topics."""
    return f"{number(count)} {noun if count == 1 else several or noun + 's'}"


def listed(names: object, most: int = 5) -> str:
    """Join the first few names with commas, and say how many more there are."""
    every = [str(each) for each in names] if isinstance(names, list | tuple) else [str(names)]
    rest = len(every) - most
    return ", ".join(every[:most]) + (f" and {rest} more" if rest > 0 else "")


def visible(text: str) -> str:
    """Replace invisible characters and those that change the direction of text.

    Tabs and line ends are kept. Escaping for HTML is left to the templates.
    """
    return text if text.isprintable() else _INVISIBLE.sub(_symbol, text)


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    # Unicode has pictures of the first 32 control characters.
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"
