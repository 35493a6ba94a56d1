"""Chooses the committed batches of a fetch: each is checked first, then selected by its header.

Pure. Only markers are read as records. A bit of the header decides whether a batch is skipped, so
no header is trusted before the batch's checksum is checked.
"""

from collections.abc import Iterator

from ..client.consumer.aborted import AbortedBatches
from ..client.records import RawRecords
from ..protocol.errors import RemoteProtocolError
from ..protocol.records.record_batch import MAGIC, BatchHeader, crc_is_valid, headers, records
from ..protocol.types import Buffer

Placed = tuple[int, BatchHeader]
"""A batch's position in the bytes that were fetched, and its header."""


def checked(data: Buffer, *, check_crcs: bool = True) -> Iterator[Placed]:
    """Walk whole batches, and check each when it is reached.

    Raises RemoteProtocolError for another format, a wrong checksum, or offsets that do not rise,
    because the checksum does not cover the base offset.
    """
    last = -1
    for pos, header in headers(data):
        if header.magic != MAGIC:
            raise _refused(header, f"has magic {header.magic}: only {MAGIC} is read")
        if check_crcs and not crc_is_valid(data, pos, header):
            raise _refused(header, "is corrupt: its checksum does not match")
        if not last < header.base_offset <= header.last_offset:
            raise _refused(header, f"ends at {header.last_offset}, and follows offset {last}")
        last = header.last_offset
        yield pos, header


def _refused(header: BatchHeader, why: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"the batch at offset {header.base_offset} {why}")


def visible(raw: RawRecords, *, check_crcs: bool = True) -> Iterator[Placed]:
    """Yield the batches with committed records, in order.

    Control batches, which hold markers, and batches of aborted transactions are left out. Raises
    RemoteProtocolError as `checked` does, and if the first batch ends before the requested offset.
    """
    aborted = AbortedBatches(raw.aborted_transactions) if raw.aborted_transactions else None
    is_first = True
    for pos, header in checked(raw.data, check_crcs=check_crcs):
        if is_first and header.last_offset < raw.position:
            raise RemoteProtocolError(
                f"asked for offset {raw.position}, got a batch that ends at {header.last_offset}"
            )
        is_first = False
        if aborted is not None and aborted.covers(header):
            continue
        if not header.is_control:
            yield pos, header
        elif aborted is not None:
            marker = next(iter(records(raw.data, pos, check_crc=False)), None)
            aborted.on_marker(header.producer_id, None if marker is None else marker.key)
