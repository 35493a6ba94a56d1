"""Server-sent events: how one is written, and the response that streams them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Send

STREAM: Final = {"X-Accel-Buffering": "no"}
"""Tells nginx to pass on a stream without buffering it."""


def event(text: str, name: str = "", retry_ms: int = 0) -> bytes:
    """Encode one event; after `retry_ms` the browser opens a stream again that has ended."""
    lines = [f"event: {name}"] if name else []
    lines += [f"retry: {retry_ms}"] if retry_ms else []
    lines += [f"data: {line}" for line in text.splitlines()]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")


class Events(StreamingResponse):
    """Streams events, and closes their generator at once when the browser disconnects."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, headers=STREAM)
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send the events until they end, or until Starlette cancels this task."""
        async with aclosing(self._events):
            await super().stream_response(send)
