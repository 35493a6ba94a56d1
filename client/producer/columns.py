"""Records that are passed as columns: lists of bytes, or Arrow arrays.

Pure. Columns become `Rows`; one call of `fill` adds as many of them to a batch as fit. With the
compiled codec, bytes are copied from Arrow's buffers straight into batches. Without it, Arrow
arrays are turned into lists. numpy and pyarrow are imported only when the user passes Arrow arrays.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from ...protocol.partitioning import partition_for_key
from ...protocol.records import record_backend
from ...protocol.records.record_batch import BatchBuilder, Headers
from ..errors import MessageTooLarge
from ..records import ProducerRecord
from ..serialization import K, Serializer, V
from .accumulator import RECORD_OVERHEAD, Row, checked_size

Bytes = Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class Columns(Generic[K, V]):
    """Records for `send_batch` as columns of equal length: values, and optionally keys and headers.

    A column is a list, or an Arrow array of type binary, large_binary, string or large_string. Its
    None or null items are null. Headers in Arrow are list<struct<key: string, value: binary>>.
    """

    values: Sequence[V | None]
    keys: Sequence[K | None] | None = None
    timestamp_ms: int | Sequence[int] | None = None
    """Milliseconds since the epoch, one for all records or one for each; None means now."""
    headers: Sequence[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self.values)


Records = Iterable[ProducerRecord[K, V]] | Columns[K, V]
"""The records that `send_batch` takes."""


class Rows(Protocol):
    """Checked records, accessed by index, that can be put into batches."""

    @property
    def count(self) -> int:
        """The number of records."""

    @property
    def largest(self) -> int:
        """The bytes of the largest record: its key, value and headers together."""

    def timestamp_of(self, index: int) -> int:
        """Return a record's timestamp in milliseconds since the epoch."""

    def fill(self, builder: BatchBuilder, start: int, max_size: int) -> int:
        """Add records from index `start` on while the batch stays within `max_size` bytes.

        An empty batch takes one record of any size. Return the index of the first record not added.
        """

    def by_partition(self, partition_count: int) -> "Sequence[tuple[int | None, Rows]]":
        """Split the rows by the partition of their keys; None stands for a missing key."""

    def __iter__(self) -> Iterator[Row]:
        """Yield the timestamp, key, value and headers of each record."""


