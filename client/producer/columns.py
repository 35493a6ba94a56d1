"""Many records handed over as columns: lists of bytes, or Arrow's arrays.

Pure. Columns become `Rows`, of which a batch takes as many as fit in one call. With the compiled
codec Arrow's bytes are written into batches as they lie in memory; without it they become lists.
numpy is imported only when somebody hands over Arrow's arrays.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from ...protocol import record_backend
from ...protocol.record_batch import BatchBuilder
from ..errors import MessageTooLarge
from ..records import ProducerRecord
from ..serialization import K, Serializer, V

Bytes = Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class Columns(Generic[K, V]):
    """Records for `send_batch`: a value each, and a key each if there are any.

    Lists, or Arrow arrays of type binary, large_binary or string; None is null in both.
    """

    values: Sequence[V | None]
    keys: Sequence[K | None] | None = None
    timestamp_ms: int | Sequence[int] | None = None
    """Milliseconds since the epoch, of all or of each; None is now."""

    def __len__(self) -> int:
        return len(self.values)


Records = Iterable[ProducerRecord[K, V]] | Columns[K, V]
"""What `send_batch` takes."""


class Rows(Protocol):
    """Records on their way into batches, by index."""

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def largest(self) -> int:
        """Bytes of the largest key and value together."""

    @property
    def keys(self) -> Bytes | None:
        """Keys to choose partitions by; None where no record has one."""

    def timestamp_of(self, index: int) -> int:
        """Milliseconds since the epoch."""

    def fill(self, builder: BatchBuilder, start: int, max_size: int) -> int:
        """Add records from the `start`-th on as long as the batch stays within `max_size` bytes.

        An empty batch takes one in any case. Gives the index of the first that was not taken.
        """

    def only(self, indexes: list[int]) -> "Rows":
        """Give some of them."""

    def __iter__(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Timestamp, key and value of each."""


