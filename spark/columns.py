"""Record batches to Arrow columns, without a Python object per record.

Only the chain of record lengths is walked in Python; every other field is gathered by numpy over
many records at once, and keys and values are copied once, by Arrow, out of the batches' bytes.

Record: length:varint attributes:int8 timestampDelta:varint offsetDelta:varint
        keyLength:varint key valueLength:varint value headerCount:varint [header...]
Header: keyLength:varint key valueLength:varint value         (varints are zigzag; -1 is null)
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..protocol.errors import RemoteProtocolError
from ..protocol.primitives import read_varint
from ..protocol.record_batch import BatchHeader, crc_is_valid, headers
from ..protocol.records import record_bytes
from ..protocol.types import Buffer

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

LONGEST_VARINT: Final = 10
ROWS_TOGETHER: Final = 10_000
BYTES_TOGETHER: Final = 8 << 20
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Columns(NamedTuple):
    """Records of one partition: offsets, timestamps in ms and their types, keys and so on."""

    offsets: Ints
    timestamps_ms: Ints
    timestamp_types: Ints
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None


class _Piece(NamedTuple):
    """The records of one batch, as bytes, and what its header says of all of them."""

    payload: bytes
    header: BatchHeader


def decode(
    data: Buffer, start: int, end: int, *, with_headers: bool, check_crcs: bool = True
) -> Iterator[Columns]:
    """Decode whole batches, keeping records at `start` up to, not including, `end`.

    Small batches are decoded together, so that a topic of one-record batches costs little more
    than one of large ones. Control batches are skipped: they hold markers, not records.
    RemoteProtocolError when a batch does not hold what its header says.
    """
    pieces: list[_Piece] = []
    rows = size = 0
    for pos, header in headers(data):
        if header.is_control or header.last_offset < start or header.base_offset >= end:
            continue
        if check_crcs and not crc_is_valid(data, pos, header):
            raise RemoteProtocolError(f"the batch at offset {header.base_offset} is corrupt")
        pieces.append(_Piece(record_bytes(data, pos, header), header))
        rows += header.record_count
        size += len(pieces[-1].payload)
        if rows >= ROWS_TOGETHER or size >= BYTES_TOGETHER:
            yield _only(_decode(pieces, with_headers=with_headers), start, end)
            pieces.clear()
            rows = size = 0
    if pieces:
        yield _only(_decode(pieces, with_headers=with_headers), start, end)


def _only(columns: Columns, start: int, end: int) -> Columns:
    inside = (columns.offsets >= start) & (columns.offsets < end)
    if bool(inside.all()):
        return columns
    mask = pa.array(inside)
    return Columns(
        offsets=columns.offsets[inside],
        timestamps_ms=columns.timestamps_ms[inside],
        timestamp_types=columns.timestamp_types[inside],
        keys=columns.keys.filter(mask),
        values=columns.values.filter(mask),
        headers=None if columns.headers is None else columns.headers.filter(mask),
    )


def _decode(pieces: list[_Piece], *, with_headers: bool) -> Columns:
    lengths_at: list[int] = []
    base = 0
    for payload, header in pieces:
        lengths_at += _walk(payload, header.record_count, base)
        base += len(payload)
    # Padded, so that a varint read at the very end stays inside the array.
    payload = b"".join([*(piece.payload for piece in pieces), bytes(LONGEST_VARINT)])
    raw = np.frombuffer(payload, dtype=np.uint8)
    positions = np.array(lengths_at, dtype=np.int64)
    lengths, starts = _varints(raw, positions, np.full_like(positions, base))
    stops = starts + lengths
    at = starts + 1
    timestamp_delta, at = _varints(raw, at, stops)
    offset_delta, at = _varints(raw, at, stops)
    keys, at = _spans(raw, at, stops)
    values, at = _spans(raw, at, stops)
    header_counts, at = _varints(raw, at, stops)
    if bool(((at > stops) | (header_counts < 0)).any()):
        raise RemoteProtocolError(f"near offset {pieces[0].header.base_offset}: a record overruns")
    each = _for_each_record(pieces)
    types = each([int(header.timestamp_type) for _, header in pieces])
    timestamps = each([header.base_timestamp for _, header in pieces]) + timestamp_delta
    if bool(types.any()):
        newest = each([header.max_timestamp for _, header in pieces])
        timestamps = np.where(types == 1, newest, timestamps)
    return Columns(
        offsets=each([header.base_offset for _, header in pieces]) + offset_delta,
        timestamps_ms=timestamps,
        timestamp_types=types,
        keys=keys,
        values=values,
        headers=_headers(payload, at, stops, header_counts) if with_headers else None,
    )


def _for_each_record(pieces: list[_Piece]) -> Callable[[list[int]], Ints]:
    """Spread a value of each batch over the records of the batch."""
    counts = [header.record_count for _, header in pieces]
    return lambda values: np.repeat(np.array(values, dtype=np.int64), counts)


def _walk(payload: bytes, count: int, base: int) -> list[int]:
    """Follow the record lengths: where each stands, if the payload stands at `base`."""
    positions: list[int] = []
    append = positions.append
    pos = 0
    try:
        for _ in range(count):
            append(base + pos)
            low = payload[pos]
            if low < 0x80:
                pos += 1 + (low >> 1)
                continue
            high = payload[pos + 1]
            if high < 0x80:
                pos += 2 + ((low & 0x7F) >> 1) + (high << 6)
                continue
            length, pos = read_varint(payload, pos)
            pos += length
            if length < 0:
                raise RemoteProtocolError(f"a record claims {length} bytes")
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError("a batch ends inside a record") from error
    if pos != len(payload):
        raise RemoteProtocolError(f"{count} records take {pos} of a batch's {len(payload)} bytes")
    return positions


def _varints(raw: Bytes, at: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Read a zigzag varint at each position, none past its record's end."""
    at = np.minimum(at, stops)
    byte = raw[at].astype(np.int64)
    value = byte & 0x7F
    at = at + 1
    shift = 7
    more = np.flatnonzero(byte > 0x7F)
    while len(more):
        if shift >= 7 * LONGEST_VARINT:
            raise RemoteProtocolError("a varint is longer than 10 bytes")
        here = np.minimum(at[more], stops[more])
        byte = raw[here].astype(np.int64)
        value[more] |= (byte & 0x7F) << shift
        at[more] = here + 1
        shift += 7
        more = more[byte > 0x7F]
    return (value >> 1) ^ -(value & 1), at


