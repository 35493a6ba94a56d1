"""The lag of a reader in one partition, as plain values."""

from typing import NamedTuple


class PartitionLag(NamedTuple):
    """The part of one partition that a reader has yet to read, from its committed offset on."""

    committed_offset: int
    """The next offset to read: the reader has read all records before it."""
    high_watermark: int
    """The partition's high watermark: all records before it are replicated."""
    last_stable_offset: int | None = None
    """The offset up to which read_committed consumers read.
    It is None, as are records, size_bytes and seconds, if the broker lacks DescribeLag."""
    records: int | None = None
    """The records up to the last stable offset, without markers, aborted and deleted records."""
    size_bytes: int | None = None
    """The bytes of those records as stored, so after compression."""
    seconds: float | None = None
    """The age of the first of those records, by the timestamp of its batch; 0 if none is left. It
    is None if the records have no timestamps or the broker lacks DescribeLag."""
    is_estimated: bool = False
    """True if records and bytes are estimates: there was more than the broker reads at once."""

    @property
    def offsets(self) -> int:
        """Offsets up to the high watermark, markers included; Kafka's tools call this the lag."""
        return max(self.high_watermark - self.committed_offset, 0)
