"""The record codec in Python: the reference, and the codec in use without the compiled one.

It handles the records of one batch as bytes, without the header: `RecordBody` collects them,
`decode` reads them. `_records.pyx` writes the same bytes and refuses the same input; tests compare
the two. It is fast because it looks varints up in tables and joins many records in one call.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from operator import add
from typing import Any, Final, NamedTuple, TypeVar

from ..errors import LocalProtocolError
from ..primitives import encode_varint
from .varint_tables import VARINTS, SizedTable, VarintTable, varint

Headers = Sequence[tuple[str, bytes | None]]
HEADER_ROOM: Final = 61
"""The free bytes in front of the records, in which a batch's header is written without a copy."""
MIN_RECORD_BYTES: Final = 7
LONGEST_INT32: Final = 5
"""The most bytes that a varint of 32 bits takes."""
MOST_NAMED: Final = 100
"""The most bad records of a batch that `examine` names."""
LOG_APPEND_TIME: Final = 1
_OFFSET_SIZES: Final = (64, 8192, 1 << 20, 1 << 27, 1 << 34)
"""An offset below the first of these takes 1 byte as a varint, below the second 2, and so on."""
_INT64: Final = 1 << 63
_NULL: Final = b"\x01"
_NO_BYTES: Final = {bytes, type(None)}
_new_tuple = tuple.__new__
T = TypeVar("T", bound=tuple[Any, ...])


class BadRecord(ValueError):
    """A batch's records are malformed; `index` is the first bad record's, or -1 if unknown."""

    def __init__(self, why: str, index: int) -> None:
        super().__init__(why)
        self.index = index


class Columns(NamedTuple):
    """The records of one batch as one column for each field."""

    offsets: Sequence[int]
    """The offsets; a range if there are no gaps."""
    timestamps: Sequence[int]
    keys: list[bytes | None] | None
    """The keys; None if no record has a key."""
    values: list[bytes | None]
    headers: list[Headers] | None
    """The headers; None if no record has headers."""


def _delta(value: int) -> bytes:
    if not -_INT64 <= value < _INT64:
        raise LocalProtocolError("timestamps of one batch are too far apart")
    return varint(value)


_LENGTH: Final = VarintTable(b"")
_NULL_AND_LENGTH: Final = VarintTable(_NULL)
_SIZED: Final = SizedTable()
# The header count of the record before, then this record's length and its attributes. The index is
# the number of bytes that timestamp and offset take.
_BETWEEN: Final = [VarintTable(b"\x00", b"\x00", plus=2 + n) for n in range(24)]


