"""Reads when a record expires: by the time that its topic gives each record, or by its own header.

Pure. Times are milliseconds since the epoch, in headers as decimal text. The same rule is applied
when a record is produced, where a fault refuses it, and when a consumer fetches it, where a fault
means that it says nothing.
"""

import struct
from typing import Final, NamedTuple

from .errors import ApiError, ErrorCode
from .header_times import LATEST_MS, read_ms
from .records.record_python import Headers

TTL_MS: Final = "minikafka-ttl-ms"
"""The time to live, counted from the record's timestamp, or from when it is due; or "never"."""
EXPIRES_AT: Final = "minikafka-expires-at"
TIMES: Final = (TTL_MS, EXPIRES_AT)
"""The names of the headers that say when a record expires."""
NEVER_EXPIRES: Final = b"never"
NEVER: Final = LATEST_MS
EXPIRED_KEY: Final = struct.pack(">hh", 0, 30_010)
"""The key of the control record that a consumer gets in place of a run of expired batches."""


class TtlRule(NamedTuple):
    """When the records of a topic expire."""

    ttl_ms: int = -1
    """Each record expires this long after its timestamp; -1: none does unless it says so."""
    by_header: bool = False
    """True if the record's headers count, before `ttl_ms`."""
    is_strict: bool = False
    """True if expired records are taken out of a batch in which others have not expired."""

    @property
    def looks_inside(self) -> bool:
        """True if the header of a batch is not enough to judge it."""
        return self.by_header or self.is_strict

    def by_topic(self, timestamp: int) -> int:
        """Return when a record with this timestamp expires if it does not say so itself."""
        return min(timestamp + self.ttl_ms, NEVER) if self.ttl_ms >= 0 <= timestamp else NEVER

    def expires_of(self, timestamp: int, headers: Headers) -> int:
        """Return when a record expires; what its headers say wrongly does not count."""
        said = None
        if self.by_header:
            try:
                said = read_expiry(timestamp, headers)
            except ApiError:
                said = None
        return self.by_topic(timestamp) if said is None else said


def read_expiry(start_ms: int, headers: Headers) -> int | None:
    """Return when a record with these headers expires; None if they do not say it.

    Its time to live begins at `start_ms`. Raise ApiError INVALID_RECORD for a header that is
    no number of ms, for both headers, and for a time to live without a start (-1).
    """
    at = ttl = -1
    for name, value in headers:
        if name == EXPIRES_AT:
            at = read_ms(name, value)
        elif name == TTL_MS:
            ttl = NEVER if value == NEVER_EXPIRES else read_ms(name, value)
    if ttl < 0:
        return None if at < 0 else at
    if at >= 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"headers {TTL_MS} and {EXPIRES_AT}")
    if ttl == NEVER:
        return NEVER
    if start_ms < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"{TTL_MS} needs the record's timestamp")
    return min(start_ms + ttl, NEVER)
