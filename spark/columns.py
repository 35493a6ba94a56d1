"""Record batches to Arrow columns, without a Python object per record.

Where fields are is found for many records at once (`record_columns`, by whichever codec is live);
keys and values are copied once, by Arrow, out of the batches' bytes.

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
from ..protocol.record_columns import locate_all
from ..protocol.records import record_bytes
from ..protocol.types import Buffer

Ints = NDArray[np.int64]

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
    counts = [header.record_count for _, header in pieces]
    try:
        payload, table = locate_all([piece.payload for piece in pieces], counts)
    except ValueError as error:
        where = pieces[0].header.base_offset
        raise RemoteProtocolError(f"near offset {where}: {error}") from error
    each = _for_each_record(pieces)
    types = each([int(header.timestamp_type) for _, header in pieces])
    timestamps = each([header.base_timestamp for _, header in pieces]) + table[0]
    if bool(types.any()):
        newest = each([header.max_timestamp for _, header in pieces])
        timestamps = np.where(types == 1, newest, timestamps)
    return Columns(
        offsets=each([header.base_offset for _, header in pieces]) + table[1],
        timestamps_ms=timestamps,
        timestamp_types=types,
        keys=_spans(payload, table[2], table[3]),
        values=_spans(payload, table[4], table[5]),
        headers=_headers(payload, table[6], table[8], table[7]) if with_headers else None,
    )


def _for_each_record(pieces: list[_Piece]) -> Callable[[list[int]], Ints]:
    """Spread a value of each batch over the records of the batch."""
    counts = [header.record_count for _, header in pieces]
    return lambda values: np.repeat(np.array(values, dtype=np.int64), counts)


def _spans(payload: bytes, begin: Ints, lengths: Ints) -> pa.Array:
    """Give pieces of the payload as an Arrow array; null where a length is -1."""
    count = len(begin)
    if count == 0:
        return pa.array([], type=pa.binary())
    # Elements 0, 2, 4 ... of an array laid over the batch are what we want, the odd ones lie
    # between them; `take` copies the wanted ones together.
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = begin
    edges[1::2] = begin + np.maximum(lengths, 0)
    overlay = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(payload)]
    )
    wanted: Any = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=lengths < 0)
    return overlay.take(wanted)


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
