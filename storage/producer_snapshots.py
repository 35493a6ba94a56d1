"""The producer snapshots of one log: written at each roll, read when the log is opened.

A snapshot named N holds the producers as of offset N. If one is torn or missing, more batch headers
are replayed, with the same result. The file is Kafka's, big-endian:

    version i16 = 1 | crc32c u32 of the rest | count i32 | entry*
    entry: producer_id i64, producer_epoch i16, last_sequence i32, last_offset i64,
           offset_delta i32, timestamp i64, coordinator_epoch i32, current_txn_first_offset i64
"""

from struct import Struct

import crc32c

from .files import SNAPSHOT, Files, file_name, offset_in
from .producer_state import ProducedBatch, Producer, ProducerState, wrapped
from .segment import Segment

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_STARTS_AT = 6


class ProducerSnapshots:
    """The `.snapshot` files in a log's directory."""

    __slots__ = ("_directory", "_files")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    def offsets(self) -> list[int]:
        """Return the offsets in the snapshots' names, in order."""
        names = self._files.names(self._directory)
        return [at for name in names if (at := offset_in(name, SNAPSHOT)) is not None]

    def save(self, state: ProducerState, end_offset: int) -> None:
        """Write the snapshot of `end_offset`."""
        self._files.replace_small(self._path(end_offset), encode_producers(state, end_offset))

    def save_last(self, state: ProducerState, end_offset: int) -> None:
        """Save a snapshot when the log is closed, and truncate `state` to the snapshot's offset.

        The snapshot is as of the offset below which all changes are settled. A snapshot cannot
        state that a marker may still be truncated, so later markers must be replayed at the next
        opening.
        """
        settled = state.first_unsettled(end_offset)
        self.remove_above(settled)
        if settled == end_offset or state.truncate_to(settled):
            self.save(state, settled)

    def newest(self, at_most: int, now_ms: int) -> tuple[int, ProducerState]:
        """Return offset and state of the newest readable snapshot at or below `at_most`.

        Return -1 and an empty state if there is none.
        """
        for at in reversed(self.offsets()):
            if at <= at_most and (data := self._files.read_small(self._path(at))) is not None:
                state = decode_producers(data, now_ms)
                if state is not None:
                    state.came_from_snapshot(at)
                    return at, state
        return -1, ProducerState()

    def remove(self, offset: int) -> None:
        """Delete the snapshot of an offset."""
        self._files.remove(self._path(offset))

    def remove_above(self, offset: int) -> None:
        """Delete the snapshots above `offset`, whose batches were removed from the log."""
        for at in self.offsets():
            if at > offset:
                self.remove(at)

    def remove_strays(self, segments: list[Segment]) -> None:
        """Delete snapshots, except the newest one and those at a segment's base offset."""
        bases = {segment.base_offset for segment in segments}
        for at in self.offsets()[:-1]:
            if at not in bases:
                self.remove(at)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT)}"


def encode_producers(state: ProducerState, end_offset: int) -> bytes:
    """Return the contents of the snapshot as of `end_offset`."""
    entries: list[bytes] = []
    for producer_id, producer in state:
        if producer.since >= end_offset:
            continue
        # Staged batches may still be lost, and a snapshot must hold nothing above its name.
        below = [b for b in producer.batches if b.last_offset < end_offset]
        start = producer.transaction_start if producer.transaction_start < end_offset else -1
        if producer.batches and not below and start < 0:
            continue
        last = below[-1] if below else ProducedBatch(-1, -1, -1, -1, -1)
        entries.append(
            _ENTRY.pack(
                producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.base_offset,
                producer.last_seen_ms,
                producer.coordinator_epoch,
                start,
            )
        )
    body = _HEAD.pack(_VERSION, 0, len(entries))[_CRC_STARTS_AT:] + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c.crc32c(body), 0)[:_CRC_STARTS_AT] + body


def decode_producers(data: bytes, now_ms: int) -> ProducerState | None:
    """Read a snapshot; return None if it is torn or corrupt.

    Producers are idle since `now_ms`: the wall clock may have been set since they were last seen,
    and one that is forgotten too early may have its last batch doubled.
    """
    if len(data) < _HEAD.size:
        return None
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION or crc32c.crc32c(memoryview(data)[_CRC_STARTS_AT:]) != crc:
        return None
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        return None
    producers: dict[int, Producer] = {}
    for row in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, txn = row
        producer = Producer(epoch, now_ms)
        producer.coordinator_epoch, producer.transaction_start = coordinator, txn
        if last_offset >= 0:
            first = wrapped(last_sequence - delta)
            base = last_offset - delta
            producer.is_from_snapshot = first > 0
            producer.batches.append(
                ProducedBatch(first, last_sequence, base, last_offset, timestamp)
            )
        producers[producer_id] = producer
    return ProducerState.of(producers)
