"""Reads times in the headers of records: decimal text, so that every client can write it. Pure."""

from typing import Final

from .errors import ApiError, ErrorCode

_LONGEST: Final = 19
"""The most digits of a number of 64 bits."""


def read_ms(name: str, value: bytes | None) -> int:
    """Return the number of ms in a header; raise ApiError INVALID_RECORD if it is none."""
    if value is None or not value.isdigit() or len(value) > _LONGEST:
        shown = value if value is None else value[: _LONGEST + 1]
        raise ApiError(ErrorCode.INVALID_RECORD, f"header {name}: {shown!r} is no number of ms")
    return int(value)
