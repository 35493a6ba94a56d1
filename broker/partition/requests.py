"""The values that request handlers pass to a partition and get from it.

An `Appended` is filled in twice: first with the result of the checks, and later with an error if
the write or the commit fails.
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
"""The replica id of a reader that is not a broker."""
DEBUGGING_CONSUMER = -2
"""The replica id of a debugging consumer, which also gets batches that compaction has emptied."""


@dataclass(slots=True)
class Appended:
    """The result of appending one batch to a partition."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    last_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    """A message for the client, if the error code alone does not say what was wrong."""
    record_errors: tuple[RecordError, ...] = ()
    """The records at fault, if they are known (KIP-467)."""

    @classmethod
    def refusing(cls, error: ApiError) -> Self:
        """Make the result of a batch that a check has refused."""
        named = error.record_errors if isinstance(error, RefusedRecords) else ()
        return cls(error.code, message=error.detail, record_errors=named)


@dataclass(slots=True)
class FetchSpec:
    """The part of a fetch request that asks for one partition."""

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
    """False if a follower may answer a consumer, up to its own high watermark (KIP-392)."""


@dataclass(slots=True)
class FetchAnswer:
    """A partition's answer to one fetch. An offset is -1 if it is unknown because of an error."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    """Set if the reader's log diverges: it must truncate to this point and fetch again."""
    records: Buffer = b""
    hidden_bytes: int = 0
    """The bytes that were read and have expired. They count as read, so that nobody waits because
    of them."""
    aborted: Sequence[AbortedTransaction] = ()
    """The aborted transactions, whose records a read_committed consumer must skip."""
    cold: Callable[[], Awaitable[Buffer]] | None = None
    """Set if the records are not in memory. Call and await it, off the event loop's read path, to
    get the records."""
    leader_id: int = -1
    leader_epoch: int = -1
    """The leader's epoch. With `leader_id` it tells a client with outdated metadata who leads."""
    preferred_read_replica: int = -1
    """A nearer broker that has the offset, to read from instead (KIP-392); -1 if there is none."""


@dataclass(slots=True)
class OffsetAnswer:
    """The answer to ListOffsets or OffsetForLeaderEpoch for one partition."""

    error: ErrorCode = ErrorCode.NONE
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1
    later: Callable[[], Awaitable["OffsetAnswer"]] | None = None
    """Set if the log must be searched, perhaps on disk. Call and await it to get the answer."""


class DataWaiter(Protocol):
    """A waiting fetch, which is notified when a partition may have something for it.

    It stays registered until `DataWaiters.remove`. `on_data` must be cheap, must not append to the
    partition, and may be called more often than there is data.
    """

    is_follower: bool
    """True if every append wakes the waiter; False if only a new high watermark does."""

    def on_data(self, partition: "Partition") -> None:
        """Wake up, because the partition has readable bytes, changed its role or was removed."""

    def note(self, partition: "Partition") -> None:
        """Note a change that a follower's next answer reports, such as a new high watermark.

        Called only if `is_follower`. A waiting fetch need not be answered because of it.
        """
