"""An answer that is sent later, once a coordinator has called its `finish`.

The answer keeps nothing of the request. `finish` may be called before the handler has returned.
"""

from collections.abc import Callable

from ...protocol.types import Buffer
from ..net.answer import Call, CallAnswer


class Parked(CallAnswer):
    """An answer that waits until its response message is passed to `finish`."""

    __slots__ = ("_is_gone", "_message", "_rests_on_lease")

    def __init__(self, call: Call, *, rests_on_lease: bool = False) -> None:
        """`rests_on_lease` is True if the answer is valid only while no other broker may lead."""
        super().__init__(call)
        self._message: object | None = None
        self._rests_on_lease = rests_on_lease
        self._is_gone = False

    def finish(self, message: object) -> None:
        """Set the response message. Ignored after the first call and after `cancel`."""
        if self._message is None and not self._is_gone:
            self._message = message
            self.call.connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Return the encoded response after `finish`, and None before."""
        if self._message is None:
            return None
        if self._rests_on_lease:
            self.call.rest_on_lease()
        return self.call.frame(self._message)

    def cancel(self) -> None:
        """Drop the answer, because the client is gone. Its request is still carried out."""
        self._is_gone = True


class Several:
    """Counts results that come one by one, and finishes the answer after the last of them."""

    __slots__ = ("_left", "_make", "_parked")

    def __init__(self, parked: Parked, count: int, make: Callable[[], object]) -> None:
        self._parked = parked
        self._make = make
        self._left = count
        if not count:
            parked.finish(make())

    def one_is_there(self) -> None:
        """Count one more result. After the last, finish the answer."""
        self._left -= 1
        if not self._left:
            self._parked.finish(self._make())
