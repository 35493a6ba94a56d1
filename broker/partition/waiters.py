"""The waiters of a partition: producers that wait for a commit, and fetches that wait for data.

`LeaderReplica` decides whether enough replicas (min ISR) hold a batch; the result of each append is
in its `Appended`.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ..deadlines import Deadline, Deadlines
from .requests import Appended, DataWaiter

if TYPE_CHECKING:
    from .partition import Partition

NEVER = 1 << 62


class Waiter:
    """One append that waits for its commit. A cancelled waiter is skipped by the queue."""

    __slots__ = ("appended", "deadline_ms", "done", "offset")

    def __init__(
        self, offset: int, appended: Appended, deadline_ms: int, done: Callable[[], None] | None
    ) -> None:
        self.offset = offset
        self.appended = appended
        self.deadline_ms = deadline_ms
        self.done = done

    def cancel(self) -> None:
        """Give up waiting; `done` is never called."""
        self.done = None


class CommitWaiters:
    """Waiting appends of one partition in offset order, completed from the front.

    Offsets only grow, so the queue is sorted by arrival. The exception is a producer's repeat of an
    older batch that is still uncommitted: it is inserted at its offset. One deadline on the timer
    wheel serves the whole queue, at the earliest deadline of the waiters.
    """

    __slots__ = ("_armed", "_armed_ms", "_queue", "_wheel")

    def __init__(self, wheel: Deadlines) -> None:
        self._wheel = wheel
        self._queue: deque[Waiter] = deque()
        self._armed: Deadline | None = None
        self._armed_ms = NEVER

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiter: Waiter) -> None:
        """Queue a waiter by its offset, and set the timer if its deadline is the earliest."""
        queue = self._queue
        if not queue or queue[-1].offset <= waiter.offset:
            queue.append(waiter)
        else:
            place = len(queue)
            while place and queue[place - 1].offset > waiter.offset:
                place -= 1
            queue.insert(place, waiter)
        if waiter.deadline_ms < self._armed_ms:
            self._arm(waiter.deadline_ms)

    def complete(self, high_watermark: int, error: ErrorCode) -> None:
        """Complete the waiters up to `high_watermark`, with `error` if that is not NONE."""
        queue = self._queue
        while queue and queue[0].offset <= high_watermark:
            waiter = queue.popleft()
            if waiter.done is not None:
                if error:
                    waiter.appended.error = error
                waiter.done()
        if not queue:
            self._disarm()

    def fail(self, error: ErrorCode) -> None:
        """Complete every waiter with `error`, because the role ended or the disk failed."""
        queue, self._queue = self._queue, deque()
        self._disarm()
        for waiter in queue:
            if waiter.done is not None:
                waiter.appended.error = error
                waiter.done()

    def _arm(self, deadline_ms: int) -> None:
        self._disarm()
        self._armed_ms = deadline_ms
        self._armed = self._wheel.at(deadline_ms, self._expire)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
            self._armed_ms = NEVER

    def _expire(self) -> None:
        """Answer waiters past their deadline with an error; their records may commit later."""
        now_ms, self._armed, self._armed_ms = self._armed_ms, None, NEVER
        waiting, self._queue = self._queue, deque()
        expired = [waiter for waiter in waiting if waiter.deadline_ms <= now_ms]
        self._queue.extend(
            waiter for waiter in waiting if waiter.deadline_ms > now_ms and waiter.done is not None
        )
        if self._queue:
            self._arm(min(waiter.deadline_ms for waiter in self._queue))
        for waiter in expired:
            if waiter.done is not None:
                waiter.appended.error = ErrorCode.REQUEST_TIMED_OUT
                waiter.done()


class DataWaiters:
    """The waiting fetches of one partition, which are notified of data and of changed roles."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[DataWaiter] | None = None
        """The waiters in the order in which they came; None while there are none."""

    def add(self, waiter: DataWaiter) -> None:
        """Notify `waiter` of changes from now on, until `remove`."""
        if self.waiting is None:
            self.waiting = [waiter]
        elif waiter not in self.waiting:
            self.waiting.append(waiter)

    def remove(self, waiter: DataWaiter) -> None:
        """Remove a waiter, if it is there."""
        waiting = self.waiting
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                self.waiting = None

    def wake(self, partition: "Partition") -> None:
        """Wake all waiters, because the role has changed."""
        for waiter in tuple(self.waiting or ()):
            waiter.on_data(partition)

    def on_appended(self, partition: "Partition") -> None:
        """Wake the waiting followers, because the log has grown."""
        for waiter in tuple(self.waiting or ()):
            if waiter.is_follower:
                waiter.on_data(partition)

    def on_committed(self, partition: "Partition") -> None:
        """Wake waiting consumers at a new high watermark; let followers note it."""
        for waiter in tuple(self.waiting or ()):
            if waiter.is_follower:
                waiter.note(partition)
            else:
                waiter.on_data(partition)

    def note_followers(self, partition: "Partition") -> None:
        """Let waiting followers note that their next answers must include this partition."""
        for waiter in tuple(self.waiting or ()):
            if waiter.is_follower:
                waiter.note(partition)
