"""Finds the keys of records that are written and not committed yet, in a topic with replace=key.

A newer record of a key takes the place of an older one that waits, by their places in the log. So
the leader must not plan the older one behind the newer one, though it has not folded that yet.
"""

from collections.abc import Container
from typing import Final

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT, headers
from ...protocol.records.records import opened
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...storage.log import Cold, OffsetOutOfRange
from ..partition.partition import Partition
from .folding import SourceState, short_key

MOST_BYTES: Final = 1 << 20
"""The most bytes behind the fold that are looked at, unless one batch is larger."""
MOST_OPENED: Final = 8 << 20
"""The most bytes to which those may expand."""
MOST_RECORDS: Final = 20_000
"""The most records in them."""


def keys_behind(partition: Partition, state: SourceState) -> Container[bytes] | None:
    """Return the short keys that records behind the fold may replace; None if that is not known."""
    keys: dict[bytes, None] = {}
    undecided: dict[int, list[bytes]] = {}
    at, end = state.folded, partition.log_end_offset
    bytes_left, records_left = MOST_OPENED, MOST_RECORDS
    try:
        data = partition.log.reader.read(at, max_bytes=MOST_BYTES, up_to=end).data
        for position, header in headers(data):
            at = header.next_offset
            records_left -= header.record_count
            if records_left < 0:
                return None
            producer_id = header.producer_id
            if header.attributes & CONTROL_BIT:
                keys.update(dict.fromkeys(undecided.pop(producer_id, ())))
                keys.update(dict.fromkeys(state.undecided_keys(producer_id)))
                continue
            batch = opened(data, position, header, bytes_left)
            bytes_left -= batch.size
            (parked,) = batch.parts(header.record_count, ())
            found = [short_key(one.key) for one in parked if one.key is not None]
            if header.attributes & TRANSACTIONAL_BIT:
                undecided.setdefault(producer_id, []).extend(found)
            else:
                keys.update(dict.fromkeys(found))
    except (Cold, OffsetOutOfRange, CorruptLog, RemoteProtocolError):
        return None
    except LogDirectoryFailed as error:
        partition.on_storage_error(error)
        return None
    return keys if at >= end else None
