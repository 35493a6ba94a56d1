"""The records inside a batch: reads all of them, or builds a batch of records.

    record: length varint | attributes int8 (0) | timestamp_delta varlong | offset_delta varint
            | key_length varint, key | value_length varint, value | header_count varint
            | (key_length varint, key, value_length varint, value)*      the length -1 means null

The cost of this code grows with the number of records. Clients run it for all records, brokers
where they must look into a batch. `record_backend` chooses one of two codecs for it. Source: Kafka
documentation, "Message Format"; varints are zigzag.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ..compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from ..errors import LocalProtocolError, RemoteProtocolError
from ..primitives import read_varint
from ..types import NO_EPOCH, NO_PRODUCER_ID, Buffer
from .batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    SIZE_AND_OFFSET,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    crc_is_valid,
    read_header,
    seal,
)
from .record_backend import (
    Columns,
    RecordBody,
    decode,
    decode_columns,
    decode_many,
    decode_named,
    find,
)
from .record_python import Headers as Headers

if TYPE_CHECKING:
    from .record_python import RecordBody as _Body
else:
    _Body = RecordBody

T = TypeVar("T", bound=tuple[Any, ...])
NO_SEQUENCE: Final = -1
_CONTROL_KEY: Final = struct.Struct(">hh")
_MARKER: Final = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


class Record(NamedTuple):
    """One record as read: absolute offset, and absolute timestamp in ms (-1 if it has none)."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """One record to be written; its position in the batch determines its offset."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def records(
    buf: Buffer,
    pos: int = 0,
    *,
    check_crc: bool = False,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Read every record of the batch at `pos`, which may be a control batch.

    Raise RemoteProtocolError if the batch is cut off, damaged, or larger than `max_bytes` after
    decompression.
    """
    return records_as(Record, (), buf, pos, check_crc=check_crc, max_bytes=max_bytes)


def records_as(
    make: type[T],
    prefix: tuple[Any, ...],
    buf: Buffer,
    pos: int = 0,
    *,
    header: BatchHeader | None = None,
    check_crc: bool = False,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[T]:
    """Read as `records` does, but return tuples of type `make`: `prefix`, then Record's fields.

    `header` is the batch's header if the caller has read it. Raises as `records` does.
    """
    found = _opened(buf, pos, header or read_header(buf, pos), check_crc, max_bytes)
    read = decode_many if prefix else decode
    try:
        made: list[T] = read(*found.payload, make, prefix)
    except IndexError as error:
        raise RemoteProtocolError(f"{found.header!r} ends inside a record") from error
    except ValueError as error:
        raise RemoteProtocolError(f"{found.header!r}: {error}") from error
    return made


def records_at(buf: Buffer, pos: int, header: BatchHeader, offsets: Sequence[int]) -> list[Record]:
    """Read those records of the batch at `pos` that have these offsets, which ascend.

    The others are stepped over. Raise RemoteProtocolError as `records` does.
    """
    return opened(buf, pos, header).at(offsets)


def columns(
    buf: Buffer,
    pos: int = 0,
    *,
    header: BatchHeader | None = None,
    check_crc: bool = False,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Columns:
    """Read every record of the batch at `pos` into columns, one for each field.

    Raise RemoteProtocolError as `records` does.
    """
    found = _opened(buf, pos, header or read_header(buf, pos), check_crc, max_bytes)
    try:
        return decode_columns(*found.payload)
    except IndexError as error:
        raise RemoteProtocolError(f"{found.header!r} ends inside a record") from error
    except ValueError as error:
        raise RemoteProtocolError(f"{found.header!r}: {error}") from error


class Opened(NamedTuple):
    """A checked and decompressed batch, in the form that the codecs read."""

    header: BatchHeader
    payload: tuple[Buffer, int, tuple[int, int, TimestampType]]
    """The records as bytes, their number, and (base offset, base timestamp, timestamp type)."""

    @classmethod
    def of(cls, header: BatchHeader, body: Buffer) -> "Opened":
        """Return a batch whose records have been decompressed into `body`."""
        kind = header.timestamp_type
        by_broker = kind is TimestampType.LOG_APPEND_TIME
        timestamp = header.max_timestamp if by_broker else header.base_timestamp
        return cls(header, (body, header.record_count, (header.base_offset, timestamp, kind)))

    @property
    def size(self) -> int:
        """The bytes of the records."""
        return len(self.payload[0])

    def at(self, offsets: Sequence[int]) -> list[Record]:
        """Read the records that have these offsets, which ascend, as `records_at` does."""
        body, count, base = self.payload
        view = memoryview(body)
        found: list[Record] = []
        try:
            if len(offsets) == count:
                found = decode(body, count, base, Record)
                return found
            for start, end in find(body, count, [offset - base[0] for offset in offsets]):
                found.extend(decode(view[start:end], 1, base, Record))
        except (IndexError, ValueError) as error:
            raise RemoteProtocolError(f"{self.header!r}: {error}") from error
        return found

    def parts(self, most: int, names: Sequence[str]) -> Iterator[list[Record]]:
        """Read all records, `most` at a time, with only those headers that have these names.

        There is one part at least, which is empty if the batch is. Raise RemoteProtocolError where
        a record cannot be read, or has an offset that is not in its order and within its batch.
        """
        body, left, base = self.payload
        view, end, last = memoryview(body), 0, base[0] - 1
        try:
            while True:
                start, count = end, min(left, most)
                end = len(view) if count == left else _step_over(view, start, count)
                found = decode_named(view[start:end], count, base, Record, names)
                for record in found:
                    if not last < record.offset < self.header.next_offset:
                        raise ValueError(f"offset {record.offset} behind {last}")
                    last = record.offset
                yield found
                left -= count
                if left <= 0:
                    return
        except (IndexError, ValueError) as error:
            raise RemoteProtocolError(f"{self.header!r}: {error}") from error


def opened(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Opened:
    """Decompress the batch at `pos`; raise RemoteProtocolError as `records` does."""
    return Opened.of(header, record_view(buf, pos, header, max_bytes))


def _step_over(view: memoryview, pos: int, count: int) -> int:
    """Return where so many records from `pos` on end."""
    for _ in range(count):
        length, pos = read_varint(view, pos)
        if length < 0:
            raise ValueError(f"a record of {length} bytes")
        pos += length
    return pos


def _opened(buf: Buffer, pos: int, header: BatchHeader, check_crc: bool, max_bytes: int) -> Opened:
    if check_crc and not crc_is_valid(buf, pos, header):
        raise RemoteProtocolError(f"crc {header.crc:#010x} does not match")
    return opened(buf, pos, header, max_bytes)


def record_bytes(buf: Buffer, pos: int, header: BatchHeader) -> bytes:
    """Return a copy of the bytes of a batch's records, decompressed as by `record_view`."""
    return bytes(record_view(buf, pos, header))


