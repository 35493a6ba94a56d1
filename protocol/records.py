"""The records inside a batch: read them all, or build a batch of them.

    record: length varint | attributes int8 (0) | timestamp_delta varlong | offset_delta varint
            | key_length varint, key | value_length varint, value | header_count varint
            | (key_length varint, key, value_length varint, value)*      -1 as a length: null

The only code whose cost is per record: brokers run it for compacted topics and for dumps, clients
for everything. Source: Kafka documentation, "Message Format"; varints are zigzag.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from .batch_header import (
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
from .compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from .errors import LocalProtocolError, RemoteProtocolError
from .primitives import encode_varint
from .types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Buffer

Headers = Sequence[tuple[str, bytes | None]]
NO_SEQUENCE: Final = -1
# Zigzag varints of 0..8191, the lengths and deltas of almost every record: one or two bytes.
_VARINTS: Final = [bytes((n << 1,)) for n in range(64)] + [
    bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(64, 8192)
]
_NULL: Final = b"\x01"
_CONTROL_KEY: Final = struct.Struct(">hh")
_MARKER: Final = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
_new_tuple = tuple.__new__


class Record(NamedTuple):
    """One record as a reader sees it: absolute offset, absolute timestamp in ms (-1: none)."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """One record to be written; its offset comes from its place."""

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
    """Read every record of the batch at `pos`, those of control batches too.

    RemoteProtocolError when the batch is cut off, damaged, or above `max_bytes` decompressed.
    """
    header = read_header(buf, pos)
    if check_crc and not crc_is_valid(buf, pos, header):
        raise RemoteProtocolError(f"crc {header.crc:#010x} does not match")
    body = record_bytes(buf, pos, header, max_bytes=max_bytes)
    try:
        found = _read_all(body, header)
    except IndexError as error:
        raise RemoteProtocolError(f"{header!r} ends inside a record") from error
    except ValueError as error:
        raise RemoteProtocolError(f"{header!r}: {error}") from error
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return [record._replace(timestamp=header.max_timestamp) for record in found]
    return found


def record_bytes(
    buf: Buffer, pos: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Give the records of the batch at `pos` as bytes, decompressed; RemoteProtocolError if bad."""
    if header.magic != MAGIC:
        raise RemoteProtocolError(f"magic {header.magic}: only record batches of magic 2 are read")
    if not HEADER_SIZE <= header.size <= len(buf) - pos:
        raise RemoteProtocolError(f"batch of {header.size} bytes in {len(buf) - pos}")
    if header.attributes & 0x07 > Codec.ZSTD:
        raise RemoteProtocolError(f"codec {header.attributes & 0x07}")
    body = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    try:
        return decompress(header.compression, body, max_bytes)
    except ValueError as error:
        raise RemoteProtocolError(f"{header!r}: {error}") from error