class Lists:
    """Rows out of lists of bytes."""

    __slots__ = ("count", "keys", "largest", "timestamps", "values")

    def __init__(self, values: Bytes, keys: Bytes | None, timestamps: int | Sequence[int]) -> None:
        """TypeError for what is no bytes; ValueError for columns of unequal length."""
        self.values = values if isinstance(values, list) else list(values)
        self.keys = keys if keys is None or isinstance(keys, list) else list(keys)
        self.largest, _ = record_backend.measure(self.values, self.keys)
        self.count = len(self.values)
        self.timestamps = timestamps
        if not isinstance(timestamps, int) and len(timestamps) != self.count:
            raise ValueError(f"{len(timestamps)} timestamps for {self.count} values")

    def timestamp_of(self, index: int) -> int:
        """Milliseconds since the epoch."""
        return self.timestamps if isinstance(self.timestamps, int) else self.timestamps[index]

    def fill(self, builder: BatchBuilder, start: int, max_size: int) -> int:
        """Add those that fit."""
        if isinstance(self.timestamps, int):
            return builder.extend(self.timestamps, self.values, self.keys, start, max_size)
        stop = start
        while stop < self.count:
            taken = builder.extend(
                self.timestamps[stop],
                self.values[stop : stop + 1],
                None if self.keys is None else self.keys[stop : stop + 1],
                0,
                max_size,
            )
            if not taken:
                break
            stop += 1
        return stop

    def only(self, indexes: list[int]) -> "Lists":
        """Give some of them."""
        timestamps = self.timestamps
        if not isinstance(timestamps, int):
            timestamps = [timestamps[index] for index in indexes]
        keys = None if self.keys is None else [self.keys[index] for index in indexes]
        return Lists([self.values[index] for index in indexes], keys, timestamps)

    def __iter__(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        for index, value in enumerate(self.values):
            yield self.timestamp_of(index), self.keys[index] if self.keys else None, value


class Spans:
    """Rows out of Arrow's buffers: where each key and value begins, and how long it is."""

    __slots__ = ("_key_column", "_keys", "_timestamps", "_values", "count", "largest")

    def __init__(self, values: Any, keys: Any, timestamps: Any, key_column: Any = None) -> None:
        """Take (bytes, starts, lengths) of values and of keys or None, and int64 timestamps."""
        self._values, self._keys, self._timestamps = values, keys, timestamps
        self._key_column = key_column
        self.count = len(timestamps)
        sizes = values[2].clip(0)
        if keys is not None:
            sizes = sizes + keys[2].clip(0)
        self.largest = int(sizes.max(initial=0))

    @property
    def keys(self) -> Bytes | None:
        """Keys to choose partitions by."""
        return None if self._key_column is None else _plain_list(self._key_column)

    def timestamp_of(self, index: int) -> int:
        """Milliseconds since the epoch."""
        return int(self._timestamps[index])

    def fill(self, builder: BatchBuilder, start: int, max_size: int) -> int:
        """Add those that fit."""
        extend: Any = builder.extend_spans  # type: ignore[attr-defined]  # the compiled body has it
        return int(extend(self._timestamps, self._values, self._keys, start, max_size))

    def only(self, indexes: list[int]) -> "Spans":
        """Give some of them."""

        def pick(spans: Any) -> Any:
            return None if spans is None else (spans[0], spans[1][indexes], spans[2][indexes])

        return Spans(pick(self._values), pick(self._keys), self._timestamps[indexes])

    def __iter__(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        def piece(spans: Any, index: int) -> bytes | None:
            if spans is None or spans[2][index] < 0:
                return None
            start = int(spans[1][index])
            return bytes(memoryview(spans[0])[start : start + int(spans[2][index])])

        for index in range(self.count):
            yield self.timestamp_of(index), piece(self._keys, index), piece(self._values, index)


def checked_rows(
    columns: Columns[K, V],
    serializers: tuple[Serializer[K] | None, Serializer[V] | None],
    wall_ms: int,
    max_record: int,
) -> Rows:
    """Serialize keys and values where there is a serializer for them, and make rows of the bytes.

    MessageTooLarge where one is larger than `max_record`; TypeError, ValueError as `rows_of`.
    """
    keys = None if columns.keys is None else _serialized(columns.keys, serializers[0])
    values = _serialized(columns.values, serializers[1])
    rows = rows_of(Columns(values, keys, columns.timestamp_ms), wall_ms)
    if rows.largest > max_record:
        raise MessageTooLarge(rows.largest, max_record)
    return rows


def _serialized(column: Any, serializer: Callable[[Any], bytes] | None) -> Any:
    if serializer is None:
        return column
    plain = column.to_pylist() if _is_arrow(column) else column
    return [None if one is None else serializer(one) for one in plain]


def rows_of(columns: Columns[Any, Any], wall_ms: int) -> Rows:
    """Check columns of bytes and make rows of them."""
    values, keys, timestamps = columns.values, columns.keys, columns.timestamp_ms
    if timestamps is None:
        timestamps = wall_ms
    if not isinstance(timestamps, int) and not isinstance(timestamps, list):
        timestamps = _plain_list(timestamps)
    if _is_arrow(values) and record_backend.compiled is not None:
        return _spans_of(values, keys, timestamps)
    return Lists(_plain_list(values), None if keys is None else _plain_list(keys), timestamps)


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "buffers") or hasattr(column, "combine_chunks")


def _plain_list(column: Any) -> Any:
    if not _is_arrow(column):
        return column
    found = column.to_pylist()
    if found and any(isinstance(one, str) for one in found):
        return [None if one is None else one.encode() for one in found]
    return found


def _spans_of(values: Any, keys: Any, timestamps: int | list[int]) -> Spans:
    import numpy as np

    count = len(values)
    if isinstance(timestamps, int):
        times = np.full(count, timestamps, dtype=np.int64)
    else:
        times = np.array(timestamps, dtype=np.int64)
    if len(times) != count or (keys is not None and len(keys) != count):
        raise ValueError("values, keys and timestamps are of unequal length")
    if keys is not None and not _is_arrow(keys):
        import pyarrow as pa

        keys = pa.array(keys, type=pa.binary())
    return Spans(_span(values), None if keys is None else _span(keys), times, keys)


def _span(column: Any) -> tuple[Any, Any, Any]:
    """Take an Arrow array apart: its bytes, where each element begins, how long it is or -1."""
    import numpy as np
    import pyarrow as pa

    if hasattr(column, "combine_chunks") and not hasattr(column, "buffers"):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.binary())
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
