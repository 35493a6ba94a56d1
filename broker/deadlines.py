"""One coarse timer wheel for all deadlines of a broker, instead of a timer per request.

The wheel owns one timer of the event loop, which runs only while a deadline is armed. Deadlines are
rounded up to the next multiple of 10 ms, called a notch. So none fires early, and a thousand
deadlines of the same notch cost one wake-up.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable

from ..runtime.runtime import Runtime

NOTCH_MS = 10
EMPTY_MAX = 1_000
"""The most empty notches that are kept, unless there are more of the others."""


class Deadline:
    """One armed callback."""

    __slots__ = ("_wheel", "expire", "notch", "number")

    def __init__(self, wheel: "Deadlines", notch: int, number: int) -> None:
        self._wheel: Deadlines | None = wheel
        self.notch = notch
        self.number = number
        self.expire: Callable[[], None] | None = None

    def cancel(self) -> None:
        """Make sure that the callback is not called; do nothing if it has been called already."""
        wheel, self._wheel, self.expire = self._wheel, None, None
        if wheel is not None:
            wheel.forget(self)


class Deadlines:
    """The timer wheel: a heap of notches, and the deadlines of each in order of arming."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._notches: dict[int, dict[int, Deadline]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_notch = 0
        self._count = 0
        self._cancelled = 0

    def at(self, deadline_ms: int, expire: Callable[[], None]) -> Deadline:
        """Call `expire` soon after `deadline_ms` on the monotonic clock, unless cancelled."""
        notch = -(-deadline_ms // NOTCH_MS)
        self._count = number = self._count + 1
        deadline = Deadline(self, notch, number)
        deadline.expire = expire
        is_new = notch not in self._notches
        self._bucket(notch)[number] = deadline
        if is_new:
            self._arm()
        return deadline

    def after(self, delay_ms: int, expire: Callable[[], None]) -> Deadline:
        """Call `expire` soon after `delay_ms` from now, unless cancelled."""
        return self.at(self._runtime.monotonic_ms() + delay_ms, expire)

    def forget(self, deadline: Deadline) -> None:
        """Drop a cancelled deadline; its notch may stay for a while, even if it is empty."""
        bucket = self._notches.get(deadline.notch)
        if bucket is not None:
            bucket.pop(deadline.number, None)
            # Each cancelled deadline leaves one empty notch at most.
            self._cancelled += 1
            if self._cancelled > EMPTY_MAX and 2 * self._cancelled > len(self._order):
                self._drop_empty()

    def close(self) -> None:
        """Forget every deadline without firing it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._notches.clear()
        self._order.clear()

    def _arm(self) -> None:
        """Set the timer to the earliest notch."""
        notch = self._order[0]
        if self._timer is not None:
            if self._timer_notch <= notch:
                return
            self._timer.cancel()
        delay_ms = max(0, notch * NOTCH_MS - self._runtime.monotonic_ms())
        self._timer_notch = notch
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._turn)

    def _turn(self) -> None:
        """Call the callbacks of every notch whose time has come, the earliest first."""
        self._timer = None
        now_ms = self._runtime.monotonic_ms()
        due: deque[Deadline] = deque()
        while self._order and self._order[0] * NOTCH_MS <= now_ms:
            due.extend(self._notches.pop(heapq.heappop(self._order)).values())
        try:
            while due:
                # A deadline that an earlier one has cancelled has nothing to call. One that is
                # armed here for a time already past waits for the next turn of the loop.
                deadline = due.popleft()
                expire, deadline.expire = deadline.expire, None
                if expire is not None:
                    expire()
        finally:
            # If a callback raises, the deadlines after it fire in the next turn.
            for deadline in due:
                self._bucket(deadline.notch)[deadline.number] = deadline
            if self._order:
                self._arm()

    def _drop_empty(self) -> None:
        """Drop the notches that have nothing in them, whose time may be far off."""
        self._cancelled = 0
        self._notches = {notch: bucket for notch, bucket in self._notches.items() if bucket}
        self._order = list(self._notches)
        heapq.heapify(self._order)

    def _bucket(self, notch: int) -> dict[int, Deadline]:
        bucket = self._notches.get(notch)
        if bucket is None:
            bucket = self._notches[notch] = {}
            heapq.heappush(self._order, notch)
        return bucket
