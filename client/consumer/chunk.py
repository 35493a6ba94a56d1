"""Fetched bytes of one partition on their way to the user: batches, decoded one at a time.

Pure. Skips control batches, records before the position, and, under read_committed, the records of
aborted transactions (aborted.py).
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, cast

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    crc_is_valid,
    headers,
    read_header,
)
from ...protocol.records.records import columns, records_as
from ..errors import CorruptRecord
from ..records import AbortedTransaction, ConsumerRecord, RawRecords, RecordColumns
from .aborted import AbortedBatches
from .positions import PartitionState


class Chunk:
    """The whole batches of one partition in one fetch answer."""

    def __init__(
        self, state: PartitionState, data: memoryview, aborted: Sequence[AbortedTransaction] | None
    ) -> None:
        """Cut `data` after its last whole batch; if it holds none, the chunk `is_empty`.

        `aborted` is None under read_uncommitted: then aborted records are handed out too.
        """
        self.state = state
        self.seek_count = state.seek_count
        self.next_position = state.fetch_offset
        self.last_epoch = -1
        end = 0
        for pos, header in headers(data):
            end = pos + header.size
            self.next_position = max(self.next_position, header.last_offset + 1)
            self.last_epoch = header.leader_epoch
        self.data = data[:end]
        self._pos = 0
        self._epoch = -1
        self._ready: Sequence[ConsumerRecord] = ()
        self._next = 0
        self._aborted = AbortedBatches(aborted or ())

    @property
    def is_empty(self) -> bool:
        """True if the chunk holds no whole batch."""
        return not self.data

    @property
    def is_void(self) -> bool:
        """True if since the fetch the position jumped or the partition was unassigned."""
        return self.seek_count != self.state.seek_count

    @property
    def size(self) -> int:
        """Bytes that the chunk holds."""
        return len(self.data)

    @property
    def is_spent(self) -> bool:
        """True if the user has been given every record of the chunk."""
        return self._pos >= len(self.data) and self._next >= len(self._ready)

    def take(self, max_records: int, *, check_crcs: bool) -> list[ConsumerRecord]:
        """Decode up to `max_records` records and move the position behind them.

        Raise CorruptRecord if the next batch cannot be read; the position stays before it.
        """
        taken: list[ConsumerRecord] = []
        state = self.state
        while len(taken) < max_records:
            if self._next >= len(self._ready):
                if self._pos >= len(self.data):
                    break
                try:
                    self._decode_next(check_crcs)
                except CorruptRecord:
                    if taken:
                        break  # First return what could be read; the next call comes back here.
                    raise
                continue
            run = self._ready[self._next : self._next + max_records - len(taken)]
            self._next += len(run)
            taken += run
            state.position = run[-1].offset + 1
            state.position_epoch = self._epoch
        if self.is_spent:
            state.position = max(state.position, self.next_position)
            state.position_epoch = self.last_epoch
        return taken

    def take_columns(self, *, check_crcs: bool) -> RecordColumns | None:
        """Decode the next batch for the user and move the position behind it.

        Return None if no batch is left. Raise CorruptRecord if the next batch cannot be read; the
        position stays before it.
        """
        state = self.state
        found: RecordColumns | None = None
        while found is None and not self.is_spent:
            if self._next < len(self._ready):
                found = _turned(self._ready[self._next :])
                self._next = len(self._ready)
                continue
            header = read_header(self.data, self._pos)
            if header.is_control or not self._counts(header):
                self._decode_next(check_crcs)
                continue
            found = self._columns(self._pos, header, check_crcs)
            self._pos, self._epoch = self._pos + header.size, header.leader_epoch
        if found is not None:
            state.position = found.offsets[-1] + 1
            state.position_epoch = self._epoch
        if self.is_spent:
            state.position = max(state.position, self.next_position)
            state.position_epoch = self.last_epoch
        return found

    def _columns(self, pos: int, header: BatchHeader, check_crcs: bool) -> RecordColumns | None:
        partition, position = self.state.partition, self.state.position
        try:
            found = columns(self.data, pos, header=header, check_crc=check_crcs)
        except RemoteProtocolError as error:
            raise self._corrupt(pos, header, error) from error
        first = bisect_left(found.offsets, position)
        offsets, timestamps, keys, values, all_headers = found
        if first:
            offsets, timestamps, values = offsets[first:], timestamps[first:], values[first:]
            keys = None if keys is None else keys[first:]
            all_headers = None if all_headers is None else all_headers[first:]
        if not offsets:
            return None
        kind = header.timestamp_type
        return RecordColumns(*partition, offsets, timestamps, kind, keys, values, all_headers)

    def take_raw(self) -> RawRecords:
        """Return the remaining batches undecoded and move the position behind them.

        A batch that was handed out in part is included whole.
        """
        state = self.state
        # A batch that was handed out in part is handed out whole again; the reader skips its
        # records before the position of the RawRecords.
        begin = self._batch_of_position()
        raw = RawRecords(
            *state.partition,
            state.position,
            self.next_position,
            state.high_watermark,
            state.last_stable_offset,
            state.log_start_offset,
            self.data[begin:],
            self._aborted.not_begun(),
            state.topic_id,
        )
        self._pos, self._ready, self._next = len(self.data), (), 0
        state.position, state.position_epoch = self.next_position, self.last_epoch
        return raw

    def _batch_of_position(self) -> int:
        if self._pos == 0:
            return 0  # no batch was decoded yet, so no batch may be left out
        for pos, header in headers(self.data):
            if header.last_offset >= self.state.position:
                return pos
        return len(self.data)

    def _decode_next(self, check_crcs: bool) -> None:
        """Decode the next batch into `_ready`, which stays empty if the user must not see it."""
        pos = self._pos
        header = read_header(self.data, pos)
        self._ready, self._next = (), 0
        counts = self._counts(header)
        if header.is_control or counts:
            self._ready = self._read(pos, header, check_crcs)
        self._pos, self._epoch = pos + header.size, header.leader_epoch

    def _counts(self, header: BatchHeader) -> bool:
        # `covers` must see every batch, also those before the position: it relies on their order.
        is_aborted = self._aborted.covers(header)
        return header.last_offset >= self.state.position and not is_aborted

    def _read(self, pos: int, header: BatchHeader, check_crcs: bool) -> Sequence[ConsumerRecord]:
        position = self.state.position
        try:
            where = self.state.partition
            found = records_as(
                ConsumerRecord, where, self.data, pos, header=header, check_crc=check_crcs
            )
        except RemoteProtocolError as error:
            raise self._corrupt(pos, header, error) from error
        if header.is_control:
            self._aborted.on_marker(header.producer_id, found[0].key if found else None)
            return ()
        if found and found[0].offset < position:
            return [record for record in found if record.offset >= position]
        return found

    def _corrupt(self, pos: int, header: BatchHeader, why: Exception) -> CorruptRecord:
        """Make the error for a batch that cannot be read.

        Its `next_offset` is given only if the batch's CRC is valid, so that the offset can be
        trusted.
        """
        offset = max(header.base_offset, self.state.position)
        is_as_sent = header.size >= HEADER_SIZE and crc_is_valid(self.data, pos, header)
        next_offset = header.next_offset if is_as_sent else None
        return CorruptRecord(self.state.partition, offset, str(why), next_offset)


def _turned(rows: Sequence[ConsumerRecord]) -> RecordColumns:
    """Return as columns the records of a batch that `take` has not handed out."""
    topic, partition, offsets, timestamps, kinds, keys, values, all_headers = map(
        list, zip(*rows, strict=True)
    )
    found: Any = RecordColumns(
        topic[0],
        partition[0],
        offsets,
        timestamps,
        kinds[0],
        keys if any(key is not None for key in keys) else None,
        values,
        all_headers if any(all_headers) else None,
    )
    return cast(RecordColumns, found)