class RecordBody:
    """Collects records as bytes, after room for the batch's header. Offsets count from 0."""

    __slots__ = ("_body", "base_timestamp", "max_timestamp", "record_count")

    def __init__(self) -> None:
        self._body = bytearray(HEADER_ROOM)
        self.base_timestamp = self.max_timestamp = -1
        self.record_count = 0

    @property
    def size(self) -> int:
        """The size in bytes so far, with the room for the header."""
        return len(self._body)

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> int:
        """Add a record and return the size so far.

        Raise TypeError if a key, value or header has a wrong type; raise LocalProtocolError if the
        timestamp is too far from the first record's. In both cases nothing is added.
        """
        count = self.record_count
        base = timestamp if count == 0 else self.base_timestamp
        delta = timestamp - base
        # This runs once per record: lookups are written out, and one join makes the record.
        key_size = _NULL
        if key is None:
            key = b""
        else:
            size = len(key)
            key_size = VARINTS[size] if size < 8192 else encode_varint(size)
        value_size = _NULL
        if value is None:
            value = b""
        else:
            size = len(value)
            value_size = VARINTS[size] if size < 8192 else encode_varint(size)
        record = b"".join(
            (
                b"\x00",
                VARINTS[delta] if 0 <= delta < 8192 else _delta(delta),
                VARINTS[count] if count < 8192 else encode_varint(count),
                key_size,
                key,
                value_size,
                value,
                encode_headers(headers) if headers else b"\x00",
            )
        )
        size = len(record)
        body = self._body
        body += VARINTS[size] if size < 8192 else encode_varint(size)
        body += record
        self.record_count = count + 1
        if count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return len(body)

    def extend(
        self,
        timestamp: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        start: int,
        max_size: int,
    ) -> int:
        """Add values from index `start` on while the size stays within `max_size`.

        `keys` is None, or has a key for each value. A body without records accepts one of any size.
        Return the index of the first value that was not added.
        """
        stop = len(values)
        if start >= stop:
            return start
        if self.record_count == 0:
            self.append(timestamp, None if keys is None else keys[start], values[start])
            start += 1
        fits = True
        while fits and start < stop:
            # Within a run all offsets take equally many bytes.
            count = self.record_count
            run = next(end for end in _OFFSET_SIZES if count < end) - count
            last = min(stop, start + run, start + self._likely_count(values[start], max_size))
            taken = self._extend_run(timestamp, values, keys, (start, last), max_size)
            fits = taken == last
            start = taken
        return start

    def _likely_count(self, value: bytes | None, max_size: int) -> int:
        """Guess how many values like this one fit, so that few more than these are looked at."""
        room = max_size - len(self._body)
        return max(1, room // (MIN_RECORD_BYTES + 1 + len(value or b"")))

    def _extend_run(
        self,
        timestamp: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        which: tuple[int, int],
        max_size: int,
    ) -> int:
        start, stop = which
        room = max_size - len(self._body)
        some = values[start:stop]
        some_keys = None if keys is None else keys[start:stop]
        if None in some or (some_keys is not None and None in some_keys):
            return self._append_run(timestamp, values, keys, (start, stop), max_size)
        count = self.record_count
        delta = _delta(timestamp - self.base_timestamp)
        between = _BETWEEN[len(delta) + len(varint(count))]
        lengths = list(map(len, some))  # type: ignore[arg-type]
        sized = list(map(_SIZED.__getitem__, lengths))
        before: Any = (map(_NULL_AND_LENGTH.__getitem__, lengths),)
        if some_keys is None:
            sized = list(map((1).__add__, sized))
        else:
            key_lengths = list(map(len, some_keys))  # type: ignore[arg-type]
            sized = list(map(add, sized, map(_SIZED.__getitem__, key_lengths)))
            before = (
                map(_LENGTH.__getitem__, key_lengths),
                some_keys,
                map(_LENGTH.__getitem__, lengths),
            )
        heads = list(map(between.__getitem__, sized))
        # Beside `sized`, a record takes its head and the bytes of timestamp and offset.
        fixed = len(delta) + len(varint(count))
        ends = list(accumulate(map(add, sized, map(len, heads))))
        fit = len(ends)
        if ends[-1] + fixed * fit > room:
            reached = map(add, ends, range(fixed, fixed * (fit + 1), fixed))
            fit = bisect_right(list(reached), room)
        if fit == 0:
            return start
        offsets = VARINTS[count : count + fit]
        if len(offsets) < fit:
            offsets = [varint(n) for n in range(count, count + fit)]
        pieces = zip(heads[:fit], repeat(delta, fit), offsets, *before, some, strict=False)
        joined = b"".join(chain.from_iterable(pieces))
        # `between` begins with the header count of the record before: the first one has it already.
        self._body += memoryview(joined)[1:]
        self._body.append(0)
        self.record_count = count + fit
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return start + fit

    def _append_run(
        self,
        timestamp: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        which: tuple[int, int],
        max_size: int,
    ) -> int:
        """Append records one by one, because some of their keys or values are null."""
        body = self._body
        for index in range(*which):
            before, newest = len(body), self.max_timestamp
            self.append(timestamp, None if keys is None else keys[index], values[index])
            if len(body) > max_size:
                del body[before:]
                self.record_count -= 1
                self.max_timestamp = newest
                return index
        return which[1]

    def take(self) -> bytearray:
        """Return the bytes, which begin with the room for the header, and become empty."""
        body, self._body = self._body, bytearray(HEADER_ROOM)
        self.record_count = 0
        return body


def measure(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> tuple[int, int]:
    """Return the size of the largest key and value pair, and the size of all, in bytes.

    Raise TypeError for an item other than bytes or None, ValueError for unequal lengths.
    """
    for name, column in (("values", values), ("keys", keys or ())):
        wrong = [kind for kind in set(map(type, column)) - _NO_BYTES if not issubclass(kind, bytes)]
        if wrong:
            raise TypeError(f"{name} must be bytes or None, not {min(k.__name__ for k in wrong)}")
    if keys is not None and len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys for {len(values)} values")
    sizes = _sizes(values)
    if keys is not None:
        sizes = list(map(add, sizes, _sizes(keys)))
    return max(sizes, default=0), sum(sizes)


def _sizes(column: Sequence[bytes | None]) -> list[int]:
    if None in column:
        return [0 if one is None else len(one) for one in column]
    return list(map(len, column))  # type: ignore[arg-type]


def encode_headers(headers: Headers) -> bytes:
    """Encode a record's headers, beginning with their count."""
    parts = [varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (varint(len(name)), name)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def decode(
    body: Any,
    count: int,
    base: tuple[int, int, Any],
    make: type[T],
    prefix: tuple[Any, ...] = (),
) -> list[T]:
    """Read `count` records that fill `body`.

    Each record becomes a tuple of type `make`: (*prefix, offset, timestamp, type, key, value,
    headers). `base` is the base offset, the base timestamp and the timestamp type; if the broker
    set the timestamps (type 1), every record has the base timestamp. Keys and values are copies.
    Raise IndexError or ValueError if the records are malformed or do not fill `body`.
    """
    found = _decode(body if type(body) is bytes else bytes(body), count, base)
    if base[2] == LOG_APPEND_TIME:
        at = base[1]
        found = [(offset, at, *rest) for offset, _, *rest in found]
    rows: Any = map(prefix.__add__, found) if prefix else found
    return list(map(_new_tuple, repeat(make), rows))


def decode_columns(body: Any, count: int, base: tuple[int, int, Any]) -> Columns:
    """Read `count` records that fill `body` into columns, one for each field; see `decode`."""
    found = _decode(body if type(body) is bytes else bytes(body), count, base)
    turned: Any = map(list, zip(*found, strict=True)) if found else ([],) * 6
    offsets, timestamps, _, keys, values, headers = turned
    if base[2] == LOG_APPEND_TIME:
        timestamps = [base[1]] * len(found)
    return Columns(
        dense_range(offsets),
        timestamps,
        keys if any(key is not None for key in keys) else None,
        values,
        headers if any(headers) else None,
    )


def dense_range(offsets: list[int]) -> Sequence[int]:
    """Return the offsets as a range if they have no gaps, else the list itself."""
    if offsets:
        dense = range(offsets[0], offsets[0] + len(offsets))
        if offsets[-1] == dense[-1] and list(dense) == offsets:
            return dense
    return offsets


def _decode(body: bytes, count: int, base: tuple[int, int, Any]) -> list[tuple[Any, ...]]:
    """Walk the records; raise IndexError or ValueError if they are malformed.

    Varints of one and two bytes are read inline, because a call for each would double the cost. A
    key or value that runs past the end is noticed at its record's end, where `pos` is too large.
    """
    base_offset, base_timestamp, kind = base
    found: list[tuple[Any, ...]] = []
    add = found.append
    pos, size = 0, len(body)
    for _ in range(count):
        length = body[pos]
        pos += 1
        if length >= 0x80:
            if (more := body[pos]) < 0x80:
                length += (more << 7) - 0x80
                pos += 1
            else:
                length, pos = _continue(body, pos, length)
        end = pos + (length >> 1)
        timestamp = body[pos + 1]  # after the attributes, of which none are defined
        pos += 2
        if timestamp >= 0x80:
            if (more := body[pos]) < 0x80:
                timestamp += (more << 7) - 0x80
                pos += 1
            else:
                timestamp, pos = _continue(body, pos, timestamp)
        offset = body[pos]
        pos += 1
        if offset >= 0x80:
            if (more := body[pos]) < 0x80:
                offset += (more << 7) - 0x80
                pos += 1
            else:
                offset, pos = _continue(body, pos, offset)
        key_length = body[pos]
        pos += 1
        if key_length >= 0x80:
            key_length, pos = _continue(body, pos, key_length)
        if key_length & 1:
            key = _null(key_length)
        else:
            key = body[pos : pos + (key_length >> 1)]
            pos += key_length >> 1
        value_length = body[pos]
        pos += 1
        if value_length >= 0x80:
            if (more := body[pos]) < 0x80:
                value_length += (more << 7) - 0x80
                pos += 1
            else:
                value_length, pos = _continue(body, pos, value_length)
        if value_length & 1:
            value = _null(value_length)
        else:
            value = body[pos : pos + (value_length >> 1)]
            pos += value_length >> 1
        headers, pos = _read_headers(body, pos) if body[pos] else ((), pos + 1)
        if pos != end or end > size or length & 1:
            raise ValueError(f"a record ends at {pos}, its length says {end}")
        when = base_timestamp + ((timestamp >> 1) ^ -(timestamp & 1))
        at = base_offset + ((offset >> 1) ^ -(offset & 1))
        add((at, when, kind, key, value, headers))
    if pos != size:
        raise ValueError(f"{size - pos} bytes after the last record")
    return found


def _null(zigzag: int) -> bytes | None:
    if zigzag != 1:
        raise ValueError("a negative length other than -1")
    return None


def _continue(body: bytes, pos: int, value: int) -> tuple[int, int]:
    """Read the rest of a varint of up to 10 bytes whose first is `value`; leave it zigzag-coded."""
    byte = body[pos]
    value = value & 0x7F | (byte & 0x7F) << 7
    shift = 14
    while byte >= 0x80:
        pos += 1
        byte = body[pos]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise ValueError("varint is longer than 10 bytes")
    if value >> 64:
        raise ValueError("varint does not fit 64 bits")
    return value, pos + 1


def _read_headers(body: bytes, pos: int) -> tuple[Headers, int]:
    count, pos = _read_length(body, pos)
    if count < 0:
        raise ValueError("a negative number of headers")
    return read_headers(body, pos, count)


def read_headers(body: bytes, pos: int, count: int) -> tuple[Headers, int]:
    """Read `count` headers from `pos` on; raise IndexError or ValueError if they are cut off.

    Bytes of a key that are not UTF-8 become U+FFFD, as in Java's consumer.
    """
    headers = []
    for _ in range(count):
        length, pos = _read_length(body, pos)
        if length < 0:
            raise ValueError("a header without a key")
        key = body[pos : pos + length].decode(errors="replace")
        pos += length
        length, pos = _read_length(body, pos)
        value = None if length < 0 else body[pos : pos + length]
        pos += max(length, 0)
        headers.append((key, value))
    return tuple(headers), pos


def _zigzag(body: bytes, pos: int) -> tuple[int, int]:
    value = body[pos]
    return _continue(body, pos + 1, value) if value >= 0x80 else (value, pos + 1)


def _read_length(body: bytes, pos: int) -> tuple[int, int]:
    zigzag, pos = _zigzag(body, pos)
    if zigzag & 1:
        if zigzag != 1:
            raise ValueError("a negative length other than -1")
        return -1, pos
    return zigzag >> 1, pos


def examine(
    body: Any, count: int, needs_keys: bool, earliest: int, latest: int
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Check `count` records that fill `body`, without making objects of them.

    Raise BadRecord unless each record ends where its length says, holds its fields and headers, and
    has its index in the batch as its offset delta. No number but the timestamp may take more than 5
    bytes, because Java reads no more. Return the least and the greatest timestamp delta, the
    indexes of records without a key, if keys are needed, and of records whose timestamp delta is
    not within `earliest` and `latest`: up to MOST_NAMED of each. Header texts are not checked.
    """
    body = body if type(body) is bytes else bytes(body)
    if not 1 <= count <= len(body) // MIN_RECORD_BYTES:
        raise BadRecord(f"{count} records in {len(body)} bytes", -1)
    lowest, highest = _INT64 - 1, -_INT64
    keyless: list[int] = []
    untimely: list[int] = []
    end = 0
    for index in range(count):
        try:
            timestamp, offset, has_key, end = _step_over(body, end)
            if offset != index:
                raise ValueError("an offset delta is not the record's place in its batch")
        except (IndexError, ValueError) as error:
            raise BadRecord(str(error), index) from None
        lowest, highest = min(lowest, timestamp), max(highest, timestamp)
        if needs_keys and not has_key and len(keyless) < MOST_NAMED:
            keyless.append(index)
        if not earliest <= timestamp <= latest and len(untimely) < MOST_NAMED:
            untimely.append(index)
    if end != len(body):
        raise BadRecord("bytes after the last record", -1)
    return lowest, highest, tuple(keyless), tuple(untimely)


def highest_delta(batch: Any, start: int, count: int, needs_keys: bool) -> int | None:
    """Return the greatest timestamp delta of `count` records that fill `batch` from `start` on.

    Return None if `examine` would find a fault in any of them. A broker calls this for each
    uncompressed batch of a producer, so in the compiled codec it is the fastest check.
    """
    body = bytes(memoryview(batch)[start:])
    try:
        _, highest, keyless, _ = examine(body, count, needs_keys, -_INT64, _INT64 - 1)
    except BadRecord:
        return None
    return None if keyless else highest


def first_at(
    body: Any, count: int, timestamp_delta: int, offset_delta: int
) -> tuple[int, int] | None:
    """Return both deltas of the first record whose deltas are at least the given ones, or None.

    Later records are not read. Raise BadRecord if the found or an earlier record is malformed.
    """
    body = body if type(body) is bytes else bytes(body)
    if count > len(body) // MIN_RECORD_BYTES:
        raise BadRecord(f"{count} records in {len(body)} bytes", -1)
    end = 0
    for index in range(count):
        try:
            timestamp, offset, _, end = _step_over(body, end)
        except (IndexError, ValueError) as error:
            raise BadRecord(str(error), index) from None
        if timestamp >= timestamp_delta and offset >= offset_delta:
            return timestamp, offset
    return None


def find(body: Any, count: int, offset_deltas: Sequence[int]) -> list[tuple[int, int]]:
    """Return where those of `count` records that have these offset deltas begin and end in `body`.

    The deltas ascend. Records that are not there are left out, and those behind the last one are
    not read. Raise BadRecord if one of the records up to there is malformed.
    """
    body = body if type(body) is bytes else bytes(body)
    if offset_deltas and count > len(body) // MIN_RECORD_BYTES:
        raise BadRecord(f"{count} records in {len(body)} bytes", -1)
    places: list[tuple[int, int]] = []
    wanted = iter(offset_deltas)
    delta = next(wanted, None)
    end = 0
    for index in range(count):
        if delta is None:
            break
        start = end
        try:
            _, offset, _, end = _step_over(body, start)
        except (IndexError, ValueError) as error:
            raise BadRecord(str(error), index) from None
        while delta is not None and delta < offset:
            delta = next(wanted, None)
        if delta == offset:
            places.append((start, end))
            delta = next(wanted, None)
    return places


def _step_over(body: bytes, pos: int) -> tuple[int, int, bool, int]:
    """Return a record's timestamp and offset deltas, whether it has a key, and its end."""
    length, pos = _read_short(body, pos)
    end = pos + length
    if length < 1 or end > len(body):
        raise ValueError("the bytes end inside a record")
    timestamp, pos = _zigzag(body, pos + 1)
    begin = pos
    offset, pos = _zigzag(body, begin)
    _check_short(pos - begin)
    key_length, pos = _read_short(body, pos)
    value_length, pos = _read_short(body, pos + max(key_length, 0))
    headers, pos = _read_short(body, pos + max(value_length, 0))
    if headers < 0 or headers > end - pos:
        raise ValueError("a wrong number of headers")
    for _ in range(headers):
        length, pos = _read_short(body, pos)
        if length < 0 or pos + length > end:
            raise ValueError("a header without a key, or outside its record")
        length, pos = _read_short(body, pos + length)
        pos += max(length, 0)
    if pos != end:
        raise ValueError(f"a record ends at {pos}, its length says {end}")
    return (timestamp >> 1) ^ -(timestamp & 1), (offset >> 1) ^ -(offset & 1), key_length >= 0, end


def _read_short(body: bytes, pos: int) -> tuple[int, int]:
    """Read a length; raise ValueError if it takes more than 5 bytes, which Java would not read."""
    length, end = _read_length(body, pos)
    _check_short(end - pos)
    return length, end


def _check_short(size: int) -> None:
    if size > LONGEST_INT32:
        raise ValueError(f"a varint of 32 bits takes {size} bytes: {LONGEST_INT32} are enough")
