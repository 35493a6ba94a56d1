"""One partition on this broker: one log, one role, and the order in which things happen to both.

Carries out the effects of `replica.leader` and `replica.follower` in the order they are returned.
Never waits: whatever must wait (a cold page, a commit) is handed back as something to wait on.
"""

from collections.abc import Callable

from ..protocol.errors import ErrorCode
from ..protocol.types import NO_LEADER
from .requests import Appended, DataWaiter, FetchAnswer, FetchSpec, OffsetAnswer
from .waiters import Waiter


class Partition:
    """The replica of one partition that this broker holds."""

    topic_id: bytes
    topic: str
    index: int
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    is_leader: bool = False

    @property
    def high_watermark(self) -> int:
        """Offset below which every in-sync replica holds the log."""
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or the high watermark."""
        raise NotImplementedError

    @property
    def log_start_offset(self) -> int:
        """First readable offset."""
        raise NotImplementedError

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but never more than the replicas there are."""
        raise NotImplementedError

    def append_as_leader(self, records: memoryview, *, acks: int, wall_ms: int) -> Appended:
        """Check everything, stamp in place and stage; final after `Partitions.write_staged`."""
        raise NotImplementedError

    def when_committed(
        self, appended: Appended, deadline_ms: int, done: Callable[[], None]
    ) -> Waiter | None:
        """Call `done` once `appended` is final for acks=all; at once, with None, if it is."""
        raise NotImplementedError

    def fetch(self, spec: FetchSpec, now_ms: int) -> FetchAnswer:
        """Validate, read, and record the follower's progress, in one step (A12, B-29)."""
        raise NotImplementedError

    def on_data(self, waiter: DataWaiter) -> None:
        """Tell `waiter` of everything that may change a fetch's answer, until `remove`."""
        raise NotImplementedError

    def remove(self, waiter: DataWaiter) -> None:
        """Forget a waiter; unknown ones do no harm."""
        raise NotImplementedError

    def list_offset(
        self,
        timestamp: int,
        *,
        current_leader_epoch: int = -1,
        isolation: int = 0,
        replica_id: int = -1,
    ) -> OffsetAnswer:
        """Offset for a timestamp or one of its negative names (A14: HW-bounded)."""
        raise NotImplementedError

    def end_offset_for_epoch(
        self, epoch: int, *, current_leader_epoch: int = -1, replica_id: int = -1
    ) -> OffsetAnswer:
        """End offset of the newest epoch of ours that is at most `epoch`."""
        raise NotImplementedError

    def validate_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NONE; -1 asks for no check."""
        raise NotImplementedError
