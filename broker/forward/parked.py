"""Reads the records of a source partition by their offsets, and builds the batches of plans."""

from collections.abc import Iterable

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import headers
from ...protocol.records.records import Record, records
from ...protocol.types import Buffer, TopicPartition
from ..partition.own_reading import read_own
from ..partition.partition import Partition
from .emitting import build
from .steps import Plan


class RecordsDeleted(Exception):
    """Raised if DeleteRecords has removed records of a plan."""


class ParkedRecords:
    """The records of one source partition."""

    def __init__(self, partition: Partition, name: TopicPartition) -> None:
        self._partition = partition
        self._name = name

    async def read(self, offsets: Iterable[int]) -> dict[int, Record] | None:
        """Return the records at these offsets that are there; None if reading fails for now."""
        found: dict[int, Record] = {}
        partition = self._partition
        batch: dict[int, Record] = {}
        read_up_to = -1
        for offset in sorted(offsets):
            if offset >= read_up_to and offset >= partition.log_start_offset:
                data = await read_own(partition, offset, partition.high_watermark, 1)
                if data is None:
                    return None
                batch, read_up_to = _first_batch(data)
            if offset in batch:
                found[offset] = batch[offset]
        return found

    async def batch_of(self, plan: Plan) -> bytearray | None:
        """Return the batch of a plan; None if its records cannot be read now.

        Raise RecordsDeleted if one of them is deleted.
        """
        found = await self.read(plan.offsets)
        if found is None:
            return None
        if len(found) < len(plan.offsets):
            raise RecordsDeleted
        return build(plan, found, self._name, self._partition.log.config.delay)


def _first_batch(data: Buffer) -> tuple[dict[int, Record], int]:
    """Return the records of the first batch by offset, and the offset behind it."""
    for position, header in headers(data):
        try:
            found = records(data, position)
        except RemoteProtocolError:
            found = []
        return {record.offset: record for record in found}, header.next_offset
    return {}, -1
