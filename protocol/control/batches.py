"""Metadata records in RecordBatches, and their replay into an image.

One batch holds the records of one decision, so that all of them are applied or none. A snapshot
consists of such batches too, with its own offsets from 0; `snapshot_batches` writes it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..errors import RemoteProtocolError
from ..records import record_batch
from ..records.records import records as records_of
from ..types import Buffer
from .image import Delta, MetadataImage
from .messages import SnapshotId
from .records import MetadataRecord, decode_record, encode_record

SNAPSHOT_BATCH_RECORDS: Final = 1000


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """The records of one decision, written in `epoch`; the first of them is at `base_offset`."""

    base_offset: int
    epoch: int
    records: list[MetadataRecord]

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record."""
        return self.base_offset + len(self.records)


def encode_batch(
    records: Sequence[MetadataRecord], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytearray:
    """Encode one batch with its base offset, epoch and checksum."""
    return record_batch.build(
        ((timestamp_ms, None, encode_record(record)) for record in records),
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def decode_batches(data: Buffer) -> Iterator[MetadataBatch]:
    """Read whole batches and check their checksums.

    Raise RemoteProtocolError if a batch is malformed, or if the data ends within one.
    """
    end = 0
    for position, header in record_batch.headers(data):
        found = records_of(data, position, check_crc=True)
        if len(found) != header.last_offset_delta + 1:
            raise RemoteProtocolError(f"{header!r} lacks some of its records")
        yield MetadataBatch(
            header.base_offset,
            header.leader_epoch,
            [decode_record(record.value or b"") for record in found],
        )
        end = position + header.size
    if end != len(data):
        raise RemoteProtocolError(f"{len(data) - end} bytes after the last whole metadata batch")


def apply_batch(image: MetadataImage, batch: MetadataBatch, delta: Delta | None = None) -> Delta:
    """Apply one batch to the image, and return a Delta with the changes.

    The changes are added to `delta` if one is given, else to a new Delta. Raise RemoteProtocolError
    if the batch is not the next one of the log, or if one of its records does not fit the image.
    """
    delta = delta if delta is not None else Delta()
    if batch.base_offset != image.offset + 1:
        why = f"metadata batch at {batch.base_offset}, the next offset is {image.offset + 1}"
        raise RemoteProtocolError(why)
    for offset, record in enumerate(batch.records, batch.base_offset):
        image.apply(record, offset, delta)
    image.epoch = batch.epoch
    return delta


def replay(image: MetadataImage, data: Buffer) -> Delta:
    """Apply all batches in `data` to the image, and return a Delta with the changes."""
    delta = Delta()
    for batch in decode_batches(data):
        apply_batch(image, batch, delta)
    return delta


def snapshot_batches(image: MetadataImage, timestamp_ms: int) -> Iterator[bytearray]:
    """Yield the image as batches of a snapshot.

    The image must not change before the last batch is yielded, so the caller passes a copy if
    needed.
    """
    records = image.to_records()
    offset = 0
    while chunk := list(islice(records, SNAPSHOT_BATCH_RECORDS)):
        yield encode_batch(chunk, base_offset=offset, epoch=image.epoch, timestamp_ms=timestamp_ms)
        offset += len(chunk)


def load_snapshot(data: Buffer, snapshot: SnapshotId) -> MetadataImage:
    """Decode the image that a snapshot holds.

    Raise RemoteProtocolError if the data is malformed.
    """
    image = MetadataImage()
    replay(image, data)
    image.offset = snapshot.end_offset - 1
    image.epoch = snapshot.epoch
    return image
