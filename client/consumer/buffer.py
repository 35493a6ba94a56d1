"""The buffer between fetches and polls: chunks in the order of arrival, and errors.

Pure. The event that wakes a poll is given to the constructor. The buffer never fetches.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from ...protocol.errors import ApiError
from ..errors import ClientError
from .chunk import Chunk
from .positions import PartitionState


class Event(Protocol):
    """The part of `asyncio.Event` that the buffer and polls use."""

    def set(self) -> None:
        """Set the event and wake all tasks that wait for it."""

    def clear(self) -> None:
        """Reset the event, so that the next `wait` blocks."""

    def wait(self) -> Awaitable[object]:
        """Wait until the event is set."""


class _Reported(NamedTuple):
    error: ClientError | ApiError
    about: PartitionState | None
    seek_count: int

    def repeats(self, other: "_Reported") -> bool:
        """True if `other` is the same error about the same partition, with no seek between."""
        same_place = self.about is other.about and self.seek_count == other.seek_count
        return same_place and str(self.error) == str(other.error)


class Buffer:
    """Fetched chunks and fetch errors, kept until a poll hands them to the user."""

    def __init__(self, arrived: Event, on_room: Callable[[], None]) -> None:
        """`on_room` is called whenever chunks have left the buffer, taken by a poll or dropped."""
        self.size = 0
        """Bytes of fetched data that the buffer holds."""
        self.arrived = arrived
        """Set when a chunk or an error has arrived, so that a waiting poll looks again."""
        self._on_room = on_room
        self._chunks: deque[Chunk] = deque()
        self._errors: deque[_Reported] = deque()

    def add(self, chunk: Chunk) -> None:
        """Append a chunk and wake the poll that waits."""
        chunk.state.buffered_count += 1
        self.size += chunk.size
        self._chunks.append(chunk)
        self.arrived.set()

    def report(self, error: ClientError | ApiError, about: PartitionState | None = None) -> None:
        """Have the next poll raise an error, once.

        An error `about` a partition is dropped if that partition is unassigned, or its position
        jumps, before the poll.
        """
        reported = _Reported(error, about, -1 if about is None else about.seek_count)
        if about is None or not any(each.repeats(reported) for each in self._errors):
            self._errors.append(reported)
        self.arrived.set()

    def raise_error(self) -> None:
        """Raise the oldest reported error that still applies, if any."""
        while self._errors:
            error, about, seek_count = self._errors.popleft()
            if about is None or about.seek_count == seek_count:
                raise error

    def next_chunk(self) -> Chunk | None:
        """Return the oldest chunk of a partition that is not paused; None if there is none.

        The chunk stays in the buffer until `release`.
        """
        self.drop_void()
        return next((chunk for chunk in self._chunks if not chunk.state.is_paused), None)

    def release(self, chunk: Chunk) -> None:
        """Drop a chunk whose records the user has all got, which makes room for the next."""
        self._chunks.remove(chunk)
        self.size -= chunk.size
        if not chunk.is_void:
            chunk.state.buffered_count -= 1
        self._on_room()

    def drop_void(self) -> None:
        """Drop the chunks of partitions whose position has jumped or that were unassigned."""
        if any(chunk.is_void for chunk in self._chunks):
            self._chunks = deque(chunk for chunk in self._chunks if not chunk.is_void)
            self.size = sum(chunk.size for chunk in self._chunks)
            self._on_room()
