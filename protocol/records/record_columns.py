"""Locates the fields of many records with numpy, and makes tuples or columns of the records.

Only the lengths of records are followed in Python, one after the other. This is faster from some
hundreds of records on, so this module, and numpy with it, is imported when a batch has that many. A
table has one row of int64 for each field in FIELDS and one column for each record. Positions count
from `base`.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import record_backend
from .record_python import (
    LOG_APPEND_TIME,
    MIN_RECORD_BYTES,
    Columns,
    dense_range,
    read_headers,
)

Ints = NDArray[np.int64]
T = TypeVar("T", bound=tuple[Any, ...])

FIELDS: Final = (
    "timestamp_delta",
    "offset_delta",
    "key_at",
    "key_length",
    "value_at",
    "value_length",
    "headers_at",
    "header_count",
    "stop",
)
"""The rows of a table. Lengths are -1 for null; `headers_at` is the position after the header
count; `stop` is the end of the record."""
POSITIONS: Final = (2, 4, 6, 8)
"""The rows that hold positions."""
LONGEST_VARINT: Final = 10
_new_tuple = tuple.__new__


def new_table(count: int) -> Ints:
    """Make an empty table for `count` records."""
    return np.empty((len(FIELDS), count), dtype=np.int64)


def locate(body: Any, count: int, base: int, out: Ints, column: int) -> None:
    """Locate `count` records, which must fill `body`, in the table's columns from `column` on.

    Positions get `base` added. Raise ValueError if the records do not fill `body` exactly.
    """
    if count < 0 or column < 0 or count > out.shape[1] - column:
        raise ValueError("no room for so many records")
    found = _fields([body], [count])[1]
    found[list(POSITIONS)] += base
    out[:, column : column + count] = found


def locate_all(bodies: Sequence[Any], counts: Sequence[int]) -> tuple[bytes, Ints]:
    """Join the bodies of batches; return the bytes and the table of all their records in them.

    Raise ValueError if the records of a body do not fill it exactly.
    """
    if record_backend.compiled is None:
        return _fields(bodies, counts)
    bases = list(accumulate(map(len, bodies), initial=0))[:-1]
    return b"".join(bodies), locate_at(bodies, bases, counts)


def locate_at(bodies: Sequence[Any], bases: Sequence[int], counts: Sequence[int]) -> Ints:
    """Return the table of all records of `bodies`, which begin at `bases` in a larger buffer.

    Raise ValueError if the records of a body do not fill it exactly.
    """
    live = record_backend.compiled
    if live is None:
        table = _fields(bodies, counts)[1]
        joined = list(accumulate(map(len, bodies), initial=0))[:-1]
        shifts = np.array(bases, dtype=np.int64) - np.array(joined, dtype=np.int64)
        table[list(POSITIONS)] += np.repeat(shifts, counts)
        return table
    _check_counts(bodies, counts)
    table = new_table(sum(counts))
    column = 0
    for body, base, count in zip(bodies, bases, counts, strict=True):
        live.locate(body, count, base, table, column)
        column += count
    return table


def _check_counts(bodies: Sequence[Any], counts: Sequence[int]) -> None:
    """Raise ValueError if a body is too short for its count of records.

    Call this before allocating memory for the records.
    """
    for body, count in zip(bodies, counts, strict=True):
        if not 0 <= count <= len(body) // MIN_RECORD_BYTES:
            raise ValueError(f"{count} records in {len(body)} bytes")


def _fields(bodies: Sequence[Any], counts: Sequence[int]) -> tuple[bytes, Ints]:
    """Follow the record lengths of each body, then read each field of all records in one step.

    Raise ValueError if a record is malformed.
    """
    _check_counts(bodies, counts)
    table = new_table(sum(counts))
    walks = [_walk(body, count) for body, count in zip(bodies, counts, strict=True)]
    bases = np.cumsum([0, *map(len, bodies)])
    starts = np.concatenate([*walks, np.empty(0, np.int64)]) + np.repeat(bases[:-1], counts)
    # Padded, so that a varint read at the very end stays inside the array.
    joined = b"".join((*bodies, bytes(LONGEST_VARINT)))
    raw = np.frombuffer(joined, dtype=np.uint8)
    lengths, at = _varints(raw, starts, np.repeat(bases[1:], counts))
    stop = at + lengths
    table[0], at = _varints(raw, at + 1, stop)
    table[1], at = _varints(raw, at, stop)
    for row in (2, 4):
        length, at = read_lengths(raw, at, stop)
        table[row], table[row + 1] = at, length
        at = at + np.maximum(length, 0)
    headers, at = _varints(raw, at, stop)
    if bool(((at > stop) | (headers < 0) | ((headers == 0) & (at != stop))).any()):
        raise ValueError("a record does not end where its length says")
    table[6], table[7], table[8] = at, headers, stop
    return joined, table


def decode(
    body: Any, count: int, base: tuple[int, int, Any], make: type[T], prefix: tuple[Any, ...] = ()
) -> list[T]:
    """Decode records as `record_python.decode` does."""
    if type(body) is not bytes:
        body = bytes(body)
    base_offset, base_timestamp, kind = base
    table = _located(body, count)
    rows: Any = zip(
        *map(repeat, prefix),
        _sums(base_offset, table[1]),
        repeat(base_timestamp) if kind == LOG_APPEND_TIME else _sums(base_timestamp, table[0]),
        repeat(kind),
        _slices(body, table[2], table[3]),
        _slices(body, table[4], table[5]),
        _headers(body, table) if bool(table[7].any()) else repeat(()),
    )
    return list(map(_new_tuple, repeat(make), rows))


def decode_columns(body: Any, count: int, base: tuple[int, int, Any]) -> Columns:
    """Decode records as `record_python.decode_columns` does."""
    if type(body) is not bytes:
        body = bytes(body)
    base_offset, base_timestamp, kind = base
    table = _located(body, count)
    found = table.shape[1]
    by_broker = kind == LOG_APPEND_TIME
    keys = None if bool((table[3] < 0).all()) else list(_slices(body, table[2], table[3]))
    values = _slices(body, table[4], table[5])
    return Columns(
        dense_range(_sums(base_offset, table[1])),
        [base_timestamp] * found if by_broker else _sums(base_timestamp, table[0]),
        keys,
        values if isinstance(values, list) else [None] * found,
        list(_headers(body, table)) if bool(table[7].any()) else None,
    )


def _located(body: bytes, count: int) -> Ints:
    return _fields([body], [max(count, 0)])[1]


def _sums(base: int, deltas: Ints) -> list[int]:
    low, high = int(deltas.min(initial=0)), int(deltas.max(initial=0))
    if base + low >= -(1 << 63) and base + high < 1 << 63:
        sums: list[int] = (deltas + base).tolist()
        return sums
    return [base + delta for delta in deltas.tolist()]


def _slices(body: bytes, starts: Ints, lengths: Ints) -> Any:
    null = lengths < 0
    if bool(null.all()):
        return repeat(None)
    found: list[bytes | None] = [
        body[start:stop]
        for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    ]
    for index in np.flatnonzero(null).tolist():
        found[index] = None
    return found


def _headers(body: bytes, table: Ints) -> Iterator[Any]:
    for at, count, stop in zip(*table[6:9].tolist(), strict=True):
        if count:
            headers, end = read_headers(body, at, count)
            if end != stop:
                raise ValueError("headers do not end where their record ends")
            yield headers
        else:
            yield ()


def _walk(body: Any, count: int) -> Ints:
    """Follow the record lengths, and return the position of each length.

    Raise ValueError if the lengths do not fill `body` exactly.
    """
    positions: list[int] = []
    append = positions.append
    pos, size = 0, len(body)
    try:
        for _ in range(count):
            append(pos)
            low = body[pos]
            if low < 0x80:
                pos += 1 + (low >> 1)
            elif (high := body[pos + 1]) < 0x80:
                pos += 2 + ((low & 0x7F) >> 1) + (high << 6)
            else:
                pos = _step(body, pos)
            if low & 1:
                raise ValueError("a negative length")
    except IndexError:
        raise ValueError("the bytes end inside a record") from None
    if pos != size:
        raise ValueError(f"{count} records take {pos} of {size} bytes")
    return np.array(positions, dtype=np.int64)


def _step(body: Any, pos: int) -> int:
    value = shift = 0
    while True:
        byte = body[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return pos + int(value >> 1)
        shift += 7
        if shift >= 7 * LONGEST_VARINT:
            raise ValueError("a varint is longer than 10 bytes")


def _varints(raw: NDArray[np.uint8], at: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Read the zigzag varint at each position; return the values and the positions after them.

    Raise ValueError if one passes `stop`, is longer than 10 bytes, or does not fit 64 bits.
    """
    value, at = _unsigned(raw, at, stop)
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), at


def read_lengths(raw: NDArray[np.uint8], at: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Read the length of a key or value at each position; -1 stands for null.

    Return the lengths and the positions after them. Raise ValueError if the bytes pass `stop`.
    """
    length, at = _varints(raw, at, stop)
    if bool(((length < -1) | (length > stop - at)).any()):
        raise ValueError("a key or value overruns its record")
    return length, at


def _unsigned(raw: NDArray[np.uint8], at: Ints, stop: Ints) -> tuple[NDArray[np.uint64], Ints]:
    if bool((at >= stop).any()):
        raise ValueError("a record ends inside a field")
    byte = raw[at]
    value = (byte & 0x7F).astype(np.uint64)
    at = at + 1
    shift = 7
    more = np.flatnonzero(byte > 0x7F)
    while len(more):
        here = at[more]
        if shift >= 7 * LONGEST_VARINT or bool((here >= stop[more]).any()):
            raise ValueError("a record ends inside a varint, or one is longer than 10 bytes")
        byte = raw[here]
        if shift == 63 and bool((byte & 0x7E).any()):
            raise ValueError("a varint does not fit 64 bits")
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[more] = here + 1
        shift += 7
        more = more[byte > 0x7F]
    return value, at
