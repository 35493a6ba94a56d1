"""Reads the records of a source partition by their offsets, and builds the batches of plans."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import headers
from ...protocol.records.records import Record, records_at
from ...protocol.types import Buffer, TopicPartition
from ..partition.own_reading import read_own
from ..partition.partition import Partition
from .emitting import build, size_of
from .steps import Plan

KEPT_BYTES: Final = 1 << 20
"""About the most bytes of records that are kept from their plan until they are sent."""
TURN: Final = 16
"""The batches that are read in one turn of the event loop, which takes some milliseconds."""


class RecordsDeleted(Exception):
    """Raised if DeleteRecords has removed records of a plan."""


class TooMuch(Exception):
    """Raised if the records that are asked for are too large together."""


class ParkedRecords:
    """The records of one source partition."""

    def __init__(self, partition: Partition, name: TopicPartition) -> None:
        self._partition = partition
        self._name = name
        self._kept: dict[int, Record] = {}
        self._kept_bytes = 0

    def keep(self, found: Iterable[Record]) -> None:
        """Keep records that are about to be sent, so that they need not be read again."""
        for record in found:
            self._kept_bytes += size_of(record)
            if self._kept_bytes > KEPT_BYTES:
                break
            self._kept[record.offset] = record

    def forget(self) -> None:
        """Drop what is kept, because sending has stopped for now."""
        self._kept.clear()
        self._kept_bytes = 0

    async def read(
        self, offsets: Iterable[int], most_bytes: int | None = None
    ) -> dict[int, Record] | None:
        """Return the records at these offsets that are there; None if reading fails for now.

        Raise TooMuch if they are several, and larger than `most_bytes` together.
        """
        partition = self._partition
        found: dict[int, Record] = {}
        wanted = sorted(offset for offset in offsets if offset >= partition.log_start_offset)
        at, size, batches = 0, 0, 0
        while at < len(wanted):
            data = await read_own(partition, wanted[at], partition.high_watermark, 1)
            if data is None:
                return None
            batch, next_offset = _picked(data, wanted, at)
            for record in batch:
                found[record.offset] = record
                size += size_of(record)
            if most_bytes is not None and size > most_bytes and len(wanted) > 1:
                raise TooMuch
            at = bisect_left(wanted, next_offset, at + 1)
            batches += 1
            if not batches % TURN:
                await asyncio.sleep(0)
        return found

    async def present(self, offsets: Iterable[int]) -> list[int] | None:
        """Return those of the offsets whose records are there; None if reading fails for now."""
        wanted = [*offsets]
        found = await self.read(wanted)
        return None if found is None else [offset for offset in wanted if offset in found]

    async def gone(self, plans: Iterable[Plan]) -> dict[int, None] | None:
        """Return the offsets of these plans whose records are not there any more; None as above.

        A record that is forwarded again may have been cleaned away before its plan was known.
        """
        gone: dict[int, None] = {}
        for plan in plans:
            there = await self.present(plan.offsets)
            if there is None:
                return None
            gone.update(dict.fromkeys(plan.offsets))
            for offset in there:
                del gone[offset]
        return gone

    async def batch_of(self, plan: Plan) -> bytearray | None:
        """Return the batch of a plan; None if its records cannot be read now.

        Raise RecordsDeleted if one of them is deleted.
        """
        kept = self._kept
        found = {offset: kept.pop(offset) for offset in plan.offsets if offset in kept}
        if not kept:
            self._kept_bytes = 0
        missing = [offset for offset in plan.offsets if offset not in found]
        if missing:
            read = await self.read(missing)
            if read is None:
                return None
            found.update(read)
        if len(found) < len(plan.offsets) or min(found) < self._partition.log_start_offset:
            raise RecordsDeleted
        return build(plan, found, self._name, self._partition.log.config)


def _picked(data: Buffer, wanted: list[int], at: int) -> tuple[list[Record], int]:
    """Return those records of the first batch that are wanted, and the offset behind it.

    The offset is -1 if there is no batch.
    """
    for position, header in headers(data):
        behind = bisect_left(wanted, header.next_offset, at)
        try:
            return records_at(data, position, header, wanted[at:behind]), header.next_offset
        except RemoteProtocolError:
            # Nobody takes what cannot be read: the draft drops it, and the broker's log says so.
            return [], header.next_offset
    return [], -1
