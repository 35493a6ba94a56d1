"""RefireForwarded, our own API: a leader forwards records again that it has forwarded already."""

from typing import Final

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response

FROM_START: Final = -1
"""The position that is the beginning of the log."""


@request(ApiKey.REFIRE_FORWARDED, versions="0", flexible="0+")
class RefireForwardedRequest:
    """Look at a part of one partition's log, and forward again what it says was forwarded."""

    topic: String
    partition_index: Int32
    from_offset: Int64 = field(default=0)
    """The offset of the first record that may be repeated."""
    to_offset: Int64 = field(default=-1)
    """The offset behind the last one; -1 for no bound."""
    since_ms: Int64 = field(default=0)
    """Repeat only what was planned at this time or later, in ms since the epoch."""
    position: Int64 = field(default=FROM_START)
    """The position of the last answer, or FROM_START."""
    end: Int64 = field(default=-1)
    """The end of the first answer; -1 in the first request."""
    timeout_ms: Int32 = field(default=30_000)
    """How long to wait until it is committed."""


@response(ApiKey.REFIRE_FORWARDED)
class RefireForwardedResponse:
    """The outcome of one request; there is more to look at unless the position is -1."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    """INVALID_REQUEST if it is no delay topic, POLICY_VIOLATION while the topic is paused,
    REQUEST_TIMED_OUT if it may be done yet."""
    records: Int64 = field(default=0)
    """The records that are on their way again."""
    position: Int64 = field(default=-1)
    end: Int64 = field(default=-1)
