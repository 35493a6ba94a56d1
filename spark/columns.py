"""Record batches to Arrow columns, without a Python object per record.

Only the chain of record lengths is walked in Python; every other field is gathered by numpy over
all records of a batch at once, and keys and values are copied once, by Arrow, out of the batch.

Record: length:varint attributes:int8 timestampDelta:varint offsetDelta:varint
        keyLength:varint key valueLength:varint value headerCount:varint [header...]
Header: keyLength:varint key valueLength:varint value         (varints are zigzag; -1 is null)
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..protocol.errors import RemoteProtocolError
from ..protocol.primitives import read_varint
from ..protocol.record_batch import BatchHeader, headers
from ..protocol.records import record_bytes
from ..protocol.types import Buffer

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

LONGEST_VARINT: Final = 10
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Columns(NamedTuple):
    """The records of one batch: offsets and timestamps in ms, keys, values and headers."""

    offsets: Ints
    timestamps_ms: Ints
    timestamp_type: int
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None


def decode(data: Buffer, start: int, end: int, *, with_headers: bool) -> Iterator[Columns]:
    """Decode whole batches, keeping records at `start` up to, not including, `end`.

    Control batches are skipped: they hold markers, not records. RemoteProtocolError when a batch
    does not hold what its header says.
    """
    for pos, header in headers(data):
        if header.is_control or header.last_offset < start or header.base_offset >= end:
            continue
        columns = _decode_batch(data, pos, header, with_headers=with_headers)
        inside = (columns.offsets >= start) & (columns.offsets < end)
        yield columns if bool(inside.all()) else _only(columns, inside)


def _only(columns: Columns, inside: NDArray[np.bool_]) -> Columns:
    mask = pa.array(inside)
    return columns._replace(
        offsets=columns.offsets[inside],
        timestamps_ms=columns.timestamps_ms[inside],
        keys=columns.keys.filter(mask),
        values=columns.values.filter(mask),
        headers=None if columns.headers is None else columns.headers.filter(mask),
    )


def _decode_batch(data: Buffer, pos: int, header: BatchHeader, *, with_headers: bool) -> Columns:
    payload = record_bytes(data, pos, header)
    size = len(payload)
    # Padded, so that a varint read at the very end stays inside the array.
    raw = np.zeros(size + LONGEST_VARINT, dtype=np.uint8)
    raw[:size] = np.frombuffer(payload, dtype=np.uint8)
    positions = np.array(_walk(payload, header.record_count), dtype=np.int64)
    lengths, starts = _varints(raw, positions, np.full_like(positions, size))
    stops = starts + lengths
    at = starts + 1
    timestamp_delta, at = _varints(raw, at, stops)
    offset_delta, at = _varints(raw, at, stops)
    keys, at = _spans(raw, at, stops)
    values, at = _spans(raw, at, stops)
    header_counts, at = _varints(raw, at, stops)
    if bool(((at > stops) | (header_counts < 0)).any()):
        raise RemoteProtocolError(f"batch at offset {header.base_offset}: a record overruns")
    timestamps = header.base_timestamp + timestamp_delta
    if header.timestamp_type:
        timestamps = np.full(len(starts), header.max_timestamp, dtype=np.int64)
    return Columns(
        offsets=header.base_offset + offset_delta,
        timestamps_ms=timestamps,
        timestamp_type=int(header.timestamp_type),
        keys=keys,
        values=values,
        headers=_headers(payload, at, header_counts) if with_headers else None,
    )


def _walk(payload: bytes, count: int) -> list[int]:
    """Follow the record lengths: where each record's length stands."""
    positions: list[int] = []
    append = positions.append
    pos = 0
    try:
        for _ in range(count):
            append(pos)
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


def _headers(payload: Buffer, at: Ints, counts: Ints) -> pa.Array:
    """Read headers, the one field that is walked record by record: few records have any."""
    rows: list[list[dict[str, object]] | None] = []
    size = len(payload)
    for start, count in zip(at.tolist(), counts.tolist(), strict=True):
        pos = start
        row: list[dict[str, object]] = []
        if count > size:
            raise RemoteProtocolError(f"a record claims {count} headers")
        for _ in range(count):
            key, pos = _header_part(payload, pos)
            value, pos = _header_part(payload, pos)
            row.append({"key": (key or b"").decode("utf-8", "replace"), "value": value})
        rows.append(row or None)
    return pa.array(rows, type=HEADERS_TYPE)


def _header_part(payload: Buffer, pos: int) -> tuple[bytes | None, int]:
    try:
        length, pos = read_varint(payload, pos)
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError("a header overruns its batch") from error
    if length < 0:
        return None, pos
    if pos + length > len(payload):
        raise RemoteProtocolError("a header overruns its batch")
    return bytes(payload[pos : pos + length]), pos + length
