"""An answer that a coordinator gives later: its handler passes on `finish`, and waits.

Owns nothing of the request; `finish` may be called before the handler has returned.
"""

from collections.abc import Callable

from ...protocol.types import Buffer
from ..net.answer import Call, CallAnswer


class Parked(CallAnswer):
    """An answer that waits for its message."""

    __slots__ = ("_is_gone", "_message", "_rests_on_lease")

    def __init__(self, call: Call, *, rests_on_lease: bool = False) -> None:
        """`rests_on_lease`: the answer tells committed state, so only a leader may give it."""
        super().__init__(call)
        self._message: object | None = None
        self._rests_on_lease = rests_on_lease
        self._is_gone = False

    def finish(self, message: object) -> None:
        """Give the answer; after the first, or without a client, it is ignored."""
        if self._message is None and not self._is_gone:
            self._message = message
            self.call.connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Answer once it is finished."""
        if self._message is None:
            return None
        if self._rests_on_lease:
            self.call.rest_on_lease()
        return self.call.frame(self._message)

    def cancel(self) -> None:
        """Drop the answer: the client is gone. Its request is carried out all the same."""
        self._is_gone = True


class Several:
    """Results that come one by one, and a message made of them when the last is there."""

    __slots__ = ("_left", "_make", "_parked")

    def __init__(self, parked: Parked, count: int, make: Callable[[], object]) -> None:
        self._parked = parked
        self._make = make
        self._left = count
        if not count:
            parked.finish(make())

    def one_is_there(self) -> None:
        """Count one more result; the last one finishes the answer."""
        self._left -= 1
        if not self._left:
            self._parked.finish(self._make())