def _read_all(body: bytes, header: BatchHeader) -> list[Record]:
    """Walk the records, with create times; IndexError or ValueError when damaged.

    Varints of one and two bytes are read in line: a call for each would double the cost. A slice
    that runs past the end is short, and then `pos` is not the record's end.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    kind = header.timestamp_type
    found: list[Record] = []
    add, new = found.append, _new_tuple
    pos, size = 0, len(body)
    for _ in range(header.record_count):
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
        add(new(Record, (at, when, kind, key, value, headers)))
    if pos != size:
        raise ValueError(f"{size - pos} bytes after the last record")
    return found


def _null(zigzag: int) -> bytes | None:
    if zigzag != 1:
        raise ValueError("a negative length other than -1")
    return None


def _continue(body: bytes, pos: int, value: int) -> tuple[int, int]:
    """Finish a varint of up to 10 bytes whose first byte is `value`; still in zigzag form."""
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
    return value, pos + 1


def _read_headers(body: bytes, pos: int) -> tuple[Headers, int]:
    count, pos = _read_length(body, pos)
    if count < 0:
        raise ValueError("a negative number of headers")
    headers = []
    for _ in range(count):
        length, pos = _read_length(body, pos)
        if length < 0:
            raise ValueError("a header without a key")
        key = body[pos : pos + length].decode()
        pos += length
        length, pos = _read_length(body, pos)
        value = None if length < 0 else body[pos : pos + length]
        pos += max(length, 0)
        headers.append((key, value))
    return tuple(headers), pos


def _read_length(body: bytes, pos: int) -> tuple[int, int]:
    zigzag = body[pos]
    pos += 1
    if zigzag >= 0x80:
        zigzag, pos = _continue(body, pos, zigzag)
    if zigzag & 1:
        if zigzag != 1:
            raise ValueError("a negative length other than -1")
        return -1, pos
    return zigzag >> 1, pos


def _varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < 8192 else encode_varint(value)


class BatchBuilder:
    """Collects records into one batch; `build` ends it. Offsets count from 0.

    Records are written behind room for the header, so that an uncompressed batch is never copied.
    """

    __slots__ = (
        "_attributes",
        "_base_timestamp",
        "_body",
        "_compression",
        "_max_timestamp",
        "record_count",
    )

    def __init__(
        self,
        compression: Codec = Codec.NONE,
        *,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> None:
        self._compression = compression
        self._attributes = (
            compression
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
        )
        self._body = bytearray(HEADER_SIZE)
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self.record_count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        return len(self._body)

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> int:
        """Add a record; give the size of the batch so far, before compression."""
        count = self.record_count
        if count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        # This runs once per record: lookups are written out, and one join makes the record.
        key_size = _NULL
        if key is None:
            key = b""
        else:
            size = len(key)
            key_size = _VARINTS[size] if size < 8192 else encode_varint(size)
        value_size = _NULL
        if value is None:
            value = b""
        else:
            size = len(value)
            value_size = _VARINTS[size] if size < 8192 else encode_varint(size)
        record = b"".join(
            (
                b"\x00",
                _VARINTS[delta] if 0 <= delta < 8192 else encode_varint(delta),
                _VARINTS[count] if count < 8192 else encode_varint(count),
                key_size,
                key,
                value_size,
                value,
                _encode_headers(headers) if headers else b"\x00",
            )
        )
        size = len(record)
        body = self._body
        body += _VARINTS[size] if size < 8192 else encode_varint(size)
        body += record
        self.record_count = count + 1
        return len(body)

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        base_offset: int = 0,
        leader_epoch: int = NO_EPOCH,
    ) -> bytearray:
        """Write the header and give the batch; the builder is spent."""
        if self.record_count == 0:
            raise LocalProtocolError("a batch needs at least one record")
        batch = self._body
        self._body = bytearray(HEADER_SIZE)
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
            self.record_count - 1,
            self._base_timestamp,
            self._max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )
        seal(batch)
        return batch


def _encode_headers(headers: Headers) -> bytes:
    parts = [_varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (_varint(len(name)), name)
        parts += (_NULL,) if value is None else (_varint(len(value)), value)
    return b"".join(parts)


def build(
    new_records: Iterable[tuple[int, bytes | None, bytes | None] | NewRecord],
    *,
    compression: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """Build a batch of (timestamp, key, value[, headers]) in one call."""
    builder = BatchBuilder(compression)
    for record in new_records:
        builder.append(*record)
    return builder.build(base_offset=base_offset, leader_epoch=leader_epoch)


class EndTransactionMarker(NamedTuple):
    """How a transaction ended, as a control record says it."""

    commit: bool
    coordinator_epoch: int


def end_transaction_marker(commit: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Give key and value of the control record that ends a transaction (KIP-98)."""
    return _CONTROL_KEY.pack(0, _COMMIT if commit else _ABORT), _MARKER.pack(0, coordinator_epoch)


def parse_end_transaction_marker(
    key: bytes | None, value: bytes | None
) -> EndTransactionMarker | None:
    """Read a control record; None for one of another kind, which readers pass over.

    RemoteProtocolError when it is cut off. Newer versions append fields, so they are read too.
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
