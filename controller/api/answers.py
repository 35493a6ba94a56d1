"""The newest answers to forwarded requests, by idempotency key, in bounded memory.

A repeated request gets the answer of the first. An answer with a retriable error is not kept,
because the repeated request is meant to try again.
"""

import asyncio
from typing import Final

from ...protocol.control.messages import ForwardedAnswer
from ...protocol.errors import ErrorCode

KEPT_COUNT_MAX: Final = 1000
KEPT_BYTES_MAX: Final = 8 << 20


class Answers:
    """The answers to recent requests, and those to requests that are still being decided."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, asyncio.Future[ForwardedAnswer]] = {}
        self._bytes = 0

    def get(self, key: bytes) -> "asyncio.Future[ForwardedAnswer] | None":
        """Return a future of the answer to the first request with this key; it may be pending.

        Return None for a new or empty key.
        """
        return self._by_key.get(key) if key else None

    def remember(self, key: bytes, answer: "asyncio.Future[ForwardedAnswer]") -> None:
        """Keep an answer for repeated requests; the oldest answers make room.

        An empty key is not kept.
        """
        if key:
            self._by_key[key] = answer
            answer.add_done_callback(lambda done: self._on_done(key, done))

    def _on_done(self, key: bytes, answer: "asyncio.Future[ForwardedAnswer]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            del self._by_key[key]
            return
        if ErrorCode(answer.result().error).retriable:
            del self._by_key[key]
            return
        self._bytes += len(answer.result().body)
        while len(self._by_key) > KEPT_COUNT_MAX or self._bytes > KEPT_BYTES_MAX:
            oldest = next(iter(self._by_key))
            if not self._by_key[oldest].done():
                return
            self._bytes -= len(self._by_key.pop(oldest).result().body)
