"""Takes the records that have expired out of what a consumer reads.

Pure. The log keeps its batches as they are, so that replicas stay equal; only the answer to a
consumer differs. A run of expired batches becomes one control batch over the same offsets, which
every client steps over. Fetches without any batch would not do: some clients then ask for ever more
bytes, because they take the batch for one that is too large.
"""

import struct
from typing import Final

from ..protocol.compression import ExpandsTooFar
from ..protocol.errors import RemoteProtocolError
from ..protocol.expiry import EXPIRED_KEY, NEVER, TtlRule
from ..protocol.records.batch_header import (
    BatchHeader,
    TimestampType,
    headers,
    seal,
)
from ..protocol.records.records import BatchBuilder, records
from ..protocol.types import Buffer
from .compaction.record_walk import Rewrite, rewritten, walk

READ_BYTES: Final = 256 << 10
"""The most bytes of one read whose batches must be opened, unless one batch is larger."""
OPENED_BYTES: Final = 2 << 20
"""A batch that expands beyond this is not opened, and its records expire never."""
MOST_KNOWN: Final = 4_096
"""The most batches whose times are remembered."""
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23


class Expiry:
    """Which records of one replica have expired. What was hidden is never seen here again."""

    __slots__ = ("_known", "now_ms", "rule")

    def __init__(self, rule: TtlRule, now_ms: int = 0) -> None:
        self.rule = rule
        self.now_ms = now_ms
        """The latest wall time at which somebody has read, in ms."""
        self._known: dict[int, tuple[int, int, int]] = {}
        """By base offset of a batch that was opened: its checksum, and its first and last time."""

    def without_expired(self, data: memoryview, wall_ms: int) -> memoryview:
        """Return whole batches without what has expired; `data` itself if nothing has."""
        now = self.now_ms = max(self.now_ms, wall_ms)
        kept = bytearray()
        taken = 0  # Everything before this position is in `kept`, or hidden.
        run: tuple[BatchHeader, BatchHeader] | None = None
        for position, header in headers(data):
            first, last = self._times(data, position, header)
            if last <= now:
                if run is None:
                    kept += data[taken:position]
                run = (header if run is None else run[0], header)
                taken = position + header.size
                continue
            if run is not None:
                kept += _stand_in(*run)
                run = None
            if first <= now:
                kept += data[taken:position]
                kept += self._reduced(data, position, header)
                taken = position + header.size
        if run is not None:
            kept += _stand_in(*run)
        if not taken:
            return data
        kept += data[taken:]
        return memoryview(kept)

    def _times(self, data: memoryview, position: int, header: BatchHeader) -> tuple[int, int]:
        """Return when the first and the last record of a batch expire, as far as it matters."""
        rule = self.rule
        if header.is_control or not header.record_count:
            return NEVER, NEVER
        if not rule.by_header:
            last = rule.by_topic(header.max_timestamp)
            is_one_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            if not rule.is_strict or is_one_time or last <= self.now_ms:
                return last, last
        known = self._known.get(header.base_offset)
        if known is None or known[0] != header.crc:
            known = (header.crc, *self._opened(data, position, header))
            if len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[header.base_offset] = known
        return known[1] if rule.is_strict else known[2], known[2]

    def _opened(self, data: memoryview, position: int, header: BatchHeader) -> tuple[int, int]:
        try:
            found = records(data[position : position + header.size], max_bytes=OPENED_BYTES)
        except (ExpandsTooFar, RemoteProtocolError):
            return NEVER, NEVER
        times = [self.rule.expires_of(each.timestamp, each.headers) for each in found]
        return min(times), max(times)

    def _reduced(self, data: memoryview, position: int, header: BatchHeader) -> Buffer:
        """Return a batch with those of its records that have not expired, at their offsets."""
        batch = data[position : position + header.size]
        body, slices = walk(batch, 0, header)
        kept = [
            each
            for each, record in zip(slices, records(batch), strict=True)
            if self.rule.expires_of(record.timestamp, record.headers) > self.now_ms
        ]
        return rewritten(header, body, Rewrite(kept))


def _stand_in(first: BatchHeader, last: BatchHeader) -> bytearray:
    """Return the control batch that stands for all batches from `first` to `last`."""
    builder = BatchBuilder(is_control=True)
    builder.append(last.max_timestamp, EXPIRED_KEY, b"")
    batch = builder.build(base_offset=first.base_offset, leader_epoch=last.leader_epoch)
    delta = last.last_offset - first.base_offset
    _LAST_OFFSET_DELTA.pack_into(batch, _LAST_OFFSET_DELTA_AT, delta)
    seal(batch)
    return batch
