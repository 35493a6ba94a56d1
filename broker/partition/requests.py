"""The values that the edge of the broker hands to a partition, and gets from it.

Values only: no partition, log or connection is known here. An `Appended` is filled in twice: at
once with the result of the checks, and after the write with the result of the disk.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.fetch import READ_UNCOMMITTED
from ...protocol.records.record_checks import RecordError, RefusedRecords
from ...protocol.types import Buffer, OffsetAndEpoch
from ...storage.aborted import AbortedTransaction

if TYPE_CHECKING:
    from .partition import Partition

CONSUMER = -1
"""The replica id of anyone who is not a broker."""
DEBUGGING_CONSUMER = -2
"""The id of a reader, not a broker, that wants batches without records too, as followers do."""


@dataclass(slots=True)
class Appended:
    """The fate of one partition's batches in one produce request."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    last_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    """A sentence for the client where the code alone does not say what was wrong."""
    record_errors: tuple[RecordError, ...] = ()
    """The records at fault, if they are known (KIP-467)."""

    @classmethod
    def refusing(cls, error: ApiError) -> Self:
        """Answer a batch that a check has refused."""
        named = error.record_errors if isinstance(error, RefusedRecords) else ()
        return cls(error.code, message=error.detail, record_errors=named)


@dataclass(slots=True)
class FetchSpec:
    """One partition of one fetch."""

    fetch_offset: int
    max_bytes: int
    replica_id: int = CONSUMER
    broker_epoch: int = -1
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    flushed_offset: int = -1
    """The offset up to which the follower's log is on stable storage; -1 if not stated."""
    isolation: int = READ_UNCOMMITTED
    leader_only: bool = True
    """False: a follower may answer a consumer, up to its own high watermark (KIP-392)."""


@dataclass(slots=True)
class FetchAnswer:
    """A partition's answer to one fetch. Offsets are -1 if the error leaves them unknown."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    """The point where the follower's history leaves ours: truncate to here, and fetch again."""
    records: Buffer = b""
    aborted: Sequence[AbortedTransaction] = ()
    """The transactions whose records a reader of committed ones must leave out."""
    cold: Callable[[], Awaitable[Buffer]] | None = None
    """Set if the pages are not in memory: await it, off the read path, for the records."""
    leader_id: int = -1
    leader_epoch: int = -1
    """The leader as we know it, for the answer's CurrentLeader field on a stale asker."""
    preferred_read_replica: int = -1
    """A nearer broker to read from instead, which has the offset (KIP-392); -1: none."""


@dataclass(slots=True)
class OffsetAnswer:
    """The answer to ListOffsets or OffsetForLeaderEpoch for one partition."""

    error: ErrorCode = ErrorCode.NONE
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1
    later: Callable[[], Awaitable["OffsetAnswer"]] | None = None
    """Set if the log must be searched, which may wait for the disk: await it for the answer."""


class DataWaiter(Protocol):
    """Somebody parked until a partition may have something to fetch.

    Stays registered until `Partition.remove`; `on_data` must be cheap, must not call back into
    the partition's writing side, and may arrive more often than there is data.
    """

    is_follower: bool
    """True: woken by every append. False: woken when the high watermark moves."""

    def on_data(self, partition: "Partition") -> None:
        """The partition got readable bytes, changed its role, or went away."""

    def note(self, partition: "Partition") -> None:
        """Note a change that a follower's next answer reports, such as a new high watermark.

        Called only if `is_follower`. A parked fetch need not be answered for it.
        """
