"""Cuts a connection's bytes into frames, and refuses a size out of bounds before allocating it.

It serves `asyncio.BufferedProtocol`: the kernel writes into the reader's own buffer, and frames are
views of that buffer. Memory grows with the bytes that have arrived, not with a claimed size: the
buffer doubles only when it is full. The buffer of an idle connection is freed.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

from .errors import LocalProtocolError, RemoteProtocolError

SMALLEST_BUFFER: Final = 16 * 1024
BATCHING_BUFFER: Final = 256 * 1024
"""Bytes up to which many small frames enlarge the buffer; only a large frame enlarges it more."""
EXACT_READ: Final = 64 * 1024
"""If a frame lacks at least this many bytes, reads stop exactly at the frame's end, so that the
next frame starts at the buffer's front."""
READS_BEFORE_SHRINKING: Final = 256
KEPT_FOR_REUSE: Final = 3
"""The number of buffers handed out by `keep` that are remembered to be used again."""

CONTROL_FRAME_BEGIN: Final = 0x93
"""The first byte of every frame of the control protocol: a MessagePack array of three. No Kafka
response begins with this byte, because its correlation id would be negative."""
KAFKA_REQUEST_BEGIN: Final = 0x00
"""The first byte of every Kafka request: the high byte of an API key, and keys are below 256."""

_SIZE: Final = struct.Struct(">i")
_STRANGERS: Final = {
    b"\x15\x03": "the peer speaks TLS, this end plain text",
    b"\x16\x03": "the peer speaks TLS, this end plain text",
    b"GE": "the peer speaks HTTP",
    b"HT": "the peer speaks HTTP",
    b"PO": "the peer speaks HTTP",
    b"PU": "the peer speaks HTTP",
}
"""The first two bytes of TLS records and HTTP messages, with the text for each."""
_NOTHING: Final = memoryview(bytearray())