def record_view(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Buffer:
    """Return the bytes of a batch's records: decompressed, or a view of `buf` if not compressed.

    Raise RemoteProtocolError if no valid batch is at `pos`.
    """
    if header.magic != MAGIC:
        raise RemoteProtocolError(f"magic {header.magic}: only record batches of magic 2 are read")
    if not HEADER_SIZE <= header.size <= len(buf) - pos:
        raise RemoteProtocolError(f"batch of {header.size} bytes in {len(buf) - pos}")
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise RemoteProtocolError(f"codec {codec}")
    body = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    try:
        return decompress(header.compression, body, max_bytes) if codec else body
    except ValueError as error:
        raise RemoteProtocolError(f"{header!r}: {error}") from error


class BatchBuilder(_Body):
    """Collects records into one batch; `build` completes it. Offsets count from 0.

    `append` and `extend` work as in `record_python.RecordBody`, with either codec. Records are
    written after room for the header, so that an uncompressed batch is never copied.
    """

    __slots__ = ("_attributes", "_compression")

    def __init__(
        self,
        compression: Codec = Codec.NONE,
        *,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> None:
        super().__init__()
        self._compression = compression
        self._attributes = (
            compression
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
        )

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        base_offset: int = 0,
        leader_epoch: int = NO_EPOCH,
    ) -> bytearray:
        """Write the header and return the batch; the builder cannot be used again.

        Raise LocalProtocolError if the builder has no records.
        """
        if self.record_count == 0:
            raise LocalProtocolError("a batch needs at least one record")
        count = self.record_count
        batch = self.take()
        if self._compression != Codec.NONE:
            with memoryview(batch) as view:
                packed = compress(self._compression, view[HEADER_SIZE:])
            batch = bytearray(HEADER_SIZE)
            batch += packed
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - SIZE_AND_OFFSET,
            leader_epoch,
            MAGIC,
            0,
            self._attributes,
            count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        )
        seal(batch)
        return batch


def build(
    new_records: Iterable[tuple[int, bytes | None, bytes | None] | NewRecord],
    *,
    compression: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """Build a batch of (timestamp, key, value[, headers]) tuples in one call."""
    builder = BatchBuilder(compression)
    for record in new_records:
        builder.append(*record)
    return builder.build(base_offset=base_offset, leader_epoch=leader_epoch)


class EndTransactionMarker(NamedTuple):
    """The outcome of a transaction, as its control record states it."""

    commit: bool
    coordinator_epoch: int


def end_transaction_marker(commit: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Encode key and value of the control record that ends a transaction (KIP-98)."""
    return _CONTROL_KEY.pack(0, _COMMIT if commit else _ABORT), _MARKER.pack(0, coordinator_epoch)


def parse_end_transaction_marker(
    key: bytes | None, value: bytes | None
) -> EndTransactionMarker | None:
    """Read the control record that ends a transaction; return None for another kind of record.

    Raise RemoteProtocolError if the record is cut off. Newer versions of the record can be read
    too, because they only append fields.
    """
    if key is None or len(key) < _CONTROL_KEY.size:
        raise RemoteProtocolError("a control record without a kind")
    version, kind = _CONTROL_KEY.unpack_from(key)
    if version < 0 or kind not in (_ABORT, _COMMIT):
        return None
    if value is None or len(value) < _MARKER.size:
        raise RemoteProtocolError("a transaction's marker is cut off")
    return EndTransactionMarker(kind == _COMMIT, _MARKER.unpack_from(value)[1])


def build_end_transaction_batch(
    marker: EndTransactionMarker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytearray:
    """Build the control batch that ends a transaction: one record, without a sequence."""
    builder = BatchBuilder(is_transactional=True, is_control=True)
    builder.append(timestamp_ms, *end_transaction_marker(*marker))
    return builder.build(producer_id=producer_id, producer_epoch=producer_epoch)
