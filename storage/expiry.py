"""Takes the records that have expired out of what a consumer reads.

Pure. The log keeps its batches as they are, so that replicas stay equal; only the answer to a
consumer differs. A run of expired batches becomes one control batch over the same offsets, which
every client steps over. Fetches without any batch would not do: some clients then ask for ever more
bytes, because they take the batch for one that is too large.
"""

import struct
from typing import Final

from ..protocol.errors import RemoteProtocolError
from ..protocol.expiry import EXPIRED_KEY, NEVER, TIMES, TtlRule
from ..protocol.records.batch_header import (
    BatchHeader,
    TimestampType,
    headers,
    seal,
)
from ..protocol.records.record_backend import BadRecord, examine
from ..protocol.records.record_checks import INT64_MAX, INT64_MIN, says_anything
from ..protocol.records.records import BatchBuilder, Opened, Record, opened
from ..protocol.types import Buffer
from .compaction.record_walk import Rewrite, rewritten, slices_at

READ_BYTES: Final = 256 << 10
"""The most bytes of one read whose batches must be opened, unless one batch is larger."""
OPENED_BYTES: Final = 2 << 20
"""A batch that expands beyond this is not opened, and its records expire never."""
READ_OPENED: Final = 8 << 20
"""The most bytes to which the batches of one read may expand. A read is cut behind that."""
READ_RECORDS: Final = 20_000
"""The most records of batches that one read opens, but for the last batch."""
MOST_KNOWN: Final = 4_096
"""The most batches whose times are remembered."""
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23


class Expiry:
    """Which records of one replica have expired. What was hidden is never seen here again."""

    __slots__ = ("_known", "_opened_bytes", "_opened_records", "now_ms", "rule")

    def __init__(self, rule: TtlRule, now_ms: int = 0) -> None:
        self.rule = rule
        self.now_ms = now_ms
        """The latest wall time at which somebody has read, in ms."""
        self._known: dict[int, tuple[int, int, int]] = {}
        """By base offset of a batch that was opened: its checksum, and its first and last time."""
        self._opened_bytes = self._opened_records = 0
        """The cost of the present read."""

    def without_expired(self, data: memoryview, wall_ms: int) -> memoryview:
        """Return whole batches without what has expired; `data` itself if nothing has.

        What follows a batch may be left out, if much had to be opened up to there.
        """
        self._opened_bytes = self._opened_records = 0
        now = self.now_ms = max(self.now_ms, wall_ms)
        kept = bytearray()
        taken = 0  # Everything before this position is in `kept`, or hidden.
        run: tuple[BatchHeader, BatchHeader] | None = None
        for position, header in headers(data):
            times = self._known_times(header)
            is_opened = times is None or times[0] <= now < times[1]
            if position and is_opened and self._has_opened_enough:
                data = data[:position]
                break
            first, last = times or self._open(data, position, header)
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

    @property
    def _has_opened_enough(self) -> bool:
        return self._opened_bytes >= READ_OPENED or self._opened_records >= READ_RECORDS

    def _known_times(self, header: BatchHeader) -> tuple[int, int] | None:
        """Return when the first and the last record of a batch expire, as far as it matters.

        None: the batch must be opened to tell.
        """
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
            return None
        return known[1] if rule.is_strict else known[2], known[2]

    def _open(self, data: memoryview, position: int, header: BatchHeader) -> tuple[int, int]:
        """Return the same as `_known_times` after a look at the records."""
        try:
            times = self._times_in(self._opened(data, position, header))
        except RemoteProtocolError:
            times = [NEVER]
        first, last = min(times), max(times)
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[header.base_offset] = header.crc, first, last
        return first if self.rule.is_strict else last, last

    def _opened(self, data: memoryview, position: int, header: BatchHeader) -> Opened:
        """Decompress a batch; what cannot be decompressed costs as much as may be."""
        self._opened_records += header.record_count
        self._opened_bytes += OPENED_BYTES
        batch = opened(data, position, header, OPENED_BYTES)
        self._opened_bytes += batch.size - OPENED_BYTES
        return batch

    def _times_in(self, batch: Opened) -> list[int]:
        """Return when the records of a batch expire, the first and the last among them."""
        body, count, (_, base, kind) = batch.payload
        rule = self.rule
        if kind is TimestampType.CREATE_TIME and not (rule.by_header and says_anything(body)):
            try:
                lowest, highest, *_ = examine(body, count, False, INT64_MIN, INT64_MAX)
            except BadRecord:  # As in a batch out of which records were taken.
                pass
            else:
                if base + lowest >= 0:
                    return [rule.by_topic(base + lowest), rule.by_topic(base + highest)]
        said = dict.fromkeys((each.timestamp, each.headers) for each in self._said(batch))
        return [rule.expires_of(*each) for each in said]

    def _said(self, batch: Opened) -> list[Record]:
        (found,) = batch.parts(batch.header.record_count, TIMES)
        return found

    def _reduced(self, data: memoryview, position: int, header: BatchHeader) -> Buffer:
        """Return a batch with those of its records that have not expired, at their offsets."""
        batch = self._opened(data, position, header)
        expires_of, now = self.rule.expires_of, self.now_ms
        kept = [
            each.offset
            for each in self._said(batch)
            if expires_of(each.timestamp, each.headers) > now
        ]
        body = bytes(batch.payload[0])
        return rewritten(header, body, Rewrite(slices_at(body, header, kept)))


def _stand_in(first: BatchHeader, last: BatchHeader) -> bytearray:
    """Return the control batch that stands for all batches from `first` to `last`."""
    builder = BatchBuilder(is_control=True)
    builder.append(last.max_timestamp, EXPIRED_KEY, b"")
    batch = builder.build(base_offset=first.base_offset, leader_epoch=last.leader_epoch)
    delta = last.last_offset - first.base_offset
    _LAST_OFFSET_DELTA.pack_into(batch, _LAST_OFFSET_DELTA_AT, delta)
    seal(batch)
    return batch
