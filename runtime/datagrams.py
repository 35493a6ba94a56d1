"""Opens datagram sockets such that none is left open if the opening is cancelled."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any


async def opened(opening: Coroutine[Any, Any, Any]) -> Any:
    """Await `asyncio_dgram.connect` or `bind`; return the stream, or raise OSError.

    If the caller is cancelled meanwhile, the socket is opened, closed again, and then
    CancelledError is raised: uvloop 0.23 never closes a socket whose opening was cancelled, and
    then its loop may hang in close().
    """
    task = asyncio.ensure_future(opening)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            (await task).close()
        raise
