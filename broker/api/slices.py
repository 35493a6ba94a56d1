"""Long requests answered in slices of a few milliseconds, one in each turn of the event loop.

A request may name a hundred thousand items. The response to one of them is cheap, but building all
of them in one turn would delay heartbeats.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ...protocol.types import Buffer
from ..net.answer import Call, CallAnswer

ITEMS_AT_ONCE = 200
"""The number of items answered between two checks of the clock."""
SLICE_MS = 5

Asked = TypeVar("Asked")
Told = TypeVar("Told")


def answer_each(
    call: Call,
    asked: Sequence[Asked],
    each: Callable[[Asked], Told],
    whole: Callable[[list[Told]], object],
) -> object:
    """Build the response: `each` answers an item, and `whole` combines the results.

    Many items are answered in slices, in several turns of the event loop. Each item is answered in
    the state that it has when its slice is made.
    """
    if len(asked) <= ITEMS_AT_ONCE:
        return whole([each(one) for one in asked])
    return Sliced(call, asked, each, whole)


class Sliced(CallAnswer, Generic[Asked, Told]):
    """An answer about many items, built slice by slice."""

    __slots__ = ("_asked", "_each", "_told", "_whole")

    def __init__(
        self,
        call: Call,
        asked: Sequence[Asked],
        each: Callable[[Asked], Told],
        whole: Callable[[list[Told]], object],
    ) -> None:
        super().__init__(call)
        self._asked = asked
        self._each = each
        self._whole = whole
        self._told: list[Told] = []

    def poll(self) -> list[Buffer] | None:
        """Build the next slice; return the response once all items are answered, else None.

        While items are left, the connection polls again in the next turn of the event loop.
        """
        asked, told = self._asked, self._told
        monotonic_ms = self.call.edge.runtime.monotonic_ms
        end_ms = monotonic_ms() + SLICE_MS
        while True:
            told += [self._each(one) for one in asked[len(told) : len(told) + ITEMS_AT_ONCE]]
            if len(told) == len(asked):
                return self.call.frame(self._whole(told))
            if monotonic_ms() >= end_ms:
                self.call.connection.wake()
                return None

    def cancel(self) -> None:
        """Drop the response, because the client is gone."""
