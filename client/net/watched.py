"""A connection that ends when nothing arrives although an answer is due.

A peer that was cut off, or whose packets are lost, looks like one that takes its time. TCP sends
again at ever longer intervals, so a link that heals after ten seconds may stay silent for another
ten; a new connection is heard at once. Bytes are what counts, not whole answers: a slow link that
delivers is left alone.
"""

import asyncio
from typing import Any, Final

from ...runtime.runtime import Runtime
from .connection import ConnectionOptions, KafkaConnection

SILENCE_MS: Final = 2_000
"""Beyond the time that the peer was told it may wait. Longer than any stall of a living broker."""


class WatchedConnection(KafkaConnection):
    """Gives up between one and two times its patience after the last byte."""

    patience_ms = SILENCE_MS

    def __init__(self, runtime: Runtime, address: str, options: ConnectionOptions) -> None:
        super().__init__(runtime, address, options)
        self._received = 0
        self._watch: asyncio.TimerHandle | None = None

    def buffer_updated(self, nbytes: int) -> None:
        """Count the bytes that arrive, then hand them on."""
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
        """Once per patience, not per request: something is due unless all was answered."""
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
