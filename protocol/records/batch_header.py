"""RecordBatch v2: a view of its header, its checksum, and the fields a broker checks and stamps.

Record bytes are never read here; `records.py` does that. A batch is

    0 base_offset int64 | 8 batch_length int32 (bytes after this field) | 12 leader_epoch int32
    16 magic int8 | 17 crc uint32 (CRC-32C of everything after it) | 21 attributes int16
    23 last_offset_delta int32 | 27 base_timestamp int64 | 35 max_timestamp int64
    43 producer_id int64 | 51 producer_epoch int16 | 53 base_sequence int32 | 57 record_count int32
    61 records, compressed or not

so base offset and leader epoch can change without a new checksum. attributes: bits 0-2 codec,
3 timestamp type, 4 transactional, 5 control, 6 base timestamp is a delete horizon.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from ..compression import Codec
from ..errors import ApiError, ErrorCode, RemoteProtocolError
from ..types import NO_TIMESTAMP, Buffer
from .record_python import MIN_RECORD_BYTES

HEADER_SIZE: Final = 61
MAGIC: Final = 2
SIZE_AND_OFFSET: Final = 12
"""Bytes before those that `batch_length` counts."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC: Final = struct.Struct(">I")
_PLACE: Final = struct.Struct(">qii")
_PRODUCER: Final = struct.Struct(">qhi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
_LAST_CODEC: Final = int(Codec.ZSTD)
_CLIENT_BITS: Final = CODEC_MASK | TRANSACTIONAL_BIT
_MAX_INT32: Final = 0x7FFF_FFFF
MOST_PACKED_RECORDS: Final = 1 << 20
"""The most records in a client's compressed batch, however small the batch is. Every reader that
opens the batch, compaction too, holds something for each record. A batch of more than 7 MB may have
one record for every 7 bytes."""


class TimestampType(IntEnum):
    """The clock that set the timestamps of a batch: the client's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader:
    """The 61 bytes as numbers; a copy, so a change to it alone does not change the batch."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    def __init__(self, buf: Buffer, pos: int = 0) -> None:
        """Read the header at `pos`; struct.error where fewer than 61 bytes are left."""
        (
            self.base_offset,
            self.batch_length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buf, pos)
        self.size = self.batch_length + SIZE_AND_OFFSET

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last one there was before compaction."""
        return int(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record."""
        return int(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; 0 follows 2^31 - 1."""
        if self.base_sequence < 0:
            return -1
        return int(self.base_sequence + self.last_offset_delta) & _MAX_INT32

    @property
    def compression(self) -> Codec:
        """ValueError for the three codecs that do not exist."""
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """LogAppendTime: every record has the batch's max timestamp."""
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """Decided only by the control batch that ends its transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if the batch's records are for the log's readers, never for an application."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """The base timestamp is when compaction may drop the batch's tombstones."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    def __repr__(self) -> str:
        return (
            f"<batch {self.base_offset}..{self.last_offset} epoch {self.leader_epoch},"
            f" {self.record_count} records, {self.size} bytes>"
        )


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos` without looking at what follows it, not even the checksum."""
    try:
        return BatchHeader(buf, pos)
    except struct.error as error:
        raise RemoteProtocolError(f"a batch header is cut off at {pos}") from error


def headers(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Walk the whole batches from `pos`, each with its position; stop before a cut-off last one.

    RemoteProtocolError for a size that no batch can have: the next batch cannot be found then.
    """
    end = len(buf)
    while end - pos >= HEADER_SIZE:
        header = BatchHeader(buf, pos)
        size = header.size
        if size < HEADER_SIZE:
            raise RemoteProtocolError(f"a batch of {size} bytes at {pos}")
        if size > end - pos:
            return
        yield pos, header
        pos += size


def crc_is_valid(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Compute the checksum over the batch's bytes, which must all be there."""
    return bool(crc32c(memoryview(buf)[pos + 21 : pos + header.size]) == header.crc)


def validate_for_append(
    buf: Buffer, header: BatchHeader, max_message_bytes: int = _MAX_INT32
) -> None:
    """Check all that can be checked of a client's one batch in `buf` without reading a record.

    ApiError with the code that Kafka answers: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD for
    well-formed but forbidden ones, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP.
    """
    size = header.size
    if size != len(buf):
        if HEADER_SIZE <= size < len(buf):
            raise ApiError(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch of {size} bytes in {len(buf)}")
    if header.magic != MAGIC:
        old = header.magic in (0, 1)
        code = ErrorCode.INVALID_RECORD if old else ErrorCode.CORRUPT_MESSAGE
        raise ApiError(code, f"magic {header.magic}: only record batches of magic 2 are taken")
    if size > max_message_bytes:
        detail = f"batch of {size} bytes, max.message.bytes is {max_message_bytes}"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, detail)
    if crc32c(buf[21:]) != header.crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"crc {header.crc:#010x} does not match")
    if header.base_offset != 0:
        detail = f"base offset {header.base_offset}: a client's batch starts at 0"
        raise ApiError(ErrorCode.INVALID_RECORD, detail)
    count, attributes = header.record_count, header.attributes
    if header.last_offset_delta != count - 1 or count < 1:
        detail = f"{count} records, last offset delta {header.last_offset_delta}"
        raise ApiError(ErrorCode.INVALID_RECORD, detail)
    if attributes & ~_CLIENT_BITS or attributes & CODEC_MASK > _LAST_CODEC:
        _refuse_attributes(attributes)
    if count * MIN_RECORD_BYTES > size - HEADER_SIZE and (
        not attributes & CODEC_MASK or count > MOST_PACKED_RECORDS
    ):
        detail = f"{count} records cannot be in {size} bytes"
        raise ApiError(ErrorCode.INVALID_RECORD, detail)
    if header.base_timestamp < NO_TIMESTAMP:
        detail = f"base timestamp {header.base_timestamp}"
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise ApiError(ErrorCode.INVALID_RECORD, "a producer id without epoch or sequence")
    elif attributes & TRANSACTIONAL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "a transactional batch without producer id")


def _refuse_attributes(attributes: int) -> None:
    if attributes & CONTROL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & TIMESTAMP_TYPE_BIT:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "clients may not set LogAppendTime")
    if attributes & CODEC_MASK > _LAST_CODEC:
        detail = f"codec {attributes & CODEC_MASK}"
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail)
    raise ApiError(ErrorCode.INVALID_RECORD, f"attributes {attributes:#06x}")


def stamp(
    buf: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch in `buf`, and its header, a place in the log; the checksum stays valid."""
    _PLACE.pack_into(buf, 0, base_offset, header.batch_length, leader_epoch)
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch


def rewrite_as_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Make every record's timestamp the broker's; costs a pass over the batch for its checksum."""
    (attributes,) = _INT16.unpack_from(buf, pos + 21)
    _INT16.pack_into(buf, pos + 21, attributes | TIMESTAMP_TYPE_BIT)
    _INT64.pack_into(buf, pos + 35, timestamp_ms)
    seal(buf, pos)


def rewrite_max_timestamp(
    buf: bytearray | memoryview, pos: int, header: BatchHeader, timestamp_ms: int
) -> None:
    """Write the true greatest timestamp to the batch and its header; one pass for the checksum."""
    _INT64.pack_into(buf, pos + 35, timestamp_ms)
    header.max_timestamp = timestamp_ms
    seal(buf, pos)
    (header.crc,) = _CRC.unpack_from(buf, pos + 17)


def rewrite_producer(
    buf: bytearray | memoryview, pos: int, *, producer_id: int, epoch: int, base_sequence: int
) -> None:
    """Number a batch that is to be sent again by a producer with a new id or epoch."""
    _PRODUCER.pack_into(buf, pos + 43, producer_id, epoch, base_sequence)
    seal(buf, pos)


def seal(buf: bytearray | memoryview, pos: int = 0) -> None:
    """Write the checksum of what the batch now holds."""
    (batch_length,) = _INT32.unpack_from(buf, pos + 8)
    end = pos + SIZE_AND_OFFSET + batch_length
    _CRC.pack_into(buf, pos + 17, crc32c(memoryview(buf)[pos + 21 : end]))
