"""Reads lines from a file descriptor without blocking the event loop."""

import asyncio
import os
from collections.abc import AsyncIterator

READ_BYTES = 65_536


async def read_lines(fd: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of each read, without their ends (LF or CR LF), until the end of input.

    A pipe or terminal is read when the loop reports it readable. A regular file is read directly,
    because the loop cannot watch it and reading it does not block for long.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(fd, readable.set)
    except OSError:
        readable.set()
        waits = False
    else:
        waits = True
    rest = b""
    try:
        while True:
            await readable.wait()
            data = os.read(fd, READ_BYTES)
            if waits:
                readable.clear()
            else:
                await asyncio.sleep(0)
            *lines, rest = (rest + data).split(b"\n")
            if not data and rest:
                lines, rest = [rest], b""
            if lines:
                yield [line.removesuffix(b"\r") for line in lines]
            if not data:
                return
    finally:
        if waits:
            loop.remove_reader(fd)
