"""A shard: one partition of an internal topic that this broker coordinates, with its state.

Records are appended as one batch under acks=all. The shard owns the callers that wait for those
appends, and answers them all when it is unloaded. The state gives records their meaning; `Shards`
loads and unloads shards as leadership changes.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...protocol.coordinator_records import Unread
from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import BatchHeader
from ...protocol.records.records import NO_SEQUENCE, BatchBuilder
from ...protocol.types import NO_EPOCH, NO_PRODUCER_ID
from ...runtime.runtime import Runtime
from ..partition.own_batches import append_own
from ..partition.partition import Partition
from ..partition.requests import Appended
from ..partition.verification import Verification
from ..partition.waiters import Waiter

KeyValue = tuple[bytes, bytes | None]
"""The key and value of a record; the value of a tombstone is None."""
Done = Callable[[ErrorCode], None]
"""Called once: with NONE after the commit, or with an error to answer a client with."""

_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class State(Protocol):
    """The in-memory state of a shard, built by replaying its log from the beginning."""

    def replay(
        self, key: bytes, value: bytes | None, offset: int, header: BatchHeader
    ) -> Unread | None:
        """Apply a record of the log; a tombstone of an unknown key changes nothing.

        `header` says whether the record belongs to a transaction; then it takes effect with the
        commit marker. If the record cannot be applied, return the reason, so that it is logged.
        """

    def replay_marker(self, header: BatchHeader, *, is_commit: bool) -> None:
        """Apply a marker, which ends a producer's transaction."""


S = TypeVar("S", bound=State)


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings for writing the shards of one internal topic."""

    topic: str
    append_timeout_ms: int = 5_000
    """Milliseconds after which an append that is not committed is answered with
    COORDINATOR_NOT_AVAILABLE."""
    too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    """The error if a batch exceeds the topic's max.message.bytes."""
    invalid_key: ErrorCode = ErrorCode.INVALID_REQUEST
    """The error for a key that is too long for a record."""
    home_of: Callable[[str], str] = str
    """Returns the name that is hashed to choose a key's partition; related keys share a name."""


class Pending:
    """One append or one reader that waits for a commit."""

    __slots__ = ("done", "waiter")

    def __init__(self, done: Done) -> None:
        self.done = done
        self.waiter: Waiter | None = None


class Shard(Generic[S]):
    """One partition of an internal topic, while this broker leads it in one leader epoch."""

    __slots__ = (
        "_is_flush_due",
        "_pending",
        "_runtime",
        "_settings",
        "_write_staged",
        "epoch",
        "index",
        "is_loaded",
        "is_open",
        "last_offset",
        "partition",
        "state",
    )

    def __init__(
        self,
        runtime: Runtime,
        partition: Partition,
        state: S,
        settings: ShardSettings,
        write_staged: Callable[[], None],
    ) -> None:
        """Create a shard; only `Shards` does. `write_staged` writes staged batches to the log."""
        self._runtime = runtime
        self._settings = settings
        self._write_staged = write_staged
        self._is_flush_due = False
        self._pending: dict[Pending, None] = {}
        self.partition = partition
        self.index = partition.index
        self.epoch = partition.leader_epoch
        """The leader epoch; it is the coordinator epoch of transaction markers."""
        self.state = state
        self.is_loaded = False
        self.is_open = True
        """False once the shard is unloaded; nothing may be answered from its state then."""
        self.last_offset = -1
        """The offset of the last record appended here."""

    def __repr__(self) -> str:
        return f"{self._settings.topic}-{self.index} in epoch {self.epoch}"

    def append(
        self,
        records: Sequence[KeyValue],
        done: Done,
        *,
        producer: tuple[int, int] | None = None,
        guard: Verification | None = None,
    ) -> bool:
        """Append the records as one batch; call `done` once, after the commit or with an error.

        Return False if the batch is refused; `done` has got the error by then. Return True if the
        records are in this broker's log, the last of them at `last_offset`. They are lost only
        with the leadership, and `done` is called later. `producer` is the id and epoch of the
        records' transaction; `guard` is its verification, if it begins in this partition.
        """
        builder = BatchBuilder(is_transactional=producer is not None)
        wall_ms = self._runtime.wall_ms()
        for key, value in records:
            builder.append(wall_ms, key, value)
        producer_id, producer_epoch = producer or (NO_PRODUCER_ID, NO_EPOCH)
        batch = builder.build(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=NO_SEQUENCE
        )
        if not self.is_open:
            done(ErrorCode.NOT_COORDINATOR)
            return False
        appended = append_own(self.partition, batch, wall_ms, guard)
        if appended.error:
            done(self._coordinator_error(appended.error))
            return False
        self.wait_for(appended, done)
        return True

    def wait_for(self, appended: Appended, done: Done) -> None:
        """Call `done` once a batch that was appended to this partition is committed or lost."""
        self.last_offset = max(self.last_offset, appended.last_offset)
        self._wait(appended, done)
        if not self._is_flush_due:
            # Staged batches are written at the end of a read event, but a timer has none.
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def when_settled(self, offset: int, done: Done) -> None:
        """Call `done` once all records up to and including `offset` are committed, perhaps now.

        An answer that shows the state is sent only then, because that state must survive a
        failover.
        """
        if not self.is_open:
            done(ErrorCode.NOT_COORDINATOR)
        elif offset < self.partition.high_watermark:
            done(ErrorCode.NONE)
        else:
            self._wait(Appended(base_offset=offset, last_offset=offset), done)

    def close(self) -> None:
        """Close the shard, and answer all waiting callers with NOT_COORDINATOR."""
        self.is_open = False
        pending, self._pending = self._pending, {}
        for each in pending:
            if each.waiter is not None:
                each.waiter.cancel()
        for each in pending:
            each.done(ErrorCode.NOT_COORDINATOR)

    def _wait(self, appended: Appended, done: Done) -> None:
        pending = Pending(done)
        self._pending[pending] = None

        def finish() -> None:
            if self._pending.pop(pending, 0) is None:
                pending.done(self._coordinator_error(appended.error))

        deadline_ms = self._runtime.monotonic_ms() + self._settings.append_timeout_ms
        pending.waiter = self.partition.when_committed(appended, deadline_ms, finish)

    def _flush(self) -> None:
        self._is_flush_due = False
        self._write_staged()

    def _coordinator_error(self, error: ErrorCode) -> ErrorCode:
        if error in TOO_LARGE:
            return self._settings.too_large
        return _COORDINATOR_ERRORS.get(error, error)
