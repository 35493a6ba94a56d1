"""Converts the headers of many records to one Arrow column.

Header: keyLength:varint key valueLength:varint value (varints are zigzag; -1 is null)

The first headers of all records are located in one step, then the second headers of the records
that have two, and so on. If a record has very many headers, or a key is not UTF-8, records are read
one by one.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..protocol.errors import RemoteProtocolError
from ..protocol.primitives import read_varint
from ..protocol.records.record_columns import read_lengths
from ..protocol.types import Buffer

Ints = NDArray[np.int64]

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MANY: Final = 64
"""If a record has more headers than this, records are read one by one, which is then as fast."""


def pieces_of(payload: Buffer, begin: Ints, lengths: Ints) -> pa.Array:
    """Return pieces of the payload, in rising order, as an Arrow array; null for length -1."""
    count = len(begin)
    if count == 0:
        return pa.array([], type=pa.binary())
    # Elements 0, 2, 4 ... of an array laid over the payload are the wanted pieces, the odd ones lie
    # between them; `take` copies the wanted ones together.
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = begin
    edges[1::2] = begin + np.maximum(lengths, 0)
    overlay = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(payload)]
    )
    null = lengths < 0
    wanted = pa.array(
        np.arange(0, 2 * count, 2, dtype=np.int32), mask=null if bool(null.any()) else None
    )
    return overlay.take(wanted)


def headers_of(payload: Buffer, at: Ints, stops: Ints, counts: Ints) -> pa.Array:
    """Return the headers of many records, one list for each record; null if a record has none.

    The bytes from `at[i]` to `stops[i]` (exclusive) hold the `counts[i]` headers of record i.
    Raises RemoteProtocolError if headers do not fill their space exactly.
    """
    if not bool(counts.any()):
        return pa.nulls(len(counts), HEADERS_TYPE)
    if bool((counts > (stops - at) // 2).any()):
        raise RemoteProtocolError("a header overruns its record")
    if int(counts.max()) > MANY:
        return _one_by_one(payload, at, stops, counts)
    found = _located(np.frombuffer(payload, dtype=np.uint8), at, stops, counts)
    try:
        keys = pieces_of(payload, found[0], np.maximum(found[1], 0)).cast(pa.string())
    except pa.ArrowInvalid:
        return _one_by_one(payload, at, stops, counts)
    values = pieces_of(payload, found[2], found[3])
    edges = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    each = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    return pa.ListArray.from_arrays(edges, each, mask=pa.array(counts == 0)).cast(HEADERS_TYPE)


def _located(raw: NDArray[np.uint8], at: Ints, stops: Ints, counts: Ints) -> Ints:
    """Return positions and lengths of keys, then of values: four rows, a column per header.

    Raise RemoteProtocolError if headers and records do not end together.
    """
    found = np.empty((4, int(counts.sum())), dtype=np.int64)
    slots = (np.cumsum(counts) - counts)[counts > 0]
    left, pos, stop = (each[counts > 0] for each in (counts, at, stops))
    while len(left):
        for row in (0, 2):
            try:
                length, pos = read_lengths(raw, pos, stop)
            except ValueError as error:
                raise RemoteProtocolError("a header overruns its record") from error
            found[row, slots], found[row + 1, slots] = pos, length
            pos = pos + np.maximum(length, 0)
        if bool((pos[left == 1] != stop[left == 1]).any()):
            raise RemoteProtocolError("a record's headers do not end where the record ends")
        more = left > 1
        left, pos, stop, slots = left[more] - 1, pos[more], stop[more], slots[more] + 1
    return found


def _one_by_one(payload: Buffer, at: Ints, stops: Ints, counts: Ints) -> pa.Array:
    rows: list[list[dict[str, object]] | None] = []
    for start, stop, count in zip(at.tolist(), stops.tolist(), counts.tolist(), strict=True):
        written = bytes(payload[start:stop])
        pos = 0
        row: list[dict[str, object]] = []
        for _ in range(count):
            key, pos = _part(written, pos)
            value, pos = _part(written, pos)
            row.append({"key": (key or b"").decode("utf-8", "replace"), "value": value})
        if pos != len(written):
            raise RemoteProtocolError("a record's headers do not end where the record ends")
        rows.append(row or None)
    return pa.array(rows, type=HEADERS_TYPE)


def _part(written: bytes, pos: int) -> tuple[bytes | None, int]:
    """Read a length and that many bytes, None for null; return them and the next position.

    Raise RemoteProtocolError if the bytes end before.
    """
    try:
        length, pos = read_varint(written, pos)
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError("a header overruns its record") from error
    if length < 0:
        return None, pos
    if pos + length > len(written):
        raise RemoteProtocolError("a header overruns its record")
    return written[pos : pos + length], pos + length
