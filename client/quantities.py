"""Writes sizes and time spans for people. Pure."""

import math
from typing import Final

_KIB: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS: Final = (
    (86_400_000, "d", 3_600_000, "h"),
    (3_600_000, "h", 60_000, "min"),
    (60_000, "min", 1000, "s"),
)


def size(count: int) -> str:
    """Write a number of bytes with a unit: 1.5 MiB."""
    power = min(int(math.log(max(count, 1), _KIB)), len(_UNITS) - 1)
    return f"{count} B" if power == 0 else f"{count / _KIB**power:.1f} {_UNITS[power]}"


def duration(ms: int) -> str:
    """Write a time span: 250 ms, 4.2 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if ms < 1000:
        return f"{ms} ms"
    for length, unit, inner_length, inner in _SPANS:
        if ms >= length:
            rest = ms % length // inner_length
            return f"{ms // length} {unit}" + (f" {rest} {inner}" if rest else "")
    return f"{ms / 1000:.1f} s"
