"""A file of checked frames, written whole and read in turns of the event loop, however large.

    frame    length u32 | crc32c u32 of the content | content, at most MOST_BYTES
    end      0 u32 | crc32c u32 of all heads before

The file is not flushed. One that is torn or damaged is known by its sums, or by its missing end.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import closing
from itertools import chain
from struct import Struct
from typing import Final

import crc32c

from ..protocol.types import Buffer
from .files import TEMPORARY, Files

MOST_BYTES: Final = 16 << 20
TURN_BYTES: Final = 1 << 20
"""The bytes after which other tasks have a turn."""
_HEAD: Final = Struct(">II")
_NO_HEADS: Final = crc32c.crc32c(b"no heads")


class DamagedFrames(Exception):
    """Raised if the file has bytes that were not written so."""


async def write_frames(files: Files, path: str, frames: Iterable[Buffer]) -> bool:
    """Replace a file by one with these frames, none of them empty.

    Return False if its directory is gone. Raise LogDirectoryFailed if the disk fails.
    """
    temporary, directory = path + TEMPORARY, path.rpartition("/")[0]
    if not files.exists(directory):
        return False
    with closing(files.open_new(temporary)) as file:
        position = turn = 0
        heads = _NO_HEADS
        for frame in chain(frames, (b"",)):
            head = _HEAD.pack(len(frame), crc32c.crc32c(frame) if frame else heads)
            heads = crc32c.crc32c(head, heads)
            size = len(head) + len(frame)
            files.write(file, [head, frame], position, size)
            position, turn = position + size, turn + size
            if turn >= TURN_BYTES:
                turn = 0
                await asyncio.sleep(0)
    if not files.exists(temporary):
        # The directory was renamed meanwhile, because the partition is deleted or moved.
        return False
    files.rename(temporary, path)
    return True


async def read_frames(files: Files, path: str) -> AsyncGenerator[memoryview, None]:
    """Yield the frames of a file, none if there is no file; raise DamagedFrames at damage.

    What was yielded before is right, but not whole.
    """
    if not files.exists(path):
        return
    with closing(files.open_to_read(path)) as file:
        position, heads = 0, _NO_HEADS
        while True:
            head = memoryview(bytearray(_HEAD.size))
            if await files.read_cold(file, head, position) < _HEAD.size:
                raise DamagedFrames(f"{path} ends at {position}")
            length, crc = _HEAD.unpack(head)
            if not length and crc == heads:
                return
            heads = crc32c.crc32c(head, heads)
            if length > MOST_BYTES:
                raise DamagedFrames(f"{path}: a frame of {length} bytes at {position}")
            frame = memoryview(bytearray(length))
            count = await files.read_cold(file, frame, position + _HEAD.size)
            if not length or count < length or crc32c.crc32c(frame) != crc:
                raise DamagedFrames(f"{path}: a damaged frame at {position}")
            yield frame
            position += _HEAD.size + length
