"""UDP heartbeats: one small datagram per interval to the active controller.

They are sealed with a key of the control connection, if that connection is sealed.

They only refresh liveness, so a lost datagram does not matter. An error does not stop the sender: a
refused datagram means that the controller is down, which the TCP connection shows as well.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import asyncio_dgram

from ...protocol.control.heartbeat import Heartbeat, encode_heartbeat
from ...runtime.datagrams import opened
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...security.control_seal import datagram_tag

log = logging.getLogger(__name__)


class Heartbeats:
    """The sender: one task, one socket, aimed at one controller at a time."""

    def __init__(self, runtime: Runtime, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._heartbeat: Heartbeat | None = None
        self._sequence = 0
        self._address: tuple[str, int] | None = None
        self._tag_of: Callable[[bytes], bytes] | None = None
        self._stream: Any = None
        self._task = OwnedTask(runtime, "heartbeats")

    def identify(self, heartbeat: Heartbeat) -> None:
        """Send `heartbeat` from now on; it identifies this start of the broker."""
        self._heartbeat = heartbeat

    def aim(self, address: tuple[str, int], key: bytes | None = None) -> None:
        """Send to the controller at `address` from now on, sealed with `key` unless it is None."""
        self._tag_of = None if key is None else partial(datagram_tag, key)
        if address != self._address:
            self._address = address
            self._drop()
        self._task.start(self._run)

    async def close(self) -> None:
        """Stop sending and close the socket."""
        await self._task.stop()
        self._drop()

    async def _run(self) -> None:
        while True:
            try:
                await self._send()
            except (OSError, asyncio_dgram.TransportClosed) as error:
                log.debug("heartbeat to %s: %s", self._address, error)
                self._drop()
            await asyncio.sleep(self._interval_ms / 1000)

    async def _send(self) -> None:
        if self._heartbeat is None or self._address is None:
            return
        if self._stream is None:
            self._stream = await opened(asyncio_dgram.connect(self._address))
        self._sequence += 1
        heartbeat = replace(self._heartbeat, sequence=self._sequence)
        await self._stream.send(encode_heartbeat(heartbeat, self._tag_of))

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
