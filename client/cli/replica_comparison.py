"""Compares the replicas of partitions batch by batch: their offsets, checksums and ends.

Pure. It takes the data read from replicas, and returns sentences about the differences.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...protocol.errors import ApiError
from ...protocol.records.batch_header import BatchHeader, crc_is_valid, headers
from ...protocol.types import TopicPartition
from ..admin.replica_types import ReplicaRead

Reads = Mapping[int, ReplicaRead | ApiError]
"""The data read from each replica of a partition, or the error, by broker id."""


class Lag(NamedTuple):
    """A partition, and the number of offsets from its comparison to the high watermark."""

    records: int
    partition: TopicPartition
    offset: int


class Difference(NamedTuple):
    """One sentence about what is wrong, and whether the logs cannot be compared any further."""

    text: str
    is_final: bool = False


class Comparison:
    """Compares replicas; remembers the offset up to which each partition was compared."""

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Compare from these offsets on."""
        self.offsets = dict(offsets)

    def compare(self, partition: TopicPartition, reads: Reads) -> list[Difference]:
        """Compare the replicas up to the end of the shortest one; the next call continues there.

        A replica that could not be read counts as one without data, so that its partition makes no
        progress.
        """
        where = f"{partition.topic}-{partition.partition}"
        found: list[Difference] = []
        logs = {replica: _batches(read) for replica, read in reads.items()}
        while logs:
            first: tuple[int, BatchHeader] | None = None
            is_everywhere = True
            for replica, batches in logs.items():
                each = next(batches, None)
                if each is None:
                    is_everywhere = False
                    continue
                batch, is_intact = each
                if not is_intact:
                    found.append(_damaged(where, replica, batch))
                if first is None:
                    first = replica, batch
                elif batch.last_offset != first[1].last_offset:
                    return [*found, _elsewhere(where, (replica, batch), first)]
                elif batch.crc != first[1].crc:
                    found.append(_unlike(where, (replica, batch), first))
            if first is None or not is_everywhere:
                break
            self.offsets[partition] = first[1].next_offset
        return found

    def lag(self, partition: TopicPartition, reads: Reads) -> Lag:
        """Return how far the partition is behind the highest high watermark of its replicas."""
        offset = self.offsets[partition]
        known = [read.high_watermark for read in reads.values() if isinstance(read, ReplicaRead)]
        return Lag(max(known, default=offset) - offset, partition, offset)


def _batches(read: ReplicaRead | ApiError) -> Iterator[tuple[BatchHeader, bool]]:
    """Yield each batch's header, and whether its bytes match its checksum; nothing for an error."""
    if isinstance(read, ReplicaRead):
        for position, header in headers(read.data):
            yield header, crc_is_valid(read.data, position, header)


def _elsewhere(
    where: str, one: tuple[int, BatchHeader], other: tuple[int, BatchHeader]
) -> Difference:
    return Difference(
        f"partition {where}: replica {one[0]}'s offset {one[1].last_offset} doesn't match "
        f"replica {other[0]}'s offset {other[1].last_offset}",
        is_final=True,
    )


def _unlike(where: str, one: tuple[int, BatchHeader], other: tuple[int, BatchHeader]) -> Difference:
    return Difference(
        f"partition {where} has unmatched checksum at offset {one[1].last_offset}; "
        f"replica {other[0]}'s checksum {other[1].crc}; replica {one[0]}'s checksum {one[1].crc}"
    )


def _damaged(where: str, replica: int, batch: BatchHeader) -> Difference:
    return Difference(
        f"partition {where}: replica {replica}'s batch at offset {batch.last_offset} is damaged: "
        f"its bytes don't match its checksum {batch.crc}"
    )
