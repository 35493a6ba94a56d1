"""Accounts of the memory that connections hold, which decide which connections must give it up.

A broker has two accounts: for requests not yet handled, and for responses that clients have not
taken yet. A holder is a connection that holds memory. It has finished something when a request is
handled or a response is completely taken, and it moves while bytes arrive or leave. The rules:

    held     `total` is the sum of all sizes; a connection that holds nothing is not a holder
    order    holders are ordered by when, at the last look, they had last finished something, the
             longest ago first; a new holder comes last
    pressure holders that finished nothing for a while give up memory in that order, except
             followers and holders that are kept waiting
    stall    a holder with bytes under way that moves none for a bounded time gives up its memory

This module only decides; the caller closes the connections.
"""

from collections.abc import Callable, Container, Iterator
from typing import Final, Generic, Protocol, TypeVar

NOT_UNDER_WAY: Final = 0


class Holder(Protocol):
    """A connection that holds memory."""

    is_replica: bool
    """True if a follower fetches over the connection. A follower never has to give up memory,
    because other connections may wait for it."""


H = TypeVar("H", bound=Holder)
Progress = Callable[[H], tuple[int, int]]
"""Returns how often a holder has finished something, and a number that changes when bytes move. The
number is NOT_UNDER_WAY if no byte is expected from the peer, or to it."""


class _Held:
    __slots__ = ("finished", "moved", "moved_ms", "since_ms", "size")

    def __init__(self, size: int, now_ms: int, finished: int, moved: int) -> None:
        self.size = size
        self.since_ms = self.moved_ms = now_ms
        self.finished = finished
        self.moved = moved


class Holdings(Generic[H]):
    """The account of one kind of memory. Sizes are in bytes, times in milliseconds."""

    def __init__(self, progress: Progress[H], large: int) -> None:
        self._progress = progress
        self._large = large
        self._held: dict[H, _Held] = {}
        self.total = 0
        """The bytes of all holders."""
        self.large = 0
        """The bytes of those holders that hold more than the parameter `large` each."""

    def __iter__(self) -> Iterator[H]:
        """Iterate over holders; the one that finished something longest ago comes first."""
        return iter(list(self._held))

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, holder: H, size: int, now_ms: int) -> None:
        """Set the bytes that a holder holds now; 0 removes it."""
        held = self._held.get(holder)
        before = 0 if held is None else held.size
        self.total += size - before
        self.large += self._if_large(size) - self._if_large(before)
        if held is None:
            if size:
                self._held[holder] = _Held(size, now_ms, *self._progress(holder))
        elif size:
            held.size = size
        else:
            del self._held[holder]

    def _if_large(self, size: int) -> int:
        return size if size > self._large else 0

    def look(self, now_ms: int) -> None:
        """Note which holders have finished or moved something since the last call.

        A holder from which no byte is expected counts as moving, so that it does not stall.
        """
        for holder, held in list(self._held.items()):
            finished, moved = self._progress(holder)
            if finished != held.finished:
                held.finished, held.since_ms, held.moved_ms = finished, now_ms, now_ms
                del self._held[holder]
                self._held[holder] = held
            elif moved != held.moved or moved == NOT_UNDER_WAY:
                held.moved_ms = now_ms
            held.moved = moved

    def stalled(self, now_ms: int, stall_ms: int) -> list[H]:
        """Return the holders that had moved no byte for `stall_ms` at the last `look`."""
        return [h for h, held in self._held.items() if now_ms - held.moved_ms >= stall_ms]

    def renew(self, holder: H, now_ms: int) -> None:
        """Restart a holder's times but keep its order, because it had to wait until now."""
        held = self._held.get(holder)
        if held is not None:
            held.since_ms = held.moved_ms = now_ms

    def in_the_way(
        self, excess: int, now_ms: int, patience_ms: int, spared: Container[H] = ()
    ) -> list[H]:
        """Return holders to give up memory, enough to free `excess` bytes if there are so many.

        Those that finished something longest ago come first. A holder is left out if it finished
        something within `patience_ms`, is a follower, or is among `spared`.
        """
        found: list[H] = []
        for holder, held in self._held.items():
            if excess <= 0:
                break
            had_its_time = now_ms - held.since_ms >= patience_ms
            if had_its_time and not holder.is_replica and holder not in spared:
                found.append(holder)
                excess -= held.size
        return found
