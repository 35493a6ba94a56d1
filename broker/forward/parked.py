"""Reads the records of a source partition by their offsets, and builds the batches of plans."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import headers
from ...protocol.records.records import Record
from ...protocol.types import Buffer, TopicPartition
from ...runtime.errors import WorkerLost
from ..partition.own_reading import read_own
from ..partition.partition import Partition
from .emitting import build, size_of
from .opening import Offload, Turn, open_batch
from .steps import Plan

KEPT_BYTES: Final = 1 << 20
"""About the most bytes of records that are kept from their plan until they are sent."""
READING_BYTES: Final = 256 << 10
"""A read counts as so many bytes of its turn, beside those of its batch."""


class RecordsDeleted(Exception):
    """Raised if records of a plan are not in the log any more."""


class TooMuch(Exception):
    """Raised if the records that are asked for are too large together."""


class ParkedRecords:
    """The records of one source partition."""

    def __init__(self, partition: Partition, name: TopicPartition, offload: Offload) -> None:
        self._partition = partition
        self._name = name
        self._offload = offload
        self._kept: dict[int, Record] = {}
        self._kept_bytes = 0
        self.deleted: dict[int, None] = {}
        """The offsets of planned records that were found missing, until their owner clears it."""

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
        at, size, turn = 0, 0, Turn()
        while at < len(wanted):
            data = await read_own(partition, wanted[at], partition.high_watermark, 1)
            if data is None:
                return None
            try:
                batch, next_offset = await self._picked(data, wanted, at, turn)
            except WorkerLost:
                return None
            for record in batch:
                found[record.offset] = record
                size += size_of(record)
            if most_bytes is not None and size > most_bytes and len(wanted) > 1:
                raise TooMuch
            at = bisect_left(wanted, next_offset, at + 1)
        return found

    async def present(self, offsets: Iterable[int]) -> list[int] | None:
        """Return those of the offsets whose records are there; None if reading fails for now."""
        wanted = [*offsets]
        found = await self.read(wanted)
        return None if found is None else [offset for offset in wanted if offset in found]

    async def _picked(
        self, data: Buffer, wanted: list[int], at: int, turn: Turn
    ) -> tuple[list[Record], int]:
        """Return those records of the first batch that are wanted, and the offset behind it.

        The offset is -1 if there is no batch.
        """
        for position, header in headers(data):
            behind = bisect_left(wanted, header.next_offset, at)
            try:
                batch = await open_batch(self._offload, data, position, header)
                if turn.is_over(size=READING_BYTES + batch.size, records=behind - at):
                    await asyncio.sleep(0)
                return batch.at(wanted[at:behind]), header.next_offset
            except RemoteProtocolError:
                # Nobody takes what cannot be read: the draft drops it, and the broker's log says
                # so.
                return [], header.next_offset
        return [], -1

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
        start = self._partition.log_start_offset
        deleted = [offset for offset in plan.offsets if offset not in found or offset < start]
        if deleted:
            self.deleted.update(dict.fromkeys(deleted))
            raise RecordsDeleted
        return build(plan, found, self._name, self._partition.log.config)
