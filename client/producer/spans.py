"""Arrow arrays as records: where each key, value and header begins, and how long it is.

Pure. Needs numpy, pyarrow and the compiled codec, which copies the bytes from Arrow's buffers into
batches without a Python object for each record.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...protocol.primitives import encode_varint, read_varint
from ...protocol.records import record_backend
from ...protocol.records.record_batch import BatchBuilder, Headers
from ...protocol.records.record_python import read_headers
from .accumulator import Row

Ints = NDArray[np.int64]
Pieces = tuple[Any, Ints, Ints]
"""A buffer, the offset at which each item begins in it, and its length (-1 if it is null)."""

_POSITIVE: Final = 0x7FFFFFFF


class Spans:
    """Rows whose bytes stay in Arrow's buffers."""

    __slots__ = ("_headers", "_keys", "_timestamps", "_values", "count", "largest")

    def __init__(
        self, timestamps: Ints, values: Pieces, keys: Pieces | None, headers: Pieces | None = None
    ) -> None:
        """`headers` are encoded as in a record, beginning with their number."""
        self._timestamps, self._values = timestamps, values
        self._keys, self._headers = keys, headers
        self.count = len(timestamps)
        sizes = values[2].clip(0)
        for pieces in (keys, headers):
            if pieces is not None:
                sizes = sizes + pieces[2].clip(0)
        self.largest = int(sizes.max(initial=0))

    def timestamp_of(self, index: int) -> int:
        """Return a record's timestamp in milliseconds since the epoch."""
        return int(self._timestamps[index])

    def fill(self, builder: BatchBuilder, start: int, max_size: int) -> int:
        """Add the records from `start` on that fit; return the index of the first one not added."""
        extend: Any = builder.extend_spans  # type: ignore[attr-defined]  # the compiled body has it
        columns = (self._timestamps, self._values, self._keys)
        return int(extend(*columns, start, max_size, self._headers))

    def by_partition(self, partition_count: int) -> "list[tuple[int | None, Spans]]":
        """Split the rows by the partition of their keys; None stands for a missing key."""
        if self._keys is None:
            return [(None, self)]
        choices = _choices(self._keys, partition_count)
        found: list[tuple[int | None, Spans]] = []
        for choice, which in groups_of(choices):
            some = self if which is None else self._only(which)
            found.append((None if choice < 0 else choice, some))
        return found

    def _only(self, which: Ints) -> "Spans":
        def pick(pieces: Pieces | None) -> Pieces | None:
            return None if pieces is None else (pieces[0], pieces[1][which], pieces[2][which])

        data, starts, lengths = self._values
        values = data, starts[which], lengths[which]
        return Spans(self._timestamps[which], values, pick(self._keys), pick(self._headers))

    def __iter__(self) -> Iterator[Row]:
        for index in range(self.count):
            key = None if self._keys is None else _piece(self._keys, index)
            headers = None if self._headers is None else _piece(self._headers, index)
            value = _piece(self._values, index)
            yield self.timestamp_of(index), key, value, _read(headers)


def spans_of(timestamps: int | list[int], values: Any, keys: Any, headers: Any) -> Spans:
    """Make rows of Arrow arrays; raise ValueError or TypeError for records that are not valid."""
    count = len(values)
    if isinstance(timestamps, int):
        times = np.full(count, timestamps, dtype=np.int64)
    else:
        times = np.array(timestamps, dtype=np.int64)
    if any(each is not None and len(each) != count for each in (times, keys, headers)):
        raise ValueError("values, keys, headers and timestamps are of unequal length")
    if keys is not None and not hasattr(keys, "type"):
        keys = pa.array(keys, type=pa.binary())
    return Spans(
        times,
        pieces_of(values),
        None if keys is None or keys.null_count == count else pieces_of(keys),
        None if headers is None else header_pieces(headers),
    )


