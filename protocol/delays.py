"""Reads when a record of a delay topic is due, and makes the headers of forwarded records.

Pure. Times are milliseconds since the epoch, in headers as decimal text, so that every client can
write them. The same rule is applied when a record is produced, where a fault refuses it, and when
a replica reads its log, where a fault makes a record due at once.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from .errors import ApiError, ErrorCode
from .expiry import TIMES as EXPIRY_TIMES
from .expiry import read_expiry
from .header_targets import PARTITION, TARGET, check_target, read_partition
from .header_times import LATEST_MS, read_ms
from .records.record_python import Headers

DELIVER_AT: Final = "minikafka-deliver-at"
DELAY_MS: Final = "minikafka-delay-ms"
SAID: Final = (DELIVER_AT, DELAY_MS, *EXPIRY_TIMES, TARGET, PARTITION)
"""The names of the headers that say when a record is due, when it expires, and where it goes."""
SOURCE: Final = "minikafka-source"
"""`<topic>/<partition>/<offset>` of the record that was forwarded: the same for every copy."""
DUE: Final = "minikafka-due"
HOPS: Final = "minikafka-hops"
"""How often a record was forwarded."""
HOPS_MAX: Final = 8
"""A record that was forwarded this often is not forwarded again: topics forward in a circle."""

BY_HEADER: Final = "header"
BY_TIMESTAMP: Final = "timestamp"
FIXED: Final = "fixed"
IMMEDIATE: Final = "immediate"

_REPLACED: Final = (DELIVER_AT, DELAY_MS, DUE, HOPS, TARGET, PARTITION)
AT_ONCE: Final = 0
ROOM_BYTES: Final = 256
"""The bytes that forwarding may add to a record, beside the names of topics."""


class DelayRule(NamedTuple):
    """How the records of a delay topic say when they are due."""

    by: str
    """BY_HEADER, BY_TIMESTAMP: the record's timestamp is the time, FIXED: `delay_ms` later, or
    IMMEDIATE: whatever the record says, as in topics that only have rules."""
    delay_ms: int = 0
    max_ms: int = 0
    """The longest delay from now that a producer may ask for."""
    replaces: bool = False
    """True if of each key only the newest record that waits is forwarded."""
    targets: tuple[str, ...] = ()
    """The names and patterns of topics among which each record names its own; empty if it does not.
    """
    names_partition: bool = False
    """True if records may name the partition of their target."""

    def due_of(self, timestamp: int, headers: Headers) -> int:
        """Return when a record is due: ms since the epoch up to LATEST_MS, AT_ONCE if none is said.

        A delay counts from the record's timestamp. Raise ApiError INVALID_RECORD for a header that
        is no number of ms, for both headers, and for a delay without a timestamp.
        """
        if self.by == IMMEDIATE:
            return AT_ONCE
        if self.by == BY_TIMESTAMP:
            return min(max(timestamp, AT_ONCE), LATEST_MS)
        if self.by == FIXED:
            return _later(timestamp, self.delay_ms)
        at = delay = -1
        for name, value in headers:
            if name == DELIVER_AT:
                at = read_ms(name, value)
            elif name == DELAY_MS:
                delay = read_ms(name, value)
        if delay < 0:
            return max(at, AT_ONCE)
        if at >= 0:
            raise ApiError(ErrorCode.INVALID_RECORD, f"headers {DELIVER_AT} and {DELAY_MS}")
        return _later(timestamp, delay)

    def due_or_at_once(self, timestamp: int, headers: Headers) -> int:
        """Return when a record of the log is due: AT_ONCE if what it says is wrong."""
        try:
            return self.due_of(timestamp, headers)
        except ApiError:
            return AT_ONCE

    def check(self, timestamp: int, headers: Headers, now_ms: int) -> str:
        """Return the target that a record names, if it must; raise ApiError if it is refused.

        INVALID_RECORD as `due_of`, for an expiry or a partition that cannot be read, and for a
        target that it may not name; INVALID_TIMESTAMP if the delay is longer than `max_ms` from
        `now_ms`.
        """
        due_ms = self.due_of(timestamp, headers)
        read_expiry(due_ms, headers)
        if due_ms > now_ms + self.max_ms:
            detail = f"due in {due_ms - now_ms} ms, and minikafka.delay.max.ms={self.max_ms}"
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
        if self.names_partition:
            read_partition(headers)
        return check_target(headers, self.targets) if self.targets else ""


def forwarded_headers(headers: Headers, source: str, due_ms: int) -> Headers:
    """Return the headers of a record that is forwarded from `source`."""
    kept = [each for each in headers if each[0] not in _REPLACED]
    hops = str(hops_of(headers) + 1)
    if not any(name == SOURCE for name, _ in kept):
        kept.append((SOURCE, source.encode()))
    return [*kept, (DUE, str(due_ms).encode()), (HOPS, hops.encode())]


def dead_letter_headers(headers: Headers, source: tuple[str, int, int], why: str) -> Headers:
    """Return the headers of a dead letter (KIP-1191): its `source`, and the message `why`.

    An earlier dead letter's headers stay as they are, because the first failure tells most.
    """
    topic, partition, offset = source
    said: Mapping[str, str] = {
        "__dlq.errors.topic": topic,
        "__dlq.errors.partition": str(partition),
        "__dlq.errors.offset": str(offset),
        "__dlq.errors.message": why,
    }
    present = dict.fromkeys(name for name, _ in headers)
    new = [(name, text.encode()) for name, text in said.items() if name not in present]
    return [*headers, *new]


def hops_of(headers: Headers) -> int:
    """Return how often a record was forwarded; 0 if its header is missing or no number."""
    for name, value in headers:
        if name == HOPS:
            try:
                return min(read_ms(name, value), HOPS_MAX)
            except ApiError:
                return 0
    return 0


def _later(timestamp: int, delay_ms: int) -> int:
    if timestamp < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "a delay needs the record's timestamp")
    return min(timestamp + delay_ms, LATEST_MS)
