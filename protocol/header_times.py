"""Reads times in the headers of records: decimal text, so that every client can write it. Pure."""

from typing import Final

from .errors import ApiError, ErrorCode

LATEST_MS: Final = (1 << 63) - 1
"""The latest time that messages and files can hold."""
_LONGEST: Final = 19
"""The most digits of a number of 64 bits."""


def read_ms(name: str, value: bytes | None) -> int:
    """Return the number of ms in a header, at most LATEST_MS.

    Raise ApiError INVALID_RECORD if the value is no such number.
    """
    if value is not None and value.isdigit() and len(value) <= _LONGEST:
        number = int(value)
        if number <= LATEST_MS:
            return number
    shown = value if value is None else value[: _LONGEST + 1]
    raise ApiError(ErrorCode.INVALID_RECORD, f"header {name}: {shown!r} is no number of ms")
