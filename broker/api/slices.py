"""Long requests answered in slices: some milliseconds of each turn of the loop.

A request may name a hundred thousand things. The response for each of them is cheap; all of them at
once would hold up heartbeats.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ...protocol.types import Buffer
from ..net.answer import Call, CallAnswer

ITEMS_AT_ONCE = 200
"""The number of items answered between two looks at the clock."""
SLICE_MS = 5

Asked = TypeVar("Asked")
Told = TypeVar("Told")


def answer_each(
    call: Call,
    asked: Sequence[Asked],
    each: Callable[[Asked], Told],
    whole: Callable[[list[Told]], object],
) -> object:
    """Make the `whole` response of what `each` gives for every item: at once, if there are few.

    An item that changes before its turn is answered as it is then.
    """
    if len(asked) <= ITEMS_AT_ONCE:
        return whole([each(one) for one in asked])
    return Sliced(call, asked, each, whole)


class Sliced(CallAnswer, Generic[Asked, Told]):
    """A long answer in the making."""

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
        """Make another slice of the response; the connection polls again in the next turn."""
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
        """Drop the response: the client is gone."""