def pieces_of(column: Any) -> Pieces:
    """Return the buffer, offsets and lengths of an Arrow array of bytes or text.

    Raise TypeError for another type.
    """
    column = _one_array(column)
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        width: Any = np.int32
    elif pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        width = np.int64
    else:
        raise TypeError(f"keys and values must be binary, not {column.type}")
    _, offsets, data = column.buffers()
    if len(column) == 0 or offsets is None:
        return b"", np.empty(0, np.int64), np.empty(0, np.int64)
    edges = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
    starts = edges[:-1].astype(np.int64)
    lengths = edges[1:].astype(np.int64) - starts
    if column.null_count:
        lengths[~column.is_valid().to_numpy(zero_copy_only=False)] = -1
    return b"" if data is None else data, starts, lengths


def header_pieces(column: Any) -> Pieces | None:
    """Encode the headers of each record; return None if no record has any.

    `column` is list<struct<key: string, value: binary>>. Raise TypeError for another type,
    ValueError for a header without a key.
    """
    column = _one_array(column)
    check_header_type(column.type)
    counts: Ints = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    if not bool(counts.any()):
        return None
    # `flatten` applies the structs' nulls to their fields, and leaves out lists that are null.
    parts = dict(zip(("key", "value"), column.flatten().flatten(), strict=True))
    keys, values = parts["key"].cast(pa.binary()), parts["value"].cast(pa.binary())
    if keys.null_count:
        raise ValueError("a header without a key")
    first = np.cumsum(counts) - counts
    has_any = counts > 0
    numbers = np.zeros(len(keys), dtype=np.int64)
    numbers[first[has_any]] = counts[has_any]
    written = pc.binary_join_element_wise(
        _varints(numbers, numbers > 0),
        _varints(pc.binary_length(keys).to_numpy()),
        keys,
        _varints(pc.binary_length(values).fill_null(-1).to_numpy()),
        values.fill_null(b""),
        b"",
    )
    data, starts, lengths = pieces_of(written)
    edges = np.append(starts, starts[-1] + lengths[-1])
    begin = edges[first]
    return data, begin, np.where(has_any, edges[first + counts] - begin, -1)


def check_header_type(kind: Any) -> None:
    """Raise TypeError unless `kind` is list<struct<key, value>>."""
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if (
        inner is None
        or not pa.types.is_struct(inner)
        or [f.name for f in inner] != ["key", "value"]
    ):
        raise TypeError(f"headers must be list<struct<key: string, value: binary>>, not {kind}")


def groups_of(choices: Any) -> Iterator[tuple[int, Ints | None]]:
    """Yield each distinct choice and the indexes of its rows, or None for all rows."""
    if len(choices) == 0:
        return
    order = np.argsort(choices, kind="stable")
    arranged = choices[order]
    edges = [0, *(np.flatnonzero(arranged[1:] != arranged[:-1]) + 1).tolist(), len(choices)]
    for begin, end in pairwise(edges):
        which = None if end - begin == len(choices) else order[begin:end]
        yield int(arranged[begin]), which


def _one_array(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def _choices(keys: Pieces, partition_count: int) -> Any:
    hashes = np.empty(len(keys[1]), dtype=np.uint32)
    record_backend.compiled.murmur2_spans(keys, hashes)
    choices = (hashes & _POSITIVE).astype(np.int64) % partition_count
    choices[keys[2] < 0] = -1
    return choices


def _varints(numbers: Any, where: Any = None) -> Any:
    """Encode each number as a varint; where an item of `where` is False, encode it as no bytes."""
    different, back = np.unique(numbers, return_inverse=True)
    written = pa.array([encode_varint(each) for each in different.tolist()], type=pa.binary())
    found = written.take(pa.array(back))
    return found if where is None else pc.if_else(pa.array(where), found, b"")


def _piece(pieces: Pieces, index: int) -> bytes | None:
    data, starts, lengths = pieces
    if lengths[index] < 0:
        return None
    start = int(starts[index])
    return bytes(memoryview(data)[start : start + int(lengths[index])])


def _read(headers: bytes | None) -> Headers:
    if headers is None:
        return ()
    count, pos = read_varint(headers, 0)
    return read_headers(headers, pos, count)[0]
