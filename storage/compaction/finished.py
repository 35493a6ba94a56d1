"""Chooses a segment of a delay topic that is rewritten without the records that are over.

Pure. A record that waits for long would otherwise keep everything behind it. Every control batch
stays until retention deletes its segment, so that a replica that comes back with older records
learns from the log that they are over. With minikafka.delay.replace=key records say so, too, and
nothing is rewritten: without a newer record its older one would wait again.
"""

from collections.abc import Mapping
from typing import Final

from ..log import Log
from ..offset_set import FinishedOffsets
from ..segment import Segment
from .compactor import Due

LEAST_SHARE: Final = 0.5
"""The share of a segment's offsets that must be over, or of what was left when it was rewritten."""


def needed_in(segment: Segment, finished: FinishedOffsets) -> int:
    """Return about how many records of a segment are not over."""
    start, end = segment.base_offset, segment.next_offset
    return end - start - finished.count(start, end)


def due_of_finished(owner: Log, left: Mapping[int, int], up_to: int, now_ms: int) -> Due | None:
    """Choose the segment, below `up_to`, of which most is over; None if nothing is due.

    `left` has the number of needed records of segments that were rewritten, by base offset. What
    is younger than minikafka.delay.keep.ms stays, and so does the newest segment. `now_ms` is wall
    time.
    """
    finished = owner.segments.finished
    if finished is None or owner.config.delay.replaces:
        return None
    bound, keep_ms = min(up_to, owner.flushed_offset), owner.config.delay.keep_ms
    most: tuple[float, Segment] | None = None
    for segment in owner.segments[:-1]:
        if segment.next_offset > bound:
            break
        count = left.get(segment.base_offset, segment.next_offset - segment.base_offset)
        if now_ms - segment.newest_ms <= keep_ms or not count:
            continue
        share = 1 - needed_in(segment, finished) / count
        if share > LEAST_SHARE and (most is None or share > most[0]):
            most = share, segment
    if most is None:
        return None
    share, segment = most
    over = finished.part(segment.base_offset, segment.next_offset)
    return Due((segment,), segment.next_offset, share, is_overdue=False, finished=over)