class Lists:
    """Rows that are kept as lists of bytes."""

    __slots__ = ("_headers", "_keys", "_timestamps", "_values", "count", "largest")

    def __init__(
        self,
        values: Bytes,
        keys: Bytes | None,
        timestamps: int | Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Take the columns.

        Raise TypeError if a value is not bytes, ValueError for unequal lengths.
        """
        self._values = values if isinstance(values, list) else list(values)
        self._keys = keys if keys is None or isinstance(keys, list) else list(keys)
        self.count = len(self._values)
        self._timestamps = timestamps
        self._headers = None if headers is None or not any(headers) else list(headers)
        if not isinstance(timestamps, int) and len(timestamps) != self.count:
            raise ValueError(f"{len(timestamps)} timestamps for {self.count} values")
        if headers is not None and len(headers) != self.count:
            raise ValueError(f"headers of {len(headers)} records for {self.count} values")
        self.largest, _ = record_backend.measure(self._values, self._keys)
        if self._headers is not None:
            self.largest = max(map(_size, self))

    def timestamp_of(self, index: int) -> int:
        """Return a record's timestamp in milliseconds since the epoch."""
        return self._timestamps if isinstance(self._timestamps, int) else self._timestamps[index]

    def fill(self, builder: BatchBuilder, start: int, max_size: int) -> int:
        """Add the records from `start` on that fit; return the index of the first one not added."""
        if isinstance(self._timestamps, int) and self._headers is None:
            return builder.extend(self._timestamps, self._values, self._keys, start, max_size)
        stop = start
        while stop < self.count:
            row = self._row(stop)
            if builder.record_count and builder.size + _size(row) + RECORD_OVERHEAD > max_size:
                break
            builder.append(*row)
            stop += 1
        return stop

    def by_partition(self, partition_count: int) -> "list[tuple[int | None, Lists]]":
        """Split the rows by the partition of their keys; None stands for a missing key."""
        if self._keys is None:
            return [(None, self)]
        indexes: dict[int | None, list[int]] = {}
        for index, key in enumerate(self._keys):
            # Records without a key stay together: they fill a batch of one partition at a time.
            choice = None if key is None else partition_for_key(key, partition_count)
            indexes.setdefault(choice, []).append(index)
        if len(indexes) == 1:
            return [(choice, self) for choice in indexes]
        return [(choice, self._only(which)) for choice, which in indexes.items()]

    def _only(self, indexes: list[int]) -> "Lists":
        def pick(column: Any) -> Any:
            return [column[index] for index in indexes] if isinstance(column, list) else column

        timestamps = self._timestamps
        if not isinstance(timestamps, int):
            timestamps = [timestamps[index] for index in indexes]
        return Lists(pick(self._values), pick(self._keys), timestamps, pick(self._headers))

    def _row(self, index: int) -> Row:
        key = None if self._keys is None else self._keys[index]
        headers = None if self._headers is None else self._headers[index]
        return self.timestamp_of(index), key, self._values[index], headers or ()

    def __iter__(self) -> Iterator[Row]:
        return map(self._row, range(self.count))


def _size(row: Row) -> int:
    """Return the bytes of a record's key, value and headers, without overhead.

    Raise TypeError for a key or value that is not bytes.
    """
    return checked_size(row, sys.maxsize) - RECORD_OVERHEAD


def checked_rows(
    columns: Columns[K, V],
    serializers: tuple[Serializer[K] | None, Serializer[V] | None],
    wall_ms: int,
    max_record: int,
) -> Rows:
    """Serialize keys and values if there is a serializer for them, and make rows of the bytes.

    Raise MessageTooLarge if a record is larger than `max_record`, and errors as `rows_of` does.
    """
    keys = None if columns.keys is None else _serialized(columns.keys, serializers[0])
    values = _serialized(columns.values, serializers[1])
    rows = rows_of(Columns(values, keys, columns.timestamp_ms, columns.headers), wall_ms)
    if rows.largest > max_record:
        raise MessageTooLarge(rows.largest, max_record)
    return rows


def _serialized(column: Any, serializer: Callable[[Any], bytes] | None) -> Any:
    if serializer is None:
        return column
    plain = column.to_pylist() if _is_arrow(column) else column
    return [None if one is None else serializer(one) for one in plain]


def rows_of(columns: Columns[Any, Any], wall_ms: int) -> Rows:
    """Make rows of columns of bytes; raise TypeError or ValueError for invalid records."""
    values, keys, timestamps = columns.values, columns.keys, columns.timestamp_ms
    headers: Any = columns.headers
    if timestamps is None:
        timestamps = wall_ms
    if not isinstance(timestamps, int) and not isinstance(timestamps, list):
        timestamps = _plain_list(timestamps)
    in_arrow = headers is None or _is_arrow(headers)
    if _is_arrow(values) and in_arrow and record_backend.compiled is not None:
        from .spans import spans_of

        return spans_of(timestamps, values, keys, headers)
    if headers is not None and _is_arrow(headers):
        from .spans import check_header_type

        check_header_type(headers.type)
        headers = [
            [(header["key"], header["value"]) for header in each or ()]
            for each in headers.to_pylist()
        ]
    plain_keys = None if keys is None else _plain_list(keys)
    return Lists(_plain_list(values), plain_keys, timestamps, headers)


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "buffers") or hasattr(column, "combine_chunks")


def _plain_list(column: Any) -> Any:
    if not _is_arrow(column):
        return column
    found = column.to_pylist()
    if found and any(isinstance(one, str) for one in found):
        return [None if one is None else one.encode() for one in found]
    return found
