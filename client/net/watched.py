"""A connection that closes itself if no byte arrives although an answer is due.

A peer whose packets are lost looks like a slow peer. TCP retransmits at ever longer intervals, so a
link that is repaired after ten seconds may stay silent for another ten, while a new connection
works immediately. Each byte that arrives counts, so that a slow connection is not closed while it
transmits.
"""

import asyncio
from typing import Any, Final

from ...runtime.runtime import Runtime
from .connection import ConnectionOptions, KafkaConnection

SILENCE_MS: Final = 2_000
"""The silence in ms after which the connection is closed while an answer is due.

It comes on top of any time that a request lets the peer wait; no live broker stalls so long.
"""


class WatchedConnection(KafkaConnection):
    """A connection that closes itself after a silence of one to two times `patience_ms`."""

    patience_ms = SILENCE_MS

    def __init__(self, runtime: Runtime, address: str, options: ConnectionOptions) -> None:
        super().__init__(runtime, address, options)
        self._received = 0
        self._watch: asyncio.TimerHandle | None = None

    def buffer_updated(self, nbytes: int) -> None:
        """Count the bytes that arrive, then process them."""
        self._received += nbytes
        super().buffer_updated(nbytes)

    def _send(
        self, message: object, version: int | None, timeout_ms: int | None, *, raw: bool
    ) -> "asyncio.Future[Any]":
        future = super()._send(message, version, timeout_ms, raw=raw)
        if self._watch is None:
            self._look_later()
        return future

    def _look_later(self) -> None:
        self._watch = self._loop.call_later(self.patience_ms / 1000, self._look, self._received)

    def _look(self, received_before: int) -> None:
        """Close the connection if no byte has come since the last look and an answer is due."""
        self._watch = None
        if not self.is_open or not self.in_flight_count:
            return
        if self._received == received_before:
            self.abort(f"silent for {self.patience_ms} ms while an answer was due")
        else:
            self._look_later()

    def _finish(self, why: str) -> None:
        super()._finish(why)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
