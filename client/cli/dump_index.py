"""Prints the files beside segments: indexes, producer snapshots, aborted transactions, checkpoints.

The files are parsed here by Kafka's layout and not by storage's code, because a dump that used that
code could not show errors of that code.

  .index      (relative_offset int32, position int32)*       sparse; zeros at the end are padding
  .timeindex  (timestamp int64, relative_offset int32)*
  .snapshot   version int16, crc uint32 of the rest, count int32, producer entries
  .txnindex   (version int16, producer_id, first_offset, last_offset, last_stable_offset int64)*
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from crc32c import crc32c

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.record_batch import records
from .dump_segment import Mismatch, Problems, batches, java_optional

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_PRODUCER_ENTRY = struct.Struct(">qhiqiqiq")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_VERSION = 1
_CRC_END = 6
_MAX_INT32 = 0x7FFF_FFFF


def dump_index(path: Path, problems: Problems, *, print_entries: bool = True) -> Iterator[str]:
    """Yield the lines that print an offset index, and check it against its segment."""
    base_offset = int(path.name.split(".")[0])
    entries = list(_INDEX_ENTRY.iter_unpack(_whole(path, _INDEX_ENTRY.size)))
    if not entries:
        yield f"{path} is empty."
        return
    with path.with_suffix(".log").open("rb") as log:
        for number, (relative, position) in enumerate(entries):
            # A crash may leave zeros at the end of a preallocated index: stop at the first.
            if relative == 0 and number > 0:
                return
            offset = base_offset + relative
            found = next((h.last_offset for _, h, _ in batches(log, position)), -1)
            if found != offset:
                problems.add(Mismatch.INDEX, path, (offset, found))
            if print_entries:
                yield f"offset: {offset} position: {position}"


def dump_time_index(path: Path, problems: Problems, *, print_entries: bool = True) -> Iterator[str]:
    """Yield the lines that print a time index, and check it against its segment."""
    base_offset = int(path.name.split(".")[0])
    positions = _positions(path.with_suffix(".index"), base_offset)
    before = -1
    entries = _TIME_ENTRY.iter_unpack(_whole(path, _TIME_ENTRY.size))
    for number, (timestamp, relative) in enumerate(entries):
        if relative == 0 and number > 0:
            return
        offset = base_offset + relative
        start = max((p for o, p in positions if o <= offset), default=0)
        found, newest = _batch_of(path.with_suffix(".log"), start, offset)
        if found != offset:
            problems.add(Mismatch.NOT_FOUND, path, (offset, found))
        else:
            if newest != timestamp:
                problems.add(Mismatch.TIMESTAMP, path, (timestamp, newest))
            if before >= timestamp:
                problems.add(Mismatch.TIMESTAMP_ORDER, path, (timestamp, before))
        if print_entries:
            yield f"timestamp: {timestamp} offset: {offset}"
        before = timestamp


def check_index(path: Path, problems: Problems) -> Iterator[str]:
    """Check that an index is consistent in itself, without its segment; yield the result's line."""
    entry = _INDEX_ENTRY if path.suffix == ".index" else _TIME_ENTRY
    offset_field = 0 if path.suffix == ".index" else 1
    size = path.stat().st_size
    last = -1
    if size % entry.size == 0:
        rows = entry.iter_unpack(path.read_bytes())
        for row in rows:
            if row[offset_field] < last:
                break
            last = row[offset_field]
        else:
            yield f"{path} passed sanity check."
            return
    problems.damaged.append(str(path))
    yield f"{path} failed sanity check: it would be rebuilt at the next start."


def dump_producer_snapshot(path: Path, problems: Problems) -> Iterator[str]:
    """Yield the lines that print the producers of a snapshot, with the last batch of each."""
    data = path.read_bytes()
    why = _snapshot_damage(data)
    if why:
        problems.damaged.append(str(path))
        yield f"Snapshot {path} is corrupt: {why}"
        return
    for entry in _PRODUCER_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, txn = entry
        first_offset = None if txn < 0 else txn
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator} "
            f"currentTxnFirstOffset: {java_optional(first_offset)} lastTimestamp: {timestamp} "
        )
        if last_offset >= 0:
            first_sequence = last_sequence - delta
            if first_sequence < 0:
                first_sequence += _MAX_INT32 + 1
            line += (
                f"firstSequence: {first_sequence} lastSequence: {last_sequence} "
                f"lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        yield line


def dump_aborted_transactions(path: Path) -> Iterator[str]:
    """Yield the lines that print the aborted transactions of a segment."""
    for row in _ABORTED_ENTRY.iter_unpack(_whole(path, _ABORTED_ENTRY.size)):
        version, producer_id, first_offset, last_offset, last_stable_offset = row
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first_offset} "
            f"lastOffset: {last_offset} lastStableOffset: {last_stable_offset}"
        )


def dump_checkpoint(path: Path, problems: Problems) -> Iterator[str]:
    """Yield the lines of a text checkpoint.

    They are its version, its count, then `epoch start` or `topic partition offset` of each entry.
    Raise ValueError if the count or the checksum is wrong.
    """
    lines = path.read_text(errors="replace").splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        rows = [line.split() for line in lines[2:]]
        if len(rows) != count:
            raise ValueError(f"{count} entries announced, {len(rows)} found")
        yield f"version: {version} entries: {count}"
        for row in rows:
            if len(row) == 2:
                yield f"leaderEpoch: {int(row[0])} startOffset: {int(row[1])}"
            else:
                topic, partition, offset = row
                if topic != "#crc32c":
                    yield f"topic: {topic} partition: {int(partition)} offset: {int(offset)}"
                    continue
                yield f"checksum: {int(offset)}"
                data = path.read_bytes()
                if crc32c(data[: data.rindex(b"#")]) != int(offset):
                    raise ValueError("it does not match the checksum")
    except (IndexError, ValueError) as error:
        problems.damaged.append(str(path))
        yield f"Checkpoint {path} is corrupt: {error}"


def _whole(path: Path, entry_size: int) -> bytes:
    data = path.read_bytes()
    return data[: len(data) // entry_size * entry_size]


def _positions(index: Path, base_offset: int) -> list[tuple[int, int]]:
    if not index.exists():
        return []
    rows = _INDEX_ENTRY.iter_unpack(_whole(index, _INDEX_ENTRY.size))
    return [(base_offset + relative, position) for relative, position in rows]


def _batch_of(log_path: Path, position: int, offset: int) -> tuple[int, int]:
    """Return the last offset and newest record timestamp of the batch that contains `offset`."""
    with log_path.open("rb") as log:
        for _, header, batch in batches(log, position):
            if header.last_offset >= offset:
                try:
                    newest = max((record.timestamp for record in records(batch)), default=-1)
                except RemoteProtocolError:
                    newest = -1
                return header.last_offset, newest
    return -1, -1


def _snapshot_damage(data: bytes) -> str:
    if len(data) < _SNAPSHOT_HEADER.size:
        return f"{len(data)} bytes"
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        return f"version {version}"
    if crc != crc32c(data[_CRC_END:]):
        return f"stored crc {crc} does not match"
    if len(data) != _SNAPSHOT_HEADER.size + count * _PRODUCER_ENTRY.size:
        return f"{count} entries in {len(data)} bytes"
    return ""
