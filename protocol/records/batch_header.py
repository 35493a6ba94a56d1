"""RecordBatch v2: a view of its header, its checksum, and the fields a broker checks and stamps.

`records.py` reads the records. A batch is

    0 base_offset int64 | 8 batch_length int32 (bytes after this field) | 12 leader_epoch int32
    16 magic int8 | 17 crc uint32 (CRC-32C of everything after it) | 21 attributes int16
    23 last_offset_delta int32 | 27 base_timestamp int64 | 35 max_timestamp int64
    43 producer_id int64 | 51 producer_epoch int16 | 53 base_sequence int32 | 57 record_count int32
    61 records, compressed or not

The checksum does not cover base offset and leader epoch, so both can change without a new one.
attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 base timestamp is a
delete horizon.
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
"""The bytes of the first two fields, which `batch_length` does not count."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC: Final = struct.Struct(">I")
_PLACE: Final = struct.Struct(">qii")
_PRODUCER: Final = struct.Struct(">qhi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")

_LOW_ATTRIBUTES: Final = 22
"""The position of the attributes' low byte, which has all attribute bits that are in use."""

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
_LAST_CODEC: Final = int(Codec.ZSTD)
_CLIENT_BITS: Final = CODEC_MASK | TRANSACTIONAL_BIT
_MAX_INT32: Final = 0x7FFF_FFFF
MOST_PACKED_RECORDS: Final = 1 << 20
"""The most records of a client's compressed batch of up to 7 MB; a larger batch may have one record
for every 7 of its bytes. This bounds the memory of readers and of compaction, which hold something
for each record."""


class TimestampType(IntEnum):
    """The clock that set the timestamps of a batch: the client's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader:
    """A copy of the header's fields as numbers; changing the copy does not change the batch."""

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
        """Read the header at `pos`; raise struct.error if fewer than 61 bytes are left."""
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
        """The offset of the last record, even if compaction has removed that record since."""
        return int(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record."""
        return int(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, or -1 if it has none; 0 follows 2^31 - 1."""
        if self.base_sequence < 0:
            return -1
        return int(self.base_sequence + self.last_offset_delta) & _MAX_INT32

    @property
    def compression(self) -> Codec:
        """The compression codec of the records; raise ValueError for the unused numbers 5 to 7."""
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """The clock of the timestamps; with LOG_APPEND_TIME all records have the max timestamp."""
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction, which a later control batch ends."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if the records are markers for readers of the log, and not an application's data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """True if the base timestamp holds the time from which compaction may drop tombstones."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    def __repr__(self) -> str:
        return (
            f"<batch {self.base_offset}..{self.last_offset} epoch {self.leader_epoch},"
            f" {self.record_count} records, {self.size} bytes>"
        )


def is_transactional(batch: Buffer) -> bool:
    """True if the batch is part of a transaction; False also if the header is cut off."""
    return len(batch) >= HEADER_SIZE and bool(batch[_LOW_ATTRIBUTES] & TRANSACTIONAL_BIT)


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos` without checking its values or the checksum.

    Raise RemoteProtocolError if fewer bytes than a header are left.
    """
    try:
        return BatchHeader(buf, pos)
    except struct.error as error:
        raise RemoteProtocolError(f"a batch header is cut off at {pos}") from error


def headers(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch from `pos` on; skip a cut-off last batch.

    Raise RemoteProtocolError for a size that no batch can have, because the next batch cannot be
    found.
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
    """True if the checksum matches the batch's bytes; `buf` must hold the whole batch."""
    return bool(crc32c(memoryview(buf)[pos + 21 : pos + header.size]) == header.crc)


def validate_for_append(
    buf: Buffer, header: BatchHeader, max_message_bytes: int = _MAX_INT32
) -> None:
    """Check that `buf` holds exactly one valid batch of a client, without reading its records.

    Raise ApiError with the code that Kafka answers: CORRUPT_MESSAGE for damaged bytes,
    INVALID_RECORD for well-formed but forbidden ones, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE.
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
    """Set base offset and leader epoch in `buf` and in `header`; no new checksum is needed."""
    _PLACE.pack_into(buf, 0, base_offset, header.batch_length, leader_epoch)
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch


def rewrite_as_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Give all records the timestamp `timestamp_ms`, and compute the checksum anew."""
    (attributes,) = _INT16.unpack_from(buf, pos + 21)
    _INT16.pack_into(buf, pos + 21, attributes | TIMESTAMP_TYPE_BIT)
    _INT64.pack_into(buf, pos + 35, timestamp_ms)
    seal(buf, pos)


def rewrite_max_timestamp(
    buf: bytearray | memoryview, pos: int, header: BatchHeader, timestamp_ms: int
) -> None:
    """Set the max timestamp in the batch and in `header`, and compute the checksum anew."""
    _INT64.pack_into(buf, pos + 35, timestamp_ms)
    header.max_timestamp = timestamp_ms
    seal(buf, pos)
    (header.crc,) = _CRC.unpack_from(buf, pos + 17)


def rewrite_producer(
    buf: bytearray | memoryview, pos: int, *, producer_id: int, epoch: int, base_sequence: int
) -> None:
    """Set the producer's id, epoch and base sequence in a batch, and compute the checksum anew."""
    _PRODUCER.pack_into(buf, pos + 43, producer_id, epoch, base_sequence)
    seal(buf, pos)


def seal(buf: bytearray | memoryview, pos: int = 0) -> None:
    """Compute the checksum of the batch's bytes and write it into the header."""
    (batch_length,) = _INT32.unpack_from(buf, pos + 8)
    end = pos + SIZE_AND_OFFSET + batch_length
    _CRC.pack_into(buf, pos + 17, crc32c(memoryview(buf)[pos + 21 : end]))
