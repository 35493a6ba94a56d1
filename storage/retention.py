"""Chooses the oldest segments of a log that may go: by the log's start, by time, by size.

Decides only; `Log.delete_old_segments` acts. A segment that reaches the high watermark stays.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Log


def deletable(log: "Log", now_ms: int, high_watermark: int) -> int:
    """Return how many segments, from the oldest on, may be deleted at this wall time."""
    below = 0
    for segment in log.segments:
        if segment.next_offset > high_watermark or not segment.size:
            break
        below += 1
    count = max(_before_start(log), _by_time(log, now_ms), _by_size(log))
    return min(count, below)


def _before_start(log: "Log") -> int:
    """Count the segments that end at or before the log's start.

    The newest one stays for its name.
    """
    count = 0
    for segment in log.segments[:-1]:
        if segment.next_offset > log.log_start_offset:
            break
        count += 1
    return count


def _by_time(log: "Log", now_ms: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0 or not log.config.is_deleted:
        return 0
    count = 0
    for segment in log.segments:
        newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.seen_ms
        if now_ms - newest <= retention_ms:
            break
        count += 1
    return count


def _by_size(log: "Log") -> int:
    retention_bytes = log.config.retention_bytes
    if retention_bytes < 0 or not log.config.is_deleted:
        return 0
    over = log.size_bytes - retention_bytes
    count = 0
    for segment in log.segments:
        if over < segment.size:
            break
        over -= segment.size
        count += 1
    return count
