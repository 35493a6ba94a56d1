"""The records of one batch as slices: the position, the key and the offset of each for compaction.

Pure. Keys are copied out; values are never read. A record is

    length varint | attributes int8 | timestamp_delta varlong | offset_delta varint
    | key_length varint, key | value_length varint, value | headers

so everything from the offset delta on can be copied unchanged into another batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.compression import Codec, compress
from ...protocol.errors import RemoteProtocolError
from ...protocol.primitives import encode_varint, read_varint
from ...protocol.records.batch_header import CODEC_MASK, DELETE_HORIZON_BIT, HEADER, SIZE_AND_OFFSET
from ...protocol.records.record_backend import find
from ...protocol.records.record_batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    TimestampType,
    seal,
)
from ...protocol.records.records import record_bytes
from ...protocol.types import Buffer


class Slice(NamedTuple):
    """One record within the decompressed records of its batch."""

    start: int
    rest: int
    """The position of the offset delta: the bytes from here to `end` do not depend on the batch."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def walk(buf: Buffer, pos: int, header: BatchHeader) -> tuple[bytes, list[Slice]]:
    """Return the records' bytes, decompressed, and a slice for each record.

    Raises RemoteProtocolError if they are damaged.
    """
    if not header.record_count:
        return b"", []
    body = record_bytes(buf, pos, header)
    found: list[Slice] = []
    at = 0
    try:
        for _ in range(header.record_count):
            found.append(_slice_at(body, at))
            at = found[-1].end
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError(f"{header!r}: damaged at {at}: {error}") from error
    if at != len(body):
        raise RemoteProtocolError(f"{header!r}: {len(body) - at} bytes after the last record")
    return body, found


def slices_at(body: bytes, header: BatchHeader, offsets: Sequence[int]) -> list[Slice]:
    """Return the slices of the records that have these offsets, which ascend."""
    deltas = [offset - header.base_offset for offset in offsets]
    places = find(body, header.record_count, deltas)
    return [_slice_at(body, start) for start, _ in places]


def _slice_at(body: bytes, start: int) -> Slice:
    """Find the slice of one record.

    This runs for every record, so a varint of one byte, the usual size, costs no call. Raise
    ValueError if the record is malformed.
    """
    length, at = read_varint(body, start) if body[start] & 0x81 else (body[start] >> 1, start + 1)
    end = at + length
    if length < 0 or end > len(body):
        raise ValueError(f"a record of {length} bytes")
    timestamp_delta, rest = read_varint(body, at + 1)
    offset_delta, at = read_varint(body, rest)
    byte = body[at]
    size, at = read_varint(body, at) if byte & 0x81 else (byte >> 1, at + 1)
    key = None
    if size >= 0:
        key, at = body[at : at + size], at + size
    byte = body[at]
    size, at = read_varint(body, at) if byte & 0x81 else (byte >> 1, at + 1)
    if at + max(size, 0) >= end:  # The number of headers is still to come.
        raise ValueError("a record ends early")
    return Slice(start, rest, end, timestamp_delta, offset_delta, key, size >= 0)


class Rewrite(NamedTuple):
    """The changes to a batch: the records to keep and a delete horizon."""

    kept: Sequence[Slice]
    """The records to keep, in order; all of them, some, or none."""
    delete_horizon_ms: int | None = None
    """Wall time, in ms, after which the batch's tombstones or its marker may be removed. It is
    stored in the batch (KIP-534)."""


def rewritten(header: BatchHeader, body: bytes, rewrite: Rewrite) -> bytearray:
    """Build the batch with only the kept records.

    Their offsets and timestamps, and the batch's sequences and epochs, are unchanged. A batch that
    has a delete horizon keeps it.
    """
    kept, horizon_ms = rewrite
    if not kept:
        return emptied(header)
    codec = Codec(header.attributes & CODEC_MASK)
    base_timestamp, attributes = header.base_timestamp, header.attributes
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    shift = 0 if horizon_ms is None else base_timestamp - horizon_ms
    base_timestamp -= shift
    parts: list[bytes] = []
    for each in kept:
        if shift:
            rest = body[each.rest : each.end]
            delta = encode_varint(each.timestamp_delta + shift)
            # Kafka defines no attributes of records: the byte is 0.
            parts += (encode_varint(1 + len(delta) + len(rest)), b"\x00", delta, rest)
        else:
            parts.append(body[each.start : each.end])
    packed = compress(codec, b"".join(parts))
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = base_timestamp + shift + max(each.timestamp_delta for each in kept)
    return _batch(header, packed, (attributes, base_timestamp, max_timestamp, len(kept)))


def emptied(header: BatchHeader) -> bytearray:
    """Build the batch without records: its last sequence and its last offset stay."""
    attributes = header.attributes & ~CODEC_MASK & ~DELETE_HORIZON_BIT
    newest = header.max_timestamp
    return _batch(header, b"", (attributes, newest, newest, 0))


def _batch(header: BatchHeader, packed: Buffer, fields: tuple[int, int, int, int]) -> bytearray:
    attributes, base_timestamp, max_timestamp, count = fields
    batch = bytearray(HEADER_SIZE)
    batch += packed
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - SIZE_AND_OFFSET,
        header.leader_epoch,
        MAGIC,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    seal(batch)
    return batch
