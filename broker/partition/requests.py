"""The values that the edge of the broker hands to a partition, and gets from it.

Values only: no partition, log or connection is known here. An `Appended` is filled in twice: at
once with what the checks decided, and after the write with what the disk said.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import READ_UNCOMMITTED
from ...protocol.records.record_checks import RecordError, RecordRules
from ...protocol.types import Buffer, OffsetAndEpoch
from ...storage.aborted import AbortedTransaction

if TYPE_CHECKING:
    from .partition import Partition

CONSUMER = -1
"""The replica id of anyone who is not a broker."""
DEBUGGING_CONSUMER = -2
"""Of a reader, no broker either, who wants batches without records too, as a follower gets them."""


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
    """The records that are to blame, where they are known (KIP-467)."""
    needs_opening: RecordRules | None = None
    """Nothing is decided: a worker is to judge the batch by these, then it comes back."""


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
    """Up to where the asking follower's log is on stable storage; -1 when it does not say."""
    isolation: int = READ_UNCOMMITTED
    leader_only: bool = True
    """False: a follower may answer a consumer, up to its own high watermark (KIP-392)."""


@dataclass(slots=True)
class FetchAnswer:
    """What a partition gives to one fetch. Offsets are -1 where the error says nothing of them."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    """Where the follower's history leaves ours: truncate to here, and ask again."""
    records: Buffer = b""
    aborted: Sequence[AbortedTransaction] = ()
    """For a reader of committed transactions: those whose records among these do not count."""
    cold: Callable[[], Awaitable[Buffer]] | None = None
    """Set where the pages are not in memory: await it, off the read path, for the records."""
    leader_id: int = -1
    leader_epoch: int = -1
    """The leader as we know it, for the answer's CurrentLeader field on a stale asker."""
    preferred_read_replica: int = -1
    """Ask this broker instead: it is nearer, and has what was asked for (KIP-392)."""


@dataclass(slots=True)
class OffsetAnswer:
    """The answer to ListOffsets or OffsetForLeaderEpoch for one partition."""

    error: ErrorCode = ErrorCode.NONE
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1
    later: Callable[[], Awaitable["OffsetAnswer"]] | None = None
    """Set where the log must be searched, which may wait for the disk: await it for the answer."""


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
        """For followers: there is something to tell with the next answer, but not to wake for."""
