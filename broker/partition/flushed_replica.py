"""What `flush.policy=group` adds to a replica: who waits for its own disk, and what a flush means.

Under it a copy counts only as far as it is on stable storage: acks=1 waits for the leader's own
flush, acks=all for those of all members of the ISR. It never flushes: `GroupFlush` does, off the
loop, one flush at a time for each log, and what is appended meanwhile shares the next one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode
from ..replica.leader import Effects
from .hosted_replica import HostedReplica
from .requests import Appended
from .waiters import CommitWaiters, Waiter

if TYPE_CHECKING:
    from .partition import Partition


class FlushedReplica(HostedReplica):
    """A replica, and whoever waits until its log is on stable storage."""

    __slots__ = ()

    @property
    def group_flush(self) -> bool:
        """Does a copy count only as far as it is flushed?"""
        return self.metadata.group_flush

    @property
    def flushed_offset(self) -> int:
        """What a follower tells its leader; -1 where nobody asks."""
        return self.log.flushed_offset if self.metadata.group_flush else -1

    def flush_if_behind(self) -> None:
        """Have flushed what is not yet, if that is what it takes to count."""
        if self.metadata.group_flush and self.log.flushed_offset < self.log.log_end_offset:
            self._host.flush_soon(cast("Partition", self))

    def when_flushed(
        self, appended: Appended, deadline_ms: int, done: Callable[[], None]
    ) -> Waiter | None:
        """Call `done` once `appended` is final for acks=1; at once, with None, if it is."""
        if self.leader is None and not appended.error:
            appended.error = self.offline_because or ErrorCode.NOT_LEADER_OR_FOLLOWER
        offset = appended.last_offset + 1
        if appended.error or offset <= self.log.flushed_offset:
            done()
            return None
        if self._flush_waiters is None:
            self._flush_waiters = CommitWaiters(self._host.wheel)
        waiter = Waiter(offset, appended, deadline_ms, done)
        self._flush_waiters.add(waiter)
        return waiter

    def on_flushed(self) -> None:
        """A flush has ended: the log tells up to where it is stable now."""
        flushed_offset = self.log.flushed_offset
        if self._flush_waiters:
            self._flush_waiters.complete(flushed_offset, ErrorCode.NONE)
        if self.leader is not None:
            self.carry_out(self.leader.on_flushed(flushed_offset, self._host.monotonic_ms()))

    def carry_out(self, effects: Effects) -> None:
        """Do what the leader decided."""
        raise NotImplementedError

    def _fail_flush_waiters(self, error: ErrorCode) -> None:
        """The role or the disk is gone: what was waited for may or may not survive."""
        if self._flush_waiters is not None:
            self._flush_waiters.fail(error)
