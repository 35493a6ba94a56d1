"""The lag of a reader in one partition, as plain values."""

from typing import NamedTuple


class PartitionLag(NamedTuple):
    """How much a reader has left in one partition, counted from the offset that it committed."""

    committed_offset: int
    """Everything before it is read."""
    high_watermark: int
    """Everything before it is committed to the replicas."""
    last_stable_offset: int | None = None
    """Readers of committed transactions read up to here. None, as all that follows, of a broker
    that is too old, or of another cluster."""
    records: int | None = None
    """Records left up to the last stable offset: no markers, none that are aborted or deleted."""
    size_bytes: int | None = None
    """Bytes of those records, as stored: compressed ones compressed."""
    seconds: float | None = None
    """Age of the first of those records, by the timestamp of its batch; 0: nothing is left. Also
    None where records have no timestamps."""
    is_estimated: bool = False
    """There was more than the broker walks at once: records and bytes are estimates."""

    @property
    def offsets(self) -> int:
        """Offsets up to the high watermark, which Kafka's tools call the lag; markers count."""
        return max(self.high_watermark - self.committed_offset, 0)
