"""Chooses the oldest segments of a log that may be deleted: by log start, time, expiry and size.

`Log.delete_old_segments` deletes them. A segment that reaches the high watermark stays.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Log
    from .segment import Segment


def deletable(log: "Log", now_ms: int, high_watermark: int) -> int:
    """Return how many segments, from the oldest on, may be deleted at this wall time."""
    segments, start = log.segments, log.log_start_offset
    end = min(high_watermark, _needed_from(log, high_watermark))
    below = _count(segments, lambda each: each.size > 0 and each.next_offset <= end)
    before_start = ended_before(segments, start)
    by_age = max(_by_time(log, now_ms), _by_expiry(log, now_ms))
    return min(max(before_start, by_age, _by_size(log)), below)


def ended_before(segments: "Sequence[Segment]", start: int) -> int:
    """Count the oldest segments that end at or before the log start offset `start`.

    The newest segment is not counted, because its name keeps the log's end.
    """
    return _count(segments[:-1], lambda each: each.next_offset <= start)


def _count(segments: "Iterable[Segment]", may_go: "Callable[[Segment], bool]") -> int:
    """Count the segments before the first one for which `may_go` returns False."""
    return sum(1 for _ in takewhile(may_go, segments))


def _needed_from(log: "Log", end: int) -> int:
    """Return the offset from which on the broker still needs records; `end` if it needs none."""
    keep_from = log.segments.keep_from
    if keep_from is not None:
        return keep_from()
    # Before the Forwarder has looked at a source, any record of it may be needed.
    return log.log_start_offset if log.config.is_source else end


def _by_time(log: "Log", now_ms: int) -> int:
    delay = log.config.delay
    retention_ms = delay.keep_ms if delay.is_on else log.config.retention_ms
    if retention_ms < 0 or not log.config.is_deleted:
        return 0
    return _count(log.segments, lambda each: now_ms - each.newest_ms > retention_ms)


def _by_expiry(log: "Log", now_ms: int) -> int:
    """Count the oldest segments whose records have all expired, as far as the topic says it."""
    rule = log.config.ttl.rule
    if rule is None or rule.by_header:
        return 0
    return _count(log.segments, lambda each: rule.by_topic(each.max_timestamp) < now_ms)


def _by_size(log: "Log") -> int:
    retention_bytes = log.config.retention_bytes
    if retention_bytes < 0 or not log.config.is_deleted or log.config.delay.is_on:
        return 0
    over = log.size_bytes - retention_bytes
    count = 0
    for segment in log.segments:
        if over < segment.size:
            break
        over -= segment.size
        count += 1
    return count
