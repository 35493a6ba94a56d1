"""Record batches to Arrow columns, without a Python object per record.

Where fields are is found for many records at once (`record_columns`, by whichever codec is live);
keys and values are copied once, by Arrow, out of the bytes that came from the broker.
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
"""More would not stay in a processor's cache between the steps."""
ROWS_PER_BATCH: Final = 10_000
"""Spark handles Arrow batches of this size best; larger record batches are cut."""
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")


class Columns(NamedTuple):
    """Records of one partition: offsets, timestamps in ms and their types, keys and so on."""

    offsets: Ints
    timestamps_ms: Ints
    timestamp_types: Ints
    keys: Any
    values: Any
    headers: Any
    """Arrow arrays; None where they were not asked for."""


class _Piece(NamedTuple):
    """The records of one batch, as bytes, and what its header says of all of them."""

    payload: Buffer
    at: int
    """The payload's position in the bytes that were fetched; -1 if the payload was decompressed."""
    header: BatchHeader


def decode_batches(
    data: Buffer, batches: Iterable[Placed], wanted: range, fields: Collection[str]
) -> Iterator[Columns]:
    """Decode batches of `data` that were checked, keeping the records at `wanted` offsets.

    Of key, value and headers only what `fields` names is read.
    Small batches are decoded together, so that a topic of one-record batches costs little more
    than one of large ones. RemoteProtocolError when a batch does not hold what its header says.
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
    """Puts one partition's columns into Arrow batches, as a query's schema has them."""

    def __init__(self, topic: str, partition: int, schema: pa.Schema) -> None:
        """`schema` has some of the connector's columns, in the order wanted."""
        self._schema = schema
        # These columns are the same in every row: made once for the longest batch, and cut to
        # length.
        self._constants = {
            "topic": pa.repeat(pa.scalar(topic), 1),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), 1),
        }

    def of(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Make batches of at most ROWS_PER_BATCH rows.

        ArrowInvalid for a timestamp that microseconds cannot hold.
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
    """Spread a value of each batch over the records of the batch."""
    counts = [piece.header.record_count for piece in pieces]
    return lambda values: np.repeat(np.array(values, dtype=np.int64), counts)
