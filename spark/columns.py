"""Converts record batches to Arrow columns, without a Python object per record.

The positions of fields are found for many records at once by `record_columns`, in Python or C. Keys
and values are copied only once, by Arrow, out of the bytes that came from the broker.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..protocol.errors import RemoteProtocolError
from ..protocol.records.batch_header import CODEC_MASK
from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader
from ..protocol.records.record_columns import locate_all, locate_at
from ..protocol.records.records import record_view
from ..protocol.types import Buffer
from .committed import Placed
from .header_columns import headers_of, pieces_of

Ints = NDArray[np.int64]

ROWS_TOGETHER: Final = 10_000
BYTES_TOGETHER: Final = 1 << 20
"""Batches are decoded together up to this size: more would not stay in the processor's cache."""
ROWS_PER_BATCH: Final = 10_000
"""Spark handles Arrow batches of this size best, so longer ones are cut."""
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")


class Columns(NamedTuple):
    """The columns of some records of one partition; keys, values and headers are Arrow arrays."""

    offsets: Ints
    timestamps_ms: Ints
    timestamp_types: Ints
    keys: Any
    values: Any
    headers: Any
    """`keys`, `values` and `headers` are Arrow arrays; None if the query does not need them."""


class _Piece(NamedTuple):
    """The records of one batch, as bytes, and the batch's header."""

    payload: Buffer
    at: int
    """The payload's position in the bytes that were fetched; -1 if the payload was decompressed."""
    header: BatchHeader


def decode_batches(
    data: Buffer, batches: Iterable[Placed], wanted: range, fields: Collection[str]
) -> Iterator[Columns]:
    """Decode checked batches of `data`, and keep the records at `wanted` offsets.

    Of key, value and headers only those named in `fields` are decoded. Small batches are decoded
    together, so that a topic of one-record batches costs little more than one of large batches.
    Raises RemoteProtocolError if a batch does not match its header.
    """
    start, end = wanted.start, wanted.stop
    pieces: list[_Piece] = []
    rows = size = 0
    for pos, header in batches:
        if header.last_offset < start or header.base_offset >= end:
            continue
        payload = record_view(data, pos, header)
        at = -1 if header.attributes & CODEC_MASK else pos + HEADER_SIZE
        pieces.append(_Piece(payload, at, header))
        rows += header.record_count
        size += len(pieces[-1].payload)
        if rows >= ROWS_TOGETHER or size >= BYTES_TOGETHER:
            yield _only(_decode(data, pieces, fields), start, end)
            pieces.clear()
            rows = size = 0
    if pieces:
        yield _only(_decode(data, pieces, fields), start, end)


class RecordBatches:
    """Makes Arrow batches of one partition's columns, by a query's schema."""

    def __init__(self, topic: str, partition: int, schema: pa.Schema) -> None:
        """`schema` has some of the connector's columns, in any order."""
        self._schema = schema
        # These columns have one value in every row, so they are made once and cut to length.
        self._constants = {
            "topic": pa.repeat(pa.scalar(topic), 1),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), 1),
        }

    def of(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most ROWS_PER_BATCH rows.

        Raises ArrowInvalid for a timestamp that does not fit in microseconds.
        """
        count = len(columns.offsets)
        made: dict[str, Callable[[], pa.Array]] = {
            "key": lambda: columns.keys,
            "value": lambda: columns.values,
            "offset": lambda: pa.array(columns.offsets),
            "timestamp": lambda: pa.array(columns.timestamps_ms).cast(_MILLISECONDS),
            "timestampType": lambda: pa.array(columns.timestamp_types.astype(np.int32)),
            "headers": lambda: columns.headers,
        }
        fields = [field for field in self._schema if field.name in made]
        whole = {field.name: _typed(made[field.name](), field.type) for field in fields}
        for first in range(0, count, ROWS_PER_BATCH):
            size = min(ROWS_PER_BATCH, count - first)
            arrays = [
                whole[name].slice(first, size) if name in whole else self._constant(name, size)
                for name in self._schema.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _constant(self, name: str, size: int) -> pa.Array:
        known = self._constants[name]
        if len(known) < size:
            known = self._constants[name] = pa.repeat(known[0], size)
        return known[:size]


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _only(columns: Columns, start: int, end: int) -> Columns:
    inside = (columns.offsets >= start) & (columns.offsets < end)
    if bool(inside.all()):
        return columns
    mask = pa.array(inside)
    return Columns(
        *(each[inside] for each in columns[:3]),
        *(None if each is None else each.filter(mask) for each in columns[3:]),
    )


def _decode(data: Buffer, pieces: list[_Piece], fields: Collection[str]) -> Columns:
    try:
        payload, table = _located(data, pieces)
    except ValueError as error:
        where = pieces[0].header.base_offset
        raise RemoteProtocolError(f"near offset {where}: {error}") from error
    each = _for_each_record(pieces)
    types = each([int(piece.header.timestamp_type) for piece in pieces])
    timestamps = each([piece.header.base_timestamp for piece in pieces]) + table[0]
    if bool(types.any()):
        newest = each([piece.header.max_timestamp for piece in pieces])
        timestamps = np.where(types == 1, newest, timestamps)
    return Columns(
        offsets=each([piece.header.base_offset for piece in pieces]) + table[1],
        timestamps_ms=timestamps,
        timestamp_types=types,
        keys=pieces_of(payload, table[2], table[3]) if "key" in fields else None,
        values=pieces_of(payload, table[4], table[5]) if "value" in fields else None,
        headers=headers_of(payload, table[6], table[8], table[7]) if "headers" in fields else None,
    )


def _located(data: Buffer, pieces: list[_Piece]) -> tuple[Buffer, Ints]:
    """Find the records' fields in `data`, or in a copy of the decompressed payloads."""
    bodies = [piece.payload for piece in pieces]
    counts = [piece.header.record_count for piece in pieces]
    if any(piece.at < 0 for piece in pieces):
        return locate_all(bodies, counts)
    return data, locate_at(bodies, [piece.at for piece in pieces], counts)


def _for_each_record(pieces: list[_Piece]) -> Callable[[list[int]], Ints]:
    """Return a function that repeats each batch's value for all records of the batch."""
    counts = [piece.header.record_count for piece in pieces]
    return lambda values: np.repeat(np.array(values, dtype=np.int64), counts)
