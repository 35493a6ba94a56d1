"""Reads W3C trace contexts from the headers of records.

Pure. The format is https://www.w3.org/TR/trace-context/, version 00. Anything else is ignored, as
the specification asks: a record is never refused for it.
"""

import re
from typing import Final, NamedTuple

from .errors import RemoteProtocolError
from .records.batch_header import BatchHeader
from .records.record_backend import decode, find
from .records.records import Headers, Record, record_view
from .types import Buffer

TRACEPARENT: Final = "traceparent"
OPENED_BYTES: Final = 64 << 10
"""The most bytes that a compressed batch may expand to, to be looked into."""
_FORMAT: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class TraceContext(NamedTuple):
    """The span in which a record was produced."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    is_sampled: bool


def trace_context_of(headers: Headers) -> TraceContext | None:
    """Return the trace context of a record; None if it has none, or one that is malformed."""
    for name, value in headers:
        if name == TRACEPARENT and value is not None:
            match = _FORMAT.fullmatch(value)
            if match is None or not int(match[1], 16) or not int(match[2], 16):
                return None
            return TraceContext(match[1].decode(), match[2].decode(), bool(int(match[3], 16) & 1))
    return None


def first_context_of(batch: Buffer, header: BatchHeader) -> TraceContext | None:
    """Return the trace context of a batch's first record; None if it has none.

    A compressed batch is opened if it expands to OPENED_BYTES at most; of others only the first
    record is read.
    """
    try:
        body = memoryview(record_view(batch, 0, header, OPENED_BYTES))
        ((start, end),) = find(body, header.record_count, [0])
        (first,) = decode(body[start:end], 1, (0, 0, header.timestamp_type), Record)
    except (RemoteProtocolError, ValueError, IndexError):
        return None
    return trace_context_of(first.headers)