def _spans(raw: Bytes, at: Ints, stops: Ints) -> tuple[pa.Array, Ints]:
    """Read a length and so many bytes at each position: an Arrow array, nulls for -1."""
    lengths, begin = _varints(raw, at, stops)
    end = begin + np.maximum(lengths, 0)
    if bool(((lengths < -1) | (end > stops)).any()):
        raise RemoteProtocolError("a key or value overruns its record")
    count = len(begin)
    if count == 0:
        return pa.array([], type=pa.binary()), end
    # Elements 0, 2, 4 ... of an array laid over the batch are what we want, the odd ones lie
    # between them; `take` copies the wanted ones together.
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = begin
    edges[1::2] = end
    overlay = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(raw)]
    )
    wanted: Any = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=lengths < 0)
    return overlay.take(wanted), end


def _headers(payload: bytes, at: Ints, stops: Ints, counts: Ints) -> pa.Array:
    """Read headers, the one field that is walked record by record: few records have any."""
    rows: list[list[dict[str, object]] | None] = []
    for start, stop, count in zip(at.tolist(), stops.tolist(), counts.tolist(), strict=True):
        pos = start
        row: list[dict[str, object]] = []
        for _ in range(count):
            key, pos = _header_part(payload, pos, stop)
            value, pos = _header_part(payload, pos, stop)
            row.append({"key": (key or b"").decode("utf-8", "replace"), "value": value})
        if pos != stop:
            raise RemoteProtocolError("a record's headers do not end where the record ends")
        rows.append(row or None)
    return pa.array(rows, type=HEADERS_TYPE)


def _header_part(payload: bytes, pos: int, stop: int) -> tuple[bytes | None, int]:
    """Read a length and so many bytes, none past the record's end."""
    try:
        length, pos = read_varint(payload, pos)
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError("a header overruns its record") from error
    if length < 0:
        length, part = 0, None
    else:
        part = payload[pos : pos + length]
    if pos + length > stop:
        raise RemoteProtocolError("a header overruns its record")
    return part, pos + length