class FrameReader:
    """The receiving half of one connection.

    `get_buffer` returns room to receive into; `feed` takes the number of bytes received and yields
    the whole frames. A frame is valid until the next `get_buffer`.
    """

    __slots__ = (
        "_buffer",
        "_end",
        "_given",
        "_on_resized",
        "_quiet_reads",
        "_start",
        "is_filled",
        "max_frame",
    )

    def __init__(self, max_frame_bytes: int, on_resized: Callable[[], None] = lambda: None) -> None:
        """Read frames whose size, without its prefix, is at most `max_frame_bytes`.

        `on_resized` is called when `capacity` has changed.
        """
        self.max_frame = max_frame_bytes
        """The most bytes of a frame; the owner may raise this once it knows the peer better."""
        self.is_filled = False
        """True if an incomplete frame fills the buffer, which the next `get_buffer` then enlarges.
        The value is reliable only after all whole frames were taken."""
        self._on_resized = on_resized
        self._buffer = _NOTHING
        self._start = 0  # first byte not given out
        self._end = 0  # first byte not received
        self._quiet_reads = 0
        self._given: list[bytearray] = []

    @property
    def capacity(self) -> int:
        """The size of the buffer in bytes."""
        return len(self._buffer)

    @property
    def buffered(self) -> int:
        """Bytes received that `frames` has not yet yielded."""
        return self._end - self._start

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return room for at least one byte; frames that were yielded before become invalid."""
        waiting = self._end - self._start
        if waiting == 0:
            if self._end == 0 and self._buffer:
                return self._buffer
            return self._start_over()
        missing = self._frame_size() - waiting
        room = len(self._buffer) - self._end
        if room == 0 or missing > room:
            room = self._make_room(waiting, missing)
        if EXACT_READ <= missing < room:
            room = missing
        return self._buffer[self._end : self._end + room]

    def feed(self, count: int) -> Iterator[memoryview]:
        """Accept `count` bytes just written into the buffer, and yield the whole frames."""
        self._end += count
        return self.frames()

    def frames(self) -> Iterator[memoryview]:
        """Yield the whole frames that were not yielded yet, without their sizes.

        Raise RemoteProtocolError for a size that is negative or above the limit, as soon as it is
        read.
        """
        while True:
            start = self._start
            if self._end - start < 4:
                return
            (size,) = _SIZE.unpack_from(self._buffer, start)
            if size < 0 or size > self.max_frame:
                why = f"frame of {size} bytes, the limit is {self.max_frame}"
                raise RemoteProtocolError(f"{why}{_stranger(size)}")
            stop = start + 4 + size
            if stop > self._end:
                self.is_filled = self._end - start == len(self._buffer)
                return
            self._start = stop
            yield self._buffer[start + 4 : stop]

    def release(self) -> None:
        """Free the buffer unless it holds bytes of a frame that was not yielded yet.

        The caller does this for connections that are idle or paused, and when memory is short.
        """
        if self._end == self._start:
            self._given.clear()
            self._start = self._end = self._quiet_reads = 0
            if self._buffer:
                self._buffer = _NOTHING
                self._on_resized()

    def keep(self, frame: memoryview) -> memoryview:
        """Return the newest frame in a form that stays valid after the next `get_buffer`.

        A small frame is copied. For a large frame the whole buffer is handed out, and reading
        continues in another buffer, if possible in one that was handed out earlier and is free
        again. So a steady stream of large frames is neither copied nor allocated. Earlier frames
        become invalid.
        """
        if len(frame) < EXACT_READ or 2 * len(frame) < len(self._buffer):
            return memoryview(bytes(frame))
        old: bytearray = self._buffer.obj  # type: ignore[assignment]
        waiting = self._end - self._start
        left = bytes(self._buffer[self._start : self._end])
        self._buffer = memoryview(self._unheld(len(old)))
        self._buffer[:waiting] = left
        self._start, self._end = 0, waiting
        self._given = [*self._given[-KEPT_FOR_REUSE + 1 :], old]
        return frame

    def _unheld(self, capacity: int) -> bytearray:
        """Return a buffer of that size: one that was handed out and is free again, or a new one."""
        for index, given in enumerate(self._given):
            if len(given) == capacity:
                try:
                    given.pop()  # refused while there is any view of it
                except BufferError:
                    continue
                given.append(0)
                return self._given.pop(index)
        return bytearray(capacity)

    def _start_over(self) -> memoryview:
        """Use the buffer from its front. It grows after a full read and shrinks if little used."""
        capacity, used = len(self._buffer), self._end
        self._start = self._end = 0
        if used == capacity < BATCHING_BUFFER:
            self._buffer = memoryview(bytearray(max(SMALLEST_BUFFER, 2 * capacity)))
            self._on_resized()
        elif used * 4 > capacity or capacity <= SMALLEST_BUFFER:
            self._quiet_reads = 0
        else:
            self._quiet_reads += 1
            if self._quiet_reads == READS_BEFORE_SHRINKING:
                self._quiet_reads = 0
                self._buffer = memoryview(bytearray(capacity // 2))
                self._on_resized()
        return self._buffer

    def _make_room(self, waiting: int, missing: int) -> int:
        """Move the incomplete frame to the front, or to a larger buffer if this one was full.

        Return the room behind the frame. Raise LocalProtocolError if whole frames were not taken.
        """
        if missing <= 0 and self._start == 0:
            raise LocalProtocolError("whole frames were not taken before reading on")
        capacity = len(self._buffer)
        full = self._end == capacity
        if self._start == 0 and not full:
            return capacity - self._end  # too small for the frame, but not yet filled
        target = self._buffer
        if full and (self._start == 0 or capacity < BATCHING_BUFFER):
            limit = max(self.max_frame + 4, BATCHING_BUFFER)
            target = memoryview(bytearray(min(2 * capacity, limit)))
        target[:waiting] = self._buffer[self._start : self._end]
        self._buffer, self._start, self._end = target, 0, waiting
        self.is_filled = False
        if len(target) != capacity:
            self._on_resized()
        return len(target) - waiting

    def _frame_size(self) -> int:
        """Return the size of the incomplete frame with its prefix; 4 until the prefix is whole."""
        if self._end - self._start < 4:
            return 4
        return int(_SIZE.unpack_from(self._buffer, self._start)[0]) + 4


def _stranger(size: int) -> str:
    """Name the protocol whose first bytes were read as a size, for an error; "" if unknown."""
    who = _STRANGERS.get(_SIZE.pack(size)[:2])
    return "" if who is None else f": {who}"
